"""JSON schemas: formats that types of Python stand for are checked."""

from __future__ import annotations

import pytest

from rlm_jupyter.types.json_schema import JsonSchema


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("date", "2031-02-03", "soon"),
        ("date-time", "2031-02-03T04:05:06Z", "2031-02-03 soon"),
        ("time", "04:05:06.5", "25:00"),
        ("uuid", "00000000-0000-4000-8000-000000000000", "1"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
    ],
)
def test_a_text_must_have_its_format(name: str, right: str, wrong: str) -> None:
    schema = JsonSchema({"type": "object", "properties": {"at": {"format": name}}})
    assert schema.errors({"at": right}) == schema.errors({"at": 3}) == []
    [(place, said)] = schema.errors({"at": wrong})
    assert (place, name in said) == ("at", True)


def test_a_format_that_is_not_known_says_nothing() -> None:
    assert JsonSchema({"format": "colour"}).errors("red") == []
