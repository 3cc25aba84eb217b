"""`ResultRow`: what came of one item, as the file of results has it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.run.answer_type import AnswerError, AnswerType
from rlm_jupyter.run.result import Result
from rlm_jupyter.types.endings import why_ended
from rlm_jupyter.types.errors import PolicyError
from rlm_jupyter.types.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """What came of one item."""

    key: str
    """Names the item: its value in the column `key`, or a digest of what is asked."""
    row: int | None = None
    """Its place in what was given last, from 0; `None`: it was not among that."""
    answer: Any = None
    """As plain data where it is JSON-able, else as text."""
    draft: Any = None
    """What its run had in place of an answer, where there is an `error`: of whatever form, likewise."""
    stop_reason: str = "failed"
    tokens: int = 0
    cost: float | None = 0.0
    """US dollars; `None` where a price is not known."""
    seconds: float = 0.0
    path: str | None = None
    """Its run's notebook, from the folder of the results."""
    error: str | None = None
    """Why there is no answer; `None` where there is one."""
    score: float | None = None
    """What `expected` gives for the answer, where that was asked for."""
    score_reason: str | None = None
    """Of a judge's score: why it is that, or why there is none."""
    scored_by: str | None = None
    """Where scores were asked for, how: `exact`, `judge openai/gpt-5.4-mini`, the name of a function."""

    @classmethod
    def of(cls, key: str, result: Result, folder: Path, answer_type: AnswerType | None) -> Self:
        """Return the row of a run that has ended.

        Parameters
        ----------
        folder
            That of the results.
        answer_type
            What the answer was to be. A run that a limit has ended may have a draft of another form: that is an error.
        """
        ended = result.trajectory.ended
        answer = None if ended is None else ended.value if ended.is_json else ended.answer
        error = None
        if result.answer is None or result.stop_reason in {"failed", "answer_invalid"}:
            error = why_ended(result.stop_reason, result.message)
        elif answer_type is not None and ended is not None and result.stop_reason != "answered":
            try:
                answer = answer_type.check(Value(result.answer, ended.value, ended.is_json)).json
            except (AnswerError, PolicyError):  # of the latter kind: a validator of the user's has failed
                error = why_ended(result.stop_reason, result.message)  # which tells that
        return cls(
            key=key,
            answer=answer if error is None else None,
            draft=None if error is None else answer,
            stop_reason=result.stop_reason,
            tokens=result.usage.total_tokens,
            cost=result.cost,
            seconds=round(result.seconds, 3),
            path=None if result.path is None else result.path.relative_to(folder).as_posix(),
            error=error,
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return a row as it was written down."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})

    def as_dict(self) -> dict[str, Any]:
        """Return its columns; without a draft, a score, or what is told of one, where there is none."""
        data = asdict(self)
        for name in ("draft", "score", "score_reason", "scored_by"):
            if data[name] is None:
                del data[name]
        return data
