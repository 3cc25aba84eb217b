"""`RecordedCalls`: finds a sub-call of a recorded run again.

By its prompt, its kind, the model it named and its place: the n-th such call of its cell, else of the run; else
by the prompt alone, and at last as the same call of the same cell. Never by the order in which answers arrived.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.subcall_client import Answers, SubcallError, SubcallFailure
from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.past import past
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.events import SubcallSettled
from rlm_jupyter.types.values import CellPosition

_HEAD_CHARS = 60
_SAVED_OUTPUT = re.compile(r"\boutput_(\d+)\b")
"""What a run calls the whole of an output that it showed shortened."""


class RecordedCalls:
    """The sub-calls of a run, to be asked again.

    Parameters
    ----------
    subcalls
        In the order in which they were recorded.
    """

    def __init__(self, subcalls: Iterable[SubcallSettled]) -> None:
        self._in_cell: dict[Any, list[SubcallSettled]] = defaultdict(list)
        self._in_run: dict[Any, list[SubcallSettled]] = defaultdict(list)
        self._by_prompt: dict[tuple[str, bool], SubcallSettled] = {}
        self._by_position: dict[tuple[CellPosition, int], SubcallSettled] = {}
        self._refusals: dict[CellPosition, SubcallSettled] = {}
        """The last of a cell: not all may be on record."""
        self._ordinal = 0
        self._uses: dict[Any, int] = defaultdict(int)
        self._position: CellPosition | None = None
        # of a call that failed as the run was stopped, and was asked again when its cell was executed anew, the last
        latest = {(call.iteration, call.block, call.ordinal, call.prompt_sha256): call for call in subcalls}
        # the order of the calls, not that of the answers
        ordered = sorted(latest.values(), key=lambda call: (call.iteration, call.block, call.ordinal))
        self._recursive = any(call.kind == "rlm" for call in ordered)
        for call in ordered:
            key = call.prompt_sha256, call.kind, call.asked_model
            self._in_cell[(call.iteration, call.block), key].append(call)
            self._in_run[key].append(call)
            self._by_prompt.setdefault((call.prompt_sha256, call.kind == "tool"), call)
            self._by_position[(call.iteration, call.block), call.ordinal] = call
            if call.refused:
                self._refusals[call.iteration, call.block] = call

    def begin(self, position: CellPosition | None) -> None:
        """Begin a cell: that of the run at `position`, or one of the reader's own."""
        self._position, self._ordinal = position, 0
        for key in [key for key in self._uses if isinstance(key[0], tuple)]:
            del self._uses[key]

    def find(self, kind: str, prompt: str, model: str | None) -> SubcallSettled | None:
        """Return the call that was recorded for this one; `None` when nothing like it was asked."""
        key = self._key(kind, prompt, model)
        found, ordinal = None, self._ordinal
        self._ordinal += 1
        if self._position is not None:
            found = self._nth(self._in_cell, (self._position, key))
        found = found or self._nth(self._in_run, key) or self._by_prompt.get((key[0], kind == "tool"))
        if found is None and self._position is not None:
            # the record was redacted, or what the cell reads differs here: the same call of the same cell
            found = self._by_position.get((self._position, ordinal))
            is_alike = found is not None and found.asked_model == model and (found.kind == "tool") == (kind == "tool")
            found = found if is_alike else None
        return found or (self._refusals.get(self._position) if self._position is not None else None)

    def find_in_cell(self, kind: str, prompt: str, model: str | None) -> SubcallSettled | None:
        """Return the next use of exactly this call in the cell that began; `None` beyond the last."""
        return self._nth(self._in_cell, (self._position, self._key(kind, prompt, model)))

    def _key(self, kind: str, prompt: str, model: str | None) -> tuple[str, str, str | None]:
        digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
        # where the depth was used up, the run recorded what it was: a plain call
        return digest, kind if self._recursive or kind == "tool" else "llm", model

    def _nth(self, calls: dict[Any, list[SubcallSettled]], key: Any) -> SubcallSettled | None:
        recorded = calls.get(key, [])
        use = self._uses[key]
        if use >= len(recorded):
            return None
        self._uses[key] = use + 1
        return recorded[use]


class KernelCalls(RecordedCalls):
    """Answers sub-calls from a run's record, in a kernel.

    Parameters
    ----------
    trajectory
        The run.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        super().__init__(trajectory.subcalls)
        self._trajectory = trajectory

    def call(
        self, kind: str, prompts: Sequence[str], model: str | None, schema: Mapping[str, Any] | None = None
    ) -> Answers:
        """Return the recorded answers, in order.

        Raises
        ------
        SubcallError
            One of the prompts was never asked in this run.
        """
        if kind == "trajectory":
            return [past(self._trajectory, *prompts, before=None if self._position is None else self._position[0])]
        return [self._one(kind, prompt, model) for prompt in prompts]

    async def acall(
        self, kind: str, prompts: Sequence[str], model: str | None, schema: Mapping[str, Any] | None = None
    ) -> Answers:
        """Do what `call` does, to be awaited."""
        return self.call(kind, prompts, model)

    def _one(self, kind: str, prompt: str, model: str | None) -> str | SubcallFailure:
        found = self.find(kind, prompt, model)
        if found is None:
            raise SubcallError(
                f"this notebook only replays a recorded run, in which {head(prompt)!r} was not asked. To ask "
                "a model anew: %%rlm --rerun with your prompt, or RLM('provider/model').completion(prompt, context)"
            )
        return SubcallFailure(found.text) if found.failed else found.text


def head(prompt: str) -> str:
    """Return how a prompt begins, for a message that names it."""
    return prompt if len(prompt) <= _HEAD_CHARS else f"{prompt[:_HEAD_CHARS]}…"


def saved_outputs(trajectory: Trajectory) -> dict[str, str]:
    """Return the variables with whole outputs (`output_N`) that the run's cells name, by name."""
    cells = [cell for iteration in trajectory.iterations for cell in iteration.cells]
    spoken = {int(number) for cell in cells for number in _SAVED_OUTPUT.findall(cell.source)}
    return {
        f"output_{cell.execution_count}": outputs.render(cell.outputs)
        for cell in cells
        if cell.execution_count in spoken
    }
