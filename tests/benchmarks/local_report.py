"""The tables of a comparison, as Markdown, so that they can be put into a page as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from rich import box
from rich.console import Console
from rich.table import Table

from tests.benchmarks.local_runs import Run


def show(console: Console, runs: Sequence[Run], systems: Iterable[str]) -> None:
    """What each system came to: figures in the rows, systems in the columns; then the tasks."""
    by_system = {name: [run for run in runs if run.system == name] for name in systems}
    by_system = {name: its for name, its in by_system.items() if its}
    figures = _table("", by_system)
    for title, figure in _FIGURES:
        figures.add_row(title, *(figure(its) for its in by_system.values()))
    console.print(figures)
    by_task = _table("right, by task", by_system)
    for task in dict.fromkeys(run.task for run in runs):
        done = [[run.right for run in its if run.task == task] for its in by_system.values()]
        by_task.add_row(task, *(_of(sum(one), len(one)) for one in done))
    console.print(by_task)


def _table(first: str, systems: Iterable[str]) -> Table:
    table = Table(box=box.MARKDOWN, title_justify="left")
    table.add_column(first)
    for name in systems:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else "–"


def _count(counts: Callable[[Run], bool]) -> Callable[[Sequence[Run]], str]:
    return lambda runs: str(sum(counts(run) for run in runs))


def _mean(value: Callable[[Run], float], counts: Callable[[Run], bool] = lambda run: True) -> Callable[..., str]:
    def shown(runs: Sequence[Run]) -> str:
        values = [value(run) for run in runs if counts(run)]
        return f"{mean(values):,.1f}" if values and mean(values) < 100 else f"{mean(values):,.0f}" if values else "–"

    return shown


def _right_by_seed(runs: Sequence[Run]) -> str:
    seeds = sorted({run.seed for run in runs})
    return ", ".join(str(sum(run.right for run in runs if run.seed == seed)) for seed in seeds)


def _right_of_given(runs: Sequence[Run]) -> str:
    given = [run for run in runs if run.answer is not None]
    return _of(sum(run.right for run in given), len(given))


def _from_cache(runs: Sequence[Run]) -> str:
    later = sum(run.later_read for run in runs)
    return f"{sum(run.later_cached for run in runs) / later:.0%}" if later else "–"


_FIGURES: tuple[tuple[str, Callable[[Sequence[Run]], str]], ...] = (
    ("right", lambda runs: _of(sum(run.right for run in runs), len(runs))),
    ("right, seed by seed", _right_by_seed),
    ("right, of the answers given", _right_of_given),
    ("raised", _count(lambda run: run.raised)),
    ("out of time", _count(lambda run: run.late)),
    ("answers in the system's own words", _count(lambda run: run.own_words)),
    ("the same reply more than 3 times in a row", _count(lambda run: run.circle > 3)),
    ("iterations", _mean(lambda run: run.iterations)),
    ("iterations of runs without a right answer", _mean(lambda run: run.iterations, lambda run: not run.right)),
    ("tokens read", _mean(lambda run: run.read)),
    ("tokens read from the cache", _mean(lambda run: run.cached)),
    ("tokens written", _mean(lambda run: run.written)),
    ("requests broken off whose tokens nobody counted", lambda runs: str(sum(run.uncounted for run in runs))),
    ("from the cache, from the second iteration on", _from_cache),
    ("seconds", _mean(lambda run: run.seconds)),
)
"""Counts that name nothing else are of runs; the rest is the mean of a run."""
