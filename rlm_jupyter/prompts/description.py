"""`describe`: the size of a value, in the unit that fits, and its parts, for the first message to the model.

No library is imported for that: a value's own class tells which library it is of.
"""

from __future__ import annotations

import dataclasses
import numbers
import re
import reprlib
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from rlm_jupyter.parsing.file_signatures import identify
from rlm_jupyter.prompts.images import images_among, measured
from rlm_jupyter.prompts.structure import LEAST_ALIKE, SAMPLED, are_alike, keys_of, occurrences, structure
from rlm_jupyter.types.images import measure, pixels

Description = tuple[str, tuple[str, ...]]
"""The size, and a line for each part or property."""

_MOST_KEYS = 20
_MOST_COLUMNS = 50
_MOST_NAME_CHARS = 80
_MOST_ALIKE = 2_000
"""Dicts that are looked at, evenly among all, before they are described as one."""
_MOST_UNIFORM = 200
"""Values that are looked at where all are of one type and size; more are described one by one."""
_AS_ROWS = '`rows = [{"key": key, **value} for key, value in context.items()]`'
_MOST_BITS = 200
_ADDRESS = re.compile(r" at \w|0x[0-9a-f]")
"""What a class shows that shows nothing of its own; cut or not, it differs from run to run."""
_ONCE = "an iterator, which can be read only once"


def describe(value: object) -> Description:
    """Describe a value in bounded space; whatever its class does, that raises nothing."""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _of_bytes(value)
    try:
        return _of_object(value)
    except Exception:  # noqa: BLE001  a foreign class may raise anything, and the run can begin all the same
        return _class_of(value), ()


def size_of(value: object) -> str:
    """Return the size of a part of something, empty for a number and for what has none."""
    if isinstance(value, bytes | bytearray | memoryview) and (found := measure(value)) is not None:
        return measured(found)
    if isinstance(value, str | bytes | bytearray | memoryview):
        unit = "characters" if isinstance(value, str) else "bytes"
        return f"{len(value):,} {unit}"
    try:
        known = _of_library(value)
    except Exception:  # noqa: BLE001  as above
        known = None
    return _items(value) if known is None else known[0]


def _of_object(value: object) -> Description:
    if isinstance(value, list | tuple):
        return _of_items(value)
    if isinstance(value, dict):
        return _of_dict(value)
    known = _of_library(value)
    if known is not None:
        return known
    if isinstance(value, numbers.Number):
        return _of_number(value), ()
    if isinstance(value, Iterator):
        return _ONCE, ()
    size = _items(value)
    return (size, ()) if size else _of_unknown(value)


def _of_text(text: str) -> Description:
    # the plain class's methods: a subclass may mean something else by them
    lines = occurrences(text, "\n") + (str.__len__(text) > 0 and not str.endswith(text, "\n"))
    return f"{str.__len__(text):,} characters", (_count(lines, "line"), *structure(text))


def _of_bytes(data: bytes | bytearray | memoryview) -> Description:
    size = f"{memoryview(data).nbytes:,} bytes"
    if (found := measure(data)) is not None:
        size = f"{measured(found)}, {size}"
    if (binary := identify(data)) is None:
        return size, ()
    return size, (f"{binary.title}: {binary.code}" if binary.code else binary.title,)


def _of_items(items: list[Any] | tuple[Any, ...]) -> Description:
    if not items:
        return "0 items", ()
    kinds = Counter(map(type, items)).most_common(5)
    details = ["items: " + ", ".join(f"{kind.__name__}" + (f" ({n:,})" if len(kinds) > 1 else "") for kind, n in kinds)]
    if images := images_among(items):
        details.append(images)
    texts = [len(item) for item in items if isinstance(item, str)]
    if texts:
        first = f"first {len(items[0]):,}, " if isinstance(items[0], str) else ""
        details.append(f"characters: {sum(texts):,} in all; {first}smallest {min(texts):,}, largest {max(texts):,}")
    elif isinstance(items[0], dict):
        alike = [line.replace("value", "item", 1) for line in _alike(items)]
        details += alike or [f"keys of the first: {_names(items[0])}"]
    elif not images and (size := size_of(items[0])):
        details.append(f"the first: {size}")
    return _count(len(items), "item"), tuple(details)


def _of_dict(mapping: Mapping[Any, Any]) -> Description:
    images = images_among([*mapping.values()]) if len(mapping) > 1 else ""
    if alike := _alike(mapping.values()):
        parts: tuple[str, ...] = (f"{alike[0]}. {_AS_ROWS}", *alike[1:])
    else:
        parts = (uniform,) if (uniform := _uniform(mapping)) else _parts(mapping, "key")
    return _count(len(mapping), "key"), (*filter(None, [images]), *parts)


def _alike(values: Collection[Any]) -> tuple[str, ...]:
    """Describe many dicts that have the same keys, or mostly; nothing where they are few, something else, or differ."""
    step = -(-len(values) // _MOST_ALIKE)
    looked_at = [*islice(values, 0, None, step)] if values else []
    sample = [value for value in looked_at if isinstance(value, dict) and value]
    if len(sample) < max(len(looked_at), LEAST_ALIKE):
        return ()
    if not are_alike(sample):
        return ()
    return f"Each value is a dict with the keys {keys_of(sample)}", *((SAMPLED,) if step > 1 else ())


def _uniform(mapping: Mapping[Any, Any]) -> str:
    """Describe values that are all of one type and size; empty where they are few, many, differ, or are texts.

    Texts are documents more often than not, whose names say which is which.
    """
    kinds = {(type(value).__name__, size_of(value)) for value in islice(mapping.values(), _MOST_UNIFORM)}
    if not _MOST_KEYS < len(mapping) <= _MOST_UNIFORM or len(kinds) > 1:
        return ""
    [(kind, size)] = kinds
    if kind in {"str", "bytes"}:
        return ""
    names = ", ".join(map(_name, islice(mapping, 3)))
    return f"Each value is of type {kind}{f' and has {size}' if size else ''}; keys: {names}, …"


def _parts(mapping: Mapping[Any, Any], unit: str, name_of: Any = None) -> tuple[str, ...]:
    """Return a line for each value, as far as there is room."""
    details: list[str] = []
    for key, value in mapping.items():
        if len(details) == _MOST_KEYS:
            details.append(f"and {len(mapping) - _MOST_KEYS:,} more {unit}s")
            break
        size = size_of(value)
        details.append(f"{(name_of or _name)(key)}: {type(value).__name__}{', ' + size if size else ''}")
    return tuple(details)


def _of_library(value: Any) -> Description | None:
    """Describe a frame, a table, an image or an array; `None`: it is none of these."""
    kinds = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__}
    for names, describes in _LIBRARIES:
        if kinds & names:
            return describes(value)
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not hasattr(value, "dtype"):
        return None
    if not shape:
        return f"the value {_cut(str(value))}", (f"type: {value.dtype}",)
    return f"shape {tuple(shape)}", (f"items: {value.dtype}",)


def _of_lazy_frame(frame: Any) -> Description:
    schema = frame.collect_schema()
    size, details = _of_table((0, len(schema)), schema.items())
    return f"lazy, rows unknown before .collect(), {size.partition(', ')[2]}", details


def _of_image(image: Any) -> Description:
    width, height = image.size
    properties = (f"mode: {image.mode}", f"format: {image.format}" if image.format else "")
    return pixels(width, height), tuple(filter(None, properties))


def _of_pdf_pages(pages: Any) -> Description:
    size = pixels(*pages.size) if all(pages.size) else "of unknown size"
    details = f"Each page is an image that is rendered when it is asked for; the first: {size}. `page = context[0]`"
    return _count(len(pages), "page"), (details,)


_LIBRARIES: tuple[tuple[set[tuple[str, str]], Callable[[Any], Description]], ...] = (
    ({("pandas", "DataFrame")}, lambda frame: _of_table(frame.shape, frame.dtypes.items())),
    ({("polars", "DataFrame")}, lambda frame: _of_table(frame.shape, frame.schema.items())),
    ({("polars", "LazyFrame")}, _of_lazy_frame),
    (
        {("pyarrow", "Table"), ("pyarrow", "RecordBatch")},
        lambda table: _of_table(table.shape, ((item.name, item.type) for item in table.schema)),
    ),
    ({("PIL", "Image")}, _of_image),
    ({("rlm_jupyter", "PdfPages")}, _of_pdf_pages),
)
"""By library and class, whatever module of the library the class is in."""


def _of_table(shape: tuple[int, int], dtypes: Iterable[tuple[Any, Any]]) -> Description:
    rows, columns = shape
    details = [f"{_name(name)}: {dtype}" for (name, dtype), _ in zip(dtypes, range(_MOST_COLUMNS), strict=False)]
    if columns > _MOST_COLUMNS:
        details.append(f"and {columns - _MOST_COLUMNS:,} more columns")
    return f"{_count(rows, 'row')}, {_count(columns, 'column')}", tuple(details)


def _of_number(number: object) -> str:
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        return f"an integer of {number.bit_length():,} bits"
    return f"the {'value' if isinstance(number, bool) else 'number'} {_cut(str(number))}"


def _of_unknown(value: object) -> Description:
    """Describe an object by its class, and by its attributes."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        brief = reprlib.Repr()
        brief.maxother = _MOST_NAME_CHARS
        shown = brief.repr(value)
        if "\n" not in shown and not _ADDRESS.search(shown):
            return shown, ()
    return _class_of(value), _parts(_attributes(value), "attribute", str)


def _class_of(value: object) -> str:
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"


def _attributes(value: object) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    found: dict[str, Any] = getattr(value, "__dict__", {})
    return {name: item for name, item in found.items() if not name.startswith("_")}


def _items(value: object) -> str:
    """Return what `len` says; empty where it says nothing."""
    if not isinstance(value, Sized):
        return ""
    try:
        return _count(len(value), "item")
    except Exception:  # noqa: BLE001  it has a `__len__`, which refuses
        return ""


def _names(mapping: Mapping[Any, Any]) -> str:
    shown = [_name(key) for key, _ in zip(mapping, range(_MOST_KEYS), strict=False)]
    return ", ".join(shown) + (", …" if len(mapping) > _MOST_KEYS else "")


def _name(key: object) -> str:
    """Return a key or a column's name, on one line of bounded length."""
    return _cut(repr(key[:_MOST_NAME_CHARS] if isinstance(key, str) else key))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_NAME_CHARS else f"{text[: _MOST_NAME_CHARS - 1]}…"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
