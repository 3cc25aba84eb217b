"""A misspelt keyword argument is answered with the one that was meant."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from rlm_jupyter import RLM, Artefact, Limits, Tool, load

RLM_: Any = RLM
"""Without its types: mypy knows the mistakes, too."""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: RLM_("extractive", sampels=2), "RLM() got an unexpected keyword argument 'sampels'. {}samples?"),
        (lambda: RLM_("extractive", max_iterations=5), "RLM() {}limits=Limits(max_iterations=…)?"),
        (lambda: RLM_("extractive", max_iteration=5), "RLM() {}limits=Limits(max_iterations=…)?"),
        (lambda: RLM_("extractive").completion("?", "text", answers=int), "RLM.completion() {}answer?"),
        (lambda: asyncio.run(RLM_("extractive").acompletion("?", answers=int)), "RLM.acompletion() {}answer?"),
        (lambda: RLM_("extractive").completion("?", "text", save=True), "RLM.completion() {}RLM(…, save=…)?"),
        (lambda: RLM_("extractive").start("?", max_cost=1), "RLM.start() {}RLM(…, limits=Limits(max_cost=…))?"),
        (lambda: RLM_("extractive").batch([], promt="?"), "RLM.batch() {}prompt?"),
        (lambda: RLM_("extractive").session("x").ask("?", on_evnt=print), "PromptSession.ask() {}on_event?"),
        (lambda: RLM_("extractive").session("x").ask("?", context=1), "PromptSession.ask() {}add_context(…)?"),
        (lambda: RLM_("extractive").session("x").ask("?", answer=int), "{}RLM(…, answer=…)?"),
        (lambda: load("a.txt", withn="."), "load() {}within?"),  # type: ignore[call-arg]
        (lambda: Limits(max_iteration=3), "Limits() {}max_iterations?"),  # type: ignore[call-arg]
        (lambda: Tool(print, aproval="once"), "Tool() {}approval?"),  # type: ignore[call-arg]
        (lambda: Artefact("a.png", chek=len), "Artefact() {}check?"),  # type: ignore[call-arg]
    ],
)
def test_the_keyword_that_was_meant_is_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError) as error:
        call()
    title, meant = said.split("{}")
    assert str(error.value).startswith(title.split("'")[0].strip())
    assert str(error.value).endswith(f" Did you mean {meant}")


def test_where_none_comes_near_none_is_named() -> None:
    with pytest.raises(TypeError, match=r"^RLM.completion\(\) got an unexpected keyword argument 'zzzz'\.$"):
        RLM_("extractive").completion("?", "text", zzzz=1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: RLM_("extractive").batch([], prompt="?"),
            "RLM.batch() missing 1 required keyword-only argument: 'out'",
        ),
        (
            lambda: RLM_("extractive").abatch([], out="x"),
            "RLM.abatch() missing 1 required keyword-only argument: 'prompt'",
        ),
        (lambda: RLM_.resume(), "RLM.resume() missing 1 required positional argument: 'run'"),
    ],
)
def test_what_is_missing_is_said_by_the_name_of_the_class(call: Callable[[], Any], said: str) -> None:
    async def called() -> None:
        await call()

    with pytest.raises(TypeError) as error:
        asyncio.run(called())
    assert str(error.value) == said


def test_what_is_decorated_looks_as_it_was_written() -> None:
    assert [*inspect.signature(RLM).parameters][:2] == ["model", "sub_model"]
    assert inspect.iscoroutinefunction(RLM.acompletion)
    assert inspect.isasyncgenfunction(RLM.stream)
    assert not inspect.iscoroutinefunction(RLM.completion)
    assert inspect.getdoc(RLM.completion)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'model'"):
        RLM_()
