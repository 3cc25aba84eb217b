"""What stands in the fields of a server's reply, checked: a server may send anything."""

from __future__ import annotations

_NAME_CHARS = 200
_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
}


class MalformedReply(Exception):
    """What came is not what the protocol has there; the text says what it is."""


def told_text(value: object, what: str) -> str:
    """Return a text that a server has sent, empty where it sent none.

    Raises
    ------
    MalformedReply
        It is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReply(f"{what} is {kind_of(value)}, not text")
    return value


def told_name(value: object) -> str:
    """Return a model's name as a server has sent it: a line of bounded length, empty where it sent none."""
    return "".join(c for c in told_text(value, "the model's name") if c.isprintable())[:_NAME_CHARS]


def kind_of(value: object) -> str:
    """Name the type of a JSON value."""
    return _KINDS.get(type(value), "an object")
