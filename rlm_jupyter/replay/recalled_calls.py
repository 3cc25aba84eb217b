"""`Recalled`: answers the sub-calls of a cell run by hand from what its run has asked: nothing is paid twice."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Sequence

from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.recorded_calls import head
from rlm_jupyter.types.events import SubcallSettled
from rlm_jupyter.types.values import CellPosition, Subcall, SubcallFailure


class Recalled:
    """An `AnswerSubcall` for one execution of one cell.

    A prompt that its own cell had asked gets the answers that it got there, in that order; any other the first
    that it got in this kernel. The model that a call names belongs to the question.

    Parameters
    ----------
    records
        Of all prompts that the kernel has answered.
    position
        The cell's iteration and block.
    run_id
        Of the run that the cell belongs to.
    """

    def __init__(self, records: Sequence[Trajectory], run_id: str, position: CellPosition) -> None:
        self._in_cell: dict[tuple[str, str | None], deque[SubcallSettled]] = defaultdict(deque)
        self._first: dict[tuple[str, str | None], SubcallSettled] = {}
        for trajectory in records:
            own = bool(trajectory.records) and trajectory.run_id == run_id
            for call in sorted(trajectory.subcalls, key=lambda call: (call.iteration, call.block, call.ordinal)):
                asked = call.prompt_sha256, call.asked_model
                self._first.setdefault(asked, call)
                if own and (call.iteration, call.block) == position:
                    self._in_cell[asked].append(call)

    async def __call__(self, call: Subcall) -> list[str | SubcallFailure]:
        """Return the recorded answers, in order; what was never asked is refused."""
        return [self._one(prompt, call.model) for prompt in call.prompts]

    def _one(self, prompt: str, model: str | None) -> str | SubcallFailure:
        asked = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest(), model
        in_cell = self._in_cell.get(asked)
        found = in_cell.popleft() if in_cell else self._first.get(asked)
        if found is None:
            return SubcallFailure(
                f"a cell that you run by hand spends nothing: it is answered from the run's record, and "
                f"{head(prompt)!r} was not asked there. rlm_result.ask(…) asks the model"
            )
        return answer_of(found)


def answer_of(call: SubcallSettled) -> str | SubcallFailure:
    """Return what a recorded sub-call was answered with."""
    return SubcallFailure(call.text) if call.failed else call.text
