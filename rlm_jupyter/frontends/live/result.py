"""`ShownResult`: a result in somebody's session: it shows itself, and its further prompts show their progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, Self

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.live import files, progress, widget
from rlm_jupyter.frontends.live.error_line import in_one_line
from rlm_jupyter.frontends.live.widget import Steering
from rlm_jupyter.record import safe_html
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.record.catalog import RunSummary
from rlm_jupyter.record.run_files import read_files
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.recorded_session import RecordedSession
from rlm_jupyter.run import ctrl_c
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.approval import Approvals, asks_here
from rlm_jupyter.run.background_session import BackgroundSession
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.outcome import how_to_resume
from rlm_jupyter.run.prompt import check_prompt
from rlm_jupyter.run.result import OnEvent, Result, result_of
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.endings import beside_headline, in_short, remark
from rlm_jupyter.types.errors import ConfigurationError, RLMError, saved_at


class ShownResult(Result):
    """A result that shows itself safely: what a model wrote is never taken for HTML of the page."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """Return the same result, shown so."""
        return cls(**{field.name: getattr(result, field.name) for field in fields(result)})

    def ask(self, prompt: str, *, on_event: OnEvent | None = None) -> ShownResult:
        """Put another prompt to the same kernel, and show how it goes.

        Interrupting it ends the run with what it has; the kernel stays for more.

        Raises
        ------
        ConfigurationError
            There is no kernel any more, or the prompt is empty.
        """
        try:
            return self._ask(prompt, on_event)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    def _ask(self, prompt: str, on_event: OnEvent | None) -> ShownResult:
        kernel = kernel_of(self)
        if kernel is None:
            raise ConfigurationError("This run has no kernel: run the cell again, then ask.")
        if kernel.closed:
            why = f" ({kernel.why_closed})" if kernel.why_closed else ""
            raise ConfigurationError(
                f"The kernel of this run is closed{why}: run the cell again, then ask. The answer and the record are "
                "still here."
            )
        check_prompt(prompt)
        if isinstance(kernel, RecordedSession) and kernel.is_recorded:
            if (found := kernel.recorded(prompt)) is not None:
                return show_recorded(_shell(), found, kernel, on_event)
            for line in kernel.make_room():
                print(line)  # noqa: T201
        shown = progress.start(_shell(), kernel_is_there=kernel.is_alive)
        approvals = Approvals()

        def tell(event: Any) -> None:
            shown(event)
            approvals(event)
            if on_event is not None:
                on_event(event)

        running = RunHandle(kernel, prompt, tell, approve=asks_here())
        shown.steer(running)
        try:
            result = wait(running, approvals)
        except RLMError as error:
            shown.end(saved_at(error), failed=True)
            raise
        if result is None:
            shown.end(title="It is still being stopped.")
            raise KeyboardInterrupt("the run is being stopped in the background")
        shown.end(result.path)
        return type(self).of(result)

    def _facts(self) -> str:
        cost = [f"${self.cost:.4f}"] if self.cost else []
        ended = [] if self.stop_reason == "answered" else [in_short(self.stop_reason, self.message)]
        count = len(self.trajectory.iterations)
        iterations = f"{count:,} iteration{'' if count == 1 else 's'}"
        return " · ".join([iterations, f"{self.usage.total_tokens:,} tokens", *cost, f"{self.seconds:.1f} s", *ended])

    def answer_html(self) -> str:
        """Return the answer alone, for a notebook's page: why there is none stands in the headline above it."""
        # what is not on disk is said where the answer is: it may be looked for there tomorrow
        unsaved = fragments.block(fragments.note(self.unsaved)) if self.unsaved else ""
        more = fragments.block(fragments.note(self._how_to_resume())) if self._how_to_resume() else ""
        if self.answer is None:
            said = beside_headline(self.stop_reason, self.message)
            return fragments.block(fragments.note(said)) + files.as_html(self) + more + unsaved
        ended = self.trajectory.ended
        shown = self.answer if ended is None else answer_markdown(ended)
        return safe_html.markdown(shown) + files.as_html(self) + self._remark_html() + more + unsaved

    def _how_to_resume(self) -> str:
        """Return the line to type where a limit or a person has ended the run; empty where that leads nowhere."""
        is_attached = self.trajectory.started.options.get("lent")
        return "" if self.path is None or is_attached else how_to_resume(self.stop_reason, self.path, self)

    def _remark_html(self) -> str:
        """Return what there is to say beside the headline: of a draft by a limit, what is missing of it, say a file."""
        said = remark(self.stop_reason, self.message)
        return fragments.block(fragments.note(said)) if said else ""

    def answer_text(self) -> str:
        """Return the answer alone, for a terminal."""
        beside = remark(self.stop_reason, self.message) if self.answer is not None else ""
        said = str(self) if self.answer is not None else beside_headline(self.stop_reason, self.message)
        return "\n\n".join(filter(None, [said, files.as_text(self), beside, self._how_to_resume(), self.unsaved]))

    def _repr_html_(self) -> str:
        link = fragments.link(self.path) if self.path is not None else ""
        return f"{self.answer_html()}{fragments.block(fragments.facts(self._facts(), link))}"

    def _repr_markdown_(self) -> str:
        # IPython takes this for "not in this form": a page would let HTML in Markdown through
        raise NotImplementedError

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        link = f" · {files.near(self.path)}" if self.path is not None else ""
        unsaved = f"\n\n{self.unsaved}" if self.unsaved else ""
        made = f"\n\n{listed}" if (listed := files.as_text(self)) else ""
        printer.text(f"{self}{made}\n\n{self._facts()}{link}{unsaved}")


def show_recorded(
    shell: Any,
    found: RunSummary,
    kept: RecordedSession,
    on_event: OnEvent | None = None,
    *,
    answer_type: AnswerType | None = None,
    outputs: Mapping[str, Path] | None = None,
) -> ShownResult:
    """Show a recorded run as if it went on, and return its result; no model is asked.

    Parameters
    ----------
    kept
        Where follow-ups to it go.
    answer_type
        What its answer is, where that was said.
    outputs
        Where its files are.
    """
    trajectory = Trajectory(read_files(found.files)[0])
    result = ShownResult.of(result_of(trajectory, found.files.shown, kept, answer_type=answer_type, outputs=outputs))
    shown = progress.start(shell, quiet=True)
    for record in trajectory.records:
        shown(record)
        if on_event is not None:
            on_event(record)
    shown.end(
        result.path,
        title=f"The recorded run of {found.started.moment}: no model was asked, nothing was spent. "
        "--rerun runs it again.",
    )
    return result


class BackgroundRun:
    """A run under way in the background: what the variable holds until its result is there."""

    def __init__(self, running: RunHandle, variable: str, steering: Steering | None = None) -> None:
        self._running = running
        self._variable = variable
        self._steering = steering

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._running.done

    def stop(self, why: str = "") -> None:
        """End the run with the best answer so far; `why`, in a few words, is said where it is shown."""
        self._running.stop(why)

    def result(self, timeout: float | None = None) -> ShownResult:
        """Wait for the result.

        Raises
        ------
        TimeoutError
            It is not there after `timeout` seconds.
        RLMError
            The host failed.
        """
        return ShownResult.of(self._running.result(timeout))

    @property
    def control(self) -> Control:
        """Stop, pause, notes to the model, limits."""
        return self._running.control

    def __getattr__(self, name: str) -> NoReturn:
        problem = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_") and name in {*dir(ShownResult), *ShownResult.__dataclass_fields__}:
            problem = f"a run has no {name} before it is over: {self._variable}.result().{name} waits for it"
        raise AttributeError(problem, name=name, obj=self)

    def _ipython_display_(self) -> None:
        """Buttons and bars where widgets work, else a line of text."""
        from IPython import display as shown

        display: Any = shown.display
        if self._steering is None or self.done or not widget.works(_shell()):
            display({"text/plain": repr(self)}, raw=True)
        else:
            display(self._steering.widget(self.control))

    def __repr__(self) -> str:
        name = self._variable
        if self.done:
            return f"<run is over: {name}.result()>"
        return f"<run under way: {name}.stop() ends it, {name}.result() waits for it; then {name} is the result>"


def kernel_of(held: ShownResult | BackgroundRun) -> BackgroundSession | None:
    """Return where its kernel is, or was: `None` where none was started for it."""
    kept = held._running.session if isinstance(held, BackgroundRun) else held._kept
    return kept if isinstance(kept, BackgroundSession) else None


def wait(running: RunHandle, approvals: Approvals | None = None) -> Result | None:
    """Wait for a run so that an interrupt ends it with what it has.

    Parameters
    ----------
    approvals
        Asks about the cells that wait, in this thread.

    Returns
    -------
    Result or None
        `None`: interrupted a second time; the run is being stopped, and nobody waits for it any more.

    Raises
    ------
    RLMError
        The host failed.
    """
    is_left = False

    def look(seconds: float) -> Result | bool | None:
        if is_left:
            return False
        try:
            return running.result(timeout=seconds)
        except TimeoutError:
            if running.done:
                return running.result()
        if approvals is not None:
            approvals.put(running.control)
        return None

    def on_interrupt(number: int) -> None:
        nonlocal is_left
        running.stop()
        is_left = number > 1

    found = ctrl_c.wait(look, on_interrupt)
    return found if isinstance(found, Result) else None


def _shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()
