"""Limits say at once what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_jupyter import Limits
from rlm_jupyter.types.errors import ConfigurationError


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"max_iterations": 0}, "more than zero"),
        ({"max_iterations": None}, "a number is needed"),
        ({"max_iterations": 2.5}, "whole number"),
        ({"max_cost": -1.0}, "more than zero"),
        ({"max_cost": float("nan")}, "a number is needed"),
        ({"max_seconds": "5"}, "a number is needed"),
        ({"max_tokens": True}, "a number is needed"),
        ({"max_depth": -1}, "zero or more"),
    ],
)
def test_a_wrong_limit_is_named(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as error:
        Limits(**values)
    assert next(iter(values)) in str(error.value)


def test_zero_and_none_are_allowed_where_they_mean_something() -> None:
    assert Limits(max_depth=0, max_subcalls=0, max_cost=None, cell_seconds=None).max_subcalls == 0


def test_each_depth_needs_a_kernel() -> None:
    with pytest.raises(ConfigurationError, match="allow at least 9"):
        Limits(max_depth=9)
    assert Limits(max_depth=9, max_kernels=9).max_kernels == 9
