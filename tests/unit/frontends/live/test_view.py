"""What there is to see of a run, and that nothing a model or a document said is taken for HTML."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from rlm_jupyter.frontends.display.view import SHOWN_AFTER, SHOWN_LIVE, View
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.record import safe_html
from rlm_jupyter.types.events import (
    CellDecided,
    CellFinished,
    CellProposed,
    CellStarted,
    Event,
    IterationRated,
    NoticeGiven,
    OutputChanged,
    OutputsShown,
    ReplyReceived,
    ReplyStreamed,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    RunUnpaused,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import ContextInfo, StopReason, Usage
from tests.support.pace import Pace

EVIL = "<img src=x onerror=alert(1)>"


def started() -> RunStarted:
    return RunStarted(
        "id",
        "why?",
        "s",
        "o",
        ContextInfo("str", "9 characters"),
        "scripted/a",
        "",
        0,
        {"max_iterations": 30},
        "2025-01-01T00:00:00+00:00",
    )


def reply(index: int, text: str, rejected: str = "") -> ReplyReceived:
    return ReplyReceived(index, text, "scripted/a", Usage(100, 10), 0.01, "stop", 0.5, rejected=rejected)


def stdout(text: str) -> dict[str, str]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def finished(index: int, source: str, text: str) -> CellFinished:
    return CellFinished(index, 0, source, None, "ok", (stdout(text),), 1, 0.25)


def ended(stop: StopReason = "answered") -> RunEnded:
    return RunEnded(stop, "42", 42, True, 1, 3.2, Usage(100, 10), 0.01)


def run(view: View, first: int, last: int) -> None:
    for index in range(first, last + 1):
        view.apply(reply(index, f"Prose {index}.\n```repl\nx = {index}\n```"))
        view.apply(CellStarted(index, 0, f"x = {index}"))
        view.apply(finished(index, f"x = {index}", f"output {index}"))
        view.apply(OutputsShown(index, "shown"))


def test_a_run_is_followed_from_its_kernel_to_its_answer() -> None:
    view = View()
    assert "Starting a kernel" in view.status()
    view.apply(started())
    assert "Waiting for the model" in view.status()
    assert "scripted/a" in view.status()
    view.apply(ReplyStreamed(1, "I look "))
    view.apply(ReplyStreamed(1, "at it"))
    assert "I look at it" in view.status()
    assert "writing" in view.status()
    view.apply(reply(1, "I look at it.\n```repl\nprint(1)\n```"))
    view.apply(CellStarted(1, 0, "print(1)"))
    view.apply(OutputChanged(1, 0, (stdout("half of it"),)))
    view.apply(SubcallStarted(1, 0, "llm", 0, 10))
    now = view.status()
    assert "half of it" in now
    assert "running a cell · 1 sub-call in flight" in now
    assert "Iteration 1 of 30" in now
    assert "$0.0100" in now
    view.apply(SubcallSettled(1, 0, "llm", 0, "sha", 10, "p", None, "scripted/a", "r", False, Usage(5, 5), 0.02, 0.1))
    assert "in flight" not in view.status()
    assert view.completed == 0
    view.apply(finished(1, "print(1)", "all of it"))
    view.apply(OutputsShown(1, "shown"))
    assert view.completed == 1
    assert "all of it" not in view.status()
    assert "all of it" in view.iterations()
    assert view.summary == "iteration 1 of 30: 1 cell, 1 sub-call, 0.8 s (so far 1 sub-call, 120 tokens, $0.0300)"
    view.apply(replace(ended(), usage=Usage(130, 20), cost=0.04))  # a request was stopped on the way
    assert view.text() == "Answered · 1 iteration · 1 sub-call · 150 tokens · $0.0400 · 3.2 s"
    assert "<summary>Steps</summary>" in view.iterations()


def test_a_run_that_is_taken_up_has_its_new_limits() -> None:
    view = View()
    view.apply(started())
    view.apply(RunResumed(2, "scripted/a", "", {"max_iterations": 60}, "2025-01-02T00:00:00+00:00", reexecuted=True))
    run(view, 3, 3)
    assert "iteration 3 of 60" in view.summary


@pytest.mark.parametrize("stop", ["cancelled", "seconds", "failed", "no_progress"])
def test_a_run_without_an_answer_does_not_look_like_one_with(stop: StopReason) -> None:
    view = View()
    view.apply(started())
    view.apply(ended(stop))
    assert "rlm-good" not in view.status().partition("</style>")[2]
    assert "Answered" not in view.text()


def test_the_forced_reply_is_no_iteration_and_its_code_no_cell() -> None:
    view = View()
    run(view, 1, 2)
    view.apply(NoticeGiven(2, "No iteration is left."))
    view.apply(replace(reply(2, "```repl\nprint(1)\n```"), forced=True))
    view.apply(ended("iterations"))
    drawn = view.iterations()
    assert drawn.count("Iteration 2") == 1
    last = drawn.partition("Last call")[2]
    assert "No iteration is left." in last
    assert '<div class="rlm-prose mathjax_process"><pre><code class="language-repl">print(1)' in last


def test_what_has_no_reply_is_counted_as_no_iteration() -> None:
    view, facts = View(), RunFacts()
    run(view, 1, 3)
    facts.apply(reply(3, "the third"))
    for event in (NoticeGiven(4, "A note of yours."), ReplyStreamed(4, "Half of"), ended("cancelled")):
        view.apply(event)
        facts.apply(event)
    assert view.text().startswith("Stopped by you · 3 iterations")
    assert facts.told()["iteration"] == 3


def test_neither_what_was_drawn_again_nor_a_forced_answer_is_an_iteration() -> None:
    view, facts = View(), RunFacts()
    run(view, 1, 2)
    facts.apply(reply(2, "the second"))
    again: list[Event] = [reply(3, "the same", rejected="repeats the reply before it (1)")] * 3
    for events in ([*again, ended("no_progress")], [*again, reply(2, "my guess"), ended("no_progress")]):
        for event in events:
            view.apply(event)
            facts.apply(event)
        assert view.text().startswith("Stopped: the model repeated itself · 2 iterations")
        assert facts.told()["iteration"] == 2


def test_who_did_not_stop_a_run_is_told_why_it_was_stopped() -> None:
    view = View()
    view.apply(started())
    view.apply(replace(ended("cancelled"), message="another run took the variable x"))
    assert view.text().startswith("Stopped: another run took the variable x · ")


def test_a_failing_host_ends_the_view() -> None:
    view = View()
    view.fail()
    assert "rlm-bad" in view.status()
    assert view.text().startswith("Failed")


def test_what_was_written_after_the_read_part_and_drawn_again_is_said() -> None:
    view = View()
    view.apply(reply(1, "the same", rejected="repeats the reply before it (1)"))
    assert "Resampled: the reply repeats the reply before it." in view.status()
    for number in (2, 3):
        view.apply(reply(1, "the same", rejected=f"repeats the reply before it ({number})"))
    assert view.status().count("Resampled") == 1
    assert "Resampled 3 times: the reply repeats the reply before it." in view.status()
    view.apply(reply(1, "the same", rejected="is empty (4)"))
    assert view.status().count("Resampled") == 2


def test_nothing_that_was_said_becomes_html() -> None:
    view = View()
    view.apply(started())
    view.apply(ReplyStreamed(1, EVIL))
    drawn = view.status()
    view.apply(reply(1, f"{EVIL}\n```repl\n{EVIL}\n```"))
    view.apply(CellStarted(1, 0, EVIL))
    view.apply(
        OutputChanged(
            1,
            0,
            (
                stdout(EVIL),
                {"output_type": "display_data", "data": {"text/html": EVIL, "text/plain": EVIL}, "metadata": {}},
            ),
        )
    )
    view.apply(NoticeGiven(1, EVIL))
    drawn += view.status()
    view.apply(finished(1, EVIL, EVIL))
    view.apply(OutputsShown(1, "shown"))
    drawn += view.iterations()
    view.apply(ended())
    drawn += (
        view.iterations()
        + safe_html.markdown(EVIL)
        + safe_html.markdown(f"[x](javascript:alert(1)) ![{EVIL}](http://host/?secret)")
    )
    assert "<img" not in drawn
    assert 'href="javascript' not in drawn
    assert drawn.count("onerror") >= 8  # it is there, as text


def test_a_long_run_costs_no_more_than_a_short_one() -> None:
    view = View()
    view.apply(started())
    run(view, 1, 40)
    short = len(view.iterations()), len(view.status())
    run(view, 41, 500)
    assert len(view.iterations()) < short[0] * 1.1
    assert len(view.status()) < short[1] * 1.1
    assert view.iterations().count("<details") == SHOWN_LIVE
    assert f"{500 - SHOWN_LIVE} earlier iterations" in view.iterations()
    pace = Pace(time.process_time)
    for _ in range(20):
        view.iterations()
    assert pace.within(2)  # what was drawn is kept
    view.apply(ended())
    assert view.iterations().count("<details") == SHOWN_AFTER + 1
    assert "470 earlier iterations" in view.iterations()


def test_while_it_goes_on_the_newest_stands_first_and_open_and_in_the_end_all_is_in_order() -> None:
    view = View()
    run(view, 1, 3)
    live = view.iterations()
    assert live.index("Iteration 3") < live.index("Iteration 2")
    assert live.count(" open>") == 1
    view.apply(ended())
    after = view.iterations()
    assert after.index("Iteration 1") < after.index("Iteration 2")
    assert " open>" not in after


def test_long_things_are_shortened() -> None:
    view = View()
    view.apply(reply(1, "prose " * 10_000 + "\n```repl\n" + "x = 1\n" * 10_000 + "```"))
    view.apply(CellStarted(1, 0, "x = 1\n" * 10_000))
    view.apply(OutputChanged(1, 0, (stdout("word " * 100_000),)))
    assert "[500,000 characters so far]" in view.status()
    view.apply(finished(1, "x = 1\n" * 10_000, "word " * 100_000))
    view.apply(ReplyStreamed(2, "stream " * 10_000))
    assert len(view.status()) < 6_000
    assert len(view.iterations()) < 60_000  # of a megabyte


def test_an_answer_is_drawn_as_markdown() -> None:
    drawn = safe_html.markdown("**Two**:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx < 1\n```")
    assert "<strong>Two</strong>" in drawn
    assert "<td>1</td>" in drawn
    assert "x &lt; 1" in drawn


def test_how_an_iteration_was_rated_is_shown_with_it_where_a_policy_was_named() -> None:
    unasked, view = View(), View()
    view.apply(replace(started(), options={"reward": "code_quality"}))
    unasked.apply(started())
    for each in (unasked, view):
        run(each, 1, 2)
        each.apply(IterationRated(2, -0.25, {"failure": -0.25}))
    assert "reward" not in unasked.iterations()
    assert "reward -0.25" in view.iterations()
    assert view.iterations().count("reward") == 1


def test_what_a_person_is_waited_for_is_said_until_it_is_decided() -> None:
    view = View()
    view.apply(started())
    view.apply(reply(1, "```repl\nprint(1)\n```"))
    view.apply(CellProposed(1, 0, "print(1)"))
    assert "a cell waits for your approval" in view.status()
    view.apply(CellDecided(1, 0, runs=True))
    assert "approval" not in view.status()
    view.apply(RunPaused(2))
    assert "paused" in view.status()
    view.apply(RunUnpaused(2))
    assert "paused" not in view.status()
