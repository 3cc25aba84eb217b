"""What the evaluation rests on: its questions, its graders, and what it says of two systems."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.local_drivers.aids import AIDS
from tests.benchmarks.local_runs import Run, make_run
from tests.benchmarks.questions import seen, unseen, untidy  # noqa: F401  they register their kinds
from tests.benchmarks.questions.__main__ import SYSTEMS, chosen, command, main
from tests.benchmarks.questions.grading import Names, Number, YesNo, one_of
from tests.benchmarks.questions.question import CHARS, KINDS, Kind
from tests.benchmarks.questions.stats import interval, mcnemar
from tests.benchmarks.questions.table import compared, main_table
from tests.benchmarks.worker import ROOT
from tests.support.local_servers import LocalServer

SEED_7 = "5aa98e95a109091b"
"""Of its prompts, texts and answers. Where it changes, figures taken before can't be compared with those taken after."""


def test_a_seed_makes_the_same_questions_everywhere() -> None:
    digest = hashlib.sha256()
    for _, kind in sorted(KINDS.items()):
        made = kind.question(7, "fits")
        digest.update(f"{made.name}\n{made.prompt}\n{made.answer}\n{made.context}".encode())
    assert digest.hexdigest()[:16] == SEED_7


def test_there_are_many_kinds_over_many_contexts_and_half_of_them_are_kept_back() -> None:
    back = [kind for kind in KINDS.values() if not kind.is_seen]
    assert len(KINDS) >= 30
    assert len(back) >= len(KINDS) / 2
    assert len({kind.context for kind in KINDS.values()}) >= 8
    assert {question.length for _, question in chosen("unseen", [1], list(CHARS))} == set(CHARS)
    assert not {question.kind for _, question in chosen("unseen", [1], ["fits"])} - {kind.name for kind in back}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_right_answer_counts_and_the_question_and_another_seeds_do_not(kind: Kind) -> None:
    for length in ("fits", "10x"):
        made, other = kind.question(3, length), kind.question(4, length)
        assert made.score(made.answer) == 1.0
        assert made.score(f"The answer is **{made.answer}**.") == 1.0
        assert 0.5 * CHARS[length] < len(made.context) < 2 * CHARS[length]
        assert made.score(None) == made.score("") == made.score("I don't know") == 0.0
        assert made.score(made.answer + " or so" * 200) == 0.0
        if not isinstance(made.grader, YesNo):
            assert made.score(made.prompt) == 0.0
            assert made.answer == other.answer or made.score(other.answer) < 1.0
    if kind.question(3, "fits").form == "json":
        assert json.loads(kind.question(3, "fits").context)


def test_answers_follow_from_the_contexts() -> None:
    """A second way to the same figures, for kinds whose answer code can work out."""
    made = KINDS["csv-group"].question(5, "10x")
    totals = Counter[str]()
    for row in csv.DictReader(io.StringIO(made.context)):
        totals[row["city"]] += int(row["amount"])
    assert made.score(totals.most_common(1)[0][0]) == 1.0
    made = KINDS["log-duplicates"].question(5, "10x")
    numbers = Counter(line.split("transaction=")[1].split()[0] for line in made.context.splitlines())
    assert made.score([number for number, times in numbers.items() if times == 2]) == 1.0
    made = KINDS["words-common"].question(5, "10x")
    assert made.score([word for word, _ in Counter(made.context.split()).most_common(3)]) == 1.0
    made = KINDS["graph-reach"].question(5, "10x")
    start = made.prompt.split("from ")[1].split()[0]
    edges = [line.split(" -> ") for line in made.context.splitlines()]
    near = {b for a, b in edges if a == start}
    assert made.score(sorted({b for a, b in edges if a in near})) == 1.0
    made = KINDS["records-sum"].question(5, "10x")
    assert made.score(sum(row.get("hours", 0) for row in json.loads(made.context) if row["status"] == "open")) == 1.0


@pytest.mark.parametrize(
    ("answer", "score"),
    [("41", 1), ("41.0", 1), ("About 41 hosts", 1), ("42", 0.75), ("43", 0.5625), ("40 or 41", 0), ("4,1", 0), ("", 0)],
)
def test_a_near_number_counts_in_part_where_the_kind_says_so(answer: str, score: float) -> None:
    assert Number(41, partial=True).score(answer, "How many?") == score
    assert Number(41).score(answer, "How many?") == float(score == 1)


def test_numbers_of_the_question_and_dates_are_no_candidates() -> None:
    assert Number(1234.5).score("In 1999 it was 1,234.5 on 2031-03-04", "What was it in 1999?") == 1
    assert Number(1999).score("1999", "What was it in 1999?") == 1
    assert Number(-3).score("−3 degrees", "") == 1
    assert Number(2.33, 0.006).score("2.3333", "") == 1


def test_names_are_compared_as_sets_or_in_their_order() -> None:
    names = r"\b(?:fire|flood|fair)\b"
    assert Names(("flood", "fire"), names).score("['Fire', 'flood']", "") == 1
    assert Names(("flood", "fire"), names).score("fire, flood, fair", "") == 0
    assert Names(("flood", "fire"), names, ordered=True).score("fire, then flood", "") == 0
    assert Names(("flood", "fire"), names, ordered=True).score("flood, fire", "of fire and flood") == 1
    assert one_of("Ada Abel", ("Ada Abel", "Ada Brandt")).score("Ada Abel, not Ada Brandt", "Is it Ada Brandt?") == 1
    assert YesNo(False).score("No, it does not say so.", "") == 1
    assert YesNo(False).score("Yes: none other.", "") == 0


def _run(system: str, task: str, answer: str | None, right: bool) -> Run:
    figures = dict.fromkeys(("iterations", "circle", "requests", "read", "cached", "written"), 1)
    later = dict.fromkeys(("later_read", "later_cached", "uncounted"), 0)
    said = {"expected": "1", "answer": answer, "raised": False, "error": "", "late": False, "own_words": False}
    return Run(system, 1, task, "m", 8, right, **said, **figures, **later, seconds=1.0, score=float(right))  # type: ignore[arg-type]


def test_two_systems_are_compared_in_pairs() -> None:
    one = [_run("one", f"k{i}.fits", "1", right=i < 9) for i in range(12)]
    other = [_run("other", f"k{i}.fits", None if i == 11 else "2", right=i < 1) for i in range(12)]
    said = compared("one", "other", {"one": one, "other": other})
    assert "12 questions: only the first right 8, only the second 0" in said
    assert "p = 0.008" in said
    table = main_table({"one": one, "other": other})
    assert "| wrong, of the answers given | 3 of 12 | 10 of 11 |" in table


def test_the_exact_test_and_the_interval() -> None:
    assert mcnemar([True] * 5 + [False], [False] * 5 + [True]) == pytest.approx(14 / 64)
    assert mcnemar([True, False], [True, False]) == 1.0
    low, high = interval([1.0] * 50 + [0.0] * 50)
    assert 0.38 < low < 0.45 < 0.55 < high < 0.62


_LEFT_OUT = """
import sys
from rlm_jupyter import parsing
from rlm_jupyter.prompts.initial import opening
from rlm_jupyter.prompts.structure import structure
from rlm_jupyter.types.values import ContextInfo
from tests.benchmarks.local_drivers.aids import leave_out

leave_out(sys.argv[1:])
for text in ("city,amount\\n" + "Lima,4\\n" * 90, "The old mill by the river was sold. Nobody knew to whom.\\n" * 90):
    info = ContextInfo("str", "long", structure(text), text[:20])
    print(opening("Which city?", info, max_iterations=8))
print(parsing.parse("```repl\\nprint(1)\\n```\\nOutput:\\n9\\n").read)
"""


@pytest.mark.parametrize(
    ("aid", "gone", "kept"),
    [
        ("form", ["with the columns", "csv.DictReader"], ["SEARCH("]),
        ("code", ["csv.DictReader"], ["with the columns", "SEARCH("]),
        ("search", ["SEARCH("], ["csv.DictReader"]),
        ("reading", ["\n21\n"], ["csv.DictReader", "SEARCH("]),
    ],
)
def test_an_aid_can_be_left_out(aid: str, gone: list[str], kept: list[str]) -> None:
    said, without = (
        subprocess.run(
            [sys.executable, "-c", _LEFT_OUT, *names], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        for names in ([], [aid])
    )
    assert all(words in said for words in [*gone, *kept])
    assert all(words in without for words in kept)
    assert not any(words in without for words in gone)


def test_every_aid_is_where_it_is_looked_for() -> None:
    """In a process of its own, which stays without them."""
    code = "from tests.benchmarks.local_drivers.aids import AIDS, leave_out; leave_out(AIDS); print(len(AIDS))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert told.strip() == str(len(AIDS))


async def test_a_run_tells_which_aids_came_up_and_goes_without_those_left_out(tmp_path: Path) -> None:
    question = KINDS["csv-count"].question(3, "fits")
    replies = ["```repl\nprint(len(context))\n```\nOutput:\n9", f"```repl\nprint(1)\nFINAL({question.answer})\n```"]
    replies += [f"```repl\nFINAL({question.answer})\n```"] * 2
    found = []
    for without in ((), ("questioning", "reading")):
        with LocalServer(replies) as server:
            settings = {"base_url": server.openai_url, "provider": "llamacpp", "model": "coder", "max_iterations": 5}
            settings["options"] = {"without": without}
            run = await make_run("ours", command("ours"), question, 3, settings, tmp_path / "run", 60.0)
        found.append((run.right, run.iterations, sorted(run.aids)))
    assert found == [(True, 3, ["questioning", "reading"]), (True, 2, [])]


def test_every_system_has_its_driver() -> None:
    drivers = {driver.split()[0] for driver, _ in SYSTEMS.values()}
    assert all((ROOT / "tests/benchmarks/local_drivers" / f"{driver}.py").is_file() for driver in drivers)


def _says(code: str) -> str:
    return f"[[ ## reasoning ## ]]\nI look.\n\n[[ ## code ## ]]\n```python\n{code}\n```\n\n[[ ## completed ## ]]"


@pytest.mark.soak
async def test_a_run_of_dspy_is_counted_and_its_answer_graded(tmp_path: Path) -> None:
    """In an environment of its own, which is made when it is not there yet."""
    question = KINDS["csv-count"].question(3, "fits")
    replies = [_says("print(len(context), len(llm_query('?')))"), "ok", _says(f"SUBMIT(answer='{question.answer}')")]
    with LocalServer(replies) as server:
        settings = {"base_url": server.openai_url, "provider": "llamacpp", "model": "coder", "max_iterations": 5}
        run = await make_run("dspy", command("dspy"), question, 3, settings, tmp_path / "run", 60.0)
    assert (run.right, run.raised, run.iterations, run.requests) == (True, False, 2, 3)


def test_the_table_of_what_is_done_needs_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {"seed": 1, "task": chosen("unseen", [1], ["fits"])[0][1].name, "model": "m", "max_iterations": 8}
    told = {"right": True, "expected": "1", "answer": "1", "raised": False, "error": "", "late": False}
    counts = dict.fromkeys(("iterations", "circle", "requests", "read", "cached", "written"), 1)
    more = {"own_words": False, "later_read": 0, "later_cached": 0, "uncounted": 0, "seconds": 1.0, "stop_reason": ""}
    line = json.dumps({"system": "ours", **run, **told, **counts, **more})
    words = ["--table", "--lengths", "fits", "--base-url", "http://127.0.0.1:1/v1", "--output", str(tmp_path)]
    assert main(words) == 2
    assert "has no runs" in capsys.readouterr().err
    (tmp_path / "runs.jsonl").write_text(line + "\n", encoding="utf-8")
    assert main(words) == 0
    assert "| csv-join | 1/1 |" in capsys.readouterr().out
