"""One question about many items: real kernels, one file of results, one set of limits."""

from __future__ import annotations

import asyncio
import csv
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import psutil
import pytest

from rlm_jupyter import RLM, Judge, Limits
from rlm_jupyter.batch.items import RowQuestion
from rlm_jupyter.batch.outcome import BatchResult
from rlm_jupyter.batch.scoring import Scoring, wilson
from rlm_jupyter.frontends.cli.main import main
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.journal_lock import lock
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.values import Message
from tests.runs.test_magics import execute
from tests.support.local_servers import LocalServer, nobody
from tests.support.loopback import Fault, Loopback, Said

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "batches.md").read_text()
UPPER = "```repl\nFINAL(context.upper())\n```"
WORDS = [{"id": f"n{number}", "word": word} for number, word in enumerate(("one", "two", "three"))]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scripted(*replies: Any, times: int = 20, latency: float = 0.0) -> ScriptedModel:
    return ScriptedModel([*(replies or (UPPER,))] * times, latency=latency)


def ask(model: Any, items: Any = WORDS, **options: Any) -> BatchResult:
    limits = options.pop("limits", None)
    given = {"prompt": "Upper case?", "context": "word", "out": "results.jsonl", "key": "id"} | options
    return RLM(model, limits=limits).batch(items, **given)


def rows(path: str = "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_each_item_is_a_run_with_a_notebook_and_a_row() -> None:
    model = scripted()
    result = ask(model)
    assert [row["answer"] for row in rows()] == ["ONE", "TWO", "THREE"]
    assert [row["key"] for row in rows()] == ["n0", "n1", "n2"]
    assert all(Path(row["path"]).is_file() and row["stop_reason"] == "answered" for row in rows())
    assert result.tokens == sum(row["tokens"] for row in rows()) > 0
    assert not Path("results.jsonl.batch/unfinished").exists()
    assert str(result).startswith("3 of 3 answered")


def test_the_same_again_asks_nothing_and_more_items_only_what_is_missing() -> None:
    ask(scripted())
    before = Path("results.jsonl").read_bytes()
    none = ScriptedModel([])
    ask(none)
    assert none.requests == []
    assert Path("results.jsonl").read_bytes() == before
    more = scripted()
    ask(more, [{"id": "first", "word": "zero"}, *WORDS])
    assert len(more.requests) == 1
    assert [row["answer"] for row in rows()] == ["ZERO", "ONE", "TWO", "THREE"]


def test_results_that_were_lost_come_back_from_the_record() -> None:
    ask(scripted())
    Path("results.jsonl").unlink()
    assert [row.answer for row in ask(ScriptedModel([])).rows] == ["ONE", "TWO", "THREE"]
    assert len(rows()) == 3


def test_a_bad_row_is_a_row_and_not_the_end() -> None:
    Path("items.jsonl").write_text(
        '{"id": "a", "word": "one"}\nno JSON\n{"id": "c"}\n[1]\n{"id": "e", "word": "two"}\n'
    )
    result = ask(scripted(), "items.jsonl", key=None)
    assert [row.answer for row in result.rows] == ["ONE", None, None, None, "TWO"]
    assert "line 2 of items.jsonl is no JSON" in str(result.rows[1].error)
    assert result.rows[2].error == "nothing stands in its column 'word'"
    assert len(result.failed) == 3


def test_what_failed_is_retried_where_that_is_asked_for_and_goes_on_from_its_record() -> None:
    first: list[Any] = ["```repl\nword = context.upper()\n```", ModelError("down")]
    failed = ask(ScriptedModel(first), WORDS[:1])
    assert "down" in str(failed.rows[0].error)
    assert ask(ScriptedModel([]), WORDS[:1]).failed  # it has its row
    again = ScriptedModel(["```repl\nFINAL(word)\n```"])
    result = ask(again, WORDS[:1], retry="failed")
    assert [row.answer for row in result.rows] == ["ONE"]
    assert len(again.requests) == 1
    assert len(list(Path("results.jsonl.batch").glob("*.ipynb"))) == 1
    assert result.tokens == result.rows[0].tokens > failed.rows[0].tokens


def test_a_model_that_fails_every_item_stops_the_batch() -> None:
    items = [f"w{number}" for number in range(30)]
    result = ask(ScriptedModel([]), items, context="text", key=None, concurrency=2)
    assert 10 <= len(result.rows) <= 12
    assert "10 items in a row failed" in result.stopped
    again = ask(scripted(times=30), items, context="text", key=None, retry="failed")
    assert [row.answer for row in again.rows] == [word.upper() for word in items]


def test_a_key_that_is_refused_stops_the_batch_at_once_and_the_same_call_goes_on() -> None:
    items = [f"w{number}" for number in range(30)]
    with Loopback([Fault.status(401, "bad key"), *[UPPER] * 30]) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k")
        stopped = ask(model, items, context="text", key=None, concurrency=1)
        assert "refused the key (401)" in stopped.stopped
        assert (stopped.rows, len(server.requests)) == ([], 1)
        result = ask(model, items, context="text", key=None)
    assert [row.answer for row in result.rows] == [word.upper() for word in items]
    assert not result.stopped


def own(server: LocalServer, name: str = "coder", **options: Any) -> RLM:
    return RLM(f"{server.kind}/{name}", base_url=server.url, **options)


BATCH: dict[str, Any] = {"prompt": "Upper case?", "context": "word", "out": "results.jsonl", "expected": "word"}


@pytest.mark.parametrize("wrong", ["model", "sub_model", "judge", "server", "judge_server"])
def test_a_model_that_is_not_there_is_said_before_the_first_row_and_holds_no_name(wrong: str) -> None:
    with LocalServer([UPPER], kind="vllm") as server, nobody() as address:
        sub = "vllm/nothere" if wrong == "sub_model" else None
        rlm = own(server, "nothere" if wrong == "model" else "coder", sub_model=sub)
        if wrong == "server":
            rlm = RLM("vllm/coder", base_url=address)
        url = address if wrong == "judge_server" else server.url
        judge = Judge(f"vllm/{'nothere' if wrong == 'judge' else 'coder'}", base_url=url)
        score: Any = judge if "judge" in wrong else "exact"
        said = f"no connection to {address}" if "server" in wrong else "serves coder, not that model."
        told: list[Any] = []
        with pytest.raises(ConfigurationError, match=said) as error:
            rlm.batch(WORDS, score=score, **BATCH, on_progress=told.append)
        assert "\n" not in str(error.value)
        assert (server.requests, told, list(Path().iterdir())) == ([], [], [])
        assert not own(server).batch(WORDS, **BATCH).failed


def test_what_is_done_needs_no_server_and_what_is_missing_waits_for_one_that_loads() -> None:
    with LocalServer([UPPER]) as server:
        done = own(server).batch(WORDS[:2], **BATCH)
    assert own(server).batch(WORDS[:2], **BATCH).rows == done.rows
    assert own(server).batch([*WORDS[:2], {"word": None}], **BATCH).failed[0].error
    before = Path("results.jsonl").read_bytes()
    with pytest.raises(ConfigurationError, match="no connection to"):
        own(server).batch(WORDS, **BATCH)
    assert Path("results.jsonl").read_bytes() == before
    with LocalServer([UPPER], loading=0.5) as server:
        assert [row.answer for row in own(server).batch(WORDS, **BATCH).rows] == ["ONE", "TWO", "THREE"]


@pytest.mark.parametrize("wrong", [["--judge-model", "vllm/nothere"], ["-m", "vllm/nothere"]])
def test_on_the_command_line_a_model_that_is_not_there_is_a_wrong_option(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    items_file()
    with LocalServer(kind="vllm") as server:
        options = ["-m", "vllm/coder", "--base-url", server.url, "--expected", "word", "--score", "judge"]
        assert main([*command(*options, "--judge-model", "vllm/coder", *wrong)[3:]]) == 2
        said = f"vllm/nothere: vLLM at {server.openai_url} serves coder, not that model."
        assert capsys.readouterr().err == f"jupyter rlm: {said}\n"
        assert server.requests == []
    assert [path.name for path in Path().iterdir()] == ["items.jsonl"]


def test_where_no_kernel_starts_the_batch_stops_and_nothing_is_asked() -> None:
    model = scripted(times=30)
    rlm = RLM(model, kernel="http://127.0.0.1:9/", token="t")  # nobody listens there
    items = [f"w{number}" for number in range(30)]
    result = rlm.batch(items, prompt="?", context="text", out="results.jsonl", concurrency=2)
    assert 10 <= len(result.rows) <= 12
    assert "10 items in a row failed: The Jupyter server at http://127.0.0.1:9 can't be reached" in result.stopped
    assert not model.requests


def test_a_line_of_the_journal_that_was_torn_off_is_left_out() -> None:
    ask(scripted())
    journal = Path("results.jsonl.batch/journal.jsonl")
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if b'"item"' in line)
    journal.write_bytes(b"".join(lines[:last]) + lines[last][:20])
    Path("results.jsonl").unlink()
    none = ScriptedModel([])
    assert [row.answer for row in ask(none).rows] == ["ONE", "TWO", "THREE"]  # the last from its run's record
    assert none.requests == []


def test_two_at_work_on_one_batch_are_one_too_many() -> None:
    ask(scripted())
    with Path("results.jsonl.batch/journal.jsonl").open("a+b", buffering=0) as file:
        assert lock(file)
        with pytest.raises(ConfigurationError, match="Another process is at work on this batch"):
            ask(scripted())


def test_an_item_that_met_its_limit_is_begun_anew_or_goes_on_where_it_was_raised() -> None:
    wrong, right = "```repl\nFINAL('a text')\n```", "```repl\nFINAL(3)\n```"
    strict = {"answer": int, "limits": Limits(max_answer_errors=0)}
    first = ask(ScriptedModel([wrong] * 3), **strict)
    assert [row.stop_reason for row in first.failed] == ["answer_invalid"] * 3
    anew = ask(ScriptedModel([right, wrong, wrong]), **strict, retry="failed", concurrency=1)
    assert anew.rows[0].answer == 3
    assert str(anew.rows[0].path).endswith("-2.ipynb")
    assert anew.tokens > sum(row.tokens for row in anew.rows)  # the runs before are on the bill, too
    raised = ask(ScriptedModel([right] * 2), answer=int, limits=Limits(max_answer_errors=2), retry="failed")
    assert [row.answer for row in raised.rows] == [3, 3, 3]
    assert raised.rows[1].path == anew.rows[1].path


@dataclass
class Priced:
    """A model with a price, that bills all that it may use."""

    model: ScriptedModel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def cost(self, usage: Any) -> float:
        return float(usage.input_tokens + usage.output_tokens) / 1_000_000


@pytest.mark.parametrize("limit", ["batch_max_cost", "batch_max_tokens"])
def test_the_batch_is_held_to_its_limits_and_goes_on_with_more(limit: str) -> None:
    items = [{"id": str(number), "word": f"w{number}"} for number in range(8)]
    limits = Limits(max_output_tokens=1_000)
    model, unit = Priced(scripted()), 1e-6 if limit == "batch_max_cost" else 1
    most = 6_000 * unit
    result = ask(model, items, **{limit: most}, limits=limits)
    assert 0 < len(result.rows) < 8
    assert (result.cost if limit == "batch_max_cost" else result.tokens) <= most  # type: ignore[operator]
    assert "limit of the batch is reached" in result.stopped
    assert all(row.error is None for row in result.rows)
    again = ask(model, items, **{limit: 100_000 * unit}, limits=limits)
    assert [row.answer for row in again.rows] == [f"W{number}" for number in range(8)]
    assert len(model.model.requests) == 8
    assert again.tokens == sum(row.tokens for row in again.rows)


def test_the_time_of_the_batch_ends_it_and_the_runs_are_resumed() -> None:
    slow = ScriptedModel(["```repl\nword = context.upper()\n```"] * 3 + [UPPER] * 3, latency=0.1)
    held = [slow]

    class Waits(Priced):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Any:
            if len(messages) > 2:
                await asyncio.sleep(60)
            return await held[0].complete(messages, **options)

    result = ask(Waits(slow), batch_max_seconds=15)
    assert result.rows == []
    assert "the time of the batch is up" in result.stopped
    again = ScriptedModel(["```repl\nFINAL(word)\n```"] * 3)
    assert [row.answer for row in ask(again).rows] == ["ONE", "TWO", "THREE"]
    assert len(again.requests) == 3


def test_an_item_whose_context_was_not_kept_before_its_host_was_killed_is_begun_anew() -> None:
    stopped = ScriptedModel(["```repl\nword = context.upper()\n```"], latency=0.1)

    class Waits(Priced):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Any:
            if len(messages) > 2:
                await asyncio.sleep(60)
            return await self.model.complete(messages, **options)

    word = [{"id": "1", "word": "one"}]
    assert ask(Waits(stopped), word, batch_max_seconds=15).rows == []
    [kept] = [each for each in Path("results.jsonl.batch").glob("*.rlm/objects/*") if each.read_bytes() == b"one"]
    for notebook in Path("results.jsonl.batch").glob("*.ipynb"):
        notebook.unlink()  # a small one is there, too
    kept.unlink()
    result = ask(scripted(), word)
    assert [(row.answer, row.error) for row in result.rows] == [("ONE", None)]
    assert str(result.rows[0].path).endswith("-2.ipynb")
    assert result.tokens > result.rows[0].tokens  # what was spent before is on the bill


def test_results_of_another_batch_or_of_nobody_are_left_alone() -> None:
    ask(scripted())
    before = Path("results.jsonl").read_bytes()
    with pytest.raises(ConfigurationError, match="has the runs of another batch"):
        ask(scripted(), prompt="Lower case?")
    Path("results.jsonl").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not what this batch has written"):
        ask(scripted())
    assert Path("results.jsonl").read_text() == "mine"
    Path("results.jsonl").write_bytes(before)
    ask(ScriptedModel([]))
    Path("other.jsonl").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not what this batch has written"):
        ask(scripted(), out="other.jsonl")
    assert Path("other.jsonl").read_text() == "mine"


def test_a_long_prompt_that_differs_where_it_is_not_shown_is_another() -> None:
    first, other = (RowQuestion(f"{'a' * 200}{letter}{'a' * 200}", "word", None) for letter in "bc")
    settings = RLM(scripted()).settings
    assert first.asked(settings).unlike(other.asked(settings)) == "another prompt"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": None}, "key: 'id' there, none here"),
        ({"key": None, "context": "id"}, "context: 'word' there, 'id' here; key: 'id' there, none here"),
        ({"prompt": "Lower case?"}, "prompt: 'Upper case?' there, 'Lower case?' here"),
        ({"model": ScriptedModel([], name="other")}, "models: 'scripted/replies' there, 'other' here"),
        ({"answer": int}, "answers of another type"),
        ({"strategy": "auto"}, "another option"),
    ],
)
def test_wherein_another_batch_differs_is_said(options: dict[str, Any], said: str) -> None:
    ask(scripted())
    given = {"prompt": "Upper case?", "context": "word", "out": "results.jsonl", "key": "id"} | options
    rlm = RLM(given.pop("model", scripted()), strategy=given.pop("strategy", "loop"))
    with pytest.raises(ConfigurationError) as error:
        rlm.batch(WORDS, **given)
    folder = Path("results.jsonl.batch").absolute()
    assert str(error.value) == (
        f"{folder} has the runs of another batch ({said}): ask the same, or name other results."
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt": "Who is {nobody}?"}, "No row has a column 'nobody'; the columns are: 'id', 'word'."),
        ({"items": [{"word ": "a"}]}, "No row has a column 'word'; the columns are: 'word '."),
        (
            {"context": None},
            "Each row would be asked the same: name a column in the prompt, as {id}, or by context; the columns are: "
            "'id', 'word'.",
        ),
        ({"context": "{{word}}"}, "Each row would be asked the same"),
        ({"items": ["one", "two"], "context": None, "key": None}, "as {text}, or by context; the columns are: 'text'."),
        ({"context": "{nobody}"}, "No row has a column 'nobody'"),
        ({"key": "nobody"}, "No row has a column 'nobody'"),
        ({"expected": "nobody"}, "No row has a column 'nobody'"),
        ({"prompt": "{word"}, "can't be read"),
        ({"prompt": "{word!r}"}, "the name of a column"),
        ({"prompt": " "}, "The question is missing"),
        (
            {"prompt": None},
            "The question is missing: prompt is a text with names of columns, as 'Who is {name}?', not None",
        ),
        ({"context": Path("a.txt")}, "context is the name of a column, a text, not PosixPath('a.txt')"),
        ({"key": 1}, "key is the name of a column, a text, not 1"),
        ({"out": None}, "out is the path of the file of results, not None"),
        ({"items": []}, "There are no items"),
        ({"items": "none.jsonl"}, "none.jsonl can't be read: No such file"),
        (
            {"items": "none.txt"},
            "none.txt is no file of items: its name ends in .jsonl, .ndjson, .csv, .tsv (also with ",
        ),
        ({"items": [1]}, "Item 0 is neither a dict nor a text"),
        ({"items": [*WORDS, WORDS[0]]}, "Two rows have 'n0' in their column 'id'"),
        ({"out": "results.txt"}, "ends in .jsonl, .csv, .parquet"),
        ({"out": "no/where/results.jsonl"}, "There is no folder"),
        ({"retry": "all"}, "retry is 'failed' or nothing"),
        ({"concurrency": "4"}, "concurrency is a whole number from 1 on, not '4'"),
        ({"concurrency": 0}, "concurrency is a whole number from 1 on"),
        ({"expected": "word", "score": "nearly"}, "score is exact, number, set"),
        ({"score": "number"}, "A score compares answers with what is expected: name its column by expected."),
        ({"batch_max_cost": -1.0}, "batch_max_cost=-1: it must be more than zero."),
        ({"batch_max_tokens": 0}, "batch_max_tokens=0: it must be more than zero."),
        ({"batch_max_seconds": "1"}, "batch_max_seconds='1': a number is needed."),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(options: dict[str, Any], said: str) -> None:
    model = scripted()
    with pytest.raises(ConfigurationError) as error:
        ask(model, **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert model.requests == []
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_typed_answers_are_columns(suffix: str) -> None:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "size": {"type": "integer"}, "parts": {"type": "array"}},
        "required": ["text", "size"],
    }
    reply = "```repl\nFINAL({'text': context, 'size': len(context), 'parts': list(context)})\n```"
    bad = {"id": "bad", "word": None}
    ask(scripted(reply), pd.DataFrame([*WORDS, bad]), answer=schema, out=f"results.{suffix}")
    if suffix == "csv":
        with Path("results.csv").open(newline="") as file:
            found: list[dict[str, Any]] = list(csv.DictReader(file))
        assert [row["answer.size"] for row in found] == ["3", "3", "5", ""]
        assert json.loads(found[0]["answer.parts"]) == ["o", "n", "e"]
    else:
        found = pl.read_parquet("results.parquet").to_dicts()
        assert [row["answer.size"] for row in found] == [3, 3, 5, None]
        assert found[0]["answer.parts"] == ["o", "n", "e"]
        assert ask(scripted(), "results.parquet", context="answer.text", out="more.jsonl", key="key").rows[0].answer
    assert [row["answer.text"] or None for row in found] == ["one", "two", "three", None]
    assert "nothing stands in its column 'word'" in found[3]["error"]


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WRONG, RIGHT = "```repl\nFINAL({'n': 'x'})\n```", "```repl\nFINAL({'n': len(context)})\n```"


@pytest.mark.parametrize(
    ("limits", "replies", "ending", "why"),
    [
        (Limits(max_iterations=2), [WRONG, "```repl\nx = 1\n```"], "iterations", "iteration limit reached"),
        (Limits(max_answer_errors=20), [WRONG] * 6, "no_progress", "the model repeated itself"),
    ],
)
def test_an_answer_so_far_of_another_type_is_none_and_retried(
    limits: Limits, replies: list[str], ending: str, why: str
) -> None:
    [row] = ask(ScriptedModel(replies), WORDS[:1], answer=NUMBER, limits=limits, expected="word").rows
    assert (row.stop_reason, row.answer, row.draft, row.score) == (ending, None, {"n": "x"}, 0.0)
    error = str(row.error)
    assert error.startswith(why)
    assert "answer so far is not of the type that was asked for (n: " in error
    assert "\n" not in error
    assert ask(ScriptedModel([]), WORDS[:1], answer=NUMBER, limits=limits).failed
    journal = Path("results.jsonl.batch/journal.jsonl")
    kept = [line for line in journal.read_text().splitlines(keepends=True) if '"item"' not in line]
    journal.write_text("".join(kept))  # as if it was killed before the row was written down
    assert ask(ScriptedModel([]), WORDS[:1], answer=NUMBER, limits=limits).failed[0].error == error
    again = ask(ScriptedModel([RIGHT]), WORDS[:1], answer=NUMBER, limits=limits, retry="failed")
    assert [(row.answer, row.error) for row in again.rows] == [({"n": 3}, None)]
    assert "draft" not in rows()[0]


def test_an_answer_so_far_of_the_type_is_one() -> None:
    draft = "```repl\nanswer['content'] = '{\"n\": 3}'\n```"
    [row] = ask(ScriptedModel([draft]), WORDS[:1], answer=NUMBER, limits=Limits(max_iterations=1)).rows
    assert (row.stop_reason, row.answer, row.error) == ("iterations", {"n": 3}, None)


def test_on_the_command_line_an_answer_of_another_type_fails() -> None:
    items_file()
    Path("script.json").write_text(json.dumps([WRONG] * 3))
    Path("schema.json").write_text(json.dumps(NUMBER))
    options = ("-m", "scripted/script.json", "--schema", "schema.json", "--max-iterations", "1")
    done = subprocess.run(command(*options), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("0 of 3 answered · 3 failed")


def test_a_text_that_names_a_file_is_a_text() -> None:
    Path("one").write_text("from a file")
    items = [{"id": "a", "word": "one"}, {"id": "b", "word": "o*"}]
    assert [row.answer for row in ask(scripted(), items).rows] == ["ONE", "O*"]
    assert (
        ask(scripted(), [{"id": "c", "word": " "}], out="blank.jsonl").rows[0].error
        == "nothing stands in its column 'word'"
    )


def test_items_come_from_frames_files_and_iterators() -> None:
    Path("items.csv").write_text("id,word\na,one\nb,two\nc,\n")
    pl.DataFrame(WORDS).write_parquet("items.parquet")
    assert [row.answer for row in ask(scripted(), "items.csv", out="1.csv").rows] == ["ONE", "TWO", None]
    assert [row.answer for row in ask(scripted(), Path("items.parquet"), out="2.csv").rows] == ["ONE", "TWO", "THREE"]
    assert [row.answer for row in ask(scripted(), pl.DataFrame(WORDS), out="3.csv").rows] == ["ONE", "TWO", "THREE"]
    texts = ask(scripted(), (word for word in ("a", "a", "b")), context="text", out="4.csv", key=None).rows
    assert [row.answer for row in texts] == ["A", "A", "B"]
    assert len({row.key for row in texts}) == 3


def test_a_context_may_be_a_file_that_a_column_names() -> None:
    Path("a.txt").write_text("from a file")
    items = [{"file": "a.txt"}, {"file": "none.txt"}]
    result = ask(scripted(), items, context="@file", key=None)
    assert result.rows[0].answer == "FROM A FILE"
    assert "none.txt" in str(result.rows[1].error)


def test_answers_are_scored_and_again_for_nothing() -> None:
    items: list[dict[str, Any]] = [*WORDS, {"id": "n3", "word": None}]
    ask(scripted(), items)
    none = ScriptedModel([])
    result = ask(none, [item | {"right": right} for item, right in zip(items, ("one", "TWO.", "four", "x"), strict=True)],
                 expected="right")  # fmt: skip
    assert none.requests == []
    assert [(row["score"], row["scored_by"]) for row in rows()] == [(score, "exact") for score in (1.0, 1.0, 0.0, 0.0)]
    assert result.accuracy is not None
    assert (result.accuracy.share, result.accuracy.total) == (0.5, 4)
    assert "accuracy 50.0% of 4 (95 % interval 15.0% to 85.0%)" in str(result)


@pytest.mark.parametrize(
    ("score", "answer", "expected", "is_right"),
    [
        ("exact", " Yes. ", "yes", 1),
        ("exact", "yes and no", "yes", 0),
        ("number", "1,204.0", 1204, 1),
        ("number", "about", 1204, 0),
        ("set", ["b", "a"], "a, b", 1),
        ("set", '["a", "c"]', ["a", "b"], 0),
        (lambda answer, expected: 0.5, "x", "y", 0.5),
    ],
)
def test_the_ways_to_compare(score: Any, answer: Any, expected: Any, is_right: float) -> None:
    assert Scoring("column", score).score(answer, {"column": expected}) == is_right


def test_the_interval_is_that_of_wilson() -> None:
    # Agresti and Coull (1998), and by hand: 0 of 10, 15 of 20
    assert wilson(0, 10) == pytest.approx((0.0, 0.27754), abs=1e-4)
    assert wilson(15, 20) == pytest.approx((0.53130, 0.88814), abs=1e-4)
    assert not any(math.isnan(bound) for bound in wilson(0, 0))


def test_items_wait_for_the_model_at_the_same_time() -> None:
    with Loopback([Said(UPPER, delay=0.3)]) as server:
        rlm = RLM("openai/any", base_url=server.openai_url, api_key="k")
        rlm.batch([f"w{number}" for number in range(6)], prompt="?", context="text", out="r.jsonl", concurrency=6)
        assert server.most_at_once > 1


async def test_cancelling_ends_the_runs_and_no_kernel_is_left() -> None:
    model = scripted(latency=30.0)
    running = asyncio.create_task(
        RLM(model).abatch(WORDS, prompt="?", context="word", out="results.jsonl", concurrency=3)
    )
    while len(model.requests) < 3:
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rows() == []
    again = await RLM(scripted()).abatch(WORDS, prompt="?", context="word", out="results.jsonl")
    assert [row.answer for row in again.rows] == ["ONE", "TWO", "THREE"]


async def test_a_cell_in_which_the_batch_ended_is_executed_again() -> None:
    model = scripted("```repl\nimport time\nprint('begun')\ntime.sleep(4)\nword = context.upper()\n```")
    running = asyncio.create_task(
        RLM(model).abatch(WORDS[:1], prompt="?", context="word", out="results.jsonl", on_progress=lambda _: None)
    )
    while not [*Path().glob("results.jsonl.batch/*.rlm/journal.jsonl")] or len(model.requests) < 1:
        await asyncio.sleep(0.05)
    await asyncio.sleep(2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [journal] = Path().glob("results.jsonl.batch/*.rlm/journal.jsonl")
    assert '"status": "interrupted"' in journal.read_text()
    # nobody has stopped the run for this cell: what it sets is there again
    result = await RLM(scripted("```repl\nFINAL(word)\n```")).abatch(
        WORDS[:1], prompt="?", context="word", out="results.jsonl"
    )
    assert [row.answer for row in result.rows] == ["ONE"]


def command(*more: str) -> list[str]:
    items = [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", "batch", "items.jsonl", "--prompt", "Upper?"]
    return [*items, "--context", "word", "--out", "results.jsonl", "--key", "id", *more]


def items_file() -> None:
    Path("items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in WORDS))


def test_on_the_command_line(tmp_path: Path) -> None:
    items_file()
    Path("script.json").write_text(json.dumps([UPPER] * 3))
    done = subprocess.run(
        command("-m", "scripted/script.json", "--expected", "word"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 of 3 answered")
    assert "accuracy 100.0% of 3" in done.stdout
    assert "Results: results.jsonl" in done.stderr
    wrong = subprocess.run(command("--context", "none"), capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "No row has a column 'none'" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--score", "exact"], "--score compares answers with what is expected: name its column by --expected."),
        (["--batch-max-cost", "0"], "--batch-max-cost 0: it must be more than zero."),
        (["--batch-max-tokens", "0"], "--batch-max-tokens 0: it must be more than zero."),
        (["--batch-max-seconds", "-1"], "--batch-max-seconds -1: it must be more than zero."),
        (
            ["--context", "{{word}}"],
            "Each row would be asked the same: name a column in the prompt, as {id}, or by --context; the columns are: "
            "'id', 'word'.",
        ),
    ],
)
def test_options_are_refused_by_their_own_names(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    items_file()
    Path("script.json").write_text(json.dumps([UPPER] * 3))
    assert main([*command("-m", "scripted/script.json")[3:], *options]) == 2
    assert capsys.readouterr().err == f"jupyter rlm: {said}\n"
    assert not Path("results.jsonl.batch").exists()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_it_cleanly_twice_too(times: int) -> None:
    items_file()
    with Loopback([Said(UPPER, delay=20.0)]) as server:
        environment = os.environ | {"OPENAI_API_KEY": "k"}
        process = subprocess.Popen(
            command("-m", "openai/any", "--base-url", server.openai_url),
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        while len(server.requests) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        kernels = psutil.Process(process.pid).children(recursive=True)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in said
        assert "The same command goes on from here" in said
        assert psutil.wait_procs(kernels, timeout=10)[1] == []
    with Loopback([UPPER]) as server:
        again = subprocess.run(
            command("-m", "openai/any", "--base-url", server.openai_url), check=False, env=environment, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
    assert again.returncode == 0
    assert [row["answer"] for row in rows()] == ["ONE", "TWO", "THREE"]


def test_in_a_notebook_a_table_fills() -> None:
    script = json.dumps(["```repl\nFINAL('<script>alert(1)</script>' + context)\n```"] * 3)
    Path("script.json").write_text(script)
    _, cell = execute(
        "%load_ext rlm_jupyter",
        "from rlm_jupyter import RLM\n"
        "RLM('scripted/script.json').batch(['a', 'b', 'c'], prompt='?', context='text', out='r.jsonl').path.name",
    )
    shown = [output for output in cell.outputs if output.output_type == "display_data"]
    assert len(shown) == 1  # updated in place
    page = shown[0]["data"]["text/html"]
    assert "3 of 3 done" in page
    assert page.count("<tr>") == 4
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert cell.outputs[-1]["data"]["text/plain"] == "'r.jsonl'"


# --- the docs -------------------------------------------------------------------------------------------------


def test_the_commands_and_the_code_of_the_docs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("reviews.csv").write_text("text\nsoup\nshoes\n")
    Path("questions.jsonl").write_text('{"question": "How long?", "text": "soup", "right": 4}\n')
    with Loopback(["```repl\nFINAL(len(context))\n```"]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("RLM_MODEL", "openai/gpt-5.4-mini")
        shown = []
        for line in re.findall(r"^jupyter rlm (batch (?:(?!--judge).)*)$", PAGE, re.M):
            words = [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", *shlex.split(line)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            shown.append(done.stdout)
        assert len(shown) == 3
        assert shown[1].startswith("2 of 2 answered")
        assert "accuracy 100.0% of 1" in shown[2]
        assert len(server.requests) == 3  # the same again asked nothing
        names: dict[str, Any] = {}
        code = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)[0].replace('"results.csv"', '"again.csv"')
        exec(compile(code, "example", "exec", dont_inherit=True), names)
        assert [row.answer for row in names["result"].rows] == [4, 5]
        assert list(names["result"].frame()["answer"]) == [4, 5]
