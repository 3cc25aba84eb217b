"""Strikes a run at its n-th step, whichever of its tasks takes it, and sees what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from rlm_jupyter.kernel import template_pool

MARK = "LC_RLM_FAULTS"
"""A variable of the environment that kernels are given (`LC_*` is): so they are found, whoever their parent is."""
_GONE_SECONDS = 20.0
"""How long what ends may take to be gone, on a busy machine."""
_STUCK_SECONDS = 60.0


class _Stepped(Coroutine[Any, Any, Any]):
    """A coroutine that tells of each of its steps: each is one await point of a task."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], step: Callable[[], None]) -> None:
        self._coroutine, self._step = coroutine, step

    def send(self, value: Any) -> Any:
        self._step()
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._step()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


@dataclass
class Injector:
    """Counts the steps of all tasks of a loop, and strikes at some of them."""

    at: frozenset[int] = frozenset()
    strike: Callable[[], object] | None = None
    """What is done; `struck` cancels the run where nothing is given."""
    first: Callable[[], object] | None = None
    """What is done the first time, where that is something else."""
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps in self.at:
            # after this step: where the task then waits is the point that is struck
            strike, self.first = self.first or self.strike, None
            assert strike is not None
            asyncio.get_running_loop().call_soon(strike)

    def make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        """A task factory."""
        return asyncio.Task(_Stepped(coroutine, self.step), loop=loop, **options)


async def struck(run: Callable[[], Coroutine[Any, Any, Any]], injector: Injector) -> str:
    """Run it while the injector strikes; how it ended. None of its tasks may be left.

    Parameters
    ----------
    run
        Makes the coroutine. It is cancelled where the injector has no other way to strike.
    """
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    loop.set_task_factory(injector.make)
    running = loop.create_task(run())
    injector.strike = injector.strike or running.cancel
    try:
        await asyncio.wait([running], timeout=_STUCK_SECONDS)
    finally:
        loop.set_task_factory(None)
    assert running.done(), f"stuck: {running.get_stack()}"
    how = "cancelled" if running.cancelled() else repr(running.exception() or "ended")
    until = time.monotonic() + _GONE_SECONDS
    while (tasks := asyncio.all_tasks() - before) and time.monotonic() < until:
        await asyncio.sleep(0.005)
    assert not tasks, f"tasks left: {tasks}"
    return how


@dataclass
class Watch:
    """What a process holds."""

    places: Path
    """Where its kernels have their private directories."""
    mark: str
    fds: int = 0
    threads: set[int | None] = field(default_factory=set)

    def directories(self) -> list[Path]:
        """The private directories of kernels, and their markers."""
        return list(self.places.glob("rlm_jupyter*/*"))

    def kernels(self) -> list[psutil.Process]:
        """Its kernels, and what they started."""
        found = []
        for process in psutil.process_iter():
            try:
                if (
                    process.pid != os.getpid()
                    and process.environ().get(MARK) == self.mark
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
            except psutil.Error:  # it has gone meanwhile
                continue
        return found

    def look(self) -> None:
        """Note what is there now, and may stay."""
        gc.collect()
        self.fds = len(_open_files())
        self.threads = {thread.ident for thread in threading.enumerate()}

    def left(self) -> list[str]:
        """What has come since and not gone; it is given a moment. What kernels are forked from is put away first."""
        template_pool.current().close()
        until = time.monotonic() + _GONE_SECONDS
        while True:
            left = self._left()
            if not left or time.monotonic() > until:
                return left
            gc.collect()
            time.sleep(0.01)

    def _left(self) -> list[str]:
        fds = _open_files()
        threads = [t for t in threading.enumerate() if t.ident not in self.threads]
        left = [f"thread {thread.name}" for thread in threads]
        left += [f"directory {path.name}" for path in self.directories()]
        if len(fds) > self.fds:
            left.append(f"{len(fds) - self.fds} more file descriptors: {sorted(fds)}")
        return left or [f"process {process}" for process in self.kernels()]


def _open_files() -> list[str]:
    """What each file descriptor of this process is."""
    targets = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            targets.append(str(fd.readlink()))
        except OSError:
            continue  # that of this listing
    return targets


@contextmanager
def watched() -> Iterator[Watch]:
    """Kernels that are started meanwhile can be found; the path of their directories is short enough for sockets."""
    template_pool.current().close()  # a kernel that waits may be on its way, and would have its directory there
    kept = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="f", dir="/tmp") as places:
        mark = Path(places).name
        os.environ[MARK] = mark
        tempfile.tempdir = places
        try:
            yield Watch(Path(places), mark)
        finally:
            template_pool.current().close()  # what waits for a next run has its places there
            tempfile.tempdir = kept
            del os.environ[MARK]
