"""`SubcallDispatcher`: the host's half of the sub-calls of one kernel.

It is given one callable that answers, so it knows neither models nor runs. The kernel is not trusted:
what a message says is only what to ask; depth, models and limits are the callable's own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.codec import Frame, WireMessage, to_bytes, to_text
from rlm_jupyter.types.errors import KernelError
from rlm_jupyter.types.images import MOST_BYTES, MOST_IMAGES, MOST_PROMPT_BYTES, Image, look
from rlm_jupyter.types.prompt import Part, Prompt
from rlm_jupyter.types.values import AnswerSubcall, CallKind, PacksContext, Subcall, SubcallFailure

log = logging.getLogger(__name__)
_MODEL_CHARS = 200
_SCHEMA_CHARS = 20_000
"""Of the form of replies that a provider is told; a larger one is dropped, and the reply checked all the same."""
_Told = list[tuple[str, memoryview]]
"""The parts of a prompt: `t` a text, `i` an image."""
_KINDS: dict[str, CallKind] = {"llm": "llm", "rlm": "rlm", "tool": "tool", "trajectory": "trajectory"}


class SubcallDispatcher:
    """Answers calls as they come, all at once.

    Parameters
    ----------
    answer_subcall
        Answers one call.
    send
        Sends a message to the guest: type, content, buffers.
    fetch_final
        Fetches the answer that a cell has just declared.
    context_named
        Returns a context that the kernel was given, and its text, by the name that it has there, or by anything else
        that the kernel says.
    """

    def __init__(
        self,
        answer_subcall: AnswerSubcall,
        send: Callable[[str, dict[str, Any], Sequence[Frame]], None],
        fetch_final: Callable[[], Awaitable[object]],
        context_named: Callable[[object], tuple[PacksContext, str] | None] = lambda name: None,
    ) -> None:
        self._answer = answer_subcall
        self._send = send
        self._fetch_final = fetch_final
        self._context_named = context_named
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unanswered: dict[str, int] = {}
        """How many prompts each call has that waits for its reply; a `FINAL`, which comes the same way, has none."""
        self._idle: asyncio.Future[None] | None = None
        self._busy_since = 0.0
        self._waited = 0.0
        self._executions = 0
        self._looking = asyncio.Lock()
        """Held while a prompt's images are looked at: in a thread, one prompt at a time."""

    @property
    def waited(self) -> float:
        """Seconds in which at least one call was open, since the last `begin_cell`."""
        return self._waited + (time.monotonic() - self._busy_since if self._tasks else 0.0)

    def begin_cell(self) -> None:
        """Count the waiting anew."""
        self._executions += 1
        self._waited = 0.0
        self._busy_since = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether no call is open."""
        return not self._tasks

    def idle(self) -> asyncio.Future[None]:
        """Return a future that is done as soon as no call is open."""
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_future()
        return self._idle

    def receive(self, message: WireMessage) -> None:
        """Take a message of the guest's own accord: a call, or the news that nobody waits for it any more."""
        call_id = message.content.get("id")
        if not isinstance(call_id, str):
            return
        if message.type == "rlm_abandon":
            if task := self._tasks.get(call_id):
                task.cancel()
        elif message.type == "rlm_call" and call_id not in self._tasks:
            prompts, contexts = self._prompts(message)
            # not with the message: its buffers may be as large as the prompts, which may be answered for hours
            self._begin(call_id, len(prompts), self._serve(message.content, call_id, prompts, contexts))
        elif message.type == "rlm_final" and call_id not in self._tasks:
            self._begin(call_id, 0, self._keep_final(call_id))

    async def cancel(self) -> None:
        """Give up all open calls, and see them gone."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, call_id: str, prompts: int, serving: Coroutine[Any, Any, None]) -> None:
        if not self._tasks:
            self._busy_since = time.monotonic()
        self._unanswered[call_id] = prompts
        self._tasks[call_id] = task = asyncio.create_task(serving)
        task.add_done_callback(lambda _: self._end(call_id))

    def _end(self, call_id: str) -> None:
        del self._tasks[call_id]
        if call_id in self._unanswered:  # given up, perhaps before it began
            given_up = SubcallFailure("its cell had ended before it was answered")
            self._reply(call_id, [given_up] * self._unanswered[call_id])
        if not self._tasks:
            self._waited += time.monotonic() - self._busy_since
            if self._idle is not None:
                self._idle.set_result(None)
                self._idle = None

    def _prompts(self, message: WireMessage) -> tuple[Sequence[str | _Told], tuple[PacksContext | None, ...]]:
        """Return the prompts of a call, and which of them are contexts of the kernel, that it has only named."""
        parts, names = message.content.get("parts"), message.content.get("contexts")
        if parts is not None:
            return _told(parts, message.buffers), ()
        if not isinstance(names, list) or len(names) != len(message.buffers):
            return tuple(map(to_text, message.buffers)), ()
        prompts: list[str] = []
        contexts: list[PacksContext | None] = []
        for name, buffer in zip(names, message.buffers, strict=True):
            context, text = (name is not None and self._context_named(name)) or (None, to_text(buffer))
            prompts.append(text)
            contexts.append(context)
        return prompts, tuple(contexts)

    async def _serve(
        self,
        content: dict[str, Any],
        call_id: str,
        prompts: Sequence[str | _Told],
        contexts: tuple[PacksContext | None, ...],
    ) -> None:
        answers: list[str | SubcallFailure]
        model = content.get("model")
        try:
            call = Subcall(
                id=call_id,
                kind=_KINDS.get(str(content.get("kind")), "llm"),
                prompts=tuple([told if isinstance(told, str) else await self._prompt(told) for told in prompts]),
                # a cell may send anything for it, and it goes into the record
                model=model[:_MODEL_CHARS] if isinstance(model, str) else None,
                cell=str(content.get("cell", "")),
                schema=_schema(content.get("schema")),
                execution=self._executions,
                contexts=contexts,
            )
            answers = await self._answer(call)
        except Exception as error:  # the cell is told; a fault of ours must not leave it waiting
            log.exception("a sub-call failed on the host")
            answers = [SubcallFailure(f"{type(error).__name__}: {error}")] * len(prompts)
        self._reply(call_id, answers)

    async def _prompt(self, told: _Told) -> str:
        """Return a prompt of parts; the loop goes on meanwhile, whatever it holds."""
        async with self._looking:
            return await asyncio.to_thread(_prompt, told)

    async def _keep_final(self, call_id: str) -> None:
        """Keep the answer that FINAL waits with: what the cell does after it can lose it no more."""
        try:
            await self._fetch_final()
        except KernelError as error:
            log.warning("A declared answer could not be fetched yet: %s", error)
        self._reply(call_id, [])

    def _reply(self, call_id: str, answers: Sequence[str | SubcallFailure]) -> None:
        del self._unanswered[call_id]
        self._send(
            "rlm_reply",
            {"id": call_id, "failed": [isinstance(answer, SubcallFailure) for answer in answers]},
            [to_bytes(answer.reason if isinstance(answer, SubcallFailure) else answer) for answer in answers],
        )


def _told(kinds: object, buffers: Sequence[memoryview]) -> tuple[str | _Told, ...]:
    """Return the prompts of a call that tells their parts; where it tells them wrongly, that is the problem."""
    wrong = (Prompt.of((), "it does not say which of its parts are images"),)
    if not isinstance(kinds, list) or not all(isinstance(kind, str) and not set(kind) - {"t", "i"} for kind in kinds):
        return wrong
    if sum(map(len, kinds)) != len(buffers):
        return wrong
    following = iter(buffers)
    return tuple([(kind, next(following)) for kind in prompt] for prompt in kinds)


def _prompt(told: _Told) -> str:
    """Return one prompt: a plain text where it has no image. What an image is, is seen by its bytes alone."""
    try:
        texts = [to_text(buffer) for kind, buffer in told if kind == "t"]
    except UnicodeDecodeError:
        return Prompt.of((), "its text is none")
    images = [buffer for kind, buffer in told if kind == "i"]
    if not images and len(texts) == 1:
        return texts[0]
    if len(images) > MOST_IMAGES:
        return Prompt.of(texts, f"it has {len(images):,} images, and {MOST_IMAGES} are the most")
    if (size := sum(image.nbytes for image in images)) > MOST_PROMPT_BYTES:
        return Prompt.of(texts, f"its images have {size:,} bytes, and {MOST_PROMPT_BYTES:,} are the most")
    parts: list[Part] = []
    for index, (kind, buffer) in enumerate(told):
        try:
            parts.append(to_text(buffer) if kind == "t" else _image(buffer))
        except ValueError as error:
            return Prompt.of(texts, f"part {index} is no image that can be sent: {error}")
    return Prompt.of(parts)


def _image(buffer: memoryview) -> Image:
    if buffer.nbytes > MOST_BYTES:  # before any of it is read
        raise ValueError(f"it has {buffer.nbytes:,} bytes, and {MOST_BYTES:,} are the most")
    return look(bytes(buffer))


def _schema(told: object) -> dict[str, Any] | None:
    """Return the JSON schema that a kernel names for replies, if it is one of a size to be sent."""
    if not isinstance(told, dict):
        return None
    try:
        return told if len(json.dumps(told)) <= _SCHEMA_CHARS else None
    except (ValueError, RecursionError):
        return None
