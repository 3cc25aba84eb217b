"""`SubcallFold`: the sub-calls of a cell of a run's notebook, as a cell below it."""

from __future__ import annotations

from typing import Any

from rlm_jupyter.record import subcall_list
from rlm_jupyter.record.child_steps import ChildSteps
from rlm_jupyter.record.notebook_cell import NotebookCell
from rlm_jupyter.record.subcall_texts import Texts
from rlm_jupyter.record.thumbnails import MOST
from rlm_jupyter.types.events import SubcallSettled


class SubcallFold:
    """A cell for reading: the records stand in the cell that asked.

    Parameters
    ----------
    texts
        Shows prompts and replies.
    steps
        Shows what children did.
    """

    def __init__(self, texts: Texts, steps: ChildSteps) -> None:
        self._texts = texts
        self._steps = steps
        self._settled: list[SubcallSettled] = []
        self._listed: dict[int, str] = {}
        """By the sub-calls' ordinals, as HTML."""
        self._images = 0
        self._drawn: tuple[int, bytes] = (0, b"")

    def take(self, record: SubcallSettled) -> None:
        """Add a sub-call. It is rendered once, for a cell may have very many."""
        self._settled.append(record)
        if record.ordinal >= subcall_list.SHOWN and self._texts.is_used_up:
            return
        pictures = [subcall_list.picture(image, self._texts) for image in record.images[: max(MOST - self._images, 0)]]
        self._images += len(record.images)
        steps = self._steps.of(record)
        self._listed[record.ordinal] = subcall_list.listed_call(record, self._texts, pictures, steps)

    def encode(self, asking: NotebookCell, tag: dict[str, Any]) -> bytes:
        """Return the cell as JSON; drawn anew only when there are more sub-calls."""
        if self._drawn[0] != len(self._settled):
            listed = [self._listed[ordinal] for ordinal in sorted(self._listed)]
            source = subcall_list.folded(self._settled, listed, 0, self._texts)
            meta = {"role": "subcalls", "iteration": self._settled[0].iteration, **tag}
            self._drawn = len(self._settled), NotebookCell("markdown", f"{asking.id}-calls", source, meta).encode()
        return self._drawn[1]
