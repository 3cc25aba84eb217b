"""What the comparison on a model of one's own rests on: its tasks, its grader, and how a run is counted."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import local_model
from tests.benchmarks.local_runs import Run, kept_runs, make_run
from tests.benchmarks.local_tasks import Task, is_right, tasks
from tests.benchmarks.local_texts import LEAST, MOST
from tests.support.local_servers import LocalServer
from tests.support.loopback import Said
from tests.support.loopback_replies import Fault

SEED_7 = "062f86ce902c6532"
"""Of its prompts, texts and answers. Where it changes, figures taken before can't be compared with those taken after."""


def test_a_seed_makes_the_same_ten_tasks_everywhere() -> None:
    digest = hashlib.sha256()
    for task in tasks(7):
        digest.update(f"{task.name}\n{task.prompt}\n{task.answer}\n{task.context}".encode())
    assert digest.hexdigest()[:16] == SEED_7
    assert [task.answer for task in tasks(8)] != [task.answer for task in tasks(7)]


@pytest.mark.parametrize("seed", range(4))
def test_tasks_have_the_sizes_that_are_promised_and_their_answers_are_not_in_the_question(seed: int) -> None:
    made = tasks(seed)
    assert len({task.name for task in made}) == 10
    for task in made:
        assert LEAST <= len(task.context) <= MOST, task.name
        assert is_right(task, task.answer), task.name
        assert not is_right(task, task.prompt), task.name
        assert not is_right(task, task.context[:299]), task.name


MADE = {task.name: task for task in tasks(1)}
NUMBER, NAME = MADE["sum"], MADE["join"]


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("1234567", True),
        ("1,234,567", True),
        ("1 234 567 crowns", True),
        ("1234567.0", True),
        ("'1234567'", True),
        ("The sum of all amounts of the store is **1,234,567**.", True),
        ("{'sum': 1234567}", True),
        (1234567, True),
        ("1234568", False),
        ("-1234567", False),
        ("12345670", False),
        ("1234567 or 7654321", False),
        ("[1234567, 5]", False),
        ("x1234567", False),
        ("about a million", False),
        ("", False),
        (None, False),
        ("1234567 " + "crowns " * 60, False),
    ],
)
def test_numbers_are_graded_by_their_value_and_lists_are_not_taken(answer: object, right: bool) -> None:
    assert is_right(replace(NUMBER, answer="1234567"), answer) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Mira Holm", True),
        ('"mira holm"', True),
        ("The badge belongs to Mira  Holm, who opened the cellar.", True),
        ("Mira", False),
        ("Mira Holmes", False),
        ("Mira Holm or Nils Holm", False),
        ("Nils Holm", False),
        ("somebody else", False),
    ],
)
def test_names_are_graded_whole_and_alone(answer: str, right: bool) -> None:
    assert is_right(replace(NAME, answer="Mira Holm"), answer) is right


def test_a_number_that_the_question_names_is_no_candidate() -> None:
    task = replace(NUMBER, prompt="What is the limit of pump 17?", answer="340")
    assert is_right(task, "The limit of pump 17 is 340.")
    assert not is_right(task, "pump 17")
    assert is_right(replace(task, answer="17"), "It is 17.")


LOOK = "I look.\n```repl\nprint(len(context))\n```"
PLAYED = "\n\n**Output:**\n```\n" + "99\n" * 300 + "```\nFINAL(99)"


async def one(server: LocalServer, folder: Path, task: Task, driver: list[str], seconds: float = 60.0) -> Run:
    settings: dict[str, Any] = {
        "base_url": server.openai_url,
        "provider": "llamacpp",
        "model": "coder",
        "max_iterations": 5,
    }
    return await make_run("ours", driver, task, 1, settings, folder / "run", seconds)


async def test_what_the_server_says_is_counted_and_what_was_broken_off_too(tmp_path: Path) -> None:
    answer = f"```repl\nFINAL('It is {NUMBER.answer}.')\n```"
    replies = [
        Said(LOOK + PLAYED, delay=0.02, pieces=100),
        Said(LOOK.replace("len(", "type("), input_tokens=300, cached_tokens=200, output_tokens=20),
        Said(answer, input_tokens=400, cached_tokens=340, output_tokens=30),
    ]
    with LocalServer(replies) as server:
        run = await one(server, tmp_path, NUMBER, local_model.command("ours"))
        assert server.abandoned == 1
    assert (run.right, run.raised, run.late, run.own_words, run.iterations) == (True, False, False, False, 3)
    assert (run.requests, run.read, run.cached, run.uncounted) == (3, 160, 540, 1)
    assert (run.later_cached, run.later_read) == (540, 700)
    assert 50 < run.written < 150  # its pieces until it was closed, of 100, and the other two
    assert run.circle == 1
    assert list((tmp_path / "run").glob("*.ipynb"))
    (tmp_path / "runs.jsonl").write_text(run.line + run.line[:50])
    assert list(kept_runs(tmp_path / "runs.jsonl")) == [run]


@pytest.mark.parametrize("way", ["truncated", "bm25"])
async def test_a_text_of_more_tokens_than_it_looks_is_given_in_part(way: str, tmp_path: Path) -> None:
    driver = [sys.executable, "-m", "tests.benchmarks.local_drivers.calls", way]

    def reply(messages: list[dict[str, Any]]) -> Said | Fault:
        tokens = len(messages[-1]["content"]) // 2
        return Said(NUMBER.answer) if tokens < 8_000 else Fault.overflow(tokens, 8_000)

    with LocalServer([reply]) as server:
        run = await one(server, tmp_path, NUMBER, driver)
        sizes = [len(request.messages[-1]["content"]) for request in server.requests]
    assert run.right
    assert len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)


WAIT = """
import json, urllib.request
from tests.benchmarks.local_drivers.job import Job
asked = {"model": "coder", "messages": [{"role": "system", "content": "?"}]}
urllib.request.urlopen(Job.given().base_url + "/chat/completions", json.dumps(asked).encode())
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("code", "fate"),
    [
        ("raise KeyError('no')", "raised"),
        (WAIT, "late"),
        ("from tests.benchmarks.local_drivers.job import Job; Job.given().tell(Job.given().prompt, ['a'] * 9)", "own"),
    ],
)
async def test_what_else_becomes_of_a_run(code: str, fate: str, tmp_path: Path) -> None:
    with LocalServer(thinks=60) as server:
        run = await one(server, tmp_path, NUMBER, [sys.executable, "-c", code], 4.0 if fate == "late" else 60.0)
        # the next run finds the server free
        await asyncio.sleep(0.2)
        assert (server.abandoned, run.requests, run.uncounted) == ((1, 1, 1) if fate == "late" else (0, 0, 0))
    assert (run.raised, run.late, run.own_words) == (fate == "raised", fate == "late", fate == "own")
    assert not run.right
    assert run.error == ("KeyError: 'no'" if fate == "raised" else "")
    assert run.circle == (5 if fate == "own" else 0)


def test_a_comparison_goes_on_where_it_was_broken_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its table has the runs of both times; one in which the server went away is none."""
    say = "import time; from tests.benchmarks.local_drivers.job import Job; Job.given().tell('5', ['a'])"
    monkeypatch.setattr(local_model, "command", lambda system: [sys.executable, "-c", say])
    arguments = ["local_model", "--only", "ours", "reference", "--seeds", "3", "--output", str(tmp_path)]
    with LocalServer() as server:
        monkeypatch.setattr(sys, "argv", [*arguments, "--base-url", server.url, "--tasks", "1"])
        assert local_model.main() == 0
        assert len(list(kept_runs(tmp_path / "runs.jsonl"))) == 2
        served = iter([["coder"], ["coder"], "No model server answers."])
        monkeypatch.setattr(local_model, "served", lambda url: next(served))
        monkeypatch.setattr(sys, "argv", [*arguments, "--base-url", server.url, "--tasks", "2"])
        assert local_model.main() == 2
    runs = list(kept_runs(tmp_path / "runs.jsonl"))
    assert [(run.task, run.system) for run in runs] == [("needle", "ours"), ("needle", "reference"), ("count", "ours")]
    out, err = capsys.readouterr()
    assert "0 of 2" in out
    assert "No model server answers. What is done stands in" in err


def test_without_a_server_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["local_model", "--base-url", "http://127.0.0.1:9"])
    assert local_model.main() == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("No model server answers at http://127.0.0.1:9/v1 (")
    assert err.count("\n") == 1
