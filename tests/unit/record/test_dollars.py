"""Which dollar signs a page may take for a formula's."""

from __future__ import annotations

import pytest

from rlm_jupyter.record.dollars import ALONE, keep_amounts
from rlm_jupyter.record.safe_html import markdown

AMOUNTS = [
    "It cost $5 in 2020 and $7 in 2021",
    "between $5-$7, or $1,000.50/$2,000",
    "**$5** and *$7*",
    r"already \$5 and \$7",
    "$ 5 and 7 $",
    "US$5, then 7$ and 8$",
]
FORMULAS = ["$E=mc^2$", "so $a*b*c$ holds", "$x_1 + x_2$ and $y$", "$$\nx = 1\n$$", "$a<b$"]
CODE = ["`$HOME` and `$PATH`", "```\n$a and $b\n```", "~~~sh\necho $a $b\n~~~\n", "``$a ` $b``"]


@pytest.mark.parametrize("text", AMOUNTS)
def test_no_amount_is_a_formula(text: str) -> None:
    for shown in (keep_amounts(text), markdown(text)):
        assert "$" not in shown
        assert shown.count(ALONE) == text.count("$")
        assert "\\" not in shown


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_stays_one(text: str) -> None:
    assert keep_amounts(text) == text
    shown = markdown(text)
    assert ALONE not in shown
    assert text.replace("<", "&lt;") in shown


@pytest.mark.parametrize("text", CODE)
def test_code_is_left_alone(text: str) -> None:
    assert keep_amounts(text) == text
    assert ALONE not in markdown(text)
    assert keep_amounts(f"{text}\n\n$5 $") == f"{text}\n\n{ALONE}5 {ALONE}"


def test_one_sign_alone_is_left_as_it_is() -> None:
    assert keep_amounts("It cost $5.") == "It cost $5."


def test_a_notebooks_cell_is_rendered_as_the_text_that_it_was_made_of() -> None:
    for text in [*AMOUNTS, *FORMULAS, *CODE]:
        assert markdown(keep_amounts(text)) == markdown(text)


def test_a_tag_in_a_formula_is_text() -> None:
    assert "<b>" not in markdown("$<b>x</b>$ $5 <i>")
