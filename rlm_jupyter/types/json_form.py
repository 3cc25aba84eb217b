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
_MOST_PARTS = 2_000
"""Of a form; what is beyond it is any value. A schema that refers to itself in many places would have no end."""
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
    return _Form(schema).of(schema, 0, "")


class _Form:
    """Writes the form of one schema.

    Parameters
    ----------
    schema
        As for `form`.
    """

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        self._defs = {} if isinstance(schema, bool) else {**schema.get("definitions", {}), **schema.get("$defs", {})}
        self._left = _MOST_PARTS

    def of(self, schema: Any, depth: int, indent: str) -> str:
        """Return the form of a part."""
        self._left -= 1
        if not isinstance(schema, Mapping) or not schema or depth > _MOST_DEPTH or self._left < 0:
            return _ANY
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(self._defs.get(reference.rpartition("/")[2], {}), depth + 1, indent)
        if len(schema.get("allOf", ())) == 1:
            return self.of(schema["allOf"][0], depth + 1, indent)
        return self._one_of(schema, depth, indent) or self._by_type(schema, depth, indent)

    def _one_of(self, schema: Mapping[str, Any], depth: int, indent: str) -> str:
        """Return the choices that a schema gives; empty where it gives none."""
        choices = [_literal(value) for value in schema.get("enum", [schema["const"]] if "const" in schema else ())]
        several: Any = schema.get("anyOf") or schema.get("oneOf") or ()
        if isinstance(kinds := schema.get("type"), list):
            several = [{**schema, "type": kind} for kind in kinds]
        choices = choices or [self.of(part, depth + 1, indent) for part in several]
        unique = list(dict.fromkeys(choices))
        more = [f"{len(unique) - _MOST_CHOICES:,} more"] if len(unique) > _MOST_CHOICES else []
        return " or ".join(unique[:_MOST_CHOICES] + more)

    def _by_type(self, schema: Mapping[str, Any], depth: int, indent: str) -> str:
        kind = schema.get("type")
        if kind == "array" or "prefixItems" in schema:
            return self._array(schema, depth, indent)
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth, indent)
        return _NAMES.get(str(kind), _ANY) + _bounds(schema)

    def _array(self, schema: Mapping[str, Any], depth: int, indent: str) -> str:
        if first := schema.get("prefixItems"):
            return f"[{', '.join(self.of(item, depth + 1, indent) for item in first)}]"
        return f"[{self.of(schema.get('items', {}), depth + 1, indent)}, ...]" + _bounds(schema)

    def _object(self, schema: Mapping[str, Any], depth: int, indent: str) -> str:
        properties = schema.get("properties")
        if not properties:
            values = schema.get("additionalProperties")
            of = f"{{str: {self.of(values, depth + 1, indent)}, ...}}" if isinstance(values, Mapping) else "dict"
            return of + _bounds(schema)
        inner = f"{indent}  "
        # of draft 3 it is a flag
        required = names if isinstance(names := schema.get("required"), list) else ()
        entries = []
        for name, part in properties.items():
            about = str(part.get("description", "")) if isinstance(part, Mapping) else ""
            said = [" ".join(about.split())[:_COMMENT_CHARS], "" if name in required else "optional"]
            comment = "; ".join(filter(None, said))
            entries.append((f"{json.dumps(name, ensure_ascii=False)}: {self.of(part, depth + 1, inner)}", comment))
        line = "{" + ", ".join(entry for entry, _ in entries) + "}"
        if len(line) <= _LINE_CHARS and "\n" not in line and not any(comment for _, comment in entries):
            return line
        rows = [f"{inner}{entry},{f'  # {comment}' if comment else ''}" for entry, comment in entries]
        return "\n".join(["{", *rows, f"{indent}}}"])


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _bounds(schema: Mapping[str, Any]) -> str:
    said = [text.format(schema[name]) for name, text in _BOUNDS.items() if _is_bound(schema.get(name))]
    return f" ({', '.join(said)})" if said else ""


def _is_bound(value: Any) -> bool:
    return value is not None and not isinstance(value, bool)  # a flag, in draft 4
