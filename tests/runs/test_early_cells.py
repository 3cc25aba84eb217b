"""The first cell of a reply begins while the model still writes: nobody can tell, but by the clock."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.record.notice import BROKEN_OFF
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run import arriving
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.early_cell import EarlyCell
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.errors import ModelError, ModelUnavailableError, UnusableReplyError
from rlm_jupyter.types.events import (
    CellFinished,
    CellProposed,
    Event,
    Record,
    ReplyReceived,
    ReplyStreamed,
    RunPaused,
)
from tests.support.pace import Pace
from tests.support.streamed import Breaks, Streamed

pytestmark = pytest.mark.slow

CONTEXT = "one two three " * 500
END = "I am done.\n```repl\nFINAL(len(context.split()))\n```"
PROSE = "Then I read what it shows, and say which of them it is.\n" * 6
PIECES = (
    "I look.\n",
    "```repl\nprint(context)\n```\n",
    "```repl\nprint(context)\n```\n",
    "```repl\nn = len(context)\nn\n```\n",
    "```repl\nprint(m)\nm = 1\n```\n",
    "```repl\nimport random; print(len(str(random.random())) > 2)\n```\n",
    "```repl\nprint(llm_query('Count the words of: ' + context))\n```\n",
    "```repl\nprint(len(trajectory), len(trajectory[-1].reply) if trajectory else None)\n```\n",
    "```repl\nFINAL(3)\n```\n",
    "```repl\nFINAL(len(context.split()))\n```\n",
    "```repl\nFINAL(It has three (3) words)\n```\n",
    "```repl\nFINAL(three)\n```\n",
    "```repl\nanswer['content'] = '3'; answer['ready'] = True\n```\n",
    "```repl\nanswer['content'] = str(len(context))\n```\n",
    "```repl\ndef llm_query(prompt): return 'nothing'\nprint(llm_query('Say: a'))\n```\n",
    "```repl\nprint(1)\nexit()\n```\n",
    "```repl\nprint(llm_query(context), llm_query_batched([context[:40], context[:50]]))\n```\n",
    '```repl\ns = """\n```\n"""\nprint(s)\n```\n',
    "```python\nprint(2)\n```\n",
    "```text\nthe plan\n```\n",
    "```repl\nprint('cut o",
    "Output:\n```\n7\n```\n",
    "FINAL(3)\n",
    "FINAL_VAR(n)\n",
    "FINAL(three,\n",
    PROSE,
)


def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every cell wait for its whole reply, as if the model told nothing before."""
    monkeypatch.setattr(arriving, "may_begin", lambda run, source: False)


def facts(records: Sequence[Record]) -> list[Any]:
    """Return records without what differs from one run to the next, and that is times and names of runs."""
    ids = {"seconds", "started", "run_id", "request", "child"}
    found = []
    for record in records:
        fields = {name: value for name, value in dataclasses.asdict(record).items() if name not in ids}
        for output in fields.get("outputs", ()):
            output.pop("traceback", None)  # holds addresses
        found.append((type(record).__name__, fields))
    return found


async def records_of(replies: Sequence[str | Breaks], seconds: float = 0.0, **options: Any) -> list[Any]:
    model = Streamed([*replies, *[END] * 12], chars=7, seconds=seconds)
    result = await RLM(model, save=False, limits=Limits(max_iterations=5), **options).acompletion("How long?", CONTEXT)
    return facts(result.trajectory.records)


def scripts(seed: int, number: int) -> list[list[str]]:
    chance = random.Random(seed)
    pieces = [*PIECES, *[PROSE] * 10]
    return [["".join(chance.choices(pieces, k=chance.randint(1, 5))) for _ in range(3)] for _ in range(number)]


LOOK = "I look.\n```repl\nprint(len(context))\n```\n"
SLOW = "I look.\n```repl\nimport time\nprint('begun')\ntime.sleep({seconds})\nprint('over')\n```\n"
BROKEN = ModelUnavailableError("it broke off", retries=2)
TYPED = "```repl\nFINAL(3)\n```\n"

SAY = "```repl\nprint('There are many.')\n```\n"
WAITING: dict[str, tuple[list[str], int]] = {
    "it may be questioned": ([TYPED + PROSE], 0),
    "it may be questioned, or not": ([TYPED + PROSE + LOOK], 0),
    "it may be a repetition": ([LOOK + PROSE, LOOK + PROSE], 1),
    "it may be a repetition of an earlier one": ([LOOK + PROSE, "```repl\nx = 1\n```\n" + PROSE, LOOK + PROSE], 2),
    "it may be what was told": ([SAY + PROSE, "```repl\nThere are many.\n```\n" + PROSE], 1),
    "a block of the other tag may count": (["```python\nprint(2)\n```\n" + PROSE], 0),
    "it may be an answer": (["FINAL(three,\n" + LOOK + PROSE + ")\n" + PROSE], 0),
    "its string may go on": (['```repl\ns = """\n```\n' + PROSE + '"""\nprint(s)\n```\n' + PROSE], 1),
}
"""Replies, and how many of them have a cell that does not wait."""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the cells that have begun early."""
    begun: list[str] = []
    may_begin = arriving.may_begin

    def seen(run: Run, source: str) -> bool:
        may = may_begin(run, source)
        begun.extend([source] * may)
        return may

    monkeypatch.setattr(arriving, "may_begin", seen)
    return begun


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))])
async def test_the_record_is_the_same(seed: int, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    written = scripts(seed, 8)
    early = [await records_of(replies, 0.004) for replies in written]
    assert len(begun) >= len(written)
    in_order(monkeypatch)
    for replies, records in zip(written, early, strict=True):
        assert records == await records_of(replies), replies


@pytest.mark.parametrize("why", WAITING)
async def test_a_cell_waits_where_the_rest_may_change_what_becomes_of_it(
    why: str, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies, count = WAITING[why]
    early = await records_of(replies, 0.002)
    assert len(begun) == count
    in_order(monkeypatch)
    assert early == await records_of(replies)


@pytest.mark.parametrize("insurance", [False, True])
async def test_a_kernel_dies_in_a_cell_while_the_model_writes(
    insurance: bool, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = "```repl\nx = 1\nimport os, time; time.sleep(0.3); os._exit(3)\n```\n"
    replies = [LOOK + PROSE, dying + PROSE + LOOK, "```repl\nprint(x)\n```\n" + PROSE]
    early = await records_of(replies, 0.01, insurance=insurance)
    assert len(begun) >= 2
    in_order(monkeypatch)
    assert early == await records_of(replies, insurance=insurance)


async def test_what_is_told_of_a_cell_comes_behind_its_reply(begun: list[str]) -> None:
    told: list[Event] = []
    model = Streamed([SLOW.format(seconds=1) + PROSE, END], chars=20, seconds=0.01)
    await RLM(model, save=False).acompletion("How long?", CONTEXT, on_event=told.append)
    assert begun
    first = [event for event in told if getattr(event, "iteration", 0) == 1]
    kinds = [kind.__name__ for kind, _ in itertools.groupby(map(type, first))]
    assert kinds[:2] == ["ReplyStreamed", "ReplyReceived"]
    assert kinds[2:5] == ["CellStarted", "OutputChanged", "CellFinished"]
    assert kinds.count("ReplyStreamed") == 1


async def test_a_cell_takes_no_time_of_its_own_while_the_model_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def behind_the_reply() -> float:
        model = Streamed([SLOW.format(seconds=1) + PROSE * 2, END], chars=8, seconds=2.5 / (len(PROSE) / 4))
        at: dict[type[Event], float] = {}

        def told(event: Event) -> None:
            at.setdefault(type(event), time.monotonic())

        result = await RLM(model, save=False).acompletion("How long?", CONTEXT, on_event=told)
        assert result.answer == "1500"
        return at[CellFinished] - at[ReplyReceived]

    # a loaded machine writes more slowly, so whole runs can't be compared
    assert await behind_the_reply() < 0.5
    in_order(monkeypatch)
    assert await behind_the_reply() >= 1


@pytest.mark.parametrize(
    "error",
    [BROKEN, ModelError("no such key"), UnusableReplyError("it wrote 'a' over and over"), TimeoutError()],
    ids=lambda error: type(error).__name__,
)
async def test_a_reply_that_breaks_off_behind_a_cell_that_has_begun_ends_there(
    error: Exception, begun: list[str], tmp_path: Path
) -> None:
    model = Streamed([Breaks(LOOK + PROSE + "```repl\nprint('cut", error), END])
    result = await RLM(model, save=tmp_path / "run.ipynb").acompletion("How long?", CONTEXT)
    assert begun == ["print(len(context))"]
    assert (result.answer, len(model.requests)) == ("1500", 2)
    first = result.trajectory.iterations[0]
    assert (first.reply.text, first.reply.finish, first.reply.estimated) == (LOOK, "broken_off", True)
    assert first.reply.usage.output_tokens > len(LOOK + PROSE) // 6  # all that came is billed
    assert [cell.status for cell in first.cells] == ["ok"]
    assert model.requests[1][2].content == LOOK.strip()
    assert result.usage == result.trajectory.usage
    shown = [cell.source for cell in nbformat.read(tmp_path / "run.ipynb", as_version=4).cells]
    assert shown[shown.index("print(len(context))") + 1] == f"> {BROKEN_OFF}"
    assert (await RLM.areplay(tmp_path / "run.ipynb")).same
    resumed = Streamed([END])
    forked = await RLM.afork(tmp_path / "run.ipynb", at=1, model=resumed)
    assert resumed.requests[0] == model.requests[1]
    assert forked.answer == "1500"


async def test_a_reply_that_breaks_off_before_its_cell_is_asked_for_again(begun: list[str]) -> None:
    model = Streamed([Breaks("I look.\n```repl\nprint(1)", BROKEN), LOOK + PROSE, END])
    result = await RLM(model, save=False).acompletion("How long?", CONTEXT)
    assert [one.reply.text for one in result.trajectory.iterations] == [LOOK + PROSE, END]
    assert begun == ["print(len(context))"]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("way", ["stop", "cancel"])
@pytest.mark.parametrize("seconds", [0, 30])
async def test_a_run_is_stopped_while_the_model_writes_and_the_cell_runs(
    way: str, seconds: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cells: list[EarlyCell] = []

    class Seen(EarlyCell):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            cells.append(self)

    def is_there() -> bool:
        return any(cell._execution.done() if seconds == 0 else "begun" in str(cell._outputs) for cell in cells)

    monkeypatch.setattr(arriving, "EarlyCell", Seen)
    control, path = Control(), tmp_path / "run.ipynb"
    model = Streamed([SLOW.format(seconds=seconds) + PROSE * 90, END], seconds=0.01)
    asking = RLM(model, save=path).acompletion("How long?", CONTEXT, control=control)
    running = asyncio.create_task(asking)
    await until(is_there)
    pace = Pace()
    control.stop() if way == "stop" else running.cancel()
    await asyncio.wait([running])
    assert pace.within(3)
    trajectory = Trajectory.load(path)
    assert [type(record).__name__ for record in trajectory.records] == [
        "RunStarted",
        "ReplyReceived",
        "CellFinished",
        "RunEnded",
    ]
    (first,) = trajectory.iterations
    assert (first.reply.text, first.reply.finish) == (SLOW.format(seconds=seconds), "broken_off")
    assert trajectory.ended is not None
    assert trajectory.ended.stop_reason == "cancelled"
    assert trajectory.ended.usage == first.reply.usage == trajectory.usage
    assert [cell.status for cell in first.cells] == ["ok" if seconds == 0 else "interrupted"]
    assert "begun" in str(first.cells[0].outputs)
    resumed = Streamed([END])
    result = await RLM.aresume(path, model=resumed)
    assert result.answer == "1500"
    assert resumed.requests[0][2].content == SLOW.format(seconds=seconds).strip()


async def test_the_time_is_up_while_the_model_writes_and_the_cell_runs(begun: list[str]) -> None:
    model = Streamed([SLOW.format(seconds=60) + PROSE * 90, END], seconds=0.02)
    began = time.monotonic()
    result = await RLM(model, save=False, limits=Limits(max_seconds=4)).acompletion("How long?", CONTEXT)
    assert begun
    assert time.monotonic() - began < 8
    assert result.stop_reason == "seconds"
    (first,) = result.trajectory.iterations
    assert (first.reply.finish, [cell.status for cell in first.cells]) == ("broken_off", ["interrupted"])
    assert 0 < first.cells[0].seconds < 8


async def test_a_cell_that_is_early_asks_a_model_only_behind_its_reply(begun: list[str]) -> None:
    said = "```repl\nprint(llm_query('Say: a, b, c'))\n```\n" + PROSE * 2
    result = await RLM(Streamed([said, END], seconds=0.01), save=False).acompletion("How long?", CONTEXT)
    assert begun
    kinds = [type(record).__name__ for record in result.trajectory.records]
    assert kinds[1:4] == ["ReplyReceived", "SubcallSettled", "CellFinished"]


async def test_a_cell_that_waits_for_a_person_waits_for_its_reply(begun: list[str]) -> None:
    control, proposed = Control(approving=True), list[str]()

    def decide(event: Event) -> None:
        if isinstance(event, CellProposed):
            proposed.append(event.source)
            control.approve()

    model = Streamed([LOOK + PROSE, END])
    await RLM(model, save=False).acompletion("How long?", CONTEXT, control=control, on_event=decide)
    assert (len(proposed), begun) == (2, [])


async def test_a_cell_that_has_begun_is_proposed_to_nobody(begun: list[str]) -> None:
    control, told = Control(), list[Event]()

    def watch(event: Event) -> None:
        told.append(event)
        if isinstance(event, ReplyStreamed) and begun and not control.approving:
            control.approving = True
        if isinstance(event, CellProposed):
            control.refuse()

    model = Streamed([LOOK + PROSE, END, END])
    limits = Limits(max_iterations=2)
    result = await RLM(model, save=False, limits=limits).acompletion(
        "How long?", CONTEXT, control=control, on_event=watch
    )
    statuses = [cell.status for one in result.trajectory.iterations for cell in one.cells]
    assert statuses == ["ok", "skipped"]


async def test_a_run_is_paused_while_the_model_writes_and_the_cell_runs(begun: list[str]) -> None:
    control, paused = Control(), list[int]()

    def watch(event: Event) -> None:
        if isinstance(event, ReplyStreamed) and len(begun) == 1 and not paused:
            control.pause()
        if isinstance(event, RunPaused):
            paused.append(event.iteration)
            control.resume()

    model = Streamed([SLOW.format(seconds=0.2) + PROSE, END], seconds=0.002)
    result = await RLM(model, save=False).acompletion("How long?", CONTEXT, control=control, on_event=watch)
    assert (result.answer, paused) == ("1500", [2])


async def test_a_limit_in_dollars_is_kept_while_the_cell_runs(begun: list[str]) -> None:
    said = "```repl\nprint(llm_query('Say: a, b, c'))\n```\n" + PROSE
    model = Streamed([said] * 9, seconds=0.002)
    limits = Limits(max_cost=1.2, max_output_tokens=600)
    result = await RLM(model, save=False, limits=limits).acompletion("How long?", CONTEXT)
    assert begun
    assert result.cost is not None
    assert result.cost <= 1.2
