"""`Speed`: how long the model lets people wait for a reply's first words, and how fast it writes the rest."""

from __future__ import annotations

import time
from collections.abc import Callable

from rlm_jupyter.types.events import (
    Event,
    OutputsShown,
    ReplyReceived,
    ReplyStreamed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunUnpaused,
)
from rlm_jupyter.types.tokens import estimate_tokens

_LOOK_SECONDS = 1.0
"""Between two looks at the speed: a figure that flickers can't be read."""


class Speed:
    """The reply that is waited for, or arrives.

    Parameters
    ----------
    clock
        Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: float | None = None
        self._begun: float | None = None
        self._pieces = 0
        self._tokens = 0
        self._looked = 0.0
        self.first: float | None = None
        """Seconds until its first words; `None`: there are none yet."""
        self.rate: float | None = None
        """Tokens a second; `None`: that is not known yet."""

    def apply(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case RunStarted() | RunResumed() | OutputsShown() | RunUnpaused():
                self._ask()
            case RunPaused():  # before it is asked
                self._asked = self.first = self.rate = None
            case ReplyReceived() if event.rejected:
                self._ask()  # it is resampled
            case ReplyStreamed(text=text):
                self._hear(text)
            case ReplyReceived():
                self._asked = self._begun = self.first = self.rate = None
            case _:
                pass

    @property
    def waiting(self) -> float | None:
        """Seconds for which its first words are waited for by now; `None`: nobody waits."""
        return None if self._asked is None or self.first is not None else self._clock() - self._asked

    @property
    def words(self) -> list[str]:
        """For people; empty where no reply is on its way."""
        if (waiting := self.waiting) is not None:
            return [f"waiting for its first words, {waiting:.0f} s"]
        first = [] if self.first is None else [f"first words after {self.first:.1f} s"]
        return first + ([] if self.rate is None else [f"{self.rate:.3g} tokens/s"])

    def _ask(self) -> None:
        self._asked, self._begun = self._clock(), None
        self.first = self.rate = None

    def _hear(self, text: str) -> None:
        now = self._clock()
        if self._begun is None:
            self._begun = self._looked = now
            self._pieces = self._tokens = 0
            self.first = None if self._asked is None else now - self._asked
            return  # when it began to write the first piece nobody knows
        # one's own server sends a token at a time, others several: whichever is more is nearer
        self._pieces += 1
        self._tokens += estimate_tokens(text) if len(text) > 4 else 1
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self.rate = max(self._pieces, self._tokens) / (now - self._begun)
