"""The folder that files of a run go to: who has made it removes it again, where it is empty and nobody uses it."""

from __future__ import annotations

from pathlib import Path

from rlm_jupyter.record.target_folder import Folder


def test_the_last_run_that_uses_an_empty_folder_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first = Folder.of(path).made()
    second = Folder.of(path).made()
    first.leave()
    assert path.is_dir()  # the second is to write to it
    second.leave()
    assert path.is_dir()  # it was there when the second began: that has not made it
    third = Folder.of(tmp_path / "other").made()
    third.leave()
    assert not third.path.exists()


def test_a_folder_with_something_in_it_and_another_in_its_place_stay(tmp_path: Path) -> None:
    full, swapped = (Folder.of(tmp_path / name).made() for name in ("full", "swapped"))
    (full.path / "theirs").touch()
    full.leave()
    assert full.path.is_dir()
    swapped.path.rename(tmp_path / "before")
    swapped.path.mkdir()
    swapped.leave()
    assert swapped.path.is_dir()
    assert (tmp_path / "before").is_dir()
