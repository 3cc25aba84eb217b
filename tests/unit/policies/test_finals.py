import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rlm_jupyter.policies import FinalPatternTerminationPolicy, PolicyContext, PolicyRegistry
from rlm_jupyter.types.errors import ConfigurationError
from tests.support.pace import Pace
from tests.unit.policies.cases import EMPTY_FINAL, FINAL, START, Verdict, code, policy

DEFAULTS = FinalPatternTerminationPolicy.get_default_config()["final_patterns"]
VARIABLES = PolicyContext(variables={"result": 4950, "n": 7, "text": "a\nb"})


def read(output: str, **config: Any) -> Verdict:
    return policy("final_pattern", **config).should_terminate(code(output), VARIABLES)


def test_declared_ends_on_a_declared_answer_alone() -> None:
    declared = policy("declared")
    assert declared.should_terminate(FINAL, START) == (True, "42")
    assert declared.should_terminate(EMPTY_FINAL, START) == (True, None)
    for output in ("FINAL(42)", "FINAL('42')", "FINAL_VAR(result)"):
        assert declared.should_terminate(code(output), VARIABLES) == (False, None)
    assert not declared.judges_final
    assert not declared.wants_logprobs
    with pytest.raises(ConfigurationError, match="declared: unknown setting 'x'; it has none"):
        policy("declared", x=1)


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("After computing, the answer is FINAL('42')", "42"),
        ("FINAL('42')", "42"),
        ("FINAL(42)", "42"),
        ("FINAL( 42 )", "42"),
        ('So FINAL( "42" ) it is.', "42"),
        ("some lines\n  FINAL(f(1,2))\nmore", "f(1,2)"),
        ("FINAL(answer (with (nested)) parens)", "answer (with (nested)) parens"),
        ('it is FINAL("a (b (c)) d") then', "a (b (c)) d"),
        ('FINAL("a ) b")', "a ) b"),
        (r"so FINAL('it\'s \"it\"')", 'it\'s "it"'),
        ("FINAL('line1\nline2')", "line1\nline2"),
        ('FINAL(see FINAL("x") there)', 'see FINAL("x") there'),
        ("FINAL(3)\r\nmore", "3"),
        ("final(draft)", "draft"),
        ("FINAL('')", ""),
        ("FINAL()", ""),
        ("FINAL_VAR('result')", "4950"),
        ("FINAL_VAR(result)", "4950"),
        ('I think it is FINAL_VAR("result").', "4950"),
        ("FINAL_VAR(text)", "a\nb"),
        ("FINAL('x')\nFINAL_VAR(result)", "4950"),
        ("FINAL(3)\nso FINAL('x')", "x"),
        ("a FINAL('1')\nFINAL('2')", "1"),
        ("```\nFINAL(3)\n```", "3"),
    ],
)
def test_what_reads_like_an_answer_is_one(output: str, answer: str) -> None:
    assert read(output) == (True, answer)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "the semi final (Germany vs Spain)",
        "SEMIFINAL(3)",
        "SEMIFINAL('3')",
        "semi.final('3')",
        "we call it final (draft)",
        "I will call FINAL(x) later",
        "I will call FINAL_VAR(result) later",
        "def FINAL(x): pass",
        "    def FINAL(x):\n        return x",
        "def FINAL('x')",
        "write `FINAL('x')` when done",
        "FINAL_VAR('missing')",
        "FINAL_VAR(missing)",
        "FINAL_VAR(result + 1)",
        "FINAL_VAR()",
        "FINAL_VAR(missing)\nFINAL(3)",
        "FINAL(never closed",
        "so FINAL('never closed",
        "so FINAL('two\nlines')",
        "FINAL",
        "FINAL_VARS('result')",
        "FINAL_ANSWER(3)",
    ],
)
def test_nothing_else_is_an_answer(output: str) -> None:
    assert read(output) == (False, None)


def test_a_final_action_ends_with_its_output() -> None:
    assert policy("final_pattern").should_terminate(FINAL, START) == (True, "42")
    assert policy("final_pattern").should_terminate(EMPTY_FINAL, START) == (True, None)
    # it is taken as it is, and not searched
    assert policy("final_pattern").should_terminate(type(FINAL)("final", success=True, output="FINAL('3')"), START) == (
        True,
        "FINAL('3')",
    )


def test_there_are_three_entries_to_keep_or_to_drop() -> None:
    assert DEFAULTS == ["FINAL_VAR(...)", 'FINAL("...")', "FINAL(...)"]
    variable, quoted, unquoted = DEFAULTS
    outputs = ("FINAL_VAR(result)", "so FINAL('q')", "FINAL(u)")
    only = {
        entry: [answer for output in outputs for ends, answer in [read(output, final_patterns=[entry])] if ends]
        for entry in DEFAULTS
    }
    assert only == {variable: ["4950"], quoted: ["q"], unquoted: ["u"]}
    assert [read(output, final_patterns=[])[0] for output in outputs] == [False] * 3
    # the order is the user's
    assert read("FINAL_VAR(result)\nFINAL(3)", final_patterns=[unquoted, variable]) == (True, "3")
    # what is changed is a copy
    FinalPatternTerminationPolicy.get_default_config()["final_patterns"].clear()
    assert read("FINAL(3)") == (True, "3")


@pytest.mark.parametrize(
    ("pattern", "output", "answer"),
    [
        (r"ANSWER:\s*(.+?)$", "ANSWER: 42", "42"),
        (r"ANSWER:\s*(.+?)$", "first\nANSWER: 42 \nlast", "42"),
        (r"ANSWER:\s*(.+?)$", "first\r\nanswer: forty-two\r\nlast", "forty-two"),
        (r"SOLUTION\s*=\s*(.+?)$", "SOLUTION = 42", "42"),
        (r"SOLUTION\s*=\s*(.+?)$", "a = 1\nSOLUTION=x (y)\nb = 2", "x (y)"),
        (r"^DONE: \d+", "we say DONE: 1\nDONE: 2", "DONE: 2"),
        (r"(?:A=(\d)|B=(\d))", "B=3", "3"),
        (r"FINAL\s*\(\s*['\"](.+?)['\"]\s*\)", "the answer is FINAL ('42')", "42"),
        (r"FINAL_VAR\s*\(\s*['\"](\w+)['\"]\s*\)", "it is FINAL_VAR ('result')", "4950"),
        (r"final_var<(\w+)>", "final_var<n>", "7"),
    ],
)
def test_patterns_of_ones_own(pattern: str, output: str, answer: str) -> None:
    for patterns in ([pattern], [*DEFAULTS, pattern]):
        assert read(output, final_patterns=patterns) == (True, answer)


def test_patterns_beside_the_three() -> None:
    both = [*DEFAULTS, r"ANSWER:\s*(.+?)$"]
    assert read("ANSWER: 1\nFINAL(2)", final_patterns=both) == (True, "2")
    assert read("ANSWER: 1\nFINAL(2)", final_patterns=both[::-1]) == (True, "1")
    assert read("FINAL(2)", final_patterns=both[3:]) == (False, None)
    assert read("FINAL_VAR<missing>", final_patterns=[r"FINAL_VAR<(\w+)>"]) == (False, None)


def test_case_and_extraction() -> None:
    assert read("final(3)", case_sensitive=True) == (False, None)
    assert read("so final('3')", case_sensitive=True) == (False, None)
    assert read("final_var(n)", case_sensitive=True) == (False, None)
    assert read("so FINAL('3')", case_sensitive=True) == (True, "3")
    assert read("answer: 3", final_patterns=["ANSWER: (.)"], case_sensitive=True) == (False, None)
    assert read("a\nFINAL(3)\nb", extract_answer=False) == (True, "a\nFINAL(3)\nb")
    assert read("so FINAL_VAR(n)\nFINAL_VAR(n)", extract_answer=False) == (True, "so FINAL_VAR(n)\nFINAL_VAR(n)")
    assert read("FINAL_VAR(missing)", extract_answer=False) == (False, None)
    assert read("a\nX=3\nb", final_patterns=["X=(.)"], extract_answer=False) == (True, "a\nX=3\nb")


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"final_patterns": ["("]}, r"final_pattern: '\(' is no regular expression"),
        ({"final_patterns": "FINAL"}, "a list of regular expressions is needed, not 'FINAL'"),
        ({"final_patterns": [3]}, r"not \[3\]"),
        ({"final_patterns": 3}, "not 3"),
        ({"case_sensitive": "no"}, "case_sensitive: True or False is needed, not 'no'"),
        ({"extract_answer": None}, "extract_answer: True or False"),
    ],
)
def test_settings_are_checked(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        PolicyRegistry.get_termination("final_pattern", config)


class Lazy(Mapping[str, Any]):
    """Variables that are fetched when they are looked up, as those of a run."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.fetched.append(name)
        return {"big": "whole"}[name]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all variables were asked for")

    def __len__(self) -> int:
        raise AssertionError("all variables were counted")


def test_only_the_variable_that_is_named_is_fetched_and_once() -> None:
    variables = Lazy()
    context = PolicyContext(variables=variables)
    policy("final_pattern").should_terminate(code("big FINAL(big)"), context)
    assert variables.fetched == []
    assert policy("final_pattern").should_terminate(code("FINAL_VAR(big)"), context) == (True, "whole")
    assert policy("final_pattern").should_terminate(code("FINAL_VAR(gone)"), context) == (False, None)
    assert variables.fetched == ["big", "gone"]


words = st.sampled_from(
    ["final", "Final", "FINAL", "semifinal", "FINAL_VAR", "the", "(", ")", "'x'", "(x)", " ", "\n", "def "]
)


@given(st.one_of(st.text(), st.lists(words, max_size=30).map("".join)))
@example("the semi final (Germany vs Spain)")
@example("FINAL ('x')")
def test_prose_that_opens_no_bracket_after_the_word_never_ends_a_run(prose: str) -> None:
    assume(not re.search(r"final(_var)?[^\S\n]*\(", prose, re.IGNORECASE))
    assert read(prose) == (False, None)


@given(st.text(st.characters(codec="utf-8")).filter(lambda text: "final" not in text.lower()))
def test_prose_without_the_word_never_ends_a_run(prose: str) -> None:
    assert read(prose) == (False, None)


@given(
    st.text(),
    st.sampled_from(["", "so ", "some lines\n", "x = 1;\t"]),
    st.sampled_from(["", ".", " then", "\nFINAL('other')"]),
)
def test_a_quoted_answer_comes_back_whole_wherever_it_stands(answer: str, before: str, after: str) -> None:
    assert read(f"{before}FINAL({answer!r}){after}") == (True, answer)


@pytest.mark.parametrize(
    "piece", ["FINAL('", 'FINAL("', "FINAL(", "FINAL_VAR(\"x'", "x FINAL('y", "\nFINAL(('", "FINAL('x')", "\n"]
)
def test_reading_takes_time_in_proportion_to_the_output(piece: str) -> None:
    many = piece * (300_000 // len(piece))
    pace = Pace(time.process_time)
    read(many)
    assert pace.within(5)
