"""Sub-calls answered: `llm_query` by a model, `rlm_query` by a run of its own.

Depth, models and limits are those of the run that the kernel belongs to, whatever a message claims.

Long because what is answered and what is refused of a call is read in one place.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rlm_jupyter import parsing
from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.prompts.notices import EMPTY, NO_MORE_IMAGES, NO_PASSAGE, NOT_SENT_AGAIN
from rlm_jupyter.record.past import PastCalls
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.request import complete
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.subcall_messages import message_of, problem_of
from rlm_jupyter.run.subcall_records import (
    HEAD_CHARS,
    Settled,
    digest,
    record_tool_call,
    refuse,
    refuse_all,
    repeated_record,
    settled_record,
)
from rlm_jupyter.run.tool_calls import ToolCalls
from rlm_jupyter.run.toolbox import Toolbox
from rlm_jupyter.types.errors import ContextWindowError, ImagesRefusedError, LimitReached, ModelError, RLMError
from rlm_jupyter.types.events import SubcallStarted
from rlm_jupyter.types.prompt import Prompt, images_of
from rlm_jupyter.types.tokens import tokens_of
from rlm_jupyter.types.values import (
    AnswerSubcall,
    PackedContext,
    PacksContext,
    Subcall,
    SubcallFailure,
    SubcallKind,
    Usage,
)

UNSEEN = "{model} sees no images, so what it said of them is made up"
"""What people are told of it, beside the answer."""
_QUESTION_CHARS = range(12, 301)
_PASSAGE = re.compile(r"[\n:\"“”«»„{}<>|]| ['‘]")
"""What a prompt has that holds something to read beside the question: a second line, a colon, a quotation."""
_STOPPED = "it was stopped before it was answered"
_PERMANENT_ERRORS = (ModelError, ImagesRefusedError, ContextWindowError)
"""What comes of the same prompt each time; those of their subclasses may pass."""


class _NotSentError(RLMError):
    """Nobody was asked."""


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """The result of a child run."""

    text: str | None
    stop_reason: str
    run_id: str


StartChild = Callable[[Run, AnyContext, SubcallStarted, Bill], Awaitable[ChildAnswer]]
"""Runs a child of this run on this text, for this sub-call of its; what it used goes on the bill, however it ends."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with the prompts of a call, by their place in it."""

    model: Model
    sent: Sequence[int]
    unfit: dict[int, str]
    """Why these are not sent."""
    repeated: dict[int, tuple[str, str]]
    """These get the answer that the same prompt has got: by its SHA-256, and the model."""


class SubcallService:
    """Answers the sub-calls of one run's kernel.

    Parameters
    ----------
    routing
        The models: a plain call is answered by that of the next depth, or by one of them that the cell names.
    depth
        Of the run.
    start_child
        Starts a run at the next depth; `None` where the depth is used up and `rlm_query` is a plain call.
    tools
        What else cells may call.
    """

    def __init__(self, routing: Routing, depth: int, start_child: StartChild | None, tools: Toolbox) -> None:
        self._tools = ToolCalls(tools, HEAD_CHARS)
        self._routing = routing
        self._depth = depth
        self._start_child = start_child
        self._replies = self._reply_tokens = 0
        self._past = PastCalls()
        self.run: Run | None = None
        """The run whose cells ask now."""
        self.trajectory = Trajectory()
        """Its record, also when it is over."""
        self.instead: AnswerSubcall | None = None
        """Answers while a person's cell runs: it asks no model."""

    async def answer(self, call: Subcall) -> list[str | SubcallFailure]:
        """Answer every prompt of a call, all at once (`AnswerSubcall`)."""
        if self.run is not None and (early := self.run.cell_state.early) is not None:
            await early.is_due.wait()  # what it costs is recorded behind the reply, and what is left is known with it
        if call.kind == "trajectory":
            return self._past.answer(self.trajectory, call)
        if self.instead is not None:
            return await self.instead(call)
        run = self.run
        if run is None:
            return [SubcallFailure("no run is under way")] * len(call.prompts)
        if call.kind == "tool":
            return await self._tools.answer(run, call, record_tool_call)
        kind: SubcallKind = "rlm" if call.kind == "rlm" and self._start_child is not None else "llm"
        first, count = run.subcalls.ordinal, len(call.prompts)
        answers = {} if run.playback is None else run.playback.answers(call, kind, first)
        run.subcalls.ordinal += count
        new = [i for i in range(count) if i not in answers]
        try:
            plan = self._plan(run, call, kind, new)
        except RLMError as error:
            return [answers.get(i, failure) for i, failure in enumerate(refuse_all(run, call, kind, first, new, error))]
        for i, why in plan.unfit.items():
            refuse(run, call, kind, first + i, call.prompts[i], why)
            answers[i] = SubcallFailure(why)
        answers |= await self._send(run, call, kind, first, plan)
        for i, key in plan.repeated.items():
            # of the same batch, or of an earlier call
            known = run.subcalls.known_answers.get(key)
            answers[i] = SubcallFailure("the same prompt failed in this call") if known is None else known
            run.subcalls.repeated += 1
            run.event_log.add_soon(repeated_record(run, call, plan.model, first + i, call.prompts[i], answers[i]))
        return [answers[i] for i in range(count)]

    def _plan(self, run: Run, call: Subcall, kind: SubcallKind, new: Sequence[int]) -> _Plan:
        """Decide which of the `new` prompts are sent; those count as sub-calls from now on.

        Raises
        ------
        RLMError
            None is sent: there is no such model, or they do not fit what is left.
        """
        model = self._routing.model_for(self._depth + 1, call.model)
        repeated = {}
        if kind == "llm" and abilities_of(model).is_deterministic:
            repeated = _asked_again(run, call, new, model)
        new = [i for i in new if i not in repeated]
        unfit = _unfit(run, call, new, model if kind == "llm" else None)
        sent = [i for i in new if i not in unfit]
        if kind == "llm":
            self._check_budget(run, [call.prompts[i] for i in sent], model)
        run.ledger.count_subcalls(len(sent))
        return _Plan(model, sent, unfit, repeated)

    async def _send(
        self, run: Run, call: Subcall, kind: SubcallKind, first: int, plan: _Plan
    ) -> dict[int, str | SubcallFailure]:
        """Send the prompts that are to be sent, all at once; return the answers by their place in the call."""
        asked = [self._one(run, call, kind, first, i, plan.model) for i in plan.sent]
        # a task for a single prompt would be two more turns of the loop: a tenth of what a call costs
        settled = [await asked[0]] if len(asked) == 1 else await _all(asked)
        answers = zip(plan.sent, settled, strict=True)
        return {i: SubcallFailure(item.text) if item.failed else item.text for i, item in answers}

    def _check_budget(self, run: Run, prompts: Sequence[str], model: Model) -> None:
        """Refuse a call that would go beyond what is left for sub-calls, before any of it is paid for.

        Raises
        ------
        LimitReached
            Says how many of these prompts fit.
        """
        tokens, money = run.ledger.tokens_left(), run.ledger.money_left()
        if len(prompts) < 2 or (tokens is None and money is None):
            return  # a single one is refused by the ledger, where it does not fit
        replies = self._reply_tokens // self._replies if self._replies else 0
        used, cost, fitting = 0, 0.0, 0
        for prompt in prompts:
            usage = Usage(tokens_of(message_of(prompt, model)), replies)
            used, cost = used + usage.total_tokens, cost + (model.cost(usage) or 0.0)
            fits = (tokens is None or used <= tokens) and (money is None or cost <= money)
            fitting += fits
        if fitting == len(prompts):
            return
        over = tokens is not None and used > tokens
        need = f"{used:,} tokens, and {tokens:,}" if over else f"${cost:.3f}, and ${money:.3f}"
        raise LimitReached(
            f"nothing was sent: {len(prompts):,} prompts take about {need} are left for sub-calls, besides what your "
            f"answer needs. Send {fitting:,} of these at most, or shorter ones",
            stop_reason="tokens" if over else "cost",
        )

    async def _one(self, run: Run, call: Subcall, kind: SubcallKind, first: int, index: int, model: Model) -> Settled:
        prompt, context = call.prompts[index], call.contexts[index] if call.contexts else None
        iteration, block, ordinal = run.iteration, run.cell_state.block, first + index
        started = time.monotonic()
        name = "" if kind == "rlm" else model.name
        asked = SubcallStarted(iteration, block, kind, ordinal, len(prompt), prompt[:HEAD_CHARS], name)
        run.emit(asked)
        bill = Bill()
        settled = Settled(_STOPPED, failed=True, model=name)
        try:
            if kind == "rlm":
                settled = await self._recurse(run, prompt, context, asked, bill)
            else:
                settled = await self._plain(run, call, prompt, model, bill)
        except LimitReached as limit:
            settled = Settled(f"{limit}.", failed=True, model=name)
        except _NotSentError as error:
            settled = Settled(str(error), failed=True, model=name, is_sent=False)
        except RLMError as error:
            settled = Settled(str(error), failed=True, model=name)
            if kind == "llm" and type(error) in _PERMANENT_ERRORS:
                run.subcalls.known_refusals[digest(prompt), model.name] = str(error)
        finally:
            # also what was stopped is billed, and written down
            seconds, done = time.monotonic() - started, settled
            is_sent = done.is_sent and kind == "llm" and bool(message_of(prompt, model).parts)
            run.event_log.add_soon(
                lambda: settled_record(
                    asked, call, prompt, done, bill, seconds, images_of(prompt) if is_sent else (), context
                ),
                of_batch=len(call.prompts) > 1,
            )
        return settled

    async def _plain(self, run: Run, call: Subcall, prompt: str, model: Model, bill: Bill) -> Settled:
        message = message_of(prompt, model)
        if isinstance(prompt, Prompt) and not message.parts:
            run.subcalls.unseen = model.name
            run.ledger.remarks[f"unseen by {model.name}"] = UNSEEN.format(model=model.name)
        async with _look(run, model, is_seen=bool(message.parts)):
            answered = await complete(
                model,
                [message],
                run.ledger,
                max_output_tokens=run.limits.max_output_tokens,
                schema=call.schema,
                bill=bill,
            )
        self._replies, self._reply_tokens = self._replies + 1, self._reply_tokens + answered.usage.output_tokens
        if answered.reply.finish == "length":
            run.subcalls.cut += 1
        if abilities_of(model).is_deterministic:
            run.subcalls.known_answers[digest(prompt), model.name] = answered.reply.text
        return Settled(answered.reply.text, model=answered.reply.model)

    async def _recurse(
        self, run: Run, prompt: str, context: PacksContext | None, asked: SubcallStarted, bill: Bill
    ) -> Settled:
        if self._start_child is None:
            raise RLMError("recursion is not available at this depth")
        given = context if isinstance(context, Context | PackedContext) else Context(prompt)
        child = await self._start_child(run, given, asked, bill)
        text = child.text if child.text is not None else f"the child run ended without an answer ({child.stop_reason})"
        return Settled(text, child.text is None, "", child.run_id)


@asynccontextmanager
async def _look(run: Run, model: Model, *, is_seen: bool) -> AsyncIterator[None]:
    """Send a prompt: where nobody knows whether its model sees, the first image goes alone, and others after its reply.

    Raises
    ------
    _NotSentError
        It said meanwhile that it takes none.
    """
    tally, name = run.subcalls, model.name
    if not is_seen:
        yield
        return
    is_first = abilities_of(model).sees is None and name not in tally.sees
    if is_first:
        await tally.first_look.acquire()
    try:
        if name in tally.sees and is_first:
            tally.first_look.release()
            is_first = False
        if tally.sees.get(name) is False:
            raise _NotSentError(f"{tally.refused_images[name]} {NO_MORE_IMAGES}")
        yield
        tally.sees[name] = True
    except ImagesRefusedError as error:
        if error.sees_none:
            tally.sees[name], tally.refused_images[name] = False, str(error)
        raise
    finally:
        if is_first:
            tally.first_look.release()


def _unfit(run: Run, call: Subcall, asking: Sequence[int], model: Model | None) -> dict[int, str]:
    """Return why prompts are not sent, by their place: they are empty, or were refused by the provider before."""
    unfit = {}
    for i in asking:
        if problem := problem_of(call, i):
            unfit[i] = problem
        elif not call.prompts[i] or call.prompts[i].isspace():
            unfit[i] = EMPTY  # it costs as much as another one, and its reply could only be made up
        elif model is not None and _has_no_passage(run, call):
            unfit[i] = NO_PASSAGE
        elif model is not None and images_of(call.prompts[i]) and run.subcalls.sees.get(model.name) is False:
            unfit[i] = f"{run.subcalls.refused_images[model.name]} {NO_MORE_IMAGES}"
        elif model is not None and run.subcalls.known_refusals:
            why = run.subcalls.known_refusals.get((digest(call.prompts[i]), model.name))
            unfit.update({} if why is None else {i: f"{why} {NOT_SENT_AGAIN}"})
    return unfit


def _has_no_passage(run: Run, call: Subcall) -> bool:
    """Question a lone prompt that is a line typed into the cell, once in a run: small models ask of `context` so."""
    prompt = call.prompts[0]
    is_short = len(call.prompts) == 1 and len(prompt) in _QUESTION_CHARS and not images_of(prompt)
    if not is_short or run.has_shown_all or run.subcalls.is_questioned or _PASSAGE.search(prompt.strip()):
        return False
    run.subcalls.is_questioned = parsing.types_text(run.subcalls.source, prompt)
    return run.subcalls.is_questioned


def _asked_again(run: Run, call: Subcall, asking: Sequence[int], model: Model) -> dict[int, tuple[str, str]]:
    """Return the prompts that need not be asked, by their place: they were already, in this run or in this call."""
    seen: set[tuple[str, str]] = set()
    again = {}
    for i in asking:
        key = digest(call.prompts[i]), model.name
        if key in run.subcalls.known_answers or key in seen:
            again[i] = key
        seen.add(key)
    return again


async def _all(asked: list[Coroutine[Any, Any, Settled]]) -> list[Settled]:
    """Await all of them; where one breaks, cancel the others and await them, so that none runs unbilled."""
    tasks = [asyncio.ensure_future(one) for one in asked]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
