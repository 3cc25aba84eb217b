"""The tables that are printed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.benchmarks.scenarios import Scenario
from tests.benchmarks.targets import REFERENCES, TARGETS, Samples

CONTENDERS = ("floor", "ours", *REFERENCES)


def show_medians(console: Console, scenarios: Sequence[Scenario], samples: Samples) -> None:
    """A line for each figure: medians, and how ours compares."""
    table = Table(title="Medians", title_justify="left")
    table.add_column("what")
    for name in (*CONTENDERS, "ours/floor", "ours/subprocess"):
        table.add_column(name.replace("_", "-"), justify="right", no_wrap=True)
    for scenario in scenarios:
        for figure, title in scenario.titles.items():
            by_name = samples.get(f"{scenario.name}.{figure}", {})
            values = {name: median(by_name[name]) for name in CONTENDERS if by_name.get(name)}
            table.add_row(
                title,
                *(_value(figure, values.get(name)) for name in CONTENDERS),
                _ratio(values, "floor"),
                _ratio(values, "subprocess"),
            )
        table.add_section()
    console.print(table)


def show_targets(console: Console, samples: Samples) -> bool:
    """A line for each target; whether none of those that were measured is missed."""
    table = Table(title="Targets", title_justify="left")
    for name in ("target", "measured", "at most", ""):
        table.add_column(name, justify="left" if name == "target" else "right")
    all_met = True
    for target in TARGETS:
        value = target.measured(samples)
        met = value is None or value <= target.most
        all_met = all_met and met
        table.add_row(
            target.title,
            "–" if value is None else f"{value:.3g} {target.unit}",
            f"{target.most:g} {target.unit}",
            "not measured" if value is None else "met" if met else "[bold red]MISSED[/]",
        )
    console.print(table)
    return all_met


def _value(figure: str, value: float | None) -> str:
    if value is None:
        return "–"
    if figure in {"bytes", "anew bytes"}:
        return f"{value / 1e6:,.0f} MB"
    if figure == "lost":
        return f"{value:.0f}"
    if figure == "ratio":
        return f"{value:.2f}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms" if value >= 0.01 else f"{value * 1e3:.2f} ms"


def _ratio(values: dict[str, float], other: str) -> str:
    if not values.get("ours") or not values.get(other):
        return ""
    return f"{values['ours'] / values[other]:.2f}"
