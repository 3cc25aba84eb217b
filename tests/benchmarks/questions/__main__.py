"""Evaluate on any question: `python -m tests.benchmarks.questions --only ours exec --split unseen --seeds 1 2 3`.

Fifty-four kinds of questions, each with one right answer by construction, in three lengths, against one server that speaks
chat completions and is running already. Some of the kinds may be looked at while prompts are tried (`--split seen`);
the others are run for the table alone. What is done stands in the output folder; an evaluation that was interrupted
goes on there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from tests.benchmarks.environment import dspy_python, reference_python, smolagents_python
from tests.benchmarks.local_drivers.aids import AIDS
from tests.benchmarks.local_model import DEFAULT_URL, served
from tests.benchmarks.local_runs import Run, kept_runs, make_run
from tests.benchmarks.questions import seen, unseen, untidy  # noqa: F401  they register their kinds
from tests.benchmarks.questions.question import CHARS, KINDS, Length, Question
from tests.benchmarks.questions.table import by_kind, compared, main_table

_DRIVERS = "tests.benchmarks.local_drivers"
SYSTEMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "ours": ("ours", {}),
    "exec": ("exec_loop", {}),
    "plain": ("calls plain", {}),
    "truncated": ("calls truncated", {}),
    "bm25": ("calls bm25", {}),
    "reference": ("reference", {}),
    "dspy": ("dspy", {}),
    "smolagents": ("smolagents by_hand", {}),
}
"""The driver of each, and its options."""


def command(system: str) -> list[str]:
    """What runs a system's driver; its environment is made when it is not there yet."""
    module, *words = SYSTEMS[system][0].split()
    pythons = {"reference": reference_python, "dspy": dspy_python, "smolagents": smolagents_python}
    python = str(pythons[module]()) if module in pythons else sys.executable
    return [python, "-m", f"{_DRIVERS}.{module}", *words]


def chosen(
    split: str, seeds: Sequence[int], lengths: Sequence[Length], names: Sequence[str] = ()
) -> list[tuple[int, Question]]:
    """Return the questions of a split, or of these kinds in it; where one length is to be drawn for each, they take turns."""
    kinds = [kind for kind in KINDS.values() if split == "all" or kind.is_seen == (split == "seen")]
    return [
        (seed, kind.question(seed, lengths[(seed + place) % len(lengths)]))
        for seed in seeds
        for place, kind in enumerate(kinds)
        if not names or kind.name in names
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; 2 when no server is there (any more), or it was interrupted."""
    options = _options(words)
    models = _models(options)
    if isinstance(models, str):
        print(models, file=sys.stderr)
        return 2
    settings = {"base_url": options.base_url, "provider": options.provider, "model": options.model or models[0]}
    settings["max_iterations"] = options.max_iterations
    questions = chosen(options.split, options.seeds, options.lengths, options.kinds)
    gone = ""
    try:
        if not options.table:
            gone = asyncio.run(_ask(questions, settings, options))
    except KeyboardInterrupt:
        gone = "Interrupted."
    if gone:
        print(f"{gone} What is done stands in {options.output}, and the same command goes on.", file=sys.stderr)
    print(_report(questions, settings, options))
    return 2 if gone else 0


def _models(options: argparse.Namespace) -> Sequence[str] | str:
    """Return the models that are served, or why there are none; for the table alone, the model of the last run."""
    if not options.table:
        return served(options.base_url)
    runs = list(kept_runs(options.output / "runs.jsonl"))
    return [runs[-1].model] if runs else f"{options.output} has no runs."


def _report(questions: Sequence[tuple[int, Question]], settings: dict[str, Any], options: argparse.Namespace) -> str:
    """Return the tables of what is done, and how the systems differ in pairs."""
    keys = {(seed, question.name) for seed, question in questions}
    names = {_label(system, options): system for system in options.only}
    runs = {run.key: run for run in kept_runs(options.output / "runs.jsonl") if (run.seed, run.task) in keys}
    of_model = [run for run in runs.values() if run.key[3:] == (settings["model"], settings["max_iterations"])]
    known = [*names, *dict.fromkeys(run.system for run in of_model if run.system not in names)]
    by_system = {name: [run for run in of_model if run.system == name] for name in known}
    by_system = {name: its for name, its in by_system.items() if its}
    if not by_system:
        return "Nothing is done yet."
    lines = [main_table(by_system), by_kind(by_system, KINDS)]
    lines += [compared(one, other, by_system) for one, other in combinations(by_system, 2)]
    return "\n".join(lines)


def _label(system: str, options: argparse.Namespace) -> str:
    """Return what a system is called in this configuration."""
    without = f"without {', '.join(options.without)}" if system == "ours" and options.without else ""
    return " ".join(filter(None, (system, options.label, without)))


async def _ask(questions: Sequence[tuple[int, Question]], settings: dict[str, Any], options: argparse.Namespace) -> str:
    """Make the runs that are missing; returns why it can't go on, or nothing."""
    progress = Console(stderr=True, width=160)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "runs.jsonl"
    done = {run.key for run in kept_runs(path)}
    keyed = [((_label(system, options), seed, question.name), system, question)
             for seed, question in questions for system in options.only]  # fmt: skip
    missing = iter([
        (key, system, question)
        for key, system, question in keyed
        if (*key, settings["model"], settings["max_iterations"]) not in done
    ])  # fmt: skip
    commands = {system: command(system) for system in options.only}  # made before several ask for one

    async def ask(file: TextIO) -> None:
        for (label, seed, name), system, question in missing:
            folder = (options.output / f"seed-{seed}" / name / label.replace(" ", "-")).resolve()
            its = settings
            if system == "ours":
                its = {**settings, "options": {**SYSTEMS[system][1], **options.options, "without": options.without}}
            run = await make_run(label, commands[system], question, seed, its, folder, options.timeout)
            if isinstance(why := await asyncio.to_thread(served, options.base_url), str):
                raise ConnectionError(why)  # what the run came to says nothing of the system
            file.write(run.line)
            file.flush()
            progress.print(_line(run, question), markup=False, highlight=False)

    why_gone = ""
    with path.open("a", encoding="utf-8") as file:
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(options.at_once):
                    workers.create_task(ask(file))
        except* ConnectionError as gone:
            why_gone = str(gone.exceptions[0])
    return why_gone


def _line(run: Run, question: Question) -> str:
    said = "raised" if run.raised else "out of time" if run.late else f"said {run.answer!r:.60}"
    outcome = "right" if run.right else f"{said}, not {question.answer!r:.60}"
    if not _may_be_seen(question):
        outcome = "right" if run.right else "none" if run.answer is None else "wrong"
    return f"{run.system}, seed {run.seed}, {run.task}: {outcome} ({run.iterations} iterations, {run.seconds:.0f} s)"


def _may_be_seen(question: Question) -> bool:
    """Whether what a run said may be seen: not of the kinds that no prompt may be made from."""
    return KINDS[question.kind].is_seen


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.questions", description=__doc__)
    url = os.environ.get("LLAMACPP_BASE_URL") or DEFAULT_URL
    parser.add_argument("--base-url", default=url, help="where the model is served, with /v1 (default: %(default)s)")
    parser.add_argument("--model", help="its name there (default: the first that the server lists)")
    parser.add_argument("--provider", default="llamacpp", help="what this project calls such a server")
    parser.add_argument("--split", choices=("seen", "unseen", "all"), default="unseen")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=(), metavar="KIND", help="of the split")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    parser.add_argument("--lengths", nargs="+", choices=tuple(CHARS), default=list(CHARS), help="they take turns")
    parser.add_argument("--only", nargs="+", choices=tuple(SYSTEMS), default=["ours", "exec"], metavar="SYSTEM")
    parser.add_argument("--label", default="", help="put behind the systems' names: for a configuration to compare")
    parser.add_argument("--options", type=_pairs_of, default={}, help="of RLM, for ours: samples=3,strategy=auto")
    parser.add_argument(
        "--without", nargs="+", choices=tuple(AIDS), default=(), metavar="AID", help=f"for ours: {', '.join(AIDS)}"
    )
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="runs, where the server has slots: none is as fast then"
    )
    parser.add_argument("--max-iterations", type=int, default=8, metavar="N")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for a run (default: 300)")
    parser.add_argument("--table", action="store_true", help="make no run: show what is done")
    parser.add_argument("--output", type=Path, default=Path("questions_runs"), metavar="FOLDER")
    return parser.parse_args(words)


def _pairs_of(text: str) -> dict[str, Any]:
    pairs = (pair.partition("=")[::2] for pair in text.split(",") if pair)
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


if __name__ == "__main__":
    sys.exit(main())
