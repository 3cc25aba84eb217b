"""`export`: a run, or those of a batch's results, as one file that can be sent to somebody, or as traces."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.record.export.together import Together
    from rlm_jupyter.record.store import RunFiles

_STDOUT = "-"


def is_results(run: str | None) -> bool:
    """Return whether what is to be exported is named as a batch's results are."""
    from rlm_jupyter.batch.selection import SUFFIXES

    return run is not None and Path(run).suffix.lower() in SUFFIXES


def export_run(prompts: list[RunFiles], args: Namespace) -> None:
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


def export_results(args: Namespace) -> None:
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
        terminal.say(f"Left out: {chosen.missing:,}, each of which has no run any more.")


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
