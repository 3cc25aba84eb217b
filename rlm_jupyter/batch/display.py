"""Where a front end says how a batch is shown for which nobody has asked for anything else."""

from __future__ import annotations

from collections.abc import Callable

from rlm_jupyter.batch.outcome import OnProgress

_shows: list[Callable[[], OnProgress]] = []


def show_by(make: Callable[[], OnProgress]) -> None:
    """Show each batch by what this makes, from now on."""
    _shows[:] = [make]


def usual() -> OnProgress | None:
    """Return what shows a batch here; `None`: nothing does."""
    return _shows[0]() if _shows else None
