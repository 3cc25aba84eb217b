"""What people may do to a run while it goes on: approve, edit, refuse, pause, speak to the model, raise a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.approval import Approvals
from rlm_jupyter.run.control import Control, Decision
from rlm_jupyter.run.result import Result
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import CellDecided, CellProposed, Event, OutputsShown, RunPaused, RunStarted, RunUnpaused
from tests.answers.table import block


class Person:
    """Watches a run and acts from a thread of its own, as a person in a notebook does."""

    def __init__(self, act: Callable[[Event, Control], None]) -> None:
        self.seen: list[Event] = []
        self._act = act
        self._ready = threading.Event()
        self._running: RunHandle | None = None

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        threading.Thread(target=self._do, args=[event]).start()

    def _do(self, event: Event) -> None:
        self._ready.wait(30)
        assert self._running is not None
        self._act(event, self._running.control)

    def watch(self, replies: list[Any], *, approve: bool = False, save: Path | bool = False, **limits: Any) -> Result:
        model = ScriptedModel(replies)
        rlm = RLM(model, save=save, limits=Limits(**limits))
        self._running = rlm.start("What?", "a text", on_event=self, approve=approve)
        self._ready.set()
        return self._running.result(60)

    def saying(self, act: Callable[[Control], None], reply: str) -> Callable[[Any], str]:
        """A reply that arrives just after the person did something."""

        def say(_: Any) -> str:
            assert self._running is not None
            act(self._running.control)
            return reply

        return say

    def kinds(self, *kinds: type[Event]) -> list[str]:
        return [type(event).__name__ for event in self.seen if isinstance(event, kinds)]


def told(result: Result) -> str:
    return "\n".join(notice for iteration in result.trajectory.iterations for notice in iteration.notices)


def test_each_cell_waits_for_approval() -> None:
    person = Person(lambda event, control: control.approve() if isinstance(event, CellProposed) else None)
    result = person.watch([block("x = 1") + "\n" + block("print(x)"), block("FINAL(x)")], approve=True)
    assert result.answer == "1"
    assert person.kinds(CellProposed, CellDecided) == ["CellProposed", "CellDecided"] * 3


def test_a_cell_runs_as_a_person_edited_it_and_the_record_keeps_both() -> None:
    def act(event: Event, control: Control) -> None:
        if isinstance(event, CellProposed):
            control.approve("x = 'edited'" if event.source == "x = 'mine'" else None)

    result = Person(act).watch([block("x = 'mine'"), block("FINAL(x)")], approve=True)
    assert result.answer == "edited"
    cell = result.trajectory.iterations[0].cells[0]
    assert (cell.source, cell.executed) == ("x = 'mine'", "x = 'edited'")
    assert "edited this cell before it ran. This ran:\nx = 'edited'" in told(result)


def test_a_cell_that_a_person_emptied_executes_nothing_and_is_not_executed_later(tmp_path: Path) -> None:
    def act(event: Event, control: Control) -> None:
        if isinstance(event, CellProposed):
            control.approve("" if event.source == "x = 'mine'" else None)

    notebook = tmp_path / "run.ipynb"
    replies = [block("x = 'mine'"), block("FINAL('x' in globals())")]
    result = Person(act).watch(replies, approve=True, save=notebook)
    assert result.answer == "False"
    cell = result.trajectory.iterations[0].cells[0]
    assert (cell.executed, cell.code, cell.status) == ("", "", "ok")
    assert "took all code out of this cell: nothing was executed" in told(result)
    replayed = RLM.replay(notebook)
    assert replayed.cells == 2
    assert replayed.same


def test_a_refused_cell_does_not_run_nor_what_stands_after_it_and_the_model_hears_why() -> None:
    def act(event: Event, control: Control) -> None:
        if isinstance(event, CellProposed):
            control.refuse("not that file") if "open" in event.source else control.approve()

    replies = [block("open('secret')") + "\n" + block("x = 2"), block("FINAL('x' in globals())")]
    result = Person(act).watch(replies, approve=True)
    assert result.answer == "False"
    assert [cell.status for cell in result.trajectory.iterations[0].cells] == ["skipped", "skipped"]
    assert "refused this cell; it was not run. Their message: not that file" in told(result)


def test_what_nobody_approves_runs_not_when_the_run_is_stopped() -> None:
    person = Person(lambda event, control: control.stop() if isinstance(event, CellProposed) else None)
    result = person.watch([block("answer['content'] = 'ran'")], approve=True)
    assert (result.stop_reason, result.answer) == ("cancelled", None)


@pytest.mark.slow
def test_a_pause_lasts_until_it_is_resumed_and_costs_no_time_of_the_limit() -> None:
    def act(event: Event, control: Control) -> None:
        if isinstance(event, RunStarted):  # however long the kernel took to start
            control.raise_limit("max_seconds", time.monotonic() - called + 3)
        if isinstance(event, OutputsShown) and event.iteration == 1:
            time.sleep(3)
            control.resume()

    person, called = Person(act), time.monotonic()
    pausing = person.saying(lambda control: control.pause(), block("print(1)"))
    # without the clock standing still, 3 s would be too short for the pause and the rest
    result = person.watch([pausing, block("FINAL(2)")], max_seconds=60)
    total = time.monotonic() - called
    assert (result.answer, result.stop_reason) == ("2", "answered")
    assert result.seconds <= total - 3  # nor is it said to have taken it
    assert person.kinds(RunPaused, RunUnpaused) == ["RunPaused", "RunUnpaused"]


def test_a_note_reaches_the_model_with_the_next_outputs() -> None:
    person = Person(lambda event, control: None)

    def second(prompt: Any) -> str:
        return block(f"FINAL({any('look in the appendix' in m.content for m in prompt)})")

    noting = person.saying(lambda control: control.note("look in the appendix"), block("print(1)"))
    result = person.watch([noting, second])
    assert "A message from the user: look in the appendix" in told(result)
    assert result.answer == "True"


def test_a_raised_limit_lets_the_run_go_on() -> None:
    person = Person(lambda event, control: None)
    raising = person.saying(lambda control: control.raise_limit("max_iterations", 3), block("x = 1"))
    result = person.watch([raising, block("x += 1"), block("FINAL(x)")], max_iterations=1)
    assert (result.answer, result.stop_reason) == ("2", "answered")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("max_depth", 2, "can't be set while a run goes on"),
        ("nope", 1, "can't be set"),
        ("max_cost", -1, "more than zero"),
    ],
)
def test_a_limit_that_can_not_be_set_is_refused_at_once(name: str, value: float, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Control().raise_limit(name, value)


def test_a_decision_counts_for_the_cell_that_waits_and_for_no_other() -> None:
    control = Control(approving=True)
    control.approve()  # nothing waits
    assert not control.is_asking


def put(said: str, event: CellProposed | None = None, *, elsewhere: bool = False) -> tuple[list[str], Control]:
    """What a person is shown, and the control after what they typed."""
    shows: list[str] = []
    asks: list[str] = []
    control = Control(approving=True)
    waits: list[Any] = []
    control._waiting = waits
    control._proposed = (2, 0)

    def ask(text: str) -> str:
        asks.append(text)
        return said

    approvals = Approvals(ask, shows.append, lambda: elsewhere)
    approvals(event or CellProposed(2, 0, "print(1)"))
    approvals.put(control)
    approvals.put(control)
    assert len(asks) == (0 if elsewhere else 1)
    return [f"{decision.runs} {decision.note}".strip() for decision in waits], control


@pytest.mark.parametrize(
    ("said", "decided"),
    [("y", ["True"]), ("N", ["False"]), ("a", ["True"]), ("use the index", ["False use the index"])],
)
def test_what_is_typed_decides(said: str, decided: list[str]) -> None:
    decisions, control = put(said)
    assert decisions == decided
    assert control.approving is (said != "a")


def put_until_decided(said: list[str], event: CellProposed) -> tuple[list[str], list[str], list[Decision]]:
    """Return what was asked and shown, and what was decided."""
    asks: list[str] = []
    shows: list[str] = []
    control = Control(approving=True)
    decisions: list[Decision] = []
    control._waiting = decisions
    control._proposed = (2, 0)

    def ask(text: str) -> str:
        asks.append(text)
        return said.pop(0)

    approvals = Approvals(ask, shows.append)
    approvals(event)
    approvals.put(control)
    return asks, shows, decisions


def test_no_cell_runs_because_somebody_only_pressed_enter() -> None:
    asks, _, decisions = put_until_decided(["", "  ", "y"], CellProposed(2, 0, "x"))
    assert asks[1:] == [f"Nothing was typed. {asks[0]}"] * 2
    assert decisions == [Decision(True)]


def test_the_cell_before_is_undone_only_where_it_can_be() -> None:
    asks, _, decisions = put_until_decided(["u"], CellProposed(2, 0, "x", undoes=(1, 0)))
    assert "[u]ndo the cell before it" in asks[0]
    assert decisions == [Decision(False, undoes=True)]
    asks, shows, decisions = put_until_decided(["undo", "n"], CellProposed(2, 0, "x", no_undo="it runs a thread (t)"))
    assert shows[1] == "The cell before it can't be undone: it runs a thread (t).\n"
    assert "[u]ndo" not in asks[0]
    assert asks[1].startswith("No cell before it can be undone.")
    assert decisions == [Decision(False)]


def test_stop_decides_nothing_else() -> None:
    decisions, control = put("s")
    assert decisions == []
    assert control._stopped


def test_nobody_is_asked_twice_where_there_are_buttons() -> None:
    assert put("y", elsewhere=True)[0] == []


def asking(asks: list[str]) -> Callable[[str], str]:
    def ask(text: str) -> str:
        asks.append(text)
        return "y"

    return ask


@pytest.mark.parametrize(("then", "asked"), [(True, 0), (False, 1)])
def test_a_cell_waits_until_it_is_known_who_asks_about_it(then: bool, asked: int) -> None:
    asks: list[str] = []
    answers: list[bool | None] = [None, None, then]
    control = Control(approving=True)
    control._waiting, control._proposed = [], (2, 0)
    approvals = Approvals(asking(asks), lambda _: None, lambda: answers.pop(0))
    approvals(CellProposed(2, 0, "print(1)"))
    for _ in range(2):
        approvals.put(control)
        assert approvals.is_undecided
        assert not asks
    approvals.put(control)
    assert not approvals.is_undecided
    assert len(asks) == asked


def test_nobody_is_asked_about_a_cell_that_was_decided_while_it_was_not_known_who_asks() -> None:
    asks: list[str] = []
    control = Control(approving=True)
    control._waiting, control._proposed = [], (2, 0)
    approvals = Approvals(asking(asks), lambda _: None, lambda: None)
    approvals(CellProposed(2, 0, "print(1)"))
    approvals.put(control)
    control._waiting = None
    approvals.put(control)
    assert not approvals.is_undecided
    assert not asks


def test_a_second_click_runs_no_cell_that_nobody_has_seen() -> None:
    """Each approval names its cell, as a button does; the late one means a cell that is decided already."""

    def act(event: Event, control: Control) -> None:
        if isinstance(event, CellProposed):
            control.approve(cell=(1, 0))
            time.sleep(0.3)
            control.approve(cell=(1, 0))
            if event.block == 1:
                control.refuse(cell=(1, 1))

    replies = [block("x = 1") + "\n" + block("x = 'unseen'"), "I stop here."]
    result = Person(act).watch(replies, approve=True, max_iterations=1)
    assert [cell.status for cell in result.trajectory.iterations[0].cells] == ["ok", "skipped"]
