"""Measure, and print a table: `python -m tests.benchmarks [--quick] [--only NAME…] [--no-reference]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from rich.console import Console

from tests.benchmarks.environment import reference_python
from tests.benchmarks.report import show_medians, show_targets
from tests.benchmarks.scenarios import Sample, Scenario, scenarios
from tests.benchmarks.targets import REFERENCES
from tests.benchmarks.worker import Worker, WorkerError

Taken = dict[str, dict[str, list[float]]]


def main() -> int:
    """Run the command line; 1 when a target is missed."""
    arguments = _arguments()
    chosen = [
        scenario
        for scenario in scenarios(quick=arguments.quick)
        if not arguments.only or scenario.name in arguments.only
    ]
    commands: dict[str, Sequence[str]] = {
        "floor": [sys.executable, "-m", "tests.benchmarks.floors"],
        "ours": [sys.executable, "-m", "tests.benchmarks.ours"],
    }
    if not arguments.no_reference:
        python = str(reference_python())
        commands |= {mode: [python, "-m", "tests.benchmarks.reference", mode] for mode in REFERENCES}
    samples: Taken = {}
    progress = Console(stderr=True)
    for scenario in chosen:
        with progress.status(scenario.name):
            for failure in measure(scenario, commands, samples):
                progress.print(failure, style="yellow", markup=False)
    console = Console(width=None if sys.stdout.isatty() else 170)
    show_medians(console, chosen, samples)
    met = show_targets(console, samples)
    console.print(f"{os.cpu_count()} cores; load over the last five minutes: {os.getloadavg()[1]:.1f}")
    return 0 if met else 1


def measure(scenario: Scenario, commands: Mapping[str, Sequence[str]], samples: Taken) -> list[str]:
    """Take the samples of one scenario, one of each contender in turn; returns what failed, in a line each."""
    failures = []
    with ExitStack() as stack:
        contenders = _open(scenario, commands, stack)
        for repetition in range(scenario.repetitions):
            names = list(contenders)
            # nobody is always the one that comes after the same neighbour
            for name in names[repetition % len(names) :] + names[: repetition % len(names)]:
                sample, worker = contenders[name]
                try:
                    taken = _take(sample, worker, commands[name], name)
                except WorkerError as error:
                    failures.append(f"{scenario.name}, {name}: {str(error).splitlines()[-1]}")
                    del contenders[name]
                    continue
                for figure, value in taken.items():
                    samples.setdefault(f"{scenario.name}.{figure}", {}).setdefault(name, []).append(value)
    return failures


def _open(
    scenario: Scenario, commands: Mapping[str, Sequence[str]], stack: ExitStack
) -> dict[str, tuple[Sample, Worker | None]]:
    contenders: dict[str, tuple[Sample, Worker | None]] = {}
    for name, command in commands.items():
        sample = scenario.floor if name == "floor" else scenario.sample
        if sample is None or (scenario.only_ours and name in REFERENCES):
            continue
        worker = None
        if scenario.opened is not None:
            worker = stack.enter_context(Worker(command))
            if name != "floor":
                worker.do("open", **(scenario.reference_opened if name in REFERENCES else scenario.opened))
        contenders[name] = sample, worker
    return contenders


def _take(sample: Sample, worker: Worker | None, command: Sequence[str], name: str) -> dict[str, float]:
    if worker is not None:
        return sample(worker, name)
    with Worker(command) as fresh:
        return sample(fresh, name)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    names = [scenario.name for scenario in scenarios(quick=False)]
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller sizes")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--no-reference", action="store_true", help="leave the reference out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
