"""The terms of a text, and how well a sentence matches weighted terms."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bm25s.stopwords import STOPWORDS_EN_PLUS

_STOPWORDS = {*STOPWORDS_EN_PLUS, "many", "mean", "means", "much", "say", "says", "tell"}


def terms(text: str) -> list[str]:
    """Return the stems of a text's words, then its pairs of stems.

    Stopwords stand in pairs only: "with statement" is found though "with" alone says little.
    """
    words = re.findall(r"\w+", text.lower())
    stems = [re.sub(r"(?<=\w{3})(ing|ed|es|s|e)$", "", word) for word in words]
    tells = [word not in _STOPWORDS for word in words]
    pairs = [f"{stems[i]} {stems[i + 1]}" for i in range(len(words) - 1) if tells[i] or tells[i + 1]]
    return [stem for stem, counts in zip(stems, tells, strict=True) if counts] + pairs


def score(sentence: str, weights: Mapping[str, float]) -> float:
    """Return the summed weights of a sentence's terms, higher when it begins with one; 0 for a mere repetition."""
    found = terms(sentence)
    known = [i for i, term in enumerate(found) if term in weights]
    if len(known) == len(found):  # a heading, say: it only repeats the question
        return 0.0
    return sum(weights[term] for term in {found[i] for i in known}) * (1 + 0.5 / (1 + min(known, default=0)))
