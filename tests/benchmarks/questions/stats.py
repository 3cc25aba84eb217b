"""What a number of runs can carry: an interval for a share, and the chance that two configurations differ by luck."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from random import Random

_DRAWS = 4_000


def interval(scores: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean; percentiles of means of what was drawn with replacement."""
    if not scores:
        return 0.0, 0.0
    rng = Random(f"bootstrap {len(scores)}")
    means = sorted(sum(rng.choices(scores, k=len(scores))) / len(scores) for _ in range(_DRAWS))
    return means[int(_DRAWS * 0.025)], means[int(_DRAWS * 0.975)]


def mcnemar(one: Sequence[bool], other: Sequence[bool]) -> float:
    """Return the two-sided exact p of McNemar's test: how likely such a difference is where there is none."""
    only_one = sum(a and not b for a, b in zip(one, other, strict=True))
    only_other = sum(b and not a for a, b in zip(one, other, strict=True))
    unlike = only_one + only_other
    tail = sum(comb(unlike, k) for k in range(min(only_one, only_other) + 1))
    return min(1.0, 2 * tail / 2**unlike)
