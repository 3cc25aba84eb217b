"""What is recorded of sub-calls: what came of each prompt, also of one that was refused or not sent again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rlm_jupyter.models import Model
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.events import SubcallSettled, SubcallStarted
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.utf8 import utf8
from rlm_jupyter.types.values import PacksContext, Subcall, SubcallFailure, SubcallKind

HEAD_CHARS = 1_000
"""Of a prompt, in the record and in what is shown; a longer one is kept whole beside it."""
MOST_REFUSED = 100
"""Refusals of a cell that are written down; when it is executed again, those after them are like the last."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of one prompt."""

    text: str
    failed: bool = False
    model: str = ""
    child: str | None = None
    is_sent: bool = True


def digest(prompt: str) -> str:
    """Return the SHA-256 of a prompt, in hexadecimal."""
    return hashlib.sha256(utf8(prompt)).hexdigest()


def repeated_record(
    run: Run, call: Subcall, model: Model, ordinal: int, prompt: str, answer: str | SubcallFailure
) -> Callable[[], SubcallSettled]:
    """Return the record of a sub-call that was not sent: it cost nothing."""
    asked = SubcallStarted(
        run.iteration, run.cell_state.block, "llm", ordinal, len(prompt), prompt[:HEAD_CHARS], model.name
    )
    failed = isinstance(answer, SubcallFailure)
    done = Settled(answer.reason if isinstance(answer, SubcallFailure) else answer, failed, model.name)
    return lambda: settled_record(asked, call, prompt, done, Bill(), 0.0)


def refuse(run: Run, call: Subcall, kind: SubcallKind, ordinal: int, prompt: str, text: str) -> None:
    """Write down that nobody was asked, so that the cell gets the same when it is executed again.

    Not for ever: a loop that takes no for an answer would fill the disk.
    """
    run.subcalls.refused += 1
    if run.subcalls.refused <= MOST_REFUSED:
        asked = SubcallStarted(run.iteration, run.cell_state.block, kind, ordinal, len(prompt), prompt[:HEAD_CHARS])
        run.event_log.add_soon(
            lambda: replace(settled_record(asked, call, prompt, Settled(text, failed=True), Bill(), 0.0), refused=True)
        )


def refuse_all(
    run: Run, call: Subcall, kind: SubcallKind, first: int, new: Sequence[int], error: RLMError
) -> list[SubcallFailure]:
    """Write down that nobody was asked any of the `new` prompts; return a failure for each prompt of the call."""
    refusal = f"{error}."
    if len(call.prompts) > 1:
        run.subcalls.batch_refusal = refusal
    for i in new:
        refuse(run, call, kind, first + i, call.prompts[i], refusal)
    return [SubcallFailure(refusal)] * len(call.prompts)


def record_tool_call(run: Run, call: Subcall, asked: SubcallStarted, given: str, failed: bool, seconds: float) -> None:
    """Write down what came of a tool call."""
    settled = Settled(given, failed, call.model or "")
    run.event_log.add_soon(lambda: settled_record(asked, call, call.prompts[0], settled, Bill(), seconds))


def settled_record(
    asked: SubcallStarted,
    call: Subcall,
    prompt: str,
    settled: Settled,
    bill: Bill,
    seconds: float,
    images: tuple[Image, ...] = (),
    context: PacksContext | None = None,
) -> SubcallSettled:
    """Return the record of one prompt that was settled.

    Parameters
    ----------
    images
        Those that were sent with it.
    context
        That the prompt is, where it is one of the kernel's: its SHA-256 is known.
    """
    return SubcallSettled(
        iteration=asked.iteration,
        block=asked.block,
        kind=asked.kind,
        ordinal=asked.ordinal,
        prompt_sha256=digest(prompt) if context is None else context.info.sha256,
        prompt_chars=asked.prompt_chars,
        prompt_head=asked.prompt_head,
        asked_model=call.model,
        model=settled.model,
        text=settled.text,
        failed=settled.failed,
        usage=bill.usage,
        cost=bill.cost,
        seconds=seconds,
        child=settled.child,
        prompt=str(prompt) if len(prompt) > HEAD_CHARS else None,
        images=images,
    )
