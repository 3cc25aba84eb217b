"""What a killed host leaves is removed by the next run of the same user, and nothing that somebody still uses is."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.kernel import directory as place
from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.templates import Templates, are_possible
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import atomic
from rlm_jupyter.types.errors import KernelStartError
from tests.faults.runs import block

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files that are in use can't be told there")
_ROOT = Path(__file__).parents[2]
STOPS_AT = """
import pathlib, shutil, sys
from rlm_jupyter.kernel import directory as place
place._sweep_once = lambda base: None
made = place.KernelDirectory() if {removes} else None
def halt(*arguments, **options):
    path = arguments[0]
    if {when}:
        print("there", flush=True)
        sys.stdin.readline()
    return function(*arguments, **options)
function = {function}
{function} = halt
if made is None:
    made = place.KernelDirectory()
    print("made", flush=True)
    sys.stdin.readline()
made.remove()
print("removed", flush=True)
"""
"""A host that halts before it calls a function."""
RUNS = """
import sys, threading
from pathlib import Path
from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
def told(event):
    if type(event).__name__ == "ReplyReceived":
        print("running", flush=True)
RLM(ScriptedModel(["```repl\\n" + sys.argv[2] + "\\n```"]), save=Path(sys.argv[1])).completion("What?", on_event=told)
for thread in threading.enumerate():
    if thread.name == "rlm_jupyter sweep":
        thread.join()
"""
WRITES = """
import sys
from pathlib import Path
from rlm_jupyter.record import atomic
def buffers():
    yield b"half"
    print("writing", flush=True)
    sys.stdin.readline()
    yield b" and whole"
atomic.replace(Path(sys.argv[1]), buffers(), sync=False, staging=Path(sys.argv[2]))
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


def tree(folder: Path) -> dict[str, tuple[int, int, float, bytes | str]]:
    """All that is in a folder: kind and rights, owner, time of change, content."""

    def content(path: Path) -> bytes | str:
        if path.is_symlink():
            return str(path.readlink())
        return path.read_bytes() if path.is_file() else ""

    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_mtime, content(path))
        for path in folder.rglob("*")
    }


def gone() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def marker_of(entry: str, pid: int, started: float = 1_000.0) -> str:
    """What stands in a marker."""
    return f"{place._FORMAT}\n{json.dumps({'entry': entry, 'pid': pid, 'started': started})}\n"


def leftover(folder: Path, name: str = "deadbeef") -> tuple[Path, Path]:
    """The directory of a host that is gone, and its marker."""
    entry, marker = folder / name, folder / f"{name}.owner"
    (entry / "tmp").mkdir(parents=True)
    (entry / "tmp" / "x").write_text("x")
    marker.write_text(marker_of(name, gone()))
    return entry, marker


@pytest.fixture
def uid() -> int:
    """Of another user, whom only root can give a file to."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    return 12_345


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where kernels have their directories."""
    template_pool.current().close()  # a kernel that waits may be on its way, and would have its directory there
    base = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    monkeypatch.setenv("TMPDIR", str(base))
    yield base
    shutil.rmtree(base)


STAGES = {
    "before it makes the directory": ("pathlib.Path.mkdir", "path.parent.name.startswith('rlm_jupyter-')", 0),
    "before it fills the directory": ("pathlib.Path.mkdir", "path.name == 'run'", 0),
    "before it removes the directory": ("shutil.rmtree", "True", 1),
    "before it removes the marker": ("pathlib.Path.unlink", "path.name.endswith('.owner')", 1),
}
"""What a host is about to do, when, and the number of its `remove`s by then."""


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_killed_host_leaves_is_swept_once_it_is_gone(stage: str, base: Path) -> None:
    function, when, removes = STAGES[stage]
    with process(STOPS_AT.format(function=function, when=when, removes=removes)) as host:
        assert line(host) == "there"
        place.sweep(str(base))
        folder = base / f"rlm_jupyter-{os.getuid()}"
        left = list(folder.iterdir())
        assert left
        host.kill()
        host.wait()
        place.sweep(str(base))
        assert not list(folder.iterdir())


def test_a_directory_is_its_hosts_from_first_to_last(base: Path) -> None:
    with process(STOPS_AT.format(function="pathlib.Path.chmod", when="True", removes=0)) as host:
        assert line(host) == "made"
        [marker] = base.glob("*/*.owner")
        old(marker.with_suffix(""))
        place.sweep(str(base))
        assert sorted(path.name for path in marker.with_suffix("").iterdir()) == ["run"]
        assert marker.exists()
        go_on(host)
        assert line(host) == "removed"
        assert not list(base.glob("*/*"))


def test_the_sweep_follows_no_link_and_takes_what_the_code_has_left(base: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "r.csv").write_text("x")
    with process(STOPS_AT.format(function="pathlib.Path.chmod", when="True", removes=0)) as host:
        assert line(host) == "made"
        [run] = base.glob("*/*/run")
        (run / "link").symlink_to(tmp_path / "mine", target_is_directory=True)
        (run / "file").hardlink_to(tmp_path / "mine" / "r.csv")
        os.mkfifo(run / "pipe")
    place.sweep(str(base))
    assert not run.parent.exists()
    assert (tmp_path / "mine" / "r.csv").read_text() == "x"


def test_two_that_sweep_at_once_and_one_that_starts_do_each_other_no_harm(base: Path) -> None:
    for _ in range(5):
        with process(STOPS_AT.format(function="pathlib.Path.chmod", when="True", removes=0)) as host:
            assert line(host) == "made"
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        sweeps = [threads.submit(place.sweep, str(base)) for _ in range(50)]
        made = [KernelDirectory() for _ in range(20)]
        for sweep in sweeps:
            sweep.result()
    assert {path.name for path in base.glob("*/*") if path.is_dir()} == {place.path.name for place in made}
    for one in made:
        assert sorted(path.name for path in one.path.iterdir()) == ["run"]
        one.remove()
    assert not list(base.glob("*/*"))


def test_a_name_that_is_taken_stays_with_whoever_has_it(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["aaaaaaaa", "bbbbbbbb", "cccccccc"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(names))
    folder = base / f"rlm_jupyter-{os.getuid()}"
    (folder / "aaaaaaaa").mkdir(parents=True)
    (folder / "aaaaaaaa" / "r.csv").write_text("x")
    folder.chmod(0o700)
    (folder / "bbbbbbbb.owner").write_text("x")
    mine = KernelDirectory()
    assert mine.path.name == "cccccccc"
    mine.remove()
    assert {path.name for path in folder.rglob("*")} == {"aaaaaaaa", "r.csv", "bbbbbbbb.owner"}


@pytest.mark.parametrize("shape", ["a file", "a link", "open to others", "another user's"])
def test_a_folder_that_is_not_ours_alone_is_refused_in_a_line_and_stays(
    shape: str, base: Path, tmp_path: Path, uid: int
) -> None:
    folder = base / f"rlm_jupyter-{os.getuid()}"
    tmp_path.chmod(0o700)
    if shape == "a file":
        folder.write_text("mine")
    elif shape == "a link":
        folder.symlink_to(tmp_path, target_is_directory=True)
    else:
        folder.mkdir(mode=0o700)
    leftover(folder if folder.is_dir() else tmp_path)
    if shape == "open to others":
        folder.chmod(0o755)
    elif shape == "another user's":
        os.chown(folder, uid, -1)
    before = tree(base), tree(tmp_path)
    with pytest.raises(KernelStartError, match="Remove it, or set TMPDIR to another folder") as error:
        KernelDirectory()
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    place.sweep(str(base))
    assert (tree(base), tree(tmp_path)) == before


def test_a_long_place_for_temporary_files_is_not_taken(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets' paths would be too long."""
    deep = base / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    mine = KernelDirectory()
    mine.remove()
    assert mine.path.is_relative_to("/tmp")
    assert not list(deep.iterdir())


def test_the_next_host_removes_what_a_killed_run_left(base: Path, tmp_path: Path) -> None:
    """With a real kernel, from one end to the other."""
    host = subprocess.Popen(
        [sys.executable, "-c", RUNS, str(tmp_path / "first.ipynb"), "print('there', flush=True); import time; time.sleep(600)"],
        stdout=subprocess.PIPE, text=True, cwd=_ROOT,
    )  # fmt: skip
    with host:
        assert line(host) == "running"
        host.kill()
    assert len(list(base.glob("rlm_jupyter-*/*"))) == (4 if are_possible() else 2)  # the kernel's, its template's
    mine = base / "rlm-thesis"
    mine.mkdir()
    (mine / "r.csv").write_text("x")
    old(mine)
    subprocess.run([sys.executable, "-c", RUNS, str(tmp_path / "second.ipynb"), "FINAL(1)"], check=True, cwd=_ROOT)
    assert not list(base.glob("rlm_jupyter-*/*"))
    assert (mine / "r.csv").read_text() == "x"


def test_a_file_half_written_is_swept_once_its_process_is_gone(tmp_path: Path) -> None:
    staging = tmp_path / "run.rlm" / atomic.STAGING
    (tmp_path / "run.rlm" / "objects").mkdir(parents=True)
    for target in (tmp_path / "run.ipynb", tmp_path / "run.rlm" / "objects" / "abc"):
        with process(WRITES, str(target), str(staging)) as writer:
            assert line(writer) == "writing"
            [half] = staging.glob("*.tmp")
            old(half)
            atomic.sweep(tmp_path)
            assert half.exists()  # somebody is at it
            go_on(writer)
            assert line(writer) == "written"
        assert target.read_bytes() == b"half and whole"
        with process(WRITES, str(target), str(staging)) as writer:
            assert line(writer) == "writing"
            [half] = staging.glob("*.tmp")
        atomic.sweep(tmp_path)
        assert half.exists()  # too fresh to tell
        old(half)
        atomic.sweep(tmp_path)
        assert not staging.exists()
        assert target.read_bytes() == b"half and whole"


def test_no_file_of_the_users_is_taken_for_one_half_written(tmp_path: Path, uid: int) -> None:
    name = "0123456789abcdef.tmp"
    marked = [tmp_path / f"{one}.rlm" / atomic.STAGING for one in ("a", "b", "c", "other")]
    for staging in marked:
        staging.mkdir(parents=True)
        (staging / atomic._MARKER).write_bytes(atomic._FORMAT)
        (staging / name).touch()
    left = marked[0] / name
    decoys = [
        tmp_path / f".{name}",
        tmp_path / name,
        tmp_path / "a.rlm" / f".{name}",
        tmp_path / "a.rlm" / "objects" / f".{name}",
        tmp_path / atomic.STAGING / name,
        tmp_path / "folder" / atomic.STAGING / name,
        tmp_path / "unmarked.rlm" / atomic.STAGING / name,
        marked[0] / "notes.tmp",
        marked[0] / f".{name}",
        marked[0] / f"{name}.csv",
    ]
    for path in decoys:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    (marked[1] / atomic._MARKER).write_bytes(atomic._FORMAT[:-2])
    (marked[2] / atomic._MARKER).unlink()
    (marked[2] / atomic._MARKER).symlink_to(marked[0] / atomic._MARKER)
    os.chown(marked[3] / name, uid, -1)
    (marked[0] / ("1" * 16 + ".tmp")).symlink_to(tmp_path / name)
    (marked[0] / ("2" * 16 + ".tmp")).mkdir()
    (tmp_path / "link.rlm").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / atomic._MARKER).write_bytes(atomic._FORMAT)
    (tmp_path / "elsewhere" / name).write_text("mine")
    (tmp_path / "link.rlm" / atomic.STAGING).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    for path in tmp_path.rglob("*"):
        if not path.is_symlink():
            old(path)
    before = tree(tmp_path)
    atomic.sweep(tmp_path)
    after = tree(tmp_path)
    assert not left.exists()  # or nothing was looked at
    before.pop(str(left.relative_to(tmp_path)))
    for whole in (before, after):
        whole.pop(str(marked[0].relative_to(tmp_path)))  # its time of change is another now
    assert after == before


async def test_the_next_run_sweeps_its_folder(tmp_path: Path) -> None:
    target = tmp_path / "killed.ipynb"
    staging = tmp_path / "killed.rlm" / atomic.STAGING
    staging.parent.mkdir()
    with process(WRITES, str(target), str(staging)) as writer:
        assert line(writer) == "writing"
    [half] = staging.glob("*.tmp")
    old(half)
    mine = tmp_path / f".{half.name}"
    mine.write_text("mine")
    old(mine)
    await RLM(ScriptedModel([block("FINAL(len(context))")]), save=tmp_path / "run.ipynb").acompletion(
        "What?", "x" * 100_000
    )
    until = time.monotonic() + 30
    while staging.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not staging.exists()
    assert mine.read_text() == "mine"
    assert {path.name for path in (tmp_path / "run.rlm").iterdir()} == {"journal.jsonl", "objects"}


@pytest.mark.parametrize("link", [False, True])
def test_a_notebook_whose_place_is_elsewhere_is_written_there(link: bool, tmp_path: Path) -> None:
    """A file of another disk can't be renamed to it."""
    (tmp_path / "run.rlm").mkdir()
    (tmp_path / "real").mkdir()
    target = (tmp_path if not link else tmp_path / "real") / "run.ipynb"
    target.write_text("old")
    if link:
        (tmp_path / "here").mkdir()
        (tmp_path / "here" / "run.ipynb").symlink_to(target)
    path = tmp_path / "here" / "run.ipynb" if link else target
    atomic.replace(path, [b"new"], staging=path.parent / "run.rlm" / atomic.STAGING)
    assert target.read_text() == "new"
    assert path.is_symlink() is link
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_directory_is_bounded_once_and_not_when_it_is_removed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def hold(process: int, most: int, name: str) -> Path:
        held.append(process)
        return base / name

    monkeypatch.setattr("rlm_jupyter.kernel.directory.cgroup.hold", hold)
    monkeypatch.setattr("rlm_jupyter.kernel.directory.cgroup.release", lambda group, name: True)
    one, other = KernelDirectory(), KernelDirectory()
    for _ in range(2):  # as where a task is begun again
        one.hold(1, 10)
    assert held == [1]
    assert one._group == base / one.path.name
    other.remove()
    other.hold(2, 10)
    one.remove()
    assert held == [1]
    assert not list(base.glob("*/*"))


def test_what_a_kernel_that_is_ended_still_makes_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its start is cancelled: it has not heard of that yet."""
    made = KernelDirectory()
    remove = shutil.rmtree
    late: list[Path] = []

    def meanwhile(path: Path, *, ignore_errors: bool) -> None:
        remove(path, ignore_errors=ignore_errors)
        if not late:
            late.append(path / "late")
            path.mkdir()
            late[0].touch()

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    made.remove()
    assert late
    assert not made.path.exists()
    assert not made.path.with_name(f"{made.path.name}.owner").exists()


@pytest.mark.skipif(not are_possible(), reason="kernels can't be forked here")
def test_a_kernel_makes_nothing_anew_where_its_directory_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its start is cancelled: it goes on until its supervisor has heard of that."""
    ask = Template._ask

    async def remove_and_ask(template: Template, message: bytes, fds: Callable[[int], list[int]]) -> None:
        ipython = Path(json.loads(message)["environment"]["IPYTHONDIR"])
        shutil.rmtree(ipython.parents[1])  # before it is forked: it may be faster than whoever removes this afterwards
        await ask(template, message, fds)

    monkeypatch.setattr(Template, "_ask", remove_and_ask)

    async def start() -> Path:
        template = Template(Templates().environment(None, Path.cwd(), None, NO_SANDBOX))
        try:
            kernel = await template.fork()
            assert not kernel.directory.path.exists()
            until = time.monotonic() + 30
            while kernel.process.exit_code() is None:  # it has no place for its sockets
                assert time.monotonic() < until
                await asyncio.sleep(0.01)
            left = list(kernel.directory.path.rglob("*"))
            kernel.end()
            assert not left
            return kernel.directory.path
        finally:
            template.close()

    assert not asyncio.run(start()).exists()
