"""`SharedRefusals`: what a provider refuses to one worker of a batch slows all of them down, by a file in its folder.

Each process keeps its own pace towards a provider. A refusal speaks to all of them, and some providers count what they
refuse: so whoever is refused writes a line down, and the others read it before they would find it out by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from rlm_jupyter.models.endpoint import on_this_machine
from rlm_jupyter.run.budget.billed_request import MOST_RATE_LIMIT_SECONDS
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter

_NAME = "refusals.jsonl"
_LOOK_SECONDS = 0.5
_FRESH_SECONDS = 3.0
"""For so long after its rest a refusal is news: file systems of a network are slow to tell."""
_LINE_BYTES = 4096
"""Up to so many a write to the end of a local file is not mixed up with another's; on a network's it may be lost."""
_HEAD = 33
"""Bytes of the first line, by which the file of another batch in the same folder is known."""


@contextlib.asynccontextmanager
async def shared(folder: Path) -> AsyncIterator[None]:
    """Have the file in the folder of a batch; on leaving it is removed."""
    path = folder / _NAME
    await asyncio.to_thread(path.write_bytes, secrets.token_hex(_HEAD // 2).encode() + b"\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


class SharedRefusals:
    """The refusals of one batch, as one process of it knows them; used on one event loop.

    Parameters
    ----------
    folder
        Of the batch.
    rates
        Has this process's rate limiters.
    """

    def __init__(self, folder: Path, rates: Ledger) -> None:
        self._path, self._rates = folder / _NAME, rates
        self._process, self._machine = secrets.token_hex(8), platform.node()
        self._head, self._read = b"", _HEAD
        self._items = 0
        self._following: asyncio.Task[None] | None = None

    def rate_limiter(self, provider: str, slots: int | None = None) -> RateLimiter:
        """Return how fast a provider is asked; what it refuses is told to the others."""
        rate_limiter = self._rates.rate_limiter(provider, slots)
        rate_limiter.on_refusal[self._path] = lambda rest, taken: self._tell(provider, rest, taken)
        return rate_limiter

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Slow down as the others are refused, while this process is at work on an item or more."""
        self._items += 1
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._items -= 1
            if not self._items:
                self._following.cancel()
                self._following = None

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            head, start, lines = await asyncio.to_thread(self._news)
            self._head, self._read = head, start + len(lines)
            for line in lines.splitlines():
                self._take(line)

    def _news(self) -> tuple[bytes, int, bytes]:
        """Return the head of the file, from where it was read, and the whole lines that were new."""
        head, start = self._head, self._read
        with contextlib.suppress(OSError), self._path.open("rb") as file:  # opened anew: a network's file is looked up
            if (found := file.read(_HEAD)) != head:
                head, start = found, _HEAD
            if os.fstat(file.fileno()).st_size > start:
                file.seek(start)
                whole, end, _ = file.read().rpartition(b"\n")
                return head, start, whole + end
        return head, start, b""

    def _tell(self, provider: str, rest: float, taken: float) -> None:
        """Write a refusal down; `taken` are the seconds that the request took."""
        now = time.time()
        told = {"process": self._process, "machine": self._machine, "provider": provider}
        line = json.dumps(told | {"sent": now - taken, "at": now, "rest": rest}).encode() + b"\n"
        # after a longer rest everything fails; each has to find that out by itself
        if len(line) <= _LINE_BYTES and rest <= MOST_RATE_LIMIT_SECONDS:
            with contextlib.suppress(OSError):  # a full disk, or a batch that has ended: each finds out by itself
                end = os.open(self._path, os.O_WRONLY | os.O_APPEND)  # nobody makes it anew after the batch
                try:
                    os.write(end, line)
                finally:
                    os.close(end)

    def _take(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # a file system that mixed two up
            told = json.loads(line)
            provider, rest = str(told["provider"]), float(told["rest"])
            ago = max(time.time() - told["at"], 0.0)  # no clock is so wrong that anybody waits longer
            is_own = told["process"] == self._process
            is_elsewhere = on_this_machine(provider) and told["machine"] != self._machine  # another server
            if not (is_own or is_elsewhere) and ago < rest + _FRESH_SECONDS:
                limiter = self._rates.rate_limiter(provider)
                limiter.slow_down_with_others(max(rest - ago, 0.0), ago, ago + max(told["at"] - told["sent"], 0.0))
