"""`Snapshots`: a kernel's variables, kept for the one that is started in its place if it dies.

The kernel writes them out (`guest/snapshots.py`), the next one reads them. In between they are bytes of which nobody
here reads anything: they come from code that a model wrote, and to unpickle is to run it. They are in a file without
a name, so that nothing is left of them when this process ends, however that comes about; and not in a folder that
both kernels see, which a kernel that is shut off could fill without end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.kernel.shell_requests import ShellRequests
from rlm_jupyter.kernel.untrusted import readable
from rlm_jupyter.types.errors import KernelDiedError, KernelError

log = logging.getLogger(__name__)

MOST_BYTES = 200 * 2**20
"""Of all variables of a kernel, pickled."""
MOST_SECONDS = 10.0
"""For pickling them, beside whatever the kernel does meanwhile."""
GRACE_SECONDS = 0.25
"""That a cell waits for a snapshot of the cell before it, so that small ones are whole in any case."""
RESTORE_SECONDS = 60.0
"""For reading them and importing their modules."""
_LOOK_SECONDS = 10.0
_MOST_NAMES = 10_000
_MOST_TRIES = 5
"""Each without the variable that the one before it died of."""
_RESTORE = "__import__('IPython').get_ipython().kernel.rlm_guest.snapshots.restore()"

Moment = tuple[int, int]
"""After which cell: iteration and block."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a new kernel has of the variables of the one before it."""

    moment: Moment | None
    """They are as they were after this cell; `None`: as they were before the prompt."""
    modules: tuple[str, ...] = ()
    """Names of modules that were imported again."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By name, why a variable could not be kept, where that is known."""
    problem: str = ""
    """Why there is nothing, or not all of it."""


@dataclass(frozen=True, slots=True)
class _Kept:
    file: IO[bytes]
    nbytes: int
    moment: Moment | None


class Snapshots:
    """The latest snapshot of one kernel, which may be started again any number of times.

    Parameters
    ----------
    shell
        The kernel's, to have a snapshot read; `None`: none is taken, and none comes back.
    """

    def __init__(self, shell: ShellRequests | None) -> None:
        self._shell = shell
        self._kept: _Kept | None = None
        self._number = 0
        self._taking: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._written: asyncio.Future[WireMessage | None] | None = None
        self._due: Moment | None = None
        self._has_moved_on = False
        """A cell has begun since the last snapshot was asked for."""

    def take(self, connection: Connection, moment: Moment) -> None:
        """Have a snapshot taken, and return at once; while one is written, the next waits for it."""
        if self._shell is None:
            return
        if self._taking is not None and not self._taking.done():
            self._due = moment
            return
        self._due = None
        self._begun.clear()
        self._taking = asyncio.create_task(self._take(connection, moment))

    async def wait_until_captured(self) -> None:
        """Wait until the snapshot that was asked for has captured the variables: from here on a cell may change them.

        Small ones are waited for: where one cell follows the other at once, the next may be the one that dies.
        """
        self._due, self._has_moved_on = None, True
        if self._taking is not None and not self._taking.done():
            await self._begun.wait()
            await asyncio.wait([self._taking], timeout=GRACE_SECONDS)

    async def settled(self) -> None:
        """Until what was asked for is kept, or has failed."""
        while self._taking is not None and not self._taking.done():
            await asyncio.wait([self._taking])

    def receive(self, message: WireMessage) -> None:
        """Take a snapshot that the kernel has written."""
        written = self._written
        if written is not None and not written.done() and message.content.get("number") == self._number:
            written.set_result(message)

    def cancel_pending(self) -> None:
        """Give up what the kernel has not written by now: it is gone."""
        self._due = None
        if self._written is not None and not self._written.done():
            self._written.set_result(None)

    def age(self) -> None:
        """Age the snapshot: a new prompt begins, and the cells of the one before are none of its own."""
        if self._kept is not None:
            self._kept = _Kept(self._kept.file, self._kept.nbytes, None)

    def drop(self) -> None:
        """Forget it."""
        if self._kept is not None:
            self._kept.file.close()
            self._kept = None

    async def close(self) -> None:
        """Forget it, and take no more."""
        self.cancel_pending()
        await self.settled()
        self.drop()

    async def restore(self, connection: Connection, only: Sequence[str] | None = None) -> Restored | None:
        """Have a kernel read the snapshot of the one before it; `None`: there is none.

        A snapshot that its kernel dies over, or does not come to an end of, is dropped.

        Parameters
        ----------
        only
            Names of the variables to bring back. Default: all.

        Raises
        ------
        KernelDiedError
            The kernel has died meanwhile.
        """
        await self.settled()
        kept = self._kept
        if kept is None or self._shell is None:
            return None
        asked = {"only": None if only is None else list(only)}
        try:
            data = await asyncio.to_thread(os.pread, kept.file.fileno(), kept.nbytes, 0)
            await connection.request("rlm_restore", asked, [data], _LOOK_SECONDS)
            problem = f"the kernel did not come to an end of its snapshot within {RESTORE_SECONDS:.0f} s"
            await self._shell.execute_silently(connection, _RESTORE, seconds=RESTORE_SECONDS, problem=problem)
            report = (await connection.request("rlm_restored", {}, seconds=_LOOK_SECONDS)).content
            with readable():
                return Restored(
                    moment=kept.moment,
                    modules=tuple(map(str, report["modules"][:_MOST_NAMES])),
                    reasons={str(name): str(why) for name, why in list(report["failed"].items())[:_MOST_NAMES]},
                    problem=str(report["problem"]),
                )
        except KernelDiedError:
            self.drop()
            raise
        except (KernelError, OSError) as error:
            self.drop()
            return Restored(kept.moment, problem=str(error))

    async def _take(self, connection: Connection, moment: Moment) -> None:
        """One snapshot after the other, as long as one is due and no cell has begun."""
        due: Moment | None = moment
        tries = 0
        while due is not None:
            tries += 1
            try:
                again = await self._take_one(connection, due)
            except (KernelError, OSError) as error:
                log.info("No snapshot was taken: %s", error)
                again = False
            finally:
                self._begun.set()
            due = self._due or (due if again and tries < _MOST_TRIES and not self._has_moved_on else None)
            self._due = None

    async def _take_one(self, connection: Connection, moment: Moment) -> bool:
        """Take one; whether it failed in a way that another would not."""
        self._number += 1
        self._has_moved_on = False
        self._written = asyncio.get_running_loop().create_future()
        asked = {"number": self._number, "nbytes": MOST_BYTES, "seconds": MOST_SECONDS}
        reply = await connection.request("rlm_snapshot", asked, seconds=_LOOK_SECONDS)
        self._begun.set()
        if reply.content.get("begun") is not True:
            return False
        message = await self._written
        if message is None:
            return False
        if message.content.get("written") is not True:
            return message.content.get("again") is True
        await asyncio.to_thread(self._keep, message.buffers, moment)
        return False

    def _keep(self, buffers: list[memoryview], moment: Moment) -> None:
        nbytes = sum(buffer.nbytes for buffer in buffers)
        if nbytes > 2 * MOST_BYTES:  # what is said around the pickles, and no more
            raise KernelError("the kernel wrote more than it was asked for")
        file = tempfile.TemporaryFile()  # noqa: SIM115  as long as it is the latest
        try:
            for buffer in buffers:
                file.write(buffer)
            file.flush()
        except BaseException:
            file.close()
            raise
        before, self._kept = self._kept, _Kept(file, nbytes, moment)
        if before is not None:
            before.file.close()
