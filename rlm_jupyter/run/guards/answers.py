"""`missing`: what kind of thing a question asks for, where the answer has none of it.

A small model that has found the first of two facts ends with it: asked for a person's name, it answers with the number
of a badge. Only what is plain from the words of an English question is seen; all else is taken as it comes.
"""

from __future__ import annotations

import re

from rlm_jupyter.prompts.search_hints import LONG_PROMPT

_MOST_CHARS = 300
"""Of an answer: a longer one is no single thing."""
_NUMBER = "a number"
_NAME = "the name of a person"
_ASKS_FOR_NUMBER = re.compile(
    r"\bhow many\b|\bwhat (?:is|was) the (?:(?:total|average|mean) )?(?:number of|sum|total|count|average|mean)\b",
    re.IGNORECASE,
)
_ASKS_FOR_NAME = re.compile(r"\b(?:name of (?:the|that|this)|which) (?:person|man|woman)\b", re.IGNORECASE)
_ASKS_WHO = re.compile(r"(?:^|[.?!:;,] )(?:and )?who(?:m|se)? ", re.IGNORECASE)
_AMOUNT = re.compile(
    r"\d|\b(?:no|not|none|nobody|nothing|never|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|\w+teen|\w*ty|hundred|thousand|million|dozen|once|twice|half|all|every|each|both|few|some|many|several)\b",
    re.IGNORECASE,
)
_NOBODY = re.compile(r"\b(?:no|not|none|nobody|neither|unknown|anonymous)\b", re.IGNORECASE)
_NO_NAMES = {*re.findall(r"\w+", "A An And As At But By For From He Her His I In It Its My No Nobody On Our She The")}
"""Words with a capital where a sentence begins."""
_FEW_WORDS = 3
_MOST_WORDS = 10
"""In which an answer says that it is nobody."""


def missing(prompt: str, answer: str) -> str | None:
    """Return what a question asks for and its answer doesn't have: `a number` or `the name of a person`.

    `None` where nothing is plainly missing, and where the prompt or the answer is long or has letters beyond ASCII.
    """
    if len(prompt) > LONG_PROMPT or len(answer) > _MOST_CHARS or not answer.isascii():
        return None
    if _ASKS_FOR_NUMBER.search(prompt):
        return None if _AMOUNT.search(answer) else _NUMBER
    if _ASKS_FOR_NAME.search(prompt):
        return None if _has_name(answer, prompt) else _NAME
    return _NAME if _ASKS_WHO.search(prompt) and not re.search("[A-Za-z]", answer) else None


def _has_name(answer: str, prompt: str) -> bool:
    new = [word for word in re.findall(r"[A-Za-z][\w'-]*", answer) if word not in prompt]
    names = [word for word in new if word[0].isupper() and word not in _NO_NAMES]
    words = len(answer.split())
    # a user's name may have no capital
    return bool(names or (new and words <= _FEW_WORDS) or (words <= _MOST_WORDS and _NOBODY.search(answer)))
