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

from rlm_jupyter import RLM
from rlm_jupyter.models import load_model
from rlm_jupyter.run import arriving
from tests.support.loopback import Loopback, Said

WORD = "read "
"""A token, near enough."""
CELLS = {"nothing": "print(len(context))", "1 s": "import time; time.sleep(1)", "5 s": "import time; time.sleep(5)"}


def replies(cell: str, rest: int, rate: float) -> list[Said]:
    """Return a reply with this cell, and so many tokens behind it, at so many a second; and the answer."""
    texts = f"I look.\n```repl\n{cell}\n```\n{WORD * rest}", "```repl\nFINAL(len(context))\n```"
    return [Said(text, pieces=max(len(text) // len(WORD), 1), delay=1 / rate if rate else 0.0) for text in texts]


async def seconds(cell: str, rest: int, rate: float, *, early: bool) -> float:
    """Run it, from the question to the answer."""
    with (
        Loopback(replies(cell, rest, rate)) as server,
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(arriving, "may_begin", arriving.may_begin if early else lambda run, source: False),
    ):
        rlm = RLM(load_model("openai/any", base_url=server.openai_url, api_key="k"), save=folder, sandbox="none")
        began = time.monotonic()
        result = await rlm.acompletion("How long?", "abc")
        assert result.answer == "3", result.message
        return time.monotonic() - began


async def measure(rounds: int) -> None:
    """Print the table: medians, with and without in turn."""
    await seconds("1", 1, 0, early=True)  # the SDK is imported, the first kernel started
    for rate in (50, 0):
        for name, cell in CELLS.items():
            for rest in (0, 100, 250) if rate else (0, 250):
                taken = [
                    [await seconds(cell, rest, rate, early=early) for early in (False, True)] for _ in range(rounds)
                ]
                waiting, early = map(statistics.median, zip(*taken, strict=True))
                speed = f"{rate:3} tokens/s" if rate else "at once"
                share = f"{waiting:6.2f} s -> {early:6.2f} s, {early / waiting - 1:+.0%}"
                print(f"{speed:12} a cell of {name:8} {rest:4} tokens behind it: {share}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(measure(parser.parse_args().rounds))
