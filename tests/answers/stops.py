"""The limits that stop a run, each with the reply in which it is met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlm_jupyter.models.scripted import Scripted
from rlm_jupyter.types.events import Event, OutputChanged, OutputsShown
from rlm_jupyter.types.values import Reply, StopReason, Usage
from tests.answers.fates import DIE, SLEEP
from tests.answers.table import block

SPENDS_ALL = Usage(44_000, 1_000)
LEAVES_SOME = Usage(9_900, 100)
_ALL_TOKENS = {"max_tokens": 45_000}
_ROOMY = {"max_tokens": 30_000, "max_output_tokens": 32_000}
"""After `LEAVES_SOME` there is room for a last reply, and not for another one before it."""
_PRICE = 1e-5


def _billed(usage: Usage) -> Callable[[str], list[Scripted]]:
    return lambda source: [Reply(block(source), "scripted/relay", usage)]


def _cell(before: str = "", after: str = "") -> Callable[[str], list[Scripted]]:
    return lambda source: [block(*(line for line in (before, source, after) if line))]


def _varied(chars: int) -> str:
    """A long text that does not repeat one piece: such a reply would be refused."""
    return " ".join(map(str, range(chars)))[:chars]


def _is_at_work(event: Event) -> bool:
    return isinstance(event, OutputChanged) and "at work" in str(event.outputs)


def _has_shown_one(event: Event) -> bool:
    return isinstance(event, OutputsShown) and event.iteration == 1


def _has_looked(event: Event) -> bool:
    return isinstance(event, OutputsShown) and event.iteration == 2


@dataclass(frozen=True, slots=True)
class Stop:
    """How a run is stopped."""

    id: str
    reason: StopReason
    meets: Callable[[str], list[Scripted]]
    """The replies that meet it, the last cell's source in them."""
    options: Mapping[str, Any]
    """For `Stage.play`."""
    forced: bool
    """Whether there is time, and room, for one final call."""
    is_close: bool = False
    """There may be time for it all the same."""
    patches: Mapping[str, float] = field(default_factory=dict)
    keeps_cell: bool = True
    """Whether what the last cell put into `answer` is still there."""


STOPS = (
    Stop("iterations", "iterations", _cell(), {"max_iterations": 2}, forced=True),
    Stop("errors", "errors", _cell(after="1/0"), {"max_errors": 1}, forced=True),
    Stop(
        "subcalls",
        "subcalls",
        _cell(before="try: llm_query('x')\nexcept SubcallError: pass"),
        {"max_subcalls": 0},
        forced=True,
    ),
    Stop("tokens, all spent", "tokens", _billed(SPENDS_ALL), _ALL_TOKENS, forced=False),
    Stop("tokens, some left", "tokens", _billed(LEAVES_SOME), _ROOMY, forced=True),
    Stop("cost, all spent", "cost", _billed(SPENDS_ALL), {"max_cost": 0.45, "price": _PRICE}, forced=False),
    Stop(
        "cost, some left",
        "cost",
        _billed(LEAVES_SOME),
        {"max_cost": 0.30, "max_output_tokens": 32_000, "price": _PRICE},
        forced=True,
    ),
    Stop(
        "seconds, in a cell",
        "seconds",
        _cell(after=SLEEP),
        {"expires": (_has_shown_one, 3.0)},
        forced=False,
        is_close=True,
    ),
    Stop(
        "seconds, while the model replies",
        "seconds",
        lambda source: [block(source), "too late"],
        {"expires": (_has_looked, 2.0), "late": {3: 60.0}},
        forced=False,
    ),
    Stop(
        "stopped in a cell",
        "cancelled",
        _cell(after=f"print('at work', flush=True); {SLEEP}"),
        {"stop_when": _is_at_work},
        forced=False,
    ),
    Stop(
        "stopped while the model replies",
        "cancelled",
        lambda source: [block(source), "too late"],
        {"stop_when": _has_looked, "late": {3: 60.0}},
        forced=False,
    ),
    Stop(
        "the window, none left",
        "context_window",
        _cell(after=f"# {_varied(12_000)}"),
        {"window": 4_000},
        forced=False,
    ),
    Stop(
        "the window, some left",
        "context_window",
        _cell(after=f"# {_varied(46_000)}"),
        {"window": 16_000},
        forced=True,
    ),
    Stop("no progress", "no_progress", lambda source: [*_cell(after="1/0")(source) * 4], {}, forced=True),
    Stop(
        "the kernel dies",
        "kernel_died",
        _cell(after=DIE),
        {},
        forced=True,
        patches={"rlm_jupyter.run.cells.MOST_RESTARTS": 0},
        keeps_cell=False,
    ),
)
