"""The sentences that answer a question, as far as words can tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlm_jupyter.models.passages.ranking import Ranking
from rlm_jupyter.models.passages.terms import covered, score

_MOST = 5
_GOOD_ENOUGH = 0.5
"""Of the best sentence's score: what a further sentence must reach."""
_COVERED = 0.15
"""Of the weight of the question's words: what a sentence must have to be an answer at all."""
_DUNDER = re.compile(r"(?<![`\w])(__\w+__(?:\(\))?)(?![`\w])")
NO_CONTEXT = "There is no context to look into."
NO_MATCH = "Nothing in the context matches."
METHOD = "Picked by word matching (extractive/bm25): no language model read the text."


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences that match a question best, each with its place; `str` numbers them."""

    found: tuple[tuple[str, str], ...]
    """Sentence and place, best first; empty where none matches."""
    problem: str = ""
    """Why there is none."""

    def __bool__(self) -> bool:
        return bool(self.found)

    def __str__(self) -> str:
        lines = [f"{n}. {_as_code(text)} ({place})" for n, (text, place) in enumerate(self.found, 1)]
        return "\n".join([*lines, "", METHOD]) if lines else self.problem


def _as_code(text: str) -> str:
    """Mark names such as `__init__`, which Markdown shows in bold."""
    return _DUNDER.sub(r"`\1`", text)


def _missing(ranking: Ranking) -> str:
    """Say which of the question's words are not there, where others are: those alone would match."""
    if not ranking.present or not ranking.absent:
        return ""
    lacking, there = (" and ".join(map(repr, words)) for words in (ranking.absent, ranking.present))
    return f" Of the question's words it lacks {lacking}, and has {there}: ask with that alone."


def matching_sentences(ranking: Ranking, replies: Sequence[str]) -> Sentences:
    """Choose from what sub-calls replied about each passage of `ranking`.

    Parameters
    ----------
    replies
        One for each passage: sentences of it, one a line. A failed sub-call is passed over.

    Returns
    -------
    Sentences
        At most five, none much worse than the best.
    """
    places: dict[str, str] = {}
    for passage, reply in zip(ranking.passages, replies, strict=True):
        for sentence in reply.splitlines() if reply else ():
            found = re.search(r"\s+".join(map(re.escape, sentence.split())), passage.text)
            start = passage.start + (found.start() if found else 0)
            places.setdefault(sentence, passage.place_of(start))
    weights = ranking.weights
    scores = {text: score(text, weights) for text in places if covered(text, weights) >= _COVERED}
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return Sentences((), NO_CONTEXT if ranking.is_empty else f"{NO_MATCH}{_missing(ranking)}")
    good = [sentence for sentence in scores if scores[sentence] >= best * _GOOD_ENOUGH]
    order = sorted(good, key=lambda sentence: -scores[sentence])[:_MOST]
    return Sentences(tuple((sentence, places[sentence]) for sentence in order))
