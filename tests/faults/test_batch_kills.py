"""A host or a worker is killed at random moments: each item of the batch is once in the results.

A thousand items and twenty kills are started by hand: `pytest -m soak -s tests/faults/test_batch_kills.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.support.loopback import Loopback, Said

pytestmark = pytest.mark.slow

CONCURRENCY = 16
LOOK, DONE = "```repl\nword = context.upper()\nprint(word)\n```", "```repl\nturn = {said}\nFINAL(context.upper())\n```"
MARK = "RLM_TEST_BATCH_KILLS"
"""In the environment of all processes of a test."""
HOST = """
import sys
from contextlib import nullcontext

from rlm_jupyter import RLM, Limits


def engine(name):
    if name == "pool":
        from concurrent.futures import ProcessPoolExecutor

        return ProcessPoolExecutor(4)
    if name == "dask":
        from distributed import Client, LocalCluster

        return Client(LocalCluster(n_workers=2, threads_per_worker=4, dashboard_address=None)).get_executor()
    if name == "ipyparallel":
        import ipyparallel

        return ipyparallel.Cluster(n=4, log_level=50).start_and_connect_sync().load_balanced_view().executor
    return None


if __name__ == "__main__":
    name, url, count, concurrency, most = sys.argv[1:]
    rlm = RLM("openai/any", base_url=url, prices={"openai/any": (1.0, 1.0)}, limits=Limits(max_output_tokens=500))
    result = rlm.batch(
        [{"id": f"n{number}", "word": f"w{number}"} for number in range(int(count))],
        prompt="Upper case?",
        context="word",
        key="id",
        out="results.jsonl",
        concurrency=int(concurrency),
        executor=engine(name),
        batch_max_cost=float(most),
    )
    print(result.cost, result.stopped)
    sys.stdout.flush()
    __import__("os")._exit(0)  # an engine that has lost a worker may wait for it
"""


def reply(messages: list[dict[str, str]]) -> Said:
    said = sum(message["role"] == "assistant" for message in messages)
    # each time another cell: where the kernel is killed in it, the same again would be taken for a repetition
    return Said(DONE.format(said=said) if said else LOOK)


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes of a test that are alive."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def done() -> list[dict[str, object]]:
    path = Path("results.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def start(engine: str, url: str, items: int, most: float, mark: str) -> subprocess.Popen[bytes]:
    Path("host.py").write_text(HOST)
    command = [sys.executable, "host.py", engine, url, str(items), str(CONCURRENCY), str(most)]
    with Path("host.log").open("ab") as log:
        return subprocess.Popen(command, env={**os.environ, MARK: mark}, stdout=log, stderr=log)


def kill_one(host: subprocess.Popen[bytes], dice: random.Random) -> str:
    """Kill the host, or one of the processes that it has started."""
    below = [] if dice.random() < 0.5 else psutil.Process(host.pid).children(recursive=True)
    victim = dice.choice(below) if below else psutil.Process(host.pid)
    victim.kill()
    return "host" if victim.pid == host.pid else "worker"


@pytest.mark.parametrize(
    ("engine", "items", "kills"),
    [
        ("pool", 12, 2),
        *(
            pytest.param(engine, 1000, 20, marks=(pytest.mark.soak, pytest.mark.timeout(3600)))
            for engine in ("here", "pool", "dask", "ipyparallel")
        ),
    ],
)
def test_each_item_is_done_once_whoever_is_killed(
    engine: str, items: int, kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    dice, mark, killed = random.Random(7), uuid4().hex, Counter[str]()
    most, began = 10.0, time.monotonic()
    with Loopback([reply]) as server:
        while killed.total() < kills:
            host, before = start(engine, server.openai_url, items, most, mark), len(server.requests)
            # after a while in which something was asked; each time another
            wanted = before + dice.randrange(2, max(3, 2 * items // (kills + 4)))
            while host.poll() is None and len(server.requests) < wanted:
                time.sleep(0.02)
            if host.poll() is None:
                try:
                    killed[kill_one(host, dice)] += 1
                except psutil.Error:
                    continue
            elif len(done()) == items:
                break
            if host.poll() is None and dice.random() < 0.5:  # one that has lost a worker may go on a while
                time.sleep(dice.random())
            host.send_signal(signal.SIGKILL)
            host.wait()
        for _ in range(3):  # a pool ends with its first dead worker: the same again
            start(engine, server.openai_url, items, most, mark).wait()
            if len(done()) == items:
                break
        asked = len(server.requests)
    for process in marked(mark):  # a cluster of ipyparallel's outlives whoever has started it
        with contextlib.suppress(psutil.Error):
            if any(word.startswith("ipyparallel.") for word in process.cmdline()):
                process.kill()
    rows = done()
    assert sorted(str(row["answer"]) for row in rows) == sorted(f"W{number}" for number in range(items))
    assert {row["error"] for row in rows} == {None}
    cost = sum(float(str(row["cost"])) for row in rows)
    assert cost <= most
    # what was in flight when somebody died is lost; nothing else is asked twice
    assert 2 * items <= asked <= 2 * items + 2 * kills * CONCURRENCY
    until = time.monotonic() + 90
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.5)
    assert not left
    seconds = time.monotonic() - began
    print(f"\n{engine}: {items} items, {dict(killed)}, {asked - 2 * items} asked twice, {seconds:.0f} s, ${cost:.4f}")
