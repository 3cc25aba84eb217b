"""Children of a run, watched: real runs over the loopback server, whose models reply when they are let."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.frontends.display.running_children import RunningChildren
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.frontends.live.cells import Cells
from rlm_jupyter.frontends.live.child import Child
from rlm_jupyter.frontends.live.children import MOST_KEPT
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.events import (
    CellFinished,
    CellStarted,
    ChildReported,
    Event,
    OutputChanged,
    OutputsShown,
    Record,
    ReplyStreamed,
    RunEnded,
    RunStarted,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import ContextInfo, Usage
from tests.support.loopback import Fault, Loopback, Request, Said
from tests.support.protocol import received

RUN = "0123abcd"
LOOK = "I look.\n```repl\nprint('seen', context)\n```"
ROOT = ["```repl\npart = rlm_query('the part')\nprint(part)\n```", "```repl\nFINAL(part)\n```"]
CHILD = [LOOK, "```repl\nFINAL('it says ' + context)\n```"]


class Models(Loopback):
    """A script for each model, by its name; a reply of one that is held waits until it is let."""

    def __init__(self, **scripts: list[str]) -> None:
        super().__init__()
        self._scripts = scripts
        self._gates: dict[str, threading.Semaphore] = {}

    def hold(self, model: str, opened: int) -> None:
        """Let this model reply so many times, and no more."""
        self._gates[model] = threading.Semaphore(opened)

    def let(self, model: str) -> None:
        self._gates[model].release()

    async def reply_to(self, request: Request) -> Said | Fault:
        model = request.body["model"]
        said = len([message for message in request.messages if message["role"] == "assistant"])
        gate = self._gates.get(model)
        while gate is not None and not gate.acquire(blocking=False):
            await asyncio.sleep(0.01)
        return Said(self._scripts[model][said])


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Models]]:
    servers: list[Models] = []
    monkeypatch.chdir(tmp_path)

    def start(**scripts: list[str]) -> Models:
        server = Models(**scripts)
        server.__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        return server

    yield start
    for server in servers:
        server.__exit__()


class Page:
    """Folds items as a page does: what it has is what somebody sees."""

    def __init__(self, live: Cells) -> None:
        self.live = live
        self.cells: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.children: dict[str, dict[str, Any]] = {}

    def look(self) -> None:
        for item in json.loads(json.dumps(self.live.take())):
            match item["item"]:
                case "cell" | "done":
                    cell = item["cell"]
                    if cell["id"] not in self.cells:
                        place = 0 if cell["after"] is None else self.order.index(cell["after"]) + 1
                        self.order.insert(place, cell["id"])
                    self.cells[cell["id"]] = cell
                case "gone":
                    self.order.remove(item["id"])
                    del self.cells[item["id"]]
                case "child":
                    self.children[item["child"]["id"]] = item["child"]
                case "end":
                    assert item["ids"] == self.order
                case "status":
                    self.cells[item["id"]] |= {"status": item["status"], "facts": item["facts"]}
                case "source":
                    cell = self.cells[item["id"]]
                    cell["source"] = cell["source"][: item["at"]] + item["text"]
                case "outputs":
                    cell = self.cells[item["id"]]
                    cell["outputs"][item["from"] :] = item["outputs"]

    def until(self, holds: Callable[[], Any], seconds: float = 30.0) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            if found := holds():
                return found
            assert time.monotonic() < deadline, (self.shown(), self.children)
            time.sleep(0.02)

    def shown(self) -> list[tuple[str, int]]:
        """Role and depth of all cells, in order, without the lines above and below them."""
        facts = [self.cells[cell_id]["facts"] for cell_id in self.order]
        return [(one["role"], one.get("depth", 0)) for one in facts if one["role"] != "boundary"]

    def text(self) -> str:
        return json.dumps([self.cells[i] for i in self.order])

    @property
    def child(self) -> dict[str, Any]:
        (child,) = self.children.values()
        return child


async def test_a_stream_tells_what_happens_in_children_of_children(models: Callable[..., Models]) -> None:
    models(root=ROOT, middle=["```repl\nFINAL(rlm_query('deeper'))\n```"], leaf=CHILD)
    rlm = RLM("openai/root", sub_model=["openai/middle", "openai/leaf"], limits=Limits(max_depth=3))
    events = [event async for event in rlm.stream("What?", "a text")]
    own = [event for event in events if not isinstance(event, ChildReported)]
    assert isinstance(own[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].answer == "it says deeper"
    root = own[0].run_id
    told: dict[str, list[ChildReported]] = {}
    for event in events:
        if isinstance(event, ChildReported):
            told.setdefault(event.child, []).append(event)
    middle, leaf = sorted(told, key=lambda child: told[child][0].depth)
    assert {(event.parent, event.depth) for event in told[middle]} == {(root, 1)}
    assert {(event.parent, event.depth) for event in told[leaf]} == {(middle, 2)}
    assert {(event.iteration, event.block, event.ordinal) for event in told[leaf]} == {(1, 0, 0)}
    # each tells its own record whole, in order, and what passes besides
    for child, reported in told.items():
        happened = [event.event for event in reported]
        path = reported[0].path
        assert path is not None
        loaded = Trajectory.load(path)
        assert loaded.run_id == child
        assert tuple(event for event in happened if isinstance(event, Record)) == loaded.records
        assert any(isinstance(event, ReplyStreamed) for event in happened)
    # and nothing of it is in its parent's
    assert not [event for event in own if isinstance(event, RunStarted)][1:]
    started = [event for event in own if isinstance(event, SubcallStarted)]
    assert [(event.prompt_head, event.model) for event in started] == [("the part", "")]


@pytest.mark.parametrize("save", [True, False], ids=["saved", "unsaved"])
def test_a_childs_cells_are_told_while_it_runs_and_when_it_is_over(models: Callable[..., Models], save: bool) -> None:
    server = models(root=ROOT, child=CHILD)
    server.hold("child", 1)
    live = Cells(RUN)
    rlm = RLM("openai/root", sub_model="openai/child", limits=Limits(max_depth=2), save=save)
    running = rlm.start("What?", "a text", on_event=live.apply)
    page = Page(live)
    # its first cell has run, and its second reply is held back: nobody has looked, so only numbers are told
    page.until(lambda: page.children and page.child["tokens"] and page.child["phase"] == "writing")
    page.until(lambda: len(server.requests) == 3)
    page.look()
    assert page.shown() == [("code", 0), ("subcalls", 0)]
    assert page.child["of"] == page.order[2]
    assert (page.child["number"], page.child["depth"], page.child["open"]) == ("1", 1, False)
    assert "1 sub-call in flight" in page.cells[page.order[2]]["source"]
    [flying] = page.cells[page.order[2]]["facts"]["flight"]
    assert flying == {"kind": "rlm", "ordinal": 0, "model": "", "prompt": "the part"}

    live.show_child(page.child["id"], is_open=True)
    page.look()
    assert page.child["open"]
    assert page.shown() == [("code", 0), ("subcalls", 0), ("prose", 1), ("code", 1)]
    seen = page.cells[page.order[5]]
    assert seen["outputs"][0]["text"] == "seen the part\n"
    assert seen["facts"]["child"] == page.child["id"]
    assert live.source(seen["id"]) == seen["source"]
    assert [cell["id"] for cell in live.snapshot()["cells"]] == page.order

    live.show_child(page.child["id"], is_open=False)
    page.look()
    assert page.shown() == [("code", 0), ("subcalls", 0)]
    live.show_child(page.child["id"], is_open=True)
    page.look()
    assert len(page.shown()) == 4

    # what comes now is told as it comes, between the root's own cells
    server.let("child")
    result = running.result(30)
    page.look()
    depths = [("code", 0), ("subcalls", 0), ("prose", 1), ("code", 1), ("code", 1), ("answer", 1)]
    assert page.shown() == [*depths, ("code", 0), ("answer", 0)]
    assert result.answer == "it says the part"
    assert page.child["outcome"] == "answered"
    assert "flight" not in page.cells[page.order[2]]["facts"]

    # closed, and opened again from the record
    whole = [{k: v for k, v in page.cells[i].items() if k not in {"id", "after"}} for i in page.order]
    live.show_child(page.child["id"], is_open=False)
    page.look()
    assert [depth for _, depth in page.shown()] == [0] * 4
    live.show_child(page.child["id"], is_open=True)
    page.look()
    again = [{k: v for k, v in page.cells[i].items() if k not in {"id", "after"}} for i in page.order]
    for one, other in zip(whole, again, strict=True):
        for cell in (one, other):  # nobody has noted these in a record
            cell["facts"].pop("started", None)
            cell["facts"].pop("ended", None)
    assert again == whole


def test_a_recorded_run_that_is_shown_again_has_its_children(models: Callable[..., Models]) -> None:
    models(root=ROOT, middle=["```repl\nFINAL(rlm_query('deeper'))\n```"], leaf=CHILD)
    rlm = RLM("openai/root", sub_model=["openai/middle", "openai/leaf"], limits=Limits(max_depth=3))
    result = rlm.completion("What?", "a text")
    assert result.path is not None
    live = Cells(RUN)
    for record in result.trajectory.records:
        live.apply(record)
    page = Page(live)
    page.look()
    assert not page.child["kept"]  # where it is, is said at the end
    live.facts.keep(result.path)
    page.look()
    assert page.child["kept"]
    middle = page.child["id"]
    live.show_child(middle, is_open=True)
    page.look()
    leaf = next(child for child in page.children.values() if child["id"] != middle)
    assert (leaf["number"], leaf["parent"], leaf["depth"]) == ("1.1", middle, 2)
    assert page.cells[leaf["of"]]["facts"]["child"] == middle
    live.show_child(leaf["id"], is_open=True)
    page.look()
    assert [depth for _, depth in page.shown()] == [0, 0, 1, 1, 2, 2, 2, 2, 1, 0, 0]
    assert "seen deeper" in page.text()
    # with its parent it goes, and comes
    live.show_child(middle, is_open=False)
    page.look()
    assert [depth for _, depth in page.shown()] == [0] * 4
    assert page.children[leaf["id"]]["of"] is None
    live.show_child(middle, is_open=True)
    page.look()
    assert max(depth for _, depth in page.shown()) == 2

    # a record that is gone is said to be, and harms nothing
    live.show_child(middle, is_open=False)
    for path in result.path.with_suffix(".rlm").rglob("children/*.ipynb"):
        path.unlink()
    for path in result.path.with_suffix(".rlm").rglob("children/*/journal.jsonl"):
        path.unlink()
    live.show_child(middle, is_open=True)
    page.look()
    assert (page.children[middle]["open"], page.children[middle]["kept"]) == (False, False)


def report(child: str, event: Event, ordinal: int = 0) -> ChildReported:
    return ChildReported(child, "root", 1, 1, 0, ordinal, event)


def started(run_id: str) -> RunStarted:
    info = ContextInfo("str", "1 character")
    return RunStarted(run_id, "?", "s", "o", info, "m", "", 1, {}, "2026-01-01T00:00:00+00:00")


def ended() -> RunEnded:
    return RunEnded("answered", "a", "a", True, 1, 1.0, Usage(1, 1), 0.0)


def test_what_nobody_looks_at_costs_next_to_nothing() -> None:
    child = Child("c", None, 1, "1", 1, 0, 0)
    child.apply(started("c"))
    outputs: list[Any] = []
    for index in range(1, 4):
        for _ in range(1_000):
            child.apply(ReplyStreamed(index, "word "))
        child.apply(received(index, "words"))
        child.apply(CellStarted(index, 0, "loop()"))
        for number in range(1_000):
            outputs = [{"output_type": "stream", "name": "stdout", "text": f"{number}"}]
            child.apply(OutputChanged(index, 0, tuple(outputs)))
            child.apply(SubcallStarted(index, 0, "llm", number, 1))
        assert child.events is not None
        assert sum(isinstance(event, OutputChanged) for event in child.events) == 1
        child.apply(CellFinished(index, 0, "loop()", None, "ok", tuple(outputs), 1, 0.1))
        child.apply(OutputsShown(index, "…"))
    assert child.events is not None
    kept = [type(event).__name__ for event in child.events]
    assert kept == ["RunStarted"] + ["ReplyReceived", "CellFinished", "OutputsShown"] * 3
    live = Cells(RUN)
    live.apply(report("c", started("c")))
    live.take()
    for number in range(1_000):
        live.apply(
            report("c", OutputChanged(1, 0, ({"output_type": "stream", "name": "stdout", "text": "x" * number},)))
        )
    assert not live.take()


def test_of_unsaved_children_the_last_can_be_opened() -> None:
    live = Cells(RUN)
    live.apply(CellStarted(1, 0, "rlm_query_batched(parts)"))
    for number in range(MOST_KEPT + 3):
        live.apply(SubcallStarted(1, 0, "rlm", number, 1))
        live.apply(report(f"c{number}", started(f"c{number}"), number))
    for number in range(MOST_KEPT + 3):
        live.apply(report(f"c{number}", ended(), number))
        live.apply(
            SubcallSettled(1, 0, "rlm", number, "0", 1, "p", None, "", "a", False, Usage(1, 1), 0.0, 1.0, f"c{number}")
        )
    page = Page(live)
    page.look()
    assert [child["kept"] for child in page.children.values()] == [False] * 3 + [True] * MOST_KEPT
    for child in page.children:
        live.show_child(child, is_open=True)
    live.show_child("unheard of", is_open=True)
    live.show_child("unheard of", is_open=False)
    page.look()
    answers = [depth for role, depth in page.shown() if role == "answer"]
    assert answers == [1] * MOST_KEPT
    # the next cells of the root come below them all
    live.apply(CellFinished(1, 0, "rlm_query_batched(parts)", None, "ok", (), 1, 1.0))
    live.apply(ended())
    page.look()
    assert page.shown()[-1] == ("answer", 0)


def test_a_host_that_fails_leaves_no_child_open_ended() -> None:
    live = Cells(RUN)
    live.apply(CellStarted(1, 0, "rlm_query(part)"))
    live.apply(SubcallStarted(1, 0, "rlm", 0, 1))
    live.apply(report("c", started("c")))
    live.apply(report("c", CellStarted(1, 0, "wait()")))
    live.show_child("c", is_open=True)
    page = Page(live)
    page.look()
    assert page.cells[page.order[-1]]["status"] == "running"
    live.fail("gone")
    page.look()
    assert {cell["status"] for cell in page.cells.values()} <= {"ok", "skipped"}
    assert page.child["outcome"] == "failed"


def test_progress_says_how_far_children_are() -> None:
    view = View()
    view.apply(CellStarted(1, 0, "rlm_query_batched(parts)"))
    view.apply(SubcallStarted(1, 0, "rlm", 0, 1))
    view.apply(report("a", started("a")))
    view.apply(report("a", ReplyStreamed(2, "So")))
    assert "child: iteration 2" in view.status()
    view.apply(report("b", started("b"), 1))
    assert "2 children: iterations 1 to 2" in view.status()
    view.apply(report("a", ended()))
    view.apply(report("b", ended(), 1))
    assert "child" not in view.status()
    assert RunningChildren().words == ""
