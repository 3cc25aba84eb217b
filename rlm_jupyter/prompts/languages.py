"""Natural languages in a text, told by their function words and scripts."""

from __future__ import annotations

import re
from collections import Counter

_STOPWORDS = {
    "German": "der die das und nicht ist ein eine von mit den dem auf für sich im des zu wurde auch",
    "French": "le la les et des une est pas que dans pour du sur au qui avec il elle ne par",
    "Spanish": "el la los las y que en una por con para del se es no un su al lo como",
    "Italian": "il la che di e un una per con non del della sono nel gli le al più da si",
    "Portuguese": "o a os as que de em um uma para com não do da se por mais no na ao",
    "Dutch": "de het een en van niet dat is op te met voor zijn die er aan door werd ook",
    "English": "the of and to in is that was for with as on not it by at from his her were",
}
_SCRIPTS = {
    "Chinese": re.compile(r"[\u4e00-\u9fff]"),
    "Japanese": re.compile(r"[\u3040-\u30ff]"),
    "Korean": re.compile(r"[\uac00-\ud7af]"),
    "Arabic": re.compile(r"[\u0600-\u06ff]"),
    "Hebrew": re.compile(r"[\u0590-\u05ff]"),
    "Greek": re.compile(r"[\u0370-\u03ff]"),
}
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
LEAST_SHARE = 0.08
"""Of a text's words that are a language's function words, or of its lines that are plainly code."""

_LEAST_WORDS = 4
"""Different function words: the letters that name the corners of a graph are one or two of them."""


def language(sample: str) -> tuple[str, ...]:
    """Name the language that a sample of a text is written in, in a sentence; nothing where that is English."""
    letters = sum(map(str.isalpha, sample))
    for name, form in {"Japanese": _SCRIPTS["Japanese"], **_SCRIPTS}.items():
        least = 0.1 if name == "Japanese" else 0.4
        if letters > 40 and len(form.findall(sample)) > least * letters:
            return (f"It is written in {name}.",)
    if letters > 40 and len(_CYRILLIC.findall(sample)) > 0.4 * letters:
        return ("It is written in Cyrillic letters.",)
    words = re.findall(r"[^\W\d_]+", sample.lower())
    if len(words) < 40:
        return ()
    counted = Counter(words)
    shares = {name: sum(counted[word] for word in its.split()) / len(words) for name, its in _STOPWORDS.items()}
    best, next_best = sorted(shares, key=lambda name: -shares[name])[:2]
    if best == "English" or shares[best] < LEAST_SHARE or shares[best] < 1.5 * shares[next_best]:
        return ()
    if sum(word in counted for word in _STOPWORDS[best].split()) < _LEAST_WORDS:
        return ()
    return (f"It is written in {best}.",)
