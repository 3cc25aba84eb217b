"""The file by which workers elsewhere know that whoever has given them work still waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path

from rlm_jupyter.batch import parent

_NAME = "host"
_BEAT_SECONDS = 5.0
_STILL_SECONDS = 60.0
"""After so long without a change its writer is taken to be gone: file systems of a network are slow to tell."""
_LOOK_SECONDS = 1.0


@contextlib.asynccontextmanager
async def beating(folder: Path) -> AsyncIterator[None]:
    """Write the file of a batch again and again; on leaving it is removed."""
    path, is_over = folder / _NAME, asyncio.Event()

    async def beat() -> None:
        for count in itertools.count(1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BEAT_SECONDS):
                    await is_over.wait()
                return
            with contextlib.suppress(OSError):  # a full disk is no reason to stop
                await asyncio.to_thread(path.write_text, str(count))

    path.write_text("0")
    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        is_over.set()
        await asyncio.wait([task])  # a write that is under way would bring the file back
        path.unlink(missing_ok=True)


def is_seen(folder: Path) -> bool:
    """Return whether the file is to be seen from here."""
    return (folder / _NAME).is_file()


async def until_silent(folder: Path) -> None:
    """Wait until whoever wrote the file has removed it, writes it no more, or has started this process and is gone."""
    content, since = "", time.monotonic()
    while not parent.is_gone():
        try:
            now = await asyncio.to_thread((folder / _NAME).read_text)
        except OSError:
            return
        if now != content:
            content, since = now, time.monotonic()
        elif time.monotonic() - since > _STILL_SECONDS:
            return
        await asyncio.sleep(_LOOK_SECONDS)
