"""What nobody could know is not asked, and not answered: a question alone, an unseen text, a figure from nowhere."""

from __future__ import annotations

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.guards.subcalls import is_bare
from tests.faults.runs import block

QUESTION = "How many messages of the service billing have the level ERROR?"
TEXT = "a text" * 200
"""Longer than what a model is shown of it."""


@pytest.mark.parametrize(
    "prompt",
    [
        QUESTION,
        f"  {QUESTION.lower()}\n",
        "How many messages have the level ERROR?",
        "How many ERROR messages have been logged by the service billing?",
        "Count the messages of the level ERROR.",
    ],
)
def test_the_question_in_a_line_is_bare(prompt: str) -> None:
    assert is_bare(prompt, QUESTION)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "?",
        "ERROR?",
        f"{QUESTION}\n\n2031-01-02 ERROR billing",
        f"{QUESTION} 2031-01-02 ERROR billing",
        f"{QUESTION} The service is Mailer.",
        f"{QUESTION} There is no text, guess from what such services are known for.",
        "What is an invoice?",
        "Is this an ERROR? disk full",
        f"{QUESTION} {'x' * 500}",
    ],
)
def test_what_has_anything_to_answer_from_or_asks_something_else_is_not(prompt: str) -> None:
    assert not is_bare(prompt, QUESTION)


BEGINNING = "2031-01-02 ERROR billing\n2031-01-03 INFO mailer\n"


@pytest.mark.parametrize(
    "prompt",
    [
        f"{QUESTION}\n\n{BEGINNING}",
        f"{QUESTION}\n\n<beginning>\n{BEGINNING}</beginning>\n",
        f"YOUR QUESTION\n\n{BEGINNING}",
        f"YOUR QUESTION\n\n{QUESTION}",
        "QUESTION",
        BEGINNING,
    ],
)
def test_what_the_model_that_asks_was_shown_itself_is_no_passage(prompt: str) -> None:
    assert is_bare(prompt, QUESTION, BEGINNING)


@pytest.mark.parametrize(
    "prompt",
    [
        f"{QUESTION}\n\n{BEGINNING}2031-01-04 ERROR billing\n",
        f"How is a line of this log made up?\n\n{BEGINNING}",
        f"{QUESTION}\n\n2031-01-04 ERROR billing",
        f"{QUESTION}\n\n{BEGINNING}" + "x" * 900,
        "",
    ],
)
def test_what_goes_beyond_it_is(prompt: str) -> None:
    assert not is_bare(prompt, QUESTION, BEGINNING)


def model(*replies: str) -> ScriptedModel:
    return ScriptedModel(list(replies), sub=lambda prompt: f"<{prompt[-6:]}>")


async def test_a_bare_sub_call_is_refused_before_it_costs_and_the_run_goes_on() -> None:
    tries = [
        block(f"llm_query({QUESTION!r})"),
        block(f"print([str(reply) for reply in llm_query_batched([{QUESTION!r}] * 2)])"),
        block(f"print(llm_query({QUESTION!r} + '\\n\\n' + context))"),
        block("FINAL('seven')"),
    ]
    asked = model(*tries)
    result = await RLM(asked, save=False).acompletion(QUESTION, TEXT)
    first, second, third = [iteration.shown for iteration in result.trajectory.iterations[:3]]
    assert "reads this prompt and nothing else, not `context`" in first
    assert second.count("reads this prompt and nothing else") == 2
    assert "<a text>" in third
    assert [call.refused for call in result.trajectory.subcalls] == [True] * 3 + [False]
    assert sum(len(messages) == 1 for messages in asked.requests) == 1
    assert result.answer == "seven"


@pytest.mark.parametrize(("lines", "refused"), [(200, True), (20, False)])
async def test_what_the_asking_model_was_shown_is_handed_on_only_where_it_is_all(lines: int, refused: bool) -> None:
    asks = block(f"print(llm_query({QUESTION!r} + '\\n\\n' + '\\n'.join(context.splitlines()[:20])))")
    text = "".join(f"line {number}\n" for number in range(lines))
    result = await RLM(model(asks, block("print(7)"), block("FINAL(7)")), save=False).acompletion(QUESTION, text)
    assert result.answer == "7"
    assert [call.refused for call in result.trajectory.subcalls] == [refused]


async def test_where_there_is_no_context_a_question_is_all_there_is() -> None:
    result = await RLM(model(block(f"FINAL(llm_query({QUESTION!r}))")), save=False).acompletion(QUESTION)
    assert result.answer == "<ERROR?>"


async def test_a_text_that_was_never_looked_at_is_not_answered_by_force() -> None:
    talks = model("I think so.", "I still think so.", "42", "43")
    result = await RLM(talks, limits=Limits(max_iterations=2), save=False).acompletion(QUESTION, TEXT)
    assert (result.answer, result.stop_reason, len(talks.requests)) == (None, "iterations", 2)


@pytest.mark.parametrize(
    "said", ["1,200", "There are 1200 of them.", "None of them.", "1200.0", "7 of 1200", "42 " * 80]
)
async def test_a_forced_answer_is_taken_as_it_is(said: str) -> None:
    result = await forced(said)
    assert (result.answer, result.stop_reason) == (said.strip(), "iterations")


@pytest.mark.parametrize("said", ["42", "There are 42 of them.", "12", "1200.5"])
async def test_unless_it_is_short_and_its_figures_stand_nowhere(said: str) -> None:
    result = await forced(said)
    assert (result.answer, result.stop_reason) == (None, "iterations")
    assert "is not taken for an answer: " in result.message
    assert said in result.message


async def test_a_figure_of_the_prompt_or_of_what_was_shown_of_the_context_is_known() -> None:
    assert (await forced("42", prompt="Is it 41 or 42?")).answer == "42"
    assert (await forced("42", context="It says 42. " * 100)).answer == "42"


async def test_a_figure_in_a_traceback_is_not() -> None:
    assert (await forced("1200", cell="1 / 0  # 1200")).answer is None


@pytest.mark.parametrize(
    "said",
    [
        QUESTION,
        "The messages of the service billing have the level ERROR.",
        "How many messages of the service billing have that.",
    ],
)
async def test_nor_is_the_question_itself_an_answer(said: str) -> None:
    result = await forced(said)
    assert (result.answer, result.stop_reason) == (None, "iterations")
    assert "it is the question again" in result.message


async def test_nothing_is_answered_by_force_from_code_that_showed_nothing() -> None:
    tries = model(block("total = 41"), "I think so.", "42")
    result = await RLM(tries, limits=Limits(max_iterations=2), save=False).acompletion("Is it 41 or 42?", TEXT)
    assert (result.answer, len(tries.requests)) == (None, 3)
    assert "no code has shown anything" in result.message


async def test_nor_is_it_one_that_nothing_was_found() -> None:
    result = await forced("No match found.")
    assert (result.answer, result.stop_reason) == (None, "iterations")
    assert "No match found., is not taken for an answer: it only says that nothing was found" in result.message
    assert (await forced("found: 0", cell="print(0)")).answer == "found: 0"


@pytest.mark.parametrize("said", ["the service billing", "The service billing has none of the level ERROR, it seems."])
async def test_but_its_words_may_be(said: str) -> None:
    assert (await forced(said)).answer == said


async def test_a_variable_is_taken_whatever_it_holds() -> None:
    assert (await forced("FINAL(total)", cell="total = 40 + 2")).answer == "42"


async def forced(said: str, *, prompt: str = QUESTION, context: str = TEXT, cell: str = "len(context)") -> Result:
    """A run that looks, talks, and is asked for its last word."""
    cells = [block("print('seen')"), block(cell), "I think so."]
    return await RLM(model(*cells, said), limits=Limits(max_iterations=3), save=False).acompletion(prompt, context)
