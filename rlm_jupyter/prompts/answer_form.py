"""`form`: a JSON schema as a model reads it best: a few lines of the shape itself, with what a value has to be.

{
"vendor": str,  # as on the letterhead
"total": float (> 0),
"lines": [{"name": str, "amount": float}],
"paid": bool or None,  # optional
}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_NAMES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict"}
_BOUNDS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "matching {}",
    "format": "{}",
}
_LINE_CHARS = 90
"""A form that is longer has a line for each of its keys."""
_MOST_DEPTH = 6
_MOST_CHOICES = 40
_COMMENT_CHARS = 200
_ANY = "any value"


def form(schema: Mapping[str, Any] | bool) -> str:
    """Return the shape that values of a schema have.

    Parameters
    ----------
    schema
        A JSON schema (draft 2020-12), as pydantic makes them: references into its own `$defs` are followed.
    """
    defs = {} if isinstance(schema, bool) else {**schema.get("definitions", {}), **schema.get("$defs", {})}
    return _form(schema, defs, 0, "")


def _form(schema: Any, defs: Mapping[str, Any], depth: int, indent: str) -> str:
    if not isinstance(schema, Mapping) or not schema or depth > _MOST_DEPTH:
        return _ANY
    if isinstance(reference := schema.get("$ref"), str):
        return _form(defs.get(reference.rpartition("/")[2], {}), defs, depth + 1, indent)
    if len(schema.get("allOf", ())) == 1:
        return _form(schema["allOf"][0], defs, depth, indent)
    return _one_of(schema, defs, depth, indent) or _by_type(schema, defs, depth, indent)


def _one_of(schema: Mapping[str, Any], defs: Mapping[str, Any], depth: int, indent: str) -> str:
    """Return the choices that a schema gives; empty where it gives none."""
    choices = [_literal(value) for value in schema.get("enum", [schema["const"]] if "const" in schema else ())]
    several: Any = schema.get("anyOf") or schema.get("oneOf") or ()
    if isinstance(kinds := schema.get("type"), list):
        several = [{**schema, "type": kind} for kind in kinds]
    choices = choices or [_form(part, defs, depth + 1, indent) for part in several]
    unique = list(dict.fromkeys(choices))
    more = [f"{len(unique) - _MOST_CHOICES:,} more"] if len(unique) > _MOST_CHOICES else []
    return " or ".join(unique[:_MOST_CHOICES] + more)


def _by_type(schema: Mapping[str, Any], defs: Mapping[str, Any], depth: int, indent: str) -> str:
    kind = schema.get("type")
    if kind == "array" or "prefixItems" in schema:
        return _array(schema, defs, depth, indent)
    if kind == "object" or "properties" in schema:
        return _object(schema, defs, depth, indent)
    return _NAMES.get(str(kind), _ANY) + _bounds(schema)


def _array(schema: Mapping[str, Any], defs: Mapping[str, Any], depth: int, indent: str) -> str:
    if first := schema.get("prefixItems"):
        return f"[{', '.join(_form(item, defs, depth + 1, indent) for item in first)}]"
    return f"[{_form(schema.get('items', {}), defs, depth + 1, indent)}, ...]" + _bounds(schema)


def _object(schema: Mapping[str, Any], defs: Mapping[str, Any], depth: int, indent: str) -> str:
    properties = schema.get("properties")
    if not properties:
        values = schema.get("additionalProperties")
        of = f"{{str: {_form(values, defs, depth + 1, indent)}, ...}}" if isinstance(values, Mapping) else "dict"
        return of + _bounds(schema)
    inner = f"{indent}  "
    required = schema.get("required", ())
    entries = []
    for name, part in properties.items():
        about = str(part.get("description", "")) if isinstance(part, Mapping) else ""
        comment = "; ".join(
            filter(None, [" ".join(about.split())[:_COMMENT_CHARS], "" if name in required else "optional"])
        )
        entries.append((f"{json.dumps(name, ensure_ascii=False)}: {_form(part, defs, depth + 1, inner)}", comment))
    line = "{" + ", ".join(entry for entry, _ in entries) + "}"
    if len(line) <= _LINE_CHARS and "\n" not in line and not any(comment for _, comment in entries):
        return line
    rows = [f"{inner}{entry},{f'  # {comment}' if comment else ''}" for entry, comment in entries]
    return "\n".join(["{", *rows, f"{indent}}}"])


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _bounds(schema: Mapping[str, Any]) -> str:
    said = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
    return f" ({', '.join(said)})" if said else ""
