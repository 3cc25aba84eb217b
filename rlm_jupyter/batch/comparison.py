"""`compare`: which of two batches of the same items has the better answers, and whether that can be chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_jupyter.batch.rows import BadRow, read_rows
from rlm_jupyter.batch.scoring import Z_95, Accuracy
from rlm_jupyter.types.errors import ConfigurationError

_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
    """One item that both batches have a score of."""

    key: str
    answers: tuple[Any, Any]
    scores: tuple[float, float]

    @property
    def gain(self) -> float:
        """How much better the second score is."""
        return self.scores[1] - self.scores[0]


@dataclass(frozen=True)
class Comparison:
    """Two files of results, item by item."""

    names: tuple[str, str]
    pairs: list[Pair] = field(repr=False)
    """The items that both have, in the order of the first."""
    unpaired: int
    """Items that only one of the two has; they count for neither."""
    unscored: int = 0
    """Items that both have, and at least one no score of; likewise."""

    @property
    def accuracies(self) -> tuple[Accuracy, Accuracy]:
        """Of each, over the items that both have."""
        one, other = zip(*(pair.scores for pair in self.pairs), strict=True)
        return Accuracy.of(one), Accuracy.of(other)

    @property
    def better(self) -> tuple[list[Pair], list[Pair]]:
        """The items that the first has the better answer of, and those that the second has."""
        return [pair for pair in self.pairs if pair.gain < 0], [pair for pair in self.pairs if pair.gain > 0]

    @property
    def gain(self) -> float:
        """How much better the second is: the difference of the two accuracies."""
        return math.fsum(pair.gain for pair in self.pairs) / len(self.pairs)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of that (Bonett and Price 2012: with one more pair in favour of each)."""
        total = len(self.pairs) + 2
        summed = math.fsum(pair.gain for pair in self.pairs)
        squares = 2 + math.fsum(pair.gain**2 for pair in self.pairs)
        half = Z_95 * math.sqrt(max(squares - summed**2 / total, 0.0)) / total
        return max(summed / total - half, -1.0), min(summed / total + half, 1.0)

    @property
    def p(self) -> float:
        """How likely such a difference is by chance: the exact sign test, two-sided; McNemar's for scores 0 and 1."""
        first, second = map(len, self.better)
        unlike = first + second
        tail = sum(math.comb(unlike, k) for k in range(min(first, second) + 1))
        return float(min(1.0, 2 * tail / 2**unlike))

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{name:{width}}  {its}" for name, its in zip(self.names, self.accuracies, strict=True)]
        first, second = map(len, self.better)
        low, high = self.interval
        lines.append(
            f"difference {100 * self.gain:+.1f} points (95 % interval {100 * low:+.1f} to {100 * high:+.1f}): "
            f"{first:,} better in the first, {second:,} in the second, {len(self.pairs) - first - second:,} the same"
        )
        verdict = "chance could explain it" if self.p >= _CHANCE else "chance hardly explains it"
        lines.append(f"p = {self.p:.2g} (sign test): {verdict}")
        if self.unpaired:
            lines.append(f"left out, as in one of the two alone: {_items(self.unpaired)}")
        if self.unscored:
            lines.append(f"left out, as without a score in one of the two: {_items(self.unscored)}")
        return "\n".join(lines)


def compare(one: str | Path, other: str | Path) -> Comparison:
    """Compare two files of results that batches have written, item by item.

    Parameters
    ----------
    one, other
        Paths of `.jsonl`, `.csv` or `.parquet`, of batches with `expected`.

    Raises
    ------
    ConfigurationError
        One can't be read, has no scores, or others than by the same measure, or no item in common with the other.
    """
    first, second = _rows(Path(one)), _rows(Path(other))
    by, others_by = _measures(first), _measures(second)
    if by and others_by and by != others_by:
        raise ConfigurationError(
            f"{one} is scored by {by}, {other} by {others_by}: only scores by the same measure can be compared. Give "
            "one of the two batches again, with the other's."
        )
    both = [(key, row, second[key]) for key, row in first.items() if key in second]
    pairs = [
        Pair(key, (its.get("answer"), others.get("answer")), (float(its["score"]), float(others["score"])))
        for key, its, others in both
        if _has_score(its) and _has_score(others)
    ]
    if not both:
        text = (
            f"{one} and {other} have no item in common. Name items by a column ({{}}): otherwise they are named after "
            "all that was asked, and a batch with another prompt has other names."
        )
        raise ConfigurationError(text.format("key=…"), command=text.format("--key"))
    if not pairs:
        text = f"{one} and {other} have scores of none of the same items: give the same batches again with {{}}."
        raise ConfigurationError(text.format("retry='failed'"), command=text.format("--retry failed"))
    return Comparison((str(one), str(other)), pairs, len(first.keys() ^ second.keys()), len(both) - len(pairs))


def _rows(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the rows of results by their keys.

    Raises
    ------
    ConfigurationError
        None has a score.
    """
    rows = {str(row["key"]): row for row in read_rows(path) if not isinstance(row, BadRow) and "key" in row}
    if not any(map(_has_score, rows.values())):
        text = f"{path} has no scores: give the same batch again with {{}}, which asks no model again."
        raise ConfigurationError(text.format("expected=…"), command=text.format("--expected"))
    return rows


def _measures(rows: Mapping[str, Mapping[str, Any]]) -> str:
    return " and ".join(sorted({str(row["scored_by"]) for row in rows.values() if row.get("scored_by")}))


def _has_score(row: Mapping[str, Any]) -> bool:
    try:
        return 0 <= float(str(row.get("score"))) <= 1
    except ValueError:
        return False


def _items(number: int) -> str:
    return "1 item" if number == 1 else f"{number:,} items"
