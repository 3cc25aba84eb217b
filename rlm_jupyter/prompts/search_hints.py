"""Code that searches a text for what a question names: small models copy it, so it holds the words to look for.

A search for a name shows how much there is, and the first and the last of it, each under its own heading: without one,
a small model takes the first line for the last. One for words shows no numbers, which it would take for the answer.
"""

from __future__ import annotations

import re

from rlm_jupyter.types.values import ContextInfo

_LINES = """\
```repl
found = [line[:1000] for line in context.splitlines() if "{name}" in line]
print(len(found), "lines")
print("first lines:", *found[:5], sep="\\n")
print("last line:", *found[-1:], sep="\\n")
```"""
_SENTENCES = """\
```repl
import re
found = [text[:500] for text in re.split(r"(?<=[.!?])\\s+", context) if "{name}" in text]
print(len(found), "sentences")
print("first sentences:", *found[:5], sep="\\n")
print("last sentence:", *found[-1:], sep="\\n")
```"""
_PLACES = """\
```repl
import re
found = [context[max(0, m.start() - 100) : m.end() + 150] for m in re.finditer("{name}", context)]
print(len(found), "places")
print("first places:", *found[:5], sep="\\n\\n")
print("last place:", *found[-1:], sep="\\n\\n")
```"""
_WORDS = """\
```repl
lines = context.splitlines()
for word in {words}:
    print(f"{{word}}:", next((line[:300] for line in lines if word in line.lower()), "nowhere"))
```"""
_LONG_LINE = 250
"""Characters: of such a line, the sentence that has the name is shown, or what is around it."""
_SENTENCE_END = re.compile(r"[a-z][.!?]\s")
_NAME = re.compile(r"(?<![.?!:\n])[ (\"'`](?=[^\W\d_]*[^\Wa-z_])([\w-]{2,40})(?=\W|$)|\"([\w-]{2,40})\"")
"""What a question names: a word with a capital or a digit that doesn't begin a sentence, or one in quotes."""
_WORD = re.compile(r"[^\W\d_]{4,40}")
_PLURAL = re.compile(r"(?<=[^\W\d_]{3}[^\W\d_s])s$")
"""Of `users`: what is searched is found within a word, too."""
_MOST_WORDS = 8
LONG_PROMPT = 500
"""Characters: a prompt that is longer is a piece of work, not a question about one thing."""


def search(name: str, context: ContextInfo) -> str | None:
    """Write a block that prints the lines, sentences or places with a name in them; `None` where it is no text."""
    if context.type_name != "str":
        return None
    if max(map(len, context.beginning.splitlines()), default=0) < _LONG_LINE:
        form = _LINES
    else:
        form = _SENTENCES if _SENTENCE_END.search(context.beginning) else _PLACES
    return form.format(name=name)


def search_words(prompt: str, context: ContextInfo) -> str | None:
    """Return a block that prints how each word of a question is used; `None` where it is no question, or no text."""
    found = map(str.lower, _WORD.findall(prompt)) if len(prompt) <= LONG_PROMPT else []
    words = dict.fromkeys(_PLURAL.sub("", word) for word in found)
    if context.type_name != "str" or not words:
        return None
    longest = sorted(words, key=len, reverse=True)[:_MOST_WORDS]
    shown = ", ".join(f'"{word}"' for word in words if word in longest)
    return _WORDS.format(words=f"[{shown}]")


def named(prompt: str) -> str | None:
    """Find what a question names that could be looked for: rather what has a digit than a capital, the last one.

    `None` where it names nothing, or is no short question.
    """
    names = _names(prompt) if len(prompt) <= LONG_PROMPT else []
    return _numbered(names) or next(reversed(names), None)


def leads_to(text: str, prompt: str) -> str | None:
    """Find the number, or name with a digit, that stands last in a text and not in the prompt."""
    return _numbered([name for name in _names(f" {text}") if name not in prompt])


def _names(text: str) -> list[str]:
    return [found[1] or found[2] for found in _NAME.finditer(text)]


def _numbered(names: list[str]) -> str | None:
    return next((name for name in reversed(names) if any(map(str.isdigit, name))), None)
