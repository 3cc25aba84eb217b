import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.prompts import notices
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.encoding import LARGE, decode, dump, encode, load
from rlm_jupyter.record.journal import Journal, read, read_ends, read_first, set_aside
from rlm_jupyter.record.journal_lock import is_open
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import (
    CellFinished,
    NoticeGiven,
    NoticeKind,
    RunEnded,
    RunResumed,
    RunStarted,
    SubcallSettled,
    SubcallStarted,
)
from tests.support.examples import some
from tests.support.sample_run import FIRST, cell, ended, reply, runs, sample, started, stream


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.rlm" / "journal.jsonl"


def write(path, records) -> None:
    with Journal.open(path) as journal:
        for record in records:
            journal.append(record)


@settings(deadline=None, max_examples=some(150))
@given(runs)
def test_any_record_is_the_same_after_json_and_back(records) -> None:
    for record in records:
        line = dump(encode(record))
        line.decode("utf-8")
        assert b"\n" not in line
        assert decode(load(line)) == record


def test_what_json_does_not_have_comes_back(path) -> None:
    value = {"$float": 1, "$": [float("inf"), -float("inf")], "\ud800": (text := "\\ud800\udfff \\u005c")}
    records = [started(), ended(value=value, is_json=True, answer=text)]
    write(path, records)
    json.loads(path.read_bytes().splitlines()[1], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert read(path) == records
    last = decode(load(dump(encode(ended(value=float("nan"))))))
    assert isinstance(last, RunEnded)
    assert math.isnan(last.value)


def test_a_record_is_on_disk_as_soon_as_it_is_appended(path) -> None:
    with Journal.open(path) as journal:
        for n, record in enumerate(sample(), 1):
            journal.append(record)
            assert read(path) == sample()[:n]
    assert read(path) == sample()


def test_a_journal_goes_on_where_it_ended(path) -> None:
    write(path, sample()[:5])
    write(path, sample()[5:])
    assert read(path) == sample()


@pytest.mark.parametrize(
    "torn", [b'{"record": "NoticeG', b"\x00" * 500, b"\x00" * 200_000, b'{"record": "x"}garbage\n']
)
def test_a_line_that_was_torn_off_is_left_out_and_overwritten(path, torn) -> None:
    write(path, sample()[:5])
    with path.open("ab") as file:
        file.write(torn)
    assert read(path) == sample()[:5]
    write(path, sample()[5:])
    assert read(path) == sample()


def test_a_journal_with_nothing_but_a_torn_line_begins_anew(path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"rec')
    with pytest.raises(RecordError, match="no record"):
        read(path)
    write(path, sample())
    assert read(path) == sample()


def test_damage_in_the_middle_is_an_error_with_its_line(path) -> None:
    write(path, sample())
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"{ broken\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(RecordError, match="line 4, is damaged"):
        read(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"record": "MindRead"}, "line 2.*unknown record 'MindRead'.*rlm_jupyter 0.1.0.*Upgrade"),
        ({"mood": "good"}, "line 2.*unknown field 'mood' of ReplyReceived.*rlm_jupyter 0.1.0"),
        ({"usage": {"dreams": 1}}, "line 2.*unknown field 'dreams' of Usage"),
    ],
)
def test_what_a_newer_version_wrote_is_named(path, change, match) -> None:
    write(path, sample()[:2])
    first, second = path.read_bytes().splitlines()
    path.write_bytes(first + b"\n" + json.dumps(json.loads(second) | change).encode() + b"\n")
    with pytest.raises(RecordError, match=match):
        read(path)


def test_a_newer_schema_is_refused_before_anything_is_misread(path) -> None:
    write(path, [started(version="3.1")])
    path.write_bytes(path.read_bytes().replace(b'"schema": 1', b'"schema": 2'))
    with pytest.raises(RecordError, match=r"3\.1.*schema 2.*Upgrade"):
        read(path)
    assert read_first(path) is None


def test_a_field_that_an_older_version_did_not_have_takes_its_default() -> None:
    data = encode(started())
    del data["request"]
    assert decode(data) == started(request="")
    del data["prompt"]
    with pytest.raises(RecordError, match="'prompt' of RunStarted is missing"):
        decode(data)


def test_a_record_and_a_field_that_had_another_name_are_read() -> None:
    resumed = RunResumed(3, "a", "b", {"max_iterations": 9}, "2025-01-02T00:00:00+00:00", reexecuted=True)
    data = encode(resumed)
    assert decode(data) == resumed
    data |= {"record": "RunTakenUp", "taken_up": data.pop("resumed")}
    assert decode(data) == resumed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (notices.restarted(notices.DIED_BETWEEN, ()), "died_between"),
        (notices.restarted(notices.DIED_WITHIN, ()), ""),
        (notices.EDITED.format(source="x = 1"), "edited"),
        (notices.EXITED, "exited"),
        (notices.SENT_BACK.format(policy="p"), "sent_back"),
        (
            "The user stopped the work while this cell was being executed. It was not executed again, so what x",
            "stopped",
        ),
        (notices.WRONG_FILES, "wrong_files"),
        (notices.WRONG_FORM.format(reasons="- one"), "wrong_form"),
        (notices.GO_ON, ""),
    ],
)
def test_a_notice_that_was_written_without_its_kind_is_known_by_its_text(text: str, kind: NoticeKind) -> None:
    data = encode(NoticeGiven(1, text))
    assert decode(data) == NoticeGiven(1, text)
    del data["kind"]
    assert decode(data) == NoticeGiven(1, text, kind=kind)


def test_a_large_output_is_kept_apart_once(path) -> None:
    whole = stream("z" * (LARGE + 1))
    picture = {
        "output_type": "display_data",
        "data": {"image/png": "A" * (LARGE + 1), "text/plain": "<F>"},
        "metadata": {},
    }
    failure = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t" * (LARGE + 1)]}
    records = [started(), reply(1, FIRST), *(cell(1, n, "x", (whole, picture, failure)) for n in range(2))]
    write(path, records)
    assert path.stat().st_size < 50_000
    objects = Objects.of_run(path.parent)
    assert len(list(objects.folder.iterdir())) == 3
    assert read(path) == records
    for kept in objects.folder.iterdir():
        kept.unlink()
    last = read(path)[-1]
    assert isinstance(last, CellFinished)
    assert [output["output_type"] for output in last.outputs] == ["stream", "display_data", "error"]
    assert last.outputs[1]["data"]["text/plain"].startswith("<F>\n[shortened")


def test_a_large_answer_that_is_gone_is_an_error_and_no_answer(path) -> None:
    write(path, [started(), ended(answer="a" * (LARGE + 1))])
    assert path.stat().st_size < 5_000
    assert read(path)[1] == ended(answer="a" * (LARGE + 1))
    [kept] = list(Objects.of_run(path.parent).folder.iterdir())
    kept.write_bytes(b"other")
    with pytest.raises(RecordError, match="damaged"):
        read(path)
    kept.unlink()
    with pytest.raises(RecordError, match=kept.name):
        read(path)


def test_the_ends_are_read_without_the_middle(path) -> None:
    write(path, sample())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"this is not read\n" * 10_000 + lines[-1])
    assert read_ends(path) == (sample()[0], sample()[-1])
    assert read_ends(path, b"cdcdcd") is not None
    assert read_ends(path, b"something else") is None
    assert read_first(path) == sample()[0]


@pytest.mark.parametrize("length", [10, 70_000, 600_000])
def test_the_last_record_is_found_however_long_it_is(path, length) -> None:
    records = [started(), reply(1, FIRST), ended(answer="é" * length)]
    write(path, records)
    assert read_ends(path) == (records[0], records[-1])
    write(path, [])
    assert read(path) == records


def test_a_run_that_was_killed_has_no_end(path) -> None:
    write(path, [started()])
    assert read_ends(path) == (started(), None)
    with path.open("ab") as file:
        file.write(b'{"torn')
    assert read_ends(path) == (started(), None)


def test_two_runs_do_not_write_the_same_journal(path) -> None:
    assert not is_open(path)
    with Journal.open(path):
        assert is_open(path)
        with pytest.raises(RecordError, match="still going on"):
            Journal.open(path)
    assert not is_open(path)


def test_a_journal_without_a_record_is_being_begun_or_damaged(path) -> None:
    with Journal.open(path), pytest.raises(RecordError, match="its run has only just begun, in another process"):
        read(path)
    with pytest.raises(RecordError, match="its run was ended as it began, or it is damaged"):
        read(path)


def test_a_killed_host_loses_nothing_and_leaves_no_lock(path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from rlm_jupyter.record.journal import Journal
from tests.support.sample_run import sample
journal = Journal.open(Path(sys.argv[1]))
for record in sample():
    journal.append(record)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not is_open(path)
    assert read(path) == sample()


def test_a_folder_that_is_a_file_is_an_error_in_a_line(tmp_path) -> None:
    (tmp_path / "run.rlm").write_text("")
    with pytest.raises(RecordError, match=r"journal.jsonl can't be written"):
        Journal.open(tmp_path / "run.rlm" / "journal.jsonl")
    with pytest.raises(RecordError, match="There is no"):
        read(tmp_path / "none.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_in_a_line(tmp_path) -> None:
    with Path("/dev/full").open("ab", buffering=0) as full:
        journal = Journal(full, tmp_path / "journal.jsonl", Objects(tmp_path), 0)
        with pytest.raises(RecordError, match="No space left"):
            journal.append(started())


def test_a_record_that_was_torn_by_a_full_disk_is_taken_back(path) -> None:
    import resource

    write(path, [started()])
    size = path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Journal.open(path) as journal:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
            with pytest.raises(RecordError, match="can't be written"):
                journal.append(reply(1, FIRST))
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            assert path.stat().st_size == size
            journal.append(reply(1, "another"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert read(path) == [started(), reply(1, "another")]


def test_the_version_that_wrote_is_in_the_first_line(path) -> None:
    write(path, [started(version="0.1.0")])
    first = json.loads(path.read_bytes())
    assert (first["schema"], first["version"]) == (1, "0.1.0")
    assert isinstance(read(path)[0], RunStarted)


async def test_a_subcall_is_journaled_before_its_cell_can_ask_the_next(path) -> None:
    asks = "I ask.\n```repl\nfor n in range(6): llm_query(str(n))\nFINAL(n)\n```"
    lacking = []

    def told(event) -> None:
        if isinstance(event, SubcallStarted):
            lacking.append(event.ordinal - sum(isinstance(record, SubcallSettled) for record in read(path)))

    rlm = RLM(ScriptedModel([asks], sub=str), save=path.parent.with_suffix(".ipynb"))
    await rlm.acompletion("What?", "text", on_event=told)
    assert lacking == [0] * 6


def test_a_whole_last_line_without_its_line_feed_is_kept(path) -> None:
    """Some editors remove it."""
    write(path, sample())
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert read(path) == sample()
    write(path, [reply(9, FIRST)])
    assert read(path) == [*sample(), reply(9, FIRST)]


def test_a_journal_that_is_set_aside_replaces_none_that_was_before(path) -> None:
    for number in (1, 2, 3):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"damage {number}")
        set_aside(path)
    found = {file.name: file.read_text() for file in path.parent.iterdir()}
    assert found == {
        "journal.damaged": "damage 1",
        "journal-2.damaged": "damage 2",
        "journal-3.damaged": "damage 3",
    }
    with Journal.open(path), pytest.raises(RecordError, match="still going on"):
        set_aside(path)
    assert path.exists()


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="nothing is forked there")
def test_a_process_that_was_forked_does_not_hold_the_lock(tmp_path: Path) -> None:
    writer = Journal.open(tmp_path / "journal.jsonl")
    forking = multiprocessing.get_context("fork")
    is_forked = forking.Event()

    def live_on() -> None:
        is_forked.set()
        time.sleep(60)

    child = forking.Process(target=live_on)
    child.start()
    try:
        assert is_forked.wait(30)  # it lets go of the lock as it begins
        assert is_open(tmp_path / "journal.jsonl")
        writer.close()
        assert not is_open(tmp_path / "journal.jsonl")
    finally:
        child.kill()
        child.join()
