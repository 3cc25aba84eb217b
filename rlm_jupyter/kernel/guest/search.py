"""`SEARCH`: the sentences and lines of a text that hold the rarest of some words, whatever language they are in.

What a word tells is how rare it is in that very text, as in BM25: no list of a language's words is kept, and no index
is made, so that a text of any size is looked through where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

SEARCH = "SEARCH"
_PIECE = 1 << 20
"""Characters that are looked through at a time; no more are copied."""
_FEW = 5
"""Occurrences up to which a word tells as much as any can."""
_MANY = 10_000
"""Occurrences from which on a word tells too little to look at each."""
_REACH = 2_000
"""Characters to both sides of an occurrence in which the ends of its sentence are looked for."""
_MOST_SHOWN, _MOST_CHARS = 20, 500
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
_END_WRAPPED = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n\s*\n")
"""… where lines end wherever a page did."""
_SAMPLE, _LEAST_WRAPPED = 20_000, 40
"""Characters of a text that tell whether its lines are wrapped, and of such a line."""
_MOST_WRAPPED = 10
"""Such lines for each sentence, at most: a list has none that end."""
_GOES_ON = re.compile(r"[^\W\d_],?\n[^\W\d_]")
"""A line's end between words; the letter behind it tells whether it is within a sentence."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{2,}")
_PUNCTUATION = ".,;:!?\"'()[]{}<>`“”„«»。、？！"


class Passages(list[str]):
    """What was found, the best first; shown, each stands on a line of its own."""

    def __repr__(self) -> str:
        lines = [one if len(one) <= _MOST_CHARS else f"{one[:_MOST_CHARS]}…" for one in islice(self, _MOST_SHOWN)]
        if len(self) > _MOST_SHOWN:
            lines.append(f"… and {len(self) - _MOST_SHOWN:,} more")
        return "\n".join(lines) or "Nothing was found."

    __str__ = __repr__


def search_in(namespace: Mapping[str, Any]) -> Callable[..., Passages]:
    """Return `SEARCH` for the code that has this namespace: it looks through its `context`."""

    def find(words: str | Iterable[str], text: Any = None) -> Passages:
        """Return the sentences and lines of a text, or of several, that hold the rarest of some words; best first.

        `words` is a sentence, or a list of words and phrases; `text` is `context` if it is not given. Case does not
        count. What is printed is the first 20.
        """
        return search(words, namespace.get("context", "") if text is None else text)

    find.__name__ = find.__qualname__ = SEARCH
    return find


def search(words: str | Iterable[str], text: Any) -> Passages:
    """Return the sentences and lines that hold the rarest of some words, those with most of them first.

    Parameters
    ----------
    words
        A sentence, each word of which is looked for; or words and phrases, each looked for as it is.
    text
        A text, or a list or a dict of texts.

    Returns
    -------
    Passages
        All that tell at least half as much as the best; those that tell the same, in their order in the text. Where
        even the rarest word is a common one, of its first 10,000.

    Raises
    ------
    TypeError
        It is no text.
    """
    texts = _texts(text)
    counts = _counts(texts, _words(words))
    if missing := [word for word, count in counts.items() if not count]:
        counts |= _counts(texts, [part for word in missing for part in _parts(word)])
    weights = {word: 1 / max(_FEW, count) for word, count in counts.items() if count}
    if not weights:
        return Passages()
    entries = [word for word in weights if counts[word] <= _MANY] or [min(weights, key=counts.__getitem__)]
    scored = []
    for passage in islice(_holding(texts, entries), _MANY * len(entries)):
        lowered = _lowered(passage)
        scored.append((sum(weight for word, weight in weights.items() if word in lowered), passage))
    least = max(score for score, _ in scored) / 2
    return Passages(passage for score, passage in sorted(scored, key=lambda one: -one[0]) if score >= least)


def _texts(text: Any) -> Sequence[str]:
    texts = [text] if isinstance(text, str) else list(text.values()) if isinstance(text, Mapping) else text
    if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        raise TypeError(
            f"{SEARCH}(words, text) looks through a text, a list or a dict of texts; this is a {type(text).__name__}."
        )
    return texts


def _words(words: str | Iterable[str]) -> list[str]:
    listed = (word.strip(_PUNCTUATION) for word in words.split()) if isinstance(words, str) else words
    return [word.lower() for word in listed if word.strip()]


def _parts(word: str) -> list[str]:
    """Return what may be found of a word that is not: what stands between hyphens, pairs of unspaced characters."""
    pairs = [run[at : at + 2] for run in _UNSPACED.findall(word) for at in range(len(run) - 1)]
    return pairs or [part for part in re.split(r"[\W_]+", word) if part and part != word]


def _counts(texts: Iterable[str], words: Iterable[str]) -> dict[str, int]:
    counts = dict.fromkeys(words, 0)
    for piece in _pieces(texts):
        lowered = _lowered(piece)
        for word in counts:
            counts[word] += lowered.count(word)
    return counts


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts in pieces that end, where they can, with a line or a sentence."""
    for text in texts:
        start, size = 0, len(text)
        while start < size:
            end = start + _PIECE
            if end < size:
                end = max(text.rfind("\n", start, end), text.rfind(". ", start, end)) + 1 or end
            yield text[start:end]
            start = end


def _lowered(text: str) -> str:
    """Return a text in lower case, each character in its place."""
    lowered = text.lower()
    if len(lowered) != len(text):  # the lower case of İ is two characters
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lowered


def _holding(texts: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Yield the sentences and lines that hold one of some words, in their order."""
    for piece in _pieces(texts):
        lowered, end, ends = _lowered(piece), 0, _END_WRAPPED if _is_wrapped(piece) else _END
        for at in sorted(at for word in words for at in _places(lowered, word)):
            if at >= end:
                first = max(end, at - _REACH)
                start = max([first, *(before.end() for before in ends.finditer(piece, first, at))])
                after = ends.search(piece, at + 1, at + _REACH)
                end = min(len(piece), at + _REACH) if after is None else after.start()
                yield " ".join(piece[start:end].split()) if ends is _END_WRAPPED else piece[start:end].strip()


def _is_wrapped(piece: str) -> bool:
    """Return whether most lines go on in the next, as prose does that was set for a page."""
    sample = piece[:_SAMPLE]
    lines = sum(len(line) >= _LEAST_WRAPPED for line in sample.split("\n")[:-1])
    going_on = sum(found[0][-1].islower() for found in _GOES_ON.finditer(sample))
    sentences = len(_END.findall(sample)) - sample.count("\n")
    return _MOST_WRAPPED * sentences >= lines and 2 * going_on > lines > _FEW


def _places(lowered: str, word: str) -> Iterator[int]:
    at = lowered.find(word)
    while at >= 0:
        yield at
        at = lowered.find(word, at + len(word))
