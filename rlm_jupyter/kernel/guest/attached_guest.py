"""The second way in: a guest in a kernel that somebody lends us, such as the one of a user's notebook.

The kernel may be any ipykernel. While the guest is in it, its control channel carries our messages, and the
host's cells are executed on its main thread, inside the user's own cell (`AttachedCells`). When the guest leaves,
the names, the magics and the settings that it had replaced are what they were before.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from rlm_jupyter.kernel.guest.attached_cells import AttachedCells
from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.kernel.guest.guest import Guest
from rlm_jupyter.kernel.guest.namespace import ProtectedNames
from rlm_jupyter.kernel.guest.subcall_functions import MakesCalls, functions
from rlm_jupyter.kernel.guest.trajectory_view import NAME as TRAJECTORY
from rlm_jupyter.kernel.guest.trajectory_view import TrajectoryView

_MISSING: Any = object()
_MAGIC = "llm_query"


class BorrowedNames(ProtectedNames):
    """Our names in a namespace that is somebody's own: what stood there before can be put back."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._before: dict[str, tuple[Any, Any]] = {}

    def protect(self, names: dict[str, Any]) -> None:
        """Do as `ProtectedNames.protect`, and remember what stood there."""
        self._remember(names)
        super().protect(names)

    def provide(self, names: dict[str, Any]) -> None:
        """Do as `ProtectedNames.provide`, and remember what stood there."""
        self._remember(names)
        super().provide(names)

    def give_back(self) -> None:
        """Put back what stood there; a name that was free and that the model took for its own use stays its."""
        shell = self._shell
        for name, (value, hidden) in self._before.items():
            now = shell.user_ns.get(name, _MISSING)
            if (
                value is _MISSING
                and name in self.provided
                and now is not self.provided[name]
                and not _is_draft(name, now)
            ):
                shell.user_ns_hidden.pop(name, None)
                continue
            _put(shell.user_ns, name, value)
            _put(shell.user_ns_hidden, name, hidden)
        self._before.clear()

    def _remember(self, names: dict[str, Any]) -> None:
        for name in names:
            if name not in self._before:
                before = (space.get(name, _MISSING) for space in (self._shell.user_ns, self._shell.user_ns_hidden))
                self._before[name] = next(before), next(before)


class AttachedGuest(Guest):
    """A guest that comes for one run.

    Parameters
    ----------
    kernel
        The user's.
    context
        What becomes `context`, itself and no copy; nothing where it is `None`: then a `context` of the user's own
        stays what it is.
    is_shown
        Whether the page shows the cells themselves; for `AttachedCells`.
    answers
        Answers sub-calls in place of a host.
    on_cell
        Told id and source of each cell that the host sends; called on the control thread.
    """

    def __init__(
        self,
        kernel: Any,
        context: Any,
        *,
        on_cell: Callable[[str, str], None] = lambda cell, source: None,
        is_shown: Callable[[], bool] = lambda: False,
        answers: MakesCalls | None = None,
    ) -> None:
        self.cells = AttachedCells(kernel, self._fail_calls, is_shown)
        self._on_cell = on_cell
        self._magics = [(kind, kind.get(_MAGIC, _MISSING)) for kind in kernel.shell.magics_manager.magics.values()]
        self._host: list[bytes] | None = None
        self._left = False
        self.token = secrets.token_hex(8)
        """What the host must name when it attaches: that of an earlier run may still be putting things away."""
        names = BorrowedNames(kernel.shell)
        super().__init__(kernel, names)
        self._lent_names = names
        if context is not None:
            names.protect({"context": context, "context_0": context})
        elif "context" not in kernel.shell.user_ns:
            names.protect({"context": ""})
        if answers is not None:
            trajectory = {TRAJECTORY: TrajectoryView(answers)} if TRAJECTORY in names.protected else {}
            names.protect(functions(answers) | trajectory)
        kernel.rlm_attached = self
        self._tap(self._take)

    def leave(self) -> None:
        """Take back all that was put into the kernel, but for its ear: the host may still be talking."""
        self._left = True
        self.wire.attach([])
        self._fail_calls("the run is over")
        shell = self._shell
        shell.ast_transformers.remove(self._named_finals)
        shell.input_transformers_cleanup.remove(self._questions)
        shell.events.unregister("pre_run_cell", self._before_cell)
        shell.events.unregister("post_run_cell", self._after_cell)
        self._exits.leave()
        shell.compile.get_code_name, shell.compile.ast_parse = self._unwatched
        for kind, magic in self._magics:
            _put(kind, _MAGIC, magic)
        self._lent_names.give_back()
        if self._host is None:
            self.host_gone()

    def host_gone(self) -> None:
        """Give the control channel back to the kernel alone: nothing comes from the host any more. Any thread."""
        if getattr(self._kernel, "rlm_attached", None) is self:
            del self._kernel.rlm_attached
            self._tap(self._kernel.dispatch_control)

    async def execute(self, cell: str, source: str) -> bool:
        """Execute a cell on the main thread, inside the user's own; the result is whether it succeeded."""
        try:
            return await self.cells.run(cell, source)
        finally:
            if self.wire.attached:
                self.wire.send("rlm_executed", {"cell": cell})

    def begin(self, names: dict[str, Any], *, takes_none: bool = False) -> None:
        """Begin a run without a host: forget a declared answer, set up an empty `answer` and these names."""
        self._finals.reset()
        self._finals.takes_none = takes_none
        self._lend_run()
        self._names.provide(names)

    def variables(self) -> list[tuple[str, str, str]]:
        """Name, type and size of each of the user's variables."""
        return self._names.variables()

    @property
    def answer(self) -> str | None:
        """What FINAL was given in this run, as text; `None`: nothing."""
        return None if self._finals.answer is None else self._finals.answer.text

    def running_cell(self) -> str:
        """Return the id of the host's cell that runs."""
        return self.cells.id

    def _source(self) -> str:
        return self.cells.source

    def _fail_calls(self, reason: str) -> None:
        self.calls.stop(self.cells.id, reason)

    def _take(self, frames: Any) -> Any:
        """Take our messages before ipykernel does; what it gives back is awaited, as it is without us."""
        return None if self.wire.accepts(frames) else self._kernel.dispatch_control(frames)

    def _tap(self, receive: Callable[[Any], Any]) -> None:
        stream = self._kernel.control_stream
        stream.io_loop.add_callback(lambda: stream.on_recv(receive, copy=False))

    def _receive(self, message: WireMessage) -> None:
        if message.type == "rlm_attach" and self._host is None and message.content.get("token") == self.token:
            self._host = message.idents
        if self._left or message.idents != self._host:
            return
        match message.type:
            case "rlm_execute":
                self._on_cell(message.id, message.content["source"])
            case "rlm_interrupt":
                self.cells.interrupt(message.content["cell"])
            case "rlm_hello":
                self.cells.mark(message.id, "hello")
                self.wire.reply(message, {})
            case _:
                super()._receive(message)


def why_not(kernel: Any) -> str:
    """Return why a guest can't come into this kernel; empty where it can."""
    if any(getattr(kernel, name, None) is None for name in ("control_stream", "control_thread", "iopub_thread")):
        return "this kernel has no control channel of its own"
    if hasattr(kernel, "rlm_guest"):
        return "a model drives this kernel already"
    if kernel.session.signature_scheme != "hmac-sha256":
        return f"this kernel signs its messages by {kernel.session.signature_scheme}"
    if kernel.shell.loop_runner_map.get("asyncio", (None,))[0] is not kernel.shell.loop_runner:
        return "%autoawait is not asyncio here"
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return "no event loop runs here"
    return ""


def _is_draft(name: str, value: Any) -> bool:
    return name == "answer" and type(value) is dict and "ready" in value


def _put(space: dict[str, Any], name: str, value: Any) -> None:
    if value is _MISSING:
        space.pop(name, None)
    else:
        space[name] = value
