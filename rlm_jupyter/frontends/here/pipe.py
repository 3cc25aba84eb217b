"""`Pipe`: messages between a notebook's kernel and the driver that it has started, and what they say.

They are pickled: the two are one program of one user. Nothing that a model writes travels as anything but text.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.kernel.attached import Address
from rlm_jupyter.types.values import PackedContext

_LENGTH = 8
_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """What the driver is to do."""

    prompt: str
    context: PackedContext
    """Described always; its bytes are there where they can be kept with the run."""
    model: str
    options: dict[str, Any]
    """Of `RLM`."""
    rerun: bool
    approve: bool
    """Each cell waits for a person."""
    surroundings: str
    """What the model is told of the kernel."""
    address: Address
    keys: dict[str, str] = field(repr=False)
    """The providers' variables: they stand in no argument and in no environment that others can read."""


@dataclass(frozen=True, slots=True)
class Began:
    """The record of the run is kept here."""

    path: Path | None
    unpriced: str = ""
    """As `Control.unpriced`."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Just this was asked before: its notebook."""

    path: Path


@dataclass(frozen=True, slots=True)
class Over:
    """The run has ended, and its record is complete."""

    path: Path | None
    unsaved: str = ""
    """What of it is not on disk, in one line."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The host failed."""

    kind: str
    """The error's class in `rlm_jupyter.types.errors`."""
    text: str


class Pipe:
    """One end.

    Parameters
    ----------
    reading, writing
        File descriptors; `writing` is closed with the pipe.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, args=(writing,), name="rlm_jupyter pipe", daemon=True)
        self._writer.start()

    @classmethod
    def standard(cls) -> Self:
        """Make a pipe of standard input and output; nobody else, and no child of ours, has them from now on."""
        reading, writing = os.dup(0), os.dup(1)
        if sys.platform == "win32":
            import msvcrt

            for end in (reading, writing):
                msvcrt.setmode(end, os.O_BINARY)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        return cls(reading, writing)

    def send(self, message: object) -> None:
        """Send a message; returns at once, in a signal handler too. Nothing happens when the other end is gone."""
        self._outbox.put(message)

    def receive(self) -> object | None:
        """Wait for the next message; `None` when the other end is gone."""
        head = self._read(_LENGTH)
        body = self._read(int.from_bytes(head, "big")) if head else None
        return pickle.loads(body) if body else None

    def close(self, seconds: float | None = None) -> None:
        """Let the other end know that nothing more comes, after what was sent; wait so long until it is written."""
        self._outbox.put(None)
        if seconds is not None:
            self._writer.join(seconds)

    def _write(self, writing: int) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                body = pickle.dumps(message, protocol=5)
                unsent = memoryview(len(body).to_bytes(_LENGTH, "big") + body)
                while unsent:
                    unsent = unsent[os.write(writing, unsent[:_AT_ONCE]) :]
        except OSError:
            pass  # the other end is gone: whoever reads is told
        finally:
            os.close(writing)

    def _read(self, size: int) -> bytes | None:
        pieces = bytearray()
        while len(pieces) < size:
            try:
                piece = os.read(self._reading, min(size - len(pieces), _AT_ONCE))
            except OSError:
                return None
            if not piece:
                return None
            pieces += piece
        return bytes(pieces)
