"""A call as text: `search("climate", limit=3)`: how a kernel asks for it, and how it stands in the record.

Its arguments are JSON. Written and read by the two sides of a kernel's wire, one of which is not trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)\(")
_KEYWORD = re.compile(r"([^\W\d]\w*)=")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Call:
    """A call, read."""

    name: str
    positional: tuple[Any, ...]
    named: dict[str, Any]


def write(
    name: str, positional: Sequence[Any], named: Mapping[str, Any], plain: Callable[[Any], Any] | None = None
) -> str:
    """Return the call as text.

    Parameters
    ----------
    plain
        Turns what is no plain data into such; default: that is an error.

    Raises
    ------
    TypeError, ValueError
        An argument is no plain data, or holds itself.
    """

    def argument(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, default=plain)

    parts = [argument(value) for value in positional]
    parts += [f"{key}={argument(value)}" for key, value in named.items()]
    return f"{name}({', '.join(parts)})"


def read(text: str) -> Call:
    """Return the call that a text is.

    Raises
    ------
    ValueError
        It is none.
    """
    head = _NAME.match(text)
    if head is None:
        raise ValueError("it has no name")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    at = head.end()
    while not text.startswith(")", at):
        keyword = _KEYWORD.match(text, at)
        try:
            value, at = _DECODER.raw_decode(text, keyword.end() if keyword else at)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if keyword:
            named[keyword[1]] = value
        elif named:
            raise ValueError("an argument without a name stands after one with a name")
        else:
            positional.append(value)
        if text.startswith(", ", at):
            at += 2
        elif not text.startswith(")", at):
            raise ValueError("an argument does not end")
    if at + 1 != len(text):
        raise ValueError("there is more after its end")
    return Call(head[1], tuple(positional), named)
