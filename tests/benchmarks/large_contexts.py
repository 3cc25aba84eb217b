"""What a large text costs a run with children that are handed all of it, or a slice each.

`python -m tests.benchmarks.large_contexts --megabytes 1000`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.abilities import Abilities
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.values import Message, Reply, Usage
from tests.benchmarks.scripts import reply
from tests.benchmarks.worker import in_files, own, text_of

_CALLS = {
    "whole": "rlm_query_batched([context] * {count})",
    "slices": "rlm_query_batched([context[i * n : (i + 1) * n] for i in range({count})])",
    "none": "rlm_query_batched([f'Say {{i}}.' for i in range({count})])",
}
_CELL = """
import json, time
n = len(context) // {count}
began = time.perf_counter()
answers = {call}
print(json.dumps(time.perf_counter() - began), set(answers))
"""
_LOOK_SECONDS = 0.25


class _Children(ScriptedModel):
    """Has each child read all of its text, and answers when all of them have: then they live at the same time."""

    # what a child is told of its text need not be counted
    abilities = Abilities(is_deterministic=False)

    def __init__(self, count: int, look: Callable[[], None]) -> None:
        super().__init__([], name="scripted/child")
        self._waiting, self._count, self._look = 0, count, look
        self._all = asyncio.Event()

    async def complete(
        self, messages: Sequence[Message], *, max_output_tokens: int, on_text: Callable[[str], None] | None = None
    ) -> Reply:
        """Reply with a cell, and then with the answer."""
        usage = Usage(input_tokens=1_000, output_tokens=100)
        if not any(message.role == "assistant" for message in messages):
            return Reply(reply("print(len(context), context.count('no such words'))"), self.name, usage)
        self._waiting += 1
        if self._waiting == self._count:
            await asyncio.to_thread(self._look)
            self._all.set()
        await self._all.wait()
        return Reply(reply("FINAL('done')"), self.name, usage)


class _Memory:
    """What this process takes, and all kernels together; what is shared counts once (PSS)."""

    def __init__(self) -> None:
        self.kernels = self.host = self.most = 0
        self._over = threading.Event()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        self.before = own(os.getpid())
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def look(self) -> None:
        """Note what is taken now."""
        self.kernels, self.host = _below(), own(os.getpid())

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self.most = max(self.most, _below())

    def close(self) -> int:
        """Stop watching; return the peak of this process, bytes."""
        self._over.set()
        self._thread.join()
        [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024


def _below() -> int:
    """Return the bytes of all kernels, supervisors and templates, with the texts that they share."""
    return sum(own(process.pid) for process in psutil.Process().children(recursive=True)) + in_files()


def measure(megabytes: int, children: int, how: str, kind: str, *, warm: bool, save: bool, letter: str) -> None:
    """Print one row."""
    context = text_of(megabytes * 1_000_000 - 1) + letter
    memory = _Memory()
    child = _Children(children, memory.look)
    cells = [_CELL.format(count=children, call=_CALLS[how].format(count=children)), "FINAL('done')"]
    root = ScriptedModel([reply(cell) for cell in cells], name="scripted/root")
    limits = Limits(max_depth=2, max_subcalls=None, cell_seconds=None, max_kernels=children + 1)
    with tempfile.TemporaryDirectory() as folder:
        rlm = RLM(root, sub_model=child, limits=limits, sandbox=kind, warm=warm, save=folder if save else False)
        rlm.warm()
        time.sleep(3)
        began = time.perf_counter()
        result = rlm.completion("?", context)
        seconds = time.perf_counter() - began
        peak = memory.close()
    assert result.stop_reason == "answered", result.message
    [cell] = result.trajectory.iterations[0].cells
    taken, _, answers = "".join(output.get("text", str(output)) for output in cell.outputs).partition(" ")
    assert answers.strip() == "{'done'}", answers
    print(
        f"{megabytes} MB, {children} children, {how}, sandbox {kind}{'' if warm else ', anew'}: "
        f"kernels {memory.kernels / 1e6:,.0f} MB (most {memory.most / 1e6:,.0f}), "
        f"host {memory.host / 1e6:,.0f} MB (before {memory.before / 1e6:,.0f}, most {peak / 1e6:,.0f}), "
        f"whole run {seconds:.2f} s, the children {float(taken):.2f} s; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--children", type=int, default=8)
    parser.add_argument("--handed", choices=_CALLS, default="whole")
    parser.add_argument("--sandbox", default="none")
    parser.add_argument("--anew", action="store_true", help="start each kernel anew")
    parser.add_argument("--unsaved", action="store_true", help="keep no record")
    parser.add_argument("--letter", default="x", help="that the text ends with: another script takes more bytes")
    given = parser.parse_args()
    measure(
        given.megabytes,
        given.children,
        given.handed,
        given.sandbox,
        warm=not given.anew,
        save=not given.unsaved,
        letter=given.letter,
    )
