"""`Brackets`: which round brackets of a text belong together, past the strings that content may begin with."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict

_LOOKING = 4
"""How often a text may be read over to look past strings for closing brackets: it must stay linear."""
LITERAL = re.compile(r"\s*(?:[\[{]\s*)*[A-Za-z]{0,2}(\"{3}|'{3}|[\"'“„«])")
"""The first string of content that begins with one, or with a list or a mapping of them."""
_LITERAL_END = {
    "'": re.compile(r"\\.|(?<=\w)'(?=\w)|(?P<end>')", re.DOTALL),  # it's
    **{quotes: re.compile(rf"\\.|(?P<end>{quotes})", re.DOTALL) for quotes in ('"', '"""', "'''")},
}
_CURLY_END = {"“": "”", "„": "“”", "«": "»"}
_NEXT_LITERAL = re.compile(r"(?<!\w)[A-Za-z]{0,2}(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')")


class Brackets:
    """The round brackets of a text, so that each closing one is found without reading on from the start."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._budget = _LOOKING * len(text)
        self._positions: list[int] = []
        self._depths: list[int] = []
        self._falls: dict[int, list[int]] = defaultdict(list)
        self._curly: dict[str, list[int]] = {}
        depth = 0
        for bracket in re.finditer(r"[()]", text):
            if bracket[0] == "(":
                depth += 1
            else:
                depth -= 1
                self._falls[depth].append(bracket.start())
            self._positions.append(bracket.start())
            self._depths.append(depth)

    def closing(self, start: int) -> int | None:
        """Return where the bracket that was opened just before `start` is closed."""
        literal = LITERAL.match(self._text, start)
        if literal:
            end = self._literal_end(literal[1], literal.end())
            closing = self._past_literals(end) if end is not None else None
            if closing is not None:
                return closing
        return self._fall(start, 1)

    def _literal_end(self, quotes: str, position: int) -> int | None:
        if quotes in _LITERAL_END:
            ends = _LITERAL_END[quotes].finditer(self._text, position)
            return next((match.end() for match in ends if match["end"]), None)
        if quotes not in self._curly:
            self._curly[quotes] = [match.end() for match in re.finditer(f"[{_CURLY_END[quotes]}]", self._text)]
        index = bisect_left(self._curly[quotes], position + 1)
        return self._curly[quotes][index] if index < len(self._curly[quotes]) else None

    def _past_literals(self, position: int) -> int | None:
        open_brackets = 1
        while True:
            closing = self._fall(position, open_brackets)
            if self._budget <= 0:
                return closing
            limit = len(self._text) if closing is None else self._line_end(closing)
            literal = _NEXT_LITERAL.search(self._text, position, limit)
            self._budget -= (literal.end() if literal else limit) - position
            if literal is None or (closing is not None and literal.start() > closing):
                return closing
            open_brackets += self._depth(literal.start()) - self._depth(position)
            position = literal.end()

    def _fall(self, position: int, open_brackets: int) -> int | None:
        falls = self._falls.get(self._depth(position) - open_brackets, [])
        index = bisect_left(falls, position)
        return falls[index] if index < len(falls) else None

    def _depth(self, position: int) -> int:
        index = bisect_left(self._positions, position)
        return self._depths[index - 1] if index else 0

    def _line_end(self, position: int) -> int:
        end = self._text.find("\n", position)
        return len(self._text) if end < 0 else end
