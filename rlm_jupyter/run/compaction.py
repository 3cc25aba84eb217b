"""Older iterations leave the conversation, and a summary that the model writes of them takes their place.

Half of the conversation or more goes at once, so that its beginning, which providers cache, changes seldom. The task
and the newest iterations stay as they are. The summary is asked for at the end of that part of the conversation which
it is of, so that all but the question is in the provider's cache. It comes from a model that has read documents which
nobody has checked: it is shown as notes, is cut to a bound, and is never parsed, so that nothing in it ends a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from rlm_jupyter import parsing
from rlm_jupyter.kernel.guest.trajectory_view import NAME as TRAJECTORY
from rlm_jupyter.prompts import compaction as prompts
from rlm_jupyter.record.messages import opening
from rlm_jupyter.run.budget import request as calls
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.request import Completion
from rlm_jupyter.run.budget.request_size import estimate_tokens_of
from rlm_jupyter.run.elision import most_input
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.errors import LimitReached, ModelError
from rlm_jupyter.types.events import ConversationCompacted
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.tokens import estimate_tokens, most_tokens
from rlm_jupyter.types.values import Message

Outcome = Literal["done", "unwise", "failed"]
"""`unwise`: a summary would have cost more than it frees, or there is nothing to leave out; nobody was asked."""
MOST_SUMMARY_TOKENS = 4_096
_LEAST_SUMMARY_TOKENS = 160
"""What fits into less says nothing."""
_SUMMARY_SHARE = 8
"""Of the room for iterations, a summary has one part in so many at most."""
_KEPT_SHARE = 4
"""… and the newest iterations, which stay, one in so many; the last one always stays."""
_REPLIES_IN_TIME = 3
"""So many last replies, each as long as they may take, must fit the time that is left, the summary being one."""
_REASON_CHARS = 200
_WORDS_PER_TOKEN = 0.6
_LEAST_PROSE = 20
"""Words: a reply of code and hardly any prose is no summary."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The iterations that are to leave the conversation."""

    through: int
    """The last of them."""
    messages: list[Message]
    """The conversation up to there."""
    own: int
    """About how many tokens they have."""
    cap: int
    """The most tokens of a summary."""


def threshold(run: Run) -> int | None:
    """Return the tokens beyond which the conversation is compacted; `None`: it never is."""
    share = run.requests.compact_at
    return None if share is None else min(usable_tokens(run), int(run.model.window * share))


def usable_tokens(run: Run) -> int:
    """Return how many tokens of the window the conversation may take, beside the next reply."""
    return run.model.window - min(run.requests.reply_cap, run.model.window // 4)


async def compact(run: Run, most: int) -> Outcome:
    """Have the model summarize the older iterations of a conversation that is to have `most` tokens or fewer.

    Limits hold for it as for any request of the run, but what is held back for the last reply is not touched.
    """
    part = _part(run, most)
    if part is None or part.cap < _LEAST_SUMMARY_TOKENS or not _pays(run, part):
        return "unwise"
    try:
        answered = await _summarize(run, part)
    except (ModelError, LimitReached) as error:
        # where it was more than this one request, the next one says so
        why = "it did not fit the limits" if isinstance(error, LimitReached) else shortened(str(error), _REASON_CHARS)
        run.record(_unchanged(run, f"no summary could be had: {why}".rstrip(".")))
        return "failed"
    summary = _bounded(answered.reply.text, part.cap)
    if not summary:
        run.record(_paid(_unchanged(run, "replied with code"), answered))
        return "failed"
    _record(run, part.through, summary, part.through, answered)
    return "done"


def leave_out(run: Run, most: int) -> bool:
    """Leave the older iterations out without a summary; one of those before them stays. Return whether there were any.

    Their code, outputs and replies are in the kernel's `trajectory`.
    """
    part = _part(run, most) if run.requests.compact_at is not None else None
    if part is None:
        return False
    before = run.trajectory.compacted
    _record(run, part.through, *(("", 0) if before is None else (before.summary, before.summarized)))
    return True


def _record(run: Run, through: int, summary: str, summarized: int, answered: Completion | None = None) -> None:
    # where it stands among the variables it is the user's own: ours is in no list
    has_trajectory = all(variable.name != TRAJECTORY for variable in run.cell_state.variables)
    record = ConversationCompacted(
        iteration=run.trajectory.iterations[-1].index,
        through=through,
        text=prompts.replacement(through, summary, summarized, has_trajectory=has_trajectory),
        summary=summary,
        summarized=summarized,
    )
    if answered is not None:
        record = _paid(record, answered)
    run.record(record)
    run.requests.last_read = None


def _unchanged(run: Run, why: str) -> ConversationCompacted:
    """Return the record of a summary that failed: nothing leaves the conversation by it."""
    trajectory = run.trajectory
    return ConversationCompacted(trajectory.iterations[-1].index, trajectory.compacted_through, text="", rejected=why)


def _paid(record: ConversationCompacted, answered: Completion) -> ConversationCompacted:
    return replace(
        record, model=answered.reply.model, usage=answered.usage, cost=answered.cost, seconds=answered.seconds
    )


def _part(run: Run, most: int) -> _Part | None:
    """Return the iterations that are to go: all but the newest, and no more than the window reads with a summary."""
    trajectory, scale = run.trajectory, run.requests.density
    messages = run.requests.conversation.messages(trajectory)
    fixed = math.ceil(estimate_tokens_of(opening(trajectory, trajectory.compacted)) * scale)
    sizes = [math.ceil(estimate_tokens_of(pair) * scale) for pair in zip(messages[2::2], messages[3::2], strict=True)]
    budget = max(most - fixed, 0)
    cap = min(budget // _SUMMARY_SHARE, MOST_SUMMARY_TOKENS)
    going, kept = len(sizes) - 1, sum(sizes[-1:])
    while going > 0 and kept + sizes[going - 1] <= budget // _KEPT_SHARE:
        going -= 1
        kept += sizes[going]
    own = sum(sizes[: max(going, 0)])
    asked = math.ceil(estimate_tokens(_question(run, cap)) * scale)
    while going > 0 and fixed + own + asked + cap > run.model.window:
        going -= 1
        own -= sizes[going]
    if going <= 0:
        return None
    iterations = trajectory.iterations
    through = iterations[len(iterations) - len(sizes) + going - 1].index
    return _Part(through, messages[: 2 + 2 * going], own, cap)


def _pays(run: Run, part: _Part) -> bool:
    """Return whether the requests that are left are shortened by more than the summary takes, and there is time."""
    if not run.ledger.deadline.has(_REPLIES_IN_TIME * run.requests.held_back.seconds):
        return False
    freed = part.own - part.cap
    left = run.limits.max_iterations - run.iteration + 1
    return freed >= part.cap and freed * left >= estimate_tokens_of(part.messages) + part.cap


def _question(run: Run, cap: int) -> str:
    return prompts.request(int(cap * _WORDS_PER_TOKEN) // 10 * 10, run.cell_state.variables)


async def _summarize(run: Run, part: _Part) -> Completion:
    last, question = part.messages[-1], _question(run, part.cap)
    parts = (*last.parts, question) if last.parts else ()
    asked = [*part.messages[:-1], replace(last, content=f"{last.content}\n\n{question}", parts=parts)]
    most = most_input(run, part.messages)
    bill = Bill()
    try:
        return await calls.complete(
            run.model,
            asked,
            run.ledger,
            max_output_tokens=part.cap,
            input_tokens=math.ceil(estimate_tokens_of(asked) * run.requests.density),
            most_input_tokens=None if most is None else most + most_tokens([Message("user", question)]),
            bill=bill,
        )
    except BaseException:
        run.requests.lost.add(bill.usage, bill.cost)
        raise


def _bounded(text: str, cap: int) -> str:
    """Return the summary in a reply, cut to its bound; empty where the reply is none."""
    text = text.strip()
    reply = parsing.parse(text)
    if reply.blocks and len(reply.prose.split()) < _LEAST_PROSE:
        return ""
    counted = estimate_tokens(text)
    if counted <= cap:
        return text
    return f"{text[: len(text) * cap // counted].rstrip()} […]"
