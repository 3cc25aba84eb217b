"""The targets: what each figure may be, as a ratio within one run wherever that makes sense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.scenarios import MB

Samples = Mapping[str, Mapping[str, list[float]]]
"""By figure (`scenario.figure`), by contender: the samples in the order in which they were taken."""
REFERENCES = ("local", "in_process", "subprocess")
MS = 1_000


@dataclass(frozen=True)
class Target:
    """One of them."""

    title: str
    measure: Callable[[Samples], float]
    """Raises `KeyError` when what it needs was not measured."""
    most: float
    unit: str = "×"

    def measured(self, samples: Samples) -> float | None:
        """The value; `None` when it was not measured."""
        try:
            return self.measure(samples)
        except KeyError:
            return None


def ours(samples: Samples, figure: str) -> float:
    """The median of a figure of ours."""
    return median(samples[figure]["ours"])


def over_floor(samples: Samples, figure: str) -> float:
    """The median of ours over its floor, each pair taken one right after the other."""
    return paired(samples[figure]["ours"], samples[figure]["floor"])


def paired(above: list[float], below: list[float]) -> float:
    """The median of ratios."""
    return median(one / other for one, other in zip(above, below, strict=False))


def over_best_reference(samples: Samples, figure: str) -> float:
    """Ours over the reference's fastest mode."""
    medians = [median(samples[figure][name]) for name in REFERENCES if name in samples[figure]]
    if not medians:
        raise KeyError(figure)
    return ours(samples, figure) / min(medians)


def copies(samples: Samples) -> float:
    """How many times 500 MB of context are in memory, the caller's own included."""
    return (ours(samples, "context_500.bytes") - ours(samples, "context_1.bytes")) / (499 * MB)


TARGETS = (
    Target("import rlm_jupyter over a bare Python", lambda s: MS * _over_bare(s), 200, "ms"),
    Target("start of a kernel / start_new_async_kernel", lambda s: over_floor(s, "start.kernel"), 0.6),
    Target("two iterations, given a started kernel", lambda s: MS * ours(s, "run.given"), 100, "ms"),
    Target(
        "two iterations, cold, over the start of a kernel",
        lambda s: MS * (ours(s, "run.cold") - ours(s, "start.kernel")),
        150,
        "ms",
    ),
    Target("one iteration / execute_request", lambda s: over_floor(s, "iteration.one"), 2),
    Target("llm_query, small", lambda s: MS * ours(s, "subcall.small"), 1.2, "ms"),
    Target("llm_query, small / private ZMQ echo out of a cell", lambda s: over_floor(s, "subcall.small"), 2.5),
    Target("a tool call over a sub-call's round trip", lambda s: MS * ours(s, "tool.over"), 1, "ms"),
    Target("llm_query, 10 MB / the reference", lambda s: over_best_reference(s, "subcall.10MB"), 0.25),
    Target("llm_query_batched / ideal 50 ms", lambda s: ours(s, "batch.seconds") / 0.05, 1.5),
    Target("512 llm_query in 64 threads / ideal 0.4 s", lambda s: ours(s, "threads.seconds") / 0.4, 2),
    Target("sub-calls lost", lambda s: sum(s["batch.lost"]["ours"] + s["threads.lost"]["ours"]), 0, ""),
    Target("500 MB of context / a file in memory", lambda s: over_floor(s, "context_500.first"), 1.5),
    Target("copies of 500 MB, the caller's included", copies, 2.1, ""),
    Target(
        "the last iterations of a long run / the first",
        lambda s: paired(s["long.last"]["ours"], s["long.first"]["ours"]),
        2,
    ),
)


def _over_bare(samples: Samples) -> float:
    both = samples["import.package"]
    return median(one - bare for one, bare in zip(both["ours"], both["floor"], strict=False))
