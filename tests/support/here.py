"""A notebook's own kernel for tests: a real ipykernel, as people have it, spoken to as a front end does."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

CELL_SECONDS = 60.0
_DRIVER = "rlm_jupyter.frontends.here"
_STACKS = "stacks.txt"
_TELLS = f"""import faulthandler, signal, sys
sys.stacks = open({_STACKS!r}, "w")
faulthandler.register(signal.SIGUSR2, sys.stacks, all_threads=True)
del faulthandler, signal, sys"""
"""A kernel that hangs can tell where."""


@dataclass
class Shown:
    """What a cell showed, and how it ended."""

    outputs: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    reply: dict[str, Any] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)
    """What came over comms."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """All of it as text, errors too."""
        pieces = []
        for _, content in self.outputs:
            pieces += [content.get("text", ""), *content.get("traceback", [])]
            pieces += [str(value) for value in content.get("data", {}).values()]
        return "\n".join(pieces)

    @property
    def printed(self) -> str:
        """What was written to the standard streams."""
        return "".join(content["text"] for kind, content in self.outputs if kind == "stream")

    @property
    def value(self) -> str:
        """The last expression."""
        return str([content for kind, content in self.outputs if kind == "execute_result"][-1]["data"]["text/plain"])

    @property
    def error(self) -> str:
        """Of the cell itself, in one line; empty when it succeeded."""
        return "" if self.reply["status"] == "ok" else f"{self.reply['ename']}: {self.reply['evalue']}"


class Notebook:
    """A kernel with the magics loaded, for the length of a `with` block.

    Parameters
    ----------
    folder
        Its working directory.
    environment
        Beside the test's own.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.km = KernelManager(connection_file=str(folder / "k.json"), transport="ipc")
        self.km._kernel_spec = KernelSpec(argv=argv, display_name="Python", language="python")
        self._folder = folder
        self._environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), **environment}
        self.kc: BlockingKernelClient

    def __enter__(self) -> Self:
        self.km.start_kernel(cwd=str(self._folder), env=self._environment)
        self.kc = self.km.client()
        self.kc.start_channels()
        self.kc.wait_for_ready(timeout=CELL_SECONDS)
        assert self.run(f"%load_ext rlm_jupyter\n{_TELLS}").error == ""
        return self

    def __exit__(self, *exc: object) -> None:
        self.kc.stop_channels()
        self.km.shutdown_kernel(now=True)
        self.km.cleanup_resources()

    def run(
        self,
        source: str,
        on_output: Callable[[str, str], None] | None = None,
        *,
        typed: Sequence[str] = (),
        cell_id: str | None = None,
    ) -> Shown:
        """Execute a cell.

        Parameters
        ----------
        on_output
            Told kind and text of each of its outputs as it comes.
        typed
            What a person types when they are asked.
        cell_id
            As a page names the cell.
        """
        return self.follow(self.send(source, cell_id, allow_stdin=bool(typed)), on_output, typed=typed)

    def send(self, source: str, cell_id: str | None = None, *, allow_stdin: bool = False) -> str:
        """Ask for a cell to be executed, and don't wait; returns the request's id."""
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}}
        message = self.kc.session.msg("execute_request", {**content, "allow_stdin": allow_stdin, "stop_on_error": True})
        message["metadata"] = {} if cell_id is None else {"cellId": cell_id}
        self.kc.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def follow(
        self, msg_id: str, on_output: Callable[[str, str], None] | None = None, *, typed: Sequence[str] = ()
    ) -> Shown:
        """Wait for the end of a cell that was sent, and give what it showed; parameters are those of `run`."""
        shown, began, typing = Shown(), time.monotonic(), iter(typed)
        while True:
            if typed and self.kc.stdin_channel.msg_ready():
                self.kc.get_stdin_msg(timeout=1)
                self.kc.input(next(typing))
            if typed and not self.kc.iopub_channel.msg_ready() and time.monotonic() - began < CELL_SECONDS:
                time.sleep(0.01)
                continue
            message = self._message()
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind in {"comm_open", "comm_msg"}:
                shown.told.append(content["data"])
            if kind in {"stream", "display_data", "update_display_data", "execute_result", "error"}:
                shown.outputs.append((kind, content))
                if on_output is not None:
                    on_output(kind, Shown([(kind, content)]).text)
        while not shown.reply:
            try:
                reply = self.kc.get_shell_msg(timeout=20)
            except queue.Empty:
                raise AssertionError("the cell has ended without a reply") from None
            if reply["parent_header"].get("msg_id") == msg_id:
                shown.reply = reply["content"]
        shown.seconds = time.monotonic() - began
        return shown

    def _message(self) -> dict[str, Any]:
        try:
            message: dict[str, Any] = self.kc.get_iopub_msg(timeout=CELL_SECONDS)
        except queue.Empty:
            raise self._hangs() from None
        return message

    def _hangs(self) -> AssertionError:
        """An error that says what its threads do, and who else is there."""
        if not self.km.is_alive():
            return AssertionError("the kernel is dead")
        self.process.send_signal(signal.SIGUSR2)
        time.sleep(1)
        stacks = (self._folder / _STACKS).read_text()
        drivers = [(driver.pid, driver.status()) for driver in self.drivers()]
        return AssertionError(f"nothing came for {CELL_SECONDS:.0f} s; drivers: {drivers}\n{stacks}")

    def interrupt(self) -> None:
        """As the Stop button does."""
        os.killpg(self.process.pid, signal.SIGINT)

    @property
    def process(self) -> psutil.Process:
        """The kernel's."""
        provisioner: Any = self.km.provisioner
        return psutil.Process(provisioner.pid)

    def drivers(self) -> list[psutil.Process]:
        """The processes that drive runs in it."""
        found = []
        for child in self.process.children(recursive=True):
            try:
                if _DRIVER in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
            except psutil.Error:
                continue
        return found

    def no_driver_left(self) -> bool:
        """Whether all of them have gone, after a moment."""
        deadline = time.monotonic() + 30
        while self.drivers() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self.drivers()

    def works(self) -> bool:
        """Whether an ordinary cell runs as if nothing had been, and our names are gone."""
        shown = self.run("seen = [n for n in ('FINAL', 'llm_query', 'SHOW_VARS') if n in globals()]\nseen, 6 * 7")
        return shown.error == "" and shown.value == "([], 42)"


def script(path: Path, *cells: str, subcalls: list[str] | None = None) -> str:
    """Write a model's replies, a cell each; gives the model's name."""
    replies = [f"I go on ({place}).\n```repl\n{cell}\n```" for place, cell in enumerate(cells)]
    path.write_text(json.dumps({"replies": replies} | ({} if subcalls is None else {"subcalls": subcalls})))
    return f"scripted/{path.name}"
