"""`split`: the options at the beginning of a magic's line, and the text after them as it was written."""

from __future__ import annotations

import contextlib
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence

from IPython.core.error import UsageError

from rlm_jupyter.types.suggestion import closest

_WORD = re.compile(r"@?(?:\"[^\"]*\"|'[^']*')(?=\s|$)|\S+")
"""A word of the line; quotes count only around the whole of it, so that an apostrophe is one, or behind an @."""

_NO_CHOICE = re.compile(r"argument (?:-\w[, /]+)?(--[\w-]+)(?:/-\w)?: invalid choice: (.*?) \(choose from (.*)\)", re.S)
_OPEN = re.compile(r"@?([\"'])(?!.*\1$)")
"""The first word of several between quotes of which the last is missing."""
_CLOSE = 0.75
"""How alike an option is, at least, that may have been meant: `--foo` is no `--tool`."""
_NO_NUMBER = re.compile(r"argument (?:-\w[, /]+)?(--[\w-]+)(?:/-\w)?: invalid (int|float) value: (.*)", re.S)
"""What argparse says."""


def split(parser: ArgumentParser, line: str) -> tuple[Namespace, str]:
    """Read the options, and leave the rest alone.

    Parameters
    ----------
    parser
        Of a magic whose last argument is `prompt`, with `nargs=argparse.REMAINDER`: options end where it begins.
    line
        After the magic's name. ` -- ` ends the options too.

    Raises
    ------
    UsageError
        An option is unknown, stands behind the text, or has no value, or the wrong one.
    """
    words = list(_WORD.finditer(line))
    try:
        options = parser.parse_args([_unquoted(word[0]) for word in words])
    except UsageError as error:
        hint = close_option(str(error), parser._option_string_actions)
        raise UsageError(f"{plainly(str(error))}{hint}. %{parser.prog}? shows the options.") from None
    for word in words[: len(words) - len(options.prompt)]:
        if _OPEN.match(word[0]):
            raise UsageError(f"A quote is opened and not closed: {word[0]}")
    behind = words[-len(options.prompt) :] if options.prompt else []
    rest = line[behind[0].start() :].strip() if behind else ""
    if rest.startswith("-- "):
        return options, rest.removeprefix("-- ")
    if flag := _options_behind(parser, [_unquoted(word[0]) for word in behind]):
        raise UsageError(
            f"{flag} stands behind the text, which begins with the first word that is no option: write it before "
            f"that, or %{parser.prog} -- and the text, if it is part of it."
        )
    return options, rest


def _options_behind(parser: ArgumentParser, words: Sequence[str]) -> str:
    """Return the first of the options with which a text ends: a limit must not be lost in it; empty: it has none."""
    for at, word in enumerate(words):
        if word.partition("=")[0] in parser._option_string_actions:
            with contextlib.suppress(UsageError):
                if not parser.parse_args(words[at:]).prompt:
                    return word.partition("=")[0]
    return ""


def or_close(name: str, names: Sequence[str]) -> str:
    """Return the one of `names` that was probably meant, else all of them."""
    return closest(name, names) or ", ".join(names)


def _unquoted(word: str) -> str:
    at, text = ("@", word[1:]) if word.startswith("@") else ("", word)
    return at + text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else word


def plainly(error: str) -> str:
    """Return argparse's error in plain words, where it is about a number or a choice."""
    wanted = {"int": "a whole number", "float": "a number"}
    error = _NO_CHOICE.sub(lambda found: f"{found[1]} {_unquoted(found[2])}: there is {_listed(found[3])}", error)
    return _NO_NUMBER.sub(lambda found: f"{found[1]} {_unquoted(found[3])}: {wanted[found[2]]} is needed", error)


def _listed(choices: str) -> str:
    """Return `auto, bwrap and none` for argparse's list of them, with quotes or without."""
    *names, last = (_unquoted(name) for name in choices.split(", "))
    return f"{', '.join(names)} and {last}" if names else last


def close_option(error: str, options: Iterable[str]) -> str:
    """Return ` (did you mean --max-cost?)` for an option that there is not, where one of these comes near."""
    wrong = re.search(r"--[\w-]+", error.partition("unrecognized arguments:")[2])
    close = closest(wrong[0], options, _CLOSE) if wrong else None
    return f" (did you mean {close}?)" if close else ""
