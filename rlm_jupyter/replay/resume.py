"""Resuming a saved run: one that was broken off (its host was killed, it was stopped) or that met a limit.

The recorded cells are executed again in a new kernel, with their sub-calls answered from the record; then the run goes
on, in the same record. Nothing that was paid for is asked again: not what the notebook has, and not what only the
journal has, half of a cell's sub-calls and the replies of children included.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from rlm_jupyter.prompts import notices
from rlm_jupyter.record import catalog
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay import recorded_outputs
from rlm_jupyter.replay.diff import Difference
from rlm_jupyter.replay.earlier import reexecute_earlier
from rlm_jupyter.replay.live_branch import LiveBranch
from rlm_jupyter.replay.player import Player
from rlm_jupyter.replay.recorded_configuration import changeable, check_whole
from rlm_jupyter.replay.recording import PlaybackOptions, Recording
from rlm_jupyter.run import ctrl_c
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.run.outcome import recorded_outcome
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import Answers
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.endings import LIMITED_BY
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import PackedContext

_NO_CONTEXT = PackedContext("none")


def check_resumable(saved: SavedRun, limits: Limits | None) -> None:
    """Refuse a run that can't be resumed, before anything is started.

    Parameters
    ----------
    limits
        That it would be resumed with; `None` where they are not known yet.

    Raises
    ------
    ConfigurationError
        It is going on, has its answer, has nothing left to use, its notebook was edited, or its session went on.
    """
    check_whole(saved)
    name, ended = saved.files.prompt_name, saved.trajectory.ended
    if saved.is_open:
        raise ConfigurationError(f"{name} is still going on: another process is at work on it.")
    if catalog.is_built_on(saved.files, saved.trajectory.run_id):
        raise ConfigurationError(
            f"{name} can't be resumed: further prompts were asked in its kernel as it was. To try another way from an "
            f"iteration of it: jupyter rlm fork {name} --at N"
        )
    if saved.has_answer:
        raise ConfigurationError(
            f"{name} has its answer, so there is nothing to resume. To try another way from an iteration of it: "
            f"jupyter rlm fork {name} --at N"
        )
    if edited := saved.edited:
        where = ", ".join(str(iteration) for iteration, _ in edited)
        raise ConfigurationError(
            f"The notebook of {name} was edited (iteration {where}). To go on from what you wrote: "
            f"jupyter rlm fork {name} --edit"
        )
    if limits is None or ended is None or ended.stop_reason not in LIMITED_BY:
        return
    field = LIMITED_BY[ended.stop_reason]
    before, now = getattr(saved.limits({}), field), getattr(limits, field)
    if now is not None and before is not None and now <= before:
        text = f"{name} ended by its limit {field}={before:,}. Raise it to go on: "
        option = f"{text}--{field.replace('_', '-')} N"
        raise ConfigurationError(f"{text}{field}=N", notebook=option, command=option)


class Resumption(Answers):
    """A saved run, to be resumed in the background (`RunHandle`).

    Parameters
    ----------
    saved
        The run.
    settings
        What it is resumed with.
    reexecutes
        Execute its cells again; else its kernel is empty.
    reexecutes_stopped
        Also the cell in which it was stopped: a batch ended, and nobody had that cell in mind.
    ledger
        Holds it to its limits. Default: one of its own.
    """

    def __init__(
        self,
        saved: SavedRun,
        settings: Settings,
        *,
        reexecutes: bool = True,
        reexecutes_stopped: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        check_resumable(saved, settings.limits)
        if settings.system_prompt_extra != saved.trajectory.started.options.get("system_prompt_extra", ""):
            raise ConfigurationError(
                f"The system message of {saved.files.prompt_name} stays as it is, so that its record holds: to change "
                "system_prompt_extra, fork the run."
            )
        form = {} if settings.answer is None else settings.answer.schema
        if form != saved.trajectory.started.options.get("answer", {}):
            raise ConfigurationError(
                f"The answer to {saved.files.prompt_name} keeps its form, which its record tells: to have another, "
                "fork the run."
            )
        recorded_outputs.check_same(saved.trajectory.started.options, settings.outputs, saved.files.prompt_name)
        if settings.outputs is not None:
            settings = replace(settings, outputs=settings.outputs.claimed(recorded_outputs.brought(saved)))
        self._saved = saved
        self._settings = settings
        self._reexecutes = reexecutes
        self._reexecutes_stopped = reexecutes_stopped
        self._ledger = ledger

    async def answer(self, prompt: str, on_event: OnEvent | None, control: Control | None) -> Result:
        """Resume it."""
        # who was asked may have taken their time: it is read anew, beside the loop
        saved = await asyncio.to_thread(self._saved.latest)
        check_resumable(saved, self._settings.limits)
        playback_options = PlaybackOptions(
            reexecutes=self._reexecutes,
            reexecutes_stopped=self._reexecutes_stopped,
            spent=await asyncio.to_thread(saved.spent),
            unclaimed=saved.unclaimed(saved.children()),
            sub_models=[model.name for model in self._settings.routing.sub],
            sampling=self._settings.sampling,
            configured=changeable(self._settings),
        )
        context = saved.context()
        with ctrl_c.deferring_second_ctrl_c():
            async with recorded_outcome(
                prompt, context, True, again=saved, answer_type=self._settings.answer
            ) as outcome:
                recording = Recording(saved.records, playback_options)
                trajectory = await play(
                    self._settings, saved, recording, outcome.recorder, on_event, control, ledger=self._ledger
                )
        return outcome.result(trajectory)


async def play(
    settings: Settings,
    saved: SavedRun,
    recording: Recording,
    recorder: Recorder | None,
    on_event: OnEvent | None,
    control: Control | None,
    *,
    forked: tuple[str, int, str] | None = None,
    branch: LiveBranch | None = None,
    ledger: Ledger | None = None,
) -> Trajectory:
    """Go over a recording in a kernel of its own, and on from there; what was asked there before comes first.

    Parameters
    ----------
    saved
        The run whose recording it is.
    forked
        Whose recording it is, how many iterations are taken over, and the id of the new run.
    branch, ledger
        The kernel that it goes on in, which has all that was recorded; as for `Resumption`.
    """
    on_event = guarded(on_event)
    earlier = await asyncio.to_thread(saved.earlier)
    first = [run for run, _ in earlier][:1] or [saved]
    context = next(iter(await asyncio.to_thread(first[0].contexts)), _NO_CONTEXT)
    joining: dict[str, Any] = {} if branch is None else {"join": branch.join, "branch_of": branch.session.sandbox}
    async with open_session(settings, context, emit=on_event, control=control, **joining) as session:
        if branch is None:
            told = await reexecute_earlier(session, saved, recording, earlier, contexts_now=forked is not None)
        else:
            told = branch.adopt(session, earlier)
        if len(session.history) < recording.started.options.get("prompts_before", 0) and not recording.options.only:
            told.append(Difference(0, None, notices.BEFORE_MISSING))
        recording.differences[:0] = told
        if forked is not None:
            ancestor, at, run_id = forked
            restarted = recording.started.options.get("restarted", {})
            started = session.started(recording.started.prompt, run_id, restarted.get("said", ""))
            options = started.options | ({"restarted": restarted} if restarted else {})
            # with no digest: whoever asks the same as before gets the old run
            recording.started = replace(started, forked_from=ancestor, forked_at=at, request="", options=options)
        return await session.answer(
            recording.started.prompt,
            ledger=ledger or Ledger(settings.limits, whole=settings.whole_limits),
            recorder=recorder,
            emit=on_event,
            control=control,
            run_id=recording.started.run_id,
            playback=Player(recording),
        )
