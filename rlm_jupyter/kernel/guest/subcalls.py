"""`Calls`: the sub-calls of this kernel, from any thread and any event loop.

A call is a message to the host and a slot that waits for the answer. It never blocks the control thread,
and an interrupt, a cancelled cell or a lost host fails every waiting slot at once, so that nobody waits
for an answer that will not come.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from rlm_jupyter.kernel.guest.codec import WireMessage, to_bytes, to_text
from rlm_jupyter.kernel.guest.wire import Wire
from rlm_jupyter.types.quoted import quoted


class SubcallError(Exception):
    """A sub-call gave no answer; the text says why."""


class SubcallFailure:
    """What stands in a batch's results in place of an answer that failed: falsy, and no `str`.

    Its `str` explains the failure, but it can't be taken for an answer by code that joins or searches texts.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"[no answer: {self.reason}]"

    __repr__ = __str__


Answers = list[str | SubcallFailure]

_MODEL = re.compile(r"[^\s/]+/\S+")
_MODEL_CHARS = 200
_SHOWN_CHARS = 60
"""Of a prompt, in an example."""


class _Slot:
    """One call that waits: a thread on a lock, or a coroutine on a future of its own loop.

    A bare lock, because a signal handler settles slots too, and `threading.Event` can deadlock there.
    """

    __slots__ = ("answers", "error", "future", "lock", "loop", "settled")

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.answers: Answers = []
        self.error: str | None = None
        self.settled = False
        self.lock = threading.Lock()
        self.lock.acquire()
        self.loop = loop
        self.future: asyncio.Future[None] | None = loop.create_future() if loop else None

    def settle(self, answers: Answers, error: str | None = None) -> None:
        if self.settled:
            return
        self.answers, self.error, self.settled = answers, error, True
        self.lock.release()
        if self.loop is not None and self.future is not None:
            try:
                self.loop.call_soon_threadsafe(self._wake, self.future)
            except RuntimeError:  # its loop is closed: nobody waits any more
                self.future = None

    @staticmethod
    def _wake(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)

    def result(self) -> Answers:
        if self.error is not None:
            raise SubcallError(self.error)
        return self.answers


class Calls:
    """Makes calls and settles them.

    Parameters
    ----------
    wire
        Where calls go.
    cell
        Gives the id of the running cell.
    refusal
        Gives a reason why no call may be made now, or `None`.
    """

    def __init__(self, wire: Wire, cell: Callable[[], str], refusal: Callable[[], str | None]) -> None:
        self._wire = wire
        self._cell = cell
        self._refusal = refusal
        self._ids = itertools.count()
        self._waiting: dict[str, _Slot] = {}
        self._stopped: tuple[str, str] = ("", "")

    def call(self, kind: str, prompts: Sequence[str], model: str | None) -> Answers:
        """Ask and wait; the calling thread stays interruptible."""
        call_id, slot = self._begin(kind, prompts, model, None)
        try:
            slot.lock.acquire()
        finally:
            self._end(call_id, slot)
        return slot.result()

    async def acall(self, kind: str, prompts: Sequence[str], model: str | None) -> Answers:
        """Ask and await."""
        call_id, slot = self._begin(kind, prompts, model, asyncio.get_running_loop())
        try:
            if slot.future is not None:
                await slot.future
        finally:
            self._end(call_id, slot)
        return slot.result()

    def announce(self) -> None:
        """Tell the host that an answer is recorded, and wait until it has fetched it.

        Best effort: a host that is gone, or a cell that is being stopped, must not make FINAL fail.
        """
        if self._wire.is_forked:
            # no error: it would end the cell in the child only, which then goes on as a second kernel
            sys.stderr.write(
                "FINAL works in the kernel's own process, not in a process forked from it: bring the value there, "
                "and call FINAL with it. This call did not count.\n"
            )
            sys.stderr.flush()
            return
        # a draft's own text may call FINAL while the host looks at it: after that the host sees that there is an answer
        if not self._wire.attached or self._wire.is_own_thread or self._stopped[0] == self._cell():
            return
        call_id = str(next(self._ids))
        slot = self._waiting[call_id] = _Slot(None)
        try:
            self._wire.send("rlm_final", {"id": call_id})
            slot.lock.acquire()
        finally:
            del self._waiting[call_id]

    def settle(self, message: WireMessage) -> None:
        """Take the host's answer (control thread)."""
        slot = self._waiting.get(message.content["id"])
        if slot is None:
            return
        failed = message.content["failed"]
        slot.settle(
            [
                SubcallFailure(to_text(buffer)) if bad else to_text(buffer)
                for buffer, bad in zip(message.buffers, failed, strict=True)
            ]
        )

    def stop(self, cell: str, reason: str) -> None:
        """Fail what waits, and whatever `cell` asks from now on. Safe in a signal handler and in any thread."""
        self._stopped = (cell, reason)
        for slot in list(self._waiting.values()):
            slot.settle([], reason)

    def _begin(
        self, kind: str, prompts: Sequence[str], model: str | None, loop: asyncio.AbstractEventLoop | None
    ) -> tuple[str, _Slot]:
        cell = self._cell()
        if self._wire.is_own_thread:
            raise SubcallError("the text of a value can't ask: call this in a cell")
        reason = self._refusal() or (self._stopped[1] if self._stopped[0] == cell else None)
        if not self._wire.attached:
            reason = "nobody is attached to this kernel who could answer"
        if reason:
            raise SubcallError(reason)
        call_id = str(next(self._ids))
        slot = self._waiting[call_id] = _Slot(loop)
        try:
            self._wire.send(
                "rlm_call",
                {"id": call_id, "kind": kind, "model": model, "cell": cell},
                [to_bytes(prompt) for prompt in prompts],
            )
        except BaseException:
            del self._waiting[call_id]
            raise
        return call_id, slot

    def _end(self, call_id: str, slot: _Slot) -> None:
        del self._waiting[call_id]
        if not slot.settled or slot.error is not None:
            self._wire.send("rlm_abandon", {"id": call_id})


class MakesCalls(Protocol):
    """Answers calls: by asking the host, or from a record."""

    def call(self, kind: str, prompts: Sequence[str], model: str | None) -> Answers:
        """Ask and wait."""
        ...

    async def acall(self, kind: str, prompts: Sequence[str], model: str | None) -> Answers:
        """Ask and await."""
        ...


def functions(calls: MakesCalls) -> dict[str, Any]:
    """Return the sub-call functions that the model sees, by name."""

    def one(answers: Answers) -> str:
        answer = answers[0]
        if isinstance(answer, SubcallFailure):
            raise SubcallError(answer.reason)
        return answer

    def llm_query(prompt: str, model: str | None = None) -> str:
        """Ask a language model one question about the text in `prompt`; returns its reply.

        Raises SubcallError when there is no reply. For many prompts use llm_query_batched: they run at once.
        """
        return one(calls.call("llm", [_text(prompt, "llm_query", model)], model))

    def llm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """Ask a language model many questions at once; returns the replies in order.

        An item that failed is a falsy SubcallFailure in its place; str() of it says why.
        """
        texts = _texts(prompts, "llm_query_batched", model)
        return calls.call("llm", texts, model) if texts else []

    def rlm_query(prompt: str, model: str | None = None) -> str:
        """Hand a sub-problem to a recursive model with a kernel of its own, where `prompt` is its context."""
        return one(calls.call("rlm", [_text(prompt, "rlm_query", model)], model))

    def rlm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """Hand many sub-problems to recursive models at once; returns their answers in order."""
        texts = _texts(prompts, "rlm_query_batched", model)
        return calls.call("rlm", texts, model) if texts else []

    async def allm_query(prompt: str, model: str | None = None) -> str:
        """`llm_query`, to be awaited."""
        return one(await calls.acall("llm", [_text(prompt, "allm_query", model)], model))

    async def allm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """`llm_query_batched`, to be awaited."""
        texts = _texts(prompts, "allm_query_batched", model)
        return await calls.acall("llm", texts, model) if texts else []

    async def arlm_query(prompt: str, model: str | None = None) -> str:
        """`rlm_query`, to be awaited."""
        return one(await calls.acall("rlm", [_text(prompt, "arlm_query", model)], model))

    async def arlm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """`rlm_query_batched`, to be awaited."""
        texts = _texts(prompts, "arlm_query_batched", model)
        return await calls.acall("rlm", texts, model) if texts else []

    found = (
        llm_query,
        llm_query_batched,
        rlm_query,
        rlm_query_batched,
        allm_query,
        allm_query_batched,
        arlm_query,
        arlm_query_batched,
    )
    return {function.__name__: function for function in found}


def _text(prompt: object, name: str, model: object) -> str:
    _check_model(model, name, prompt)
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list | tuple):
        raise TypeError(f"{name} takes one str; for a list of them use {name}_batched.")
    raise TypeError(f"{name} takes a str, not {type(prompt).__name__}: put the text itself into the prompt.")


def _texts(prompts: object, name: str, model: object) -> list[str]:
    _check_model(model, name, prompts)
    if isinstance(prompts, str):
        raise TypeError(f"{name} takes a list of str; for a single one use {name.removesuffix('_batched')}.")
    if not isinstance(prompts, Iterable) or isinstance(prompts, Mapping):
        raise TypeError(f"{name} takes a list of str, not {type(prompts).__name__}.")
    texts = list(prompts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}: item {i} is {type(text).__name__}, not str.")
    return texts


def _check_model(model: object, name: str, prompt: object) -> None:
    """Refuse a text that was passed for a model's name, as in `llm_query("Summarize this", context)`."""
    if model is None or (isinstance(model, str) and len(model) <= _MODEL_CHARS and _MODEL.fullmatch(model)):
        return
    is_short = isinstance(prompt, str) and len(prompt) <= _SHOWN_CHARS and not set(prompt) & set('"\\{}\n')
    question = prompt if is_short else "QUESTION"
    if name.endswith("_batched"):
        form = f'{name}([f"{question}\\n\\n{{passage}}" for passage in passages])'
    else:
        form = f'{name}(f"{question}\\n\\n{{passage}}")'
    raise TypeError(
        f"{name} takes the text as part of the prompt: {form}. Its second argument names a model, provider/model; "
        f"{quoted(model)} is none."
    )
