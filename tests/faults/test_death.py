"""Kernels that die, however and whenever: seen at once, started again, paid for once, and the model is told."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result, Tool
from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import KernelDiedError
from rlm_jupyter.types.events import CellFinished, CellStarted, Event, NoticeGiven, SubcallSettled
from tests.faults.runs import block
from tests.support.examples import one_in

MIB = 2**20
WAYS = {
    "exits": "import os; os._exit(3)",
    "is killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "crashes in C": "import ctypes; ctypes.string_at(0)",
    "aborts": "import os; os.abort()",
    "kills its process group": "import os, signal; os.killpg(0, signal.SIGKILL)",
}
FIRST = block("rows = [1, 2, 3]", "import math", "def f(): pass", "answer['content'] = 'so far'")
LAST = block("print('rows' in globals(), len(context))", "FINAL('do' + 'ne')")
_SEEN_SECONDS = 1.0
_ATTEMPTS = 3
"""At being as quick as that: a busy machine only ever adds."""
IN_A_BATCH = """
import pathlib, threading, time
def die():
    while not pathlib.Path({path!r}).exists(): time.sleep(0.01)
    {way}
threading.Thread(target=die).start()
llm_query_batched(['slow'] * 4 + ['quick'])
"""
BETWEEN = """
import pathlib, threading, time
def die():
    while not pathlib.Path({path!r}).exists(): time.sleep(0.01)
    {way}
threading.Thread(target=die).start()
"""


class Slow(ScriptedModel):
    """Takes its time over what is marked so."""

    def __init__(self, replies: Any, **options: Any) -> None:
        super().__init__(replies, sub=lambda prompt: f"about {prompt}", **options)

    async def complete(self, messages: Any, **options: Any) -> Any:
        reply = await super().complete(messages, **options)
        if reply.text == "about slow":
            await asyncio.sleep(60)
        return reply


async def run(
    *replies: str, told: Callable[[Event], None] | None = None, model: type[Slow] = Slow, **options: Any
) -> Result:
    rlm = RLM(model(replies), limits=options.pop("limits", Limits()), save=False, **options)
    return await rlm.acompletion("What?", "0123456789", on_event=told)


def notices(result: Result) -> str:
    return "\n".join(record.text for record in result.trajectory.records if isinstance(record, NoticeGiven))


@pytest.mark.parametrize("way", WAYS)
async def test_death_in_a_cell_is_seen_and_survived(way: str) -> None:
    times: dict[type, float] = {}
    cell = f"print('before', flush=True)\nimport time; time.sleep(0.3)\n{WAYS[way]}"
    for _ in range(_ATTEMPTS):
        result = await run(
            FIRST, block(*cell.split("\n")), LAST, told=lambda event: times.__setitem__(type(event), time.monotonic())
            if not (isinstance(event, CellFinished | CellStarted) and event.iteration != 2) else None,
        )  # fmt: skip
        if times[CellFinished] - times[CellStarted] < 0.3 + _SEEN_SECONDS:
            break
    else:
        pytest.fail(f"seen after {times[CellFinished] - times[CellStarted]:.2f} s")
    assert (result.answer, result.stop_reason) == ("done", "answered")
    died = result.trajectory.iterations[1].cells[0]
    assert died.status == "died"
    assert died.outputs[0]["text"] == "before\n"
    assert "The kernel died while it executed this cell" in notices(result)
    assert "your variables are gone: rows, f" in notices(result)
    assert result.trajectory.iterations[2].cells[0].outputs[0]["text"] == "False 10\n"


@pytest.mark.parametrize("way", ["exits", "is killed"])
async def test_death_in_a_batch_cancels_its_calls_and_bills_each_once(way: str, tmp_path: Path) -> None:
    settled: list[SubcallSettled] = []
    first = tmp_path / "one is settled"

    def told(event: Event) -> None:
        if isinstance(event, SubcallSettled):
            settled.append(event)
            first.touch()

    began = time.monotonic()
    result = await run(FIRST, block(IN_A_BATCH.format(path=str(first), way=WAYS[way])), LAST, told=told)
    assert (result.answer, result.stop_reason) == ("done", "answered")
    assert sorted(call.ordinal for call in settled) == [0, 1, 2, 3, 4]
    assert [call.ordinal for call in settled if not call.failed] == [4]
    assert time.monotonic() - began < 50  # and not the minute that the slow ones take
    assert result.trajectory.usage == result.usage
    assert result.trajectory.iterations[1].cells[0].status == "died"


@pytest.mark.slow
@pytest.mark.parametrize("way", one_in(2, ["is killed", "crashes in C"]))
async def test_death_between_cells_is_noticed_by_the_next(
    way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, died = tmp_path / "the last reply is asked for", Connection.died
    deaths: list[int | None] = []

    def seen(self: Connection, code: int | None) -> None:
        died(self, code)
        deaths.append(code)

    class Waiting(Slow):
        async def complete(self, messages: Any, **options: Any) -> Any:
            if len(self.requests) == 2:
                asked.touch()
                async with asyncio.timeout(60):  # a core may be dumped first
                    while not deaths:
                        await asyncio.sleep(0.01)
            return await super().complete(messages, **options)

    monkeypatch.setattr(Connection, "died", seen)
    result = await run(FIRST, block(BETWEEN.format(path=str(asked), way=WAYS[way])), LAST, model=Waiting)
    assert (result.answer, result.stop_reason) == ("done", "answered")
    assert "The kernel died between two cells and was started again" in notices(result)
    assert [cell.status for i in result.trajectory.iterations for cell in i.cells] == ["ok", "ok", "ok"]


async def test_death_in_a_child_is_the_childs_affair() -> None:
    class Parts(Slow):
        def _next(self, messages: Any) -> Any:
            child = len(messages) > 1 and "`context` is a str: 6 characters" in messages[1].content
            return (
                (block("import os; os._exit(1)") if len(messages) == 2 else block("FINAL('of the child')"))
                if child
                else super()._next(messages)
            )

    rlm = RLM(
        Parts([block("part = rlm_query('a part')"), block("FINAL(part)")]), limits=Limits(max_depth=2), save=False
    )
    result = await rlm.acompletion("What?", "0123456789")
    assert (result.answer, result.stop_reason) == ("of the child", "answered")
    assert not notices(result)


async def test_more_memory_than_the_kernel_may_have_is_no_end() -> None:
    hog = block("import ctypes", "held = []", "while True: held.append(bytearray(20_000_000))")
    result = await run(FIRST, hog, LAST, sandbox=Sandbox("none", memory=600 * MIB))
    assert (result.answer, result.stop_reason) == ("done", "answered")


class Deadly:
    """Kills every kernel as soon as it is there, so many times; `spared` that come first live."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, *, spared: int = 0) -> None:
        from rlm_jupyter.kernel.process import KernelProcess

        self.left, self.at = times, list[float]()
        launch = KernelProcess.launch

        async def launched(**options: Any) -> Any:
            process = await launch(**options)
            self.at.append(time.monotonic())
            if len(self.at) > spared and self.left:
                self.left -= 1
                os.kill(process.pid, signal.SIGKILL)
            return process

        monkeypatch.setattr(KernelProcess, "launch", launched)


async def test_a_kernel_that_dies_as_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    deadly = Deadly(monkeypatch, 2, spared=1)
    result = await run(FIRST, block(WAYS["exits"]), LAST)
    assert (result.answer, result.stop_reason) == ("done", "answered")
    assert len(deadly.at) == 4
    assert deadly.at[3] - deadly.at[2] > 0.2


async def test_a_kernel_that_always_dies_as_it_starts_ends_the_run_with_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadly = Deadly(monkeypatch, 1_000, spared=1)
    result = await run(FIRST, block(WAYS["exits"]), LAST)
    assert (result.answer, result.stop_reason) == ("so far", "kernel_died")
    assert len(deadly.at) <= 5


async def test_the_first_kernel_may_die_as_it_starts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Deadly(monkeypatch, 1)
    result = await run(FIRST, LAST)
    assert (result.answer, result.stop_reason) == ("done", "answered")


@pytest.mark.parametrize("moment", ["set_context", "set_tools", "open_outputs"])
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_kernel_that_is_killed_before_its_first_cell_is_restarted_once(
    moment: str, deaths: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare, left = getattr(Kernel, moment), [None] * deaths

    async def killed(self: Kernel, *args: Any) -> None:
        if left:
            left.pop()
            assert self.pid is not None
            os.kill(self.pid, signal.SIGKILL)
        await prepare(self, *args)

    monkeypatch.setattr(Kernel, moment, killed)
    rlm = RLM(
        ScriptedModel(
            [
                block(
                    "print(len(context), 'context_1' in globals())",
                    "open(f'{OUTPUTS}/made.txt', 'w').write('x')",
                    "FINAL(add(1, 2))",
                )
            ]
        ),
        tools=[Tool(add)],
        outputs=["made.txt"],
        output_dir=tmp_path,
        sandbox="none",
    )
    if deaths == 1:
        result = rlm.completion("?", "words")
        assert result.answer == "3"
        assert result.trajectory.iterations[0].cells[0].outputs[0]["text"].splitlines()[0] == "5 False"
    else:
        with pytest.raises(KernelDiedError):
            rlm.completion("?", "words")


def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other
