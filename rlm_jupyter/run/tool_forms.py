"""What a tool takes and gives, as the model reads it: types as code writes them, and the fields of classes."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from rlm_jupyter.types.json_form import form
from rlm_jupyter.types.type_adapter import adapted

_MOST_CHARS = 2_000
"""Of the form of one parameter."""


def bare(annotation: Any) -> Any:
    """Return an annotation without what `Annotated` adds for others to read."""
    if not any(_is_annotated(one) for one in _parts(annotation)):
        return annotation
    held = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(held)["it"]


def resolved(function: Callable[..., Any], annotation: Any) -> Any:
    """Return what an annotation stands for that is a text, such as `from __future__ import annotations` leaves."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(getattr(inspect.unwrap(function), "__globals__", {})))
    except Exception:  # noqa: BLE001  code of the user's
        return annotation


def form_of(annotation: Any) -> str:
    """Return the fields of the classes that an annotation names, and what `Annotated` says; empty where it has none."""
    parts = [*_parts(annotation)]
    if not any(_is_annotated(one) or _has_fields(one) for one in parts):
        return ""
    try:
        schema = adapted(annotation)[1]
    except TypeError:  # there is no form for it: its name alone is shown
        return ""
    about = "" if any(map(_has_fields, parts)) else str(schema.get("description", ""))
    text = form(schema) + (f"  # {' '.join(about.split())}" if about else "")
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from _parts(part)


def _is_annotated(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Annotated


def _has_fields(annotation: Any) -> bool:
    if not isinstance(annotation, type):
        return False
    is_class = dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation)
    return is_class or issubclass(annotation, enum.Enum) or hasattr(annotation, "model_fields") or _is_named(annotation)


def _is_named(annotation: type) -> bool:
    return issubclass(annotation, tuple) and hasattr(annotation, "_fields")
