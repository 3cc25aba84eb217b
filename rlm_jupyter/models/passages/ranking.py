"""The passages of a context that match a question best, by BM25."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import bm25s

from rlm_jupyter.models.passages.terms import question_terms, terms, weigh
from rlm_jupyter.models.passages.units import units

_PASSAGE_CHARS = 2_000
_MOST_PASSAGES = 6
_MOST_SIEVED = 2_000
"""Passages that BM25 ranks: of more, those with the rarest words of the question."""
_HEADING_CHARS = 20_000
"""How far before a passage its heading is looked for."""
_HEADING = re.compile(r"^(#{1,6} .+|.{1,80}\n([=*~-])\2{2,})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a context."""

    item: str
    """Where its text stands in a collection, such as `context[3]` or `row 4`; empty for a single text."""
    start: int
    """Offset of its first character in that text."""
    heading: str
    """The last heading before it, with an empty line; may be empty."""
    text: str

    @property
    def place(self) -> str:
        """Item and offset, in words."""
        return self.place_of(self.start)

    def place_of(self, start: int) -> str:
        """Return item and offset of what begins at `start` of its text, in words."""
        offset = f"character {start:,}"
        return f"{self.item}, {offset}" if self.item and start else self.item or offset


@dataclass(frozen=True, slots=True)
class Ranking:
    """The passages that match a question, best first."""

    question: str
    passages: tuple[Passage, ...]
    weights: dict[str, float]
    """The terms of the question, with higher weights for the rarer ones."""
    is_empty: bool
    """There was no context to rank."""
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """The words that count of the question which stand in its passages, and those which stand nowhere."""

    @property
    def prompts(self) -> list[str]:
        """A prompt for each passage: the question, an empty line, the passage."""
        asked = " ".join(self.question.split())
        return [f"{asked}\n\n{passage.heading}{passage.text}" for passage in self.passages]


def rank(context: Any, question: str) -> Ranking:
    """Rank the passages of `context` by the words of `question`.

    Parameters
    ----------
    context
        A text, bytes, a list or dict of texts, or a pandas or polars frame; anything else is read as its `str`.
    question
        In plain words; stopwords, endings, and words that speak of a text as such do not count.

    Returns
    -------
    Ranking
        At most 6 passages of about 2,000 characters.
    """
    wanted = question_terms(question)
    sieved = _with_words(context, [term for term in wanted if " " not in term])
    passages = [Passage(item, start, _heading(text, start), text[start:end]) for item, text, start, end in sieved]
    read = [terms(passage.heading + passage.text) for passage in passages]
    sentences = [set(terms(unit)) for passage in passages for unit in units(passage.text)]
    counts = Counter(term for found in sentences for term in found.intersection(wanted))
    weights = weigh(wanted, counts, len(sentences))
    best: list[Passage] = []
    if passages:
        index = bm25s.BM25()
        index.index(read, show_progress=False)
        ranked, scores = index.retrieve([wanted], k=min(_MOST_PASSAGES, len(passages)), show_progress=False)
        best = [passages[i] for i, score in zip(ranked[0], scores[0], strict=True) if score > 0]
    is_empty = context is None or (hasattr(context, "__len__") and len(context) == 0)
    words = {found[0]: word for word in re.findall(r"\w+", question.lower()) if (found := terms(word))}
    known = [term for term in wanted if term in words]
    seen = {term for found in read for term in found}  # headings, too
    present, absent = ([words[term] for term in known if (term in seen) is there] for there in (True, False))
    return Ranking(question, tuple(best), weights, is_empty, tuple(present), tuple(absent))


def _with_words(context: Any, words: list[str]) -> list[tuple[str, str, int, int]]:
    """Return item, text, start and end of the passages with a word of the question, those with the rarest first."""
    sieved = []
    for item, text in _texts(context):
        for start, end in _pieces(text):
            lower = text[start:end].lower()
            if hits := [word for word in words if word in lower]:
                sieved.append((hits, (item, text, start, end)))
    counts = Counter(word for hits, _ in sieved for word in hits)
    rarity = {word: math.log(1 + len(sieved) / counts[word]) for word in counts}
    best = heapq.nlargest(_MOST_SIEVED, sieved, key=lambda found: sum(rarity[word] for word in found[0]))
    return [place for _, place in best]


def _texts(source: Any) -> Iterator[tuple[str, str]]:
    """Yield every text in `source`, after the place where it stands."""
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace")
    if hasattr(source, "columns"):  # a data frame
        rows = source.to_dicts() if hasattr(source, "to_dicts") else source.to_dict("records")
        yield from ((f"row {number:,}", _text(row)) for number, row in enumerate(rows, 1))
    elif isinstance(source, str):
        yield "", source
    elif isinstance(source, dict):
        yield from ((str(key), _text(value)) for key, value in source.items())
    elif hasattr(source, "__iter__"):
        yield from ((f"context[{i}]", _text(value)) for i, value in enumerate(source))
    elif source is not None:
        yield "", str(source)


def _text(value: Any) -> str:
    """Return an item as text: a record as its names and values."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {part}" for name, part in value.items())
    return str(value)


def _pieces(text: str, size: int = _PASSAGE_CHARS) -> Iterator[tuple[int, int]]:
    """Yield where `text` can be cut into passages: after a paragraph, line, sentence or word."""
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            ends = (text.rfind(mark, start + size // 2, end) for mark in ("\n\n", "\n", ". ", " "))
            end = next((cut + 1 for cut in ends if cut > 0), end)
        yield start, end
        start = end


def _heading(text: str, start: int) -> str:
    """Return the last heading before `start`: `# such a one`, or a line with ===== below."""
    found = _HEADING.findall(text[max(start - _HEADING_CHARS, 0) : start])
    return found[-1][0] + "\n\n" if found else ""
