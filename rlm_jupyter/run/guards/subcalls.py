"""`is_bare`: a sub-call that only says the question again, to a model that can't see what it is about.

Small models do that first of all: asked how many errors a log has, one of 1.5 billion parameters asks the sub-model
how many errors the log has, and takes what that makes up for the answer. Or it hands on what it was shown itself.
"""

from __future__ import annotations

import re

_LEAST_WORDS = 3
_MOST_NEW = 4
"""Words that a question may be said again with."""
_LEAST_SHARED = 0.6
"""Of its words, that are the question's."""


_PLACEHOLDER = re.compile(r"(?:YOUR )?QUESTION[.:?]?")
"""What stands for the question in the examples that a model is shown."""
_TAG = re.compile(r"</?beginning_*>")


def is_bare(prompt: str, question: str, beginning: str = "") -> bool:
    """Whether a prompt is the question in a line, if in other words, and holds nothing that it could be answered from.

    Names, numbers and further lines are taken for a passage, unless they are the context's `beginning`, which was shown
    to the model that asks.
    """
    if len(prompt) > 3 * len(question) + len(beginning) + 200:
        return False
    shown = {"", *map(str.strip, beginning.splitlines())}
    own, copied = [], False
    for line in map(str.strip, prompt.splitlines()):
        if line in shown or _TAG.fullmatch(line) or _PLACEHOLDER.fullmatch(line):
            copied = copied or line != ""
        else:
            own.append(line)
    return copied if not own else len(own) == 1 and _says_again(own[0], question)


def _says_again(said: str, question: str) -> bool:
    if len(said) > 2 * len(question) + 40:
        return False
    words, known = set(re.findall(r"\w+", said)), set(re.findall(r"\w+", question.lower()))
    new = {word for word in words if word.lower() not in known}
    if len(words) < _LEAST_WORDS or len(new) > min(_MOST_NEW, (1 - _LEAST_SHARED) * len(words)):
        return False
    first = re.match(r"\W*(\w+)", said)
    return all(word.isalpha() and (word.islower() or (first is not None and word == first[1])) for word in new)
