"""`CellOutputs`: folds the IOPub messages of one cell into nbformat outputs, as a front end would."""

from __future__ import annotations

import json
from typing import Any

from rlm_jupyter.types import Output

MOST_BYTES = 64 * 2**20
"""Of one cell's streams; what comes after is counted and left out."""


class CellOutputs:
    """The outputs of one cell, growing."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._pieces: list[list[str] | None] = []  # a stream's texts, joined when somebody looks
        self._displays: dict[str, list[Output]] = {}
        self._clear_next = False
        self._size = 0
        self._left_out = 0
        self.execution_count: int | None = None
        self.failed = False

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
                self._display(msg_type, content)
            case "update_display_data":
                return self._update(content)
            case "error":
                self.failed = True
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

    def snapshot(self) -> tuple[Output, ...]:
        """The outputs so far."""
        for output, pieces in zip(self._outputs, self._pieces, strict=True):
            if pieces is not None and len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            if pieces is not None:
                output["text"] = pieces[0]
        shown = tuple(dict(output) for output in self._outputs)
        if self._left_out:
            note = f"\n[{self._left_out:,} more characters of output were left out: a cell keeps {MOST_BYTES:,}]\n"
            shown += ({"output_type": "stream", "name": "stderr", "text": note},)
        return shown

    def _stream(self, name: str, text: str) -> None:
        self._clear_if_asked()
        self._size += len(text)
        if self._size > MOST_BYTES:
            self._left_out += len(text)
            return
        last = self._pieces[-1] if self._pieces else None
        if last is not None and self._outputs[-1]["name"] == name:
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
        self._append(output)
        if display_id is not None:
            self._displays.setdefault(display_id, []).append(output)

    def _update(self, content: dict[str, Any]) -> bool:
        shown = self._displays.get((content.get("transient") or {}).get("display_id", ""), [])
        for output in shown:
            output["data"] = _bundle(content["data"])
            output["metadata"] = content.get("metadata") or {}
        return bool(shown)

    def _append(self, output: Output, pieces: list[str] | None = None) -> None:
        self._clear_if_asked()
        self._outputs.append(output)
        self._pieces.append(pieces)

    def _clear_if_asked(self) -> None:
        if self._clear_next:
            self._clear()

    def _clear(self) -> None:
        self._clear_next = False
        self._outputs.clear()
        self._pieces.clear()
        self._displays.clear()


def _bundle(data: dict[str, Any]) -> dict[str, Any]:
    """What nbformat allows: anything as JSON, text for every other kind."""
    return {kind: value if _is_json(kind) else _as_text(value) for kind, value in data.items()}


def _is_json(kind: str) -> bool:
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _as_text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
