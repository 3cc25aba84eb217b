"""Compare with a model on your own machine: `python -m tests.benchmarks.local_model --seeds 1 2 3`.

Ten tasks a seed, for this project, the reference and smolagents in turn, each in an environment of its own and each
run in a fresh process, against one server that speaks chat completions and is running already. What is done stands in
the output folder, with all that the runs left behind; a comparison that was interrupted goes on there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.benchmarks.environment import reference_python, smolagents_python
from tests.benchmarks.local_report import show
from tests.benchmarks.local_runs import Run, kept_runs, make_run
from tests.benchmarks.local_tasks import Task, tasks

DEFAULT_URL = "http://127.0.0.1:8080/v1"
_DRIVERS = "tests.benchmarks.local_drivers"
SYSTEMS = ("ours", "reference", "smolagents", "smolagents, by hand")
"""The last one only where it is asked for: it puts the text where smolagents' documentation does not."""
_LOOK_SECONDS = 10.0


def main() -> int:
    """Run the command line; 2 when no server is there (any more), or it was interrupted."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 170)
    models = served(options.base_url)
    if isinstance(models, str):
        print(models, file=sys.stderr)
        return 2
    model = options.model or models[0]
    settings = {
        "base_url": options.base_url,
        "provider": options.provider,
        "model": model,
        "max_iterations": options.max_iterations,
    }
    systems = options.only or SYSTEMS[:3]
    commands = {system: command(system) for system in systems}
    chosen = [(seed, task) for seed in options.seeds for task in tasks(seed)[: options.tasks]]
    gone = ""
    try:
        gone = asyncio.run(_compare(commands, chosen, settings, options))
    except KeyboardInterrupt:
        gone = "Interrupted."
    if gone:
        print(f"{gone} What is done stands in {options.output}, and the same command goes on.", file=sys.stderr)
    keys = {(system, seed, task.name, model, options.max_iterations) for seed, task in chosen for system in SYSTEMS}
    done = {run.key: run for run in kept_runs(options.output / "runs.jsonl") if run.key in keys}
    runs = sorted(done.values(), key=lambda run: run.seed)
    console.print(f"{model}, at most {options.max_iterations} iterations, seeds {', '.join(map(str, options.seeds))}")
    show(console, runs, SYSTEMS)
    console.print(f"Runs, notebooks and requests: {options.output}")
    return 2 if gone else 0


def command(system: str) -> list[str]:
    """What runs a system's driver; its environment is made when it is not there yet."""
    if system == "ours":
        return [sys.executable, "-m", f"{_DRIVERS}.ours"]
    if system == "reference":
        return [str(reference_python()), "-m", f"{_DRIVERS}.reference"]
    return [str(smolagents_python()), "-m", f"{_DRIVERS}.smolagents", *(["by_hand"] if "hand" in system else [])]


async def _compare(
    commands: dict[str, list[str]],
    chosen: Sequence[tuple[int, Task]],
    settings: dict[str, Any],
    options: argparse.Namespace,
) -> str:
    """Make the runs that are missing; returns why it can't go on, or nothing."""
    progress = Console(stderr=True)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "runs.jsonl"
    done = set() if options.again else {run.key for run in kept_runs(path)}
    missing = [
        (seed, task, system)
        for seed, task in chosen
        for system in commands
        if (system, seed, task.name, settings["model"], settings["max_iterations"]) not in done
    ]
    gone: list[str] = []

    async def work() -> None:
        while missing and not gone:
            seed, task, system = missing.pop(0)
            folder = options.output / f"seed-{seed}" / task.name / system.replace(", ", "-").replace(" ", "-")
            run = await make_run(system, commands[system], task, seed, settings, folder.resolve(), options.timeout)
            if isinstance(why := served(options.base_url), str):
                gone.append(why)  # and what the run came to says nothing of the system
                return
            file.write(run.line)
            file.flush()
            progress.print(_line(run), markup=False, highlight=False)

    with path.open("a", encoding="utf-8") as file, progress.status(f"{len(missing)} runs"):
        await asyncio.gather(*(work() for _ in range(options.jobs)))
    return gone[0] if gone else ""


def _line(run: Run) -> str:
    said = "raised" if run.raised else "out of time" if run.late else f"said {run.answer!r:.60}"
    right = "right" if run.right else f"{said}, not {run.expected!r}"
    return f"seed {run.seed}, {run.task}, {run.system}: {right} ({run.iterations} iterations, {run.seconds:.0f} s)"


def served(base_url: str) -> list[str] | str:
    """The names of the models that are served, or in one line why there are none."""
    try:
        with urllib.request.urlopen(f"{base_url}/models", timeout=_LOOK_SECONDS) as response:
            names = [str(entry["id"]) for entry in json.load(response)["data"]]
    except urllib.error.HTTPError as error:
        return f"{base_url}/models answers with {error.code}: the model is still loading, or it is another server."
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"No model server answers at {base_url} ({error}). Start one, and name it with --base-url."
    return names or f"{base_url} serves no model."


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.local_model", description=__doc__)
    url = os.environ.get("LLAMACPP_BASE_URL") or DEFAULT_URL
    parser.add_argument("--base-url", default=url, help="where the model is served (default: %(default)s)")
    parser.add_argument("--model", help="its name there (default: the first that the server lists)")
    parser.add_argument("--provider", default="llamacpp", help="what this project calls such a server")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="N")
    parser.add_argument("--tasks", type=int, metavar="N", help="only the first of each seed")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, metavar="SYSTEM", help="; ".join(SYSTEMS))
    parser.add_argument("--again", action="store_true", help="make runs that are there already once more")
    parser.add_argument("--max-iterations", type=int, default=10, metavar="N")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at once, where the server has the slots")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for a run (default: 300)")
    parser.add_argument("--output", type=Path, default=Path("local_model_runs"), metavar="FOLDER")
    options = parser.parse_args()
    options.base_url = options.base_url.rstrip("/")
    if not options.base_url.endswith("/v1"):
        options.base_url += "/v1"
    return options


if __name__ == "__main__":
    sys.exit(main())
