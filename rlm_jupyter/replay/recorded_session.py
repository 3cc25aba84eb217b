"""`RecordedSession`: the session of a recorded run: its record, and a kernel once a follow-up prompt needs one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rlm_jupyter.prompts import notices
from rlm_jupyter.record import catalog
from rlm_jupyter.record.catalog import RunSummary
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.diff import Difference, as_text
from rlm_jupyter.replay.resume import reexecute_run
from rlm_jupyter.run.background_session import BackgroundSession
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.opening import open_in_time
from rlm_jupyter.run.result import OnEvent
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings, request_digest
from rlm_jupyter.types.events import RemarkMade


class RecordedSession(BackgroundSession):
    """A recorded run and its recorded follow-ups.

    A follow-up that is on record is answered from there. Any other starts a kernel, in which the runs so far are
    re-executed; from then on this is a session like any other.

    Parameters
    ----------
    settings, context
        Those of the run: its request digest has been found with them.
    run
        The run.
    make_room
        Makes room for one more kernel, before it is started; returns a line for each that was closed for it.
    """

    def __init__(
        self, settings: Settings, context: Context, run: RunSummary, make_room: Callable[[], list[str]]
    ) -> None:
        super().__init__(settings, context, keep=True)
        context.release()
        self.make_room = make_room
        self._runs = [run]

    @property
    def is_alive(self) -> bool:
        """Whether it has a kernel, or is about to start one."""
        return super().is_alive and (self._session is not None or self.in_use)

    @property
    def is_recorded(self) -> bool:
        """Whether all that was asked so far came from the record, so that there is no kernel yet."""
        return self._session is None

    def recorded(self, prompt: str) -> RunSummary | None:
        """Find the recorded follow-up that is `prompt`, asked after those so far; it counts as asked from now on."""
        if not self.is_recorded or self.in_use:
            return None
        after = [run.started.run_id for run in self._runs]
        digest = request_digest(self._settings, prompt, self._context, after=after)
        found = catalog.find_request(digest, self._runs[0].files.notebook.parent)
        if found is not None:
            self._runs.append(found)
        return found

    @property
    def _is_kept(self) -> bool:
        return True

    def _before(self) -> dict[str, Any]:
        after = [{"run_id": run.started.run_id, "told": True} for run in self._runs]
        return {"prompts_before": len(after), "after": after}

    async def _open(self, ledger: Ledger, control: Control, on_event: OnEvent | None) -> Session | None:
        """Start the kernel, and re-execute in it what was asked so far."""
        runs = await asyncio.to_thread(lambda: [SavedRun.load(run.files.notebook) for run in self._runs])
        cells = sum(run.cells for run in runs)
        if on_event is not None:
            counted = f"{cells:,} cell{'' if cells == 1 else 's'}"
            on_event(RemarkMade(f"The run so far is a recorded one: its {counted} are executed again in a new kernel."))

        async def bring_back(session: Session) -> None:
            differences: list[Difference] = []
            for run in runs:
                differences += await reexecute_run(session, run, is_told=True, reexecutes=True)
            if differences:
                session.remark = notices.REEXECUTED.format(differences=as_text(differences))

        session = None
        try:
            session = await open_in_time(
                self._stack, self._settings, self._context, ledger, control, on_event, bring_back=bring_back
            )
            return session
        finally:
            if session is None:
                await self._stack.aclose()  # the next prompt tries again
