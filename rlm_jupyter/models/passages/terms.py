"""The terms of a text and of a question, what they weigh, and how well a sentence matches them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping

from bm25s import stopwords

_ENGLISH = frozenset(stopwords.STOPWORDS_EN_PLUS)
_LANGUAGES = (
    _ENGLISH,
    *(
        frozenset(getattr(stopwords, f"STOPWORDS_{language}"))
        for language in ("GERMAN", "FRENCH", "SPANISH", "ITALIAN", "DUTCH", "PORTUGUESE")
    ),
)
_CLOSED = frozenset(
    re.findall(
        r"\w+",
        "who whom whose what which when where whence why how whether could shall would may might must please tell show "
        "give list name find explain describe define "
        "across along among around behind beside beyond despite inside near outside since toward towards upon "
        "within without "
        "wer wessen wem wen was welche welcher welches wann wo woher wohin warum weshalb wieso wie wieviel worin "
        "worüber womit gibt nenne zeige erkläre "
        "qui que quoi quel quelle quels quelles quand où pourquoi comment combien dont "
        "quién quiénes cuál cuáles cuándo dónde cómo cuánto cuántos cuántas "
        "chi cosa quale quali quando dove perché quanto quanti quante "
        "wie wat welk welke wanneer waar waarom hoe hoeveel "
        "quem qual quais onde porque quantos quantas",
    )
)
"""Interrogatives, modals, requests and prepositions: the lists of stopwords lack many of them."""
_OF_TEXTS = frozenset(
    re.findall(
        r"\w+",
        "appear appeared appears many mean means mention mentioned mentions much occur occurred occurrence occurrences "
        "occurs often say says tell text times word words "
        "erwähnt kommt oft steht viele vor wort wörter wörtern",
    )
)
"""Words by which a question speaks of a text; what it is about is said by the others."""
_QUOTED = re.compile("[\"“”„«»‘`](\\w[^\"“”„«»’`]*)[\"“”«»’`]|(?<!\\w)'(\\w[^']*)'")


def terms(text: str, silent: Collection[str] = _ENGLISH) -> list[str]:
    """Return the stems of a text's words, then its pairs of stems.

    `silent` words stand in pairs only: "with statement" is found though "with" alone says little.
    """
    words = re.findall(r"\w+", text.lower())
    stems = [re.sub(r"(?<=\w{3})(ing|ed|es|s|e)$", "", word) for word in words]
    tells = [word not in silent for word in words]
    pairs = [f"{stems[i]} {stems[i + 1]}" for i in range(len(words) - 1) if tells[i] or tells[i + 1]]
    return [stem for stem, counts in zip(stems, tells, strict=True) if counts] + pairs


def question_terms(question: str) -> list[str]:
    """Return the terms of a question that say what it is about, each once.

    Left out are the stopwords of its language, the words that make it a question, and those by which it speaks of the
    text, unless they are quoted or there are no others.
    """
    words = set(re.findall(r"\w+", question.lower()))
    stop = max(_LANGUAGES, key=lambda language: len(words & language))
    quoted = {word for found in _QUOTED.findall(question) for word in re.findall(r"\w+", "".join(found).lower())}
    found = terms(question, (stop | _CLOSED | _OF_TEXTS) - quoted) or terms(question, stop)
    return list(dict.fromkeys(found))


def weigh(wanted: Iterable[str], counts: Mapping[str, int], size: int) -> dict[str, float]:
    """Return what each wanted term weighs, by the number of `size` units that have it.

    It is the inverse document frequency, squared as in a cosine of two weighted texts: a rare word outweighs several
    common ones. A term that no unit has weighs as one that a single unit has.
    """
    return {term: math.log(1 + size / max(counts.get(term, 0), 1)) ** 2 for term in wanted}


def score(sentence: str, weights: Mapping[str, float]) -> float:
    """Return the summed weights of a sentence's terms, higher when it begins with one; 0 for a mere repetition."""
    found = terms(sentence)
    known = [i for i, term in enumerate(found) if term in weights]
    if len(known) == len(found):  # a heading, say: it only repeats the question
        return 0.0
    return sum(weights[term] for term in {found[i] for i in known}) * (1 + 0.5 / (1 + min(known, default=0)))


def covered(sentence: str, weights: Mapping[str, float]) -> float:
    """Return the share, 0 to 1, of the weight of the question's words that the words of a sentence have."""
    words = {term: weight for term, weight in weights.items() if " " not in term}
    found = words.keys() & set(terms(sentence, ()))
    return sum(words[term] for term in found) / (sum(words.values()) or 1.0)
