"""A stage: one real kernel, in which one script after another is played as a whole run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import Scripted, ScriptedModel, Sub
from rlm_jupyter.record.iteration import Iteration
from rlm_jupyter.run import background
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.run.result import result_of
from rlm_jupyter.run.session import Session
from rlm_jupyter.types.events import Event
from rlm_jupyter.types.tokens import DEFAULT_WINDOW
from rlm_jupyter.types.values import Message, Reply, Usage

TEXT = "some text" * 111
"""What `context` is: 999 characters, more than a model is shown of it."""
_PATIENCE = 60.0


class Relay:
    """Hands every request to the script of the test that is running, at a price per token."""

    name = "scripted/relay"

    def __init__(self) -> None:
        self.script = ScriptedModel([])
        self.price = 0.0
        self.requests: list[tuple[Message, ...]] = []
        self.caps: list[int] = []
        self.late: Mapping[int, float] = {}

    @property
    def window(self) -> int:
        return self.script.window

    def cost(self, usage: Usage) -> float:
        return self.price * usage.total_tokens

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        yield

    async def complete(
        self, messages: Sequence[Message], *, max_output_tokens: int, on_text: Callable[[str], None] | None = None
    ) -> Reply:
        number = 0
        if messages[0].role == "system":
            self.requests.append(tuple(messages))
            self.caps.append(max_output_tokens)
            number = len(self.requests)
        await asyncio.sleep(self.late.get(number, 0))
        return await self.script.complete(messages, max_output_tokens=max_output_tokens, on_text=on_text)


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is over, and what the root model was asked."""

    result: Result
    requests: tuple[tuple[Message, ...], ...]
    caps: tuple[int, ...]
    """What each request's reply was capped at."""

    @property
    def answer(self) -> str | None:
        return self.result.answer

    @property
    def stop_reason(self) -> str:
        return self.result.stop_reason

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        return self.result.trajectory.iterations

    @property
    def told(self) -> str:
        """What the model read last."""
        return self.requests[-1][-1].content

    def statuses(self, iteration: int = -1) -> tuple[str, ...]:
        return tuple(cell.status for cell in self.iterations[iteration].cells)


class Stage:
    """Plays scripts, one after another, in one kernel; it starts anew only when a script killed it."""

    def __init__(self) -> None:
        self._relay = Relay()
        self._stack = AsyncExitStack()
        self._session: Session | None = None

    def play(
        self,
        replies: Sequence[Scripted],
        *,
        sub: Sub | None = None,
        window: int = DEFAULT_WINDOW,
        late: Mapping[int, float] | None = None,
        price: float = 0.0,
        stop_when: Callable[[Event], bool] | None = None,
        expires: tuple[Callable[[Event], bool], float] | None = None,
        **limits: Any,
    ) -> Played:
        """A whole run.

        Parameters
        ----------
        replies, sub, window
            As for `ScriptedModel`.
        late
            By how many seconds the n-th reply is late, counted from 1; sub-calls are number 0.
        price
            US dollars per token.
        stop_when
            The run is told to stop at the first event of which this is true.
        expires
            The time is up so many seconds after the first event of which this is true, however late it comes.
        limits
            As for `Limits`.
        """
        script = ScriptedModel(replies, sub=sub, window=window)
        self._relay.late = late or {}
        given = {"max_iterations": 8, "cell_seconds": 5.0, **limits}
        playing = self._play(script, price, stop_when, expires, given)
        return background.submit(playing).result(_PATIENCE)

    def close(self) -> None:
        """Put the kernel away; a further script gets one of its own."""
        background.submit(self._stack.aclose()).result(_PATIENCE)
        self._session = None

    async def _play(
        self,
        script: ScriptedModel,
        price: float,
        stop_when: Callable[[Event], bool] | None,
        expires: tuple[Callable[[Event], bool], float] | None,
        limits: dict[str, Any],
    ) -> Played:
        relay = self._relay
        relay.script, relay.price, relay.requests, relay.caps = script, price, [], []
        settings = RLM(relay, limits=Limits(**limits), save=False).settings
        if self._session is None:
            self._session = await self._stack.enter_async_context(open_session(settings, Context(TEXT)))
        session = self._session
        session.settings = settings
        session.history.cut(0)
        await self._clear(session)
        control, began, due = Control(), time.monotonic(), [] if expires is None else [expires]

        def watch(event: Event) -> None:
            if stop_when is not None and stop_when(event):
                control.stop()
            if due and due[0][0](event):
                control.raise_limit("max_seconds", time.monotonic() - began + due.pop()[1])

        trajectory = await session.answer("What is it?", emit=watch, control=control)
        return Played(result_of(trajectory), tuple(relay.requests), tuple(relay.caps))

    @staticmethod
    async def _clear(session: Session) -> None:
        """Take away the variables of the run before."""
        if session.kernel.is_alive:
            left = [variable.name for variable in (await session.kernel.inspect()).variables]
            if left:
                await session.kernel.execute(f"del {', '.join(left)}")


@pytest.fixture(scope="package")
def stage() -> Iterator[Stage]:
    opened = Stage()
    yield opened
    opened.close()
