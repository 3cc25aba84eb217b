"""In which iterations an answer was computed: of real runs, by the sources of their cells."""

from __future__ import annotations

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.frontends.agents.citations import iterations_behind
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ModelUnavailableError

CASES = [
    (["n = len(context)", "m = 3", "FINAL(n)"], [1, 3]),
    (["a = 1", "b = a + 1", "c = 9", "FINAL_VAR('b')"], [1, 2, 4]),
    (["found = []", "import re\nfound.append(1)", "x = re", "found[0] = 2", "FINAL(str(found))"], [1, 2, 4, 5]),
    (["def count(x):\n    return len(x)", "print(count(context))", "FINAL(count(context))"], [1, 3]),
    (["print('Paris, it says')", "print('nothing')", "FINAL('Paris')"], [1, 3]),
    (["print(1)", "print(2)", "FINAL('typed, from nowhere')"], [1, 2, 3]),
    (["text = context[:9]\nFINAL(text)"], [1]),
    (["n = 1", "raise ValueError(n)", "n += 1", "FINAL(n)"], [1, 3, 4]),
    (["%%time\nn = 1", "answer['content'] = n\nanswer['ready'] = True"], [1, 2]),
]


@pytest.mark.parametrize(("cells", "behind"), CASES)
def test_the_iterations_are_those_that_made_the_answer(cells: list[str], behind: list[int]) -> None:
    model = ScriptedModel([f"```repl\n{cell}\n```" for cell in cells])
    result = RLM(model, save=False).completion("What?", "A text about Paris.")
    assert result.answer is not None
    assert iterations_behind(result.trajectory) == behind


def test_a_run_without_an_answer_has_none_behind_it() -> None:
    model = ScriptedModel(["```repl\nn = 1\n```", ModelUnavailableError("gone")])
    with pytest.raises(ModelUnavailableError) as failed:
        RLM(model, save=False).completion("What?", "A text.")
    assert failed.value.result.trajectory.iterations
    assert iterations_behind(failed.value.result.trajectory) == []
