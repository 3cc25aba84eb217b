"""`Kernel`: a running IPython kernel that a model's code is executed in.

`Kernel.start` gives one that answers; the constructor alone gives none that can be used. It executes a cell, hands
values in and out, can be interrupted at any moment, notices its own death and starts again.

Long because all that may be asked of a kernel stands here, with what it gives and raises.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.kernel import supervisor
from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.contexts import Contexts
from rlm_jupyter.kernel.forks import Forks
from rlm_jupyter.kernel.guest.codec import Frame, WireMessage, to_bytes
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.running_cell import OnMessage, RunningCell
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.shared_texts import SharedTexts
from rlm_jupyter.kernel.shell_requests import ShellRequests
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.kernel.subcalls import SubcallDispatcher
from rlm_jupyter.kernel.templates import Lease, Templates
from rlm_jupyter.kernel.untrusted import changed, fetched, inspection, output, readable
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError
from rlm_jupyter.types.values import AnswerSubcall, CellRun, Inspection, Output, PacksContext, Value

LOOK_SECONDS = 10.0
"""How long the kernel may take to describe itself, or to turn a variable into text."""
OUTPUT_SECONDS = 60.0
"""How long it may take to hand over a file."""


@dataclass(slots=True)
class _Declared:
    """What FINAL has declared; a reset puts a new one in its place, so that a fetch under way is dropped."""

    answer: Value | None = None
    confidence: float | None = None


class Kernel:
    """A running kernel; made by `await Kernel.start(...)`, closed by `await kernel.close()`."""

    can_restart = True
    """Whether this process may restart it."""
    can_fork = supervisor.can_fork_live()
    """Whether it can be forked as long as nothing in it stands in the way."""

    def __init__(self, answer_subcall: AnswerSubcall, launch: Mapping[str, Any], *, insurance: bool = False) -> None:
        self._launch_options = launch
        self._contexts = Contexts(_texts(launch))
        self._subcalls = SubcallDispatcher(answer_subcall, self._tell, self.get, self._context_named)
        self._declared = _Declared()
        self._takes_none = False
        self._cell: RunningCell | None = None
        self._tools: Sequence[dict[str, Any]] = ()
        self._has_outputs = False
        self._shell = ShellRequests()
        self._owned_templates: Templates | Lease | None = None
        """Closed with it."""
        self._connection: Connection
        self.forks: Forks[Kernel] = Forks(self, insurance=insurance)
        """Its sleeping forks: for when it dies, for an undo, for branches."""
        self._fork_lock = asyncio.Lock()
        """Held while it is forked, or given a context: no cell may begin."""
        self.user_cell_lock = asyncio.Lock()
        """Held while a cell runs that is not the run's own, such as a person's while the run is paused."""

    @classmethod
    async def start(
        cls,
        answer_subcall: AnswerSubcall,
        *,
        kernel_name: str | None = None,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        insurance: bool = False,
        templates: Templates | None = None,
        context: PacksContext | None = None,
    ) -> Self:
        """Start a kernel and wait until it answers.

        Parameters
        ----------
        answer_subcall
            Answers the sub-calls of its cells.
        kernel_name, cwd, environment, sandbox
            As for `KernelProcess.launch`.
        insurance
            Keep a sleeping fork of it (`Forks.insure`), which goes on in its place if it dies.
        templates
            What it is forked from; the caller closes them. Default: templates of its own.
        context
            What it will be given first: a large text is made ready for it meanwhile.

        Raises
        ------
        ConfigurationError
            No such kernelspec or directory.
        KernelStartError
            It did not come up.
        """
        own = Templates() if templates is None else None
        launch: dict[str, Any] = {
            "kernel_name": kernel_name,
            "cwd": cwd,
            "environment": environment,
            "sandbox": sandbox,
        }
        launch["templates"] = templates or own
        kernel = cls(answer_subcall, launch, insurance=insurance)
        kernel._owned_templates = own
        if context is not None:
            kernel._contexts.expect(context)
        try:
            await kernel._connect()
        except BaseException:
            await run_to_completion(kernel._release)
            raise
        return kernel

    async def fork(self, answer_subcall: AnswerSubcall) -> Self:
        """Fork this kernel between two cells: the other one has all that this one has, and both go on by themselves.

        That is variables, imports, generators, random states, and files at the place where they are read or written. A
        sandbox, its files and its limits are the same for both; sockets, signing key and the host's directory are not.

        Parameters
        ----------
        answer_subcall
            Answers the sub-calls of the fork's cells.

        Returns
        -------
        Kernel
            To be closed by whoever has asked for it. It lives on when this one is closed, or dies.

        Raises
        ------
        ForkRefusedError
            A fork would lack something, such as a thread; it is named. This kernel is as it was.
        KernelDiedError
            There is no kernel any more.
        """
        return await self.kernel_in_fork(await self.fork_process(sleeps=False), answer_subcall)

    async def kernel_in_fork(self, process: KernelProcess, answer_subcall: AnswerSubcall) -> Self:
        """Return another kernel, whose process is this fork of it."""
        other = type(self)(answer_subcall, self._launch_options, insurance=self.forks.insurance.is_wanted)
        other._contexts = self._contexts.copy()
        other._tools, other._has_outputs, other._takes_none = self._tools, self._has_outputs, self._takes_none
        other._owned_templates = self._launch_options["templates"].lease()
        other._connection = Connection(process, **other._receivers())
        try:
            await other._connection.come_up()
        except BaseException:
            await run_to_completion(other._release)
            raise
        return other

    async def switch_to_fork(self, process: KernelProcess, why: str) -> None:
        """Go on in this fork of it, and end the process that it had.

        Parameters
        ----------
        why
            The reason that is given to requests that wait for that process.

        Raises
        ------
        KernelStartError
            The fork does not come up: the kernel is as it was.
        """
        before, after = self._connection, Connection(process, **self._receivers())
        self._connection = after  # sub-calls may arrive before `come_up` returns
        try:
            await after.come_up()
        except BaseException:
            self._connection = before
            await run_to_completion(lambda: after.close("the run was stopped"))
            raise
        await run_to_completion(lambda: before.close(why))
        self._declared = _Declared()

    async def fork_process(self, *, sleeps: bool) -> KernelProcess:
        """Fork its process between two cells; whoever connects to one that sleeps calls `SleepingFork.wake` first.

        Raises
        ------
        ForkRefusedError, KernelDiedError
            As `fork`.
        """
        async with self._fork_lock:
            if self._cell is not None:
                raise ForkRefusedError("a cell is running")
            connection = self._connection
            connection.check()

            async def ask(request: dict[str, Any]) -> dict[str, Any]:
                return (await connection.request("rlm_fork", request)).content

            return await connection.process.fork(ask, sleeps=sleeps)

    @property
    def pid(self) -> int | None:
        """Process id, where that is known."""
        supervised = self._connection.process.supervised
        return None if supervised is None else supervised.kernel_pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._connection.ended is None

    @property
    def is_forked(self) -> bool:
        """Whether its process is a fork, of a template or of another kernel; else it was launched."""
        return self._connection.process.is_forked

    async def set_context(self, context: PacksContext) -> None:
        """Make it `context`; the first is `context_0` too, the next `context_1`, and so on.

        Raises
        ------
        ContextError
            The kernel can't load it; the text says why.
        """
        async with self._fork_lock:
            await self._contexts.give(self._connection, context)

    def _context_named(self, name: object) -> tuple[PacksContext, str] | None:
        return self._contexts.named(name)  # looked up late: `kernel_in_fork` replaces them

    async def _release(self) -> None:
        self._contexts.release()
        if self._owned_templates is not None:
            await self._owned_templates.close()

    async def set_tools(self, specs: Sequence[dict[str, Any]]) -> None:
        """Define a function for each of these tools of the host (`Tool.spec`), also after a restart."""
        self._tools = specs
        if specs:
            await self._connection.request("rlm_tools", {"tools": [*specs]}, seconds=LOOK_SECONDS)

    async def open_outputs(self) -> None:
        """Make the folder `OUTPUTS`, in which cells leave files; also after a restart, when it is empty again."""
        self._has_outputs = True
        await self._connection.request("rlm_outputs", {}, seconds=LOOK_SECONDS)

    async def output(self, name: str, most: int) -> bytes | str:
        """Bring a file that cells have left in `OUTPUTS` here; the host itself opens nothing that they could reach.

        Parameters
        ----------
        name
            The file's name in that folder.
        most
            Bytes that it may have.

        Returns
        -------
        bytes or str
            Its content, or what is wrong with it, as the end of a sentence that begins with its name.

        Raises
        ------
        KernelError
            The kernel can't be read any more, or is gone.
        """
        done = await self._connection.request("rlm_output", {"name": name, "most": most}, seconds=OUTPUT_SECONDS)
        with readable():
            return output(done, most)

    @property
    def declared(self) -> Value | None:
        """The answer that FINAL declared, fetched while it was called: it outlives its kernel."""
        return self._declared.answer

    @property
    def declared_confidence(self) -> float | None:
        """What was stated with it, from 0 to 1."""
        return self._declared.confidence

    async def begin(self, *, takes_none: bool | None = None) -> None:
        """Begin a new prompt: forget a declared answer, set up an empty `answer`.

        Parameters
        ----------
        takes_none
            Whether `FINAL(None)` is an answer. Default: as the last call said.
        """
        await run_to_completion(self.forks.drop_kept)  # a cell's position is unique within its prompt alone
        self._declared = _Declared()
        self._takes_none = self._takes_none if takes_none is None else takes_none
        await self._connection.request("rlm_begin", {"takes_none": self._takes_none}, seconds=LOOK_SECONDS)

    async def reopen(self) -> None:
        """Forget a declared answer, and nothing else: the next FINAL counts again."""
        self._declared = _Declared()
        await self._connection.request("rlm_reopen", {}, seconds=LOOK_SECONDS)

    async def put(self, name: str, value: str) -> None:
        """Set a text that the model may change."""
        await self._connection.request("rlm_put", {"name": name, "kind": "str"}, [to_bytes(value)], LOOK_SECONDS)

    async def provide(self, variables: dict[str, list[Any]]) -> None:
        """Set several variables of plain data that the model may change."""
        await self._connection.request("rlm_provide", {}, [pickle.dumps(variables, protocol=5)])

    async def get(self, name: str | None = None) -> Value:
        """Bring a variable here whole, or the declared answer when no name is given.

        Runs no `__repr__` of a `str`, works while a cell runs, cuts nothing.

        Raises
        ------
        KernelError
            There is no such variable, or it can't become text.
        """
        declared = self._declared
        if name is None and declared.answer is not None:
            return declared.answer
        done = await self._connection.request("rlm_get", {"name": name}, seconds=None if name is None else LOOK_SECONDS)
        with readable():
            value = fetched(done)
            if name is None:
                declared.answer, declared.confidence = value, done.content["confidence"]
        return value

    async def inspect(self) -> Inspection:
        """Return what the kernel says of itself, and forget the notices it hands over."""
        content = (await self._connection.request("rlm_inspect", {}, seconds=LOOK_SECONDS)).content
        return inspection(content)

    async def changed_context(self, *, pickles: bool) -> object:
        """Return what a cell has put in place of `context`; `None` where none has.

        Parameters
        ----------
        pickles
            Take what is no plain data, too, as a `PackedContext`. Nothing is unpickled.

        Raises
        ------
        KernelError
            It can't be the context of another kernel.
        """
        done = await self._connection.request("rlm_changed", {"pickles": pickles})
        with readable():
            return changed(done, pickles=pickles)

    async def execute(
        self,
        source: str,
        *,
        cell_seconds: float | None = None,
        left: Callable[[], float | None] = lambda: None,
        on_outputs: Callable[[tuple[Output, ...]], None] | None = None,
        on_message: OnMessage | None = None,
    ) -> CellRun:
        """Execute one cell.

        Parameters
        ----------
        source
            IPython source: magics, `!shell`, top-level `await` work.
        cell_seconds
            After so much time, waiting for sub-calls not counted, the cell is interrupted.
        left
            Returns the seconds that the run has left, sub-calls included, after which the cell is interrupted; `None`:
            there is no end. Polled.
        on_outputs
            Called with all its outputs whenever they change, and once more when this call is cancelled.
        on_message
            Called with each message as it comes: the cell's own on IOPub, and its `execute_reply`.

        Returns
        -------
        CellRun
            Also when the cell failed, was interrupted, or took the kernel with it (`died`).
            Cancelling this call interrupts the cell first.
        """
        cell = RunningCell(self._connection, self._subcalls, on_outputs, on_message)
        async with self._fork_lock:
            self._connection.send_cell(cell.id, source)
            self._cell = cell
        self._subcalls.begin_cell()
        try:
            await cell.wait_until_over(cell_seconds, left)
            if cell.has_no_reply:
                await self._end_if_unresponsive()
        except asyncio.CancelledError:
            await cell.stop("the run was stopped")
            cell.show()
            raise
        except KernelDiedError:
            return cell.result("died")
        finally:
            cell.cancel_stop()
            self._cell = None
            await self._subcalls.cancel()
        return cell.result()

    async def cancel_subcalls(self) -> None:
        """Cancel the sub-calls that are open; whoever waits for them is told."""
        await self._subcalls.cancel()

    async def interrupt(self) -> None:
        """Interrupt the running cell, if there is one, and kill the kernel where that is no use; `execute` returns."""
        if self._cell is not None:
            await self._cell.stop("the cell was interrupted")

    async def interrupt_once(self) -> None:
        """Send one interrupt, and kill nothing: a person's cell may take its time, and may go on."""
        if self._cell is not None:
            self._tell("rlm_stop", {"cell": self._cell.id, "reason": "the cell was interrupted"})
            await self._connection.process.interrupt()

    async def request_shell(self, msg_type: str, content: dict[str, Any], *, seconds: float) -> dict[str, Any] | None:
        """Put a request of the Jupyter protocol to the kernel's shell, and give the content of its reply.

        Returns
        -------
        dict or None
            `None`: it did not answer within `seconds`, as while a cell runs.

        Raises
        ------
        KernelDiedError
            There is no kernel any more.
        """
        return await self._shell.send(self._connection, msg_type, content, seconds=seconds)

    async def restart(self) -> None:
        """End the process and start a new one with the same contexts and tools; every other variable is gone."""
        await run_to_completion(self.forks.insurance.drop)
        await run_to_completion(self.end_process)
        await self._connect()
        try:
            async with self._fork_lock:
                await self._contexts.give_again(self._connection)
            await self.set_tools(self._tools)
            if self._has_outputs:
                await self.open_outputs()
        except BaseException:
            # leave no kernel without its context: the next restart gives it again
            await run_to_completion(self.end_process)
            raise

    async def close(self) -> None:
        """Give up what is open and end the kernel at once. A second time does nothing."""
        await run_to_completion(self._close_all)

    async def _close_all(self) -> None:
        try:
            await self.forks.drop_all()
        finally:
            try:
                await self.end_process()
            finally:
                await self._release()

    async def end_process(self) -> None:
        """Cancel what is open and end the process; its forks stay alive."""
        await self._subcalls.cancel()
        self._fail_cell("the kernel was closed")
        await self._connection.close("the kernel was closed")

    async def _end_if_unresponsive(self) -> None:
        """End it where it executes nothing any more: a cell can break the shell that all cells run in."""
        problem = "the kernel executed nothing any more and was ended"
        await self._shell.execute_silently(self._connection, "", seconds=LOOK_SECONDS, problem=problem)

    async def _connect(self) -> None:
        self._connection = await Connection.open(self._launch_options, **self._receivers())

    def _receivers(self) -> dict[str, Callable[[Any], None]]:
        return {
            "on_shell": self._on_shell,
            "on_iopub": self._on_iopub,
            "on_call": self._on_call,
            "on_death": self._fail_cell,
        }

    def _tell(self, msg_type: str, content: dict[str, Any], buffers: Sequence[Frame] = ()) -> None:
        self._connection.tell(msg_type, content, buffers)

    def _on_call(self, message: WireMessage) -> None:
        self._subcalls.receive(message)

    def _on_shell(self, message: WireMessage) -> None:
        if not self._shell.receive(message) and self._cell is not None and message.parent_id == self._cell.id:
            self._cell.take_reply(message)

    def _on_iopub(self, message: WireMessage) -> None:
        if self._cell is not None and message.parent_id == self._cell.id:
            self._cell.take(message)

    def _fail_cell(self, reason: str) -> None:
        if self._cell is not None:
            self._cell.fail(reason)
        self._shell.fail(reason)


def _texts(launch: Mapping[str, Any]) -> SharedTexts | None:
    """Return where such a kernel has large texts from; what is in a container, or elsewhere, is sent them."""
    templates, sandbox = launch.get("templates"), launch.get("sandbox")
    if templates is None or (sandbox is not None and sandbox.is_container):
        return None
    texts: SharedTexts = templates.texts
    return texts
