"""`ReadyKernel`: a kernel that is forked before it is asked for, and waits for whoever asks its template next."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time

from rlm_jupyter.kernel.forking import ForkedKernel, Forking, identity

_IDLE_SECONDS = 300
"""How long it waits; then it ends by itself."""
_LATEST_SECONDS = _IDLE_SECONDS - 30.0
"""After so long it is taken no more."""
_END_SECONDS = 10.0


class ReadyKernel:
    """A kernel to be taken once, or closed; it is forked in a thread, whatever this one is at.

    Parameters
    ----------
    template
        What it is forked from: it gives a kernel of the same environment at any time.
    """

    def __init__(self, template: Forking) -> None:
        self._template = template
        self._since = time.monotonic()
        self._folder = identity(template.environment.cwd)
        self._forked: concurrent.futures.Future[ForkedKernel] = concurrent.futures.Future()
        self._forked.set_running_or_notify_cancel()
        threading.Thread(target=self._fork, name="rlm_jupyter kernel", daemon=True).start()

    @property
    def is_there(self) -> bool:
        """Whether it has been forked, or could not be."""
        return self._forked.done()

    @property
    def is_spent(self) -> bool:
        """Whether nobody will take it: it could not be made, has ended, or is about to."""
        if time.monotonic() - self._since >= _LATEST_SECONDS:
            return True
        return self.is_there and (
            self._forked.exception() is not None or self._forked.result().process.poll() is not None
        )

    async def take(self) -> ForkedKernel | None:
        """Return it, and wait until it is there; `None`: it has ended, or is not what it would be if forked now."""
        try:
            kernel = await asyncio.wrap_future(self._forked)
        except asyncio.CancelledError:
            self.discard()
            raise
        except Exception:  # noqa: BLE001  what was wrong then may be right by now, and else is said of the next fork
            return None
        if not self.is_spent and identity(self._template.environment.cwd) == self._folder:
            return kernel
        self.discard()
        return None

    def discard(self) -> None:
        """End it as soon as it is there; returns at once."""
        if not self.is_there:
            self._forked.add_done_callback(lambda forked: self.close())
            return
        with contextlib.suppress(RuntimeError):  # the interpreter exits, and starts no threads any more
            threading.Thread(target=self.close, name="rlm_jupyter kernel", daemon=True).start()

    def close(self) -> None:
        """End it; wait until it is gone. A second time does nothing."""
        with contextlib.suppress(Exception):  # there was none
            self._forked.result(_END_SECONDS).end()

    def _fork(self) -> None:
        try:
            kernel = asyncio.run(self._template.kernel(_IDLE_SECONDS))
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            self._forked.set_exception(error)
        else:
            self._forked.set_result(kernel)
