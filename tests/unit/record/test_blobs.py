"""Large things of runs: kept once, also for several runs of one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlm_jupyter.record.blobs import SHARED_BYTES, Objects
from rlm_jupyter.types.errors import RecordError

LARGE = b"x" * SHARED_BYTES


def of(folder: Path, name: str) -> Objects:
    return Objects.of_run(folder / f"{name}.rlm")


def test_runs_of_one_folder_share_what_is_large_and_the_same(tmp_path: Path) -> None:
    one, two, elsewhere = of(tmp_path, "one"), of(tmp_path, "two"), of(tmp_path / "other", "three")
    sha256 = one.put(LARGE)
    assert two.put(LARGE) == elsewhere.put(LARGE) == sha256
    assert two.path(sha256).samefile(one.path(sha256))
    assert not elsewhere.path(sha256).samefile(one.path(sha256))
    # each is the run's own: the other can go
    shutil.rmtree(one.folder.parent)
    assert two.get(sha256) == LARGE


def test_what_is_small_or_not_whole_is_not_shared(tmp_path: Path) -> None:
    one, two = of(tmp_path, "one"), of(tmp_path, "two")
    small = one.put(b"small")
    two.put(b"small")
    assert not two.path(small).samefile(one.path(small))
    large = one.put(LARGE)
    one.path(large).write_bytes(LARGE[:-1])  # as a power cut leaves it
    two.put(LARGE)
    assert two.get(large) == LARGE
    two.path(large).write_bytes(LARGE[:-1] + b"y")  # of the same size
    three = of(tmp_path, "three")
    three.put(LARGE)
    assert three.get(large) == LARGE
    with pytest.raises(RecordError, match="damaged"):
        one.get(large)


def test_a_file_system_without_links_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    one, two = of(tmp_path, "one"), of(tmp_path, "two")
    sha256 = one.put(LARGE)
    two.put(LARGE)
    assert two.get(sha256) == LARGE
    assert not two.path(sha256).samefile(one.path(sha256))
