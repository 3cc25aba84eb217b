"""The searches that a model is shown are code that runs, and show what is there."""

from __future__ import annotations

import ast

import pytest

from rlm_jupyter import parsing
from rlm_jupyter.prompts.search_hints import leads_to, named, search, search_words
from rlm_jupyter.run import context as contexts

LOG = "".join(f"n={number} pump=P{number % 3}\n" for number in range(300))
PROSE = " ".join(f"Nobody saw the ship number {number} that came in. Was it K{number}?" for number in range(300))
NO_PROSE = ",".join(f'{{"id": "K{number}", "n": {number}}}' for number in range(300))


def prints(block: str | None, context: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that a shown block prints, executed with this context."""
    assert block is not None
    (source,) = parsing.parse(block).blocks
    exec(source, {"context": context})
    return capsys.readouterr().out.splitlines()


def test_lines_are_shown_the_first_and_the_last_under_their_own_headings(capsys: pytest.CaptureFixture[str]) -> None:
    shown = prints(search("P1", contexts.pack(LOG).info), LOG, capsys)
    assert shown[:3] == ["100 lines", "first lines:", "n=1 pump=P1"]
    assert shown[-2:] == ["last line:", "n=298 pump=P1"]
    assert len(shown) == 9


def test_of_prose_the_sentences_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = prints(search("K27", contexts.pack(PROSE).info), PROSE, capsys)
    assert shown == [
        "11 sentences",
        "first sentences:",
        *["Was it K27?", *(f"Was it K27{digit}?" for digit in range(4))],
        "last sentence:",
        "Was it K279?",
    ]


def test_of_a_long_line_that_is_no_prose_what_is_around_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    shown = prints(search("K299", contexts.pack(NO_PROSE).info), NO_PROSE, capsys)
    assert shown[0] == "1 places"
    assert '"K298"' in shown[3]
    assert '"K299", "n": 299' in shown[3]
    assert len(shown[3]) < 300


def test_what_is_not_there_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    for text in (LOG, PROSE, NO_PROSE):
        assert prints(search("Q", contexts.pack(text).info), text, capsys)[0].startswith("0 ")


def test_each_word_of_a_question_is_shown_as_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    block = search_words("Which PUMP is it, of all the strange glass boats, or pumps?", contexts.pack(LOG).info)
    shown = prints(block, LOG, capsys)
    assert shown == [
        "which: nowhere",
        "pump: n=0 pump=P0",
        "strange: nowhere",
        "glass: nowhere",
        "boat: nowhere",
    ]


def test_a_long_question_is_looked_for_by_its_longest_words() -> None:
    block = search_words("Four five " + " ".join(f"longer{'x' * place}" for place in range(9)), contexts.pack("a").info)
    assert block is not None
    words = ast.literal_eval(block[block.index("[") : block.index("]") + 1])
    assert words == [f"longer{'x' * place}" for place in range(1, 9)]


@pytest.mark.parametrize("context", [["a"], {"a": 1}, b"a", None])
def test_only_a_text_is_searched_so(context: object) -> None:
    info = contexts.pack(context).info
    assert search("a", info) is None
    assert search_words("What is there?", info) is None


def test_nor_is_a_piece_of_work_taken_for_a_question() -> None:
    assert search_words("Tell all. " * 60, contexts.pack("a").info) is None
    assert search_words("a b?", contexts.pack("a").info) is None


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("What is the access code of the archive in Kestrow?", "Kestrow"),
        ("What is the phone number of the customer C26565 in Kestrow?", "C26565"),
        ('How many times does "harbour" occur?', "harbour"),
        ("Is (C12) there?", "C12"),
        ("How many messages had errors in 2031-05?", "2031-05"),
        ("What is the sum of all amounts?", None),
        ("Summarise it. Then stop.", None),
        ("Is it 'a\" in b'?", None),
        ("", None),
        ("Who was Bob? " + "Tell all. " * 60, None),
    ],
)
def test_what_a_question_names(prompt: str, name: str | None) -> None:
    assert named(prompt) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("3133", "3133"),
        ("The cellar in Zellin was opened with badge 3133.", "3133"),
        ("It was K27 and then K28, in May.", "K28"),
        ("The one in cellar 12.", None),
        ("Bob", None),
        ("", None),
    ],
)
def test_what_leads_on_is_a_number_that_the_prompt_does_not_have(text: str, name: str | None) -> None:
    assert leads_to(text, "Who opened cellar 12 in Zellin?") == name
