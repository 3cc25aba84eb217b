"""The lines around the model's cells, which tell them from a person's wherever the notebook is read."""

from __future__ import annotations

from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.events import RunEnded, RunStarted

LAST_LINE = "*End of the model's cells.*"
"""The Markdown that stands below the last of them where their cell, right above them, says what they came to."""

CHILD_FIRST_LINE, CHILD_LAST_LINE = "*A child's cells, run in a kernel of its own:*", "*End of the child's cells.*"
"""The same around the cells of a child that are shown among them, and around those of another sample."""


def opening_line(started: RunStarted) -> str:
    """Return the Markdown that stands above the first of the model's cells."""
    # an attached kernel is the one of the user's own notebook
    kernel = "in this notebook's kernel" if started.options.get("lent") else "in a kernel of their own"
    return f"*The model's cells, run {kernel}:*"


def closing_line(ended: RunEnded) -> str:
    """Return the Markdown that stands below the last of the model's cells in the run's own notebook."""
    return f"*End of the run: {in_short(ended.stop_reason, ended.message)}.*"
