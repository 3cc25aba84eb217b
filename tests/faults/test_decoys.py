"""Whatever stands where kernels have their directories stays, unless its marker proves that a host of ours left it."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm_jupyter.kernel import directory as place
from rlm_jupyter.kernel.sandbox import cgroup as pids
from tests.faults.test_sweep import base, gone, leftover, marker_of, old, tree, uid

__all__ = ["base", "uid"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is swept there")
GONE = gone()


def folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "r.csv").write_text("x")


def linked(path: Path, name: str, link: Callable[[Path, Path], object]) -> None:
    real = path.with_name(f"{path.name}.real")
    real.write_text(marker_of(name, GONE))
    link(path, real)


KINDS: dict[str, Callable[[Path], object]] = {
    "a folder": folder_with_a_file,
    "an empty folder": Path.mkdir,
    "a file": lambda path: path.write_text("x"),
    "a link to a folder": lambda path: path.symlink_to("/usr"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
    "nothing": lambda path: None,
}
NAMES = ["rlm-thesis", "rlm-0a1b2c3d", "rlm_jupyter", "rlm_jupyter-x", "0a1b2c3d", ".owner", "a.b", "x.owner"]
MARKERS: dict[str, Callable[[Path, str], object]] = {
    "none": lambda path, name: None,
    "empty": lambda path, name: path.touch(),
    "of the earlier format": lambda path, name: path.write_text(""),
    "of another format": lambda path, name: path.write_text(marker_of(name, GONE).replace(" 1\n", " 2\n")),
    "of another directory": lambda path, name: path.write_text(marker_of(f"{name}2", GONE)),
    "of a process that lives": lambda path, name: path.write_text(
        marker_of(name, os.getpid(), psutil.Process().create_time())
    ),
    "of a process that is no number": lambda path, name: path.write_text(
        marker_of(name, GONE).replace(str(GONE), f'"{GONE}"')
    ),
    "of all processes": lambda path, name: path.write_text(marker_of(name, -1)),
    "of none": lambda path, name: path.write_text(marker_of(name, 0)),
    "with more fields": lambda path, name: path.write_text(marker_of(name, GONE).replace("}", ', "more": 1}')),
    "with fewer fields": lambda path, name: path.write_text(f"{place._FORMAT}\n{{}}\n"),
    "no JSON": lambda path, name: path.write_text(f"{place._FORMAT}\nmine\n"),
    "bytes": lambda path, name: path.write_bytes(bytes(range(256))),
    "a folder": lambda path, name: path.mkdir(),
    "a pipe": lambda path, name: os.mkfifo(path),
    "a link to a marker": lambda path, name: linked(path, name, Path.symlink_to),
    "with another name": lambda path, name: linked(path, name, Path.hardlink_to),
}


def a_folder(base: Path) -> Path:
    folder = base / f"rlm_jupyter-{os.getuid()}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.parametrize("aged", [False, True])
@pytest.mark.parametrize("marker", MARKERS)
def test_no_decoy_is_touched(marker: str, aged: bool, base: Path) -> None:
    folder = a_folder(base)
    for (number, kind), name in itertools.product(enumerate(KINDS), NAMES):
        if name not in {"rlm_jupyter", f"rlm_jupyter-{os.getuid()}"} and number == 0:
            KINDS[kind](base / name)
            KINDS[kind](folder / name)
        own = f"{number}{name}"
        for where in (base, folder):
            KINDS[kind](where / own)
            MARKERS[marker](where / f"{own}.owner", own)
    if aged:
        for path in base.rglob("*"):
            if not path.is_symlink():
                old(path)
    before = tree(base)
    assert len(before) > 100
    entry, _ = leftover(folder)
    place.sweep(str(base))
    assert not entry.exists()  # or nothing was looked at
    after = tree(base)
    for at in (str(folder.relative_to(base)), ""):  # whose time of change the leftover has changed
        before.pop(at, None), after.pop(at, None)
    assert after == before


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"a folder", "an empty folder", "nothing"}])
def test_what_is_no_folder_stays_beside_a_marker_that_speaks_of_one(kind: str, base: Path) -> None:
    folder = a_folder(base)
    KINDS[kind](folder / "deadbeef")
    (folder / "deadbeef.owner").write_text(marker_of("deadbeef", GONE))
    before = tree(base)
    place.sweep(str(base))
    assert tree(base) == before


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_marker_that_is_cut_off_or_changed_proves_anything(data: Any, base: Path) -> None:
    folder = base / f"rlm_jupyter-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    whole = marker_of("cafecafe", GONE).encode()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    at = data.draw(st.integers(0, len(place._FORMAT)))
    changed = whole[:at] + bytes([data.draw(st.sampled_from(sorted(set(range(256)) - {whole[at]})))]) + whole[at + 1 :]
    (folder / "cafecafe").mkdir(exist_ok=True)
    (folder / "cafecafe" / "r.csv").write_text("x")
    for content in (cut, changed, data.draw(st.binary(max_size=200))):
        (folder / "cafecafe.owner").write_bytes(content)
        place.sweep(str(base))
        assert (folder / "cafecafe" / "r.csv").exists(), content
        assert (folder / "cafecafe.owner").read_bytes() == content


def test_a_lock_keeps_a_directory_whose_host_seems_gone(base: Path) -> None:
    """As of a host in another container, whose numbers of processes are not ours."""
    entry, marker = leftover(a_folder(base))
    with marker.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        place.sweep(str(base))
        assert entry.exists()
    place.sweep(str(base))
    assert not entry.exists()
    assert not marker.exists()


def test_where_files_can_not_be_locked_nothing_is_removed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, _ = leftover(a_folder(base))

    def no_locks(*args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    place.sweep(str(base))
    assert entry.exists()


def test_a_process_that_has_the_number_of_a_host_that_is_gone_keeps_nothing(base: Path) -> None:
    entry, marker = leftover(a_folder(base))
    marker.write_text(marker_of(entry.name, os.getpid(), psutil.Process().create_time() - 60))
    place.sweep(str(base))
    assert not entry.exists()


@pytest.mark.parametrize("whose", ["the marker", "the directory"])
def test_what_another_user_has_put_there_stays(whose: str, base: Path, uid: int) -> None:
    entry, marker = leftover(a_folder(base))
    os.chown(marker if whose == "the marker" else entry, uid, -1)
    before = tree(base)
    place.sweep(str(base))
    assert tree(base) == before


def test_no_empty_folder_is_taken_for_a_cgroup(base: Path, tmp_path: Path) -> None:
    entry, marker = leftover(a_folder(base))
    for name in ("mine", f"rlm_jupyter-{entry.name}"):
        mine = tmp_path / name
        mine.mkdir()
        marker.write_text(marker_of(entry.name, GONE) + f'{{"cgroup": "{mine}"}}\n')
        place.sweep(str(base))
        assert mine.is_dir()
        assert not entry.exists()
        entry, marker = leftover(entry.parent)


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root makes cgroups")
def test_the_cgroup_of_a_killed_host_is_removed_and_no_other(base: Path) -> None:
    parent = next((parent for parent in pids._parents() if os.access(parent, os.W_OK)), None)
    if parent is None:
        pytest.skip("no cgroup can be made here")
    entry, marker = leftover(a_folder(base), name=f"t{os.getpid()}")
    other, own = parent / f"rlm_jupyter-other{os.getpid()}", parent / f"rlm_jupyter-{entry.name}"
    try:
        other.mkdir()
        own.mkdir()
    except OSError:
        pytest.skip("no cgroup can be made here")
    try:
        marker.write_text(marker_of(entry.name, GONE) + f'{{"cgroup": "{other}"}}\n')
        place.sweep(str(base))
        assert other.is_dir()
        entry, marker = leftover(entry.parent, name=entry.name)
        marker.write_text(marker_of(entry.name, GONE) + f'{{"cgroup": "{own}"}}\n')
        with subprocess.Popen(["sleep", "600"]) as inside:
            (own / "cgroup.procs").write_text(str(inside.pid))
            place.sweep(str(base))
            assert own.exists()
            assert marker.exists()  # so that a later sweep finds it
            inside.kill()
        until = time.monotonic() + 20
        while own.exists() and time.monotonic() < until:
            place.sweep(str(base))
        assert not own.exists()
        assert not marker.exists()
    finally:
        for path in (other, own):
            if path.exists():
                path.rmdir()
