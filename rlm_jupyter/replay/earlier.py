"""The prompts that were asked in a kernel before, executed again in a new one for what they had left there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from rlm_jupyter.prompts import notices
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.diff import Difference
from rlm_jupyter.replay.player import Player
from rlm_jupyter.replay.recording import PlaybackOptions, RecordEnds, Recording
from rlm_jupyter.run.session import Session
from rlm_jupyter.types.events import RunStarted


async def reexecute_earlier(
    session: Session,
    saved: SavedRun,
    recording: Recording,
    earlier: Sequence[tuple[SavedRun, bool]],
    *,
    contexts_now: bool,
) -> list[Difference]:
    """Execute what was asked in the kernel before; return what differs from the records.

    Parameters
    ----------
    contexts_now
        Give the kernel the contexts of the run at once: its first record says what there is.
    """
    told: list[Difference] = []
    for run, is_told in earlier:
        session.pending += run.contexts(len(session.contexts))
        told += await reexecute_run(session, run, is_told, recording.options.reexecutes)
    session.pending += saved.contexts(len(session.contexts))
    if contexts_now:
        await session.take_contexts()
    return told + await start_again(session, recording.started, recording.options.reexecutes)


async def reexecute_run(session: Session, run: SavedRun, in_history: bool, reexecutes: bool) -> list[Difference]:
    """Re-execute an earlier run in the kernel, for its variables; no model is asked, nothing is recorded."""
    started = run.trajectory.started
    differences = await start_again(session, started, reexecutes)
    if started.options.get("outputs"):
        await session.kernel.open_outputs()
    recording = Recording(run.records, PlaybackOptions(only=True, reexecutes=reexecutes))
    count = len(session.history)
    with contextlib.suppress(RecordEnds):
        await session.answer(started.prompt, run_id=started.run_id, playback=Player(recording))
    session.history.cut(count)  # what it says comes from its record
    if in_history:
        session.history.add(run.trajectory)
    session.runs_before[-1]["told"] = in_history
    return differences + [replace(one, text=f"(The prompt before.) {one.text}") for one in recording.differences]


async def start_again(session: Session, started: RunStarted, reexecutes: bool) -> list[Difference]:
    """Start the kernel again, with what had come back then, where it had died before this run began."""
    restarted = started.options.get("restarted")
    if not restarted or not reexecutes:
        return []
    wanted: list[str] = restarted["names"]
    await session.restart(from_fork=bool(wanted))
    back = {variable.name for variable in session.variables}
    missing = [name for name in wanted if name not in back]
    return [Difference(0, None, notices.NOT_RESTORED.format(names=", ".join(missing)))] if missing else []
