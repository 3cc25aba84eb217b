"""`strategy="auto"`: the question with the whole text first, where that fits, and the loop where that is not sure."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.events import Event, RemarkMade
from rlm_jupyter.types.values import Message

TEXT = "Lima is large.\n" * 20
CELL = "I run this.\n```repl\nFINAL(context[:4])\n```"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Asked(ScriptedModel):
    """Answers a lone message by the next of `direct`, and a conversation by one cell."""

    def __init__(self, *direct: str | Exception, window: int = 32_000) -> None:
        replies = itertools.cycle(direct)
        self.direct: list[str] = []
        self.openings: list[str] = []

        def reply(messages: Sequence[Message]) -> str:
            if len(messages) > 1:
                self.openings.append(messages[1].content)
                return CELL
            self.direct.append(messages[0].content)
            said = next(replies)
            if isinstance(said, Exception):
                raise said
            return said

        super().__init__([reply] * 20, sub=lambda prompt: reply([Message("user", prompt)]), window=window)


async def run(model: Asked, context: object = TEXT, **options: object) -> Result:
    return await RLM(model, strategy="auto", limits=Limits(max_iterations=4), **options).acompletion(  # type: ignore[arg-type]
        "Which city is large?", context
    )


async def test_two_replies_that_say_the_same_are_the_answer() -> None:
    model = Asked("Lima", "The city is Lima.")
    result = await run(model)
    assert (result.answer, result.stop_reason, result.confidence) == ("Lima", "answered", 1.0)
    assert result.message == "asked directly with the whole text, twice: both replies say the same"
    assert result.trajectory.iterations == ()
    assert [reply.text for reply in result.trajectory.direct] == ["Lima", "The city is Lima."]
    assert TEXT in model.direct[0]
    assert "Which city is large?" in model.direct[0]
    assert result.usage.total_tokens == result.trajectory.usage.total_tokens > 0
    assert sum(used.usage.total_tokens for used in result.usage_by_model.values()) == result.usage.total_tokens


async def test_two_that_say_the_question_again_are_none() -> None:
    model = Asked("Which city is large?", "which city is large")
    result = await run(model)
    assert (result.answer, len(result.trajectory.iterations)) == ("Lima", 1)


async def test_a_run_without_an_iteration_has_none_to_begin_another_from() -> None:
    await run(Asked("Lima", "The city is Lima."), save="run.ipynb")
    with pytest.raises(ConfigurationError, match=r"^run was answered without an iteration, so .*: ask anew\.$"):
        await RLM.afork("run.ipynb", at=0, model=Asked())


async def test_where_they_differ_the_loop_goes_on_and_knows_them() -> None:
    model = Asked("Lima", "Rome")
    result = await run(model)
    assert (result.answer, len(result.trajectory.iterations)) == ("Lima", 1)
    assert model.openings[0].endswith("gave different answers when it was asked twice: Lima / Rome")


@pytest.mark.parametrize(
    ("context", "why"),
    [
        ("x " * 40_000, "the text takes more than half of the window of scripted/replies"),
        ("Lima " * 6_000, "the text takes more than half of the window of scripted/replies"),
        (["Lima is large."], "the context is no text, but of type list"),
        ({"a": 1}, "the context is no text, but of type dict"),
        (b"bytes", "the context is no text, but of type bytes"),
        (None, "there is no context"),
    ],
)
async def test_what_does_not_fit_or_is_no_text_goes_to_the_loop_at_once(context: object, why: str) -> None:
    model = Asked("Lima", "Lima", window=16_000)
    if context is None or not isinstance(context, str):
        model = Asked("Lima", "Lima")
    events: list[Event] = []
    rlm = RLM(model, strategy="auto", limits=Limits(max_iterations=2))
    result = await rlm.acompletion("Which city?", context, on_event=events.append)
    assert model.direct == []
    assert [event.text for event in events if isinstance(event, RemarkMade)] == [f"Not asked directly: {why}."]
    assert len(result.trajectory.iterations) >= 1


async def test_a_provider_that_fails_is_left_to_the_loop() -> None:
    model = Asked(ModelError("no"), "Lima")
    result = await run(model)
    assert (result.answer, len(result.trajectory.iterations)) == ("Lima", 1)


async def test_the_default_asks_nothing_directly() -> None:
    model = Asked("Lima", "Lima")
    result = await RLM(model, limits=Limits(max_iterations=2)).acompletion("Which city is large?", TEXT)
    assert (model.direct, result.trajectory.direct) == ([], ())


async def test_the_record_holds_it_and_a_replay_needs_no_model() -> None:
    result = await run(Asked("Lima", "Lima"))
    assert result.path is not None
    notebook = nbformat.read(result.path, as_version=4)
    nbformat.validate(notebook)
    assert any("Asked directly" in cell.source for cell in notebook.cells)
    assert Trajectory.load(result.path).records == result.trajectory.records
    replayed = await asyncio.to_thread(RLM.replay, result.path)
    assert replayed.same, str(replayed)


async def test_one_that_never_gives_another_reply_is_not_asked_twice() -> None:
    result = await RLM("extractive", strategy="auto").acompletion("Which city is large?", TEXT)
    assert result.trajectory.direct == ()
