"""A batch whose items are worked on in other processes: real pools, a real Dask cluster, real ipyparallel engines."""

from __future__ import annotations

import asyncio
import csv
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.batch import heartbeat
from rlm_jupyter.batch.items import Item, RowQuestion
from rlm_jupyter.batch.outcome import BatchResult
from rlm_jupyter.batch.worker import SpentBefore, Task, installed, work
from rlm_jupyter.batch.workers import _pickled
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.journal_lock import is_open
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from tests.runs.test_batches import WORDS, rows
from tests.runs.test_batches import here as here
from tests.support.local_servers import LocalServer
from tests.support.loopback import Fault, Loopback, Said

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
UPPER = "```repl\nFINAL(context.upper())\n```"
TWO = ("```repl\nword = context.upper()\nprint(word)\n```", "```repl\nFINAL(word)\n```")
PRICES = {"openai/any": (1.0, 1.0)}


@contextmanager
def pool() -> Iterator[ProcessPoolExecutor]:
    # as on macOS and Windows: nothing of this process is there
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@contextmanager
def dask() -> Iterator[Executor]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


@contextmanager
def engines() -> Iterator[Executor]:
    ipyparallel: Any = import_module("ipyparallel")

    with ipyparallel.Cluster(n=2, log_level=50) as started:
        yield started.load_balanced_view().executor


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with pool() as executor:
        yield executor


def server_of(*replies: Any, **options: Any) -> Loopback:
    """A server that says what comes next to each conversation, however many there are."""

    def reply(messages: Any) -> Said:
        said = sum(message["role"] == "assistant" for message in messages)
        return Said(replies[min(said, len(replies) - 1)], **options)

    return Loopback([reply])


def ask(server: Loopback, executor: Executor | None, items: Any = WORDS, **options: Any) -> BatchResult:
    limits = options.pop("limits", None)
    rlm = RLM("openai/any", base_url=server.openai_url, prices=PRICES, limits=limits)
    given = {"prompt": "Upper case?", "context": "word", "out": "results.jsonl", "key": "id"} | options
    return rlm.batch(items, executor=executor, **given)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("engine", [pool, dask, engines])
def test_items_are_worked_on_elsewhere_each_once(engine: Any) -> None:
    with server_of(*TWO) as server, engine() as executor:
        result = ask(server, executor)
        assert [row["answer"] for row in rows()] == ["ONE", "TWO", "THREE"]
        assert all(Path(row["path"]).is_file() and row["stop_reason"] == "answered" for row in rows())
        assert len(server.requests) == 6
        assert result.tokens == sum(row["tokens"] for row in rows()) > 0
        assert result.cost == pytest.approx(sum(row["cost"] for row in rows()))
        assert not Path("results.jsonl.batch/host").exists()
        # the same again asks nothing, and what is here and what is there take each other's place
        before = Path("results.jsonl").read_bytes()
        ask(server, executor)
        ask(server, None)
        assert len(server.requests) == 6
        assert Path("results.jsonl").read_bytes() == before


@pytest.mark.parametrize("limit", ["batch_max_cost", "batch_max_tokens"])
def test_the_limits_of_the_whole_are_handed_out_in_shares_and_never_overshot(
    processes: ProcessPoolExecutor, limit: str
) -> None:
    items = [{"id": f"n{number}", "word": f"w{number}"} for number in range(8)]
    unit = 1e-6 if limit == "batch_max_cost" else 1
    limits = Limits(max_output_tokens=500)
    with server_of(*TWO) as server:
        most = 4_300 * unit
        result = ask(server, processes, items, limits=limits, concurrency=2, **{limit: most})
        assert 0 < len(result.rows) < 8
        used = result.cost if limit == "batch_max_cost" else result.tokens
        assert used is not None
        assert used <= most
        assert "limit of the batch is reached" in result.stopped
        assert all(row.error is None for row in result.rows)
        again = ask(server, processes, items, limits=limits, **{limit: 10**6 * unit})
        assert [row.answer for row in again.rows] == [f"W{number}" for number in range(8)]
        # those that were broken off were resumed: nothing was asked twice
        assert len(server.requests) == 16
        assert again.tokens == sum(row.tokens for row in again.rows)


def test_a_share_that_is_too_small_grows(processes: ProcessPoolExecutor) -> None:
    with server_of(UPPER) as server:
        # a sixteenth of this is less than one request may use
        result = ask(server, processes, limits=Limits(max_output_tokens=500), batch_max_tokens=20_000)
        assert [row.answer for row in result.rows] == ["ONE", "TWO", "THREE"]
        assert len(server.requests) == 3


def test_when_the_batch_is_over_its_workers_stop_and_what_they_did_is_resumed(
    processes: ProcessPoolExecutor,
) -> None:
    with server_of(UPPER) as server:
        ask(server, processes, WORDS[:2], out="before.jsonl")  # else its time goes for the start of the workers
    with Loopback([_slow_second]) as server:
        result = ask(server, processes, WORDS[:2], batch_max_seconds=15.0)
        assert "time of the batch is up" in result.stopped
        assert result.rows == []
    journals = [*Path("results.jsonl.batch").glob("*.rlm/journal.jsonl")]
    assert len(journals) == 2
    assert not any(map(is_open, journals))  # nobody is at work on them any more
    with server_of(*TWO) as server:
        again = ask(server, processes, WORDS[:2])
        assert [row.answer for row in again.rows] == ["ONE", "TWO"]
        assert len(server.requests) == 2  # the first replies stand in the records


def _slow_second(messages: Any) -> Said:
    has_one = any(message["role"] == "assistant" for message in messages)
    return Said("too late", delay=60.0) if has_one else Said(TWO[0])


def test_what_a_provider_refuses_to_one_worker_slows_down_all(processes: ProcessPoolExecutor) -> None:
    refused: list[float] = []
    served: list[float] = []

    def reply(messages: Any) -> Said | Fault:
        if not refused:
            refused.append(time.monotonic())
            return Fault.status(429, retry_after=4)
        served.append(time.monotonic())
        said = sum(message["role"] == "assistant" for message in messages)
        return Said(TWO[min(said, 1)], delay=0.1, pieces=8)

    items = [{"id": f"n{number}", "word": f"w{number}"} for number in range(4)]
    with Loopback([reply]) as server:
        result = ask(server, processes, items, concurrency=2)
    assert [row.answer for row in result.rows] == [f"W{number}" for number in range(4)]
    assert len(served) == 8
    # the other worker, which nobody has refused anything, may have begun before it could know
    assert [at for at in served if 1.5 < at - refused[0] < 3.9] == []
    assert not Path("results.jsonl.batch/refusals.jsonl").exists()


def test_a_worker_that_is_killed_ends_the_pool_and_the_same_again_goes_on() -> None:
    with Loopback([_slow_second]) as server, pool() as executor:

        def kill() -> None:
            while len(server.requests) < 3:  # one of the two is at its second
                time.sleep(0.05)
            os.kill(next(iter(executor._processes)), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        result = ask(server, executor, WORDS[:2], concurrency=2)
        assert "the workers have ended (BrokenProcessPool" in result.stopped
        assert result.rows == []
    with server_of(*TWO) as server:
        again = ask(server, None, WORDS[:2])
        assert [row.answer for row in again.rows] == ["ONE", "TWO"]
        # a first reply that was received is not asked for again
        first = [request for request in server.requests if len(request.messages) == 2]
        assert len(first) <= 1


@pytest.mark.soak
@pytest.mark.filterwarnings("default")
def test_a_worker_of_dask_that_is_killed_is_replaced_and_its_items_are_resumed() -> None:
    from distributed import Client, LocalCluster

    with (
        Loopback([_second_waits]) as server,
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def kill() -> None:
            while len(server.requests) < 4:
                time.sleep(0.05)
            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        items = [{"id": f"n{number}", "word": f"w{number}"} for number in range(6)]
        result = ask(server, client.get_executor(), items)
        assert [row.answer for row in result.rows] == [f"W{number}" for number in range(6)]
        assert [row.error for row in result.rows] == [None] * 6
        assert len({row.tokens for row in result.rows}) == 1
        assert result.tokens == sum(row.tokens for row in result.rows)


def _second_waits(messages: Any) -> Said:
    has_one = any(message["role"] == "assistant" for message in messages)
    return Said(TWO[1], delay=1.0) if has_one else Said(TWO[0])


def task_of(model: Any, folder: Path, item: Item | None = None, **options: Any) -> Task:
    return Task(installed(), _pickled(RLM(model, **options).settings), str(folder), item)


async def test_a_task_that_is_done_once_more_asks_nothing(here: Path) -> None:
    folder = here / "results.jsonl.batch"
    folder.mkdir()
    [item] = RowQuestion("Upper case?", "word", "id").items(WORDS[:1])
    Path("script.json").write_text(json.dumps([UPPER]))
    task = task_of("scripted/script.json", folder, item)
    async with heartbeat.beating(folder):
        first = await _in_thread(task)
        # as a scheduler does it that has lost the result
        second = await _in_thread(task)
    assert first.row is not None
    assert first.row.answer == "ONE"
    assert (second.row, second.tokens) == (first.row, first.tokens)
    assert len(list(folder.glob("*.ipynb"))) == 1


async def _in_thread(task: Task) -> Any:
    return await asyncio.to_thread(work, task)


async def test_a_worker_that_can_not_do_it_says_why(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-here")
    task = task_of("openai/gpt-5-mini", here)
    assert b"sk-here" not in task.settings
    assert f"{here} is not to be seen there" in work(task).unusable
    async with heartbeat.beating(here):
        assert work(task).unusable == ""
        other = work(replace(task, version="0.0.1")).unusable
        assert other.startswith("rlm_jupyter 0.0.1 hands it out, ")
        assert "install one version everywhere" in other
        monkeypatch.delenv("OPENAI_API_KEY")
        # of another configuration: those that are known keep their keys
        keyless = replace(task, settings=task.settings.replace(b"gpt-5-mini", b"gpt-5-nano"))
        assert "no key for OpenAI" in work(keyless).unusable
        assert "can't be read there" in work(replace(task, settings=b"nonsense")).unusable


def test_what_can_not_be_handed_out_is_said_before_anything_is_spent(processes: ProcessPoolExecutor) -> None:
    items: Any = {"prompt": "?", "context": "word", "out": "results.jsonl"}
    with server_of(UPPER) as server, LocalServer(kind="vllm") as own:
        for rlm, executor, said in (
            (RLM("openai/any", base_url=server.openai_url), 3, "executor is a concurrent.futures.Executor"),
            (
                RLM("openai/any", base_url=server.openai_url, api_key="sk-secret"),
                processes,
                r"holds a key that was handed over \(api_key\)",
            ),
            (RLM(ScriptedModel([lambda _: UPPER, threading.Lock()])), processes, "can't be handed to workers"),  # type: ignore[list-item]
            (
                RLM("vllm/nothere", base_url=own.url),
                processes,
                r"^A worker can't do this batch: vllm/nothere: vLLM at \S+ serves coder, not that model\.$",
            ),
        ):
            with pytest.raises(ConfigurationError, match=said) as caught:
                rlm.batch(WORDS, executor=executor, **items)  # type: ignore[arg-type]
            assert "sk-secret" not in str(caught.value)
            assert "\n" not in str(caught.value)
        assert server.requests == own.requests == []
    assert list(Path().iterdir()) == []


def test_what_an_attempt_since_has_left() -> None:
    def found(path: str, tokens: int, cost: float | None) -> Any:
        return SimpleNamespace(path=Path(path), tokens=tokens, cost=cost)

    assert SpentBefore().since(None) == (0, 0.0)
    before = SpentBefore("a.ipynb", 30, 0.5, 2)
    assert before.since(found("a.ipynb", 30, 0.5)) == (0, 0.0)
    assert before.since(found("a.ipynb", 50, 0.75)) == (20, 0.25)
    assert before.since(found("a-2.ipynb", 10, 0.25)) == (10, 0.25)  # begun anew
    assert before.since(found("a.ipynb", 50, None)) == (20, None)


@pytest.mark.filterwarnings("default")
def test_the_example_of_the_docs_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("reviews.csv").write_text("text\nsoup\nshoes\n")
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    Path("example.py").write_text(code)
    with server_of("```repl\nFINAL('yes' if context == 'soup' else 'no')\n```") as server:
        environment = os.environ | {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = subprocess.run(
            [sys.executable, "example.py"], env=environment, text=True, check=False, capture_output=True
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 of 2 answered")
    with Path("results.csv").open() as file:
        assert [row["answer"] for row in csv.DictReader(file)] == ["yes", "no"]
