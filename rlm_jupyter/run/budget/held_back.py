"""`HeldBack`: what a run holds back of the limits for its last reply: no sub-call can starve its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType


class HoldsBack(Protocol):
    """What keeps the room free (`ledger.Ledger`)."""

    def hold_back(self, held_back: HeldBack, tokens: int, cost: float) -> None:
        """Keep so much free of all other requests."""


class HeldBack:
    """The room that one run needs for its last reply; used with `with`, while the run goes on.

    Only the run's own requests may use it. Sub-calls and other runs of the tree see a limit that is so much lower.

    Parameters
    ----------
    ledger
        Of the tree.
    above
        That of the run that started this one.
    """

    def __init__(self, ledger: HoldsBack, above: HeldBack | None = None) -> None:
        self._ledger = ledger
        self._above = above
        self._own_seconds = 0.0
        self.tokens = 0
        """Held back: the input as it stands, with the outputs to come, and a short reply."""
        self.cost = 0.0
        """The same in US dollars."""

    def __enter__(self) -> HeldBack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.hold_back(self, 0, 0.0)

    @property
    def seconds(self) -> float:
        """Before the deadline at which cells and sub-calls end, so that this run and those above it can still reply."""
        return self._own_seconds + (0.0 if self._above is None else self._above.seconds)

    def hold(self, tokens: int, cost: float, seconds: float) -> None:
        """Hold so much back from now on; of a small limit no more than half of what others leave of it."""
        self._own_seconds = seconds
        self._ledger.hold_back(self, tokens, cost)
