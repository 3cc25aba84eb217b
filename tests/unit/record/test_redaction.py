"""Nothing secret is left in what is sent, and what is left is still the run."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import string
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import numpy
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rlm_jupyter.record.blobs import digest
from rlm_jupyter.record.export import WholeRun, to_html, to_jsonl, to_notebook
from rlm_jupyter.record.notebook import read, read_context
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.context import pack, unpack
from rlm_jupyter.types.events import SubcallSettled
from tests.support.examples import some
from tests.support.pace import Pace
from tests.support.sample_run import cell, ended, reply, runs, sample, started, stream, subcall


def _random(seed: int, length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    picked = random.Random(seed)
    return "7" + "".join(picked.choice(alphabet) for _ in range(length - 1))


# put together here, because a scanner of repositories would take them for real ones
HOME, USER, OWN = "/home/ada.l", "ada.l", "plain value/of+mine=42"
KEYS = {
    "openai": "sk-" + "proj-" + _random(1, 48),
    "anthropic": "sk-" + "ant-api03-" + _random(2, 80),
    "github": "gh" + "p_" + _random(3, 36),
    "github fine-grained": "github" + "_pat_" + _random(4, 60),
    "aws": "AK" + "IA" + _random(5, 16, string.ascii_uppercase + string.digits),
    "google": "AI" + "za" + _random(6, 35),
    "slack": "xo" + "xb-" + _random(7, 12, string.digits) + "-" + _random(8, 24),
    "hugging face": "h" + "f_" + _random(9, 34),
    "bearer": "abc." + _random(10, 30),
    "jwt": "eyJ" + _random(11, 20) + ".eyJ" + _random(12, 40) + "." + _random(13, 30),
    "private": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + _random(14, 64) + "\n-----END RSA " + "PRIVATE KEY-----",
    "environment": OWN,
}
WRITTEN = KEYS | {"bearer": f"Authorization: Bearer {KEYS['bearer']}"}
"""As they stand in a text."""
SECRETS = [*KEYS.values(), HOME]


def redactor() -> Redactor:
    return Redactor([OWN], home=HOME, user=USER)


def left(text: str) -> list[str]:
    """The secrets that stand in a text, also as JSON or HTML have them."""
    forms = {form: secret for secret in SECRETS for form in (secret, json.dumps(secret)[1:-1])}
    return [secret for form, secret in forms.items() if form in text or form in text.replace("&#x27;", "'")]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize(
    "around", ["{}", "key={};", '"{}"', "\\n{}\\n", "\x1b[31m{}\x1b[0m", "é{}", "(see {})", "\\x1b[31m{}"]
)
def test_a_key_is_found_wherever_it_stands(kind: str, around: str) -> None:
    clean = redactor().text(around.format(WRITTEN[kind]))
    assert left(clean) == []
    assert "[key 1]" in clean


@pytest.mark.parametrize(
    "text",
    [
        "task-20250101-abcdefghijklmnop-1", "risk-adjusted-returns-of-2024", "sk-learn-is-not-a-key-but-a-library",
        "Bearer authentication is described below", "a" * 300, "AKIA is a prefix", "eyJ is how they begin",
        "/homework/ada.l2/x", "see /home/jovyan/work and /Users/Shared/x", "ada.l wrote it", "https://example.org/home/page",
        "def5" * 16, "user@example.org", "-----BEGIN CERTIFICATE-----", "\ud800", "",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    removes = redactor()
    assert removes.text(text) == text
    assert (removes.keys, removes.people, removes.places) == (0, 0, 0)


def test_paths_lose_the_home_folder_and_the_name() -> None:
    removes = redactor()
    text = (
        f"{HOME}/a.py \x1b[32m{HOME}/b.py\x1b[0m /scratch/{USER}/c /home/bob/d C:\\\\Users\\\\Carl\\\\e file://{HOME}/f"
    )
    assert removes.text(text) == (
        "~/a.py \x1b[32m~/b.py\x1b[0m /scratch/[user 1]/c /home/[user 2]/d C:\\\\Users\\\\[user 3]\\\\e file://~/f"
    )
    assert (removes.keys, removes.people) == (0, 4)
    windows = Redactor(home="C:\\Users\\Ada", user="Ada")
    assert windows.text(r"C:\Users\Ada\x, 'C:\\Users\\Ada\\y', C:/Users/Ada/z") == r"~\x, '~\\y', ~/z"


def test_the_same_secret_has_the_same_placeholder() -> None:
    removes = redactor()
    one, two = KEYS["openai"], KEYS["github"]
    assert removes.text(f"{one} {two} {one}") == "[key 1] [key 2] [key 1]"
    assert removes.value({"a": [two], one: 1}) == {"a": ["[key 2]"], "[key 1]": 1}
    assert (removes.keys, removes.places) == (2, 5)
    encoded = OWN.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D").replace(" ", "%20")
    assert removes.text(f"{OWN} ?q={encoded}") == "[key 3] ?q=[key 3]"


def test_the_keys_of_the_environment_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTKEY_API_KEY", "no/known/shape")
    monkeypatch.setenv("OLLAMA_API_KEY", "ollama")  # what its server takes as well
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("PORTKEY_VIRTUAL_KEY", "my-virtual-provider")
    monkeypatch.setenv("PORTKEY_PROVIDER", "@a-provider-of-mine")
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("LOGNAME", USER)
    text = f"ollama/qwen no/known/shape 0123456789abcdef my-virtual-provider @a-provider-of-mine {HOME}/x /tmp/{USER}"
    monkeypatch.setenv("PORTKEY_API_KEY", "no/known/shape/at/all")
    assert Redactor.of_environment().text(text.replace("/shape ", "/shape/at/all ")) == (
        "ollama/qwen [key 1] [key 2] [key 3] @a-provider-of-mine ~/x /tmp/[user 1]"
    )


def test_a_part_that_was_cut_off_goes_too() -> None:
    key = KEYS["anthropic"]
    records: list[Any] = [
        started(prompt=f"Use {key[:30]}", run_id=f"2026-use-{key[:28].lower()}-abc123"),
        reply(1, f"```repl\nprint('{key}')\n```"),
        cell(1, 0, f"print('{key}')", (stream(f"…{key[-25:]}\nnot shown: {key[:40]}"),)),
        subcall(1, 0, 0, prompt_head=f"x {key[:50]}", prompt_chars=5000),
        ended(answer="done"),
    ]
    run = WholeRun(Trajectory(records)).redacted(removes := redactor())
    text = to_notebook(run).decode()
    assert not any(key[at : at + 8] in text for at in range(len("sk-ant-api03-"), len(key) - 8))
    assert key[13:22].lower() not in run.trajectory.run_id
    assert run.trajectory.started.prompt == "Use [key 1]"
    assert removes.keys == 1


@pytest.mark.parametrize("words", ["sk-learn-pipelines-explained", "what-is-sk-ant-redacted"])
def test_words_make_no_key_with_the_end_of_a_runs_id(words: str) -> None:
    run_id = f"20310102-101500-{words}-4725a6"
    run = WholeRun(Trajectory([started(prompt=words, run_id=run_id), ended(answer=words)])).redacted(
        clean := redactor()
    )
    assert (run.trajectory.run_id, run.trajectory.started.prompt) == (run_id, words)
    assert (clean.keys, clean.places) == (0, 0)


def test_a_key_that_stands_in_an_id_alone_is_counted() -> None:
    key = "sk-" + "proj-" + _random(15, 26).lower()
    run = WholeRun(Trajectory([started(run_id="below", parent=f"20310102-101500-{key}-4725a6"), ended(answer="done")]))
    parent = run.redacted(clean := redactor()).trajectory.started.parent
    assert parent == "20310102-101500-key1-4725a6"
    assert (clean.keys, clean.places) == (1, 1)


def planted(value: Any, put: Any) -> Any:
    """The value with `put` applied to each text in it."""
    if isinstance(value, str):
        return put(value)
    if isinstance(value, dict):
        return {key: planted(item, put) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(planted(item, put) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in fields(value) if f.name not in {"kind", "status", "finish", "stop_reason", "started"}]
        return replace(value, **{name: planted(getattr(value, name), put) for name in names})
    return value


def plant(records: list[Any], picked: random.Random) -> list[Any]:
    words = [*WRITTEN.values(), f"{HOME}/notes.txt"]

    def put(text: str) -> str:
        if text in {"stream", "stdout", "stderr", "display_data", "execute_result", "error"} or picked.random() < 0.5:
            return text
        at = picked.randrange(len(text) + 1)
        return f"{text[:at]} {picked.choice(words)} {text[at:]}"

    return [planted(record, put) for record in records]


# to shrink a failure would take minutes, and the seed shows it as well
@settings(
    max_examples=some(40),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(runs, st.integers(), st.text(max_size=40))
def test_no_export_of_any_run_holds_a_planted_secret(records: list[Any], seed: int, text: str) -> None:
    picked = random.Random(seed)
    records = plant([replace(records[0], started="2026-01-02T03:04:05+00:00"), *records[1:]], picked)
    context = pack(f"{text} {picked.choice([*WRITTEN.values()])} {HOME}/x")
    child = WholeRun(Trajectory(plant([started(run_id="child", parent="x"), *sample()[1:]], picked)), context)
    run = WholeRun(Trajectory(records), context, (child,))
    before = to_notebook(run)
    clean = run.redacted(redactor())
    exported = to_notebook(clean)
    for form in (exported.decode(), to_jsonl(clean), to_html(clean)):
        assert left(form) == []
    assert to_notebook(run) == before, "the run itself was touched"
    assert [left(str(one.context and b"".join(one.context.buffers))) for one in clean] == [[], []]
    assert to_notebook(run.redacted(redactor())) == exported, "not the same twice"


def test_a_clean_notebook_is_valid_and_gives_its_records_back(tmp_path: Path) -> None:
    for seed in range(5):
        run = WholeRun(Trajectory(plant(sample(), random.Random(seed))), pack(f"{HOME} {KEYS['aws']}"))
        clean = run.redacted(redactor())
        path = tmp_path / f"{seed}.ipynb"
        path.write_bytes(to_notebook(clean))
        nbformat.validate(nbformat.read(path, as_version=4))
        assert tuple(read(path)) == clean.trajectory.records
        for old, new in zip(run.trajectory.iterations, clean.trajectory.iterations, strict=True):
            assert (new.reply.read is None) == (old.reply.read is None)
            assert [cell.block for cell in new.cells] == [cell.block for cell in old.cells]
        kept = read_context(path)
        assert kept is not None
        assert re.fullmatch(r"~ \[key \d+\]", unpack(kept))
        assert kept.info.sha256 == digest(kept.buffers)
        assert left(path.read_text()) == []
        assert left(to_notebook(run).decode())


def test_what_counts_of_a_reply_still_ends_at_the_same_place() -> None:
    head, rest = f"Here is {KEYS['openai']}.", f" And {HOME}/x."
    run = WholeRun(Trajectory([started(), reply(1, head + rest, read=len(head))])).redacted(redactor())
    new = run.trajectory.iterations[0].reply
    assert (new.text[: new.read], new.text) == ("Here is [key 1].", "Here is [key 1]. And ~/x.")


def test_an_answer_is_still_found_by_its_prompt() -> None:
    import hashlib

    prompt = f"What is {KEYS['slack']}?"
    short = subcall(1, 0, 0, prompt_head=prompt, prompt_chars=len(prompt))
    asked = subcall(1, 0, 1, prompt_head=prompt[:9], prompt_chars=len(prompt), child="below")
    kept = subcall(1, 0, 2, prompt_head=prompt[:9], prompt_chars=len(prompt), prompt=prompt)
    unknown = subcall(1, 0, 3, prompt_head=prompt[:9], prompt_chars=len(prompt))
    child = WholeRun(Trajectory([started(run_id="below"), *sample()[1:]]), pack(prompt))
    run = WholeRun(Trajectory([started(), reply(1, "x"), short, asked, kept, unknown]), None, (child,))
    calls = [record for record in run.redacted(redactor()).trajectory.records if isinstance(record, SubcallSettled)]
    expected = hashlib.sha256(b"What is [key 1]?").hexdigest()
    assert [call.prompt_sha256 == expected for call in calls] == [True, True, True, False]
    assert calls[3].prompt_sha256 == unknown.prompt_sha256


class Bomb:
    def __reduce__(self) -> Any:
        return os.system, ("touch exploded",)


def contexts() -> dict[str, Any]:
    key = KEYS["anthropic"]
    rows = ["alice", key, f"{HOME}/documents/x", "bob"]
    return {
        "data": {"a": key, "b": [f"{HOME}/{key}", "é\ud800", None], key: 1},
        "bytes": b"\xff\x00 " + key.encode(),
        "text bytes": f"é {key}".encode(),
        "pandas": pd.DataFrame({"a": rows, "n": range(4)}),
        "pandas objects": pd.DataFrame({"a": pd.Series(rows, dtype=object)}),
        "polars": pl.DataFrame({"a": rows}),
        "numpy": numpy.array(rows),
    }


@pytest.mark.parametrize("kind", contexts())
def test_a_context_of_any_kind_is_clean_and_can_be_loaded(kind: str) -> None:
    value = contexts()[kind]
    packed = pack(value)
    clean = redactor().context(packed)
    raw = b"".join(clean.buffers)
    for secret in (KEYS["anthropic"], HOME):
        for encoding in ("utf-8", "utf-32-le"):
            assert secret.encode(encoding) not in raw
    assert (clean.info.sha256, clean.info.nbytes) == (digest(clean.buffers), len(raw))
    loaded = unpack(clean)
    assert type(loaded) is type(value)
    assert len(loaded) == len(value) or isinstance(value, bytes)
    assert b"alice" in raw.replace(b"\0", b"") or kind in {"data", "bytes", "text bytes"}
    if kind == "data":
        assert loaded == {"a": "[key 1]", "b": ["~/[key 1]", "é\ud800", None], "[key 1]": 1}
    elif kind == "polars":
        assert loaded["a"].to_list()[0::3] == ["alice", "bob"]


def test_no_pickle_is_loaded_to_be_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    packed = replace(pack([1]), buffers=(pickle.dumps([Bomb(), KEYS["github"]]),))
    clean = redactor().context(packed)
    assert KEYS["github"].encode() not in clean.buffers[0]
    assert not Path("exploded").exists()
    pickle.loads(clean.buffers[0])
    assert Path("exploded").exists(), "it was one"


def test_a_picture_stays_a_picture() -> None:
    import base64

    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
    shown = {"image/png": base64.b64encode(picture).decode(), "text/plain": KEYS["jwt"]}
    removes = redactor()
    assert removes.value({"data": shown}) == {"data": shown | {"text/plain": "[key 1]"}}
    hidden = base64.b64encode(picture + KEYS["google"].encode()).decode()
    clean = base64.b64decode(removes.value({"image/png": hidden})["image/png"])
    assert KEYS["google"].encode() not in clean
    assert clean.startswith(picture)


def test_a_large_text_takes_no_time() -> None:
    import time

    text = "The quick brown fox jumps over the lazy dog, and asks the risk-averse cat.\n" * 200_000
    pace = Pace(time.process_time)
    assert redactor().text(text) == text
    assert pace.within(6)
