"""What was asked and answered in sub-calls, as notebooks show it: whole where there is room, else its beginning."""

from __future__ import annotations

import contextlib

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.escaped import escaped
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import SubcallSettled

NOTEBOOK_CHARS = 10_000_000
"""Of whole texts in a notebook: browsers open one with more in it slowly, or not at all."""
CELL_CHARS = 2_000_000
"""Of whole texts below one cell."""
_PROMPT_CHARS = 1_000
_REPLY_CHARS = 1_500


class Excerpts:
    """The beginnings of prompts and replies.

    Parameters
    ----------
    rest
        Says where the rest is.
    """

    def __init__(self, rest: str) -> None:
        self.rest = rest

    def asked(self, call: SubcallSettled) -> str:
        """Return the prompt, or what of it is shown."""
        return self._cut(call.prompt_head, _PROMPT_CHARS, call.prompt_chars)

    def given(self, call: SubcallSettled) -> str:
        """Return the reply, or what of it is shown."""
        return self._cut(call.text, _REPLY_CHARS, len(call.text))

    def _cut(self, text: str, limit: int, chars: int) -> str:
        shown = text[:limit]
        more = chars - len(shown)
        return f"{shown} … ({more:,} more characters: {self.rest})" if more > 0 else shown


class Room:
    """Room for characters of HTML, inside of another room or by itself."""

    def __init__(self, chars: int, around: Room | None = None) -> None:
        self._left = chars
        self._around = around

    @property
    def left(self) -> int:
        """How many characters there is room for; none where it is negative."""
        return self._left if self._around is None else min(self._left, self._around.left)

    def take(self, chars: int) -> None:
        """Use some of it."""
        self._left -= chars
        if self._around is not None:
            self._around.take(chars)


class Texts(Excerpts):
    """Whole prompts and replies, and beginnings where there is no room for them.

    Parameters
    ----------
    room
        For whole texts.
    objects
        Where prompts are that a record has no more.
    """

    def __init__(self, rest: str, room: Room, objects: Objects | None = None) -> None:
        super().__init__(rest)
        self.objects = objects
        self._room = room

    def asked(self, call: SubcallSettled) -> str:
        """Return the prompt, or what of it is shown."""
        prompt = self._prompt(call) if call.prompt_chars <= self._room.left else None
        return self._fitting(prompt, super().asked(call))

    def given(self, call: SubcallSettled) -> str:
        """Return the reply, or what of it is shown."""
        return self._fitting(call.text, super().given(call))

    def within(self, chars: int) -> Texts:
        """Return the same with room for so many characters, which are of this room."""
        return Texts(self.rest, Room(chars, self._room), self.objects)

    @property
    def is_used_up(self) -> bool:
        """Whether there is no room for another sub-call."""
        return self._room.left < _PROMPT_CHARS + _REPLY_CHARS

    def _fitting(self, text: str | None, excerpt: str) -> str:
        if text is None or len(escaped(text)) > self._room.left:
            text = excerpt
        self._room.take(len(escaped(text)))
        return text

    def _prompt(self, call: SubcallSettled) -> str | None:
        """Return the whole prompt; `None` where it is not to be had."""
        if call.prompt is not None or len(call.prompt_head) == call.prompt_chars:
            return call.prompt if call.prompt is not None else call.prompt_head
        if self.objects is not None:
            with contextlib.suppress(RecordError):  # it was saved without
                return str(self.objects.get(call.prompt_sha256), "utf-8", "surrogatepass")
        return None
