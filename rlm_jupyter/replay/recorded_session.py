"""`RecordedSession`: prompts of one kernel that are on record, and a kernel once another is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from rlm_jupyter.prompts import notices
from rlm_jupyter.record import catalog, store
from rlm_jupyter.record.catalog import RunSummary
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.diff import Difference, as_text
from rlm_jupyter.replay.earlier import reexecute_run
from rlm_jupyter.run.background_session import BackgroundSession
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.opening import open_in_time
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.run.result import OnEvent
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.session_past import SessionPast, SessionPrompt
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.events import RemarkMade


class RecordedSession(BackgroundSession):
    """Prompts that are on record, and those that are asked after them.

    One that is on record is answered from there. Any other starts a kernel, in which those so far are re-executed; from
    then on this is a session like any other.

    Parameters
    ----------
    settings, context
        Those of the prompts: their request digests are found with them.
    answered
        The prompts so far, in order.
    more
        The contexts that they had after the first.
    make_room
        Makes room for one more kernel, before it is started; returns a line for each that was closed for it.
    """

    def __init__(
        self,
        settings: Settings,
        context: AnyContext,
        answered: Sequence[SessionPrompt] = (),
        more: Sequence[AnyContext] = (),
        make_room: Callable[[], list[str]] = list,
    ) -> None:
        super().__init__(settings, context, keep=True)
        if isinstance(context, Context):
            context.release()
        self.make_room = make_room
        self.past = SessionPast(context, answered, more)

    @property
    def is_alive(self) -> bool:
        """Whether it has a kernel, or is about to start one."""
        return super().is_alive and (self._session is not None or self.in_use)

    @property
    def is_recorded(self) -> bool:
        """Whether all that was asked so far came from the record, so that there is no kernel yet."""
        return self._session is None

    def recorded(self, prompt: str) -> RunSummary | None:
        """Find the record of `prompt`, asked after those so far; it counts as asked from now on."""
        if not self.is_recorded or self.in_use:
            return None
        if self._settings.save is False:
            return None
        past = self.past
        # answer and files that are asked for are those of the first prompt
        settings = replace(self._settings, answer=None, outputs=None) if past.answered else self._settings
        runs_before = [one.run_id for one in past.answered]
        earlier = [context.info for context in past.given[:-1]]
        digest = request_digest(settings, prompt, past.context, runs_before=runs_before, earlier=earlier)
        folder = store.folder_of(self._settings.save) if past.first is None else past.first.shown.parent
        found = catalog.find_request(digest, folder, past.first)
        if found is None or not holds(settings, found):
            return None
        past.add(of_record(found))
        return found

    @property
    def _is_kept(self) -> bool:
        return True

    async def _open(self, ledger: Ledger, control: Control, on_event: OnEvent | None) -> Session | None:
        """Start the kernel, and re-execute in it what was asked so far."""
        past = self.past
        files = [(one.files, one.in_history) for one in past.answered if one.files is not None]
        runs = await asyncio.to_thread(lambda: [(SavedRun.load(found.notebook), is_in) for found, is_in in files])
        cells = sum(run.cells for run, _ in runs)
        if on_event is not None and runs:
            counted = f"{cells:,} cell{'' if cells == 1 else 's'}"
            on_event(RemarkMade(f"The run so far is a recorded one: its {counted} are executed again in a new kernel."))

        async def bring_back(session: Session) -> None:
            differences: list[Difference] = []
            for run, in_history in runs:
                session.pending += past.given[len(session.contexts) : len(run.context_infos)]
                differences += await reexecute_run(session, run, in_history, reexecutes=True)
            session.pending += past.given[len(session.contexts) :]
            if differences:
                session.remark = notices.REEXECUTED.format(differences=as_text(differences))
                if on_event is not None:
                    on_event(RemarkMade(_DIFFER.format(count=len(differences), s="s" if len(differences) > 1 else "")))

        # a run that had none is to find none
        context = past.opening if not runs or runs[0][0].context_infos else Context(None)
        session = None
        try:
            session = await open_in_time(
                self._stack,
                self._settings,
                context,
                ledger,
                control,
                on_event,
                bring_back=bring_back,
                is_kept=self._keep,
            )
            return session
        finally:
            if session is None:
                await self._stack.aclose()  # the next prompt tries again


_DIFFER = "They came to other outputs than recorded in {count} place{s}; the model is told where."


def holds(settings: Settings, run: RunSummary) -> bool:
    """Return whether a recorded run has all that was asked for: an answer of its type, and its files."""
    if run.ended is None or (settings.answer is not None and not settings.answer.takes(run.ended)):
        return False
    return settings.outputs is None or settings.outputs.again(run.ended, run.files.objects, lambda _: None) is not None


def of_record(run: RunSummary) -> SessionPrompt:
    """Return a prompt that is on record, as one that was asked."""
    return SessionPrompt(run.started.run_id, run.files, in_history=True)
