"""`list`, `show`, `export` and `clean`: the runs that are kept in a folder."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.record import catalog, footprint, journal, journal_lock, removal, store
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.errors import ConfigurationError, NoRunError, RecordError
from rlm_jupyter.types.events import ConversationCompacted

if TYPE_CHECKING:
    from rich.console import Console

    from rlm_jupyter.record.catalog import RunSummary
    from rlm_jupyter.record.iteration import Cell
    from rlm_jupyter.record.store import RunFiles
    from rlm_jupyter.record.trajectory import Trajectory
    from rlm_jupyter.types.events import RunEnded, SubcallSettled

_OUTPUT_CHARS = 600
"""What `show` shows of a cell's output."""
_PROMPT_CHARS = 60
_STATE_CHARS = 32
"""Of why a run ended: it may be what a model said."""


def list_runs(args: Namespace) -> int:
    """Run `jupyter rlm list`: a table on a terminal, lines with tabs (and the time) in a pipe; return the exit code."""
    runs = catalog.list_runs(args.folder)
    if not runs:
        terminal.say(f"No runs in {_folder(args)}.")
        return ANSWERED
    rows = [_row(run) for run in runs]
    if not sys.stdout.isatty():
        terminal.write("\n".join("\t".join(row) for row in rows))
        return ANSWERED
    from rich.table import Table
    from rich.text import Text

    table = Table("run", "ended", "prompt", "answer", box=None, pad_edge=False)
    # names stay whole, because `show` is given them; of the rest there is as much as the width allows
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for name, _, state, *rest in rows:
        table.add_row(
            name,
            terminal.one_line(state, _STATE_CHARS),
            *(Text(text, no_wrap=True, overflow="ellipsis") for text in rest),
        )
    terminal.console().print(table)
    return ANSWERED


def _row(run: RunSummary) -> tuple[str, str, str, str, str]:
    """Return what is listed of a run: of a session how the last of its prompts ended, and how many there are."""
    *before, last = catalog.prompts_of(run)
    more = f" (and {len(before)} more)" if before else ""
    prompt = terminal.one_line(run.started.prompt, _PROMPT_CHARS - len(more))
    return run.files.name, _started(run), _state(last.files, last.ended), prompt + more, _answer(last)


def show(args: Namespace) -> int:
    """Run `jupyter rlm show`: a run to read; return the exit code."""
    from rlm_jupyter.record.run_files import read_files
    from rlm_jupyter.record.trajectory import Trajectory

    for prompt in _named(args.run):
        _print_run(prompt, Trajectory(read_files(prompt)[0]))
    return ANSWERED


def export(args: Namespace) -> int:
    """Run `jupyter rlm export`: a run, or a batch's, as one file to send to somebody; return the exit code."""
    from rlm_jupyter.frontends.cli import export as sending

    if sending.is_results(args.run):
        sending.export_results(args)
    else:
        sending.export_run(_named(args.run), args)
    return ANSWERED


def _named(run: str | None) -> list[RunFiles]:
    """Return the prompts of the run that was named, else of the newest."""
    if run is not None:
        return catalog.find_prompts(run)
    newest = next(iter(catalog.list_runs()), None)
    if newest is None:
        raise NoRunError(f"There are no runs in {store.FOLDER}: name one.")
    terminal.say(f"The newest run: {newest.files.name}")
    return newest.files.prompts()


def clean(args: Namespace) -> int:
    """Run `jupyter rlm clean`: delete runs that have ended, after asking; return the exit code."""
    runs = catalog.list_runs(args.folder)
    latest = datetime.now(UTC) - timedelta(days=args.older_than)
    ended = [run for run in runs if all(map(_is_over, catalog.prompts_of(run)))]
    # a run's seconds count from before its start is written down: of one that has just ended, the end lies ahead
    chosen = [_Doomed(run) for run in ended if not args.older_than or _ended_at(run) <= latest]
    kept = len(runs) - len(ended)
    if kept:
        terminal.say(f"Kept: {terminal.count(kept, 'run')} that did not end (going on, or interrupted).")
    if not chosen:
        terminal.say(f"Nothing to delete in {_folder(args)}.")
        return ANSWERED
    for doomed in chosen:
        size, own = footprint.size(doomed.run.files), footprint.freed([doomed.run.files])
        shared = f", {(size - own) / 1e6:.1f} MB of it shared" if size > own else ""
        terminal.say(f"  {doomed.run.files.name}  {size / 1e6:.1f} MB{shared}")
    # what only these share goes with the last of them
    freed = footprint.freed(doomed.run.files for doomed in chosen) / 1e6
    what = f"{terminal.count(len(chosen), 'run')} ({freed:.1f} MB) in {_folder(args)}"
    if not args.yes and not _confirmed(f"Delete {what}? [y/N] "):
        terminal.say("Nothing was deleted.")
        return FAILED
    for doomed in chosen:
        for path in doomed.delete():
            terminal.say(f"Kept: {path}, which the run has not written, or not as it is now.")
    terminal.say(f"Deleted {what}.")
    return ANSWERED


def _is_over(run: RunSummary) -> bool:
    return run.ended is not None and not journal_lock.is_open(run.files.journal)


@dataclass(frozen=True)
class _Doomed:
    """A run that is to be deleted."""

    run: RunSummary

    def delete(self) -> list[Path]:
        """Delete the run; returns what is not the run's, and stays."""
        files = self.run.files
        try:
            with ExitStack() as stack:
                # of a session, all its prompts
                free = [stack.enter_context(journal_lock.held(one.journal)) for one in files.prompts()]
                ends = journal.read_ends(files.journal)
                is_over = all(one.ended is not None for one in catalog.prompts_of(self.run))
                if not all(free) or not is_over or ends != (self.run.started, self.run.ended):
                    raise RecordError(f"{files.name} is going on again, so it is not deleted.")
                return removal.remove(files)
        except OSError as error:
            raise RecordError(f"{error.filename} can't be deleted: {error.strerror or error}.") from None


def _confirmed(prompt: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        raise ConfigurationError("Nobody can be asked here: add --yes to delete.")
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _ended_at(run: RunSummary) -> datetime:
    last = catalog.prompts_of(run)[-1]
    seconds = last.ended.seconds if last.ended is not None else 0.0
    return datetime.fromisoformat(last.started.started) + timedelta(seconds=seconds)


def _folder(args: Namespace) -> str:
    return str(args.folder or store.FOLDER)


def _started(run: RunSummary) -> str:
    return f"{datetime.fromisoformat(run.started.started).astimezone():%Y-%m-%d %H:%M}"


def _state(files: RunFiles, ended: RunEnded | None) -> str:
    if journal_lock.is_open(files.journal):
        return "going on"
    return in_short(ended.stop_reason, ended.message) if ended is not None else "interrupted"


def _answer(run: RunSummary) -> str:
    return "" if run.ended is None or run.ended.answer is None else terminal.one_line(run.ended.answer, 80)


def _print_run(files: RunFiles, trajectory: Trajectory) -> None:
    from rlm_jupyter.record.export import WholeRun
    from rlm_jupyter.record.export.costs import by_model
    from rlm_jupyter.record.notice import compacted_line

    console = terminal.console()
    started, ended = trajectory.started, trajectory.ended
    facts = [
        _state(files, ended),
        terminal.count(len(trajectory.iterations), "iteration"),
        *_calls(trajectory.subcalls),
        terminal.spent(trajectory.usage, trajectory.cost),
        *([terminal.duration(ended.seconds)] if ended is not None else []),
    ]
    models = started.model if started.sub_model == started.model else f"{started.model}, {started.sub_model}"
    if files.number > 1:
        _line(console, "")
        _line(console, f"Prompt {files.number}", "dim")
    _line(console, started.prompt, "bold")
    _line(console, "")
    if trajectory.answer is not None:
        _line(console, trajectory.answer)
        _line(console, "")
    _line(console, " · ".join(facts), "dim")
    _line(console, f"{models} · context: {started.context.type_name}, {started.context.size}", "dim")
    used = by_model(WholeRun.gather(files, context=False, prompts=False))
    for name, one in used.items() if len(used) > 1 else ():
        requests = terminal.count(one.requests, "request")
        _line(console, f"  {name}: {requests} · {terminal.spent(one.usage, one.cost)}", "dim")
    if ended is not None and ended.message:
        _line(console, ended.message, "yellow")
    _line(console, str(files.shown), "dim")
    compacted: defaultdict[int, list[ConversationCompacted]] = defaultdict(list)
    for record in trajectory.records:
        if isinstance(record, ConversationCompacted):
            compacted[record.iteration].append(record)
    for iteration in trajectory.iterations:
        _line(console, "")
        prose = iteration.reply.text[: iteration.reply.read].partition("```")[0].strip()
        _line(console, f"[{iteration.index}] {prose}", "bold")
        for cell in iteration.cells:
            _print_cell(console, cell)
        for notice in iteration.notices:
            _line(console, f"to the model: {notice}", "yellow")
        for record in compacted.get(iteration.index, ()):
            _line(console, compacted_line(record), "yellow")
            if record.model and record.summary:
                _line(console, _indented(record.summary), "dim")


def _print_cell(console: Console, cell: Cell) -> None:
    from rlm_jupyter.prompts import outputs

    _line(console, "")
    source = terminal.printable(cell.source.strip("\n"))
    if console.is_terminal:
        from rich.padding import Padding
        from rich.syntax import Syntax

        code = Syntax(source, "python", background_color="default", word_wrap=True)
        console.print(Padding(code, (0, 0, 0, 4), expand=False))
    else:
        _line(console, _indented(source))
    text = outputs.cut(outputs.render(cell.outputs, where="in the notebook"), _OUTPUT_CHARS, variable=None).text
    if text:
        _line(console, _indented(text, "  > "), "red" if cell.status == "error" else "dim")
    count = ", ".join(_calls(cell.subcalls))
    failed = sum(subcall.failed for subcall in cell.subcalls)
    calls = f" · {count}{f', {failed} failed' if failed else ''}" if cell.subcalls else ""
    _line(console, f"    {cell.status} · {terminal.duration(cell.seconds)}{calls}", "dim")


def _calls(made: Sequence[SubcallSettled]) -> list[str]:
    tools = sum(call.kind == "tool" for call in made)
    return terminal.calls(len(made) - tools, tools)


def _line(console: Console, text: str, style: str = "") -> None:
    # standard output's own way of writing, so that a pipe gets the text as it is
    console.print(terminal.printable(text), style=style, soft_wrap=True)


def _indented(text: str, by: str = "    ") -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in text.split("\n"))
