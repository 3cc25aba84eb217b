r"""Records as JSON: what the journal and the notebook are written in.

A record is an object with its class's name under `record` and its fields. JSON can't hold all that a
Python value can; so, where (and only where) something does not fit, the object carries `"$escaped": true`
and in all of it

- a lone surrogate, which no JSON file in UTF-8 can hold, is six visible characters: `\ud800`;
- what already looked so begins with `\u005c` instead of the backslash, which makes it reversible;
- NaN and the infinities are `{"$float": "nan"}`, and keys that begin with `$` have a second one.

What is larger than `LARGE` is kept as an object of the run (`objects`), with a reference in its place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from rlm_jupyter.record import attachments
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.earlier_versions import RENAMED, with_kind
from rlm_jupyter.types import events
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import CellFinished, OutputsShown, Record, SubcallSettled
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.utf8 import utf8
from rlm_jupyter.types.values import Output

LARGE = 1_000_000
"""Characters of an output, or of a text in a record, above which it is kept apart."""
_NUMBERS = frozenset({int, float, bool, type(None)})
_SCALARS = _NUMBERS | {str}
_HEAD_CHARS = 2_000
"""Of an output that is kept apart: what is shown in its place."""
_CLASSES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(events.Record)}
_NAMES: dict[type[Any], tuple[str, ...]] = {}
_HINTS: dict[type[Any], dict[str, Any]] = {}
_OURS = frozenset({"$stored", "$value"})
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""Made once: `json.dumps` with options makes an encoder for each call."""
_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u(?=005c|d[89a-f][0-9a-f]{2})")
_ESCAPE = re.compile(r"\\u(005c|d[89a-f][0-9a-f]{2})")


def encode(record: Record, objects: Objects | None = None) -> dict[str, Any]:
    """Return a record as plain data, for `dump`.

    Parameters
    ----------
    objects
        Where what is large goes; without them it stays inline.

    Raises
    ------
    RecordError
        An object can't be written.
    """
    data: dict[str, Any] = {"record": type(record).__name__}
    for name in _names(type(record)):
        value = getattr(record, name)
        if name == "images":
            if value:  # few records have any
                data[name] = [attachments.described(image, objects) for image in value]
            continue
        if type(value) not in _SCALARS:
            value = _plain(value)
            # data that looks like a reference of ours is not one
            value = {"$value": value} if isinstance(value, dict) and _OURS & value.keys() else value
        data[name] = value
    if objects is not None:
        if isinstance(record, CellFinished):
            data["outputs"], stored = set_apart(record.outputs, objects)
            if stored:
                data["stored"] = stored
        if isinstance(record, SubcallSettled) and record.prompt is not None:
            # not to be read again with the record: whoever shows it looks it up
            objects.put(utf8(record.prompt), record.prompt_sha256)
            data["prompt"] = None
        elif not isinstance(record, CellFinished):
            for name, value in data.items():
                if type(value) not in _NUMBERS and _chars(value) > LARGE:
                    content = dump({"value": value})
                    data[name] = {"$stored": objects.put(content), "nbytes": len(content)}
    return data


def decode(data: Mapping[str, Any], objects: Objects | None = None, *, version: str = "") -> Record:
    """Return the record that `encode` made plain.

    Parameters
    ----------
    data
        As `load` returned it.
    objects
        Where large things are. An output that is missing there keeps its shortened form; any other text
        that is missing is an error, because a cut answer is no answer.
    version
        Of the package that wrote it, for messages.

    Raises
    ------
    RecordError
        The record, or a field of it, is not known here, or missing.
    """
    name = data.get("record")
    cls, renamed = RENAMED.get(str(name), (_CLASSES.get(str(name)), {}))
    if cls is None:
        raise RecordError(f"unknown record {quoted(name)}{_written_by(version)}")
    values = {renamed.get(key, key): value for key, value in data.items() if key not in {"record", "stored"}}
    for key, value in values.items():
        if isinstance(value, dict) and "$value" in value:
            values[key] = value["$value"]
        elif isinstance(value, dict) and "$stored" in value:
            if objects is None:
                raise RecordError(f"{quoted(key)} of {name} is in an object, {value['$stored']}, which is not here.")
            values[key] = load(objects.get(value["$stored"]))["value"]
    if "images" in values:
        # whoever shows a sub-call's looks them up; the conversation is made of the others
        kept = objects if cls is OutputsShown else None
        values["images"] = attachments.images(values["images"], kept)
    if "files" in values:
        values["files"] = attachments.files(values["files"])
    if stored := data.get("stored"):
        values["outputs"] = put_back(values["outputs"], stored, objects)
    record: Record = _build(cls, with_kind(values, cls), version)
    return record


def dump(data: Mapping[str, Any]) -> bytes:
    """Return one object as one line of JSON in UTF-8, escaped where that is needed (see the module)."""
    try:
        return _to_json(data)
    except ValueError:  # a lone surrogate (UnicodeEncodeError), NaN or an infinity
        return _to_json({"$escaped": True} | escape(data))


def load(line: bytes | str) -> dict[str, Any]:
    """Return what `dump` wrote.

    Raises
    ------
    ValueError
        It is not JSON, or no object.
    """
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("not an object")  # noqa: TRY004 — the content is wrong, not its Python type
    return unescaped(data)


def unescaped(data: dict[str, Any]) -> dict[str, Any]:
    """Return an object that was read as JSON, with its escapes undone where it is marked to have some."""
    if not data.get("$escaped"):
        return data
    restored: dict[str, Any] = unescape({key: value for key, value in data.items() if key != "$escaped"})
    return restored


def escape(value: Any) -> Any:
    """Return a value with all that JSON in UTF-8 can't hold escaped."""
    if isinstance(value, str):
        return _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}" if len(m[0]) == 1 else "\\u005cu", value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, dict):
        return {escape("$" + key if key.startswith("$") else key): escape(item) for key, item in value.items()}
    return [escape(item) for item in value] if isinstance(value, list | tuple) else value


def unescape(value: Any) -> Any:
    """Undo `escape`."""
    if isinstance(value, str):
        return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), value)
    if isinstance(value, dict):
        if value.keys() == {"$float"}:
            return float(value["$float"])
        return {unescape(key.removeprefix("$")): unescape(item) for key, item in value.items()}
    return [unescape(item) for item in value] if isinstance(value, list) else value


def set_apart(outputs: Sequence[Output], objects: Objects) -> tuple[list[Output], dict[str, dict[str, Any]]]:
    """Return the outputs with the large ones shortened, and by their place where the whole ones are."""
    shown, stored = list(outputs), dict[str, dict[str, Any]]()
    for index, output in enumerate(outputs):
        if _chars(output) > LARGE:
            content = dump(output)
            sha256 = objects.put(content)
            note = f"[shortened; all {len(content):,} bytes are in {objects.label(sha256)}]"
            shown[index] = _shortened(output, note)
            stored[str(index)] = {"sha256": sha256, "nbytes": len(content)}
    return shown, stored


def put_back(
    outputs: Sequence[Output], stored: Mapping[str, Mapping[str, Any]], objects: Objects | None
) -> list[Output]:
    """Undo `set_apart`; what is not there any more stays short, and names its file."""
    whole = list(outputs)
    for index, reference in ((int(index), reference) for index, reference in stored.items()):
        sha256 = reference["sha256"]
        # in a notebook that was executed again, another output may stand there now
        still_short = index < len(whole) and sha256 in json.dumps(whole[index])
        if objects is not None and still_short and objects.path(sha256).is_file():
            whole[index] = load(objects.get(sha256))
    return whole


def _to_json(data: Mapping[str, Any]) -> bytes:
    return _ENCODE(data).encode()


def _plain(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(type(value))}
    return list(value) if isinstance(value, tuple) else value


def _names(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a class's fields; `fields` finds them anew each time, which takes as long as all the rest."""
    if cls not in _NAMES:
        _NAMES[cls] = tuple(field.name for field in fields(cls))
    return _NAMES[cls]


def _hints(cls: type[Any]) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]


def _build(cls: type[Any], data: Mapping[str, Any], version: str) -> Any:
    known = {field.name: field for field in fields(cls)}
    if unknown := [name for name in data if name not in known]:
        raise RecordError(f"unknown field {quoted(unknown[0])} of {cls.__name__}{_written_by(version)}")
    hints = _hints(cls)
    values = {}
    for name, field in known.items():
        if name in data:
            hint, value = hints[name], data[name]
            if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
                value = _build(hint, value, version)
            values[name] = tuple(value) if get_origin(hint) is tuple and isinstance(value, list) else value
        elif field.default is MISSING and field.default_factory is MISSING:
            raise RecordError(f"the field {quoted(name)} of {cls.__name__} is missing{_written_by(version)}")
    return cls(**values)


def _written_by(version: str) -> str:
    from importlib.metadata import version as installed

    return f": written by rlm_jupyter {version or '(unknown)'}, this is {installed('rlm_jupyter')}. Upgrade to read it."


def _chars(value: Any) -> int:
    """Return how many characters of text a value holds: what its JSON has at least."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _chars(item) for key, item in value.items())
    return sum(map(_chars, value)) if isinstance(value, list | tuple) else 1


def _shortened(output: Output, note: str) -> Output:
    kind = output["output_type"]
    if kind == "stream":
        return {**output, "text": f"{_text(output['text'])[:_HEAD_CHARS]}\n{note}\n"}
    if kind == "error":
        heads = {name: _text(output[name])[:_HEAD_CHARS] for name in ("ename", "evalue")}
        return {**output, **heads, "traceback": [note]}
    head = _text(output["data"].get("text/plain", ""))[:_HEAD_CHARS]
    return {**output, "data": {"text/plain": f"{head}\n{note}"}, "metadata": {}}


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
