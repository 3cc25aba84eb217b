"""What a run cost: requests, tokens, US dollars and seconds, by model and depth."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.types.events import (
    ConversationCompacted,
    DirectReplied,
    ReplyReceived,
    RunResumed,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import ModelUsage, Usage

NOTHING = Usage()
_NOT_HERE = "(a child run that is not here)"


@dataclass(frozen=True, slots=True)
class Cost:
    """A line of the table."""

    model: str
    depth: int | None
    requests: int = 0
    usage: Usage = NOTHING
    cost: float | None = 0.0
    """`None` when the price of a part is not known."""
    seconds: float = 0.0
    """Waited for it, one request after the other."""

    def plus(self, usage: Usage, cost: float | None, seconds: float) -> Cost:
        """Return the same with one more request."""
        total = None if self.cost is None or cost is None else self.cost + cost
        return Cost(self.model, self.depth, self.requests + 1, self.usage + usage, total, self.seconds + seconds)


def costs(run: WholeRun) -> list[Cost]:
    """Return a line for each model at each depth; last, what was billed for requests that were stopped."""
    lines = _recorded(run)
    stopped = _rest(run, lines)
    return lines if stopped is None else [*lines, stopped]


def stopped(run: WholeRun) -> Cost | None:
    """Return what was billed for requests of a run that were stopped, and stand in no record; `None`: nothing was.

    What was billed so for the runs below it is theirs.
    """
    below = filter(None, map(stopped, run.children))
    return _rest(run, [*_recorded(run), *below])


def _recorded(run: WholeRun) -> list[Cost]:
    lines: dict[tuple[int, str], Cost] = {}
    names = _names(run)
    for one in run:
        depth, below = one.trajectory.started.depth, {child.trajectory.run_id for child in one.children}
        for record in one.trajectory.records:
            if (
                isinstance(record, ReplyReceived | DirectReplied)
                or (isinstance(record, ConversationCompacted) and record.model)
                or (isinstance(record, SampleSettled) and record.child not in below)
            ):
                key = (depth, names.get(record.model, record.model))
            elif isinstance(record, SubcallSettled) and record.child not in below and _asked(record):
                key = (depth + 1, names.get(record.model, record.model) or _NOT_HERE)
            else:
                continue  # a child's own record says what it took
            line = lines[key] if key in lines else Cost(key[1], key[0])
            lines[key] = line.plus(record.usage, record.cost, record.seconds)
    return [lines[key] for key in sorted(lines)]


def _names(run: WholeRun) -> dict[str, str]:
    """Return the name that each model replies by, by the one it is asked by: what broke off is recorded under that."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one in run:
        model, sub_model = one.trajectory.started.model, one.trajectory.started.sub_model
        for record in one.trajectory.records:
            if isinstance(record, RunResumed):
                model, sub_model = record.model, record.sub_model
            elif isinstance(record, ReplyReceived | DirectReplied):
                found[model].add(record.model)
            elif isinstance(record, SubcallSettled) and record.kind == "llm":
                found[record.asked_model or sub_model].add(record.model)
    replied = {asked: names - {asked, ""} for asked, names in found.items()}
    # a router has many: which of them broke off, nobody knows
    return {asked: names.pop() for asked, names in replied.items() if len(names) == 1}


def by_model(run: WholeRun) -> dict[str, ModelUsage]:
    """Sum up `costs` by the model's name; what a child used whose record is not here counts as the sub-model's."""
    found: dict[str, ModelUsage] = {}
    for line in costs(run):
        name = run.trajectory.started.sub_model if line.model == _NOT_HERE else line.model
        seen = found.get(name, ModelUsage(0, NOTHING, 0.0))
        cost = None if seen.cost is None or line.cost is None else seen.cost + line.cost
        found[name] = ModelUsage(seen.requests + line.requests, seen.usage + line.usage, cost)
    return found


def total(run: WholeRun, lines: list[Cost]) -> Cost:
    """Return the sum."""
    usage = sum((line.usage for line in lines), NOTHING)
    known = [line.cost for line in lines if line.cost is not None]
    cost = sum(known) if len(known) == len(lines) else None
    seconds = run.trajectory.ended.seconds if run.trajectory.ended is not None else sum(line.seconds for line in lines)
    return Cost("All", None, sum(line.requests for line in lines), usage, cost, seconds)


def _asked(call: SubcallSettled) -> bool:
    """Return whether a model was asked at all: what a limit refused was not, nor is a tool one."""
    return call.kind != "tool" and (not call.failed or call.usage.total_tokens > 0)


def _rest(run: WholeRun, lines: list[Cost]) -> Cost | None:
    """Return what the end of a run has more than these lines."""
    ended = run.trajectory.ended
    if ended is None:
        return None
    seen = sum((line.usage for line in lines), NOTHING)
    more = Usage(
        max(ended.usage.input_tokens - seen.input_tokens, 0), max(ended.usage.output_tokens - seen.output_tokens, 0)
    )
    known = sum(line.cost for line in lines if line.cost is not None)
    cost = None if ended.cost is None else max(ended.cost - known, 0.0)
    return Cost("(stopped on the way)", None, 0, more, cost) if more.total_tokens else None
