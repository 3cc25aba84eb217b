"""The iterations of a run as plain data, for `trajectory` in its kernel."""

from __future__ import annotations

import itertools
import json
from typing import Any

from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.iteration import Iteration
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.values import Subcall, SubcallFailure

_PAGE_CHARS = 4_000_000
"""What is handed over at once; the kernel asks again for what comes after it. One iteration always is."""
_MOST_CHARS = 2_000_000
"""Of one iteration's outputs; longer ones are cut in the middle, as what the model is shown is."""

_MOST_AGAIN_CHARS = 16_000_000
"""Of what a cell was given before."""


def past(trajectory: Trajectory, known: str, *, before: int | None = None) -> str:
    """Return the iterations of a run that a kernel does not have, as JSON: `iterations`, and whether there are `more`.

    Each is given once, so that all of a run's cells together cost what it is long.

    Parameters
    ----------
    known
        How many the kernel has, as a number in digits: a kernel may send anything.
    before
        Only those before this one. Default: all that are over.

    Raises
    ------
    ValueError
        `known` is no such number.
    """
    found, more = _page(trajectory, int(known), before)
    return json.dumps({"iterations": found, "more": more})


def _page(trajectory: Trajectory, start: int, before: int | None = None) -> tuple[list[dict[str, Any]], bool]:
    """Return the iterations from this place on, as many as are handed over at once, and whether there are more."""
    if start < 0:
        raise ValueError(f"{start} iterations can't be known")
    found: list[dict[str, Any]] = []
    chars, more = 0, False
    for iteration in itertools.islice(trajectory.iterations, start, None):
        if not iteration.shown or (before is not None and iteration.index >= before):
            break  # it goes on
        if chars > _PAGE_CHARS:
            more = True
            break
        found.append(_plain(iteration))
        chars += sum(map(len, map(str, found[-1].values())))
    return found, more


class PastCalls:
    """Answers a kernel that asks for the iterations so far; that costs nothing, and is not recorded.

    What a cell has been given is given to it again up to a bound: one that asks and does not read would have the host
    keep all of it.
    """

    def __init__(self) -> None:
        self._cell = self._through = self._again = 0
        """The cell that asks, the iterations that it was given, and the characters that it was given again."""

    def answer(self, trajectory: Trajectory, call: Subcall) -> list[str | SubcallFailure]:
        """Answer one call."""
        if call.execution != self._cell:
            self._cell, self._through, self._again = call.execution, 0, 0
        try:
            [known] = call.prompts
            start = int(known)
            if start < self._through and self._again > _MOST_AGAIN_CHARS:
                return [
                    SubcallFailure("this cell was given the iterations before it too often; the next may ask again")
                ]
            found, more = _page(trajectory, start)
        except ValueError:
            return [SubcallFailure("a number of iterations is asked for, once at a time")] * len(call.prompts)
        told = json.dumps({"iterations": found, "more": more})
        if start < self._through:
            self._again += len(told)
        self._through = max(self._through, start + len(found))
        return [told]


def _plain(iteration: Iteration) -> dict[str, Any]:
    cells = [cell for cell in iteration.cells if cell.status != "skipped"]
    rendered = "\n\n".join(filter(None, (outputs.render(cell.outputs) for cell in cells)))
    return {
        "number": iteration.index,
        "reply": iteration.reply.text[: iteration.reply.read],
        "code": "\n\n".join(cell.source for cell in iteration.cells),
        "outputs": outputs.cut(rendered, _MOST_CHARS, variable=None).text,
        "notices": "\n\n".join(iteration.notices),
    }
