"""The answer is looked at before any limit: recorded, a draft, an unconfirmed FINAL, one forced call, none."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import Scripted, ScriptedModel
from rlm_jupyter.prompts import notices
from rlm_jupyter.types.errors import ContextWindowError, ModelError, ModelUnavailableError
from rlm_jupyter.types.events import Event, OutputChanged, OutputsShown
from rlm_jupyter.types.values import Message, Reply
from tests.answers.conftest import Played, Stage
from tests.answers.fates import DIE, SLEEP
from tests.answers.stops import STOPS, Stop
from tests.answers.table import LOOK, block, fence
from tests.support.examples import one_in

FORCED = "the best guess"
DRAFT = 'answer["content"] = "draft"\nprint("drafted")'
UNSURE = fence("print('seen')") + "\nFINAL(unsure)"
BLIND = "FINAL(unsure)"

each_stop = pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.id)
some_stops = pytest.mark.parametrize("stop", one_in(3, STOPS), ids=lambda stop: stop.id)


def play(stage: Stage, stop: Stop, monkeypatch: pytest.MonkeyPatch, first: str, source: str, last: Scripted) -> Played:
    """A run that is stopped in its second iteration, whose cell has this source; `last` is for a forced call."""
    for name, value in stop.patches.items():
        monkeypatch.setattr(name, value)
    options = {"sub": str, **stop.options}
    return stage.play([first, *stop.meets(source), last], **options)


def well_formed(conversation: tuple[Message, ...]) -> bool:
    """One system message first, then user and assistant in turn, a user message last; none empty."""
    roles = [message.role for message in conversation]
    turns = ["user", "assistant"] * len(roles)
    return (
        roles == ["system", *turns[: len(roles) - 1]]
        and roles[-1] == "user"
        and all(message.content.strip() for message in conversation)
    )


def not_forced(played: Played) -> bool:
    return played.result.trajectory.forced is None and notices.LAST_REPLY not in played.told


@each_stop
def test_a_recorded_answer_counts_in_the_very_iteration(
    stage: Stage, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(stage, stop, monkeypatch, LOOK, "FINAL('recorded')", FORCED)
    # who stops a run is told so, though the answer is there
    stopped_first = stop.id == "stopped in a cell"
    assert (played.answer, played.stop_reason) == ("recorded", "cancelled" if stopped_first else "answered")
    assert len(played.iterations) == len(played.requests) == 2


@some_stops
@pytest.mark.parametrize("when", ["before", "in the last cell"])
def test_a_draft_counts(stage: Stage, stop: Stop, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, source = (block(DRAFT), "pass") if when == "before" else (LOOK, DRAFT)
    played = play(stage, stop, monkeypatch, first, source, FORCED)
    kept = when == "before" or stop.keeps_cell
    assert (played.answer, played.stop_reason) == ("draft" if kept else FORCED, stop.reason)
    assert not_forced(played) == kept


@some_stops
def test_an_unconfirmed_final_counts(stage: Stage, stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(stage, stop, monkeypatch, UNSURE, "pass", FORCED)
    assert (played.answer, played.stop_reason) == ("unsure", stop.reason)
    assert not_forced(played)


@pytest.mark.parametrize("said", [block("FINAL('What is it?')"), fence("print('seen')") + "\nFINAL(What is it?)"])
def test_the_question_itself_is_none(stage: Stage, said: str) -> None:
    played = stage.play([LOOK, said, FORCED], max_iterations=2)
    assert (played.answer, played.stop_reason) == (FORCED, "iterations")


@each_stop
def test_with_nothing_to_show_there_is_one_forced_call(
    stage: Stage, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(stage, stop, monkeypatch, LOOK, "print('seen')", FORCED)
    is_forced = stop.forced or (stop.is_close and not not_forced(played))
    assert (played.answer, played.stop_reason) == (FORCED if is_forced else None, stop.reason)
    assert len(played.iterations) == 2
    assert not_forced(played) != is_forced
    if is_forced:
        assert well_formed(played.requests[-1])
        assert played.told.endswith(notices.LAST_REPLY)
        assert all(notices.LAST_REPLY not in request[-1].content for request in played.requests[:-1])
        assert played.caps[-1] <= 2_048
    elif stop.reason not in {"seconds", "cancelled"}:
        assert len(played.requests) == 2


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.forced], ids=lambda stop: stop.id)
@pytest.mark.parametrize(
    "failure",
    [
        ModelError("out of order"),
        ModelUnavailableError("busy"),
        ContextWindowError("too long"),
        Reply("", "scripted/relay", finish="refusal"),
    ],
    ids=["out of order", "busy", "too long", "refused"],
)
def test_a_forced_call_that_fails_leaves_no_answer(
    stage: Stage, stop: Stop, failure: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(stage, stop, monkeypatch, LOOK, "print('seen')", failure)
    assert (played.answer, played.result.value, played.stop_reason) == (None, None, stop.reason)


@some_stops
def test_a_draft_is_better_than_a_guess(stage: Stage, stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(stage, stop, monkeypatch, fence(DRAFT) + "\nFINAL(unsure)", "pass", FORCED)
    assert (played.answer, played.stop_reason) == ("draft", stop.reason)
    assert not_forced(played)


SAID = ("recorded", "draft", "unsure", FORCED)
"""Best first."""


@pytest.mark.parametrize(
    "there",
    [there for count in range(5) for there in itertools.combinations(SAID, count)],
    ids=lambda there: ", ".join(there) or "nothing",
)
def test_the_best_of_what_there_is_counts(stage: Stage, there: tuple[str, ...]) -> None:
    first = fence(DRAFT if "draft" in there else "pass") + ("\nFINAL(unsure)" if "unsure" in there else "")
    last = block("print('seen')", "FINAL('recorded')" if "recorded" in there else "pass")
    forced = FORCED if FORCED in there else ModelError("out of order")
    played = stage.play([first, last, forced], max_iterations=2)
    assert played.answer == (there[0] if there else None)


@pytest.mark.parametrize(
    ("source", "answer", "value"),
    [
        ('answer["content"] = 42', "42", 42),
        ('answer["content"] = {"a": [1]}', '{"a": [1]}', {"a": [1]}),
        ('answer["content"] = False', "False", False),
        ('answer = {"content": "bound anew"}', "bound anew", "bound anew"),
        ('answer["content"] = "draft"; 1/0', "draft", "draft"),
        (f'answer["content"] = "draft"; {SLEEP}', "draft", "draft"),
        ('answer["content"] = ""', FORCED, FORCED),
        ('answer["content"] = None', FORCED, FORCED),
        ('answer["content"] = print', FORCED, FORCED),
        ('answer["content"] = llm_query_batched(["x"], model="no/model")[0]', FORCED, FORCED),
        ('answer["draft"] = "elsewhere"', FORCED, FORCED),
        ('answer = "no dict"', FORCED, FORCED),
        ("del answer", FORCED, FORCED),
    ],
)
def test_what_a_draft_may_be(stage: Stage, source: str, answer: str, value: object) -> None:
    played = stage.play([block("print('seen')", source), FORCED], max_iterations=1, cell_seconds=1.0, sub=str)
    assert (played.answer, played.result.value, played.stop_reason) == (answer, value, "iterations")


def test_the_latest_draft_counts_and_one_taken_back_does_not(stage: Stage) -> None:
    later = block('answer["content"] = "later"')
    assert stage.play([block(DRAFT), later], max_iterations=2).answer == "later"
    taken_back = block('answer["content"] = ""', "print('seen')")
    assert stage.play([block(DRAFT), taken_back, FORCED], max_iterations=2).answer == FORCED


def test_a_draft_outlives_its_kernel(stage: Stage) -> None:
    played = stage.play([block(DRAFT), block(DIE), LOOK], max_iterations=3)
    assert (played.answer, played.stop_reason) == ("draft", "iterations")


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (BLIND, "unsure"),
        ("FINAL('quoted')", "quoted"),
        (fence("1") + '\nFINAL("quoted")', "quoted"),
        (fence("1") + "\nFINAL(2024-11-12)", "2024-11-12"),
        (fence("1") + "\nFINAL(one (or two))", "one (or two)"),
    ],
)
def test_an_unconfirmed_final_is_read_as_a_confirmed_one(stage: Stage, first: str, answer: str) -> None:
    played = stage.play([first, LOOK], max_iterations=2)
    assert (played.answer, played.stop_reason) == (answer, "iterations")
    assert not_forced(played)


@pytest.mark.parametrize("reply", [BLIND, block("FINAL('unsure')"), UNSURE])
def test_the_only_iteration_answers_though_nobody_can_be_asked_again(stage: Stage, reply: str) -> None:
    played = stage.play([reply, ModelError("not asked")], max_iterations=1)
    assert played.answer == "unsure"


@pytest.mark.parametrize(
    ("reason", "options"), [("tokens", {"max_tokens": 100}), ("cost", {"max_cost": 0.001, "price": 1e-5})]
)
def test_a_limit_that_leaves_room_for_no_request_gives_no_answer(
    stage: Stage, reason: str, options: dict[str, Any]
) -> None:
    played = stage.play([FORCED], **options)
    assert (played.answer, played.stop_reason) == (None, reason)
    assert (len(played.iterations), len(played.requests)) == (0, 0)


def test_a_forced_call_ends_with_the_time(stage: Stage) -> None:
    started = time.monotonic()
    expires = (lambda event: isinstance(event, OutputsShown), 2.0)
    played = stage.play([LOOK, "too late"], max_iterations=1, expires=expires, late={2: 60.0})
    assert (played.answer, played.stop_reason, len(played.requests)) == (None, "iterations", 2)
    assert time.monotonic() - started < 30  # the reply would take a minute


def test_a_kernel_that_keeps_dying_ends_the_run_with_what_there_is(stage: Stage) -> None:
    deaths = [block(f"import os; os._exit({n})") for n in range(4)]
    played = stage.play([block(DRAFT), *deaths, FORCED])
    assert (played.answer, played.stop_reason, len(played.iterations)) == ("draft", "kernel_died", 5)


def test_what_went_wrong_is_never_the_answer(stage: Stage) -> None:
    failing: list[Scripted] = [block("1/0"), block("undefined"), ModelError("out of order")]
    assert stage.play(failing, max_iterations=2).answer is None
    assert stage.play(failing, max_errors=2).answer is None
    played = stage.play([LOOK, *[block("1/0")] * 4, ModelError("out of order")])
    assert (played.answer, played.stop_reason) == (None, "no_progress")
    assert "the model repeated itself" in played.result.message


def test_stop_of_a_running_run_brings_what_was_recorded_so_far() -> None:
    def stop(event: Event) -> None:
        if isinstance(event, OutputChanged) and "at work" in str(event.outputs):
            running.stop()

    model = ScriptedModel([LOOK, block("FINAL('recorded')", f"print('at work', flush=True); {SLEEP}")])
    running = RLM(model, limits=Limits(), save=False).start("What is it?", "some text", on_event=stop)
    result = running.result(60)
    assert (result.answer, result.stop_reason) == ("recorded", "cancelled")
