"""The tables of an evaluation, as Markdown, so that they can be put into a page as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, median

from tests.benchmarks.local_runs import Run
from tests.benchmarks.questions.stats import interval, mcnemar

Row = tuple[str, Callable[[Sequence[Run]], str]]
_SURE = 0.9


def main_table(by_system: Mapping[str, Sequence[Run]]) -> str:
    """What each system came to: figures in the rows, systems in the columns."""
    lines = [f"| | {' | '.join(by_system)} |", f"|---|{'--:|' * len(by_system)}"]
    for title, figure in _ROWS:
        lines.append(f"| {title} | {' | '.join(figure(runs) for runs in by_system.values())} |")
    return "\n".join(lines) + "\n"


def by_kind(by_system: Mapping[str, Sequence[Run]], kinds: Iterable[str]) -> str:
    """How many are right of each kind."""
    lines = [f"| right of asked | {' | '.join(by_system)} |", f"|---|{'--:|' * len(by_system)}"]
    for kind in kinds:
        cells = []
        for runs in by_system.values():
            own = [run for run in runs if run.task.partition(".")[0] == kind]
            cells.append(f"{sum(run.right for run in own)}/{len(own)}" if own else "–")
        if any(cell != "–" for cell in cells):
            lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def compared(one: str, other: str, by_system: Mapping[str, Sequence[Run]]) -> str:
    """How two systems differ on the questions that both were asked."""
    pairs = _pairs(by_system[one], by_system[other])
    right = [(a.right, b.right) for a, b in pairs]
    p = mcnemar([a for a, _ in right], [b for _, b in right])
    low, high = interval([float(a) - float(b) for a, b in right])
    only, but = sum(a and not b for a, b in right), sum(b and not a for a, b in right)
    return (
        f"{one} against {other}, {len(pairs)} questions: only the first right {only}, only the second {but}; "
        f"difference {100 * low:+.0f} to {100 * high:+.0f} points (95 %), p = {p:.3f} (McNemar)"
    )


def _pairs(one: Sequence[Run], other: Sequence[Run]) -> list[tuple[Run, Run]]:
    found = {(run.seed, run.task): run for run in other}
    return [(run, found[run.seed, run.task]) for run in one if (run.seed, run.task) in found]


def is_wrong(run: Run) -> bool:
    """Whether an answer was given, and is not right."""
    return run.answer is not None and not run.right


def _share(counts: Callable[[Run], bool]) -> Callable[[Sequence[Run]], str]:
    return lambda runs: str(sum(map(counts, runs)))


def _right(runs: Sequence[Run]) -> str:
    low, high = interval([float(run.right) for run in runs])
    return f"{sum(run.right for run in runs)} ({100 * low:.0f}–{100 * high:.0f} %)"


def _wrong_of_given(runs: Sequence[Run]) -> str:
    given = [run for run in runs if run.answer is not None]
    return f"{sum(map(is_wrong, given))} of {len(given)}" if given else "–"


def _is_sure(run: Run) -> bool:
    return run.confidence is not None and run.confidence >= _SURE


def _aids(runs: Sequence[Run]) -> str:
    counted = Counter(aid for run in runs for aid in run.aids)
    return ", ".join(f"{aid} {times}" for aid, times in counted.most_common()) or "–"


_ROWS: tuple[Row, ...] = (
    ("questions", lambda runs: str(len(runs))),
    ("**right** (95 %)", _right),
    ("score, near misses in part", lambda runs: f"{mean(run.score for run in runs):.2f}" if runs else "–"),
    ("wrong, of the answers given", _wrong_of_given),
    (f"… with a confidence of {_SURE} or more", lambda runs: _wrong_of_given([run for run in runs if _is_sure(run)])),
    ("no answer", _share(lambda run: run.answer is None)),
    ("… of which raised", _share(lambda run: run.raised)),
    ("… of which out of time", _share(lambda run: run.late)),
    ("the harness's own words", _share(lambda run: run.own_words)),
    ("aids that came up", _aids),
    ("iterations, mean", lambda runs: f"{mean(run.iterations for run in runs):.1f}" if runs else "–"),
    ("tokens read anew, mean", lambda runs: f"{mean(run.read for run in runs):,.0f}" if runs else "–"),
    ("tokens written, mean", lambda runs: f"{mean(run.written for run in runs):,.0f}" if runs else "–"),
    ("seconds, median", lambda runs: f"{median(run.seconds for run in runs):.0f}" if runs else "–"),
)
