"""`decode`, `decoded`: bytes as text, in whatever encoding they are."""

from __future__ import annotations

import codecs
import contextlib
import re

from rlm_jupyter.parsing.file_signatures import identify
from rlm_jupyter.run.files.unreadable import INSTALL, Note, Unreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEAD = 8_192
"""Bytes that tell text from the rest."""
_SAMPLE = 262_144
"""Bytes that an encoding is guessed from."""
_COMMON = "cp1252"
"""Of the encodings for Latin scripts, by far the most used after UTF-8."""
_KIN = ("cp125", "iso8859")
_OTHERS = frozenset(
    {"Czech", "Slovak", "Polish", "Hungarian", "Romanian", "Croatian", "Slovene", "Turkish", "Lithuanian"}
)
"""Languages with letters that it has not."""
_SLIGHT = 0.1
_LETTERS = tuple(
    map(frozenset, ("àâäçèéêëîïôöùûüÿœæ", "äöüßé", "áéíóúñüª", "áâãàçéêíóôõúü", "àèéìíòóùúî", "åäöæøéü", "áâèéêëïóöüû"))
)
"""Of those that are mostly written in it: French, German, Spanish, Portuguese, Italian, the Nordic languages, Dutch."""
_MOST_ACCENTS = 0.7
"""Of all letters, even of `été`; every letter of a Cyrillic text would be one."""
_BETWEEN = re.compile(r"[A-Za-z][^\W\d_A-Za-zà-ÿœª](?=[a-z])|[A-Za-z][^\w\s\x00-\x7f’°§­·](?=[A-Za-z])")
"""What no such language has within a word: a capital after a letter, or a sign."""


def decode(data: bytes, note: Note, declared: str = "") -> str:
    """Return the text; line ends stay as they are, a byte order mark goes. Otherwise as `decoded`."""
    return decoded(data, note, declared)[0]


def decoded(data: bytes, note: Note, declared: str = "") -> tuple[str, str]:
    """Return the text, and the encoding's name.

    A byte order mark decides; else UTF-8, if it is that but for a few stray bytes (which a note counts);
    else what the file declares, if it can be that; else a guess by charset-normalizer.

    Parameters
    ----------
    declared
        The encoding that the file itself names; empty for none.

    Raises
    ------
    Unreadable
        It is no text, or its encoding can't be told.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding), encoding
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        _refuse_known(data)
        with contextlib.suppress(LookupError, UnicodeDecodeError):  # none such, or not this
            if declared:
                return str(data, declared), declared
        encoding = _guess(data, error.start)
        if encoding != "utf-8":
            note(f"not UTF-8: read as {encoding.upper()}, which is a guess.")
            return _strict(data, encoding), encoding
        text = str(data, "utf-8", "replace")
        stray = text.count("\ufffd") - data.count("\ufffd".encode())
        note(f"UTF-8 but for {stray:,} stray byte{'' if stray == 1 else 's'}, read as U+FFFD.")
    if "\0" in text[:_HEAD]:
        _refuse_known(data)
        # ASCII in UTF-16 without a mark is valid UTF-8 too
        encoding = _unmarked_utf16(data)
        return _strict(data, encoding), encoding
    return text, "utf-8"


def _refuse_known(data: bytes) -> None:
    """Refuse a binary format that is known; asked of what is no plain UTF-8."""
    if (binary := identify(data)) is not None:
        text = f"binary, not text: {binary.title}"
        raise Unreadable(f"{text}; {binary.advice}.", f"{text}.")


def _strict(data: bytes, encoding: str) -> str:
    try:
        return str(data, encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"not {encoding.upper()} throughout (byte {error.start:,}); convert it to UTF-8.") from None


def _guess(data: bytes, first_fault: int) -> str:
    """Return the encoding of what is no faultless UTF-8, from the bytes around the first that show it."""
    if b"\0" in data[:_HEAD]:
        return _unmarked_utf16(data)
    start = max(data.rfind(b"\n", 0, first_fault) + 1, first_fault - _SAMPLE)
    lines = data[start : first_fault + _SAMPLE].split(b"\n")
    # the guess is made from a few places: each must hold something to be told by
    sample = b"\n".join(line for line in lines[:-1] or lines if not line.isascii())
    # other encodings hardly ever hold what is a character of several bytes in UTF-8: a log with a torn line
    text = str(sample, "utf-8", "replace")
    faults = text.count("\ufffd")
    if len(text) - faults - sum(map(str.isascii, text)) > faults:
        return "utf-8"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        raise Unreadable(f"not UTF-8; to tell its encoding: {INSTALL}, or convert it to UTF-8.") from None
    if _is_western(sample):
        return _COMMON
    best = from_bytes(sample).best()
    if best is None:
        raise Unreadable("binary, or text in no encoding that can be told; convert it to UTF-8.")
    common = from_bytes(sample, cp_isolation=[_COMMON]).best()
    if common is not None:
        # to tell Latin scripts apart takes more than a few accents: then it is the most common one
        if best.language in _OTHERS:
            return _COMMON if common.chaos < best.chaos else best.encoding
        if common.chaos <= best.chaos + (_SLIGHT if best.encoding.startswith(_KIN) else 0.0):
            return _COMMON
    return best.encoding


def _is_western(sample: bytes) -> bool:
    """Return whether it reads as one of the languages that are mostly written in the common encoding.

    A few accents are too little for statistics, which find Icelandic or Farsi in them.
    """
    try:
        text = str(sample, _COMMON)
    except UnicodeDecodeError:
        return False
    accented = {letter for letter in text.lower() if letter.isalpha() and not letter.isascii()}
    letters = sum(map(str.isalpha, text))
    rare = sum(letter.isalpha() and not letter.isascii() for letter in text) <= _MOST_ACCENTS * letters
    is_one = any(accented <= language for language in _LETTERS)
    return bool(accented) and rare and is_one and _BETWEEN.search(text) is None


def _unmarked_utf16(data: bytes) -> str:
    head = data[: _HEAD // 2 * 2]
    even, odd = head[::2].count(0), head[1::2].count(0)
    few, many = sorted((even, odd))
    # in Western text nearly every second byte is zero, and always on the same side
    if len(data) % 2 == 0 and many > len(head) // 4 and few <= len(head) // 100:
        return "utf-16-le" if odd == many else "utf-16-be"
    raise Unreadable("binary, not text, and of no format that is known here; convert it to text.", "binary, not text.")
