"""`SEARCH`: the sentences and lines of a text that hold the rarest of some words, whatever language they are in.

What a word tells is how rare it is in that very text, as in BM25: no list of a language's words is kept, and no index
is made, so that a text of any size is looked through where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
_MOST_BEST, _MOST_NAMES, _MOST_LINKED = 3, 60, 5
"""Passages that are the best, names in them that are looked for elsewhere, and passages with one that are taken."""
_END = re.compile(r"(?<=[.!?؟۔।])\s+|(?<=[。！？])|\n")
_END_WRAPPED = re.compile(r"(?<=[.!?؟۔।])\s+|(?<=[。！？])|\n[ \t\r>]*\n")
"""… where lines end wherever a page did."""
_LAST_WORD = re.compile(r"[^\W_]+\Z")
_ABBREVIATED = re.compile(r"[^\W\d_]|(?i:[b-df-hj-np-tv-xz]{2,4})")
"""What a point behind it ends no sentence: an initial, a title without a vowel (`Dr`, `Mrs`)."""
_SHORT = 4
"""Characters of what may be an abbreviation, where a small letter or a digit follows (`etc. and`, `No. 57`)."""
_IN_A_DATE = re.compile(r"[^\W\d_]+\.?\s+\d{4}\b")
_SAMPLE, _LEAST_WRAPPED = 20_000, 40
"""Characters of a text that tell whether its lines are wrapped, and of such a line."""
_MOST_WRAPPED = 10
"""Such lines for each sentence, at most: a list has none that end."""
_SENTENCE = re.compile(r"[.!?؟۔।][\"')\]”»]*(?=\s)|[。！？]")
_LINE_END = re.compile(r"\n[ \t>]*(?=[^\s>])")
"""The end of a line, and the margin of the next: where that is not blank."""
_ENDS_OPEN = re.compile(r"[^\W\d_][,;-]?\Z")
"""Of a line that ends within a sentence."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{2,}")
_JOINED = re.compile(r"(?<=[\u3040-\u30ff\u3400-\u9fff、。])\s+(?=[\u3040-\u30ff\u3400-\u9fff])")
"""Where a page has cut a text whose words have nothing between them."""
_LETTER = re.compile(r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""What words of such letters and digits have nothing of around them; of scripts that put blanks between words."""
_PUNCTUATION = ".,;:!?\"'()[]{}<>`“”„«»。、？！؟۔।"
_MARGIN = re.compile(r"\n[ \t]*>[ \t>]*")


@dataclass(slots=True)
class _Word:
    """A word, or a phrase, that is looked for."""

    text: str
    is_whole: bool = True
    """It counts where it begins a word and at most an ending follows; else wherever its characters stand."""
    count: int = 0
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        # the text stands first: what comes before it is looked at where it is found, which is a hundred times as fast
        ending = r"\w{0,2}(?!\w)" if self.is_whole and _LETTER.match(self.text[-1]) else ""
        self.pattern = re.compile(re.escape(self.text) + ending)

    def places(self, lowered: str) -> Iterator[int]:
        """Yield where it stands."""
        begins = self.is_whole and _LETTER.match(self.text) is not None
        first = lowered.find(self.text)  # most pieces have none, and a pattern takes ten times as long to see that
        for found in self.pattern.finditer(lowered, first) if first >= 0 else ():
            at = found.start()
            if not (begins and at and _LETTER.match(lowered, at - 1)):
                yield at

    def is_in(self, lowered: str) -> bool:
        """Return whether it is there."""
        return next(self.places(lowered), None) is not None


class Passages(list[str]):
    """What was found, the best first; shown, each stands on a line of its own."""

    def __repr__(self) -> str:
        lines = [one if len(one) <= _MOST_CHARS else f"{one[:_MOST_CHARS]}…" for one in islice(self, _MOST_SHOWN)]
        if len(self) > _MOST_SHOWN:
            # not how many more there are, which small models take for how many there are
            lines.append(f"… {len(self):,} in all, of which these are the first")
        return "\n".join(lines) or "Nothing was found."

    __str__ = __repr__


def search_in(namespace: Mapping[str, Any]) -> Callable[..., Passages]:
    """Return `SEARCH` for the code that has this namespace: it looks through its `context`."""

    def find(words: str | Iterable[object], text: Any = None) -> Passages:
        """Return the sentences and lines of a text, or of several, that hold the rarest of some words; best first.

        Behind the best stand others with a rare name or number of it. `words` is a sentence, or a list of words and
        phrases; `text` is `context` if it is not given. Case does not count. What is printed is the first 20.
        """
        return search(words, namespace.get("context", "") if text is None else text)

    find.__name__ = find.__qualname__ = SEARCH
    return find


def search(words: str | Iterable[object], text: Any) -> Passages:
    """Return the sentences and lines that hold the rarest of some words, those with most of them first.

    Behind the best, where one or a few stand out, come others with a rare name or number of these: `Badge 8307 is
    Ada's.` behind `The cellar was opened with badge 8307.`

    Parameters
    ----------
    words
        A sentence, each word of which is looked for; or words and phrases, each looked for as it is.
    text
        A text, or a list or a dict of texts.

    Returns
    -------
    Passages
        All that tell at least half as much as the best, and up to 5 that these lead to; those that tell the same, in
        their order in the text. Where even the rarest word is a common one, of its first 10,000.

    Raises
    ------
    TypeError
        It is no text.
    """
    texts = _texts(text)
    found = _counted(texts, [_Word(word) for word in _words(words)])
    if missing := [word for word in found if not word.count]:
        # a part of other words, as in a compound; what not even that is, by its own parts
        inside = _counted(texts, [_Word(word.text, is_whole=False) for word in missing])
        parts = dict.fromkeys(part for word in inside if not word.count for part in _parts(word.text))
        found += inside + _counted(texts, [_Word(part, is_whole=False) for part in parts])
    weights = [(word, 1 / max(_FEW, word.count)) for word in found if word.count]
    if not weights:
        return Passages()
    there = [word for word, _ in weights]
    entries = [word for word in there if word.count <= _MANY] or [min(there, key=lambda word: word.count)]
    scored = []
    for passage in islice(_holding(texts, entries), _MANY * len(entries)):
        lowered = _lowered(passage)
        scored.append((sum(weight for word, weight in weights if word.is_in(lowered)), passage))
    scored.sort(key=lambda one: -one[0])
    most = scored[0][0]
    best = [passage for score, passage in scored if score == most]
    linked = _linked(texts, best, {word.text for word in found}) if len(best) <= _MOST_BEST else []
    others = (passage for score, passage in scored[len(best) :] if score >= most / 2)
    return Passages([*best, *linked, *(passage for passage in others if passage not in linked)])


def _linked(texts: Iterable[str], best: Sequence[str], known: Collection[str]) -> list[str]:
    """Return other passages with a rare name of the best: what is said elsewhere of what is named here."""
    names = dict.fromkeys(name for passage in best for name in _names(passage) if name not in known)
    rare = [_Word(name) for name in islice(names, _MOST_NAMES)]
    for piece in _pieces(texts) if rare else ():
        lowered = _lowered(piece)
        for word in rare:
            word.count += sum(1 for _ in islice(word.places(lowered), _FEW + 1))
        rare = [word for word in rare if word.count <= _FEW]
    passages = dict.fromkeys(passage for passage in _holding(texts, rare) if passage not in best) if rare else {}
    weights = {passage: sum(1 / word.count for word in rare if word.is_in(_lowered(passage))) for passage in passages}
    return sorted(passages, key=lambda passage: -weights[passage])[:_MOST_LINKED]


def _names(passage: str) -> list[str]:
    """Return what may be a name, in lower case: what has a digit, or, where no passage begins, a capital letter."""
    words = [word.strip(_PUNCTUATION) for word in passage.split()]
    return [word.lower() for at, word in enumerate(words) if any(map(str.isdigit, word)) or (at and word[:1].isupper())]


def _texts(text: Any) -> Sequence[str]:
    texts = [text] if isinstance(text, str) else list(text.values()) if isinstance(text, Mapping) else text
    if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        raise TypeError(
            f"{SEARCH}(words, text) looks through a text, a list or a dict of texts; this is a {type(text).__name__}."
        )
    return texts


def _words(words: Any) -> list[str]:
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        raise TypeError(
            f"{SEARCH}(words, text) looks for a text, or a list of texts; this is a {type(words).__name__}."
        )
    listed = (word.strip(_PUNCTUATION) for word in words.split()) if isinstance(words, str) else map(str, words)
    return list(dict.fromkeys(word.lower() for word in listed if word.strip()))


def _parts(word: str) -> list[str]:
    """Return what may be found of a word that is not: what stands between hyphens, pairs of unspaced characters."""
    pairs = [run[at : at + 2] for run in _UNSPACED.findall(word) for at in range(len(run) - 1)]
    return pairs or [part for part in re.split(r"[\W_]+", word) if part and part != word]


def _counted(texts: Iterable[str], words: list[_Word]) -> list[_Word]:
    """Count words; of those that are common, and need not be told apart, roughly."""
    for piece in _pieces(texts) if words else ():
        lowered = _lowered(piece)
        for word in words:
            word.count += lowered.count(word.text) if word.count > _MANY else sum(1 for _ in word.places(lowered))
    return words


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


def _holding(texts: Iterable[str], words: Iterable[_Word]) -> Iterator[str]:
    """Yield the sentences and lines that hold one of some words, in their order."""
    for piece in _pieces(texts):
        lowered, end = _lowered(piece), 0
        found = sorted(at for word in words for at in word.places(lowered))
        is_wrapped = bool(found) and _is_wrapped(piece)
        for at in found:
            if at >= end:
                first = max(end, at - _REACH)
                start = max([first, *(after for _, after in _ends(piece, first, at, is_wrapped))])
                end, _ = next(_ends(piece, at + 1, at + _REACH, is_wrapped), (min(len(piece), at + _REACH), 0))
                yield _joined(piece[start:end]) if is_wrapped else piece[start:end].strip()


def _ends(piece: str, first: int, last: int, is_wrapped: bool) -> Iterator[tuple[int, int]]:
    """Yield where sentences end, and where the next ones begin."""
    for end in (_END_WRAPPED if is_wrapped else _END).finditer(piece, first, last):
        is_point = end[0] and piece[end.start() - 1 : end.start()] == "."
        # two sentences that are taken for one do no harm; half of one has lost the answer
        if not is_point or end[0].count("\n") > is_wrapped or not _goes_on(piece, end):
            yield end.start(), end.end()


def _goes_on(piece: str, end: re.Match[str]) -> bool:
    """Return whether a point is not the end of a sentence, but of an abbreviation, or within a date (`3. Mai 1921`)."""
    found = _LAST_WORD.search(piece, max(0, end.start() - 12), end.start() - 1)
    word, after = "" if found is None else found[0], piece[end.end() : end.end() + 1]
    if after.islower() or after.isdigit():
        return 0 < len(word) <= _SHORT and not word.isdigit()
    return bool(_ABBREVIATED.fullmatch(word) or (word.isdigit() and _IN_A_DATE.match(piece, end.end())))


def _joined(passage: str) -> str:
    """Return a passage of several lines as one."""
    return _JOINED.sub("", " ".join(_MARGIN.sub(" ", passage).split()))


def _is_wrapped(piece: str) -> bool:
    """Return whether lines go on in the next, as those of prose do that was set for a page."""
    sample = piece[:_SAMPLE]
    lines = going_on = 0
    for end in _LINE_END.finditer(sample):
        line, after = sample[sample.rfind("\n", 0, end.start()) + 1 : end.start()].rstrip(), sample[end.end()]
        if len(line) >= _LEAST_WRAPPED:
            lines += 1
            # where letters are small and capital, a small one tells that the line before has not ended
            going_on += _ENDS_OPEN.search(line, len(line) - 2) is not None and after.isalpha() and not after.isupper()
    sentences = len(_SENTENCE.findall(sample))
    return _MOST_WRAPPED * sentences >= lines and 4 * going_on > lines > _FEW
