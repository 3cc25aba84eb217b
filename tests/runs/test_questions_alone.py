"""What a small model gets wrong about its own words: a sub-call without a passage, an answer without its quotes."""

from __future__ import annotations

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.result import Result
from tests.answers.table import fence

TEXT = "\n".join(f"{number} Oslo" for number in range(2_000))
ALONE = "Which town has the most lines?"


def told(model: ScriptedModel, request: int) -> str:
    return model.requests[request][-1].content


async def run(model: ScriptedModel, context: object = TEXT) -> Result:
    return await RLM(model, save=False).acompletion("Which town?", context)


async def test_a_lone_question_is_sent_only_when_it_is_asked_once_more() -> None:
    cells = [f"print(llm_query({ALONE!r}))", "print(llm_query('Name a large town.'))", "FINAL('done')"]
    model = ScriptedModel([*map(fence, cells)], sub=lambda _: "Beijing")
    result = await run(model)
    assert "nothing of `context`" in told(model, 1)
    assert "Beijing" not in told(model, 1)
    assert "Beijing" in told(model, 3)  # the request between is the sub-call's
    assert [call.refused for call in result.trajectory.subcalls] == [True, False]


@pytest.mark.parametrize(
    "cell",
    [
        f"llm_query({ALONE!r} + context[:50])",
        "llm_query('Which town?\\n\\n12 Oslo')",
        "llm_query('Is this a town: Oslo')",
        "llm_query_batched(['Is Oslo a town?', 'Is Rome a town?'])",
    ],
)
async def test_what_may_hold_a_passage_is_sent(cell: str) -> None:
    model = ScriptedModel([fence(f"print({cell})"), fence("FINAL('done')")], sub=lambda _: "Beijing")
    await run(model)
    assert "Beijing" in told(model, -1)


async def test_a_lone_question_is_sent_where_all_of_the_context_is_shown() -> None:
    model = ScriptedModel([fence(f"print(llm_query({ALONE!r}))"), fence("FINAL('done')")], sub=lambda _: "Beijing")
    await run(model, "Oslo")
    assert "Beijing" in told(model, -1)


@pytest.mark.parametrize(
    ("shown", "final", "answer"),
    [
        ("'Oslo'", "FINAL(Oslo)", "Oslo"),
        ("'Most lines: Oslo'", "FINAL(Oslo)", "Oslo"),
        ("['Oslo', 'Rome']", "FINAL(['Oslo', 'Rome'])", "['Oslo', 'Rome']"),
        ("'host-12'", "FINAL(host-12)", "host-12"),
        ("'Oslo, Rome'", "FINAL(Oslo, Rome)", "Oslo, Rome"),
        ("'Phone: 1154-764414'", "FINAL(1154-764414)", "1154-764414"),
        ("'2031-4-5'", "FINAL(2031-4-5)", "2031-4-5"),
        ("'Unit: km/h'", "FINAL(km/h)", "km/h"),
        ("f'Total: {1234:,}'", "FINAL(1,234)", "1,234"),
        ("'between 3 and 12'", "FINAL(12-3)", "9"),
        ("'a sum: 7'", "FINAL(3+4)", "7"),
    ],
)
async def test_an_answer_that_was_shown_needs_no_quotes(shown: str, final: str, answer: str) -> None:
    model = ScriptedModel([fence(f"print({shown})"), fence(final)])
    result = await run(model)
    assert (result.answer or "").replace('"', "'") == answer


async def test_a_label_or_a_variable_is_no_text() -> None:
    replies = ["print('total: 12')", "FINAL(total)", "total = 12\nprint('total')", "FINAL(total)"]
    model = ScriptedModel([*map(fence, replies)])
    result = await run(model)
    assert "A text stands in quotes: FINAL('total')." in told(model, 2)
    assert result.answer == "12"
