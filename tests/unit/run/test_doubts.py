"""An answer that only says that nothing was found is asked about once; all others are taken as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.prompts import cues
from tests.faults.runs import block

TEXT = "It was late. " * 90 + "Badge 3133 is Viktor's."
LOOKS = block("print('badge' in context)")


@pytest.mark.parametrize("said", ["No match found.", "No errors were found"])
async def test_what_was_not_found_is_looked_for_once_more(said: str) -> None:
    model = ScriptedModel([LOOKS, block(f"FINAL({said!r})"), block(f"FINAL({said!r})")])
    result = await RLM(model, save=False).acompletion("How many errors?", TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == (said, 2)
    assert [reply.rejected for reply in result.trajectory.rejected] == ["has no answer in its FINAL (1)"]
    assert cues.NOT_FOUND in model.requests[2][-1].content
    assert model.requests[2][-1].content.startswith(model.requests[1][-1].content)


@pytest.mark.parametrize("said", ["Number of errors: 0", "0", "3133", "badge 3133"])
async def test_any_other_answer_is_taken_as_it_comes(said: str) -> None:
    model = ScriptedModel([block("print(context.count('no such word'), 'badge 3133')"), block(f"FINAL({said!r})")])
    result = await RLM(model, save=False).acompletion("What is the name of the person?", TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == (said, 2)


async def test_a_run_that_is_taken_up_again_is_told_the_same(tmp_path: Path) -> None:
    replies = [LOOKS, block("FINAL('No match found.')"), block("print('Viktor')"), "Hm.", "my guess"]
    model = ScriptedModel(replies)
    first = await RLM(model, limits=Limits(max_iterations=3), save=tmp_path / "run.rlm").acompletion("Who?", TEXT)
    assert first.path is not None
    after = ScriptedModel([block("FINAL('Viktor')")])
    result = await RLM.aresume(first.path, model=after, max_iterations=4)
    assert result.answer == "Viktor"
    assert after.requests[0][: len(model.requests[2])] == model.requests[2]


async def test_a_first_reply_is_not_doubted_for_there_is_nothing_yet_to_say_it_beside() -> None:
    model = ScriptedModel([block("FINAL('No match found.')")])
    result = await RLM(model, save=False).acompletion("Who?", "Badge 3133.")
    assert (result.answer, result.trajectory.rejected) == ("No match found.", ())
