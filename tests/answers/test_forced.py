"""The reply to a forced final call, read as what it is; and limits that are met inside a sub-call."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.values import Reply
from tests.answers.conftest import Stage
from tests.answers.fates import SLEEP
from tests.answers.table import GO_ON, LOOK, NEXT, block, fence

HAVE = block(
    "print('2024-11-12', 41 + 1)",
    "x = 'value'",
    "rows = ['first', 'second']",
    "total = 42",
    "answer = 'Paris'",
    "def f(): pass",
)

FORCED_REPLIES: list[tuple[str, str, str | None]] = [
    ("prose", "the best guess", "the best guess"),
    ("prose of several lines", "one\n\ntwo", "one\n\ntwo"),
    ("prose with white space around it", "\n the best guess \n", "the best guess"),
    ("FINAL of text", "FINAL(Paris)", "Paris"),
    ("the question itself", "What is it?", None),
    ("FINAL of the question itself", "FINAL(what is it)", None),
    ("FINAL after a sentence", "I know it.\nFINAL(Paris)", "Paris"),
    ("FINAL in double quotes", 'FINAL("Paris")', "Paris"),
    ("FINAL in single quotes", "FINAL('Paris')", "Paris"),
    ("FINAL with brackets", "FINAL(one (or two))", "one (or two)"),
    ("FINAL of a date", "FINAL(2024-11-12)", "2024-11-12"),
    ("FINAL of a variable", "FINAL(x)", "value"),
    ("FINAL of a number's variable", "FINAL(total)", "42"),
    ("FINAL of a quoted name", "FINAL('x')", "x"),
    ("FINAL_VAR", "FINAL_VAR(x)", "value"),
    ("FINAL_VAR, quoted", 'FINAL_VAR("x")', "value"),
    ("FINAL_VAR of a rebound answer", "FINAL_VAR(answer)", "Paris"),
    ("FINAL_VAR before FINAL", "FINAL(no)\nFINAL_VAR(x)", "value"),
    ("FINAL_VAR that is missing", "FINAL_VAR(gone)", None),
    ("FINAL_VAR of no text", "FINAL_VAR(f)", None),
    ("in a block: text", block("FINAL('Paris')"), "Paris"),
    ("in a block: a number", block("FINAL(42)"), "42"),
    ("in a block: SUBMIT", block("SUBMIT(answer='Paris')"), "Paris"),
    ("in a block: prose", block("FINAL(the answer (with parens))"), "the answer (with parens)"),
    ("in a block: a variable", block("FINAL(x)"), "value"),
    ("in a block: FINAL_VAR", block("FINAL_VAR(x)"), "value"),
    ("in a block: FINAL_VAR, quoted", block("FINAL_VAR('x')"), "value"),
    ("in a block: a name there isn't", block("FINAL(gone)"), None),
    ("in a block: a call", block("FINAL(len(context))"), None),
    ("in a block: an f-string", block("FINAL(f'{x}!')"), None),
    ("in a block: arithmetic", block("FINAL(total * 2)"), None),
    ("in a block: an f-string of text", block("FINAL(f'Paris')"), "Paris"),
    ("in a block: code, then text", block("y = x.upper()", "FINAL('Paris')"), "Paris"),
    ("in the second of two blocks", fence("y = 1") + "\n" + fence("FINAL('Paris')"), "Paris"),
    ("in a block: None", block("FINAL(None)"), None),
    ("in a block: ...", block("FINAL(...)"), None),
    ("in a block: nothing", block("FINAL()"), None),
    ("in a block: a comment", block("# FINAL('no')", "x"), None),
    ("in a block: a string", block("s = '''\nFINAL(no)\n'''"), None),
    ("in a block: a branch", block("if gone:", "    FINAL('no')"), None),
    ("in a block: after a change", block("x = x.upper()", "FINAL(x)"), None),
    ("code", block("print(context)"), None),
    ("code and prose", "I look once more.\n" + fence("print(context)"), None),
    ("a python block", block("print(context)", tag="python"), None),
    ("a block that is cut off", "```repl\nFINAL('Par", None),
    ("an announcement", "I will call FINAL(x) now.", "I will call FINAL(x) now."),
]


@pytest.mark.parametrize(("reply", "answer"), [case[1:] for case in FORCED_REPLIES], ids=[c[0] for c in FORCED_REPLIES])
def test_a_forced_reply_is_read_as_what_it_is(stage: Stage, reply: str, answer: str | None) -> None:
    played = stage.play([HAVE, reply], max_iterations=1)
    assert (played.answer, played.stop_reason) == (answer, "iterations")
    assert len(played.requests) == 2
    assert len(played.iterations) == 1
    assert played.statuses() == ("ok",)


def test_a_forced_reply_runs_nothing(stage: Stage) -> None:
    played = stage.play([LOOK, block("print('ran')", "FINAL(context)")], max_iterations=1)
    assert played.answer is None
    trajectory = played.result.trajectory
    assert sum(len(iteration.cells) for iteration in trajectory.iterations) == 1
    assert trajectory.forced is not None


SPENDS: list[tuple[str, dict[str, Any], str]] = [
    ("subcalls", {"max_subcalls": 0}, "llm_query('x')"),
    ("tokens", {"max_tokens": 22_000}, "llm_query('x' * 50_000)"),
    ("cost", {"max_cost": 0.22, "price": 1e-5}, "llm_query('x' * 50_000)"),
    ("seconds", {"max_seconds": 2.5, "late": {0: 60.0}}, "llm_query('x')"),
    ("the window", {"window": 16_000}, "llm_query('x' * 100_000)"),
    ("the model", {}, "llm_query('x', model='no/model')"),
]
each_limit = pytest.mark.parametrize(("options", "call"), [case[1:] for case in SPENDS], ids=[c[0] for c in SPENDS])


@each_limit
def test_a_cell_answers_after_its_sub_call_met_a_limit(stage: Stage, options: dict[str, Any], call: str) -> None:
    source = f"try:\n    {call}\nexcept BaseException as error:\n    FINAL('kept in spite of ' + type(error).__name__)"
    played = stage.play([LOOK, block(source), GO_ON], sub=str, **options)
    assert played.answer in {"kept in spite of SubcallError", "kept in spite of KeyboardInterrupt"}
    assert played.stop_reason == "answered"
    assert len(played.requests) == 2


@each_limit
def test_an_answer_before_a_sub_call_that_meets_a_limit_stands(
    stage: Stage, options: dict[str, Any], call: str
) -> None:
    started = f"import threading\nt = threading.Thread(target=lambda: {call}, daemon=True)"
    source = f"{started}\nthreading.excepthook = lambda _: None\nFINAL('kept')\nt.start(); t.join(5)"
    played = stage.play([LOOK, block(source), GO_ON], sub=str, **options)
    assert (played.answer, played.stop_reason) == ("kept", "answered")


@pytest.mark.slow
@each_limit
def test_what_a_failed_sub_call_says_is_no_answer(stage: Stage, options: dict[str, Any], call: str) -> None:
    batched = call.replace("llm_query(", "llm_query_batched([").replace(")", "])", 1)
    batched = batched.replace(", model='no/model'])", "], model='no/model')")
    for source in (f"FINAL({call})", f"FINAL({batched}[0])", f"answer.update(content={batched}[0], ready=True)"):
        played = stage.play([LOOK, block(source), GO_ON], sub=str, **options)
        assert played.answer in {None, NEXT}, source
        assert (played.answer == NEXT) == (played.stop_reason == "answered")


def test_a_child_that_met_its_limit_answers_with_what_it_has() -> None:
    child = ScriptedModel([LOOK, block("print(1)"), "the child's guess"], name="scripted/child")
    root = ScriptedModel([block("part = rlm_query('the part')"), block("FINAL(part)")])
    limits = Limits(max_depth=2, max_iterations=2)
    result = RLM(root, sub_model=child, limits=limits, save=False).completion("What is it?", "some text")
    assert (result.answer, result.stop_reason) == ("the child's guess", "answered")


def test_a_child_without_an_answer_is_an_error_and_no_answer() -> None:
    child = ScriptedModel([LOOK, block("print(1)"), block("print(2)")], name="scripted/child")
    root = ScriptedModel([block("FINAL(rlm_query('the part'))"), block("FINAL(f'without: {context}')")])
    limits = Limits(max_depth=2, max_iterations=2)
    result = RLM(root, sub_model=child, limits=limits, save=False).completion("What is it?", "some text")
    assert (result.answer, result.stop_reason) == ("without: some text", "answered")
    assert "without an answer" in result.trajectory.iterations[0].shown


def test_an_unreadable_answer_is_told_and_asked_for_again(stage: Stage) -> None:
    reply = Reply(block("FINAL(print)"), "scripted/relay")
    played = stage.play([LOOK, reply, f"FINAL({NEXT})"], max_iterations=3)
    assert (played.answer, played.stop_reason) == (NEXT, "answered")


def test_a_cell_that_timed_out_leaves_its_variables_to_a_forced_reply(stage: Stage) -> None:
    played = stage.play([block("x = 'so far'", SLEEP), "FINAL_VAR(x)"], max_iterations=1, cell_seconds=1.0)
    assert (played.answer, played.stop_reason) == ("so far", "iterations")
