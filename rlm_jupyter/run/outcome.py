"""`Outcome`: the record of one prompt on disk, and the result that it comes to, also where the run fails."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rlm_jupyter.record.journal import read_first
from rlm_jupyter.record.prompts_beside import PromptsBeside
from rlm_jupyter.record.recorder import Faults, Recorder, recording
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles, name_from_here
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.result import KeptKernel, Result, result_of
from rlm_jupyter.types.endings import LIMITED_BY, RESUMABLE, raised_limit
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.events import RunStarted
from rlm_jupyter.types.sentence import sentence
from rlm_jupyter.types.values import PacksContext, StopReason


@dataclass
class Outcome:
    """What becomes of one prompt. Made by `recorded_outcome`."""

    recorder: Recorder | None
    faults: Faults
    answer_type: AnswerType | None = None
    """What the answer is to be."""
    session_kernel: KeptKernel | None = None
    """The kernel that the result can put further prompts to, also where this prompt fails."""

    def result(self, trajectory: Trajectory) -> Result:
        """Return the result of a run that has ended."""
        return result_of(trajectory, self._path, self.session_kernel, self.faults, self.answer_type)

    @property
    def _path(self) -> Path | None:
        return None if self.recorder is None else self.recorder.files.shown

    def explain(self, error: RLMError) -> None:
        """Add to the error of a run what it has so far, and how to resume it."""
        trajectory = error.trajectory
        if trajectory is None or trajectory.ended is None:
            return  # it had not begun
        # the run's message begins with the error's own text
        _, _, remarks = trajectory.ended.message.partition(f"{sentence(str(error))} ")
        error.remarks = sentence(remarks) if remarks else ""
        error.result = self.result(trajectory)
        if self._path is not None:
            error.advice = saved_in(self._path)
            is_attached = trajectory.started.options.get("lent")
            files = None if self.recorder is None else self.recorder.files
            if files is not None and not is_attached and _has_more("failed", trajectory, files.number):
                error.resume = f"To resume it: {resume_command(files.notebook, trajectory.started)}"


def saved_in(path: Path) -> str:
    """Return the sentence that says where the record of a run is that an error ended."""
    return f"The run so far is saved in {path}."


@asynccontextmanager
async def recorded_outcome(
    prompt: str,
    context: PacksContext,
    save: str | Path | bool,
    *,
    again: SavedRun | None = None,
    answer_type: AnswerType | None = None,
    first: RunFiles | None = None,
    earlier: Sequence[PacksContext] = (),
    beside: PromptsBeside | None = None,
) -> AsyncIterator[Outcome]:
    """Record a run; an error that ends it leaves with the result so far. Parameters are those of `recording`.

    Raises
    ------
    ConfigurationError
        The place that was named can't be written to.
    """
    faults, outcome = Faults(), None
    try:
        async with recording(
            prompt, context, save, again=again, faults=faults, first=first, earlier=earlier, beside=beside
        ) as recorder:
            outcome = Outcome(recorder, faults, answer_type)
            yield outcome
    except RLMError as error:
        if outcome is not None:  # by now all of it is written
            outcome.explain(error)
        raise


def how_to_resume(stop_reason: StopReason, notebook: Path, result: Result | None) -> str:
    """Return the line to type to resume a run that has ended so; empty where it would only end so again.

    Parameters
    ----------
    result
        What came of it; `None`: its limits are not known.
    """
    if result is not None and not _has_more(stop_reason, result.trajectory, RunFiles(notebook).number):
        return ""
    started = read_first(RunFiles(notebook).journal) if result is None else result.trajectory.started
    command = resume_command(notebook, started)
    if stop_reason in LIMITED_BY:
        option = raised_limit(stop_reason, {}) if result is None else raising_option(result)
        return f"To resume it: {command} {option}"
    return f"To resume it: {command}" if stop_reason in RESUMABLE else ""


def _has_more(stop_reason: StopReason, trajectory: Trajectory, number: int) -> bool:
    """Return whether there is something to resume: a run that failed with its first request has nothing else.

    A further prompt has the variables of those before it.
    """
    return stop_reason != "failed" or bool(trajectory.iterations) or number > 1


def raising_option(result: Result) -> str:
    """Return the option, with its value, with which a run goes on that a limit has ended."""
    used = {"tokens": result.usage.total_tokens, "cost": result.cost or 0, "seconds": result.seconds}
    return raised_limit(result.stop_reason, result.trajectory.limits, used.get(result.stop_reason, 0), result.message)


def resume_command(notebook: Path, started: RunStarted | None) -> str:
    """Return what a user types, here and now, to resume the run with this notebook: at the address that it was given.

    Parameters
    ----------
    started
        How it began; `None`: nobody knows.
    """
    command = "%rlm_resume" if _has_magics() else "jupyter rlm resume"
    words = [command, shlex.quote(name_from_here(notebook))]
    if address := "" if started is None else started.options.get("base_url", ""):
        words += ["--base-url", shlex.quote(address)]  # no record holds a password
    return " ".join(words)


def _has_magics() -> bool:
    """Return whether this is a session with our magics; asked without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "ResumeMagics" in shell.magics_manager.registry
