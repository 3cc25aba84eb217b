"""`SessionPast`: what a session was given and asked so far, whether or not its kernel runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.saved_run import SavedRun, Spent
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.session_limits import remaining
from rlm_jupyter.run.context import AnyContext
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.recorded_options import RecordedOptions


@dataclass(frozen=True, slots=True)
class SessionPrompt:
    """A prompt of a session."""

    run_id: str
    files: RunFiles | None
    """`None`: it is not saved."""
    in_history: bool
    """Whether it stands in the kernel's `history`: its run has not failed."""
    spent: Spent | None = None
    """`None`: its record says it."""


class SessionPast:
    """The contexts and the prompts of a session.

    Parameters
    ----------
    context
        Its first.
    answered
        The prompts that were asked already.
    more
        The contexts that those had after the first.
    """

    def __init__(
        self, context: AnyContext, answered: Sequence[SessionPrompt] = (), more: Sequence[AnyContext] = ()
    ) -> None:
        self._none = context
        self.given: list[AnyContext] = [*([] if context.kind == "none" else [context]), *more]
        """`context_0`, `context_1` and so on; the last is `context`."""
        self.answered: list[SessionPrompt] = list(answered)
        self._kept = len(self.given) if answered else 0
        """So many of the contexts stand in the record."""

    @property
    def context(self) -> AnyContext:
        """What `context` is for the next prompt."""
        return self.given[-1] if self.given else self._none

    @property
    def opening(self) -> AnyContext:
        """What a kernel is started with."""
        return self.given[0] if self.given else self._none

    @property
    def unkept(self) -> list[AnyContext]:
        """The contexts before the newest that stand in no record yet."""
        return self.given[self._kept : -1]

    @property
    def first(self) -> RunFiles | None:
        """The run that the record begins with, where it is saved."""
        return next((one.files.root for one in self.answered if one.files is not None), None)

    def check_newest(self) -> None:
        """Refuse a further prompt where another session has put one to the same record: it would be lost.

        Raises
        ------
        ConfigurationError
            Says how to go on after that one.
        """
        first = self.first
        if first is None:
            return
        known = {one.files.number for one in self.answered if one.files is not None}
        if later := [files for files in first.prompts() if files.number > max(known)]:
            raise ConfigurationError(
                f"Another session has gone on with {first.name} ({later[-1].name}), which this one knows nothing of: "
                f"open it again, session(resume={first.name!r})."
            )

    @property
    def options(self) -> RecordedOptions:
        """What the next prompt's record says of the prompts before it; nothing, for the first."""
        if not self.answered:
            return {}
        runs_before = [{"run_id": one.run_id, "told": one.in_history} for one in self.answered]
        return {"prompts_before": sum(one.in_history for one in self.answered), "after": runs_before}

    def limited(self, settings: Settings) -> Settings:
        """Return the settings of the next prompt: with one ledger for all, its limits are what is left.

        Raises
        ------
        ConfigurationError
            Nothing is left.
        """
        if settings.ledger == "prompt":
            return settings
        limits = remaining(settings.limits, map(_spent, self.answered))
        return replace(settings, limits=limits, whole_limits=settings.limits)

    def add(self, answered: SessionPrompt) -> None:
        """Take note of a prompt that is on record, and with it its contexts."""
        self.answered.append(answered)
        self._kept = len(self.given)

    @contextlib.contextmanager
    def counting(self, session: Session, ledger: Ledger, recorder: Recorder | None) -> Iterator[None]:
        """Take note of the prompt that is being answered, and of what it uses: once it has begun, however it ends."""
        before = len(session.runs_before)
        try:
            yield
        finally:
            for one in session.runs_before[before:]:
                last = session.records[-1]
                if not last.records:
                    continue
                seconds = last.ended.seconds if last.ended is not None else 0.0
                spent = Spent(ledger.usage, ledger.cost, ledger.subcalls, seconds, ledger.tool_calls)
                files = recorder.files if recorder is not None and recorder.has_begun else None
                self.add(SessionPrompt(one["run_id"], files, one["told"], spent))


def _spent(one: SessionPrompt) -> Spent:
    if one.spent is None and one.files is not None:
        return SavedRun.load(one.files.notebook).spent()
    return one.spent or Spent()
