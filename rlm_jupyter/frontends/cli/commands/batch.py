"""`batch`: ask one question about each of many items, show how far it is, say what came of it."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.frontends.cli.configuration import DEFAULT_MODEL, limits_of, model_of, rlm_of, say_no_model
from rlm_jupyter.frontends.cli.shared_arguments import add_options, add_quiet
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.batch.outcome import BatchProgress
    from rlm_jupyter.batch.scoring import Score

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
)
EXAMPLES = """\
  jupyter rlm batch reviews.csv --prompt "Is {text} about food? yes or no" --out results.csv -m openai/gpt-5.4-mini
  jupyter rlm batch contracts.jsonl --prompt "Who signed last?" --context @file --schema signer.json --out out.parquet
  jupyter rlm batch questions.jsonl --prompt "{question}" --context text --expected answer --out results.jsonl
  jupyter rlm batch questions.jsonl --prompt "{question}" --context text --out results.jsonl --retry failed
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("items", metavar="ITEMS", help="a file of rows: .csv, .tsv, .jsonl, .parquet or .xlsx")
    parser.add_argument(
        "--prompt", required=True, metavar="TEXT", help='the question, with columns in braces: "Is {text} about food?"'
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="the results: .jsonl, .csv or .parquet; the notebooks of the runs are in FILE.batch/ beside it",
    )
    parser.add_argument(
        "-c",
        "--context",
        metavar="COLUMN",
        help="what it is about: a column, a text with columns in braces, or @ before either: the path of a file",
    )
    parser.add_argument("--key", metavar="COLUMN", help="what names an item in the results (default: a digest)")
    parser.add_argument("--retry", choices=("failed",), help="do those again that came to no answer")
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="INT", help="runs at once, each with a kernel (default: 16)"
    )
    parser.add_argument("--expected", metavar="COLUMN", help="the column with the right answer: print the accuracy")
    parser.add_argument(
        "--score",
        choices=("exact", "number", "set", "judge"),
        help="how answers are compared with it (default: exact); judge: a model says how good they are",
    )
    parser.add_argument(
        "--judge-model",
        metavar="MODEL",
        help="who judges, as provider/model (with --score judge); it is paid like a run",
    )
    parser.add_argument(
        "--judge-rubric", metavar="TEXT|@FILE", help="how the judge is to grade, in words, or @ and a file with them"
    )
    limits = parser.add_argument_group("limits, for the whole batch")
    limits.add_argument("--batch-max-cost", type=float, metavar="USD", help="US dollars, earlier calls included")
    limits.add_argument("--batch-max-tokens", type=int, metavar="INT", help="tokens, earlier calls included")
    limits.add_argument("--batch-max-seconds", type=float, metavar="SECONDS", help="wall time of this call")
    add_options(parser, "batch")
    add_quiet(parser)
    parser.set_defaults(json=False, no_save=True, save=None)


def run(args: Namespace) -> int:
    """Run `jupyter rlm batch`; return the exit code."""
    score = _score_of(args)
    model = model_of(args)
    rlm = rlm_of(args, model or DEFAULT_MODEL, limits_of(args))
    if model is None:
        say_no_model()
    try:
        with TerminalBatchProgress(quiet=args.quiet) as progress:
            result = rlm.batch(
                args.items,
                score=score,
                on_progress=progress.show,
                **{name: getattr(args, name) for name in _OPTIONS},
            )
    except KeyboardInterrupt:
        terminal.say("Stopped. The same command goes on from here; nothing that was paid for is paid for again.")
        raise
    terminal.write(str(result))
    terminal.say(f"Results: {os.path.relpath(result.path)}")
    for row in result.failed[:3]:
        terminal.say(terminal.one_line(f"{row.key}: {row.error}", 300))
    if result.stopped:
        by_limit = result.stopped.startswith(("a limit", "the batch's max_", "the time"))
        limit = "; a limit that was reached has to be raised" if by_limit else ""
        terminal.say(f"The same command goes on from here{limit}.")
    if result.failed:
        terminal.say("To do those that failed again: --retry failed")
    unjudged = 0 if result.judge is None else result.judge.missing
    if unjudged and not result.stopped:
        terminal.say("To ask the judge again where it gave no verdict: --retry failed")
    is_whole = len(result.rows) == result.total and not (result.failed or unjudged or result.unsaved)
    return ANSWERED if is_whole else FAILED


def _score_of(args: Namespace) -> Score:
    """Return how answers are compared, as the options say it.

    Raises
    ------
    ConfigurationError
        They do not go together, or the rubric can't be read.
    """
    if args.score != "judge":
        if args.judge_model is not None or args.judge_rubric is not None:
            raise ConfigurationError("--judge-model and --judge-rubric are about a judge: add --score judge.")
        if args.score is not None and args.expected is None:
            raise ConfigurationError("--score compares answers with what is expected: name its column by --expected.")
        return str(args.score or "exact")
    if args.judge_model is None:
        raise ConfigurationError("A judge is a model: name it by --judge-model.")
    from rlm_jupyter.batch.judge import Judge

    rubric = args.judge_rubric or ""
    if rubric.startswith("@"):
        try:
            rubric = Path(rubric[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"The rubric {rubric[1:]} can't be read: {said}.") from None
    provider = (model_of(args) or "").partition("/")[0]
    is_there = args.judge_model.partition("/")[0] == provider
    return Judge(args.judge_model, rubric, base_url=args.base_url if is_there else None)


class TerminalBatchProgress:
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

    def show(self, progress: BatchProgress) -> None:
        """Show how far it is."""
        if self._bar is not None:
            self._bar.update(self._task, total=progress.total, completed=progress.done, description=_facts(progress))
        elif not self._quiet and (tenth := progress.done * 10 // max(progress.total, 1)) != self._told:
            self._told = tenth
            terminal.say(f"{progress.done:,} of {progress.total:,} · {_facts(progress)}")


def _facts(progress: BatchProgress) -> str:
    cost = f"${progress.cost:.4f}" if progress.cost else ""
    failed = f"{progress.failed:,} failed" if progress.failed else ""
    return " · ".join(filter(None, [f"{progress.running} running", failed, f"{progress.tokens:,} tokens", cost]))
