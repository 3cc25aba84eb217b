"""The root model of a run: what it is sent, and the next reply that counts."""

from __future__ import annotations

import time
from dataclasses import replace

from rlm_jupyter import parsing
from rlm_jupyter.prompts.outputs import shown_chars
from rlm_jupyter.run import arriving, reply_checks, window
from rlm_jupyter.run.budget import request as calls
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.request import Completion
from rlm_jupyter.run.budget.request_size import most_cost
from rlm_jupyter.run.compaction import leave_out
from rlm_jupyter.run.elision import density, elide, most_input, tokens
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.endings import WORDS
from rlm_jupyter.types.errors import ContextWindowError, LimitReached, NoAnswerError, UnusableReplyError
from rlm_jupyter.types.events import NoticeGiven, ReplyReceived, ReplyStreamed
from rlm_jupyter.types.tokens import most_tokens
from rlm_jupyter.types.values import FinishReason, Message, Reply, Usage

MOST_REPEATS = 3
"""Replies drawn in a row that repeat the one before them; then the run ends."""
_RESAMPLE_TEMPERATURES = (1.0, 1.3)
"""The temperatures of what is drawn again; of its own a server takes 0.7 or 0.8, say."""
LAST_REPLY = 2_048
"""Tokens: the cap of the last reply."""
_REPLY_MARGIN = 1.5
"""How many times as long as the reply before a last one may take."""
_MOST_OF_TIME = 0.2
"""Of `max_seconds`, at most: what is held back for a last reply."""
_ROOM_GROWTH = 2
"""A reply that was cut off lets the next be so many times longer."""


async def next_reply(run: Run) -> parsing.ParsedReply:
    """Return the next usable reply; resample empty and repeated ones.

    They are resampled warmer, and stay out of the conversation, where one would make the next repetition likelier;
    that there was one, the model is told once.

    Raises
    ------
    LimitReached
        As `request_reply`; `no_progress` when it said nothing new `MOST_REPEATS` times in a row.
    """
    if run.playback is not None and (recorded := run.playback.reply()) is not None:
        run.requests.reply_cap = _next_reply_cap(run, recorded.finish)
        return reply_checks.accept(run, parsing.parse(recorded.text))
    reasons: list[str] = []
    while len(reasons) < MOST_REPEATS:
        answered = await request_reply(run, temperature=_RESAMPLE_TEMPERATURES[len(reasons) - 1] if reasons else None)
        answered = _whole(run, answered)
        reply = parsing.parse(answered.reply.text)
        # one whose first cell is executed already counts: nothing that follows it could change that
        is_begun = run.cell_state.early is not None
        rejection = None if is_begun else reply_checks.rejection(run, reply, answered.reply.text[: reply.read])
        if rejection is None:
            received(run, answered, read=reply.read)
            return reply_checks.accept(run, reply)
        received(run, answered, read=reply.read, rejected=f"{rejection.reason} ({len(reasons) + 1})")
        last = run.trajectory.iterations[-1:]
        if last and rejection.notice and not reasons:
            run.record(NoticeGiven(last[0].index, rejection.notice))
        reasons.append(rejection.reason)
    is_empty = set(reasons) == {reply_checks.EMPTY}
    raise LimitReached("the model sent nothing" if is_empty else WORDS["no_progress"], stop_reason="no_progress")


def _whole(run: Run, answered: Completion) -> Completion:
    """Return a reply with its last block closed, where this is the second that the model has ended without closing it.

    One such reply may have been cut off, whatever its server says, and is not executed. Two are the habit of a model,
    or of a server that stops at what closes a block: nothing would ever be executed.
    """
    if not _leaves_open(answered.reply) or not any(_leaves_open(one.reply) for one in run.trajectory.iterations):
        return answered
    return replace(answered, reply=replace(answered.reply, text=parsing.closed(answered.reply.text)))


def _leaves_open(reply: Reply | ReplyReceived) -> bool:
    return reply.finish == "stop" and parsing.parse(reply.text).unclosed


async def request_reply(run: Run, temperature: float | None = None, *, last: bool = False) -> Completion:
    """Draw the root model's next reply, perhaps an empty one; it is not recorded yet.

    Parameters
    ----------
    temperature
        Where the provider lets us set it; else, and by default, its own.
    last
        It is the last reply, and may use what is held back for that.

    Raises
    ------
    LimitReached
        A limit of the tree, or the window (`context_window`), leaves no room.
    """
    if last:
        run.requests.reply_cap = min(run.requests.reply_cap, LAST_REPLY)
    while True:
        # a last reply ends the run: a summary would serve nothing after it
        conversation = await window.fit(run, summarizes=not last)
        try:
            answered = await _ask(run, conversation, temperature, last)
        except ContextWindowError as overflow:
            # the provider counts more tokens than we thought: from now on we count as it does
            run.requests.density = max(run.requests.density, density(run, overflow.tokens or 0))
            if not await window.shrink(run, summarizes=not last):
                raise LimitReached(str(overflow), stop_reason="context_window") from overflow
            continue
        except UnusableReplyError as nothing:
            model_has_given_up = isinstance(nothing, NoAnswerError)
            raise LimitReached(
                str(nothing), stop_reason="no_progress", model_has_given_up=model_has_given_up
            ) from nothing
        usage = answered.reply.usage
        run.requests.token_confidence = answered.reply.token_confidence
        if not answered.reply.estimated:
            run.requests.density = max(run.requests.density, density(run, usage.input_tokens))
            run.requests.last_read = (len(conversation), usage.input_tokens + usage.output_tokens)
        run.requests.reply_cap = _next_reply_cap(run, answered.reply.finish)
        return answered


def _next_reply_cap(run: Run, finish: FinishReason) -> int:
    return run.requests.reply_cap * _ROOM_GROWTH if finish == "length" else run.limits.max_output_tokens


async def _ask(run: Run, conversation: list[Message], temperature: float | None, last: bool) -> Completion:
    bill, started = Bill(), time.monotonic()
    try:
        return await calls.complete(
            run.model,
            conversation,
            run.ledger,
            max_output_tokens=run.requests.reply_cap,
            input_tokens=tokens(run),
            most_input_tokens=most_input(run, conversation),
            logprobs=run.policies.termination.wants_logprobs,
            on_text=lambda text: run.emit(ReplyStreamed(run.iteration, text)),
            until=lambda: parsing.Reading().is_over if last else arriving.listener(run),
            temperature=temperature,
            may_be_empty=True,
            bill=bill,
            # as long as a last reply could come from nothing, nothing is left for one
            held_back=run.requests.held_back if last or not run.can_conclude else None,
            kept=lambda: "" if run.cell_state.early is None else run.cell_state.early.reply,
        )
    except BaseException:
        if run.cell_state.early is None:
            run.requests.lost.add(bill.usage, bill.cost)
        else:
            reply = Reply(run.cell_state.early.reply, run.model.name, bill.usage, "broken_off", estimated=True)
            received(run, Completion(reply, bill.usage, bill.cost, time.monotonic() - started), read=len(reply.text))
            await arriving.give_up(run)
        raise


def hold_back_last_reply(run: Run, *, has_cells: bool = False) -> None:
    """Hold back what the run needs for a last reply to its conversation.

    Parameters
    ----------
    has_cells
        Cells are about to be executed. Their outputs are not known: a token for four characters of what is shown at
        most. What they take beyond that, older outputs make room for (`drop_oldest`).
    """
    conversation = run.requests.conversation.messages(run.trajectory)
    known = most_input(run, conversation)
    most = most_tokens(conversation) if known is None else known
    most += shown_chars(run.limits, run.model.window) // 4 if has_cells else 0
    cost = most_cost(run.model, Usage(input_tokens=most, output_tokens=LAST_REPLY))
    last = run.trajectory.iterations[-1:]
    seconds = _REPLY_MARGIN * last[0].reply.seconds if last else 0.0
    if (whole := run.limits.max_seconds) is not None:
        seconds = min(seconds, whole * _MOST_OF_TIME)
    run.requests.held_back.hold(most + LAST_REPLY, cost or 0.0, seconds)


def drop_oldest(run: Run) -> bool:
    """Leave out the oldest outputs that are still shown, but the last iteration's, else the oldest iterations.

    Return whether there were any.
    """
    return elide(run) or leave_out(run, tokens(run))


def received(run: Run, answered: Completion, *, read: int | None, rejected: str = "", forced: bool = False) -> None:
    """Enter a reply into the record, before anything in it is executed."""
    run.record(
        ReplyReceived(
            iteration=run.iteration,
            text=answered.reply.text,
            model=answered.reply.model,
            usage=answered.usage,
            cost=answered.cost,
            finish=answered.reply.finish,
            seconds=answered.seconds,
            read=read,
            rejected=rejected,
            forced=forced,
            estimated=answered.reply.estimated,
        )
    )
