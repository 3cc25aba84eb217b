"""What a cell is: a prompt in plain language, or code for the kernel behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

PYTHON = "%%python"
"""Begins a cell of Python; it runs in the kernel behind, not in another interpreter as IPython's would."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line that is this kernel's own: its name, and what stands behind it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Code:
    """Source for the kernel behind."""

    source: str


@dataclass(frozen=True, slots=True)
class WrittenPrompt:
    """A question for the model, as it was written."""

    text: str


def read(cell: str, own: Sequence[str]) -> tuple[list[Command], Code | WrittenPrompt | None]:
    """Take a cell apart: commands at its beginning, a line each, and the rest.

    Parameters
    ----------
    cell
        As it was written.
    own
        The names of the commands, without `%`.

    Raises
    ------
    ConfigurationError
        `%%python` has options.
    """
    end_of_commands = rest_at(cell, own)
    commands = [_command(line) for line in cell[:end_of_commands].splitlines() if line.strip()]
    rest = cell[end_of_commands:]
    if not rest.strip():
        return commands, None
    return commands, Code(_source(rest)) if is_code(rest) else WrittenPrompt(rest.strip("\n"))


def rest_at(cell: str, own: Sequence[str]) -> int:
    """Return where the commands at its beginning end."""
    end_of_commands = end = 0
    for line in cell.splitlines(keepends=True):
        end += len(line)
        if line.strip() and not _is_command(line, own):
            break
        if line.strip():
            end_of_commands = end
    return end_of_commands


def is_code(cell: str) -> bool:
    """Return whether it begins as code does: with a magic or `!`."""
    return cell.lstrip().startswith(("%", "!"))


def is_python(cell: str) -> bool:
    """Return whether it begins with `%%python`."""
    return cell.lstrip().partition("\n")[0].split()[:1] == [PYTHON]


def body_at(cell: str) -> int:
    """Return where the Python of a `%%python` cell begins."""
    line_end = cell.find("\n", cell.index(PYTHON))
    return len(cell) if line_end < 0 else line_end + 1


def _is_command(line: str, own: Sequence[str]) -> bool:
    return line.strip().startswith("%") and _command(line).name in own


def _command(line: str) -> Command:
    name, *arguments = line.strip().removeprefix("%").split(None, 1) or [""]
    return Command(name, arguments[0] if arguments else "")


def _source(code: str) -> str:
    if not is_python(code):
        return code.lstrip()
    options = code.lstrip().partition("\n")[0].strip().removeprefix(PYTHON).strip()
    if options:
        raise ConfigurationError(
            f"{PYTHON} takes no options, not {quoted(options)}: its body runs in the kernel behind. "
            "For another interpreter there is %%script."
        )
    body = code[body_at(code) :]
    if body.lstrip().startswith("%%"):
        return body.lstrip()
    # a line in the place of the first: tracebacks count as the cell does
    return f"# {PYTHON}\n{body}" if body.strip() else ""
