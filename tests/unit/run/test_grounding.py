"""An answer that is the question itself."""

from __future__ import annotations

import pytest

from rlm_jupyter.run.grounding import is_question


@pytest.mark.parametrize(
    ("answer", "prompt", "is_it"),
    [
        ("Who built it?", "Who built it?", True),
        ("**who  built it**", "Who built it?\n", True),
        ("Кто это построил", "Кто это построил?", True),
        ("Who built it? Ada", "Who built it?", False),
        ("built it", "Who built it?", False),
        ("Paris", "Paris?", False),
        ("black or white", "White or black?", False),
        ("", "", False),
        ("?", "?", False),
        ("who built it" + " " * 99 + "!", "Who built it?", False),
    ],
)
def test_it_is_known_word_for_word(answer: str, prompt: str, is_it: bool) -> None:
    assert is_question(answer, prompt) is is_it
