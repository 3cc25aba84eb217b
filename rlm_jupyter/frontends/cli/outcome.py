"""`answered`: a run is started, shown as it goes, and what came of it is printed."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, INTERRUPTED, MISUSED, terminal
from rlm_jupyter.types.endings import WORDS, why_ended
from rlm_jupyter.types.errors import ConfigurationError, ModelError, RecordError, RLMError
from rlm_jupyter.types.sentence import sentence

if TYPE_CHECKING:
    from rlm_jupyter.frontends.cli.progress import TerminalProgress
    from rlm_jupyter.run.approval import Approvals
    from rlm_jupyter.run.result import Result
    from rlm_jupyter.run.run_handle import RunHandle, StartsRun
    from rlm_jupyter.types.events import Event, RunEnded
    from rlm_jupyter.types.values import ModelUsage, StopReason

_AS_ASKED = {"answered", "terminated"}
"""Where an answer is one that counts; else it is a draft."""


def answered(
    args: Namespace,
    start: StartsRun,
    save: str | Path | bool,
    *,
    notebook_on: Callable[[str], None] = terminal.say,
) -> int:
    """Start a run, show how it goes, print what came of it; returns the exit code.

    Parameters
    ----------
    start
        Begins the run; it is given what tells the events.
    save
        Where the run's notebook goes.
    """
    from rlm_jupyter.frontends.cli.progress import TerminalProgress
    from rlm_jupyter.kernel.template_pool import expect_no_next_run
    from rlm_jupyter.run.approval import Approvals, asks_here

    expect_no_next_run()
    # standard output is for the answer: what a tool of the user's prints there stands among the progress
    with TerminalProgress(quiet=args.quiet) as progress, contextlib.redirect_stdout(sys.stderr):
        approvals = Approvals()

        def tell(event: Event) -> None:
            progress.on_event(event)
            approvals(event)

        running = start(tell, approve=asks_here())
        del start  # with a large context, which is packed by now
        outcome = _outcome(running, progress, approvals)
    result = outcome.result
    stop_reason: StopReason = "cancelled" if outcome.interrupted else "failed"
    if result is not None:
        notebook, stop_reason = result.path, result.stop_reason
        _print(args, result, outcome.failure)
    else:
        notebook = _notebook(progress, save)
        if args.json and progress.ended is not None:
            _print_json(progress.ended, progress.ended.iteration, notebook, by_model={})
        terminal.say(f"No answer: {terminal.one_line(outcome.failure, 1_000)}")
    if notebook is not None and not (args.quiet and notebook_on is terminal.say):
        notebook_on(f"Notebook: {_relative(notebook)}")
    if result is not None and notebook is not None and not args.quiet:
        from rlm_jupyter.record.footprint import kept_context

        if stored := kept_context(notebook, result.trajectory.started.context):
            terminal.say(stored)
    if notebook is not None:
        from rlm_jupyter.run.outcome import how_to_resume

        if line := how_to_resume(stop_reason, notebook, result):
            terminal.say(line)
    if outcome.interrupted:
        return INTERRUPTED
    if result is not None and result.stop_reason == "context_window" and not result.usage.total_tokens:
        return MISUSED  # the question alone is too long for the model, or its window is set wrong
    return ANSWERED if result is not None and _is_as_asked(result) else FAILED


def _is_as_asked(result: Result) -> bool:
    """Return whether there is an answer that counts, and each file of it is where it was wanted."""
    ended = result.trajectory.ended
    files = () if ended is None else ended.files
    return result.answer is not None and result.stop_reason in _AS_ASKED and all(one["path"] for one in files)


@dataclass(frozen=True)
class _Outcome:
    """How a run went."""

    result: Result | None
    failure: str = ""
    """What went wrong, where the host failed."""
    interrupted: bool = False


def _outcome(running: RunHandle, progress: TerminalProgress, approvals: Approvals) -> _Outcome:
    """Wait for the run; Ctrl-C ends it with the best answer so far, a second one without."""
    from rlm_jupyter.run import background, ctrl_c

    interrupted = False

    def on_interrupt(number: int) -> None:
        nonlocal interrupted
        interrupted = True
        if number > 1:
            raise KeyboardInterrupt
        running.stop()
        progress.say("Stopping the run… (Ctrl-C again: leave at once)", "yellow")

    try:
        return _Outcome(ctrl_c.wait(partial(_look, running, approvals), on_interrupt), interrupted=interrupted)
    except KeyboardInterrupt:
        # a third one would only bring tracebacks out of the clearing up, which takes a few seconds at most
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        background.shut_down()  # now, because at the interpreter's exit no thread can write any more
        return _Outcome(None, "interrupted", interrupted=True)
    except ConfigurationError:
        raise  # nothing was started
    except RLMError as error:
        if isinstance(error, ModelError) and error.result is None and not interrupted:
            # a server of one's own is not there, or has no such model: that is found out before a run begins
            raise ConfigurationError(error.for_command_line) from None
        error.advice = error.resume = ""  # they stand in lines of their own
        return _Outcome(error.result, error.for_command_line, interrupted)


def _look(running: RunHandle, approvals: Approvals, seconds: float) -> Result | None:
    try:
        return running.result(seconds)
    except TimeoutError:
        if running.done:
            return running.result()
    approvals.put(running.control)
    return None


def _print(args: Namespace, result: Result, failure: str = "") -> None:
    if args.json:
        ended = result.trajectory.ended
        assert ended is not None
        iterations = len(result.trajectory.iterations)
        _print_json(ended, iterations, result.path, result.unsaved, by_model=result.usage_by_model)
    elif result.answer is not None:
        apart = not args.quiet and sys.stdout.isatty() and sys.stderr.isatty()
        terminal.write(f"\n{result.answer}\n\n" if apart else result.answer)
    for path in result.outputs.values():
        terminal.say(f"File: {_relative(path)}")
    if result.stop_reason not in _AS_ASKED:
        terminal.say(terminal.one_line(_why(result, failure), 1_000))
    elif result.message:
        terminal.say(sentence(result.message))
    if result.unsaved:
        terminal.say(sentence(result.unsaved))
    if not args.quiet:
        iterations, calls = len(result.trajectory.iterations), result.trajectory.subcalls
        facts = [terminal.count(iterations, "iteration")] if iterations else []
        tools = sum(call.kind == "tool" for call in calls)
        facts += terminal.calls(len(calls) - tools, tools)
        facts += [terminal.spent(result.usage, result.cost), terminal.duration(result.seconds)]
        terminal.say(" · ".join(facts))


def _why(result: Result, failure: str = "") -> str:
    """Return in one line why a run ended without an answer of its own."""
    from rlm_jupyter.run.outcome import raising_option
    from rlm_jupyter.types.endings import LIMITED_BY

    have = "Ended early, with the best answer so far" if result.answer is not None else "No answer"
    if result.stop_reason in LIMITED_BY:
        said = result.message.rstrip(".")
        said = f"A{said[1:]}" if said.startswith("a ") else said  # not the name of a file
        more = f" {sentence(said)}" if said else ""
        then = "lets it try again" if result.stop_reason == "answer_invalid" else "raises it"
        return f"{have}: {WORDS[result.stop_reason]} ({raising_option(result)} {then}).{more}"
    return sentence(f"{have}: {why_ended(result.stop_reason, failure or result.message)}")


def _print_json(
    ended: RunEnded, iterations: int, notebook: Path | None, unsaved: str = "", *, by_model: Mapping[str, ModelUsage]
) -> None:
    facts: dict[str, Any] = {
        "answer": ended.answer,
        "value": ended.value if ended.is_json else ended.answer,
        "stop_reason": ended.stop_reason,
        "message": ended.message,
        "confidence": ended.confidence,
        "usage": asdict(ended.usage),
        "usage_by_model": {name: asdict(used) for name, used in by_model.items()},
        "cost": ended.cost,
        "seconds": round(ended.seconds, 3),
        "iterations": iterations,
        "outputs": {file["name"]: file["path"] or None for file in ended.files},
        "notebook": None if notebook is None else str(notebook),
        "unsaved": unsaved,
    }
    terminal.write(json.dumps(facts))  # in ASCII: a lone surrogate has no other form


def _notebook(progress: TerminalProgress, save: str | Path | bool) -> Path | None:
    """Return where the record of a run is that failed."""
    if save is False or progress.run_id is None:
        return None
    from rlm_jupyter.record.catalog import find
    from rlm_jupyter.record.store import folder_of

    try:
        return find(progress.run_id, folder_of(save)).shown
    except RecordError:
        return None


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
