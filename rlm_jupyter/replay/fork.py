"""Forking a saved run: a new run that takes over its first iterations and goes on another way.

With another model, other limits, or a cell that a person edited in the saved notebook. The record of the old run stays
as it is; the new one says whose iterations it took over, and does not count what was paid for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.edits import with_edits
from rlm_jupyter.record.saved_run import SavedRun, Spent
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.replay.live_branch import AT_ONCE, LiveBranch
from rlm_jupyter.replay.recording import PlaybackOptions, Recording
from rlm_jupyter.replay.resume import play
from rlm_jupyter.run import ctrl_c
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.outcome import recorded_outcome
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import Answers
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import (
    CellFinished,
    DirectReplied,
    OutputsElided,
    Record,
    RemarkMade,
    ReplyReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import CellPosition

OF_EACH_FORK = {"samples": 1, "require_agreement": False, "strategy": "loop"}
"""Options of every fork: it goes another way than the run, and how that was answered is no part of it."""


@dataclass(frozen=True)
class Forked:
    """What a fork takes over."""

    at: int
    """So many iterations; of the last one, when a cell of it was edited, what stands before that cell."""
    records: tuple[Record, ...]
    owed: tuple[SubcallSettled, ...] = ()
    """Answers that the edited cell gets, where it asks the same."""
    edited: CellPosition | None = None


def forked(saved: SavedRun, at: int | None = None, *, edit: bool = False) -> Forked:
    """Return the part of a run that a fork takes over.

    Parameters
    ----------
    at
        How many iterations. Default: with `edit` up to the first that was edited; else all but the last.
    edit
        Take the cells as a person edited them in the saved notebook: the first of them is executed as it is now.

    Raises
    ------
    ConfigurationError
        There is no such iteration, the answer was declared in it, or no cell was edited.
    """
    indices = [iteration.index for iteration in saved.trajectory.iterations]
    edited = saved.edited if edit else {}
    if edit:
        if not edited:
            lacks = "" if saved.journaled > 0 else " (its journal is missing, so nobody can tell)"
            raise ConfigurationError(f"No cell was edited in the notebook of {saved.files.prompt_name}{lacks}.")
        first = next(iter(edited))[0]
        if at is not None and at != first:
            raise _at(f"Iteration {first} is the first that was edited: {{at}}, or leave it out.", str(first))
        return _edited(saved, edited)
    last = indices[-1] if indices else 0
    if not last and saved.has_answer:
        raise ConfigurationError(
            f"{saved.files.prompt_name} was answered without an iteration, so there is none to begin from: ask anew."
        )
    at = max(last - 1, 0) if at is None else at
    if at < 0 or at > last:
        raise _at(f"{saved.files.prompt_name} has {last} iterations: fork it {{at}}.", f"0 to {last}")
    if at == last and saved.has_answer:
        raise _at(f"Iteration {at} gave the answer: fork it {{at}}.", f"0 to {last - 1}")
    return Forked(at, tuple(_kept(saved.records, at)))


def _at(text: str, iterations: str) -> ConfigurationError:
    option = text.format(at=f"--at {iterations}")
    return ConfigurationError(text.format(at=f"at={iterations}"), notebook=option, command=option)


class RunFork(Answers):
    """A fork to be run in the background (`RunHandle`).

    Parameters
    ----------
    saved, part
        The run, and what of it is taken over.
    settings
        Of the new run.
    reexecutes
        Execute the cells that are taken over again; else the kernel is empty.
    """

    def __init__(self, saved: SavedRun, part: Forked, settings: Settings, *, reexecutes: bool = True) -> None:
        if settings.outputs is not None:
            settings = replace(settings, outputs=settings.outputs.claimed())
        self._saved, self._part, self._settings, self._reexecutes = saved, part, settings, reexecutes

    async def answer(self, prompt: str, on_event: OnEvent | None, control: Control | None) -> Result:
        """Go over what is taken over, and on from there."""
        saved, part, settings = self._saved, self._part, self._settings
        *earlier, context = (await asyncio.to_thread(saved.contexts)) or [saved.context()]
        found = await LiveBranch.of(saved, part.records, settings) if self._reexecutes else ""
        branch = None if isinstance(found, str) else found
        said = _which(part, found) if self._reexecutes else ""
        if on_event is not None and said:
            guarded(on_event)(RemarkMade(f"{said[0].upper()}{said[1:]}."))
        ledger = Ledger(settings.limits)
        if found:  # it was to be expected of a kernel that lives
            ledger.remarks["branch"] = said
        playback_options = PlaybackOptions(
            reexecutes=self._reexecutes and branch is None,
            is_live=branch is not None,
            copies=True,
            settled=part.at if part.edited is None else part.at - 1,
            spent=Spent(),
            owed=part.owed,
        )
        try:
            with ctrl_c.deferring_second_ctrl_c():
                recording = recorded_outcome(
                    prompt, context, settings.save, answer_type=settings.answer, earlier=earlier
                )
                async with recording as outcome:
                    recorder = outcome.recorder
                    if recorder is not None:
                        _take_children(saved.files, recorder.files, part.records)
                    run_id = recorder.run_id if recorder is not None else "unsaved"
                    trajectory = await play(
                        settings,
                        saved,
                        Recording([saved.trajectory.started, *part.records], playback_options),
                        recorder,
                        on_event,
                        control,
                        forked=(saved.trajectory.run_id, part.at, run_id),
                        branch=branch,
                        ledger=ledger,
                    )
        finally:
            if branch is not None:
                await run_to_completion(branch.close)
        return outcome.result(trajectory)


def _which(part: Forked, found: LiveBranch | str) -> str:
    """Say in a line which kernel a fork goes on in."""
    if not isinstance(found, str):
        return AT_ONCE
    count = sum(isinstance(record, CellFinished) and record.status != "skipped" for record in part.records)
    why = f" ({found})" if found else ""
    if not count:
        return f"branched from the record, before the first cell{why}"
    cells = f"{count} cell{' is' if count == 1 else 's are'}"
    return f"branched from the record: {cells} executed again{why}"


def _edited(saved: SavedRun, edited: dict[CellPosition, str]) -> Forked:
    """Return the records up to the first edited cell, its reply as it would have been."""
    first = next(iter(edited))
    kept: list[Record] = []
    for record in _kept(saved.records, first[0]):
        if isinstance(record, ReplyReceived) and record.iteration == first[0] and not record.rejected:
            kept.append(with_edits(record, edited))
        elif isinstance(record, CellFinished | SubcallSettled) and (record.iteration, record.block) == first:
            break
        else:
            kept.append(record)
    calls = saved.trajectory.subcalls
    owed = tuple(call for call in calls if (call.iteration, call.block) == first)
    return Forked(first[0], tuple(kept), owed, first)


def _kept(records: Sequence[Record], at: int) -> list[Record]:
    """Return the records of the first `at` iterations, without what was said and done when the run had ended."""
    kept: list[Record] = []
    for record in records[1:]:
        is_forced = isinstance(record, ReplyReceived) and record.forced
        # a fork goes another way than the run, so the samples of that are none of its
        if is_forced or isinstance(record, RunStarted | RunEnded | RunResumed | SampleSettled | DirectReplied):
            continue
        if isinstance(record, OutputsElided):
            if record.through < at:
                kept.append(record)
        elif record.iteration <= at:
            kept.append(record)
    return kept


def _take_children(source: RunFiles, target: RunFiles, records: Sequence[Record]) -> None:
    """Copy the children that answered for these iterations, and the objects that the records refer to."""
    calls = [record for record in records if isinstance(record, SubcallSettled)]
    wanted = {call.child for call in calls if call.child}
    if not wanted and all(len(call.prompt_head) == call.prompt_chars for call in calls):
        return
    children = target.folder / CHILDREN
    for child in SavedRun.load(source.notebook).children() if wanted else ():
        if child.trajectory.run_id in wanted:
            children.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                shutil.copytree(child.files.folder, children / child.files.folder.name)
                shutil.copy2(child.files.notebook, children / child.files.notebook.name)
    folder = target.objects.folder
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.objects.folder.glob("*") if source.objects.folder.is_dir() else ():
        if not path.is_file():
            continue
        with contextlib.suppress(FileExistsError):
            try:
                os.link(path, folder / path.name)
            except FileExistsError:
                raise
            except OSError:  # another disk, or one without links
                shutil.copy2(path, folder / path.name)
