"""The reference implementation, as a worker in a virtual environment of its own: `rlms` from PyPI.

Its model is scripted, as ours is. Cells are handed to its environment directly, without its loop around
them: that is the least it can take. Whole runs go through its `RLM.completion`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from typing import Any

import rlm.core.rlm as loop  # type: ignore[import-not-found]
from rlm.clients.base_lm import BaseLM  # type: ignore[import-not-found]
from rlm.core.lm_handler import LMHandler  # type: ignore[import-not-found]
from rlm.core.types import ModelUsageSummary, UsageSummary  # type: ignore[import-not-found]
from rlm.environments import get_environment  # type: ignore[import-not-found]

from tests.benchmarks import scripts
from tests.benchmarks.scripts import ANSWER, LENGTH, reply
from tests.benchmarks.worker import resident, seconds_of_python, serve, text_of

MODES: dict[str, tuple[str, dict[str, str]]] = {
    "local": ("local", {}),
    "in_process": ("ipython", {"kernel_mode": "in_process"}),
    "subprocess": ("ipython", {"kernel_mode": "subprocess"}),
}


class ClockedClient(BaseLM):
    """Plays replies to conversations, echoes the beginning of a sub-call's prompt, notes when it was asked."""

    def __init__(self) -> None:
        super().__init__("scripted")
        self.latency = 0.0
        self.replies = iter(list[str]())
        self.asked: list[float] = []

    def play(self, cells: list[str]) -> None:
        """Send these cells, and then the answer."""
        self.replies = iter([reply(cell) for cell in [*cells, ANSWER]])
        self.asked.clear()

    def completion(self, prompt: Any) -> str:
        """Reply."""
        if not isinstance(prompt, str):
            self.asked.append(time.perf_counter())
            return next(self.replies)
        if self.latency:
            time.sleep(self.latency)
        return f"(scripted) {prompt[:60]}"

    async def acompletion(self, prompt: Any) -> str:
        """Reply."""
        await asyncio.sleep(self.latency)
        return f"(scripted) {prompt[:60]}"

    def get_usage_summary(self) -> Any:
        """Nothing."""
        return UsageSummary(model_usage_summaries={})

    def get_last_usage(self) -> Any:
        """Nothing."""
        return ModelUsageSummary(1, 0, 0)


def _child() -> ClockedClient:
    client = ClockedClient()
    client.replies = iter([reply('answer["content"] = str(len(context))\nanswer["ready"] = True')])
    return client


class Reference:
    """What can be measured, in one of its modes."""

    def __init__(self, mode: str) -> None:
        self._environment, self._options = MODES[mode]
        self._client = ClockedClient()
        self._handler: Any = None
        self._repl: Any = None
        loop.get_client = lambda backend, options: self._client

    def open(self, nbytes: int = 1_000, concurrency: int | None = None) -> dict[str, float]:
        """From the constructor until `len(context)` was printed; it stays open.

        Parameters
        ----------
        concurrency
            In place of its own limit.
        """
        context = text_of(nbytes)
        began = time.perf_counter()
        self._handler = LMHandler(
            self._client, **({} if concurrency is None else {"batch_max_concurrent": concurrency})
        )
        self._handler.start()
        self._repl = get_environment(
            self._environment,
            {
                "lm_handler_address": self._handler.address,
                "context_payload": context,
                "depth": 1,
                **self._options,
            },
        )
        shown = self._repl.execute_code(LENGTH).stdout.strip()
        first = time.perf_counter() - began
        assert shown == str(nbytes), shown
        return {"first": first, "whole": first, "bytes": resident()}

    def cells(self, cells: list[str], latency: float = 0.0) -> dict[str, Any]:
        """Seconds of each, what was printed, the whole."""
        self._client.latency = latency
        seconds, texts = [], []
        for cell in cells:
            began = time.perf_counter()
            result = self._repl.execute_code(cell)
            seconds.append(time.perf_counter() - began)
            texts.append(result.stdout)
            if result.stderr:
                raise RuntimeError(result.stderr)
        return {"seconds": seconds, "texts": texts, "whole": sum(seconds)}

    def close(self) -> float:
        """End what is open, if anything is."""
        began = time.perf_counter()
        if self._repl is not None:
            self._handler.stop()
            self._repl.cleanup()
        return time.perf_counter() - began

    def run(self, cells: list[str], nbytes: int = 1_000) -> dict[str, Any]:
        """A whole run: all of it, each iteration, and from the last cell until the call returned."""
        stopped: list[float] = []

        class Handler(LMHandler):
            """Notes when it is stopped: that is where tearing down begins."""

            def stop(self) -> None:
                """Note the time, and stop."""
                stopped.append(time.perf_counter())
                super().stop()

        loop.LMHandler = Handler
        context = text_of(nbytes)
        self._client.play(cells)
        rlm = loop.RLM(
            backend_kwargs={"model_name": "scripted"},
            environment=self._environment,
            environment_kwargs=self._options,
            max_iterations=len(cells) + 1,
        )
        began = time.perf_counter()
        result = rlm.completion(context, root_prompt="How long is it?")
        back = time.perf_counter()
        assert result.response == "done", result.response
        asked = self._client.asked
        iterations = [after - before for before, after in itertools.pairwise(asked)]
        return {
            "first": asked[1] - began,
            "whole": back - began,
            "seconds": iterations,
            "tear_down": back - stopped[0],
        }

    def children(self, count: int, how: str) -> float:
        """Seconds that so many `rlm_query` take in a cell, `one by one` or `batched`."""
        self._client.play([scripts.children(count, how)])
        clients = itertools.chain([self._client], iter(_child, None))
        loop.get_client = lambda backend, options: next(clients)
        rlm = loop.RLM(
            backend_kwargs={"model_name": "scripted"},
            environment=self._environment,
            environment_kwargs=self._options,
            max_depth=2,
        )
        return float(rlm.completion("text", root_prompt="?").response)

    def imports(self) -> dict[str, float]:
        """A Python that imports the package, and one that also looks up `RLM`: it is one and the same."""
        seconds = seconds_of_python("import rlm")
        return {"package": seconds, "class": seconds}


def main() -> None:
    """Serve, in the mode that the command line names."""
    reference = Reference(sys.argv[1])
    names = ("open", "cells", "close", "run", "children", "imports")
    serve({name: getattr(reference, name) for name in names}, reference.close)


if __name__ == "__main__":
    main()
