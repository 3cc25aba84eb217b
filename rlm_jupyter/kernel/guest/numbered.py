"""`Numbered`: messages over connections that are lost and made again, each taken once and in order.

Both ends have one: the host, and the guest of a kernel on a Jupyter server. A message is kept until the other end has
said that it has it, and is sent again where a connection was lost. It is carried as a Jupyter message of the type
`rlm_link`: its number, its channel and what was taken so far are the content, its frames the buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.codec import Frame

LINK = "rlm_link"
PIECE_BYTES = 2**20
"""The most that a message to a kernel has: servers close a connection over more than 10 MiB, and what is behind a
larger one waits long."""
_WINDOW = 256
"""Messages, or pieces, that are on their way at once: beyond a high-water mark ZeroMQ drops them."""
_UNSAID = 32
"""After how many messages the other end is told that they have come."""
_SIZE = 8

Carried = tuple[dict[str, Any], list[Frame]]


class Numbered:
    """One end.

    Parameters
    ----------
    post
        Sends content and buffers of a link message; they may be lost.
    take
        Told channel and frames of each message of the other end, once and in order.
    piece_bytes
        Beyond so many bytes a message is sent in pieces; `None`: never.
    """

    def __init__(
        self,
        post: Callable[[dict[str, Any], Sequence[Frame]], None],
        take: Callable[[str, list[Frame]], None],
        piece_bytes: int | None = None,
    ) -> None:
        self._post = post
        self._take = take
        self._piece_bytes = piece_bytes
        self._unsettled: deque[Carried] = deque()
        """What was sent, and what waits to be; the first has the number `_settled` + 1."""
        self._settled = 0
        self._posted = 0
        self._numbered = 0
        self._pieces: list[Frame] = []
        self._said = 0
        self._told_lost = -1
        self.seen = 0
        """The number of the last message that was taken."""
        self.is_open = False
        """Whether there is a connection; without one, messages wait."""

    @property
    def posted(self) -> int:
        """The number of the last message that was sent."""
        return self._posted

    @property
    def waiting(self) -> int:
        """How many messages, or pieces, the other end has not said that it has."""
        return len(self._unsettled)

    def send(self, channel: str, frames: Sequence[Frame]) -> None:
        """Send a message, or keep it until it can be."""
        size = sum(len(frame) if isinstance(frame, bytes) else frame.nbytes for frame in frames)
        if self._piece_bytes is None or size <= self._piece_bytes:
            self._keep({"channel": channel}, frames)
        else:
            whole = memoryview(b"".join(_packed(frames)))
            for start in range(0, len(whole), self._piece_bytes):
                end = start + self._piece_bytes
                self._keep({"channel": channel, "more": end < len(whole)}, [whole[start:end]])
        self._go_on()

    def receive(self, content: dict[str, Any], buffers: Sequence[Frame]) -> bool:
        """Take what a link message brings; return whether the other end has to be told that one before it was lost."""
        self.settle(content["seen"])
        if content["n"] != self.seen + 1:
            # told once: with one message those behind it come to nothing, up to a window of them
            return self._told_lost != self.seen and self.lacks(content["n"])
        self.seen += 1
        if "more" not in content:
            self._take(content["channel"], [*buffers])
        else:
            self._pieces += buffers
            if not content["more"]:
                pieces, self._pieces = self._pieces, []
                self._take(content["channel"], _unpacked(memoryview(b"".join(pieces))))
        if self.seen - self._said >= _UNSAID:
            self._say({})
        return False

    def lacks(self, posted: int) -> bool:
        """Return whether the other end, which has sent so many, has to be told that some were lost.

        Each beat of a connection asks: what was sent again may be lost as well.
        """
        if posted <= self.seen:
            return False
        self._told_lost = self.seen
        return True

    def settle(self, seen: int) -> None:
        """Forget what the other end has, and send what waits."""
        while self._settled < min(seen, self._numbered):
            self._unsettled.popleft()
            self._settled += 1
        self._posted = max(self._posted, self._settled)
        self._go_on()

    def resume(self, seen: int) -> None:
        """Send again, over a new connection, what the other end has not got."""
        self.is_open = True
        self._told_lost = -1
        self._posted = self._settled
        self.settle(seen)

    def _keep(self, content: dict[str, Any], buffers: Sequence[Frame]) -> None:
        self._numbered += 1
        self._unsettled.append((content | {"n": self._numbered}, [*buffers]))

    def _go_on(self) -> None:
        while self.is_open and self._posted < min(self._numbered, self._settled + _WINDOW):
            content, buffers = self._unsettled[self._posted - self._settled]
            self._posted += 1
            self._say(content, buffers)

    def _say(self, content: dict[str, Any], buffers: Sequence[Frame] = ()) -> None:
        self._said = self.seen
        self._post(content | {"seen": self.seen}, buffers)


def _packed(frames: Sequence[Frame]) -> list[Frame]:
    """Return frames as one text of bytes: how many there are, the length of each, and they themselves."""
    sizes = [len(frame) if isinstance(frame, bytes) else frame.nbytes for frame in frames]
    return [b"".join(number.to_bytes(_SIZE, "little") for number in (len(frames), *sizes)), *frames]


def _unpacked(whole: memoryview) -> list[Frame]:
    """Undo `_packed`."""
    count = int.from_bytes(whole[:_SIZE], "little")
    at, frames = _SIZE * (count + 1), []
    for number in range(1, count + 1):
        size = int.from_bytes(whole[_SIZE * number : _SIZE * (number + 1)], "little")
        frames.append(bytes(whole[at : at + size]))
        at += size
    return [*frames]
