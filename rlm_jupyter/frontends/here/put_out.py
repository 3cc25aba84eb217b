"""`PutOut`: what a cell puts out in this kernel, as it is sent to whoever listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlm_jupyter.kernel.iopub import CellOutputs


class PutOut:
    """The outputs since it was made or emptied."""

    def __init__(self) -> None:
        self.cell = CellOutputs()

    def empty(self) -> None:
        """Begin anew."""
        self.cell = CellOutputs()

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Take in a message."""
        self.cell.add(kind, content)


@contextmanager
def watched(session: Any) -> Iterator[PutOut]:
    """Collect what is sent by a kernel's `jupyter_client.session.Session`, from any of its threads."""
    found, send = PutOut(), session.send

    def sending(stream: Any, message: Any, content: Any = None, *given: Any, **named: Any) -> Any:
        kind = message["msg_type"] if isinstance(message, dict) else str(message)
        found.take(kind, message["content"] if isinstance(message, dict) else content or {})
        return send(stream, message, content, *given, **named)

    session.send = sending
    try:
        yield found
    finally:
        session.send = send
