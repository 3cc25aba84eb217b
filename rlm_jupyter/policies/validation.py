"""What policies check: their settings, and the numbers that a run hands to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, SupportsFloat

from rlm_jupyter.types.quoted import quoted


def number(value: object) -> float | None:
    """Return `value` as a finite number, `None` where it is none.

    A text such as `"0.9"` counts, since models state numbers as text; a truth value doesn't.
    """
    if isinstance(value, bool) or not isinstance(value, str | SupportsFloat):
        return None
    try:
        read = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def numbers(config: Mapping[str, Any], *names: str, finite: bool = False) -> list[str]:
    """Return which of these settings are no numbers, one line each. Infinity counts unless it must be `finite`."""
    return [
        f"{name}: a number is needed, not {quoted(config[name])}."
        for name in names
        if isinstance(config[name], bool)
        or not isinstance(config[name], int | float)
        or math.isnan(config[name])
        or (finite and math.isinf(config[name]))
    ]


def switches(config: Mapping[str, Any], *names: str) -> list[str]:
    """Return which of these settings are neither `True` nor `False`, one line each: the text `"false"` is true."""
    return [
        f"{name}: True or False is needed, not {quoted(config[name])}."
        for name in names
        if not isinstance(config[name], bool)
    ]
