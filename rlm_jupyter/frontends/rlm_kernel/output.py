"""`Page`: what is sent under one cell of the front end, from any thread, until its kernel is idle again."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.frontends.live.progress import PageProgress
from rlm_jupyter.record import safe_html
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.record.dollars import keep_amounts
from rlm_jupyter.types.events import Event, OutputsShown, RunEnded

_RELAYED = frozenset({"stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"})
_WIDGET = "application/vnd.jupyter.widget-view+json"
"""Its other half lives in the kernel behind, out of the front end's reach: the text beside it is shown."""
_LOADS = re.compile(r"!\[|<[a-zA-Z/!?]")
"""In Markdown: a picture, or HTML. Shown as such, what a model wrote could carry the context away unasked."""
_LONE = re.compile("[\ud800-\udfff]")


class Page:
    """The outputs of one cell.

    Parameters
    ----------
    kernel
        The `ipykernel.kernelbase.Kernel` that is executing it.
    parent
        The execute request.
    count
        The cell's execution count.
    """

    def __init__(self, kernel: Any, parent: dict[str, Any], count: int) -> None:
        self._kernel = kernel
        self._parent = parent
        self.count = count
        self.failure: dict[str, Any] | None = None
        """The error that was shown last."""
        self.payload: list[dict[str, Any]] = []
        """What the front end is asked to do: page a help text, set the next input."""

    def relay(self, msg_type: str, content: dict[str, Any]) -> None:
        """Pass on a message of the kernel behind."""
        if msg_type == "execute_reply":
            self.payload = list(content.get("payload") or [])
        if msg_type not in _RELAYED:
            return
        data = content.get("data") or {}
        if _WIDGET in data and len(data) > 1:
            content = {**content, "data": {kind: value for kind, value in data.items() if kind != _WIDGET}}
        if msg_type == "error":
            self.failure = content
        self._send(msg_type, content)

    def say(self, text: str, *, name: str = "stdout") -> None:
        """Show a line of text."""
        self._send("stream", {"name": name, "text": f"{text}\n"})

    def note(self, text: str) -> None:
        """Show a line on `stderr`."""
        self.say(text, name="stderr")

    def hint(self, text: str) -> None:
        """Say what is good to know: not on `stderr`, which pages draw as an error."""
        self.publish({"text/html": fragments.block(fragments.note(text)), "text/plain": text})

    def result(self, ended: RunEnded) -> None:
        """Show the answer, as the cell's result.

        Plain Markdown goes as such; where a front end would load or embed something, it goes drawn, and safe.
        """
        shown = answer_markdown(ended)
        drawn = (
            {"text/html": safe_html.markdown(shown)} if _LOADS.search(shown) else {"text/markdown": keep_amounts(shown)}
        )
        data = {**drawn, "text/plain": ended.answer}
        self._send("execute_result", {"data": data, "metadata": {}, "execution_count": self.count})

    def error(self, name: str, text: str) -> None:
        """Show a failure, in one line."""
        line = " ".join(text.split())
        traceback = [f"\x1b[31m{name}\x1b[0m{': ' if line else ''}{line}"]
        self.failure = {"ename": name, "evalue": line, "traceback": traceback}
        self._send("error", self.failure)

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        """Show something, as IPython's `display_pub` does."""
        content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
        self._send("update_display_data" if update else "display_data", content)

    def reply(self) -> dict[str, Any]:
        """Return the content of the execute reply."""
        if self.failure is not None:
            failure = {key: self.failure[key] for key in ("ename", "evalue", "traceback")}
            return {"status": "error", "execution_count": self.count, **failure, "payload": self.payload}
        return {
            "status": "ok",
            "execution_count": self.count,
            "payload": self.payload,
            "user_expressions": {},
        }

    def progress(self, *, lines: bool) -> _Lines | PageProgress:
        """Return what shows a run: in displays that are updated, or in lines where a front end has none of these."""
        if lines:
            return _Lines(self)
        # what it asks of a shell; no comm ends in this kernel
        return PageProgress(SimpleNamespace(display_pub=self, kernel=None, user_ns={}))

    def _send(self, msg_type: str, content: dict[str, Any]) -> None:
        kernel = self._kernel
        kernel.session.send(
            kernel.iopub_socket, msg_type, _sendable(content), parent=self._parent, ident=kernel._topic(msg_type)
        )


class _Lines:
    """A line for each iteration, and one for the end."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._view = View()

    def __call__(self, event: Event) -> None:
        """Take in an event; the completion of an iteration is said."""
        self._view.apply(event)
        if isinstance(event, OutputsShown):
            self._page.say(self._view.summary)

    def end(self, path: Path | None = None, *, title: str = "", below: str = "", failed: bool = False) -> None:
        """Say how it ended."""
        if failed:
            self._view.fail()
        self._page.say(" · ".join(part for part in (title, self._view.text(), str(path or "")) if part))


def _sendable(value: Any) -> Any:
    """Return the same without lone surrogates: a notebook that holds one can't be saved."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sendable(item) for item in value]
    return value
