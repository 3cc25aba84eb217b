"""Disks that are full, folders that can't be written: a clear error before anything is spent, or the run goes on."""

from __future__ import annotations

import errno
import html
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.lib.pretty import pretty

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.frontends.live.result import ShownResult
from rlm_jupyter.kernel import template_pool
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import journal
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.store import FOLDER, RunFiles
from rlm_jupyter.types.errors import ConfigurationError, KernelStartError
from tests.faults.runs import Parts, block
from tests.support.examples import one_in

EARLY = 0
"""Writes before the run begins: a folder that can't be made ends it there."""
REPLIES = [
    block("print(llm_query('a'))"),
    block("print('b' * 3_000_000)"),
    block("print(llm_query('c'))", "FINAL('do' + 'ne')"),
]


async def run(save: Path | bool, model: Any = None, **options: Any) -> Result:
    rlm = RLM(model or ScriptedModel(REPLIES), limits=Limits(max_depth=2), save=save, **options)
    return await rlm.acompletion("What?", "some longer text " * 20)


class Full:
    """The disk is full from the n-th write on, for everything below a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, after: int) -> None:
        self.writes, self._after, self._folder = 0, after, str(folder)
        write, replace, mkdir = FileIO.write, Path.open, Path.mkdir

        class Writes(FileIO):
            def write(file, data: Any) -> int:  # noqa: N805
                if self._is_full():
                    write(file, bytes(data)[: len(data) // 2])  # what there was room for
                    self._fail()
                return write(file, data)

        def opened(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
            if mode == "a+b":
                return Writes(path, mode)
            if ("x" in mode or "w" in mode) and self._is_below(path) and self._is_full():
                self._fail()
            return replace(path, mode, *args, **options)

        def made(path: Path, *args: Any, **options: Any) -> None:
            if self._is_below(path) and not path.exists() and self._is_full():
                self._fail()
            mkdir(path, *args, **options)

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(Path, "mkdir", made)

    def _is_below(self, path: Path) -> bool:
        return str(path).startswith(self._folder)

    def _is_full(self) -> bool:
        self.writes += 1
        return self.writes > self._after

    def _fail(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("after", one_in(2, [0, 1, 2, 3, 5, 8, 12]))
async def test_a_disk_that_fills_up_costs_the_record_and_not_the_run(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = Parts(latency=0.0)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        Full(patch, tmp_path, after)
        if after <= EARLY:
            with pytest.raises(ConfigurationError, match="No space left on device"):
                await run(tmp_path / "run.ipynb", model)
            assert not model.requests  # before anything was spent
            return
        result = await run(tmp_path / "run.ipynb", model)
    assert (result.answer, result.stop_reason) == ("of the child", "answered")
    said = result.unsaved
    assert "without being saved" in said or "behind its run" in said
    assert "No space left on device" in said
    assert "No space left on device" in caplog.text
    assert html.escape(said) in result._repr_html_()
    files = RunFiles(tmp_path / "run.ipynb")
    if files.journal.exists() and files.journal.stat().st_size:
        journal.read(files.journal)  # what is there is whole
    if files.notebook.exists():
        nbformat.validate(nbformat.read(files.notebook, as_version=4))


FILES_OF_A_MEGABYTE = """
import asyncio, resource, sys
from pathlib import Path
from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from tests.faults.test_storage import REPLIES
async def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    rlm = RLM(ScriptedModel(REPLIES), save=Path(sys.argv[1]) / "run.ipynb")
    result = await rlm.acompletion("What?", "a context of some length " * 80_000)
    print(result.answer, result.stop_reason, "from iteration 2 on" in result.unsaved)
asyncio.run(main())
"""


def test_a_quota_of_the_system_costs_the_record_and_not_the_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILES_OF_A_MEGABYTE, str(tmp_path)],
        capture_output=True, text=True, timeout=100, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert done.stdout == "done answered True\n", done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_sync_that_fails_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fsync(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        result = await run(tmp_path / "run.ipynb")
    assert (result.answer, result.stop_reason) == ("done", "answered")
    assert "Input/output error" in caplog.text
    assert "not safe yet" in result.unsaved
    assert len(journal.read(RunFiles(tmp_path / "run.ipynb").journal)) > 8


@pytest.mark.parametrize("save", ["/proc/run.ipynb", "/dev/null/run.ipynb"])
async def test_a_folder_that_can_not_be_written_is_named_before_anything_is_spent(save: str) -> None:
    model = ScriptedModel(REPLIES)
    with pytest.raises(ConfigurationError, match=r"can't be saved in /(proc|dev/null)"):
        await run(Path(save), model)
    assert not model.requests


async def test_a_folder_that_nobody_named_and_that_can_not_be_written_costs_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FOLDER).touch()
    result = await run(True)
    assert (result.answer, result.stop_reason, result.path) == ("done", "answered", None)
    assert result.unsaved.startswith("The run is not saved: A run can't be saved in")
    assert ShownResult.of(result).unsaved in str(pretty(ShownResult.of(result)))
    assert html.escape(result.unsaved) in ShownResult.of(result)._repr_html_()
    assert not (await run(tmp_path / "elsewhere.ipynb")).unsaved


def test_the_command_line_says_what_was_not_saved(tmp_path: Path) -> None:
    (tmp_path / FOLDER).touch()
    script = tmp_path / "script.json"
    script.write_text(json.dumps([block("FINAL('done')")]))
    command = [
        sys.executable,
        "-m",
        "rlm_jupyter.frontends.cli.main",
        "run",
        "What?",
        "-m",
        f"scripted/{script}",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=True)
    said = json.loads(done.stdout)
    assert (said["answer"], said["notebook"]) == ("done", None)
    assert said["unsaved"].startswith("The run is not saved: ")
    assert said["unsaved"].rstrip(".") in done.stderr


def no_room(*args: Any, **options: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_room_in_tmp(mkdir: Callable[..., None]) -> Callable[..., None]:
    def made(path: Path, *args: Any, **options: Any) -> None:
        if path.parent.name.startswith("rlm_jupyter-"):
            no_room()
        mkdir(path, *args, **options)

    return made


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (lambda m: m.setattr(tempfile, "tempdir", "/proc"), "No private directory for the kernel could be made in /proc"),
        (lambda m: m.setattr(Path, "mkdir", no_room_in_tmp(Path.mkdir)), "No space left on device. Set TMPDIR"),
        (lambda m: m.setattr("rlm_jupyter.kernel.command._make_home", no_room), "No space left on device. Set TMPDIR"),
    ],
    ids=["unwritable", "full", "full a moment later"],
)  # fmt: skip
async def test_a_runtime_folder_that_can_not_be_written_is_named(
    patch: Callable[[pytest.MonkeyPatch], None], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(REPLIES)
    template_pool.current().close()  # a kernel that waits has its folder already
    with monkeypatch.context() as patched:
        patch(patched)
        with pytest.raises(KernelStartError, match=says):
            await run(tmp_path / "run.ipynb", model)
    assert not model.requests
    assert not list(tmp_path.iterdir())


async def test_a_child_that_can_not_be_saved_answers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mkdir = Path.mkdir

    def made(path: Path, *args: Any, **options: Any) -> None:
        if path.parent.name == CHILDREN:
            no_room()
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", made)
    result = await run(tmp_path / "run.ipynb", Parts(latency=0.0))
    assert (result.answer, result.stop_reason) == ("of the child", "answered")
    assert "A child run goes on without being saved" in caplog.text
    assert "A child run goes on without being saved" in result.unsaved
    assert not list(tmp_path.rglob(f"{CHILDREN}/*"))
