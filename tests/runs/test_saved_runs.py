"""Runs that an earlier version saved: they open, export, replay, resume and fork as they did.

`tests/support/saved_runs` holds them as that version wrote them: one with an answer, sub-calls and a child, one that
ended by its limit, and one whose host was killed while it waited for a reply.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export import WholeRun, to_html, to_jsonl, to_notebook
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory

SAVED = Path(__file__).parents[1] / "support" / "saved_runs"
NAMES = ["answered", "killed", "limited"]
END = "I have it.\n```repl\nFINAL(f'{n} lines')\n```"


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    shutil.copytree(SAVED, tmp_path, dirs_exist_ok=True)
    return lambda name: tmp_path / f"{name}.ipynb"


def unpaid() -> ScriptedModel:
    """Reply with the end, and fail where a sub-call is asked again."""
    return ScriptedModel([END], sub=lambda prompt: pytest.fail(f"asked again: {prompt}"))


@pytest.mark.parametrize("name", NAMES)
def test_one_opens_and_exports(saved: Callable[[str], Path], name: str) -> None:
    path = saved(name)
    nbformat.validate(nbformat.read(path, as_version=4))
    trajectory = Trajectory.load(path)
    assert trajectory.started.prompt == "How many lines are there?"
    assert trajectory.iterations[0].cells[0].status == "ok"
    assert trajectory.records == Trajectory.load(path.with_suffix(".rlm")).records
    run = WholeRun.gather(path)
    assert "How many lines are there?" in to_html(run)
    assert len(to_jsonl(run).splitlines()) == 1 + len(trajectory.iterations)
    nbformat.validate(nbformat.reads(to_notebook(run).decode(), as_version=4))


def test_one_with_an_answer_replays_and_forks(saved: Callable[[str], Path]) -> None:
    path = saved("answered")
    run = SavedRun.load(path)
    assert run.trajectory.answer == "400 four"
    assert [call.kind for call in run.trajectory.subcalls] == ["llm", "llm", "llm", "rlm"]
    assert len(run.children()) == 1
    replayed = RLM.replay(path)
    assert replayed.same, replayed
    assert (replayed.cells, replayed.subcalls) == (3, 4)
    model = ScriptedModel(["```repl\nFINAL(f'{len(lines)} and {c}')\n```"], sub=lambda prompt: pytest.fail(prompt))
    assert RLM.fork(path, 2, model=model).answer == "400 and four"


def test_one_that_ended_by_its_limit_is_resumed(saved: Callable[[str], Path]) -> None:
    result = RLM.resume(saved("limited"), model=unpaid(), max_iterations=4)
    assert (result.answer, result.stop_reason) == ("400 lines", "answered")
    assert len(result.trajectory.iterations) == 3


def test_one_whose_host_was_killed_is_resumed(saved: Callable[[str], Path]) -> None:
    result = RLM.resume(saved("killed"), model=unpaid())
    assert (result.answer, result.stop_reason) == ("400 lines", "answered")
    assert [call.text for call in result.trajectory.subcalls] == ["<paid>"]
