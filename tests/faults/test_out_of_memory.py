"""A cell takes too much memory: real allocations, real SIGKILL of what the system's killer would choose."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlm_jupyter import RLM, Limits, Result, Sandbox
from rlm_jupyter.kernel import supervisor
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.templates import Templates
from tests.faults.runs import block
from tests.faults.test_death import Slow, notices
from tests.faults.test_insurance import insured
from tests.support.sandboxes import need_bwrap
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not supervisor.can_fork_live(), reason="kernels are forked on Linux"),
]

MB = 2**20
TAKE = (
    f"print('it begins', flush=True)\nmore = []\nfor _ in range(75):\n    more.append(bytearray(8 * {MB}))\n"
    "    more[-1][::4096] = b'x' * len(more[-1][::4096])\nimport time; time.sleep(60)"
)
"""Takes memory, and touches it, until something ends it: 600 MB at the most, so that no machine suffers."""
HELD = f"n = 0; rows = ['kept']; lazy = (i for i in range(10_000)); big = bytearray(b'x' * 120 * {MB})"


def _processes(kernel: Kernel) -> list[psutil.Process]:
    """The kernel, and the forks of it that sleep."""
    pid = kernel.pid
    assert pid is not None
    process = psutil.Process(pid)
    return [process, *process.children()]


def _score(process: psutil.Process) -> float:
    """What the system's killer goes by (`oom_badness` of Linux): the largest is ended."""
    adjusted = int(Path(f"/proc/{process.pid}/oom_score_adj").read_text())
    return process.memory_info().rss + adjusted / 1000 * psutil.virtual_memory().total


class Killer:
    """Ends, as the system does where memory runs out, the process with the largest score, once the kernel has too much.

    Parameters
    ----------
    kernel
        It and its forks are what there is.
    most
        Bytes that the kernel may have, from when on the cell shows anything.
    """

    def __init__(self, kernel: Kernel, most: int) -> None:
        self._kernel, self._most = kernel, most
        self.killed: list[int] = []
        self.begun = asyncio.Event()
        self.scores: dict[int, float] = {}

    async def __call__(self) -> None:
        await self.begun.wait()
        while True:
            with contextlib.suppress(psutil.Error, OSError):
                alive = _processes(self._kernel)
                if alive[0].memory_info().rss > self._most:
                    chosen = max(alive, key=_score)
                    self.killed.append(chosen.pid)
                    self.scores = {one.pid: _score(one) for one in alive}
                    os.kill(chosen.pid, signal.SIGKILL)
                    return
            await asyncio.sleep(0.01)


async def _take(kernel: Kernel, source: str, most: int = 300 * MB) -> tuple[str, bool]:
    """Execute a cell that takes too much; return what came of it, and whether it was the kernel that was ended."""
    killer, pid = Killer(kernel, most), kernel.pid
    watching = asyncio.create_task(killer())
    try:
        cell = kernel.execute(source, on_outputs=lambda _: killer.begun.set())
        status = (await asyncio.wait_for(cell, 60)).status
    except TimeoutError:
        raise AssertionError(f"the kernel {pid} goes on; ended was {killer.killed} of {killer.scores}") from None
    finally:
        watching.cancel()
    return status, killer.killed == [pid]


@contextlib.asynccontextmanager
async def _kernel(kind: Any) -> AsyncIterator[Kernel]:
    templates = Templates()
    kernel = await Kernel.start(Answerer(), sandbox=Sandbox(kind), templates=templates, insurance=True)
    try:
        yield kernel
    finally:
        await kernel.close()
        await templates.close()


@pytest.mark.parametrize("kind", ["none", "bwrap"])
@pytest.mark.parametrize("deaths", [3, pytest.param(50, marks=pytest.mark.soak)])
async def test_deaths_by_memory_lose_nothing_but_the_cells_own(kind: Any, deaths: int) -> None:
    if kind == "bwrap":
        need_bwrap()
    async with _kernel(kind) as kernel:
        await insured(kernel, HELD)
        for times in range(1, deaths + 1):
            await insured(kernel, "n += 1; next(lazy)", (times, 0))
            # every second one has given away what it shares with its fork: by size, that would be chosen, and is in a
            # sandbox, where a kernel can't raise its score
            freed = "del big\n" if times % 2 and kind == "none" else ""
            most = (150 if freed else 300) * MB
            assert await _take(kernel, f"rows.append('lost'); n = -1\n{freed}{TAKE}", most) == ("died", True)
            fork = await kernel.forks.revive()
            assert fork is not None
            assert fork.position == (times, 0)
            shown = text_of(await kernel.execute("n, next(lazy), rows, len(big), 'more' in globals()"))
            assert shown == str((times, 2 * times - 1, ["kept"], 120 * MB, False))


async def test_where_the_sleeping_fork_is_ended_the_kernel_goes_on_and_the_next_cell_makes_another() -> None:
    async with _kernel("none") as kernel:
        await insured(kernel, HELD)
        [_, fork] = _processes(kernel)
        fork.kill()
        assert text_of(await kernel.execute("n + 1")) == "1"
        await insured(kernel, "n = 2", (2, 0))
        assert await _take(kernel, TAKE) == ("died", True)
        assert await kernel.forks.revive() is not None
        assert text_of(await kernel.execute("n, rows")) == "(2, ['kept'])"
        # both at once: nothing is left, and that is seen at once
        for process in reversed(_processes(kernel)):
            process.kill()
        assert (await kernel.execute("n")).status == "died" if kernel.is_alive else True
        assert await asyncio.wait_for(kernel.forks.revive(), 20) is None
        await kernel.restart()
        assert text_of(await kernel.execute("'n' in globals()")) == "False"


async def _run(*replies: str, **options: Any) -> Result:
    rlm = RLM(Slow(replies), limits=Limits(), save=False, insurance=True, **options)
    return await rlm.acompletion("What?", "0123456789")


async def test_under_a_limit_of_its_address_space_the_cell_fails_and_the_kernel_goes_on() -> None:
    """As under `ulimit -v`, or the sandbox's own limit: Python raises MemoryError, and nothing has died."""
    limit = (
        "import resource; had = int(open('/proc/self/statm').read().split()[0]) * 4096; rows = ['kept']\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (had + 200 * {MB},) * 2)"
    )
    result = await _run(block(limit), block("rows.append(1)", TAKE), block("FINAL(rows)"))
    assert result.answer == '["kept", 1]'
    failed = result.trajectory.iterations[1].cells[0]
    assert failed.status == "error"
    assert failed.outputs[-1]["ename"] == "MemoryError"
    assert "died" not in notices(result)


async def test_the_model_is_told_that_this_cell_alone_is_lost() -> None:
    """The cell is ended by SIGKILL, as it takes memory."""
    kill = f"import os, signal, threading\nthreading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()\n{TAKE}"
    result = await _run(block("rows = ['kept']"), block(kill), block("FINAL(rows)"))
    assert result.answer == '["kept"]'
    assert "rows" in notices(result)
    assert result.trajectory.iterations[1].cells[0].status == "died"
