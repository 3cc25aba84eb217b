"""A person undoes the last cell: real kernels that go back to a fork of theirs, in the run and in its record."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result, Sandbox
from rlm_jupyter.kernel import supervisor
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.events import CellProposed, Event, RemarkMade
from tests.answers.table import block
from tests.runs.test_resume import in_folder as in_folder
from tests.support.sandboxes import need_bwrap
from tests.unit.run.test_control import Person, told

pytestmark = pytest.mark.skipif(not supervisor.can_fork_live(), reason="kernels are forked on Linux")

FIRST = "rows = [1]; lazy = (i for i in range(9)); file = open('/usr/bin/env', 'rb', 0)"
SECOND = "rows.append('wrong'); next(lazy); file.read(3); del file; made = 1; answer['content'] = 'a draft'"
LAST = "FINAL((rows, next(lazy), file.tell(), 'made' in globals(), answer['content']))"
RIGHT = "([1], 0, 0, False, '')"


def undoing(*sources: str) -> Callable[[Event, Control], None]:
    """What a person does who has the cell undone that is before these."""

    def act(event: Event, control: Control) -> None:
        if isinstance(event, CellProposed):
            if event.source in sources:
                control.undo("look again", cell=(event.iteration, event.block))
            else:
                control.approve()

    return act


def answered(act: Callable[[Event, Control], None], replies: list[Any], **options: Any) -> tuple[Result, list[Event]]:
    """Run it with a person who acts at each cell that waits."""
    seen: list[Event] = []
    waiting: queue.SimpleQueue[CellProposed | None] = queue.SimpleQueue()

    def tell(event: Event) -> None:
        seen.append(event)
        if isinstance(event, CellProposed):
            waiting.put(event)

    rlm = RLM(ScriptedModel(replies), limits=Limits(**options.pop("limits", {})), **options)
    running = rlm.start("What?", "a text", on_event=tell, approve=True)

    def decide() -> None:
        for event in iter(waiting.get, None):
            act(event, running.control)

    person = threading.Thread(target=decide)
    person.start()
    try:
        return running.result(90), seen
    finally:
        waiting.put(None)
        person.join()


@pytest.mark.parametrize("kind", ["none", "bwrap"])
def test_the_kernel_is_as_it_was_before_the_last_cell_and_the_model_is_told(kind: Any) -> None:
    if kind == "bwrap":
        need_bwrap()
    replies = [block(FIRST), block(SECOND), block("on = 1"), block(LAST)]
    result, seen = answered(undoing("on = 1"), replies, sandbox=Sandbox(kind), save=False)
    assert result.answer == RIGHT
    assert result.trajectory.undone == {(2, 0)}
    assert [cell.status for one in result.trajectory.iterations for cell in one.cells] == ["ok", "ok", "skipped", "ok"]
    said = told(result)
    assert "The user undid your last cell (iteration 2, block 1): the kernel is as it was before it." in said
    assert "Variables there are: rows, lazy, file." in said
    assert said.endswith("The cell that you wrote now was not run. Their message: look again")
    offers = [event.undoes for event in seen if isinstance(event, CellProposed)]
    assert offers == [None, (1, 0), (2, 0), None]  # one step, and not two


def test_a_cell_that_took_the_kernel_with_it_is_undone_with_all_variables_back() -> None:
    replies = [block(FIRST), block("import os; os._exit(3)"), block("on = 1"), block(LAST)]
    result, _ = answered(undoing("on = 1"), replies, save=False)
    assert result.answer == RIGHT


def test_after_an_undone_cell_insurance_does_not_bring_it_back() -> None:
    replies = [block(FIRST), block(SECOND), block("on = 1"), block("import os; os._exit(3)"), block(LAST)]
    result, _ = answered(undoing("on = 1"), replies, save=False, insurance=True)
    assert result.answer == RIGHT


def test_what_can_not_be_undone_is_said_and_the_cell_goes_on_waiting() -> None:
    thread = "import threading, time; rows = [1]; threading.Thread(target=time.sleep, args=[60], daemon=True).start()"
    replies = [block(thread), block("rows.append(2)"), block("FINAL(rows)")]
    offers: list[CellProposed] = []

    def decide(event: Event, control: Control) -> None:
        assert isinstance(event, CellProposed)
        offers.append(event)
        control.undo() if len(offers) == 3 else control.approve()

    result, seen = answered(decide, replies, save=False)
    assert result.answer == "[1, 2]"
    assert [event.undoes for event in offers] == [None, (1, 0), None, None]
    assert offers[2].no_undo.startswith("it runs a thread (Thread-")
    said = [event.text for event in seen if isinstance(event, RemarkMade)]
    assert any(text.startswith("The last cell can't be undone: it runs a thread (") for text in said)


def test_where_nobody_approves_any_more_no_copy_is_kept() -> None:
    def act(event: Event, control: Control) -> None:
        control.approving = False
        control.approve()

    person = Person(lambda event, control: act(event, control) if isinstance(event, CellProposed) else None)
    result = person.watch([block("x = 1"), block("FINAL(x)")], approve=True)
    assert result.answer == "1"


def test_a_run_with_an_undone_cell_is_resumed_replayed_forked_and_exported(in_folder: Path) -> None:
    (in_folder / "count").write_text("")
    second = SECOND + "; print('x' * 9_000); open('count', 'a').write('i')"
    third = "print(sorted(name for name in globals() if name.startswith('output')))"

    def stop(event: Event, control: Control) -> None:
        if isinstance(event, CellProposed) and event.source == LAST:
            control.stop()
        else:
            undoing("on = 1")(event, control)

    replies = [block(FIRST), block(second), block("on = 1"), block(third), block(LAST)]
    result, _ = answered(stop, replies, limits={"output_chars": 500})
    assert result.stop_reason == "cancelled"
    assert result.trajectory.undone == {(2, 0)}
    assert (in_folder / "count").read_text() == "i"
    assert result.path is not None
    cells = json.loads(result.path.read_text())["cells"]
    undone = [cell for cell in cells if "rlm-undone" in cell["metadata"].get("tags", ())]
    assert ["".join(cell["source"]) for cell in undone] == [second]
    assert "skip-execution" in undone[0]["metadata"]["tags"]

    replayed = RLM.replay(result.path)
    assert replayed.same, replayed.differences
    resumed = RLM.resume(result.path, model=ScriptedModel([]))  # its last reply is there, and had not been executed
    assert resumed.answer == RIGHT
    assert (in_folder / "count").read_text() == "i"  # it was not executed again
    assert resumed.trajectory.undone == {(2, 0)}
    # a fork from before it was undone has it
    forked = RLM.fork(result.path, 2, model=ScriptedModel([block("FINAL(rows)")]))
    assert forked.answer == '[1, "wrong"]'
    forked = RLM.fork(result.path, 3, model=ScriptedModel([block("FINAL(rows)")]))
    assert forked.answer == "[1]"
    saved = result.save(in_folder / "whole.ipynb")
    assert "rlm-undone" in saved.read_text()
