"""`CellOutputs`: folds the IOPub messages of one cell into nbformat outputs, as a front end would."""

from __future__ import annotations

import json
from typing import Any

from rlm_jupyter.types.values import Output

MOST_CHARS = 64 * 2**20
"""Of one cell's outputs; what comes after is counted and left out."""
MOST_OUTPUTS = 10_000
"""Of one cell: streams, figures and other displays."""
_ERRORS = 50
"""Beyond that: what ended the cell is always seen."""
FLOOD_CHARS = 2 * MOST_CHARS
"""A cell that puts out more is interrupted: it would fill the host's memory faster than anybody can read."""
FLOOD_OUTPUTS, FLOOD_ERRORS = 2 * MOST_OUTPUTS, 2_000
"""The same for displays and their updates, and for tracebacks: each is a message, and its end comes after them all."""


class CellOutputs:
    """The outputs of one cell, growing."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._pieces: list[list[str] | None] = []  # a stream's texts, joined when somebody looks
        self._displays: dict[str, list[Output]] = {}
        self._clear_next = False
        self._size = 0
        self._left_out = 0
        self._displays_left_out = 0
        self._seen = 0
        self._shown = self._errors = 0
        self.execution_count: int | None = None
        self.failed = False
        self.is_incomplete = False
        """The channel has lost the last of them."""

    def add(self, msg_type: str, content: dict[str, Any]) -> bool:
        """Fold one message in; `True` when the outputs changed.

        Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html#messages-on-the-iopub-pub-sub-channel
        """
        match msg_type:
            case "execute_input":
                self.execution_count = content["execution_count"]
                return False
            case "stream":
                self._stream(content["name"], content["text"])
            case "display_data" | "execute_result":
                self._shown += 1
                self._display(msg_type, content)
            case "update_display_data":
                self._shown += 1
                return self._update(content)
            case "error":
                self.failed = True
                self._errors += 1
                self._seen += sum(map(len, content["traceback"]))
                if len(self._outputs) >= MOST_OUTPUTS + _ERRORS:
                    self._displays_left_out += 1
                    return True
                self._append(
                    {
                        "output_type": "error",
                        "ename": content["ename"],
                        "evalue": content["evalue"],
                        "traceback": content["traceback"],
                    }
                )
            case "clear_output":
                if content.get("wait"):
                    self._clear_next = True
                    return False
                self._clear()
            case _:
                return False
        return True

    @property
    def is_flood(self) -> bool:
        """Whether the cell puts out more than anybody wants."""
        return self._seen > FLOOD_CHARS or self._shown > FLOOD_OUTPUTS or self._errors > FLOOD_ERRORS

    def snapshot(self) -> tuple[Output, ...]:
        """Return the outputs so far."""
        for output, pieces in zip(self._outputs, self._pieces, strict=True):
            if pieces is not None and len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            if pieces is not None:
                output["text"] = pieces[0]
        shown = tuple(dict(output) for output in self._outputs)
        left_out = [f"{self._left_out:,} more characters"] if self._left_out else []
        left_out += [f"{self._displays_left_out:,} more displays"] if self._displays_left_out else []
        if left_out:
            kept = f"a cell keeps {MOST_CHARS:,} characters and {MOST_OUTPUTS:,} outputs"
            stopped = "; the cell was interrupted because it put out so much" if self.is_flood else ""
            note = f"\n[{' and '.join(left_out)} of output were left out: {kept}{stopped}]\n"
            shown += (_note(note),)
        if self.is_incomplete:
            shown += (_note("\n[the last outputs of this cell were lost between the kernel and its reader]\n"),)
        return shown

    def _stream(self, name: str, text: str) -> None:
        self._clear_if_asked()
        self._seen += len(text)
        last = self._pieces[-1] if self._pieces else None
        joins = last is not None and self._outputs[-1]["name"] == name
        room = MOST_CHARS - self._size if joins or len(self._outputs) < MOST_OUTPUTS else 0
        self._left_out += max(len(text) - room, 0)
        text = text[:room]
        self._size += len(text)
        if not text:
            return
        if last is not None and joins:
            last.append(text)
        else:
            self._append({"output_type": "stream", "name": name, "text": ""}, [text])

    def _display(self, msg_type: str, content: dict[str, Any]) -> None:
        output: Output = {
            "output_type": msg_type,
            "data": _bundle(content["data"]),
            "metadata": content.get("metadata") or {},
        }
        if msg_type == "execute_result":
            output["execution_count"] = content["execution_count"]
        display_id = (content.get("transient") or {}).get("display_id")
        self._clear_if_asked()
        if not self._takes(output["data"]) or len(self._outputs) >= MOST_OUTPUTS:
            self._displays_left_out += 1
            return
        self._append(output)
        if display_id is not None:
            self._displays.setdefault(display_id, []).append(output)

    def _update(self, content: dict[str, Any]) -> bool:
        shown = self._displays.get((content.get("transient") or {}).get("display_id", ""), [])
        data = _bundle(content["data"])
        for output in shown:
            self._size -= _chars(output["data"])
        if not self._takes(data, len(shown)):
            data = {"text/plain": "[left out: too large]"}
        for output in shown:
            output["data"] = data
            output["metadata"] = content.get("metadata") or {}
        return bool(shown)

    def _takes(self, data: dict[str, Any], times: int = 1) -> bool:
        """Return whether there is room for it; then it is counted."""
        size = _chars(data) * times
        self._seen += size
        if self._size + size > MOST_CHARS:
            return False
        self._size += size
        return True

    def _append(self, output: Output, pieces: list[str] | None = None) -> None:
        self._clear_if_asked()
        self._outputs.append(output)
        self._pieces.append(pieces)

    def _clear_if_asked(self) -> None:
        if self._clear_next:
            self._clear()

    def _clear(self) -> None:
        self._clear_next = False
        self._size = self._left_out = self._displays_left_out = self._seen = 0
        self._outputs.clear()
        self._pieces.clear()
        self._displays.clear()


def _note(text: str) -> Output:
    return {"output_type": "stream", "name": "stderr", "text": text}


def _chars(data: dict[str, Any]) -> int:
    return sum(len(value) if isinstance(value, str) else len(json.dumps(value)) for value in data.values())


def _bundle(data: dict[str, Any]) -> dict[str, Any]:
    """Return what nbformat allows: anything as JSON, text for every other kind."""
    return {kind: value if _is_json(kind) else _as_text(value) for kind, value in data.items()}


def _is_json(kind: str) -> bool:
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _as_text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
