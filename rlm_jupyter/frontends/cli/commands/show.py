"""`show`: a run to read, its answer, its iterations, their code and outputs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, terminal
from rlm_jupyter.frontends.cli.kept_runs import prompts_named, state_of
from rlm_jupyter.frontends.cli.shared_arguments import add_run

if TYPE_CHECKING:
    from rich.console import Console

    from rlm_jupyter.record.iteration import Cell
    from rlm_jupyter.record.store import RunFiles
    from rlm_jupyter.record.trajectory import Trajectory
    from rlm_jupyter.types.events import ConversationCompacted, SubcallSettled

EXAMPLES = """\
  jupyter rlm show
  jupyter rlm show rlm_runs/20250102-101500-who.ipynb
"""
_OUTPUT_CHARS = 600
"""What is shown of a cell's output."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_run(parser)


def run(args: Namespace) -> int:
    """Run `jupyter rlm show`: a run to read; return the exit code."""
    from rlm_jupyter.record.run_files import read_files
    from rlm_jupyter.record.trajectory import Trajectory

    for prompt in prompts_named(args.run):
        _print_run(prompt, Trajectory(read_files(prompt)[0]))
    return ANSWERED


def _print_run(files: RunFiles, trajectory: Trajectory) -> None:
    from rlm_jupyter.record.export import WholeRun
    from rlm_jupyter.record.export.costs import by_model
    from rlm_jupyter.record.notice import compacted_line
    from rlm_jupyter.types.events import ConversationCompacted

    console = terminal.console()
    started, ended = trajectory.started, trajectory.ended
    facts = [
        state_of(files, ended),
        terminal.count(len(trajectory.iterations), "iteration"),
        *_calls(trajectory.subcalls),
        terminal.spent(*trajectory.bill),
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
        requests = f"{terminal.count(one.requests, 'request')} · " if one.requests else ""
        _line(console, f"  {name}: {requests}{terminal.spent(one.usage, one.cost)}", "dim")
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
