"""`SessionRuns`: the runs of a session, waited for or left in the background, and their results in variables."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from rlm_jupyter.frontends.live import progress
from rlm_jupyter.frontends.live.error_line import line_of
from rlm_jupyter.frontends.live.result import BackgroundRun, ShownResult, kernel_of, show_recorded, wait
from rlm_jupyter.frontends.live.widget import Steering
from rlm_jupyter.frontends.magics.kernels import Claim, KeptKernels
from rlm_jupyter.record import catalog, store
from rlm_jupyter.record.catalog import RunSummary
from rlm_jupyter.record.footprint import kept_context
from rlm_jupyter.replay.recorded_session import RecordedSession, holds, of_record
from rlm_jupyter.run.approval import Approvals
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import RLMError, saved_at
from rlm_jupyter.types.events import Event


class SessionRuns:
    """The runs of an IPython session: their progress is displayed, their results land in the user's variables.

    Parameters
    ----------
    shell
        Displays the progress, and has the variables.
    kept
        Holds the results and their kernels.
    """

    def __init__(self, shell: Any, kept: KeptKernels) -> None:
        self._shell = shell
        self._kept = kept

    def claim(self, variable: str, *, resumed: bool = False) -> Claim:
        """Announce a run for a variable; `resumed`: one that begins with the replies of its record."""
        return self._kept.claim(variable, resumed=resumed)

    def run(
        self,
        start: Callable[[OnEvent], RunHandle],
        claim: Claim,
        *,
        background: bool = False,
    ) -> None:
        """Start a run, show its progress, and put its result into its variable.

        Parameters
        ----------
        start
            Starts the run; takes the handler of its events.
        claim
            On the variable.
        background
            Return once it has started.
        """
        name = claim.variable
        hint = f"In the background: {name} shows it, {name}.stop() ends it; then {name} is the result."
        shown = progress.start(self._shell, quiet=background, hint=hint if background else "")
        approvals = None if background else Approvals(elsewhere=lambda: getattr(shown, "has_buttons", False))
        steering = Steering() if background else None

        def on_event(event: Event) -> None:
            shown(event)
            for further in (claim, approvals, steering):
                if further is not None:
                    further(event)

        try:
            running = start(on_event)
        except BaseException:
            shown.end(failed=True)
            claim.withdraw()
            raise
        handle = BackgroundRun(running, claim.variable, steering)
        claim.hold(handle)
        shown.steer(running)
        try:
            if background:
                self._leave(handle, shown, claim, steering)
            else:
                self._await(handle, running, shown, claim, approvals)
        except BaseException as error:
            self.conclude_failed(claim, error)
            _abandon(running)  # also when an interrupt came where nobody waits for one
            raise

    def show_recorded(self, variable: str, settings: Settings, prompt: str, context: Context) -> bool:
        """Show the recorded run that answered exactly this, if there is one; return whether there is."""
        if settings.save is False or not prompt.strip():
            return False
        digest = request_digest(settings, prompt, context)
        found = catalog.find_request(digest, store.folder_of(settings.save))
        if found is None or not holds(settings, found):
            return False
        session = RecordedSession(settings, context, [of_record(found)], make_room=lambda: self._kept.make_room(1))
        self.show_found(variable, found, session)
        return True

    def show_found(self, variable: str, found: RunSummary, session: RecordedSession) -> None:
        """Show a recorded prompt of a session, and put its result into a variable."""
        settings, outputs = session.settings, None
        if settings.outputs is not None and found.ended is not None and found.started.options.get("outputs"):
            outputs = settings.outputs.again(found.ended, found.files.objects, note=print)
        result = show_recorded(self._shell, found, session, answer_type=settings.answer, outputs=outputs)
        self.conclude(self._kept.claim(variable), result)

    def conclude(self, claim: Claim, result: ShownResult) -> None:
        """Show a result, and put it into its variable.

        Raises
        ------
        KeyboardInterrupt
            The run was stopped. The cell fails, so that Run All stops here, as where any cell is interrupted.
        """
        variable = claim.variable
        is_put = self._put(claim, result, self._shell.user_ns.get(variable))
        self._show(result)
        self._settle()
        if result.stop_reason == "cancelled":
            raise KeyboardInterrupt(
                # that it was stopped stands in the headline above
                f"{variable} {'holds what the run had by then' if is_put else 'is as it was'}."
            )
        if not is_put:
            print(f"The model had not replied: {variable} is as it was.")  # noqa: T201

    def conclude_failed(self, claim: Claim, error: BaseException) -> None:
        """Put the result so far into the variable of a run that failed, unless it is concluded or left."""
        if claim.is_left or isinstance(claim.value, ShownResult):
            return
        result = error.result if isinstance(error, RLMError) else None
        shown = result if result is None or isinstance(result, ShownResult) else ShownResult.of(result)
        self._put(claim, shown, self._shell.user_ns.get(claim.variable))
        self._settle()

    def _await(
        self,
        handle: BackgroundRun,
        running: RunHandle,
        shown: progress.LiveProgress,
        claim: Claim,
        approvals: Approvals | None,
    ) -> None:
        """Wait for the run and show its result."""
        try:
            result = wait(running, approvals)
        except RLMError as error:
            shown.end(saved_at(error), failed=True)
            raise
        if result is None:
            self._leave(handle, shown, claim)
            raise KeyboardInterrupt("the run is being stopped in the background")
        shown.end(result.path)
        if result.path is not None and (stored := kept_context(result.path, result.trajectory.started.context)):
            print(stored)  # noqa: T201
        self.conclude(claim, ShownResult.of(result))

    def _leave(
        self, handle: BackgroundRun, shown: progress.LiveProgress, claim: Claim, steering: Steering | None = None
    ) -> None:
        """Leave a run in the background: a thread waits for it and concludes it."""
        namespace, variable = self._shell.user_ns, claim.variable
        claim.is_left, earlier = True, namespace.get(variable)
        namespace[variable] = handle

        def conclude(result: ShownResult | None) -> None:
            is_ours = namespace.get(variable) is handle  # else the user has assigned something else to it
            before = claim.before if isinstance(earlier, ShownResult | BackgroundRun) else earlier
            is_put = self._put(claim, result, before, push=is_ours)
            if is_ours and not is_put and before is not None:
                namespace[variable] = before

        def finish() -> None:
            try:
                result = handle.result()
            except RLMError as error:
                conclude(None if error.result is None else ShownResult.of(error.result))
                self._kept.settle()
                shown.end(saved_at(error), title=line_of(error), failed=True)
                if steering is not None:
                    steering.fail()
                return
            conclude(result)
            shown.end(
                result.path, title=" ".join(self._kept.make_room() + self._kept.settle()), below=result.answer_html()
            )
            if result.stop_reason == "cancelled":
                _let_go(result)

        threading.Thread(target=finish, name="rlm_jupyter background", daemon=True).start()

    def _put(self, claim: Claim, result: ShownResult | None, before: object, *, push: bool = True) -> bool:
        """Put a result into its variable; a run that ended before the first reply leaves the variable as it was.

        Parameters
        ----------
        before
            What the variable held when the run was started; `None`: nothing, or it was deleted.
        push
            Set the variable, too.

        Returns
        -------
        bool
            Whether the variable is the result's.
        """
        is_nothing = result is not None and result.answer is None and not claim.has_begun
        if result is None or (is_nothing and before is not None):
            claim.withdraw()
        elif claim.hold(result):
            if push:
                self._shell.push({claim.variable: result})
            return True
        if result is not None:
            _let_go(result)
        return False

    def _settle(self) -> None:
        """Wait until the kernels that gave way are closed, and print which ones."""
        for line in self._kept.settle():
            print(line)  # noqa: T201

    def _show(self, result: ShownResult) -> None:
        """Display the answer; the numbers stand above it."""
        self._shell.display_pub.publish({"text/html": result.answer_html(), "text/plain": result.answer_text()})


def _let_go(result: Result) -> None:
    """Close the kernel that a result holds, unless it is a session's, which has more results."""
    kernel = kernel_of(ShownResult.of(result))
    if kernel is None or not kernel.name:
        result.close()


def _abandon(running: RunHandle) -> None:
    """Stop a run and close its kernel, without waiting for it."""
    running.stop()

    def close() -> None:
        with contextlib.suppress(RLMError):
            _let_go(running.result())

    threading.Thread(target=close, name="rlm_jupyter abandon", daemon=True).start()
