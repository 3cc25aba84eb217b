"""`BatchTable`: how far a batch is, in a notebook: a headline, and the rows that came last."""

from __future__ import annotations

import html
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rlm_jupyter.batch.outcome import BatchProgress
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.frontends.display.sanitize import clean_html, plain
from rlm_jupyter.types.shortened import shortened

_REST_SECONDS = 0.5
_ROWS = 12
_CHARS = 160

Publish = Callable[..., Any]


class BatchTable:
    """A display that is updated in place while a batch goes on.

    Parameters
    ----------
    publish
        Of the shell's display publisher.
    """

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._id = f"rlm-batch-{secrets.token_hex(4)}"
        self._rows: deque[ResultRow] = deque(maxlen=_ROWS)
        self._drawn_at: float | None = None

    def __call__(self, progress: BatchProgress) -> None:
        """Show how far it is; twice a second at most, and in the end."""
        if progress.last is not None and (not self._rows or self._rows[0] is not progress.last):
            self._rows.appendleft(progress.last)
        now = time.monotonic()
        if progress.running and self._drawn_at is not None and now - self._drawn_at < _REST_SECONDS:
            return
        headline = _headline(progress)
        self._publish(
            {"text/html": clean_html(plain(_table(headline, self._rows))), "text/plain": headline},
            transient={"display_id": self._id},
            update=self._drawn_at is not None,
        )
        self._drawn_at = now


def _headline(progress: BatchProgress) -> str:
    facts = [f"{progress.done:,} of {progress.total:,} done"]
    facts += [f"{progress.running:,} running"] if progress.running else []
    facts += [f"{progress.failed:,} failed"] if progress.failed else []
    facts += [f"{progress.tokens:,} tokens", *([f"${progress.cost:.4f}"] if progress.cost else [])]
    return " · ".join(facts)


def _table(headline: str, rows: deque[ResultRow]) -> str:
    # models and documents wrote what stands in the cells
    head = "".join(f"<th>{name}</th>" for name in ("key", "answer", "tokens", "cost", "seconds", "notebook"))
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(row))}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>" if rows else ""
    return f"<p>{html.escape(headline)}</p>{table}"


def _cells(row: ResultRow) -> list[str]:
    said = str(row.answer) if row.error is None else f"({row.error})"
    cost = "" if row.cost is None else f"${row.cost:.4f}"
    texts = [row.key, said, f"{row.tokens:,}", cost, f"{row.seconds:.1f}", row.path or ""]
    return [shortened(text, _CHARS) for text in texts]
