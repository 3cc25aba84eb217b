"""A branch of a run whose kernel lives: at once where its kernel is as it was then, else from the record."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Result, Sandbox
from rlm_jupyter.kernel import supervisor
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run import living
from rlm_jupyter.types.events import CellReplayed, Event, RemarkMade
from tests.answers.table import block
from tests.runs.test_resume import in_folder as in_folder
from tests.support.sandboxes import need_bwrap

pytestmark = pytest.mark.skipif(not supervisor.can_fork_live(), reason="kernels are forked on Linux")

COUNT = "open('count', 'a').write('i')"
FIRST = f"rows = [1]; lazy = (i for i in range(9)); {COUNT}"
SECOND = f"rows.append(2); next(lazy); print('x' * 9_000); answer['content'] = 'a draft'; {COUNT}"
LOOK = "rows.append('mine'); FINAL((rows, next(lazy), len(context), answer['content']))"
LOOKED = "([1, 2, 'mine'], 1, 10, 'a draft')"


def script(*sources: str) -> ScriptedModel:
    return ScriptedModel([block(source) for source in sources])


class Waits(ScriptedModel):
    """Says a reply once it is let."""

    def __init__(self, replies: list[str], at: int) -> None:
        super().__init__(replies)
        self._at = at
        self.asked, self.let = threading.Event(), threading.Event()

    async def complete(self, messages: Any, **options: Any) -> Any:
        reply = await super().complete(messages, **options)
        if len(self.requests) == self._at:
            self.asked.set()
            await asyncio.to_thread(self.let.wait, 60)
        return reply


def counted(folder: Path) -> int:
    """How often a cell was executed."""
    return len((folder / "count").read_text())


@pytest.fixture
def kept(in_folder: Path) -> Iterator[Result]:
    """A run that has answered, and whose kernel was kept."""
    rlm = RLM(script(FIRST, SECOND, "FINAL(rows)"))
    with rlm.start("What?", "0123456789", keep_kernel=True).result(90) as result:
        assert result.answer == "[1, 2]"
        yield result


def branched(run: Result, at: int, *sources: str, **options: Any) -> tuple[Result, list[str], list[Event]]:
    """A branch, what is said of it, and its events."""
    events: list[Event] = []
    result = RLM.fork(run.trajectory.run_id, at, model=script(*sources), on_event=events.append, **options)
    return result, [event.text for event in events if isinstance(event, RemarkMade)], events


def test_a_branch_from_the_newest_state_of_a_kept_kernel_begins_at_once(kept: Result, in_folder: Path) -> None:
    result, said, events = branched(kept, 2, LOOK)
    assert result.answer == LOOKED
    assert counted(in_folder) == 2
    assert said[0] == "Branched from the run's living kernel: no cell was executed again."
    assert result.message == "branched from the run's living kernel: no cell was executed again"
    assert not any(event.executed for event in events if isinstance(event, CellReplayed))
    assert not [notice for one in result.trajectory.iterations for notice in one.notices]
    again = RLM.replay(result.path or "")
    assert again.same, again.differences


def test_the_run_and_its_branch_go_their_own_ways(kept: Result) -> None:
    one, _, _ = branched(kept, 2, "rows.append('one')", "FINAL(rows)")
    other, _, _ = branched(kept, 2, "rows.append('other')", "FINAL(rows)")
    assert (one.answer, other.answer) == ('[1, 2, "one"]', '[1, 2, "other"]')


def test_an_earlier_iteration_is_branched_from_the_record_and_so_is_a_run_whose_kernel_is_gone(
    kept: Result, in_folder: Path
) -> None:
    result, said, _ = branched(kept, 1, "FINAL(rows)")
    assert (result.answer, counted(in_folder)) == ("[1]", 3)
    assert said[0] == "Branched from the record: 1 cell is executed again (its kernel has gone on since)."
    kept.close()
    result, said, _ = branched(kept, 2, "FINAL(rows)")
    assert (result.answer, counted(in_folder)) == ("[1, 2]", 5)
    assert said[0] == "Branched from the record: 2 cells are executed again."
    assert result.message == ""


def test_what_no_fork_can_have_is_named_and_the_record_is_what_it_begins_from(in_folder: Path) -> None:
    thread = "import threading, time; threading.Thread(target=time.sleep, args=[60], daemon=True).start()"
    rlm = RLM(script(FIRST, thread, "FINAL(rows)"))
    with rlm.start("What?", "0123456789", keep_kernel=True).result(90) as kept:
        result, said, _ = branched(kept, 2, "FINAL(rows)")
    assert result.answer == "[1]"
    assert said[0].startswith("Branched from the record: 2 cells are executed again (it runs a thread (Thread-")


def test_another_folder_or_sandbox_takes_the_record(kept: Result, in_folder: Path) -> None:
    (in_folder / "else").mkdir()
    _, said, _ = branched(kept, 2, "FINAL(rows)", cwd=in_folder / "else")
    assert said[0].endswith("(the kernel's folder is to be another).")


def test_a_further_prompt_of_a_session_is_branched_with_what_was_before(in_folder: Path) -> None:
    rlm = RLM(script(FIRST, "FINAL(rows)", SECOND, "FINAL(rows)"))
    with rlm.session("0123456789") as session:
        session.ask("First?")
        second = session.ask("Second?")
        result, said, _ = branched(second, 1, "FINAL((rows, next(lazy), len(history), context_0))")
        first, before, _ = branched(second, 0, "FINAL(rows)")
    assert said[0].startswith("Branched from the run's living kernel")
    assert result.answer == "([1, 2], 1, 1, '0123456789')"
    assert before[0].startswith("Branched from the record, before the first cell (its kernel has gone on")
    assert first.answer == "[1]"
    resumed = RLM.replay(result.path or "")
    assert resumed.same, resumed.differences


@pytest.mark.parametrize("kind", ["none", "bwrap"])
def test_in_mid_run_between_two_cells_and_on_after_the_run_has_ended(in_folder: Path, kind: Any) -> None:
    """The branch is made while the model is asked, and its kernel is there when that of the run is gone."""
    if kind == "bwrap":
        need_bwrap()
    (in_folder / "count").write_text("")
    of_run = Waits([block(FIRST), block(SECOND), block("rows.clear(); FINAL(rows)")], 3)
    of_branch = Waits([block("rows.append(3)"), block("FINAL((rows, next(lazy)))")], 2)
    sandbox = Sandbox(kind, write=[in_folder]) if kind == "bwrap" else Sandbox(kind)
    running = RLM(of_run, sandbox=sandbox).start("What?", "0123456789")
    assert of_run.asked.wait(60)
    saved = next(in_folder.glob("rlm_runs/*.ipynb"))
    results: list[Result] = []
    branch = threading.Thread(target=lambda: results.append(RLM.fork(saved, 2, model=of_branch, sandbox=sandbox)))
    branch.start()
    assert of_branch.asked.wait(60)
    of_run.let.set()
    assert running.result(60).answer == "[]"
    of_branch.let.set()
    branch.join(60)
    assert results[0].answer == "([1, 2, 3], 1)"
    assert results[0].message.startswith("branched from the run's living kernel")


def test_a_moment_that_was_kept_is_branched_from_later_and_more_than_once(in_folder: Path) -> None:
    model = Waits([block(FIRST), block(SECOND), block("rows.clear()"), block("rows.append(0); FINAL(rows)")], 3)
    running = RLM(model).start("What?", "0123456789", keep_kernel=True)
    assert model.asked.wait(60)
    run_id = living_id()
    assert living.keep(run_id, 2).startswith("The kernel was kept as it is after iteration 2")
    assert "its cells are executed again (its kernel has gone on since)" in living.keep(run_id, 1)
    model.let.set()
    with running.result(60) as kept:
        for _ in range(2):
            result, said, _ = branched(kept, 2, LOOK)
            assert result.answer == LOOKED
            assert said[0].startswith("Branched from the run's living kernel")
    assert counted(in_folder) == 2


def living_id() -> str:
    """The id of the run that was begun last."""
    return list(living._sessions)[-1]
