"""An answer without what the question asks for is asked about once, and a search for what leads on is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.guards.answers import missing
from tests.faults.runs import block

QUESTION = "What is the name of the person whose badge opened the cellar in Zellin?"
TEXT = (
    "Nobody had seen it. The cellar in Zellin was opened with badge 3133. It was late. " * 9 + "Badge 3133 is Viktor's."
)
NUMBER, NAME = "a number", "the name of a person"


@pytest.mark.parametrize(
    ("prompt", "answer", "what"),
    [
        (QUESTION, "3133", NAME),
        (QUESTION, "badge 3133", NAME),
        (QUESTION, "The cellar in Zellin was opened with badge 3133.", NAME),
        (QUESTION, "It was late. Nobody in the village wrote down the minutes of it, and no one asked.", NAME),
        (QUESTION, "Zellin", NAME),
        ("Which person has badge 7?", "7", NAME),
        ("Who has it?", "3133", NAME),
        ("There is a badge. Whose is it?", "3133", NAME),
        ("How many errors are there?", "The log", NUMBER),
        ("What is the sum of all amounts?", "level=ERROR", NUMBER),
    ],
)
def test_what_is_missing(prompt: str, answer: str, what: str) -> None:
    assert missing(prompt, answer) == what


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        (QUESTION, "Viktor Brandt"),
        (QUESTION, "viktor"),
        (QUESTION, "The person is Viktor."),
        (QUESTION, "Nobody"),
        (QUESTION, "It is not stated in the text."),
        (QUESTION, "Виктор"),
        (QUESTION, "A long report: " + "the cellar " * 40),
        (QUESTION + " Then tell all." * 40, "3133"),
        ("Who has it?", "the man with the hat"),
        ("Who has it?", "Bob (badge 3133)"),
        ("What did he say?", "3133"),
        ("What is the code of the one who has it?", "3133"),
        ("How many errors are there?", "7"),
        ("How many errors are there?", "Seventeen."),
        ("How many errors are there?", "There are none."),
        ("What is the average?", "about twenty"),
    ],
)
def test_what_may_be_an_answer(prompt: str, answer: str) -> None:
    assert missing(prompt, answer) is None


LOOKS = block("print('badge 3133' in context)")


@pytest.mark.parametrize(
    "said",
    [
        block("FINAL(3133)"),
        block("FINAL('badge 3133')"),
        block("FINAL(The cellar in Zellin was opened with badge 3133.)"),
        "FINAL(3133)",
    ],
)
async def test_it_is_drawn_again_once_and_said_again_it_counts(said: str) -> None:
    model = ScriptedModel([LOOKS, said, said])
    result = await RLM(model, save=False).acompletion(QUESTION, TEXT)
    assert (result.stop_reason, len(result.trajectory.iterations)) == ("answered", 2)
    assert "3133" in (result.answer or "")
    assert [reply.rejected for reply in result.trajectory.rejected] == ["has no answer in its FINAL (1)"]
    asked, told = model.requests[1], model.requests[2]
    assert len(told) == len(asked)
    assert told[-1].content.startswith(asked[-1].content)
    assert f"The question asks for {NAME}, and there is none in your answer." in told[-1].content
    assert '"3133" in text' in told[-1].content


async def test_what_was_shown_leads_on_where_the_answer_does_not_and_the_search_can_be_copied() -> None:
    finds = block("print('Zellin: badge 3133')")
    model = ScriptedModel([finds, block("FINAL('Zellin')"), block("FINAL('Viktor')")])
    await RLM(model, save=False).acompletion(QUESTION, TEXT)
    told = model.requests[2][-1].content
    copied = told[told.rindex("```repl") :]
    result = await RLM(ScriptedModel([finds, copied, block("FINAL('Viktor')")]), save=False).acompletion(QUESTION, TEXT)
    assert result.answer == "Viktor"
    assert "Badge 3133 is Viktor's." in result.trajectory.iterations[1].shown


@pytest.mark.parametrize("said", ["No match found.", "No errors were found"])
async def test_what_was_not_found_is_looked_for_once_more(said: str) -> None:
    model = ScriptedModel([LOOKS, block(f"FINAL({said!r})"), block(f"FINAL({said!r})")])
    result = await RLM(model, save=False).acompletion("How many errors?", TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == (said, 2)
    assert (
        "Before you conclude that there is nothing, reply with a block that shows how it is written"
        in model.requests[2][-1].content
    )


@pytest.mark.parametrize("said", ["Number of errors: 0", "0"])
async def test_a_count_of_none_is_an_answer(said: str) -> None:
    model = ScriptedModel([block("print(context.count('no such word'))"), block(f"FINAL({said!r})")])
    result = await RLM(model, save=False).acompletion("How many errors?", TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == (said, 2)
    assert "Nothing was found" not in model.requests[1][-1].content


async def test_a_value_that_was_computed_counts_and_so_does_what_is_said_last() -> None:
    looks = block("badge = 3133", "badge")
    result = await RLM(ScriptedModel([looks, block("FINAL(badge)")]), save=False).acompletion(QUESTION, TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == ("3133", 2)
    result = await RLM(ScriptedModel([looks, "FINAL(badge)"]), save=False).acompletion(QUESTION, TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == ("3133", 2)
    last = RLM(ScriptedModel([looks, block("FINAL(3133)")]), limits=Limits(max_iterations=2), save=False)
    assert (await last.acompletion(QUESTION, TEXT)).answer == "3133"


async def test_without_a_context_there_is_nowhere_to_look() -> None:
    model = ScriptedModel([block("print(3133)"), block("FINAL(3133)")])
    assert (await RLM(model, save=False).acompletion(QUESTION)).answer == "3133"


async def test_a_run_that_is_taken_up_again_is_told_the_same(tmp_path: Path) -> None:
    replies = [LOOKS, block("FINAL(3133)"), block("print('Viktor')"), "Hm.", "my guess"]
    model = ScriptedModel(replies)
    first = await RLM(model, limits=Limits(max_iterations=3), save=tmp_path / "run.rlm").acompletion(QUESTION, TEXT)
    assert first.path is not None
    after = ScriptedModel([block("FINAL('Viktor')")])
    result = await RLM.aresume(first.path, model=after, max_iterations=4)
    assert result.answer == "Viktor"
    assert after.requests[0][: len(model.requests[2])] == model.requests[2]


async def test_a_first_reply_is_not_doubted_for_there_is_nothing_yet_to_say_it_beside() -> None:
    model = ScriptedModel([block("FINAL(3133)")])
    result = await RLM(model, save=False).acompletion(QUESTION, "Badge 3133.")
    assert (result.answer, result.trajectory.rejected) == ("3133", ())
