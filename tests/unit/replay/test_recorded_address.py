"""Which run that goes on has to be given an address again."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_jupyter.replay.recorded_address import check_given
from rlm_jupyter.types.errors import ConfigurationError

ADDRESS = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("recorded", "given", "last", "is_refused"),
    [
        ({"base_url": ADDRESS}, {}, "openai/x", True),
        ({"base_url": ADDRESS}, {"model": "openai/y"}, "openai/x", True),
        ({"base_url": ADDRESS}, {"model": "anthropic/y"}, "openai/x", False),
        ({"base_url": ADDRESS}, {}, "anthropic/y", False),  # resumed with another provider before
        ({"base_url": ADDRESS}, {"model": "openai/x"}, "anthropic/y", True),
        ({"base_url": ADDRESS}, {"base_url": "http://127.0.0.1:8/v1"}, "openai/x", False),
        ({"base_url": ADDRESS}, {"model": object()}, "openai/x", False),
        ({}, {}, "openai/x", False),
    ],
)
def test_an_address_is_given_again_to_the_provider_that_had_it(
    recorded: Any, given: dict[str, Any], last: str, is_refused: bool
) -> None:
    if not is_refused:
        check_given(recorded, given, "openai/x", last)
        return
    with pytest.raises(ConfigurationError, match=rf"^openai/x was asked at {ADDRESS}: give that address again"):
        check_given(recorded, given, "openai/x", last)
