"""`Listener`: hears a reply arrive, hands its text on, and puts its deadline off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Listener:
    """What has arrived of a reply, and how long the next of it may take.

    Parameters
    ----------
    first_seconds, idle_seconds
        Of silence that end the request, until its text begins and from then on.
    on_text
        Gets the visible text, piece by piece.
    until
        Gets it too; `True`: the rest need not come.
    """

    def __init__(
        self,
        first_seconds: float,
        idle_seconds: float,
        on_text: Callable[[str], None] | None,
        until: Callable[[str], bool] | None = None,
    ) -> None:
        self.patience = first_seconds
        """Seconds of silence that end the request now."""
        self.deadline = asyncio.timeout(first_seconds)
        self.started = False
        """The server has begun to stream."""
        self.heard = False
        """Visible text has arrived."""
        self.over = False
        """Nobody wants to hear the rest."""
        self.failure: Exception | None = None
        """What `on_text` or `until` raised: no fault of the server's."""
        self._idle_seconds, self._on_text, self._until = idle_seconds, on_text, until

    def __call__(self, text: str = "") -> bool:
        """Hear that something arrived; `text` is what is visible of it. Return whether the rest need not come."""
        self.started = True
        if text:
            self.heard = True
        self.patience = self._idle_seconds if self.heard else self.patience
        self.deadline.reschedule(asyncio.get_running_loop().time() + self.patience)
        if text:
            try:
                if self._on_text is not None:
                    self._on_text(text)
                self.over = self.over or (self._until is not None and self._until(text))
            except Exception as error:
                self.failure = error
                raise
        return self.over
