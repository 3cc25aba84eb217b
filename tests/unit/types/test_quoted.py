"""What a message shows of a value."""

from __future__ import annotations

import time

import pytest

from rlm_jupyter import Limits
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted


class Long:
    def __repr__(self) -> str:
        return "Long(\n" + "x" * 1_000_000


class Broken:
    def __repr__(self) -> str:
        raise ValueError("broken")


@pytest.mark.parametrize(
    "value",
    [
        "word " * 1_000_000,
        b"x" * 1_000_000,
        [["x" * 1_000] * 1_000] * 1_000,
        {"k" * 9_999: "v" * 9_999},
        Long(),
        Broken(),
        10**100_000,
        "a\nb\u2028c",
        "\ud800" * 1_000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_is_one_short_line_at_once(value: object) -> None:
    began = time.process_time()
    text = quoted(value)
    assert time.process_time() - began < 1
    assert 0 < len(text) <= 121
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("value", ["openai/gpt-5", "it's", "", 3, -1.5, None, True, ["a", 1], {"a": 1}])
def test_a_short_value_is_shown_whole(value: object) -> None:
    assert quoted(value) == repr(value)


def test_a_document_in_the_wrong_place_is_not_quoted_whole() -> None:
    document = "a long document " * 10_000
    routing = Routing(ScriptedModel([]))
    for wrong in (
        lambda: Limits(max_cost=document),  # type: ignore[arg-type]
        lambda: Routing(document),
        lambda: routing.model_for(1, document),
    ):
        with pytest.raises(Exception, match=r"a long document") as caught:
            wrong()
        assert len(str(caught.value)) < 1_000
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, ConfigurationError) or "not part of this run" in str(caught.value)
