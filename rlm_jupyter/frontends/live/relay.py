"""`Relay`: passes what a cell in a run's kernel shows on to the cell of the reader's notebook that asked for it.

The page trusts what a cell of the reader's own kernel shows. So each message is made harmless first, as the
outputs of live cells are (`safe`).
"""

from __future__ import annotations

from typing import Any

from rlm_jupyter.frontends.display import sanitize
from rlm_jupyter.types.values import Output

STREAM_CHARS = 100_000
"""Of what one cell prints; what comes after is left out, as in live cells."""
_SHOWN = frozenset({"display_data", "execute_result", "update_display_data"})


class Relay:
    """The outputs of one cell. For the thread that executes the reader's cell.

    Parameters
    ----------
    kernel
        The reader's `ipykernel.kernelbase.Kernel`.
    scope
        Stands before the ids of displays: a model's must not meet one of the reader's.
    """

    def __init__(self, kernel: Any, scope: str) -> None:
        self._kernel = kernel
        self._scope = scope
        self._clears = False
        self._printed = 0
        self.count: int | None = None
        """The cell's number in its own kernel."""
        self.failure: Output | None = None
        """The error that came last: not shown yet, because a cell that fails shows it itself."""
        self.failed = False
        """Whether the cell ended with it."""

    def take(self, msg_type: str, content: dict[str, Any]) -> None:
        """Pass on a message; what is nothing to see is passed over."""
        if msg_type == "execute_input":
            self.count = content["execution_count"]
        elif msg_type == "stream":
            self._print(content)
        elif msg_type in _SHOWN:
            self._show(msg_type, content)
        elif msg_type == "error":
            self.release()
            [self.failure] = sanitize.clean([{"output_type": "error", **content}])
        elif msg_type == "clear_output" and content.get("wait"):
            self._clears = True
        elif msg_type == "clear_output":
            self._send("clear_output", {"wait": False})
        elif msg_type == "execute_reply":
            self.failed = content.get("status") == "error"
            for payload in content.get("payload") or ():  # of `name?`
                if payload.get("source") == "page":
                    self._show("display_data", {"data": payload.get("data", {})})

    def say(self, text: str, html: str, **facts: Any) -> None:
        """Show something of our own; `facts` are for the page, in `metadata.rlm`."""
        self._send("display_data", {"data": {"text/plain": text, "text/html": html}, "metadata": {"rlm": facts}})

    def release(self) -> None:
        """Show an error after which the cell went on."""
        failure, self.failure = self.failure, None
        if failure is not None:
            self._send("error", {name: failure[name] for name in ("ename", "evalue", "traceback")})

    def _print(self, content: dict[str, Any]) -> None:
        left = STREAM_CHARS - self._printed
        if left <= 0:
            return
        text = sanitize.plain(content["text"])
        self._printed += len(text)
        shown = text if len(text) <= left else f"{text[:left]}\n[… more]\n"
        self._send("stream", {"name": content["name"], "text": shown})

    def _show(self, msg_type: str, content: dict[str, Any]) -> None:
        kind = "execute_result" if msg_type == "execute_result" else "display_data"
        shown = sanitize.clean([{"output_type": kind, **content}])
        if not shown:
            return
        [output] = shown
        made = {"data": output["data"], "metadata": output["metadata"]}
        if msg_type == "execute_result":
            made["execution_count"] = content["execution_count"]
        display_id = (content.get("transient") or {}).get("display_id")
        made["transient"] = {} if display_id is None else {"display_id": f"{self._scope}-{display_id}"}
        self._send(msg_type, made)

    def _send(self, msg_type: str, content: dict[str, Any]) -> None:
        if self._clears and msg_type != "update_display_data":
            # not before something comes in its place
            self._clears = False
            self._kernel.send_response(self._kernel.iopub_socket, "clear_output", {"wait": True})
        self._kernel.send_response(self._kernel.iopub_socket, msg_type, content)
