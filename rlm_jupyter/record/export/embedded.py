"""What an exported notebook carries in its metadata: a large context, and the runs that the run started."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.record.encoding import decode, dump, encode, load
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, RunStarted
from rlm_jupyter.types.values import PackedContext

LARGE = 65_536
"""Bytes above which something stands there compressed."""


def context_data(context: PackedContext) -> dict[str, Any] | None:
    """Return a context for `metadata.rlm.context`, of any size."""
    if context.kind == "none":
        return None
    buffers = [bytes(buffer) for buffer in context.buffers]
    if sum(map(len, buffers)) > LARGE:
        return {"kind": context.kind, "gzip": [_text(_compressed(buffer)) for buffer in buffers]}
    return {"kind": context.kind, "base64": [_text(buffer) for buffer in buffers]}


def child_data(records: Sequence[Record], context: PackedContext | None) -> dict[str, Any]:
    """Return a run that the run started, for `metadata.rlm.children`."""
    started = records[0]
    if not isinstance(started, RunStarted):
        raise RecordError("the record of a child does not begin with RunStarted")
    lines = b"".join(dump(encode(record)) + b"\n" for record in records)
    data: dict[str, Any] = {"run_id": started.run_id, "parent": started.parent, "version": started.version}
    if len(lines) > LARGE:
        data["records"] = {"gzip": _text(_compressed(lines))}
    else:
        data["records"] = [json.loads(line) for line in lines.splitlines()]
    if context is not None and (kept := context_data(context)) is not None:
        data["context"] = kept
    return data


def read_children(path: Path, prompt: int = 1) -> list[tuple[list[Record], PackedContext | None]]:
    """Return the records, and the contexts, of the runs that a notebook carries for one of its prompts.

    Raises
    ------
    RecordError
        The notebook can't be read, or this part of it is damaged.
    """
    try:
        ours = json.loads(path.read_bytes())["metadata"]["rlm"]
        entries = [ours, *(one for one in ours.get("prompts", ()) if one["prompt"] == prompt)]
        ours = entries[-1] if prompt > 1 else ours
        return [_child(data) for data in ours.get("children", ())]
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError, RecordError) as error:
        raise RecordError(f"{path}: metadata.rlm.children is damaged ({error}).") from error


def _child(data: dict[str, Any]) -> tuple[list[Record], PackedContext | None]:
    kept, version = data["records"], str(data["version"])
    if isinstance(kept, dict):
        lines = _decompressed(kept["gzip"]).split(b"\n")[:-1]
    else:
        lines = [json.dumps(record).encode() for record in kept]
    records = [decode(load(line), version=version) for line in lines]
    started = records[0]
    if not isinstance(started, RunStarted):
        raise RecordError("it does not begin with RunStarted")
    context = data.get("context")
    if context is None:
        return records, None
    plain = [base64.b64decode(buffer) for buffer in context.get("base64", ())]
    buffers = tuple(plain or [_decompressed(buffer) for buffer in context["gzip"]])
    return records, PackedContext(context["kind"], buffers, started.context)


def _compressed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)  # the same run gives the same file


def _decompressed(text: str) -> bytes:
    return gzip.decompress(base64.b64decode(text))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
