"""`batch`: ask one question about each of many items, show how far it is, say what came of it; `compare`."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.frontends.cli.run import EMBEDDED, limits_of, model_of, rlm_of, say_no_model

if TYPE_CHECKING:
    from rlm_jupyter.batch.outcome import Progress

_OPTIONS = (
    "prompt",
    "out",
    "context",
    "key",
    "retry",
    "concurrency",
    "batch_max_cost",
    "batch_max_tokens",
    "batch_max_seconds",
    "expected",
    "score",
)


def batch(args: Namespace) -> int:
    """Run `jupyter rlm batch`; return the exit code."""
    model = model_of(args)
    rlm = rlm_of(args, model or EMBEDDED, limits_of(args))
    if model is None:
        say_no_model()
    try:
        with BatchProgress(quiet=args.quiet) as progress:
            result = rlm.batch(
                args.items, on_progress=progress.show, **{name: getattr(args, name) for name in _OPTIONS}
            )
    except KeyboardInterrupt:
        terminal.say("Stopped. The same command goes on from here; nothing that was paid for is paid for again.")
        raise
    terminal.write(str(result))
    terminal.say(f"Results: {os.path.relpath(result.path)}")
    for row in result.failed[:3]:
        terminal.say(terminal.one_line(f"{row.key}: {row.error}", 300))
    if result.stopped:
        terminal.say("The same command goes on from here; a limit that was reached has to be raised.")
    elif result.failed:
        terminal.say("To do those that failed again: --retry failed")
    is_whole = len(result.rows) == result.total and not result.failed and not result.unsaved
    return ANSWERED if is_whole else FAILED


def compare(args: Namespace) -> int:
    """Run `jupyter rlm compare`; return the exit code."""
    from rlm_jupyter.batch.comparison import compare

    comparison = compare(*args.results)
    if not args.json:
        terminal.write(str(comparison))
        return ANSWERED
    better = [[asdict(pair) for pair in pairs] for pairs in comparison.better]
    data = {
        "results": comparison.names,
        "accuracies": [asdict(its) for its in comparison.accuracies],
        "difference": comparison.gain,
        "interval": comparison.interval,
        "p": comparison.p,
        "items": len(comparison.pairs),
        "unpaired": comparison.unpaired,
        "better_in_first": better[0],
        "better_in_second": better[1],
    }
    terminal.write(json.dumps(data, default=str))
    return ANSWERED


class BatchProgress:
    """A bar on standard error where that is a terminal, else a line now and then; used with `with`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._told = -1

    def __enter__(self) -> Self:
        if not self._quiet and terminal.is_live():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
            self._bar = Bar(*columns, console=terminal.console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, progress: Progress) -> None:
        """Show how far it is."""
        if self._bar is not None:
            self._bar.update(self._task, total=progress.total, completed=progress.done, description=_facts(progress))
        elif not self._quiet and (tenth := progress.done * 10 // max(progress.total, 1)) != self._told:
            self._told = tenth
            terminal.say(f"{progress.done:,} of {progress.total:,} · {_facts(progress)}")


def _facts(progress: Progress) -> str:
    cost = f"${progress.cost:.4f}" if progress.cost else ""
    failed = f"{progress.failed:,} failed" if progress.failed else ""
    return " · ".join(filter(None, [f"{progress.running} running", failed, f"{progress.tokens:,} tokens", cost]))
