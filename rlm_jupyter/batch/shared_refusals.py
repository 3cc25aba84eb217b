"""`SharedRefusals`: what a provider refuses to one worker of a batch slows all of them down, by a file in its folder.

Each process keeps its own pace towards a provider. A refusal speaks to all of them, and some providers count what they
refuse: so whoever is refused writes a line down, and the others read it before they would find it out by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

from rlm_jupyter.run.budget.billed_request import MOST_RATE_LIMIT_SECONDS
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter

_NAME = "refusals.jsonl"
_LOOK_SECONDS = 0.5
_FRESH_SECONDS = 3.0
"""For so long after its rest a refusal is news: file systems of a network are slow to tell."""
_LINE_BYTES = 4096
"""Up to so many a write to the end of a file is not mixed up with another's."""


@contextlib.asynccontextmanager
async def shared(folder: Path) -> AsyncIterator[None]:
    """Have the file in the folder of a batch; on leaving it is removed."""
    path = folder / _NAME
    await asyncio.to_thread(path.write_bytes, b"")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


class SharedRefusals:
    """The refusals of one batch, as one process of it knows them.

    Parameters
    ----------
    folder
        Of the batch.
    rates
        Has this process's rate limiters.
    """

    def __init__(self, folder: Path, rates: Ledger) -> None:
        self._path, self._rates = folder / _NAME, rates
        self._process = secrets.token_hex(8)
        self._read = 0
        self._reading = threading.Lock()
        """Several items of this process look."""

    def rate_limiter(self, provider: str, slots: int | None = None) -> RateLimiter:
        """Return how fast a provider is asked; what it refuses is told to the others."""
        rate_limiter = self._rates.rate_limiter(provider, slots)
        rate_limiter.on_refusal = lambda rest: self._tell(provider, rest)
        return rate_limiter

    async def follow(self) -> None:
        """Slow down as the others are refused, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for line in await asyncio.to_thread(self._news):
                self._take(line)

    def _tell(self, provider: str, rest: float) -> None:
        told = {"process": self._process, "provider": provider, "rest": rest, "until": time.time() + rest}
        line = json.dumps(told).encode() + b"\n"
        # after a longer one everything fails; each has to find that out by itself
        if len(line) <= _LINE_BYTES and rest <= MOST_RATE_LIMIT_SECONDS:
            with contextlib.suppress(OSError):  # a full disk, or a batch that has ended: each finds out by itself
                end = os.open(self._path, os.O_WRONLY | os.O_APPEND)  # nobody makes it anew after the batch
                try:
                    os.write(end, line)
                finally:
                    os.close(end)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _news(self) -> list[bytes]:
        """Return the whole lines since the last look."""
        with self._reading, contextlib.suppress(OSError):
            if self._size() > self._read:
                with self._path.open("rb") as file:
                    file.seek(self._read)
                    whole = file.read().rpartition(b"\n")[0]
                self._read += len(whole) + bool(whole)
                return whole.splitlines()
        return []

    def _take(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # a file system that mixed two up
            told = json.loads(line)
            left = min(told["until"] - time.time(), told["rest"])  # no clock is so wrong that it waits longer
            if told["process"] != self._process and left > -_FRESH_SECONDS:
                self._rates.rate_limiter(str(told["provider"])).slow_down_with_others(max(left, 0.0))
