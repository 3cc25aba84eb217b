"""`export`: a run, or those of a batch's results, as one file that can be sent to somebody, or as traces."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, terminal
from rlm_jupyter.frontends.cli.kept_runs import prompts_named
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.record.export.together import Together
    from rlm_jupyter.record.store import RunFiles

_STDOUT = "-"
EXAMPLES = """\
  jupyter rlm export
  jupyter rlm export 20250102-101500-who --to html
  jupyter rlm export rlm_runs/20250102-101500-who.ipynb --output for-review.ipynb
  jupyter rlm export results.jsonl --to sft --where "score >= 1"
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="name, id or path of a run, or results of a batch (default: the newest run)",
    )
    parser.add_argument(
        "--to",
        choices=("ipynb", "html", "jsonl", "otel", "atif", "verifiers", "sft"),
        help="ipynb: a notebook with all that is needed to run it again; html: a page; jsonl: for the visualizer of "
        "the reference implementation; otel: a trace of OpenTelemetry, sent where OTEL_EXPORTER_OTLP_ENDPOINT is set; "
        "atif, verifiers, sft: training data (default: what --output ends in, else ipynb; of results, sft)",
    )
    parser.add_argument(
        "--where", metavar="CONDITION", help='of results, only runs whose columns meet this, such as "score >= 1"'
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the file, a folder for it, or - for standard output (default: here)"
    )
    parser.add_argument("--replace", action="store_true", help="replace the file that is named, where it exists")
    parser.add_argument(
        "--redact",
        action=BooleanOptionalAction,
        default=True,
        help="take out API keys, home folders and user names (default: yes)",
    )


def run(args: Namespace) -> int:
    """Run `jupyter rlm export`: a run, or a batch's, as one file to send to somebody; return the exit code."""
    if _is_results(args.run):
        _export_results(args)
    else:
        _export_run(prompts_named(args.run), args)
    return ANSWERED


def _is_results(run: str | None) -> bool:
    """Return whether what is to be exported is named as a batch's results are."""
    from rlm_jupyter.batch.selection import SUFFIXES

    return run is not None and Path(run).suffix.lower() in SUFFIXES


def _export_run(prompts: list[RunFiles], args: Namespace) -> None:
    """Write a run as one file, or send it; says where it is, and what was taken out of it.

    Parameters
    ----------
    prompts
        The run, and the further prompts to its kernel that are exported with it.
    args
        `to`, `output`, `redact`, `replace` and `where` of the command.

    Raises
    ------
    ConfigurationError
        The file can't be written, or exists and is not to be replaced; the run is nothing for that form.
    RecordError
        The run can't be read.
    """
    from rlm_jupyter.record.export.together import Together
    from rlm_jupyter.record.export.write import send

    if args.where is not None:
        raise ConfigurationError("--where is for the results of a batch: jupyter rlm export RESULTS.jsonl --where …")
    form = _form(args, "ipynb")
    if _is_sent(form, args.output):
        _send(Together([(prompts[0], None)], form, args.redact, prompts=len(prompts) > 1))
        return
    options = {"redact": args.redact, "replace": args.replace, "out": _out(args.output)}
    sent = send(prompts[0], form, args.output, prompts=len(prompts) > 1, **options)
    if sent.path is not None:
        terminal.say(f"Written: {sent.path}")
    first, *more = sent.said
    # how to keep what was removed
    terminal.say(first.removesuffix(".") + " (--no-redact keeps them)." if first.startswith("Removed") else first)
    _say(more)


def _export_results(args: Namespace) -> None:
    """Write the runs of a batch's results as one file of lines, or send them.

    Parameters
    ----------
    args
        `run` (the results), `to`, `output`, `redact`, `replace` and `where` of the command.

    Raises
    ------
    ConfigurationError
        The results, the condition or the form is not what it has to be, or nothing is left to export.
    """
    from rlm_jupyter.batch.selection import select
    from rlm_jupyter.record.export.together import Together

    chosen = select(args.run, args.where)
    form = _form(args, "sft")
    together = Together(chosen.runs, form, args.redact)
    if _is_sent(form, args.output):
        _send(together)
    else:
        sent = together.write(Path(args.run), args.output, replace=args.replace, out=_out(args.output))
        if sent.path is not None:
            terminal.say(f"Written: {sent.path}")
        _say(sent.said)
    if chosen.missing:
        terminal.say(f"Left out: {chosen.missing:,}, each of which has no run.")


def _form(args: Namespace, default: str) -> str:
    from rlm_jupyter.record.export.write import FORMS

    suffix = "" if args.output is None else Path(args.output).suffix.removeprefix(".").lower()
    return str(args.to or (suffix if suffix in FORMS else default))


def _is_sent(form: str, output: str | None) -> bool:
    """Return whether traces go to where the variables of OpenTelemetry say, and to no file."""
    if form != "otel" or output is not None:
        return False
    from rlm_jupyter.record.export import otlp

    return bool(otlp.endpoint())


def _send(together: Together) -> None:
    from rlm_jupyter.record.export import otlp

    count, said = together.send()
    terminal.say(f"Sent: {terminal.count(count, 'span')} to {otlp.endpoint()}")
    _say(said)


def _out(output: str | None) -> Callable[[bytes], object] | None:
    return sys.stdout.buffer.write if output == _STDOUT else None


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        terminal.say(sentence)
