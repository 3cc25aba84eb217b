"""`SubcallClient`: the sub-calls of this kernel, from any thread and any event loop.

A call is a message to the host and a slot that waits for the answer. It never blocks the control thread,
and an interrupt, a cancelled cell or a lost host fails every waiting slot at once, so that nobody waits
for an answer that will not come.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.codec import Frame, WireMessage, to_bytes, to_text
from rlm_jupyter.kernel.guest.wire import Wire
from rlm_jupyter.types.prompt import Prompt
from rlm_jupyter.types.utf8 import utf8


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


class SubcallClient:
    """Makes calls and settles them.

    Parameters
    ----------
    wire
        Where calls go.
    cell
        Gives the id of the running cell.
    refusal
        Gives a reason why no call may be made now, or `None`.
    context_name
        Gives the name by which the host knows a text as a context of this kernel, or `None`.
    """

    def __init__(
        self,
        wire: Wire,
        cell: Callable[[], str],
        refusal: Callable[[], str | None],
        context_name: Callable[[str], str | None] = lambda text: None,
    ) -> None:
        self._wire = wire
        self._cell = cell
        self._refusal = refusal
        self._context_name = context_name
        self._ids, self._prefix = itertools.count(), ""
        self._waiting: dict[str, _Slot] = {}
        self._stopped: tuple[str, str] = ("", "")

    def call(
        self, kind: str, prompts: Sequence[str], model: str | None, schema: Mapping[str, Any] | None = None
    ) -> Answers:
        """Ask and wait; the calling thread stays interruptible."""
        call_id, slot = self._begin(kind, prompts, model, schema, None)
        try:
            slot.lock.acquire()
        finally:
            self._end(call_id, slot)
        return slot.result()

    async def acall(
        self, kind: str, prompts: Sequence[str], model: str | None, schema: Mapping[str, Any] | None = None
    ) -> Answers:
        """Ask and await."""
        call_id, slot = self._begin(kind, prompts, model, schema, asyncio.get_running_loop())
        try:
            if slot.future is not None:
                await slot.future
        finally:
            self._end(call_id, slot)
        return slot.result()

    def renew(self) -> None:
        """Have, in a fork of the kernel, ids that the parent never gives."""
        self._ids, self._prefix = itertools.count(), f"{os.urandom(4).hex()}-"
        self._waiting.clear()
        self._stopped = ("", "")

    def announce(self) -> None:
        """Tell the host that an answer is declared, and wait until it has fetched it.

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
        call_id = f"{self._prefix}{next(self._ids)}"
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
        self,
        kind: str,
        prompts: Sequence[str],
        model: str | None,
        schema: Mapping[str, Any] | None,
        loop: asyncio.AbstractEventLoop | None,
    ) -> tuple[str, _Slot]:
        cell = self._cell()
        if self._wire.is_own_thread:
            raise SubcallError("the text of a value can't ask: call this in a cell")
        # what was done so far may still be read when an answer is declared
        refusal = None if kind == "trajectory" else self._refusal()
        reason = refusal or (self._stopped[1] if self._stopped[0] == cell else None)
        if not self._wire.attached:
            reason = "nobody is attached to this kernel who could answer"
        if reason:
            raise SubcallError(reason)
        call_id = f"{self._prefix}{next(self._ids)}"
        slot = self._waiting[call_id] = _Slot(loop)
        try:
            content: dict[str, Any] = {"id": call_id, "kind": kind, "model": model, "cell": cell}
            buffers: list[Frame]
            if schema is not None:
                content["schema"] = schema
            if any(isinstance(prompt, Prompt) for prompt in prompts):
                content["parts"], buffers = _apart(prompts)
            else:
                names = [None if kind == "tool" else self._context_name(prompt) for prompt in prompts]
                if any(names):
                    content["contexts"] = names
                buffers = [utf8(prompt) if name is None else b"" for prompt, name in zip(prompts, names, strict=True)]
            self._wire.send("rlm_call", content, buffers)
        except BaseException:
            del self._waiting[call_id]
            raise
        return call_id, slot

    def _end(self, call_id: str, slot: _Slot) -> None:
        del self._waiting[call_id]
        if not slot.settled or slot.error is not None:
            self._wire.send("rlm_abandon", {"id": call_id})


def _apart(prompts: Sequence[str]) -> tuple[list[str], list[Frame]]:
    """Return what each prompt is made of, `t` for a text and `i` for an image, and all of these in order."""
    parts = [prompt.parts if isinstance(prompt, Prompt) else (prompt,) for prompt in prompts]
    kinds = ["".join("t" if isinstance(part, str) else "i" for part in prompt) for prompt in parts]
    return kinds, [to_bytes(part) if isinstance(part, str) else part.data for prompt in parts for part in prompt]
