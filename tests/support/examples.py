"""How much of what there is to try is tried: some in the ordinary suite, all of it with the long runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL = "RLM_ALL_EXAMPLES"
"""In the environment: `tests/conftest.py` sets it where the marker `soak` is selected."""
_PART = 6


def some(most: int) -> int:
    """`most` examples under `pytest -m soak`, else a sixth of them."""
    return most if ALL in os.environ else max(most // _PART, 10)


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """The cases of a test, for `parametrize`: each `every`-th is ordinary, the ones between are long runs (`-m soak`).

    For what is much alike and costs a kernel each time.
    """
    return [
        case
        if not place % every
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
        for place, case in enumerate(cases)
    ]
