"""What kernels cost when they are started anew, and when they are forked from a template."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlm_jupyter import RLM, Limits
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.models.scripted import ScriptedModel
from tests.benchmarks import scripts
from tests.benchmarks.scripts import LENGTH, reply
from tests.benchmarks.worker import text_of

PAUSE = 3.0
"""Seconds between two runs of a user's, in which a template comes up."""


def started(model: Any, folder: str, kind: str, *, warm: bool) -> dict[str, float]:
    """A process's first run, a second one, and one for which a template was made ready: constructor to first output.

    Parameters
    ----------
    model
        A `ClockedModel`.
    folder
        Where the runs are kept.
    kind
        Of the sandbox.
    warm
        Fork kernels; else start each anew.
    """
    figures = {}
    for name in ("first", "second"):
        model.play([LENGTH])
        began = time.perf_counter()
        rlm = RLM(model, sandbox=kind, warm=warm, save=folder)
        result = rlm.completion("How long is it?", text_of(1_000))
        figures[name] = model.asked[1] - began
        figures[f"{name}_whole"] = time.perf_counter() - began
        assert result.stop_reason == "answered", result.message
        time.sleep(PAUSE)
    return figures


def warmed(model: Any, folder: str, kind: str) -> float:
    """Constructor to first output in a process that has called `warm()` a while before."""
    RLM(model, sandbox=kind, save=folder).warm()
    time.sleep(PAUSE)
    return started(model, folder, kind, warm=True)["first"]


def children(count: int, how: str, *, warm: bool = True, kind: str = "auto") -> float:
    """Seconds that so many `rlm_query` take in a cell, `one by one` or `batched`."""
    root = ScriptedModel([reply(scripts.children(count, how))], name="scripted/root")
    child = ScriptedModel([reply("FINAL(len(context))")] * count, name="scripted/child")
    limits = Limits(max_depth=2, max_subcalls=None, cell_seconds=None)
    result = RLM(root, sub_model=child, limits=limits, sandbox=kind, warm=warm, save=False).completion("?", "text")
    assert result.answer is not None, result.message
    return float(result.answer)


def alive(count: int, *, warm: bool, kind: str) -> dict[str, float]:
    """Start so many kernels that all live at the same time: seconds, and private bytes of each, its supervisor's too."""
    from rlm_jupyter.kernel.kernel import Kernel
    from rlm_jupyter.kernel.templates import Templates

    async def run() -> dict[str, float]:
        sandbox = Sandbox.of(kind)
        templates = Templates(are_used=warm)
        templates.warm(templates.environment(None, Path.cwd(), None, sandbox))
        await asyncio.sleep(PAUSE)
        places = asyncio.Semaphore(8)
        kernels: list[Kernel] = []

        async def start() -> None:
            async with places:
                kernels.append(await Kernel.start(_nobody, sandbox=sandbox, templates=templates))

        began = time.perf_counter()
        await asyncio.gather(*(start() for _ in range(count)))
        seconds = time.perf_counter() - began
        nbytes = sum(map(_private, kernels)) / count
        for kernel in kernels:
            await kernel.close()
        await templates.close()
        return {"seconds": seconds, "bytes": nbytes}

    return asyncio.run(run())


def actions(model: Any, folder: str) -> dict[str, Callable[..., Any]]:
    """What a worker can be told to do."""
    return {
        "started": lambda kind, warm: started(model, folder, kind, warm=warm),
        "warmed": lambda kind: warmed(model, folder, kind),
        "children": children,
        "alive": alive,
    }


async def _nobody(call: object) -> list[Any]:
    raise AssertionError(call)


def _private(kernel: Any) -> int:
    import psutil

    process = psutil.Process(kernel._connection.process.pid)
    total = 0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += each.memory_full_info().uss
    return total
