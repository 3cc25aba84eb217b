"""Natural languages in a text, told by their function words and scripts."""

from __future__ import annotations

import re
from collections import Counter

_STOPWORDS = {
    "German": "der die das und nicht ist ein eine von mit den dem auf für sich im des zu wurde auch es er sie",
    "French": "le la les et des une un est pas que dans pour du sur au qui avec il elle ne par ce en de",
    "Spanish": "el la los las y que en una por con para del se es un su al lo como de más pero",
    "Italian": "il la che di un una per con non del della sono nel gli le al più da si lo anche dei alla",
    "Portuguese": "os as que de em um uma para com não do da se por mais na no ao dos foi como",
    "Dutch": "de het een en van niet dat is op te met voor zijn die er aan door werd ook ik hij maar",
    "English": "the of and to in is that was for with as on not it by at from his her were be this or are if you",
}
_RIVALS = {
    "Catalan": "el la els les que en una per amb no és del al un seu com però més de dels",
    "Galician": "os as que de en un unha para con non do da se por máis na no ao dos foi",
    "Romanian": "și de la în nu că cu este pe un mai din se pentru care sunt ce lui al",
    "Afrikaans": "die en van is nie dat het op te met vir sy hulle wat hy was aan om ook ek",
    "Danish": "og det at en den til er som på de med han af for ikke der var et har",
    "Norwegian": "og det at en den til er som på de med han av for ikke der var et har",
    "Swedish": "och det att en den till är som på de med han av för inte var ett har om",
    "Hungarian": "az és hogy nem is egy ez de meg volt csak el már mint ha azt vagy ki van",
    "Polish": "nie na się do to że jest jak po co ale za od tak był",
    "Luxembourgish": "de an den dat ass vun op mat fir net eng zu am sech och ze vum si gëtt",
    "Latin": "et in est non ad ut cum qui quod sed de ex si per esse ab quae hoc nec",
    "Esperanto": "la de kaj en al ne estas kun por el ke mi li por sur pri tio da unu",
    "Indonesian": "yang dan di ini itu dengan untuk tidak dari dalam akan pada ke karena juga ada saya",
    "Swiss German": "isch und de mit het es nid au uf vo im ds si für wo ne",
}
"""Kept from being taken for one of the languages above, and not named."""
_SCRIPTS = {
    "Chinese characters": re.compile(r"[\u4e00-\u9fff]"),
    "Korean": re.compile(r"[\uac00-\ud7af]"),
    "Arabic letters": re.compile(r"[\u0600-\u06ff]"),
    "Hebrew letters": re.compile(r"[\u05d0-\u05ea]"),
    "Greek": re.compile(r"[\u0370-\u03ff]"),
    "Cyrillic letters": re.compile(r"[\u0400-\u04ff]"),
    "Devanagari letters": re.compile(r"[\u0904-\u0939]"),
}
"""Where several languages share letters, these are named."""
_KANA = re.compile(r"[\u3041-\u30fa]")
_CHINESE = re.compile("[的是了这這在们們你她么麼没沒说說]")
"""Words that every other sentence of Chinese has, and Japanese without kana hasn't."""
_LEAST_CHINESE = 0.015
_LEAST_LETTERS = 40
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_LEAST_LATIN = 0.2
"""Of all letters: fewer are names and figures within a text."""

_TAG = re.compile(r"<[^<>]{0,2000}>")
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 40
_LEAST_SHARE = 0.15
"""Of a text's words that are a language's function words."""
_LEAST_DIFFERENT = 4
"""Function words: the letters that name the corners of a graph are one or two of them."""
_LONG = 3
"""Letters that code seldom shortens its names to."""
_LEAST_LONG = 3
_MANY_DIFFERENT, _HIGH_SHARE = 6, 0.25
"""Enough of short words, such as French has, where there are few long ones."""
_MOST_RIVAL = 0.4
"""Words that only another language has, for each that only the best has."""


def language(sample: str) -> tuple[str, ...]:
    """Name the language that a sample of a text is written in, in a sentence; nothing where that is English."""
    if name := _script(sample):
        is_mixed = len(_LATIN.findall(sample)) > _LEAST_LATIN * sum(map(str.isalpha, sample))
        return (f"It is written in {name}{', and partly in Latin letters' * is_mixed}.",)
    name = _by_words(_WORD.findall(_TAG.sub(" ", sample).lower()))
    return (f"It is written in {name}.",) if name else ()


def _script(sample: str) -> str | None:
    letters = sum(map(str.isalpha, sample))
    if letters <= _LEAST_LETTERS:
        return None
    if len(_KANA.findall(sample)) > 0.1 * letters:
        return "Japanese"
    for name, form in _SCRIPTS.items():
        if len(form.findall(sample)) > 0.4 * letters:
            is_chinese = name == "Chinese characters" and len(_CHINESE.findall(sample)) > _LEAST_CHINESE * letters
            return "Chinese" if is_chinese else name
    return None


def _by_words(words: list[str]) -> str | None:
    if len(words) < _LEAST_WORDS:
        return None
    counted = Counter(words)
    known = {name: frozenset(its.split()) for name, its in (_STOPWORDS | _RIVALS).items()}
    counts = {name: sum(counted[word] for word in its) for name, its in known.items()}
    best = max(_STOPWORDS, key=lambda name: counts[name])
    found = [word for word in known[best] if word in counted and len(word) > 1]
    if best == "English" or counts[best] < _LEAST_SHARE * len(words) or len(found) < _LEAST_DIFFERENT:
        return None
    long = sum(len(word) >= _LONG for word in found)
    if long < _LEAST_LONG and (not long or len(found) < _MANY_DIFFERENT or counts[best] < _HIGH_SHARE * len(words)):
        return None
    for name, its in known.items():
        ours, theirs = (sum(counted[word] for word in part) for part in (known[best] - its, its - known[best]))
        if name != best and theirs > _MOST_RIVAL * ours:
            return None
    return best
