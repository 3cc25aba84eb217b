"""`is_prose`: whether a text is sentences, told by its lines: comments have full stops, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SENTENCE_END = re.compile(
    r"(?:[^\W\d_]{2}|[^\x00-\u02ff\s]|[)\]\"'”»’])[.!?…؟۔]+['\")\]”»’*_]*(?:\s|$)|[。！？।॥؟۔]", re.MULTILINE
)
"""Not the dots behind initials and numbers."""
_LEAST_SENTENCES = 3
_LONGEST_SENTENCE = 60
"""Words for each end of a sentence, at most; a character of Chinese counts as one."""
_SHORTEST_SENTENCE = 2
_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u9fff])")

_LEAST_LINES_PLAIN = 0.6
_LEAST_CHARS_PLAIN = 0.75
_MOST_NEUTRAL = 0.5
"""Shares of lines, and of their characters."""
_MOST_MARKUP = 0.08
"""Of lines that have YAML's or LaTeX' form."""
_LEAST_WORDLIKE = 0.75
_LEAST_LOWER = 0.45
"""Of words: names and titles begin with capitals, and so does every third word of German."""

_MOST_SHOUTED = 0.85
_SEVERAL, _MANY = 3, 6
"""Words of a line."""
_LEAST_TEXT = 0.15
"""Share of lines."""

_QUOTE = re.compile(r"\A(?:>\s?)+")
_BULLET = re.compile(r"\A(?:[-*+•–—]|\(?(?:\d{1,4}|[a-z]|[ivx]{1,6})[.)]|\[\d{1,4}\])\s+")
_COMMENT = re.compile(
    r"//|/\*|\*/|--\s|%|;|<[a-zA-Z/!?]|dnl\b|REM\b|\.[.A-Z\\]|=\w|\\|msg(?:id|str|ctxt)\b|@\w|\||[{}]"
)
"""How lines begin that are comments or markup, whatever they say."""
_RECORD = re.compile(r"[\w.-]+=|\"[^\"]{1,60}\"\s*:|(?=[a-f]*\d)[\da-f]{7,40} |[A-Z][A-Z\d]  - ")
"""How lines begin that are entries of something: with a key, the name of a commit."""
_TIMED = re.compile(r"\[?(?:\d{1,4}[-/]\d\d[-/ ]|\d\d:\d\d\b|\s*\d+\.\d+\])")
_MOST_TIMED = 12
"""Words behind a time in a log, or a chat: more of them are a diary's, or a transcript's."""
_ENDS_AS_CODE = re.compile(r"[;{}\\=(\[&|]$|\*/$|\w\(\)$|\)\)$| // | \|\|? |\t|\S {4,}\S")
_MARKUP = re.compile(
    r"(?:- )?[a-z_$][\w./$-]*:(?: [|>][-+]?| \S+)?|- [\w./-]+|\\[a-zA-Z]+\b.*"
    r"|\([a-z.][\w.*!?+-]* .*|'?[\w$-]+'?: [\[{].*"
)
"""A line of YAML that has a key and a word, of LaTeX or Lisp that begins with a command."""
_LINK = re.compile(
    r"!?\[([^\]\[]{0,200})\]\([^()\s]{0,300}\)|<?https?://\S+|<?[\w.+-]{1,60}@[\w-]{1,60}\.[\w.]{1,60}>?|`[^`]{1,80}`"
)
_MAY_LINK = frozenset("[`@:")
"""One of these is in each link."""
_PUNCTUATION = ".,;:!?…'\"()[]*_-–—‐‘’“”„«»‹›¿¡،؛؟۔।॥。！？、，；：「」『』（）《》〈〉·~"
_WORDLIKE = re.compile(
    r"[^\W\d_][^\x00-&(*+,./:-@\[-`{-\x7f]*(?:/[^\W\d_]+)?|[^\W\d_]\.[^\W\d_]|[$€£+-]?\d[\d.,:/%-]*(?:st|nd|rd|th|s)?"
)
"""A word or a number as it stands in a sentence; not `a.b`, `a_b`, `f(x)`."""


def is_prose(lines: Sequence[str]) -> bool:
    """Return whether most of a text's lines are sentences, or parts of them; `lines` are samples without blank ones."""
    has_blocks = any("*/" in line for line in lines)
    plain, other, neutral = [], [], []
    for line in lines:
        bare = _QUOTE.sub("", line.strip(), count=1).strip()
        if bare.startswith("#") or not any(map(str.isalpha, bare)):
            neutral.append(bare)
        elif _is_plain(bare, has_blocks=has_blocks):
            plain.append(bare)
        else:
            other.append(bare)
    chars, other_chars, neutral_chars = (sum(map(len, part)) for part in (plain, other, neutral))
    if (
        len(plain) < _LEAST_LINES_PLAIN * (len(plain) + len(other))
        or chars < _LEAST_CHARS_PLAIN * (chars + other_chars)
        or neutral_chars > _MOST_NEUTRAL * (chars + other_chars + neutral_chars)
        or sum(bool(_MARKUP.fullmatch(line)) for line in other) > _MOST_MARKUP * len(lines)
    ):
        return False
    return _has_sentences(plain)


def is_of_words(lines: Sequence[str]) -> bool:
    """Return whether most lines are as sentences and list items are, and have several words."""
    return _share(lines, _SEVERAL) >= _LEAST_LINES_PLAIN


def has_text(lines: Sequence[str]) -> bool:
    """Return whether a good part of a text's lines are sentences, other than comments in code."""
    return _share([line for line in lines if not line.lstrip().startswith(("#", "*"))], _MANY) >= _LEAST_TEXT


def _share(lines: Sequence[str], words: int) -> float:
    bare = [line.strip() for line in lines]
    plain = sum(len(line.split()) >= words and _is_plain(line, has_blocks=False) for line in bare)
    return plain / max(1, len(bare))


def _is_plain(line: str, *, has_blocks: bool) -> bool:
    if _COMMENT.match(line) or _RECORD.match(line) or _ENDS_AS_CODE.search(line) or _MARKUP.fullmatch(line):
        return False
    if has_blocks and line.startswith("*"):
        return False
    if _TIMED.match(line) and len(line.split()) <= _MOST_TIMED:
        return False
    words = _words(_BULLET.sub("", line, count=1))
    wordlike = sum((word.isascii() and word.isalpha()) or bool(_WORDLIKE.fullmatch(word)) for word in words)
    return wordlike >= _LEAST_WORDLIKE * max(1, len(words))


def _words(line: str) -> list[str]:
    """Return the words of a line, without the punctuation around them; links are one each."""
    if not _MAY_LINK.isdisjoint(line):
        line = _LINK.sub(r" \1x ", line)
    if not line.isascii():
        line = _CJK.sub(r" \1 ", line)
    pieces = line.split() if line.isascii() and "--" not in line else re.split(r"\s+|--+|[—–…]", line)
    return [word for piece in pieces if (word := piece.strip(_PUNCTUATION))]


def _has_sentences(lines: Sequence[str]) -> bool:
    ends = sum(len(_SENTENCE_END.findall(line)) for line in lines)
    words = [word for line in lines for word in _words(line)]
    if ends < _LEAST_SENTENCES or not _SHORTEST_SENTENCE * ends <= len(words) <= _LONGEST_SENTENCE * ends:
        return False
    lower = sum(word[0].islower() for word in words)
    capital = sum(word[0].isupper() and (len(word) == 1 or not word.isupper()) for word in words)
    shouted = sum(len(word) > 1 and word.isupper() for word in words)
    return shouted <= _MOST_SHOUTED * len(words) and lower >= _LEAST_LOWER * (lower + capital)
