"""`AskingCell`: what the cell that asked shows in the end, for a page that was reloaded meanwhile.

A page hears the outputs of the cells that it has executed itself. One that was loaded later has the first of them from
the notebook's file, and asks the run for the last.
"""

from __future__ import annotations

import contextlib
from typing import Any

from rlm_jupyter.types.values import Output


class AskingCell:
    """Keeps the displays of the cell under way, as they are last.

    Parameters
    ----------
    shell
        Whose displays are kept, from the calling thread alone, until `leave`.
    request
        The id of the message that executes the cell. What a model's cells display, which are executed within it, names
        another parent: the page shows it there.
    """

    def __init__(self, shell: Any, request: str) -> None:
        self._publisher = shell.display_pub
        self._request = request
        self._displays: dict[object, Output] = {}
        self._error: Output | None = None
        self._count: int | None = None
        with contextlib.suppress(AttributeError):  # other kernels' publishers have no hooks
            self._publisher.register_hook(self._take)

    def _take(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content", {})
        if message.get("parent_header", {}).get("msg_id") != self._request:
            return message
        if message.get("msg_type") in {"display_data", "update_display_data"}:
            known = content.get("transient", {}).get("display_id") or object()
            output: Output = {"output_type": "display_data", "data": content["data"], "metadata": content["metadata"]}
            self._displays[known] = output
        return message

    def leave(self, result: Any) -> None:
        """Take in how the cell ended, an IPython `ExecutionResult`; nothing is kept from here on."""
        with contextlib.suppress(AttributeError):
            self._publisher.unregister_hook(self._take)
        self._count = getattr(result, "execution_count", None)
        error = getattr(result, "error_in_exec", None)
        if error is not None:
            lines: list[str] = getattr(error, "_render_traceback_", list)()
            self._error = {
                "output_type": "error",
                "ename": type(error).__name__,
                "evalue": str(error),
                "traceback": lines,
            }

    def told(self) -> dict[str, Any]:
        """Return its outputs, without those that show nothing, and its number."""
        shown = [output for output in self._displays.values() if any(output["data"].values())]
        return {"outputs": shown + ([self._error] if self._error else []), "execution_count": self._count}
