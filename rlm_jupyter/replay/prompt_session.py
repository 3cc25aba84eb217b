"""`PromptSession`: one prompt after the other with one kernel, in one record; and its twin for async code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn, Self

from rlm_jupyter.replay.recorded_session import RecordedSession
from rlm_jupyter.run import background
from rlm_jupyter.run.approval import Approve
from rlm_jupyter.run.chat_prompt import is_messages, question_of
from rlm_jupyter.run.prompt import check_length, check_prompt
from rlm_jupyter.run.question import Prompt, context_of
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import RunHandle, waited
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.keywords import names_keywords
from rlm_jupyter.types.values import Usage

_ENDED = "This session has ended. To resume it from its record: RLM(…).session(resume={name!r})."
_ENDED_UNSAVED = "This session has ended, and it is not saved: begin another."

_ELSEWHERE = {
    "context": "add_context(…)",
    "answer": "RLM(…, answer=…)",
    "outputs": "RLM(…, outputs=…)",
    "limits": "RLM(…, limits=…)",
    "tools": "RLM(…, tools=…)",
}
"""What a prompt of a session does not take, and where it belongs."""


class _PromptSession:
    """What both kinds of session have in common."""

    def __init__(self, session: RecordedSession) -> None:
        self.kernel = session
        """Where its prompts are answered."""
        self.results: list[Result] = []
        """Of the prompts that were asked through this object, in order."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self.kernel.closed

    @property
    def path(self) -> Path | None:
        """The notebook in which all its prompts stand; `None` before the first has begun, and where none is saved."""
        return None if self.kernel.past.first is None else self.kernel.past.first.shown

    @property
    def usage(self) -> Usage:
        """Tokens of the prompts that were asked through this object."""
        return sum((result.usage for result in self.results), Usage())

    @property
    def cost(self) -> float | None:
        """US dollars for the same; `None` when a model's price is not known."""
        costs = [result.cost for result in self.results]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def start(self, prompt: Prompt, *, on_event: OnEvent | None = None, approve: Approve = False) -> RunHandle:
        """Begin with a prompt in the background and return at once; it waits until those before it are answered.

        Parameters
        ----------
        prompt
            The question, or chat messages, of which the last is the question: the conversation before it becomes the
            newest context.
        on_event
            Told every event, on a thread of ours.
        approve
            As for `RLM.start`.

        Raises
        ------
        ConfigurationError
            The session has ended, or there is no question; found before anything is started or spent.
        """
        self._check_open()
        question, said = question_of(prompt) if is_messages(prompt) else (prompt, None)  # type: ignore[arg-type]
        check_prompt(question)
        if said is not None:
            background.submit(self.kernel.add_context(context_of(said))).result()
        elif not self.kernel.past.given:
            check_length(str(question))
        return RunHandle(self.kernel, str(question), on_event, approve=approve)

    def _check_open(self) -> None:
        if self.closed:
            raise ConfigurationError(_ENDED_UNSAVED if self.path is None else _ENDED.format(name=str(self.path)))


@names_keywords(_ELSEWHERE)
class PromptSession(_PromptSession):
    """One prompt after the other with one kernel, in one record. Made by `RLM.session`, ended by `close` or `with`."""

    def ask(self, prompt: Prompt, *, on_event: OnEvent | None = None) -> Result:
        """Answer one more prompt, in the kernel of those before; parameters and errors as for `start`.

        Raises
        ------
        ModelError, KernelError
            The host failed; the session is still there for the next prompt.
        """

        def start(tell: OnEvent | None, *, approve: Approve) -> RunHandle:
            return self.start(prompt, on_event=tell, approve=approve)

        result = waited(start, on_event, self.kernel.settings)
        self.results.append(result)
        return result

    def add_context(self, context: object) -> str:
        """Make something the `context` of the prompts to come; those before stay, the first as `context_0`.

        Parameters
        ----------
        context
            As for `RLM.completion`.

        Returns
        -------
        str
            Its lasting name in the kernel, such as `context_1`.

        Raises
        ------
        ConfigurationError
            The session has ended, a prompt is being answered, or it can't be handed to a kernel.
        """
        self._check_open()
        background.refuse_inside()
        return background.submit(self.kernel.add_context(context_of(context))).result()

    def close(self) -> None:
        """End what runs in it, and its kernel; its record stays. A second time does nothing."""
        self.kernel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        self.close()
        raise TypeError("RLM.session is for `with`; for `async with` there is RLM.asession.")

    async def __aexit__(self, *error: object) -> None: ...


@names_keywords(_ELSEWHERE)
class AsyncPromptSession(_PromptSession):
    """`PromptSession` for async code: made by `RLM.asession`, ended by `close` or `async with`."""

    async def ask(self, prompt: Prompt, *, on_event: OnEvent | None = None) -> Result:
        """Answer one more prompt, as `PromptSession.ask`; cancelling it stops the run and its bill."""
        result = await (await asyncio.to_thread(self.start, prompt, on_event=on_event)).awaited()
        self.results.append(result)
        return result

    async def add_context(self, context: object) -> str:
        """Make something the `context` of the prompts to come, as `PromptSession.add_context`."""
        self._check_open()
        held = await asyncio.to_thread(context_of, context)
        return await asyncio.wrap_future(background.submit(self.kernel.add_context(held)))

    async def close(self) -> None:
        """End what runs in it, and its kernel; its record stays. A second time does nothing."""
        if not self.kernel.closed:
            await asyncio.wrap_future(self.kernel.close_soon())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        self.kernel.close()
        raise TypeError("RLM.asession is for `async with`; for `with` there is RLM.session.")

    def __exit__(self, *error: object) -> None: ...
