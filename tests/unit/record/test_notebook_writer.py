import asyncio
import itertools
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.record import atomic
from rlm_jupyter.record.notebook import read
from rlm_jupyter.record.notebook_writer import NotebookWriter
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record
from tests.support.sample_run import FIRST, long_run, reply, sample, started


def test_a_run_begins_with_its_start(tmp_path) -> None:
    writer = NotebookWriter(tmp_path / "run.ipynb")
    with pytest.raises(RecordError, match="begins with RunStarted"):
        writer.update(reply(1, FIRST))
    writer.update(started())
    with pytest.raises(RecordError, match="second RunStarted"):
        writer.update(started())


async def test_writes_are_rare_and_the_last_state_is_written(tmp_path, monkeypatch) -> None:
    writes = []
    replace = atomic.replace

    def counted(path, pieces, **options) -> atomic.Identity:
        writes.append(time.monotonic())
        return replace(path, pieces, **options)

    monkeypatch.setattr(atomic, "replace", counted)
    writer = NotebookWriter(tmp_path / "run.ipynb", interval=0.2)
    records, began = [], time.monotonic()
    for record in long_run(5000, 1000):
        if len(writes) >= 3 or time.monotonic() - began > 30:
            break
        records.append(record)
        writer.update(record)
        writer.maybe_write()
        await asyncio.sleep(0.005)
    assert 3 <= len(writes) <= 2 + (time.monotonic() - began) / 0.2
    assert min(b - a for a, b in itertools.pairwise(writes)) >= 0.2
    await writer.close()
    assert read(writer.path) == records
    count = len(writes)
    await writer.close()
    assert len(writes) == count


async def test_what_came_last_is_written_without_being_asked_again(tmp_path) -> None:
    writer = NotebookWriter(tmp_path / "run.ipynb", interval=0.05)
    for record in sample():
        writer.update(record)
        writer.maybe_write()
        await asyncio.sleep(0)
    for _ in range(200):  # a write that took long rests for ten times as long before the next
        if writer.path.exists() and read(writer.path) == sample():
            break
        await asyncio.sleep(0.05)
    assert read(writer.path) == sample()
    await writer.close()


async def test_a_slow_disk_is_written_to_less_often(tmp_path, monkeypatch) -> None:
    writes = []

    def slow(*_, **options) -> None:
        writes.append(1)
        time.sleep(0.1)

    monkeypatch.setattr(atomic, "replace", slow)
    writer = NotebookWriter(tmp_path / "run.ipynb", interval=0.01)
    began = time.monotonic()
    writer.update(started())
    for i in range(100):
        writer.update(reply(i + 1, FIRST))
        writer.maybe_write()
        await asyncio.sleep(0.005)
    # with a rest of a second; without one it would be ten times as many
    count = len(writes)
    assert 1 <= count <= 1 + (time.monotonic() - began)
    writer.update(reply(101, FIRST))
    await writer.close()
    assert count < len(writes) <= count + 2  # another may just have begun


async def test_a_full_disk_is_logged_during_the_run_and_raised_at_its_end(tmp_path, caplog) -> None:
    (tmp_path / "file").write_text("")
    writer = NotebookWriter(tmp_path / "file" / "run.ipynb", interval=0.01)
    writer.update(started())
    writer.maybe_write()
    async with asyncio.timeout(30):
        while "behind its run" not in caplog.text:
            await asyncio.sleep(0.01)
    with pytest.raises(RecordError, match="can't be written"):
        await writer.close()


async def test_an_overtaken_write_does_not_replace_a_newer_one(tmp_path) -> None:
    writer = NotebookWriter(tmp_path / "run.ipynb")
    records = sample()
    writer.update(records[0])
    older = writer._draw()
    writer.update(records[1])
    writer.write()
    writer._replace(*older)
    assert read(writer.path) == records[:2]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def broken():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        atomic.replace(path, broken())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_mode_and_its_link(tmp_path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    atomic.replace(link, [b"new"])
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def calls_in(work: Callable[[], object]) -> int:
    """How many calls `work` makes: a measure of what it costs that no busy machine changes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_a_long_run_stays_linear(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    writer = NotebookWriter(path)

    def take(records: Iterable[Record]) -> None:
        for record in records:
            writer.update(record)

    records = list(long_run(500, 40_000))
    half = len(records) // 2
    first = calls_in(lambda: take(records[:half]))
    second = calls_in(lambda: take(records[half:]))
    assert second < first * 1.2
    writer.write()
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    writer.update(reply(501, FIRST))
    writer._draw()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "what was encoded is encoded again"


def with_notes(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> bytes:
    """Change the cells of a notebook as an editor does; returns what it has written."""
    content = json.loads(path.read_bytes())
    change(content["cells"])
    path.write_text(json.dumps(content))
    return path.read_bytes()


CHANGES: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "a cell of their own": lambda cells: cells.append(
        {"cell_type": "markdown", "id": "notes", "metadata": {}, "source": "my notes"}
    ),
    "an edited prompt": lambda cells: cells[0].update(source=["mine"]),
    "an edited source": lambda cells: next(c for c in cells if c["cell_type"] == "code").update(source="mine"),
    "an output": lambda cells: next(c for c in cells if c["cell_type"] == "code").update(
        outputs=[{"output_type": "stream", "name": "stdout", "text": ["mine"]}]
    ),
}


@pytest.mark.parametrize("again", [False, True], ids=["while it goes on", "before it is resumed"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_somebody_writes_into_the_notebook_is_kept(change, again, tmp_path, caplog) -> None:
    writer = NotebookWriter(tmp_path / "run.ipynb")
    records = sample()
    for record in records[:-2]:
        writer.update(record)
    writer.write()
    theirs = with_notes(writer.path, CHANGES[change])
    if again:
        writer = NotebookWriter(tmp_path / "run.ipynb")
        for record in records[:-2]:
            writer.update(record)
        writer.adopt()
    for record in records[-2:]:
        writer.update(record)
    writer.write()
    assert read(writer.path) == records
    assert (tmp_path / "run-edited.ipynb").read_bytes() == theirs
    assert "run.ipynb was edited: your version is saved as run-edited.ipynb." in caplog.text
    writer.write()
    assert {path.name for path in tmp_path.iterdir()} == {"run.ipynb", "run-edited.ipynb"}
    theirs = with_notes(writer.path, CHANGES[change])
    writer.write()
    assert (tmp_path / "run-edited-2.ipynb").read_bytes() == theirs


@pytest.mark.parametrize("at", range(1, len(sample()) + 1))
def test_a_notebook_that_is_only_behind_its_run_is_no_edited_one(at, tmp_path) -> None:
    """As a host leaves it that was killed; written anew by an editor, it is the same."""
    writer = NotebookWriter(tmp_path / "run.ipynb")
    for record in sample()[:at]:
        writer.update(record)
    writer.write()
    with_notes(writer.path, lambda cells: None)
    again = NotebookWriter(tmp_path / "run.ipynb")
    for record in sample():
        again.update(record)
    again.adopt()
    again.write()
    assert read(again.path) == sample()
    assert [path.name for path in tmp_path.iterdir()] == ["run.ipynb"]


def test_a_file_that_was_there_before_the_first_write_stays(tmp_path) -> None:
    writer = NotebookWriter(tmp_path / "run.ipynb")
    writer.update(started())
    writer.path.write_text("mine")
    with pytest.raises(RecordError, match="made by another program, so it is not replaced"):
        writer.write()
    assert writer.path.read_text() == "mine"


_AT_EXIT = """\
import asyncio, atexit, sys
from rlm_jupyter.record.notebook_writer import NotebookWriter
from tests.support.sample_run import sample

async def close():
    writer = NotebookWriter(sys.argv[1])
    for record in sample():
        writer.update(record)
    await writer.close()

atexit.register(lambda: asyncio.run(close()))  # where runs are closed that a second Ctrl-C has left
"""


def test_the_last_state_is_written_while_the_interpreter_exits(tmp_path) -> None:
    notebook = tmp_path / "run.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", _AT_EXIT, str(notebook)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert read(notebook) == sample()
