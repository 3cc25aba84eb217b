"""What is told of a run in the notebook's own kernel: to the model, and once to the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlm_jupyter.frontends.display import html as fragments

_MOST_VARIABLES = 100
_SAID = "_rlm_here_said"
"""The attribute of a shell whose user has been told."""
_RIGHTS = (
    "With --here the model's code runs in this notebook's own kernel: it has your rights, sees and changes your "
    "variables and files, and there is no sandbox. Without --here it gets a kernel of its own."
)
_SURROUNDINGS = """\
This time you work in the kernel of the user's own notebook, not in one of your own. Its variables are theirs: you see \
and change the very objects, and what you change stays changed. Change or delete only what the task asks for, and give \
new variables names that are not taken."""


def say_once(shell: Any) -> None:
    """Tell the user, the first time in a session, what rights the model's code has."""
    if not getattr(shell, _SAID, False):
        setattr(shell, _SAID, True)
        html = fragments.block(fragments.note(_RIGHTS))
        shell.display_pub.publish({"text/html": html, "text/plain": _RIGHTS})


def surroundings(variables: Sequence[tuple[str, str, str]]) -> str:
    """Return what the model is told of the kernel; stands above the prompt.

    Parameters
    ----------
    variables
        Name, type and size of each.
    """
    lines = [f"- {name}: {kind}" + (f" [{size}]" if size else "") for name, kind, size in variables]
    more = len(lines) - _MOST_VARIABLES
    if more > 0:
        lines[_MOST_VARIABLES:] = [f"- and {more:,} more: SHOW_VARS() lists all"]
    there = "The variables there:\n" + "\n".join(lines) if lines else "It has no variables yet."
    return f"{_SURROUNDINGS} {there}\n\n"
