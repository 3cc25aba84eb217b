"""This project, as a worker: whole runs through the public face, recorded as they are by default."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.events import Event, RunEnded
from rlm_jupyter.types.values import Message, Reply, Usage
from tests.benchmarks import starts
from tests.benchmarks.scripts import ANSWER, LENGTH, reply
from tests.benchmarks.worker import resident, seconds_of_python, serve, text_of

MOST_ITERATIONS = 2_000
_WINDOW = 8_000_000
"""Tokens: a prompt of 10 MB fits, and nothing of a long run is left out of the conversation."""

_USAGE = Usage(input_tokens=1_000, output_tokens=100)


class ClockedModel(ScriptedModel):
    """A scripted model that notes when it was asked for a reply: from one to the next is an iteration."""

    def __init__(self) -> None:
        super().__init__([], name="scripted/benchmark", window=_WINDOW)
        self.asked: list[float] = []

    def play(self, cells: Sequence[str], latency: float = 0.0) -> None:
        """Send these cells, and then the answer."""
        # with their usage, so that the model does not count the tokens of all that it is sent
        self._replies = iter([Reply(reply(cell), self.name, _USAGE) for cell in [*cells, ANSWER]])
        self.latency = latency
        self.asked.clear()

    @property
    def iterations(self) -> list[float]:
        """Seconds of each iteration but the last."""
        return [after - before for before, after in itertools.pairwise(self.asked)]

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Note the time, and reply."""
        if messages[0].role == "system":
            self.asked.append(time.perf_counter())
        # nobody reads them here, and a prompt of 10 MB stays in memory with each
        self.requests.clear()
        return await super().complete(messages, max_output_tokens=max_output_tokens, on_text=on_text)


class Ours:
    """What can be measured. Runs are kept in a temporary folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._model = ClockedModel()
        self._sitting: Result | None = None

    def open(self, nbytes: int = 1_000, concurrency: int = 32, tools: bool = False) -> dict[str, float]:
        """From the constructor until `len(context)` was shown, and until the run was over; its kernel is kept."""
        context = text_of(nbytes)
        self._model.play([LENGTH])
        began = time.perf_counter()
        self._sitting = self._rlm(concurrency, tools=tools).completion("How long is it?", context, keep_kernel=True)
        whole = time.perf_counter() - began
        _check(self._sitting)
        return {"first": self._model.asked[1] - began, "whole": whole, "bytes": resident()}

    def cells(self, cells: list[str], latency: float = 0.0) -> dict[str, Any]:
        """Another run in the kernel that is open: seconds of each iteration, what was shown, the whole."""
        assert self._sitting is not None
        self._model.play(cells, latency)
        began = time.perf_counter()
        result = self._sitting.ask("Go on.")
        whole = time.perf_counter() - began
        _check(result)
        texts = [_stdout(iteration.cells[0].outputs) for iteration in result.trajectory.iterations]
        return {"seconds": self._model.iterations, "texts": texts[:-1], "whole": whole}

    def close(self) -> float:
        """End the kernel that is open, if one is."""
        began = time.perf_counter()
        if self._sitting is not None:
            self._sitting.close()
        return time.perf_counter() - began

    def run(self, cells: list[str], nbytes: int = 1_000) -> dict[str, Any]:
        """A whole run: all of it, each iteration, and from its last record until the call returned."""
        ended: list[float] = []

        def note(event: Event) -> None:
            if isinstance(event, RunEnded):
                ended.append(time.perf_counter())

        context = text_of(nbytes)
        self._model.play(cells)
        began = time.perf_counter()
        result = self._rlm(32).completion("How long is it?", context, on_event=note)
        back = time.perf_counter()
        _check(result)
        return {
            "first": self._model.asked[1] - began,
            "whole": back - began,
            "seconds": self._model.iterations,
            "tear_down": back - ended[0],
        }

    def start(self) -> float:
        """A kernel alone: from its launch until it answers."""
        from rlm_jupyter.kernel.kernel import Kernel
        from rlm_jupyter.types.values import Subcall, SubcallFailure

        async def nobody(call: Subcall) -> list[str | SubcallFailure]:
            raise AssertionError(call)

        async def start() -> float:
            began = time.perf_counter()
            kernel = await Kernel.start(nobody)
            seconds = time.perf_counter() - began
            await kernel.close()
            return seconds

        return asyncio.run(start())

    def imports(self) -> dict[str, float]:
        """A Python that imports the package, and one that also looks up `RLM`."""
        return {
            "package": seconds_of_python("import rlm_jupyter"),
            "class": seconds_of_python("from rlm_jupyter import RLM"),
        }

    def _rlm(self, concurrency: int, *, tools: bool = False) -> RLM:
        limits = Limits(
            max_iterations=MOST_ITERATIONS,
            max_subcalls=None,
            max_tool_calls=None,
            cell_seconds=None,
            concurrency=concurrency,
        )
        return RLM(self._model, limits=limits, save=self._folder, tools=[echo] if tools else None)


def echo(text: str) -> str:
    """Give what the scripted model gives."""
    return f"(scripted) {text}"


def _check(result: Result) -> None:
    if result.stop_reason != "answered":
        raise RuntimeError(f"the run ended by {result.stop_reason}: {result.message}")


def _stdout(outputs: Sequence[dict[str, Any]]) -> str:
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def main() -> None:
    """Serve."""
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(folder)
        names = ("open", "cells", "close", "run", "start", "imports")
        own = {name: getattr(ours, name) for name in names}
        serve(own | starts.actions(ours._model, folder), ours.close)


if __name__ == "__main__":
    main()
