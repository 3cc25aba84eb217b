"""The scenarios: what each contender is told to do, and what is read off it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.benchmarks import scripts
from tests.benchmarks.worker import Worker

MB = 1_000_000
LATENCY = 0.05
"""Seconds that a sub-call's model takes, where it takes any."""
CALLS, THREADS = 512, 64
BATCH = 200
_EDGE = 20
"""Iterations at either end of a long run that are compared."""

Figures = dict[str, float]
"""One sample of each figure, by name: seconds, unless the name says otherwise."""
Sample = Callable[[Worker, str], Figures]
"""Given a contender's worker and its name, takes one sample."""


@dataclass(frozen=True)
class Scenario:
    """One thing that is measured."""

    name: str
    titles: Mapping[str, str]
    """What each figure is, for the table."""
    sample: Sample
    floor: Sample | None = None
    repetitions: int = 5
    opened: Mapping[str, Any] | None = None
    """With what options contenders are opened before the first sample; `None`: every sample gets a new worker."""
    reference_opened: Mapping[str, Any] = field(default_factory=dict)
    """The same, for the reference."""
    only_ours: bool = False


def scenarios(*, quick: bool) -> list[Scenario]:
    """All of them, in the order in which they run.

    Parameters
    ----------
    quick
        Fewer repetitions, no context above 100 MB, a shorter long run.
    """
    pages = 150 if quick else 500
    repetitions = 3 if quick else 5
    contexts = (1, 100) if quick else (1, 100, 500)
    return [
        Scenario(
            "import",
            {"package": "import, nothing else", "class": "import, and look up RLM"},
            lambda worker, _: worker.do("imports"),
            floor=lambda worker, _: dict.fromkeys(["package", "class"], worker.do("imports")),
            repetitions=repetitions + 4,
            opened={},
        ),
        Scenario(
            "start",
            {"kernel": "start a kernel (floor: start_new_async_kernel)"},
            lambda worker, _: {"kernel": worker.do("start")},
            floor=lambda worker, _: {"kernel": worker.do("start")},
            repetitions=repetitions,
            only_ours=True,
        ),
        Scenario(
            "run",
            {
                "first": "cold: constructor to first output",
                "cold": "cold: two iterations, all of it",
                "again": "two iterations, second in the process",
                "given": "two iterations, given a started kernel",
                "tear_down": "tear-down",
            },
            _run,
            repetitions=repetitions,
        ),
        *(
            Scenario(
                f"children_{name}",
                {"seconds": f"20 children, {how}; each at its own limit"},
                lambda worker, _, how=how: {"seconds": worker.do("children", count=20, how=how)},  # type: ignore[misc]
                repetitions=2 if quick else 3,
            )
            for name, how in (("in_turn", "one by one"), ("batched", "batched"))
        ),
        *(_starts(kind, repetitions, 20 if quick else 100) for kind in ("none", "bwrap")),
        Scenario(
            "iteration",
            {"one": "one iteration (floor: execute_request)"},
            lambda worker, _: {
                "one": median(worker.do("run", cells=[scripts.number(i) for i in range(60)])["seconds"][5:])
            },
            floor=lambda worker, _: {"one": worker.do("execute", count=60)},
            repetitions=repetitions,
            opened={},
        ),
        Scenario(
            "subcall",
            {
                "small": "llm_query, 1 character (floor: private ZMQ echo out of a stock kernel's cell)",
                "threads": "  (floor: ZMQ echo from any thread of a bare process)",
                "bare": "  (floor: ZMQ echo within one thread)",
                "500KB": "llm_query, 500 KB (floor: ZMQ echo from any thread)",
                "10MB": "llm_query, 10 MB (floor: ZMQ echo from any thread)",
            },
            _subcall,
            floor=lambda worker, _: {
                "bare": worker.do("echo", count=300, nbytes=1),
                "small": worker.do("echo_from_a_cell", count=300),
                "threads": worker.do("echo_from_threads", count=300, nbytes=1),
                "500KB": worker.do("echo_from_threads", count=15, nbytes=MB // 2),
                "10MB": worker.do("echo_from_threads", count=5, nbytes=10 * MB),
            },
            repetitions=repetitions,
            opened={},
        ),
        Scenario(
            "tool",
            {
                "subcall": "llm_query, 1 character, in turn with the next",
                "call": "a tool, 1 character",
                "ratio": "  one tool call / the llm_query beside it (median)",
                "over": "  one tool call over the llm_query beside it (median)",
            },
            _tool,
            repetitions=repetitions,
            opened={"tools": True},
            only_ours=True,
        ),
        Scenario(
            "batch",
            {"seconds": f"llm_query_batched, {BATCH} × 50 ms; reference at its own limit", "lost": "  of them lost"},
            lambda worker, _: _timed(worker, scripts.batch(BATCH)),
            repetitions=repetitions,
            opened={"concurrency": BATCH},
        ),
        Scenario(
            "batch_patched",
            {"seconds": f"the same; reference patched to {BATCH}", "lost": "  of them lost"},
            lambda worker, _: _timed(worker, scripts.batch(BATCH)),
            repetitions=repetitions,
            opened={"concurrency": BATCH},
            reference_opened={"concurrency": BATCH},
        ),
        Scenario(
            "threads",
            {"seconds": f"{THREADS} threads, {CALLS} llm_query × 50 ms", "lost": "  of them lost"},
            lambda worker, _: _timed(worker, scripts.threads(CALLS, THREADS)),
            repetitions=2 if quick else 3,
            opened={"concurrency": THREADS},
        ),
        Scenario(
            "print",
            {"one": "5 MB in one print", "many": "5 MB in 50,000 prints"},
            lambda worker, _: dict(
                zip(
                    ["one", "many"],
                    worker.do("cells", cells=[scripts.one_print(5 * MB), scripts.many_prints(5 * MB, 50_000)])[
                        "seconds"
                    ],
                    strict=True,
                )
            ),
            repetitions=repetitions,
            opened={},
        ),
        *(_context(size, repetitions if size < 500 else 3) for size in contexts),
        Scenario(
            "long",
            {
                "first": f"{pages} iterations of 40 KB outputs: the first {_EDGE}",
                "last": f"  the last {_EDGE}",
                "whole": "  all of it",
            },
            lambda worker, _: _long(worker, pages),
            repetitions=2 if quick else 3,
        ),
    ]


def _starts(kind: str, repetitions: int, kernels: int) -> Scenario:
    where = "no sandbox" if kind == "none" else "bubblewrap"
    titles = {
        "first": f"{where}: a process's first run, constructor to first output",
        "second": "  its second run, after a pause",
        "one by one": "  20 children, one after another",
        "batched": "  20 children, batched",
        "seconds": f"  {kernels} kernels, all alive: started in",
        "bytes": "  private memory of each",
    }
    both: dict[str, str] = {}
    for name, title in titles.items():
        both |= {name: title, f"anew {name}": f"{title}: each started anew"}
        if name == "second":
            both["warmed"] = "  its first run, a while after warm()"

    def take(worker: Worker, _: str) -> Figures:
        figures: Figures = {}
        for prefix, warm in (("", True), ("anew ", False)):
            with _fresh() as fresh:
                taken = fresh.do("started", kind=kind, warm=warm)
            with _fresh() as fresh:
                for how in ("one by one", "batched"):
                    taken[how] = fresh.do("children", count=20, how=how, warm=warm, kind=kind)
                taken |= fresh.do("alive", count=kernels, warm=warm, kind=kind)
            figures |= {prefix + name: taken[name] for name in titles}
        with _fresh() as fresh:
            figures["warmed"] = fresh.do("warmed", kind=kind)
        return figures

    return Scenario(f"starts_{kind}", both, take, repetitions=repetitions, only_ours=True)


def _fresh() -> Worker:
    return Worker([sys.executable, "-m", "tests.benchmarks.ours"])


def _context(size: int, repetitions: int) -> Scenario:
    return Scenario(
        f"context_{size}",
        {
            "first": f"{size} MB of context: constructor to len(context) (floor: a file in memory)",
            "whole": "  the whole run, context stored",
            "bytes": "  resident afterwards",
        },
        lambda worker, _: worker.do("open", nbytes=size * MB),
        floor=lambda worker, _: {"first": worker.do("file", nbytes=size * MB)},
        repetitions=repetitions,
    )


def _run(worker: Worker, contender: str) -> Figures:
    cold = worker.do("run", cells=[scripts.LENGTH])
    again = worker.do("run", cells=[scripts.LENGTH])
    figures = {"first": cold["first"], "cold": cold["whole"], "again": again["whole"], "tear_down": again["tear_down"]}
    if contender == "ours":
        worker.do("open")
        figures["given"] = worker.do("cells", cells=[scripts.LENGTH])["whole"]
        worker.do("close")
    return figures


def _subcall(worker: Worker, contender: str) -> Figures:
    cells = [scripts.subcalls(300, 1), scripts.subcalls(15, MB // 2), scripts.subcalls(5, 10 * MB)]
    texts = worker.do("cells", cells=cells)["texts"]
    return dict(zip(["small", "500KB", "10MB"], (median(json.loads(text)) for text in texts), strict=True))


def _tool(worker: Worker, _: str) -> Figures:
    [text] = worker.do("cells", cells=[scripts.tools(300)])["texts"]
    subcalls, tools = json.loads(text)
    return {
        "subcall": median(subcalls),
        "call": median(tools),
        "ratio": median(tool / subcall for subcall, tool in zip(subcalls, tools, strict=True)),
        "over": median(tool - subcall for subcall, tool in zip(subcalls, tools, strict=True)),
    }


def _timed(worker: Worker, cell: str) -> Figures:
    seconds, lost = json.loads(worker.do("cells", cells=[cell], latency=LATENCY)["texts"][0])
    return {"seconds": seconds, "lost": lost}


def _long(worker: Worker, count: int) -> Figures:
    done = worker.do("run", cells=scripts.pages(count, 40_000))
    seconds = done["seconds"]
    return {"first": median(seconds[:_EDGE]), "last": median(seconds[-_EDGE:]), "whole": done["whole"]}
