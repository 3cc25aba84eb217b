"""`RLMKernel`: the Jupyter protocol's face of the RLM kernel."""

from __future__ import annotations

import _thread
import asyncio
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any, TypeVar

from ipykernel.kernelbase import Kernel

from rlm_jupyter.frontends.rlm_kernel.assistance import Assistance
from rlm_jupyter.frontends.rlm_kernel.backend import Driven
from rlm_jupyter.frontends.rlm_kernel.commands import HELP, Commands
from rlm_jupyter.frontends.rlm_kernel.config import KernelConfiguration
from rlm_jupyter.frontends.rlm_kernel.output import Page
from rlm_jupyter.frontends.rlm_kernel.parsed_cell import Code, WrittenPrompt, read
from rlm_jupyter.models import discovery
from rlm_jupyter.run import background
from rlm_jupyter.run.prompt import check_length
from rlm_jupyter.run.result import Result
from rlm_jupyter.run.settings import refuse_absent
from rlm_jupyter.types.endings import no_answer
from rlm_jupyter.types.errors import KernelError, RLMError, saved_at

T = TypeVar("T")

_BANNER = (
    "No model is named, so the embedded one answers: extractive/bm25 picks passages by their words; it is no "
    "language model. Name one with %model provider/model, or RLM_MODEL in the environment."
)
_NO_CONTEXT = "It has nothing to read yet: %context FILE … gives it something. %help says what else there is."
_DEBUGGER = "debugger"


class RLMKernel(Kernel):
    """Answers prompts, passes code on, carries commands out."""

    implementation = "rlm"
    implementation_version = version("rlm_jupyter")
    banner = (
        "RLM (Python): write a question, and a model answers it by driving the kernel behind this one.\n"
        "%context PATH … says what it is about, %model and %limits how; %%python, !, and other magics run there too.\n"
        "What runs there has your rights; with RLM_SANDBOX=bwrap in the environment it is shut off. %help says more."
    )
    language_info: dict[str, object] = {  # noqa: RUF012  the base class has it so
        # plain: prose drawn as Python, or Python as Markdown, is worse than neither
        "name": "rlm",
        "mimetype": "text/plain",
        "pygments_lexer": "text",
        "file_extension": ".txt",
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._driven = Driven()
        self._configuration = KernelConfiguration()
        self._commands = Commands(self._driven, self._configuration, self._ask)
        self._assistance = Assistance(self._driven)
        self._reading: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._terminals: set[str] = set()
        self._is_asking = False
        self._banner_shown = False
        # no comm ends here: whoever opens one hears it at once, instead of waiting for an answer
        self.shell_handlers |= {
            "comm_open": self._refuse_comm,
            "comm_msg": self._ignore,
            "comm_close": self._ignore,
        }

    @property
    def kernel_info(self) -> dict[str, Any]:
        """Without the debugger, which looks into this process."""
        info = dict(super().kernel_info)
        features = info.get("supported_features", [])
        return info | {"supported_features": [feature for feature in features if feature != _DEBUGGER]}

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        """Execute a cell. What a front end sends silently is no prompt: nobody asked, and it would cost."""
        request = self.get_parent("shell")
        page = Page(self, request, self.execution_count)
        self._allow_stdin = allow_stdin
        if silent:
            return page.reply()
        has_cells = cell_id is not None or bool(cell_meta)
        try:
            await self._execute(code, page, lines=not has_cells and request["header"]["session"] in self._terminals)
        except RLMError as error:
            page.error(type(error).__name__, error.for_notebook)
        except Exception as error:
            # without a reply the front end would wait for ever
            self.log.exception("A cell failed")
            page.error(type(error).__name__, str(error))
        return page.reply()

    async def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        """Complete code and commands."""
        return await self._assistance.complete(code, len(code) if cursor_pos is None else cursor_pos)

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: object = ()
    ) -> dict[str, Any]:
        """Inspect names in code, and commands."""
        return await self._assistance.inspect(code, len(code) if cursor_pos is None else cursor_pos, detail_level)

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        """Return whether Enter ends the cell; asked by terminals."""
        self._terminals.add(self.get_parent("shell")["header"]["session"])
        return await self._assistance.is_complete(code)

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """End what is under way, and the kernel behind."""
        await _awaited(self._driven.aclose())
        return {"status": "ok", "restart": restart}

    def on_signal(self) -> None:
        """Handle SIGINT, on the main thread."""
        if self._is_asking:
            raise KeyboardInterrupt
        self.interrupt()

    def interrupt(self) -> None:
        """End what is under way: the run and its bill, or the cell in the kernel behind. From any thread."""
        if self._is_asking:
            _thread.interrupt_main()
            return
        if self._reading is not None:
            loop, task = self._reading
            loop.call_soon_threadsafe(task.cancel)
        background.loop().call_soon_threadsafe(self._driven.interrupt)

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Interrupt, as SIGINT does."""
        self.interrupt()
        session: Any = self.session
        session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    def pre_handler_hook(self) -> None:
        """Leave SIGINT to the handler of the app."""

    def post_handler_hook(self) -> None:
        """Leave SIGINT to the handler of the app."""

    async def _execute(self, code: str, page: Page, *, lines: bool) -> None:
        commands, rest = read(code, tuple(HELP))
        for command in commands:
            await self._interruptible(self._commands.run(command, page), page)
            if page.failure is not None:
                return
        match rest:
            case WrittenPrompt(text):
                await self._answer(text, page, lines=lines)
            case Code(source) if source:
                await self._pass_on(source, page)

    async def _answer(self, prompt: str, page: Page, *, lines: bool) -> None:
        settings = self._configuration.settings
        if self._driven.context.type_name == "none":
            check_length(prompt, "put the text into a file and name that: %context FILE")
        if not (self._configuration.is_named or self._banner_shown):
            self._banner_shown = True
            hint = _BANNER if self._driven.context.nbytes else f"{_BANNER} {_NO_CONTEXT}"
            page.hint(" ".join(filter(None, [hint, await asyncio.to_thread(discovery.offer, "%model")])))
        await _awaited(refuse_absent(settings))
        shown = page.progress(lines=lines)
        try:
            answering = self._driven.answer(prompt, settings, page.count, shown, page.note)
            result = await _awaited(answering)
        except BaseException as error:
            shown.end(saved_at(error), failed=True)
            raise
        shown.end(result.path)
        self.execution_count = max(self.execution_count, _last_count(result))
        if (ended := result.trajectory.ended) is not None and ended.answer is not None:
            page.result(ended)
        if result.unsaved:
            page.note(result.unsaved)
        if result.stop_reason == "cancelled":
            # the cell fails, so that Run All stops here, as it does wherever a cell is interrupted
            page.error("KeyboardInterrupt", "the run was stopped")
        elif result.answer is None:
            page.note(no_answer(result.stop_reason, result.message))

    async def _pass_on(self, source: str, page: Page) -> None:
        try:
            running = self._driven.execute(source, page.count, page.relay, page.note, page.hint)
            run = await _awaited(running)
        except KernelError as error:
            page.error(type(error).__name__, str(error))
            return
        if run is None:
            page.error("KeyboardInterrupt", "the cell had not begun")
            return
        page.count = run.execution_count or page.count

    async def _interruptible(self, doing: Coroutine[Any, Any, None], page: Page) -> None:
        task = asyncio.ensure_future(doing)
        self._reading = asyncio.get_running_loop(), task
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            page.error("KeyboardInterrupt", "nothing was changed")
        finally:
            self._reading = None

    def _ask(self, text: str) -> str:
        """Ask a person for something secret; only this waits on the main thread."""
        self._is_asking = True
        try:
            return str(self.getpass(text))
        finally:
            self._is_asking = False

    async def _refuse_comm(self, stream: Any, ident: Any, parent: Any) -> None:
        content = {"comm_id": parent["content"]["comm_id"], "data": {}}
        session: Any = self.session
        session.send(self.iopub_socket, "comm_close", content, parent=parent, ident=self._topic("comm_close"))

    async def _ignore(self, stream: Any, ident: Any, parent: Any) -> None:
        pass


async def _awaited(doing: Coroutine[Any, Any, T]) -> T:
    """Await in this loop what is done in the background loop."""
    return await asyncio.wrap_future(background.submit(doing))


def _last_count(result: Result) -> int:
    """Return the execution count of the model's last cell."""
    cells = [cell for iteration in result.trajectory.iterations for cell in iteration.cells]
    return max((cell.execution_count or 0 for cell in cells), default=0)
