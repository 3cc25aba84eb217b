"""`ask_directly`: the question with the whole text, where that fits, before any kernel is used for it."""

from __future__ import annotations

import asyncio

from rlm_jupyter.models.abilities import fixed
from rlm_jupyter.prompts import direct
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.request import complete
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.grounding import is_question
from rlm_jupyter.run.loop import Ending
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.vote import is_same
from rlm_jupyter.types.errors import ContextWindowError, LimitReached, ModelError
from rlm_jupyter.types.events import DirectReplied, RemarkMade
from rlm_jupyter.types.tokens import estimate_tokens
from rlm_jupyter.types.values import Message, PackedContext, Value

AGREE = "asked directly with the whole text, twice: both replies say the same"
_DRAWS = 2
_SHARE = 0.5
"""Of the window that question and text may fill: an estimate of tokens is not exact, and what is far away is missed."""
_REPLY_TOKENS = 1_024
_MOST_BYTES_PER_TOKEN = 8


async def ask_directly(run: Run, context: Context | PackedContext) -> Ending | None:
    """Ask the model twice at once, with the whole text; `None`: the text does not fit, or the two replies differ.

    The replies are recorded; where they differ, the first message of the run tells them.
    """
    recorded = () if run.playback is None else run.playback.direct()
    replies = {reply.number: reply.text for reply in recorded}
    missing = [number for number in range(1, _DRAWS + 1) if number not in replies]
    if missing and (run.playback is None or run.playback.asks_models):
        message, why_not = _message(run, context)
        if why_not:
            run.emit(RemarkMade(f"Not asked directly: {why_not}."))
            return None
        drawn = await asyncio.gather(*(_draw(run, message, number) for number in missing))
        replies |= {number: text for number, text in zip(missing, drawn, strict=True) if text is not None}
    values = [Value(text, text, is_json=True) for text in replies.values() if text]
    if len(values) < _DRAWS or not is_same(*values) or is_question(values[0].text, run.trajectory.started.prompt):
        return None
    return Ending("answered", min(values, key=lambda value: len(value.text)), AGREE, 1.0)


def _message(run: Run, context: Context | PackedContext) -> tuple[str, str]:
    """Return the question with the text; without one, why: no text, too long, or always the same reply."""
    room = int(run.model.window * _SHARE)
    if context.kind == "none":
        return "", "there is no context"
    if context.kind != "str":
        return "", f"the context is no text, but of type {context.info.type_name}"
    if why := fixed(run.model):
        return "", why
    if context.info.nbytes <= room * _MOST_BYTES_PER_TOKEN:
        packed = context.packed() if isinstance(context, Context) else context
        message = direct.question(run.trajectory.started.prompt, str(packed.buffers[0], "utf-8", "replace"))
        if estimate_tokens(message) + _REPLY_TOKENS <= room:
            return message, ""
    return "", f"the text takes more than half of the window of {run.model.name}"


async def _draw(run: Run, message: str, number: int) -> str | None:
    """Return a reply; `None` where none came: the loop then finds out what is wrong."""
    bill = Bill()
    try:
        answered = await complete(
            run.model,
            [Message("user", message)],
            run.ledger,
            max_output_tokens=min(_REPLY_TOKENS, run.limits.max_output_tokens),
            bill=bill,
        )
    except (ModelError, ContextWindowError, LimitReached):
        run.requests.lost.add(bill.usage, bill.cost)
        return None
    except BaseException:
        run.requests.lost.add(bill.usage, bill.cost)
        raise
    text = answered.reply.text.strip()
    run.event_log.add(
        DirectReplied(number, text, answered.reply.model, answered.usage, answered.cost, answered.seconds)
    )
    return text if answered.reply.finish == "stop" else ""
