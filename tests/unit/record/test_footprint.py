"""What runs take on the disk, where they share files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_jupyter.record import atomic, footprint
from rlm_jupyter.record.blobs import SHARED_BYTES
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.run.context import pack

LARGE = "x" * SHARED_BYTES


@pytest.fixture
def runs(tmp_path: Path) -> list[RunFiles]:
    made = [RunFiles.create("q", tmp_path / f"{name}.ipynb") for name in "abc"]
    for files in made[:2]:
        files.objects.put_context(pack(LARGE))
    made[2].objects.put_context(pack("y"))
    for files in made:  # as a run does that ends
        atomic.remove_staging(files.folder / atomic.STAGING)
    made[0].notebook.write_text("ten bytes.")
    (made[2].folder / "link").symlink_to(made[0].notebook)
    return made


def test_a_shared_file_is_freed_with_the_last_run_that_has_it(runs: list[RunFiles]) -> None:
    a, b, c = runs
    assert [footprint.size(files) for files in runs] == [SHARED_BYTES + 10, SHARED_BYTES, 1]
    assert [footprint.freed([files]) for files in runs] == [10, 0, 1]
    assert footprint.freed([a, b, c]) == SHARED_BYTES + 11
    a.objects.path(pack(LARGE).info.sha256).unlink()
    assert footprint.freed([b]) == SHARED_BYTES


def test_a_large_context_is_told_of(runs: list[RunFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    info = pack(LARGE).info
    assert footprint.kept_context(runs[0].notebook, info) == ""
    monkeypatch.setattr(footprint, "LARGE_BYTES", SHARED_BYTES)
    assert footprint.kept_context(runs[0].notebook, info) == "Its context (1 MB) is kept once for 2 runs here."
    runs[0].objects.path(info.sha256).unlink()
    assert footprint.kept_context(runs[1].notebook, info).startswith("Its context is kept with it: 1 MB, once for all")
    assert footprint.kept_context(runs[0].notebook, info) == ""
    assert footprint.kept_context(runs[2].notebook, pack("y").info) == ""
