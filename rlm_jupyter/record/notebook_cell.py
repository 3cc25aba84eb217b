"""`NotebookCell`: one cell of a run's notebook, encoded as nbformat 4.5 writes it, each of its parts once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rlm_jupyter.record.encoding import dump, escape, unescape
from rlm_jupyter.types.values import Output

Role = Literal[
    "prompt", "restore", "prose", "code", "reply", "rejected", "notice", "subcalls", "samples", "answer", "boundary"
]


@dataclass(slots=True)
class NotebookCell:
    """A cell that grows: records are added to it, a code cell gets its outputs.

    What belongs to us is in `metadata.rlm`: `role`, `iteration`, `block`, how the cell stands in the
    model's reply (`segment`), which parts are escaped, and `records`, less what the cell itself shows.
    """

    kind: Literal["markdown", "code"]
    id: str
    source: str
    meta: dict[str, Any]
    tags: tuple[str, ...] = ()
    hidden: bool = False
    """The source is folded away."""
    execution_count: int | None = None
    finished: bool = False
    _records: list[bytes] = field(default_factory=list)
    _outputs: bytes = b"[]"
    _escaped: list[str] = field(default_factory=list)
    _source: bytes = b""
    _encoded: bytes | None = None

    def __post_init__(self) -> None:
        self._source = self._lines("source", self.source.splitlines(keepends=True))

    def add(self, record: bytes) -> None:
        """Attach a record, as `encoding.dump` wrote it."""
        self._records.append(record)
        self._encoded = None

    def tag(self, tags: tuple[str, ...]) -> None:
        """Give it other tags."""
        self.tags, self._encoded = tags, None

    @property
    def is_bare(self) -> bool:
        """Whether no record is attached."""
        return not self._records

    def show(self, outputs: Sequence[Output], execution_count: int | None, tags: tuple[str, ...]) -> None:
        """Give a code cell its outputs."""
        self._outputs = self._lines("outputs", [_split(output) for output in outputs])
        self.execution_count, self.tags, self.finished = execution_count, tags, True
        self._encoded = None

    def encode(self) -> bytes:
        """Return the cell as JSON; joined anew only when something was added."""
        if self._encoded is None:
            meta = dict(self.meta)
            if self._escaped:
                meta["escaped"] = self._escaped
            ours = dump(meta)
            if self._records:
                ours = ours[:-1] + b', "records": [\n     ' + b",\n     ".join(self._records) + b"\n    ]}"
            metadata = b'{\n    "rlm": ' + ours
            if self.hidden:
                metadata += b',\n    "jupyter": {"source_hidden": true}'
            if self.tags:
                metadata += b',\n    "tags": ' + json.dumps(self.tags).encode()
            code = self.kind == "code"
            count = json.dumps(self.execution_count).encode()
            self._encoded = b"".join(
                [
                    b'  {\n   "cell_type": "' + self.kind.encode() + b'",\n',
                    b'   "execution_count": ' + count + b",\n" if code else b"",
                    b'   "id": "' + self.id.encode() + b'",\n',
                    b'   "metadata": ' + metadata + b"\n   },\n",
                    b'   "outputs": ' + self._outputs + b",\n" if code else b"",
                    b'   "source": ' + self._source + b"\n  }",
                ]
            )
        return self._encoded

    def _lines(self, name: str, items: list[Any]) -> bytes:
        """Return a list as JSON with each item on a line of its own, as a diff wants it."""
        try:
            return _to_json(items)
        except ValueError:  # a lone surrogate, or NaN in an output
            self._escaped.append(name)
            return _to_json(escape(items))


def source_of(cell: dict[str, Any]) -> str:
    """Return the source of a cell that was read from a notebook, exactly as it was given to `NotebookCell`."""
    text = _join(cell["source"])
    return str(unescape(text)) if "source" in cell["metadata"]["rlm"].get("escaped", ()) else text


def outputs_of(cell: dict[str, Any]) -> list[Output]:
    """Return the outputs of a code cell that was read from a notebook, exactly as they were given to `NotebookCell`."""
    outputs = [joined(output) for output in cell["outputs"]]
    return list(unescape(outputs)) if "outputs" in cell["metadata"]["rlm"].get("escaped", ()) else outputs


def _to_json(items: list[Any]) -> bytes:
    if not items:
        return b"[]"
    # the separator puts items on lines of their own at the speed of the C encoder, which `indent` has not
    text = json.dumps(items, ensure_ascii=False, allow_nan=False, separators=(",\n    ", ": "))
    return f"[\n    {text[1:-1]}\n   ]".encode()


def _is_json(mime: str) -> bool:
    return mime == "application/json" or (mime.startswith("application/") and mime.endswith("+json"))


def _split(output: Output) -> Output:
    """Return texts as lists of lines, as nbformat writes them."""
    if output["output_type"] == "stream":
        return {**output, "text": _split_text(output["text"])}
    if "data" not in output:
        return output
    return {**output, "data": {m: v if _is_json(m) else _split_text(v) for m, v in output["data"].items()}}


def joined(output: Output) -> Output:
    """Return an output of a notebook's file with its texts whole, where they are lists of lines."""
    if output["output_type"] == "stream":
        return {**output, "text": _join(output["text"])}
    if "data" not in output:
        return output
    return {**output, "data": {m: v if _is_json(m) else _join(v) for m, v in output["data"].items()}}


def _split_text(text: Any) -> Any:
    return text.splitlines(keepends=True) if isinstance(text, str) else text


def _join(lines: Any) -> Any:
    return "".join(lines) if isinstance(lines, list) else lines
