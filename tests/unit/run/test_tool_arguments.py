"""What annotations make of a tool's arguments: each of its own, whatever the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_jupyter import Tool
from rlm_jupyter.run.tool import ToolFailedError
from rlm_jupyter.types.call_text import Call

if TYPE_CHECKING:
    from somewhere import Nothing  # type: ignore[import-not-found]


def many(a: int, b: Nothing, /, *c: float, d: list[int] = [], **e: bool) -> Nothing:  # noqa: B006
    return [a, b, c, d, e]


async def awaited(a: int, b: Nothing) -> Any:
    return [a, b]


class Called:
    def __call__(self, a: int, b: Nothing) -> Any:
        return [a, b]

    def method(self, a: int, b: Nothing) -> Any:
        return [a, b]


def malformed(a: int, b: "int |") -> Any:  # type: ignore[valid-type]  # noqa: F722
    return [a, b]


def only_the_result(a: int) -> Nothing:
    return a


@pytest.mark.parametrize(
    ("function", "positional", "named", "expected"),
    [
        (many, ("5", "x", "1.5"), {"d": ["2"], "more": "true"}, '[5, "x", [1.5], [2], {"more": true}]'),
        (awaited, ("5",), {"b": "x"}, '[5, "x"]'),
        (Called(), ("5", "x"), {}, '[5, "x"]'),
        (Called().method, ("5", "x"), {}, '[5, "x"]'),
        (malformed, ("5", "6"), {}, '[5, "6"]'),
        (only_the_result, ("5",), {}, "5"),
    ],
)
async def test_an_annotation_that_can_not_be_resolved_leaves_its_own_argument_alone(
    function: Any, positional: tuple[str, ...], named: dict[str, Any], expected: str
) -> None:
    tool = Tool(function, name="tool")
    assert await tool.call(Call("tool", positional, named)) == expected
    with pytest.raises(ToolFailedError, match=r"wrong arguments: a: .*valid integer"):
        await tool.call(Call("tool", ("five", *positional[1:]), named))
