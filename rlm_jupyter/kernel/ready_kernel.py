"""`ReadyKernel`: a kernel that is made before it is asked for, and waits for the next run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from rlm_jupyter.kernel.forked_kernel import KernelEnvironment, identity

IDLE_SECONDS = 300
"""How long it waits; then it ends."""
_LATEST_SECONDS = IDLE_SECONDS - 30.0
"""After so long it is taken no more."""
_END_SECONDS = 10.0


class Waiting(Protocol):
    """A kernel's process that nobody is connected to."""

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        ...

    def end(self) -> None:
        """End it. Wait until it is gone, for a few milliseconds."""


K = TypeVar("K", bound=Waiting)


class ReadyKernel(Generic[K]):
    """A kernel to be taken once, or closed; it is made in a thread, whatever this one is at.

    Parameters
    ----------
    environment
        What it is made for.
    make
        Makes it.
    expires
        It does not end by itself, and is ended after its time.
    """

    def __init__(
        self, environment: KernelEnvironment, make: Callable[[], Coroutine[Any, Any, K]], *, expires: bool = False
    ) -> None:
        self.environment, self._make = environment, make
        self._since = time.monotonic()
        self._folder = identity(environment.cwd)
        self._made: concurrent.futures.Future[K] = concurrent.futures.Future()
        self._made.set_running_or_notify_cancel()
        self._closing, self._is_closed = threading.Lock(), False
        self._end = threading.Timer(IDLE_SECONDS, self.close)
        if expires:
            self._end.name, self._end.daemon = "rlm_jupyter kernel", True
            self._end.start()
        try:
            threading.Thread(target=self._begin, name="rlm_jupyter kernel", daemon=True).start()
        except BaseException:
            self._end.cancel()
            raise

    @property
    def is_there(self) -> bool:
        """Whether it has been made, or could not be."""
        return self._made.done()

    @property
    def is_spent(self) -> bool:
        """Whether nobody will take it: it could not be made, has ended, or is about to."""
        if time.monotonic() - self._since >= _LATEST_SECONDS:
            return True
        return self.is_there and (self._made.exception() is not None or self._made.result().has_ended)

    async def take(self) -> K | None:
        """Return it, and wait until it is there; `None`: it has ended, or is not what it would be if made now."""
        self._end.cancel()
        try:
            kernel = await asyncio.wrap_future(self._made)
        except asyncio.CancelledError:
            self.discard()
            raise
        except Exception:  # noqa: BLE001  what was wrong then may be right by now, and else is said of the next one
            return None
        if not self.is_spent and identity(self.environment.cwd) == self._folder:
            return kernel
        self.discard()
        return None

    def discard(self) -> None:
        """End it as soon as it is there; returns at once."""
        if not self.is_there:
            self._made.add_done_callback(lambda made: self.close())
            return
        with contextlib.suppress(RuntimeError):  # the interpreter exits, and starts no threads any more
            threading.Thread(target=self.close, name="rlm_jupyter kernel", daemon=True).start()

    def close(self) -> None:
        """End it; wait until it is gone. A second time does nothing."""
        self._end.cancel()
        with contextlib.suppress(Exception):  # there was none
            made = self._made.result(_END_SECONDS)
            with self._closing:
                if not self._is_closed:
                    self._is_closed = True
                    made.end()

    def _begin(self) -> None:
        try:
            kernel = asyncio.run(self._make())
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            self._made.set_exception(error)
        else:
            self._made.set_result(kernel)
