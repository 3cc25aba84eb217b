"""The units that the embedded model picks: sentences of prose, lines of logs and tables."""

import textwrap

import pytest

from rlm_jupyter.models.passages.units import units

SENTENCES = [
    "The committee met in the old town hall on Monday.",
    "Its members, who had travelled far, heard three reports about the harbour and the bridge across it.",
    "Nobody spoke against them, and the meeting ended before noon.",
    "The next one is in May.",
]


@pytest.mark.parametrize("width", [30, 50, 70, 1000])
def test_wrapped_prose_has_sentences(width):
    assert units(textwrap.fill(" ".join(SENTENCES), width)) == SENTENCES


@pytest.mark.parametrize(
    "lines",
    [
        [f"line {n} of the file" for n in range(10, 20)],
        ["line 18 of the file", "line 19 of the file", "the launch code is 4711"],
        [f"2031-01-{n:02} INFO worker {n} is idle" for n in range(10, 20)],
        [f"[12:{n}] ready. Waiting for more" for n in range(10, 20)],
        ["name,age,city", "Anna Schmidt,34,Berlin", "Bob Jones,51,Leeds"],
        [f"Person{n},{n},Town{n}" for n in range(10, 20)],
        ["apples", "pears and a few plums", "bread", "butter"],
    ],
    ids=["numbered", "last", "log", "stops", "table", "one width", "list"],
)
def test_lines_stay_lines(lines):
    assert units("\n".join(lines)) == lines


def test_a_paragraph_on_one_line_has_sentences():
    paragraphs = [" ".join(SENTENCES) * 2, "Short.", " ".join(SENTENCES) * 2 + " More of it."]
    assert units("\n".join(paragraphs))[0] == SENTENCES[0]


def test_headings_are_left_out():
    assert units("# The key\n\nThe key\n=======\n\nIt is red.") == ["It is red."]
