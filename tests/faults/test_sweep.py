"""What a killed host leaves is removed by the next run of the same user, and nothing that somebody still uses is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlm_jupyter import RLM, atomic
from rlm_jupyter.kernel import place
from rlm_jupyter.kernel.place import Place
from rlm_jupyter.models.scripted import ScriptedModel
from tests.faults.runs import block

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files that are in use can't be told there")
_ROOT = Path(__file__).parents[2]
MAKES_A_PLACE = """
import sys, time
from pathlib import Path
from rlm_jupyter.kernel import place
lock = place._lock
def slow(path):
    print(path, flush=True)
    sys.stdin.readline()
    return lock(path)
place._lock = slow
made = place.Place()
print("made", flush=True)
sys.stdin.readline()
"""
WRITES = """
import sys
from pathlib import Path
from rlm_jupyter import atomic
def buffers():
    yield b"half"
    print("writing", flush=True)
    sys.stdin.readline()
    yield b" and whole"
atomic.replace(Path(sys.argv[1]), buffers(), sync=False)
print("written", flush=True)
"""


def old(path: Path) -> None:
    os.utime(path, (time.time() - 3_600,) * 2)


@contextmanager
def process(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where kernels have their directories."""
    base = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    monkeypatch.setenv("TMPDIR", str(base))
    yield base
    shutil.rmtree(base)


def test_a_directory_that_nobody_had_signed_is_swept_once_its_host_is_gone(base: Path) -> None:
    with process(MAKES_A_PLACE) as host:
        path = Path(line(host))
        old(path)
        place.sweep(str(base))
        assert path.is_dir()  # its host is about to sign it
        host.kill()
        host.wait()
        old(path)
        place.sweep(str(base))
        assert not path.exists()


def test_a_directory_is_its_hosts_from_first_to_last(base: Path) -> None:
    with process(MAKES_A_PLACE) as host:
        path = Path(line(host))
        go_on(host)
        assert line(host) == "made"
        old(path)
        place.sweep(str(base))
        assert path.is_dir()
        assert (path / "owner").exists()
        host.kill()
        host.wait()
        place.sweep(str(base))
        assert not path.exists()


def test_a_directory_that_is_swept_as_it_is_made_is_made_anew(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tempfile.mkdtemp
    swept: list[str] = []

    def and_swept(**options: str) -> str:
        path = made(**options)
        if len(swept) < 2:
            old(Path(path))
            place.sweep(str(base))
            swept.append(path)
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", and_swept)
    mine = Place()
    assert mine.path.is_dir()
    assert len(swept) == 2
    assert [path.name for path in base.iterdir()] == [mine.path.name]
    mine.remove()


def test_a_file_half_written_is_swept_once_its_process_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "run.rlm" / "objects"
    folder.mkdir(parents=True)
    (tmp_path / ".mine.tmp").touch()
    old(tmp_path / ".mine.tmp")
    for target in (tmp_path / "run.ipynb", folder / "abc"):
        with process(WRITES, str(target)) as writer:
            assert line(writer) == "writing"
            [half] = target.parent.glob(".????????????????.tmp")
            old(half)
            atomic.sweep(tmp_path)
            assert half.exists()  # somebody is at it
            go_on(writer)
            assert line(writer) == "written"
        assert target.read_bytes() == b"half and whole"
        with process(WRITES, str(target)) as writer:
            assert line(writer) == "writing"
            [half] = target.parent.glob(".????????????????.tmp")
        atomic.sweep(tmp_path)
        assert half.exists()  # too fresh to tell
        old(half)
        atomic.sweep(tmp_path)
        assert not half.exists()
        assert target.read_bytes() == b"half and whole"
    assert (tmp_path / ".mine.tmp").exists()


async def test_the_next_run_sweeps(base: Path, tmp_path: Path) -> None:
    left = [base / "rlm-abandoned", tmp_path / f".{'0' * 16}.tmp"]
    left[0].mkdir()
    (left[0] / "k.json").touch()
    left[1].touch()
    for path in left:
        old(path)
    await RLM(ScriptedModel([block("FINAL(1)")]), save=tmp_path / "run.ipynb").acompletion("What?")
    until = time.monotonic() + 5
    while any(path.exists() for path in left) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(path.exists() for path in left)
