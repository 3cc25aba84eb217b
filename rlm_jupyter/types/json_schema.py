"""`JsonSchema`: checks data by a JSON schema. It fetches nothing, and its patterns come to an end."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, time
from functools import lru_cache, partial
from typing import Any

from rlm_jupyter.types.suggestion import closest

KEYWORDS = (
    'a JSON schema says what is wanted by keywords, as {"type": "object", "properties": {"name": {"type": "string"}}, '
    '"required": ["name"]}'
)
"""For who gave one that says nothing."""


class JsonSchema:
    """Checks data.

    Parameters
    ----------
    schema
        A JSON schema; what it refers to outside of itself is refused, not fetched.

    Raises
    ------
    ValueError
        It is none, or one that is nested too deeply; the text says why.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import extend, validator_for
        from referencing import Registry

        try:
            self.schema: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"no JSON ({error}): {KEYWORDS}") from None
        try:
            if not isinstance(self.schema.get("$schema", ""), str):
                raise TypeError("$schema is no text")
            kind = validator_for(self.schema)
            kind.check_schema(self.schema)
            # a registry that holds nothing fetches nothing
            self._validator: Any = extend(kind, {"pattern": _pattern})(
                self.schema, registry=Registry(), format_checker=_formats()
            )
        except SchemaError as error:
            raise ValueError(f"no JSON schema: {_innermost(error)}") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"no JSON schema: {error}") from None

    @property
    def says_nothing(self) -> bool:
        """Whether no keyword of it says what a value must be, so that any has this form."""
        return not self.schema.keys() & self._validator.VALIDATORS.keys()

    def check_references(self) -> None:
        """Refuse a schema that refers to what is not in it.

        Raises
        ------
        ValueError
            Names the reference.
        """
        parts = [*_subschemas(self.schema)]
        if any("$id" in part for place, part in parts if place):  # its references are relative to that
            return
        from referencing import Registry, Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012

        resource = Resource.from_contents(self.schema, default_specification=DRAFT202012)
        resolver = Registry().resolver_with_root(resource)
        for place, part in parts:
            at, followed = f"{place}: " if place else "", set[str]()
            while isinstance(reference := part.get("$ref"), str):
                if reference in followed:
                    raise ValueError(f'no JSON schema: {at}"{reference}" refers to itself alone')
                followed.add(reference)
                try:
                    found = resolver.lookup(reference).contents
                    part = found if isinstance(found, Mapping) else {}
                except Unresolvable:
                    meant = closest(reference, [f"#/{one.replace('.', '/')}" for one, _ in parts if one])
                    raise ValueError(
                        f'no JSON schema: {at}it refers to "{reference}", which is not in it'
                        f"{'' if meant is None else f' (did you mean {meant}?)'}"
                    ) from None

    def errors(self, data: Any) -> list[tuple[str, str]]:
        """Return where data has another form, as `lines[0].amount`, and how; in the order of the places.

        Raises
        ------
        ValueError
            The schema can't be applied: it refers to what is not in it, or to itself without end.
        """
        try:
            found = sorted(self._validator.iter_errors(data), key=lambda error: str(error.json_path))
        except Exception as error:  # noqa: BLE001  jsonschema has no class of its own for what a schema may refer to
            raise ValueError(f"the schema can't be applied: {type(error).__name__}: {error}") from None
        return [(_place(error), error.message) for error in found]

    def with_numbers(self, data: Any) -> Any:
        """Return data with numbers in the place of texts that are numbers, where it is a number that is wanted.

        A copy, which may have another form all the same.
        """
        data = json.loads(json.dumps(data))
        found = [*self._validator.iter_errors(data)]
        while found:
            error = found.pop()
            found += error.context or ()
            number = _number(error.instance) if error.validator == "type" else None
            path = [*error.absolute_path]
            if number is not None and path and self._validator.is_type(number, _first(error.validator_value)):
                value = data
                for part in path[:-1]:
                    value = value[part]
                value[path[-1]] = number
        return data


def _innermost(error: Any) -> str:
    """Return what an error says: where several ways were tried, of the one that led the furthest."""
    while error.context:
        error = max(error.context, key=lambda one: len(one.absolute_path))
    return ": ".join(filter(None, (_place(error), error.message)))


def _place(error: Any) -> str:
    """Return where an error is, as `lines[0].amount`; empty for the whole."""
    return str(error.json_path).removeprefix("$").removeprefix(".")


_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data, and no schemas."""


def _subschemas(schema: Any, place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a schema, itself first, by their places; among them some that are no schemas."""
    if isinstance(schema, Mapping):
        yield place, schema
        for name, part in schema.items():
            yield from _subschemas(part, f"{place}.{name}" if place else name) if name not in _DATA else ()
    elif isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from _subschemas(part, f"{place}[{number}]")


def _number(text: object) -> int | float | None:
    """Return the number that a text is in JSON."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found) else None


def _first(kinds: Any) -> str:
    """Return the kind of number among those that a schema takes; `null` where it takes none."""
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return next((kind for kind in ("number", "integer") if kind in kinds), "null")


def takes_none(schema: Mapping[str, Any] | None) -> bool:
    """Return whether a schema names null among what a value may be; one that says nothing of values does not."""
    if not schema or not schema.keys() - {"$schema", "title", "description"}:
        return False
    try:
        return not JsonSchema(schema).errors(None)
    except ValueError:
        return False


def _formats() -> Any:
    """Return what checks the formats that types of Python stand for; any other says nothing, as the standard has it."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=("date", "uuid", "ipv4", "ipv6"))
    for name, read in (("date-time", datetime.fromisoformat), ("time", time.fromisoformat)):
        checker.checks(name, raises=ValueError)(partial(_is_read, read))
    return checker


def _is_read(read: Callable[[str], object], data: object) -> bool:
    # of what is no text a format says nothing; the Z is for the older Python that a kernel may have
    return not isinstance(data, str) or read(data.replace("Z", "+00:00")) is not None


def _pattern(validator: Any, pattern: str, data: Any, schema: Any) -> Iterator[Any]:
    """Check a text: the keyword `pattern`, as jsonschema takes it."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(data, "string") and not _matcher(pattern)(data):
        yield ValidationError(f"{data!r} does not match {pattern!r}")


@lru_cache
def _matcher(pattern: str) -> Callable[[str], bool]:
    """Return what searches a text for a pattern: where it can, in a time that grows with the text alone.

    Python's own takes for ever over `^(a+)+$`, and holds up every thread meanwhile; but only it knows look-arounds.
    """
    try:
        from pydantic_core import SchemaError, SchemaValidator, core_schema
    except ImportError:  # in a kernel, where jsonschema is enough
        return lambda text: re.search(pattern, text) is not None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:
        return lambda text: re.search(pattern, text) is not None
