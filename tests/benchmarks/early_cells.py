"""What a cell gains that begins while the model still writes: `python -m tests.benchmarks.early_cells`.

Whole runs of two replies, asked of the loopback server by the real SDK: the first has a cell, and prose behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from unittest import mock

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import load_model
from rlm_jupyter.run import arriving
from tests.support.loopback import Loopback, Said

WORD = "read "
"""A token, near enough."""
CELLS = {"nothing": "print(len(context))", "1 s": "import time; time.sleep(1)", "5 s": "import time; time.sleep(5)"}


MANY = 40
"""Iterations of a run whose cells do nothing, to see what beginning early costs by itself."""


def replies(cell: str, rest: int, rate: float, count: int = 1) -> list[Said]:
    """Return replies with this cell, and so many tokens behind it, at so many a second; and the answer."""
    cells = [f"I look.\n```repl\n{cell}; print({number})\n```\n{WORD * rest}" for number in range(count)]
    texts = [*cells, "```repl\nFINAL(len(context))\n```"]
    return [Said(text, pieces=max(len(text) // len(WORD), 1), delay=1 / rate if rate else 0.0) for text in texts]


async def seconds(said: list[Said], *, early: bool) -> float:
    """Run it, from the question to the answer."""
    with (
        Loopback(said) as server,
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(arriving, "may_begin", arriving.may_begin if early else lambda run, source: False),
    ):
        model = load_model("openai/any", base_url=server.openai_url, api_key="k")
        rlm = RLM(model, save=folder, sandbox="none", limits=Limits(max_iterations=len(said)))
        began = time.monotonic()
        result = await rlm.acompletion("How long?", "abc")
        assert result.answer == "3", result.message
        return time.monotonic() - began


async def row(title: str, said: list[Said], rounds: int) -> None:
    """Print a row of the table: medians, with and without in turn."""
    taken: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for early in (False, True) if number % 2 else (True, False):
            taken[early].append(await seconds(said, early=early))
    waiting, early_too = (statistics.median(taken[early]) for early in (False, True))
    print(f"{title:50} {waiting:6.2f} s -> {early_too:6.2f} s  {early_too / waiting - 1:+.0%}", flush=True)


async def measure(rounds: int) -> None:
    """Print the table."""
    await seconds(replies("1", 1, 0), early=True)  # the SDK is imported, the first kernel started
    for name, cell in CELLS.items():
        for rest in (0, 100, 250):
            await row(f"50 tokens/s, a cell of {name}, {rest} tokens behind it", replies(cell, rest, 50), rounds)
    for rest in (0, 250):
        title = f"at once, {MANY} cells of nothing, {rest} tokens behind each"
        await row(title, replies(CELLS["nothing"], rest, 0, MANY), rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(measure(parser.parse_args().rounds))
