"""`PassedFiles`: descriptors that the host passes to a kernel that lives, each lot for one request."""

from __future__ import annotations

import os
import socket
import threading

_MOST_BYTES = 64
_MOST_FILES = 8
_WAIT_SECONDS = 5.0


class PassedFiles:
    """The kernel's end of the channel that they come by.

    Requests are served in two threads, and one that the host has given up may be served late, or never: so each lot
    has a number, and the numbers grow.

    Parameters
    ----------
    channel
        The descriptor of the channel.
    """

    def __init__(self, channel: int) -> None:
        self.channel = socket.socket(fileno=channel)
        self.channel.set_inheritable(False)
        self.channel.settimeout(_WAIT_SECONDS)
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[int, list[int]] = {}

    def take(self, number: int) -> list[int]:
        """Return those of this number; none where they are gone. Those of lower numbers are closed.

        Raises
        ------
        OSError
            They do not come.
        """
        with self._lock:
            while self._last < number:
                message, files, _, _ = socket.recv_fds(self.channel, _MOST_BYTES, _MOST_FILES)
                if not message:
                    raise EOFError("the channel is closed")
                for file in files:
                    os.set_inheritable(file, False)
                self._last = int(message)
                self._waiting[self._last] = files
            found = self._waiting.pop(number, [])
            for lower in [lower for lower in self._waiting if lower < number]:
                for file in self._waiting.pop(lower):
                    os.close(file)
            return found
