"""`is_bare`: a sub-call that only says the question again, to a model that can't see what it is about.

Small models do that first of all: asked how many errors a log has, one of 1.5 billion parameters asks the sub-model
how many errors the log has, and takes what that makes up for the answer.
"""

from __future__ import annotations

import re

_LEAST_WORDS = 3
_MOST_NEW = 4
"""Words that a question may be said again with."""
_LEAST_SHARED = 0.6
"""Of its words, that are the question's."""


def is_bare(prompt: str, question: str) -> bool:
    """Whether a prompt is the question in a line, if in other words, and holds nothing that it could be answered from.

    Names, numbers and further lines are taken for a passage.
    """
    said = prompt.strip()
    if "\n" in said or len(said) > 2 * len(question) + 40:
        return False
    words, known = set(re.findall(r"\w+", said)), set(re.findall(r"\w+", question.lower()))
    new = {word for word in words if word.lower() not in known}
    if len(words) < _LEAST_WORDS or len(new) > min(_MOST_NEW, (1 - _LEAST_SHARED) * len(words)):
        return False
    first = re.match(r"\W*(\w+)", said)
    return all(word.isalpha() and (word.islower() or (first is not None and word == first[1])) for word in new)
