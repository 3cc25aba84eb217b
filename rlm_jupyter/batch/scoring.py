"""`Scoring`: how good the answers of a batch are, where it is known what they should be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.batch.judge import Judge
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

Score = str | Callable[[Any, Any], float] | Judge
Expected = str | Callable[[Mapping[str, Any]], Any]
Z_95 = 1.959964
"""Of the normal distribution, for 95 %."""
_CLOSE = 1e-6


def wilson(right: float, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson's score interval)."""
    if not total:
        return 0.0, 1.0
    share, squared = right / total, Z_95 * Z_95 / total
    middle = (share + squared / 2) / (1 + squared)
    half = Z_95 / (1 + squared) * math.sqrt(share * (1 - share) / total + squared / 4 / total)
    return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The mean score of all items that have a row; one without an answer has 0."""

    share: float
    total: int
    low: float
    high: float
    """The 95 % interval of the share: Wilson's."""

    @classmethod
    def of(cls, scores: Iterable[float]) -> Accuracy:
        """Return it for these scores."""
        scores = list(scores)
        right = math.fsum(scores)
        return cls(right / len(scores) if scores else 0.0, len(scores), *wilson(right, len(scores)))

    def __str__(self) -> str:
        return f"accuracy {self.share:.1%} of {self.total:,} (95 % interval {self.low:.1%} to {self.high:.1%})"


class Scoring:
    """Compares answers with what is expected.

    Parameters
    ----------
    expected, score
        As for `RLM.batch`.

    Raises
    ------
    ConfigurationError
        There is no such way to compare.
    """

    def __init__(self, expected: Expected, score: Score = "exact") -> None:
        if isinstance(score, str) and score not in _COMPARED:
            raise ConfigurationError(
                f"score is {', '.join(_COMPARED)}, a Judge(model), or a function (answer, expected) -> float, not "
                f"{quoted(score)}.",
                command=f"--score is {', '.join(_COMPARED)} or judge, not {quoted(score)}.",
            )
        if not isinstance(expected, str) and not callable(expected):
            raise ConfigurationError(f"expected is a column or a function of the row, not {quoted(expected)}.")
        self._expected = expected
        self.judge = score if isinstance(score, Judge) else None
        """Who gives the scores, where that is a model."""
        self._score = score
        self._compare = _COMPARED[score] if isinstance(score, str) else score

    @property
    def measure(self) -> str:
        """What scores are by: those by two measures are not to be compared."""
        if isinstance(self._score, str):
            return self._score
        return self.judge.name if self.judge is not None else getattr(self._score, "__name__", "a function")

    @property
    def columns(self) -> Sequence[str]:
        """The column that it needs, if it needs one."""
        return [self._expected] if isinstance(self._expected, str) else []

    def wanted(self, row: Mapping[str, Any]) -> Any:
        """Return the answer that is expected for a row."""
        return row.get(self._expected) if isinstance(self._expected, str) else self._expected(row)

    def score(self, answer: Any, row: Mapping[str, Any]) -> float:
        """Return the score of an answer, from 0 to 1.

        Raises
        ------
        ConfigurationError
            The user's function fails, or gives something else.
        """
        if isinstance(self._compare, Judge):
            raise TypeError("a judge gives scores by `Judging`")
        score = float(self._compare(answer, self.wanted(row)))
        if not 0 <= score <= 1:
            raise ConfigurationError(f"A score is from 0 to 1, not {quoted(score)}.")
        return score


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return " ".join(text.split()).casefold().strip(" .\"'")


def _exact(answer: Any, expected: Any) -> float:
    return float(_plain(answer) == _plain(expected))


def _number_of(value: Any) -> float | None:
    try:
        return float(str(value).strip(" .%$€").replace(",", ""))
    except ValueError:
        return None


def _number(answer: Any, expected: Any) -> float:
    one, other = _number_of(answer), _number_of(expected)
    return float(one is not None and other is not None and math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE))


def _set_of(value: Any) -> set[str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = value.split(",")
    return {_plain(one) for one in (value if isinstance(value, Iterable) and not isinstance(value, str) else [value])}


def _set(answer: Any, expected: Any) -> float:
    return float(_set_of(answer) == _set_of(expected))


_COMPARED: dict[str, Callable[[Any, Any], float]] = {"exact": _exact, "number": _number, "set": _set}
