"""The lines around the model's cells, which tell them from a person's wherever the notebook is read."""

from __future__ import annotations

from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.events import RunEnded, RunStarted

_RULE = "---"
"""Between a person's cells and the model's, where both stand in one notebook: not every reader has colours for them."""
LAST_LINE = f"*End of the model's cells.*\n\n{_RULE}"
"""The Markdown that stands below the last of them where their cell, right above them, says what they came to."""

CHILD_FIRST_LINE, CHILD_LAST_LINE = "*A child's cells, run in a kernel of its own:*", "*End of the child's cells.*"
"""The same around the cells of a child that are shown among them, and around those of another sample."""


def opening_line(started: RunStarted) -> str:
    """Return the Markdown that stands above the first of the model's cells."""
    # an attached kernel is the one of the user's own notebook
    kernel = "in this notebook's kernel" if started.options.get("lent") else "in a kernel of their own"
    return f"*The model's cells, run {kernel}:*"


def live_opening(started: RunStarted) -> str:
    """Return the same for a person's own notebook, while the run goes on."""
    return f"{_RULE}\n\n{opening_line(started)}"


def counted(opening: str, iterations: int, cells: int, executed: int) -> str:
    """Return such a line with what stands below it, once all of it does.

    Parameters
    ----------
    opening
        As `live_opening` returned it.
    iterations, cells, executed
        How many replies there are, how many cells with code, and how many of these were executed.
    """
    code = f"{_count(cells, 'cell')} of code"
    if executed < cells:
        code = f"{executed or 'none'} of {code} executed"
    what = f"{_count(iterations, 'iteration')}, {code}"
    text = opening.replace("cells, run", f"cells ({what}), run", 1)
    # in the file they have no numbers: those of their kernel would be a person's once more
    return text.replace("a kernel of their own:", "a kernel of their own, not numbered with this notebook's:", 1)


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def closing_line(ended: RunEnded) -> str:
    """Return the Markdown that stands below the last of the model's cells in the run's own notebook."""
    return f"*End of the run: {in_short(ended.stop_reason, ended.message)}.*"
