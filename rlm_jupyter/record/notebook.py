"""The notebook of a run, read back into the records it was made of (`notebook_writer` writes it).

Prose is Markdown, blocks are code cells with their outputs, what the run told the model is quoted. A
record stands whole in the `metadata.rlm` of the cell it belongs to (or of the notebook), under `records`,
with its place (`at`) among all; only what the cell itself shows is left out there: a reply's text, a
cell's source and outputs. Joining each cell of a reply with its `segment` gives the reply byte for byte.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.encoding import decode, unescaped
from rlm_jupyter.record.notebook_cell import outputs_of, source_of
from rlm_jupyter.record.notebook_layout import SCHEMA
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, RunStarted
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import PackedContext


def read(path: str | Path, objects: Objects | None = None, prompt: int = 1) -> list[Record]:
    """Return the records that a run's notebook was made of, in order.

    Cells that are not ours are passed over, and so are copies of cells; a cell that was edited counts as
    it is now.

    Parameters
    ----------
    path
        The `.ipynb`.
    objects
        Where large outputs are; those of `NAME.rlm` beside the notebook, when left out. An output that
        is not there is as short as the notebook shows it.
    prompt
        Which of the prompts that stand in the notebook.

    Raises
    ------
    RecordError
        It can't be read, is not the notebook of a run, or a newer version wrote it (named).
    """
    path = Path(path)
    content = _load(path)
    ours = _of_prompt(content["metadata"]["rlm"], prompt, path)
    objects = objects or Objects.of_run(path.with_suffix(".rlm"))
    version = str(ours.get("version", ""))
    cells = [cell for cell in content["cells"] if cell["metadata"].get("rlm", {"prompt": 0}).get("prompt", 1) == prompt]
    replies = _replies(cells)
    records: dict[int, Record] = {}
    try:
        for cell, data in _records(ours, cells):
            at = data.pop("at")
            if at not in records:
                records[at] = decode(_filled(data, cell, replies), objects, version=version)
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{path}: metadata.rlm is damaged ({quoted(error)}).") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    return [records[at] for at in sorted(records)]


def read_started(path: str | Path, prompt: int = 1) -> RunStarted:
    """Return the first record of a run, from its notebook; `prompt` as for `read`.

    Raises
    ------
    RecordError
        As `read`.
    """
    record = read(path, prompt=prompt)[0]
    if not isinstance(record, RunStarted):
        raise RecordError(f"{path}: the record does not begin with RunStarted.")
    return record


def read_context(path: str | Path, prompt: int = 1) -> PackedContext | None:
    """Return the context that stands in the notebook itself; `None` when it was not small enough for that.

    Parameters
    ----------
    prompt
        As for `read`.

    Raises
    ------
    RecordError
        As `read`.
    """
    context = unescaped(_of_prompt(_load(Path(path))["metadata"]["rlm"], prompt, path)).get("context")
    if context is None:
        return None
    if "text" in context:
        buffers: tuple[bytes, ...] = (context["text"].encode("utf-8", "surrogatepass"),)
    elif "gzip" in context:  # of an exported run: a large one
        try:
            buffers = tuple(gzip.decompress(base64.b64decode(buffer)) for buffer in context["gzip"])
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise RecordError(f"{path}: metadata.rlm.context is damaged ({error}).") from error
    else:
        buffers = tuple(base64.b64decode(buffer) for buffer in context["base64"])
    return PackedContext(context["kind"], buffers, read_started(path, prompt).context)


def is_run(path: str | Path, prompt: int = 1) -> bool:
    """Return whether a file is the notebook of a run, and has this prompt."""
    return prompt in run_ids(path)


def run_id(path: str | Path) -> str:
    """Return the id of the run whose notebook this is; an empty text where it is none."""
    return run_ids(path).get(1, "")


def run_ids(path: str | Path) -> dict[int, str]:
    """Return the ids of the runs that stand in a notebook, by which of its prompts they answer."""
    try:
        ours = _load(Path(path))["metadata"]["rlm"]
        entries = [{"prompt": 1, **ours}, *ours.get("prompts", ())]
        return {int(one["prompt"]): str(one["run_id"]) for one in entries if one["run_id"]}
    except (RecordError, KeyError, TypeError, ValueError):
        return {}


def _of_prompt(ours: dict[str, Any], prompt: int, path: str | Path) -> dict[str, Any]:
    """Return what the notebook's metadata has of one of its prompts."""
    if prompt == 1:
        return ours
    for one in ours.get("prompts", ()):
        if one.get("prompt") == prompt:
            return dict(one)
    raise RecordError(f"{path} has no prompt {prompt}.")


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RecordError(f"There is no {path}.") from None
    except OSError as error:
        raise RecordError(f"{path} can't be read: {error.strerror}.") from error
    except ValueError as error:
        raise RecordError(f"{path} is not a notebook: {error}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise RecordError(f"{path} is not a notebook.")
    ours = content["metadata"].get("rlm")
    if not isinstance(ours, dict) or "schema" not in ours or not isinstance(content.get("cells"), list):
        raise RecordError(f"{path} is a notebook, but not the notebook of a run.")
    if ours["schema"] != SCHEMA:
        raise RecordError(
            f"{path} was written by rlm_jupyter {ours.get('version') or '(unknown)'} (schema {ours['schema']}); "
            f"this one reads schema {SCHEMA}. Upgrade to read it."
        )
    return content


def _records(ours: dict[str, Any], cells: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each record's data, with the cell that it is attached to (the notebook's own: an empty one)."""
    for data in ours["records"]:
        yield {}, unescaped(data)
    for cell in cells:
        for data in cell["metadata"]["rlm"].get("records", ()):
            yield cell, dict(unescaped(data))


def _filled(data: dict[str, Any], cell: dict[str, Any], replies: dict[int, str]) -> dict[str, Any]:
    """Return a record's data with what its cell shows put back."""
    if data["record"] == "ReplyReceived" and "text" not in data:
        return data | {"text": replies[data.pop("reply")] + data.pop("rest", "")}
    if data["record"] == "CellFinished":
        shown = {"outputs": outputs_of(cell), "execution_count": cell["execution_count"]}
        return {"source": source_of(cell)} | data | shown
    return data


def _replies(cells: list[dict[str, Any]]) -> dict[int, str]:
    """Return the texts of the replies, each from its cells."""
    parts: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for cell in cells:
        if "segment" in (ours := unescaped(cell["metadata"]["rlm"])):
            segment = ours["segment"]
            text = segment["text"] if "text" in segment else source_of(cell)
            parts[segment["reply"]].setdefault(segment["part"], segment["prefix"] + text + segment["suffix"])
    return {reply: "".join(texts[number] for number in sorted(texts)) for reply, texts in parts.items()}
