import time
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import pytest

from rlm_jupyter.record import notebook
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.notebook_writer import NotebookWriter
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.events import ReplyReceived, RunResumed, SubcallSettled
from rlm_jupyter.types.values import Usage
from tests.support.sample_run import FIRST, SECOND, cell, ended, long_run, reply, sample, started, subcall


def test_records_come_back_in_order() -> None:
    assert list(Trajectory(sample()).records) == sample()


def test_its_limits_are_those_that_it_ended_with() -> None:
    first = replace(started(), limits={"max_iterations": 30, "max_cost": 0.5})
    assert Trajectory([first]).limits == first.limits
    # a person had lowered it meanwhile, which is not recorded; the run ended there
    limited = replace(ended(), stop_reason="iterations", iteration=4)
    assert Trajectory([first, limited]).limits == {"max_iterations": 4, "max_cost": 0.5}
    again = RunResumed(4, "a", "a", {"max_iterations": 8}, "", reexecuted=True)
    assert Trajectory([first, limited, again]).limits == {"max_iterations": 8}


def test_an_iteration_is_what_came_of_a_reply_that_counted() -> None:
    trajectory = Trajectory(sample())
    first, second = trajectory.iterations
    assert (first.index, first.reply.text, first.shown, first.notices) == (1, FIRST, "Outputs:\nA line", ())
    assert [call.ordinal for call in first.subcalls] == [1, 0]
    [looked] = first.cells
    assert (looked.source, looked.status, looked.execution_count) == ("print(context[:20])", "ok", 1)
    assert looked.outputs == sample()[4].outputs
    assert looked.subcalls == first.subcalls
    assert (second.index, second.reply.text, second.notices) == (2, SECOND, ("Two lines\nof a notice.",))
    assert [(c.block, c.status, c.subcalls) for c in second.cells] == [(0, "error", ()), (1, "skipped", ())]
    assert [r.text for r in trajectory.rejected] == [FIRST]
    assert trajectory.forced is not None
    assert trajectory.forced.text == "It was Ada."
    assert list(first.records) == sample()[1:6]


def test_facts_of_the_run() -> None:
    trajectory = Trajectory()
    for record in sample():
        assert trajectory.ended is None
        trajectory.apply(record)
    assert trajectory.started == sample()[0]
    assert trajectory.ended == sample()[-1]
    assert (trajectory.run_id, trajectory.answer, trajectory.elided_through) == (
        "20260102-030405-who",
        "Ada wrote it.",
        1,
    )
    assert len(trajectory.subcalls) == 2


def test_usage_and_cost_add_up_replies_and_subcalls() -> None:
    trajectory = Trajectory(sample())
    paid = [r for r in sample() if isinstance(r, ReplyReceived | SubcallSettled)]
    assert len(paid) == 6
    assert trajectory.usage == reduce(add, (record.usage for record in paid), Usage())
    assert trajectory.cost == pytest.approx(0.041)
    trajectory.apply(subcall(2, 0, 0, cost=None))
    trajectory.apply(reply(3, FIRST))
    assert trajectory.cost is None
    assert Trajectory([started()]).cost == 0.0


def test_the_bill_is_that_of_the_end_which_knows_what_was_stopped() -> None:
    *records, _ = sample()
    running, bill = Trajectory(records), (Usage(1_000, 200), 0.05)
    assert running.bill == (running.usage, running.cost)
    assert Trajectory([*records, ended(usage=bill[0], cost=bill[1])]).bill == bill


def test_an_iteration_that_grows_is_seen_to_grow() -> None:
    trajectory = Trajectory(sample()[:4])
    before = trajectory.iterations
    assert before[0].cells == ()
    trajectory.apply(sample()[4])
    after = trajectory.iterations
    assert before[0].cells == ()
    assert len(after[0].cells) == 1
    assert trajectory.iterations is after


def test_a_run_taken_up_again_has_not_ended() -> None:
    trajectory = Trajectory(sample())
    trajectory.apply(reply(3, FIRST))
    assert trajectory.ended is None
    assert trajectory.answer is None
    trajectory.apply(ended(answer="Eve"))
    assert trajectory.answer == "Eve"


def test_only_what_is_new_is_put_together() -> None:
    trajectory = Trajectory()
    halves = [0.0, 0.0]
    records = list(long_run(2000, 0))
    for n, record in enumerate(records):
        began = time.perf_counter()
        trajectory.apply(record)
        if n % 3 == 0:
            _ = trajectory.iterations
        halves[n * 2 // len(records)] += time.perf_counter() - began
    kept = trajectory.iterations[0]
    trajectory.apply(cell(2000, 1, "x"))
    assert trajectory.iterations[0] is kept
    assert sum(halves) < 15


def test_a_run_begins_with_its_start_and_once() -> None:
    with pytest.raises(RecordError, match="ReplyReceived"):
        Trajectory().apply(reply(1, FIRST))
    with pytest.raises(RecordError, match="and once"):
        Trajectory([started(), started()])
    with pytest.raises(RecordError, match="nothing is recorded"):
        _ = Trajectory().run_id


def test_saved_and_loaded_it_is_the_same(tmp_path) -> None:
    path = Trajectory(sample()).save(tmp_path / "run.ipynb")
    assert list(Trajectory.load(path).records) == sample()
    assert Trajectory(sample()).save(path) == path  # the same again
    with pytest.raises(ConfigurationError, match="not replaced"):
        Trajectory(sample()[:3]).save(path)
    assert Trajectory(sample()[:3]).save(tmp_path / "run", replace=True) == path
    assert list(Trajectory.load(str(path)).records) == sample()[:3]


@pytest.mark.parametrize("replace", [False, True])
def test_saving_never_replaces_a_notebook_of_somebody(tmp_path, replace) -> None:
    path = tmp_path / "mine.ipynb"
    path.write_text("{}")
    with pytest.raises(ConfigurationError, match="not the notebook of a run"):
        Trajectory(sample()).save(path, replace=replace)
    assert path.read_text() == "{}"
    with pytest.raises(RecordError, match="nothing is recorded"):
        Trajectory().save(tmp_path / "new.ipynb")
    assert not (tmp_path / "new.ipynb").exists()


def both(tmp_path, in_notebook, in_journal) -> None:
    writer = NotebookWriter(tmp_path / "run.ipynb")
    for record in in_notebook:
        writer.update(record)
    writer.write()
    with Journal.open(tmp_path / "run.rlm" / "journal.jsonl") as journal:
        for record in in_journal:
            journal.append(record)


@pytest.mark.parametrize("name", ["run.ipynb", "run.rlm"])
@pytest.mark.parametrize(("in_notebook", "in_journal"), [(5, 15), (15, 5), (15, 15)])
def test_of_notebook_and_journal_what_holds_more_is_loaded(tmp_path, name, in_notebook, in_journal) -> None:
    both(tmp_path, sample()[:in_notebook], sample()[:in_journal])
    assert list(Trajectory.load(tmp_path / name).records) == sample()


def test_a_notebook_whose_outputs_were_cleared_is_made_whole_by_the_journal(tmp_path) -> None:
    both(tmp_path, sample(), sample())
    import nbformat

    path = tmp_path / "run.ipynb"
    content = nbformat.read(path, 4)
    for one in content.cells:
        if one.cell_type == "code":
            one.outputs, one.execution_count = [], None
    nbformat.write(content, path)
    assert list(Trajectory.load(path).records) == sample()
    (tmp_path / "run.rlm" / "journal.jsonl").unlink()
    assert Trajectory.load(path).iterations[0].cells[0].outputs == ()


def test_a_damaged_journal_leaves_the_notebook(tmp_path) -> None:
    both(tmp_path, sample()[:5], [])
    (tmp_path / "run.rlm" / "journal.jsonl").write_bytes(b"broken\nbroken\n")
    assert list(Trajectory.load(tmp_path / "run.ipynb").records) == sample()[:5]
    (tmp_path / "run.ipynb").unlink()
    with pytest.raises(RecordError, match="line 1, is damaged"):
        Trajectory.load(tmp_path / "run.rlm")


def test_another_run_in_the_journal_is_not_mixed_in(tmp_path) -> None:
    both(tmp_path, sample(), [started(run_id="other")])
    assert Trajectory.load(tmp_path / "run.rlm").run_id == "other"


def test_nothing_to_load_is_an_error_in_a_line(tmp_path) -> None:
    with pytest.raises(RecordError, match=r"There is no run at .*none.ipynb"):
        Trajectory.load(tmp_path / "none.ipynb")


def test_it_shows_itself() -> None:
    trajectory = Trajectory([*sample()[:-1], ended(answer="<b>Ada</b>", usage=Usage(400, 100), cost=0.042)])
    facts = "answered, 2 iterations, 2 sub-calls, 500 tokens, $0.0420"
    assert repr(trajectory) == f"<Trajectory 20260102-030405-who: {facts}>"
    assert facts in trajectory._repr_html_()
    assert "&lt;b&gt;Ada" in trajectory._repr_html_()
    assert "<b>" not in trajectory._repr_html_()
    assert "not ended, 0 iterations" in repr(Trajectory([started()]))
    assert "nothing recorded" in repr(Trajectory()) + Trajectory()._repr_html_()
    assert len(Trajectory([started(), ended(answer="x" * 10_000_000)])._repr_html_()) < 4_000


def test_loading_looks_at_nothing_but_the_run(tmp_path, monkeypatch) -> None:
    path = Trajectory(sample()).save(tmp_path / "run.ipynb")
    (tmp_path / "run.rlm").mkdir()
    reads = []

    def counted(path, *_: object) -> list[Any]:
        reads.append(path)
        return sample()

    monkeypatch.setattr(notebook, "read", counted)
    Trajectory.load(path)
    assert reads == [path]
