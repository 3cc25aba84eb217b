"""How many examples a property is tried with: a few in the ordinary suite, all of them with the long runs."""

from __future__ import annotations

import os

ALL = "RLM_ALL_EXAMPLES"
"""In the environment: `tests/conftest.py` sets it where the marker `soak` is selected."""
_PART = 4


def some(most: int) -> int:
    """`most` examples under `pytest -m soak`, else a quarter of them."""
    return most if ALL in os.environ else max(most // _PART, 10)
