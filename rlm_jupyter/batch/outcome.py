"""`BatchResult`: what came of a batch; `BatchProgress`: how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_jupyter.batch.judging import JudgeBill
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.scoring import Accuracy


@dataclass
class BatchProgress:
    """How far a batch is; the same object is told again and again."""

    total: int
    done: int = 0
    """Items that have a row."""
    failed: int = 0
    """Those of them without an answer."""
    running: int = 0
    tokens: int = 0
    """Of the whole batch, with what was used before."""
    cost: float | None = 0.0
    """US dollars, likewise."""
    last: ResultRow | None = None
    """The row that came last."""


OnProgress = Callable[[BatchProgress], None]


@dataclass(frozen=True)
class BatchResult:
    """What came of a batch."""

    rows: list[ResultRow] = field(repr=False)
    """Of the items that have one, in their order."""
    path: Path
    """The file of results."""
    total: int
    """Items that were given."""
    tokens: int
    cost: float | None
    """US dollars that the whole batch has cost so far, earlier calls included; `None` where a price is not known."""
    stopped: str = ""
    """Why there are items without a row, in one line."""
    unsaved: str = ""
    """Why the file of results is not what it should be, in one line."""
    accuracy: Accuracy | None = None
    """With `expected`: how many answers are right."""
    judge: JudgeBill | None = None
    """With `score=Judge(…)`: what that took; it is a part of `tokens` and `cost`."""

    @property
    def failed(self) -> list[ResultRow]:
        """The rows without an answer."""
        return [row for row in self.rows if row.error is not None]

    def frame(self) -> Any:
        """Return the rows as a pandas frame."""
        import pandas as pd

        return pd.DataFrame([row.as_dict() for row in self.rows])

    def __str__(self) -> str:
        failed = len(self.failed)
        parts = [f"{len(self.rows) - failed:,} of {self.total:,} answered", f"{failed:,} failed" if failed else ""]
        missing = self.total - len(self.rows)
        parts += [f"{missing:,} to do ({self.stopped})" if missing else "", f"{self.tokens:,} tokens"]
        parts += [f"${self.cost:.4f}" if self.cost else "", "" if self.accuracy is None else str(self.accuracy)]
        if self.judge is not None:
            parts.append(f"{self.judge} ({self.stopped})" if self.stopped and not missing else str(self.judge))
        return " · ".join(filter(None, [*parts, self.unsaved]))
