"""The runs of a batch as one file to train on: those that meet a condition, and what is said of the others."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.frontends.cli.main import main
from rlm_jupyter.models.scripted import ScriptedModel
from tests.runs.test_cli import cli
from tests.support import consumers, exported
from tests.support.collector import Collector
from tests.support.exported import SECRET
from tests.support.loopback import Loopback

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "traces.md").read_text()
WORDS = [{"id": f"n{n}", "word": word, "right": word.upper()} for n, word in enumerate(("one", "two", "three"))]
WORDS[1]["right"] = "another"
UPPER = f"The key is {SECRET}.\n```repl\nFINAL(context.upper())\n```"


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches of three items, of which one is wrong."""
    folder = tmp_path_factory.mktemp("batches")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for out in ("results.jsonl", "results.csv"):
            model = ScriptedModel([UPPER] * 3)
            RLM(model).batch(WORDS, prompt="Upper case?", context="word", out=out, key="id", expected="right")
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_the_good_runs_are_written_and_no_key_is_in_them(batches: Path, suffix: str) -> None:
    done = cli("export", str(batches / f"results.{suffix}"), "--where", "score >= 1")
    assert done.code == 0, done.err
    assert done.err.startswith("Written: results.sft.jsonl\nExported: 2 runs.\nRemoved: keys")
    assert [(line["answer"], line["score"]) for line in lines("results.sft.jsonl")] == [("ONE", 1.0), ("THREE", 1.0)]
    assert SECRET not in Path("results.sft.jsonl").read_text()
    kept = cli("export", str(batches / f"results.{suffix}"), "--to", "sft", "--no-redact", "-o", "-")
    assert kept.out.count(SECRET) == 3


def test_each_form_is_a_line_for_each_run(batches: Path) -> None:
    results = str(batches / "results.jsonl")
    for form in ("verifiers", "atif", "otel", "jsonl"):
        assert cli("export", results, "--to", form, "--output", f"{form}.jsonl").code == 0
    episodes = [consumers.Episode.model_validate(line) for line in lines("verifiers.jsonl")]
    assert [episode.traces[0].rewards["score"].score for episode in episodes] == [1.0, 0.0, 1.0]
    assert [consumers.Atif.model_validate(line).extra["score"] for line in lines("atif.jsonl")] == [1.0, 0.0, 1.0]
    assert len(lines("otel.jsonl")) == 3
    assert sum(line["type"] == "metadata" for line in lines("jsonl.jsonl")) == 3


def test_they_are_sent_as_traces(batches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        done = cli("export", str(batches / "results.jsonl"), "--to", "otel", "--where", "key == 'n0'")
    assert done.err.startswith(f"Sent: 4 spans to {collector.url}\nExported: 1 run.\n"), done.err
    assert len({span.trace_id for span in collector.spans}) == 1


def cut_off(row: dict[str, Any]) -> None:
    """Leave of a run's copy what there is of one that has not ended."""
    notebook = Path("copy") / row["path"]
    journal = notebook.with_suffix(".rlm") / "journal.jsonl"
    journal.write_text("".join(f"{line}\n" for line in journal.read_text().splitlines()[:-1]))
    notebook.unlink()


def test_rows_without_a_run_and_runs_without_an_end_are_counted(batches: Path) -> None:
    shutil.copytree(batches, "copy")
    rows = lines("copy/results.jsonl")
    cut_off(rows[0])
    shutil.rmtree(Path("copy") / Path(rows[1]["path"]).with_suffix(".rlm"))
    (Path("copy") / rows[1]["path"]).unlink()
    done = cli("export", "copy/results.jsonl", "--to", "sft")
    assert done.code == 0, done.err
    assert done.err.endswith("Left out: 1, each of which has not ended.\nLeft out: 1, each of which has no run.\n")
    assert [line["answer"] for line in lines("results.sft.jsonl")] == ["THREE"]
    none = cli("export", "copy/results.jsonl", "--to", "atif", "--where", "key == 'n0'")
    assert (none.code, none.err) == (2, "jupyter rlm: None of the runs can be exported: 1 has not ended.\n")
    cut_off(rows[2])
    none = cli("export", "copy/results.jsonl", "--to", "atif", "--where", "key in ('n0', 'n2')")
    assert (none.code, none.err) == (2, "jupyter rlm: None of the runs can be exported: each of 2 has not ended.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RUN", "--to", "nope"], "--to nope: there is ipynb, html, jsonl, otel, atif, verifiers and sft"),
        (["RUN", "--where", "score > 1"], "--where is for the results of a batch: "),
        (["RUN", "--to", "sft", "-o", "x.html"], "x.html is no name for a file of the form sft"),
        (["RESULTS", "--where", "scoer > 1"], "--where names scoer, which is no column: there are key, row, answer"),
        (["RESULTS", "--where", "score >"], "--where 'score >' is no condition on columns"),
        (["RESULTS", "--where", "score > 7"], "None of the 3 rows of RESULTS meets --where score > 7."),
        (["RESULTS", "--to", "html"], "--to html is for one run: several are written as jsonl, otel, atif, verifiers"),
        (["RESULTS", "-o", "RESULTS"], "RESULTS is what is exported, which stays as it is."),
        (["no.jsonl"], "no.jsonl can't be read: No such file or directory."),
        (["mine.jsonl"], "mine.jsonl is no file of results that a batch has written."),
        (["torn.jsonl"], "torn.jsonl is no file of results that a batch has written."),
        (["empty.csv"], "There are no items"),
        (
            ["killed.ipynb", "--to", "sft"],
            "killed has not ended, so it is nothing to train on: resume it, or wait for its end.",
        ),
        (["killed.ipynb", "--to", "verifiers"], "killed has not ended, so it is nothing to train on"),
        (["killed.ipynb", "--to", "atif"], "killed has not ended, so it is nothing to train on"),
    ],
)
def test_what_is_wrong_is_one_line(batches: Path, words: list[str], said: str) -> None:
    Path("mine.jsonl").write_text('{"a": 1}\n')
    Path("torn.jsonl").write_text('{"a": \n')
    Path("empty.csv").write_text("")
    saved = ROOT / "tests" / "support" / "saved_runs"
    shutil.copytree(saved, ".", dirs_exist_ok=True)
    names = {"RUN": "answered.ipynb", "RESULTS": str(batches / "results.jsonl")}
    done = cli("export", *(names.get(word, word) for word in words))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert said.replace("RESULTS", names["RESULTS"]) in done.err


def test_the_commands_of_the_docs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    exported.make(Path("run.ipynb"))
    Path("questions.jsonl").write_text('{"question": "How long?", "text": "soup", "right": 4}\n')
    commands = re.findall(r"^((?:OTEL\S+ )?jupyter rlm .*)$", PAGE, re.M)
    with Loopback(["```repl\nFINAL(len(context))\n```"]) as server, Collector() as collector:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("RLM_MODEL", "openai/gpt-5.4-mini")
        for command in commands:
            before, _, verb = command.partition("jupyter rlm ")
            name, _, value = before.strip().partition("=")
            with pytest.MonkeyPatch.context() as patch:
                if name:
                    patch.setenv(name, value.replace("http://localhost:4318", collector.url))
                assert main([word.replace("RUN", "run.ipynb") for word in shlex.split(verb, comments=True)]) == 0, verb
    assert len(commands) == 11
    assert {path.name for path in Path().iterdir() if path.is_file()} == {
        "run.ipynb",
        "questions.jsonl", "results.jsonl", "results.sft.jsonl", "all.jsonl", "results.atif.jsonl", "traces.jsonl",
        "run.sft.jsonl", "run.verifiers.jsonl", "run.atif.json", "run.otel.jsonl", "trace.jsonl",
    }  # fmt: skip
    assert len(collector.spans) == 22
