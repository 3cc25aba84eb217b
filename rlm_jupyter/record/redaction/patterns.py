"""What keys and home folders look like: a small table, and where in a text they stand.

Only shapes that a provider has documented, and that hardly anything else has. A shape costs a search for one
of its `hints` in a text that has none, which is what nearly every text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["key", "home", "user"]
_WORD = r"[A-Za-z0-9_-]"
_COMMON_USERS = frozenset(
    {"admin", "app", "conda", "debian", "ec2-user", "guest", "home", "jovyan", "jupyter", "lib", "public", "root"}
    | {"runner", "shared", "ubuntu", "user", "users", "vagrant", "vscode"}
)
"""Names that say nothing of anybody."""
_BEFORE = re.compile(
    r"(?:[^A-Za-z0-9_]|\\[abefnrtv0]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}"
    r"|(?:\x1b|\\x1b|\\u001b|\\033|\\e|\^\[)\[[0-9;]*m)\Z"
)
"""What ends where a word begins: also an escape of Python, JSON, an address or a terminal."""
_BEFORE_CHARS = 24


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a text that is to be taken out."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class _Shape:
    hints: tuple[str, ...]
    """One of these is in every text that has this shape in it."""
    pattern: re.Pattern[str]
    """Its first group, if it has one, is what is taken out."""
    kind: Kind = "key"
    starts_word: bool = True
    """Not within a word: `task-1…` holds no key."""
    with_digit: bool = False
    """Taken out only with a digit in it, which a key always has and words hardly ever."""


def _key(pattern: str, *hints: str, starts_word: bool = True, with_digit: bool = False, flags: int = 0) -> _Shape:
    return _Shape(hints, re.compile(pattern, flags), starts_word=starts_word, with_digit=with_digit)


_SHAPES = (
    # OpenAI, Anthropic, OpenRouter, DeepSeek, LiteLLM and others
    _key(rf"sk-{_WORD}{{18,}}", "sk-", with_digit=True),
    _key(r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    _key(r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIA", "ASIA"),
    _key(r"(?i:aws_?secret_?access_?key)\W{1,6}([A-Za-z0-9/+=]{40})", "ecret", "SECRET", starts_word=False),
    _key(rf"AIza{_WORD}{{35}}|ya29\.{_WORD}{{20,}}", "AIza", "ya29."),
    _key(r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}", "xox", "xapp-", with_digit=True),
    _key(r"hf_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}", "hf_", "r8_"),
    _key(rf"gsk_[A-Za-z0-9]{{40,}}|xai-[A-Za-z0-9]{{40,}}|pplx-{_WORD}{{32,}}", "gsk_", "xai-", "pplx-"),
    _key(rf"glpat-{_WORD}{{20,}}|npm_[A-Za-z0-9]{{36}}|pypi-{_WORD}{{50,}}", "glpat-", "npm_", "pypi-"),
    _key(r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|dapi[0-9a-f]{32}", "_live_", "_test_", "dapi", with_digit=True),
    _key(r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*", "eyJ"),
    _key(r"[Bb](?:earer|EARER)\s+([\w.~+/-]{16,}=*)", "earer", "EARER", with_digit=True),
    _key(r"://[^\s/:@'\"<>]{1,80}:([^\s/@'\"<>]{3,})@", "://", starts_word=False),
    _key(
        # an end that was cut off is one as well
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^`]{1,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*)",
        "PRIVATE KEY",
        starts_word=False,
    ),
    _Shape(("/home/", "/Users/"), re.compile(r"/(?:home|Users)/(\w(?:[\w.-]*\w)?)"), "user"),
    _Shape(("\\Users\\", "\\Users\\\\"), re.compile(r"[A-Za-z]:\\+Users\\+([^\\/:*?\"'<>|\s]+)"), "user"),
)


def found(text: str, *, within_words: bool = False) -> Iterator[Found]:
    """Yield where something of a known shape stands; parts may overlap.

    Parameters
    ----------
    within_words
        Also what begins within a word: in bytes, texts may stand side by side.
    """
    for shape in _SHAPES:
        if not any(hint in text for hint in shape.hints):
            continue
        for match in shape.pattern.finditer(text):
            start, end = match.span(1 if shape.pattern.groups else 0)
            part = text[start:end]
            if shape.with_digit and not any(char.isdigit() for char in part):
                continue
            if shape.kind == "user" and is_common(part):
                continue
            if within_words or not shape.starts_word or begins(text, match.start()):
                yield Found(start, end, shape.kind)


def begins(text: str, start: int) -> bool:
    """Return whether a word can begin here."""
    return start == 0 or _BEFORE.search(text[max(0, start - _BEFORE_CHARS) : start]) is not None


def is_common(user: str) -> bool:
    """Return whether a user's name says nothing of anybody."""
    return len(user) < 2 or user.lower() in _COMMON_USERS
