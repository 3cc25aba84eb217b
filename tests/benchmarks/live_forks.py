"""What a fork of a living kernel costs, beside a kernel forked from a template: `python -m tests.benchmarks.live_forks`."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from typing import Any

import psutil

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.templates import Templates
from tests.benchmarks.starts import _nobody

HELD = {
    "nothing": "x = 1",
    "1 GB, one str": "x = 'a' * 2**30",
    "1 GB, one array": "import numpy; x = numpy.ones(2**27)",
    "700 MB, 8,000,000 str": "x = [str(i) * 3 for i in range(8_000_000)]",
}
_WATCH = """
import asyncio, time
gaps = []
async def tick():
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.0005)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
task = asyncio.create_task(tick())
"""
"""Sees for how long the kernel stands still: its own loop."""
Row = dict[str, float]


async def _once(kernel: Kernel, launch: dict[str, Any]) -> Row:
    await kernel.execute("gaps.clear()")
    before = _memory()
    began = time.perf_counter()
    fork = await kernel.fork(_nobody)
    made = time.perf_counter()
    unused = _memory() - before
    looked = time.perf_counter()
    assert (await fork.execute("x is not None")).status == "ok"
    answered = time.perf_counter()
    stood = float((await kernel.execute("print(max(gaps))")).outputs[0]["text"])
    used = _memory() - before
    await fork.close()
    again = time.perf_counter()
    other = await Kernel.start(_nobody, **launch)
    await other.execute("1")
    started = time.perf_counter() - again
    await other.close()
    return {
        "fork made, ms": 1e3 * (made - began),
        "its first cell done, ms": 1e3 * (answered - looked + made - began),
        "the kernel stands still, ms": 1e3 * stood,
        "more memory, before either executes a cell, MB": unused / 1e6,
        "more memory, after a cell in each, MB": used / 1e6,
        "an empty kernel from a template, first cell done, ms": 1e3 * started,
    }


def _memory() -> int:
    """Return the bytes of all kernels, supervisors and templates together, what is shared counted once."""
    return sum(process.memory_full_info().pss for process in psutil.Process().children(recursive=True))


async def measure(rounds: int, kind: str) -> None:
    """Print the table, each row with its median, least and most."""
    for name, source in HELD.items():
        templates = Templates()
        launch: dict[str, Any] = {"sandbox": Sandbox(kind), "templates": templates}  # type: ignore[arg-type]
        kernel = await Kernel.start(_nobody, **launch)
        for each in (source, _WATCH):
            assert (await kernel.execute(each)).status == "ok"
        rows = [await _once(kernel, launch) for _ in range(rounds)]
        print(f"{name} ({kind}; {rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
        for what in rows[0]:
            values = [row[what] for row in rows]
            print(f"  {what}: {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        await kernel.close()
        await templates.close()


async def deaths(count: int, kind: str) -> None:
    """Print what insurance costs a cell, and how soon after a death the next cell is done."""
    for name, source in HELD.items():
        templates = Templates()
        kernel = await Kernel.start(_nobody, sandbox=Sandbox(kind), templates=templates, insurance=True)  # type: ignore[arg-type]
        assert (await kernel.execute(source + "\nn = 0")).status == "ok"
        costs, gaps, plain = [], [], []
        for times in range(count):
            began = time.perf_counter()
            assert (await kernel.execute("n += 1")).status == "ok"
            plain.append(1e3 * (time.perf_counter() - began))
            began = time.perf_counter()
            kernel.forks.insure((times, 0))
            await kernel.forks.insurance.settled()
            costs.append(1e3 * (time.perf_counter() - began))
            assert (await kernel.execute("n = 'lost'; import os; os._exit(1)")).status == "died"
            began = time.perf_counter()
            assert await kernel.forks.revive() is not None
            shown = (await kernel.execute("print(n, x is not None)")).outputs[0]["text"]
            gaps.append(1e3 * (time.perf_counter() - began))
            assert shown == f"{times + 1} True\n", shown
        print(f"{name} ({kind}; {count} deaths, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
        for what, values in (("a cell", plain), ("insuring", costs), ("death to the next cell's end", gaps)):
            print(f"  {what}, ms: {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        await kernel.close()
        await templates.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--deaths", type=int, default=0, help="measure insurance, by so many")
    parser.add_argument("--sandbox", default="none")
    given = parser.parse_args()
    asyncio.run(deaths(given.deaths, given.sandbox) if given.deaths else measure(given.rounds, given.sandbox))
