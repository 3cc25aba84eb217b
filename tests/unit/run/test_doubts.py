"""An answer is taken as it comes, also one that only says that nothing was found."""

from __future__ import annotations

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from tests.faults.runs import block

TEXT = "It was late. " * 90 + "Badge 3133 is Viktor's."
LOOKS = block("print('badge' in context)")


@pytest.mark.parametrize("said", ["No match found.", "Number of errors: 0", "0", "3133", "badge 3133"])
async def test_an_answer_is_taken_as_it_comes(said: str) -> None:
    model = ScriptedModel([block("print(context.count('no such word'), 'badge 3133')"), block(f"FINAL({said!r})")])
    result = await RLM(model, save=False).acompletion("What is the name of the person?", TEXT)
    assert (result.answer, len(result.trajectory.iterations)) == (said, 2)
