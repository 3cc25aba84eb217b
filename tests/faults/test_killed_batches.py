"""A batch whose host is killed at random moments, and begun again: each item once, and nothing is paid for twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.events import ReplyReceived
from tests.faults.injector import watched
from tests.faults.runs import block
from tests.support.loopback import Loopback, Request, Said

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_ITEMS = 24
KILLS = int(os.environ.get("RLM_FAULTS_BATCH_KILLS", "6"))
_ORPHAN_SECONDS = 20.0
Stage = tuple[str, str]


class Server(Loopback):
    """Answers each item in two iterations and a sub-call; each reply has a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: list[Stage] = []
        """Of each request: whose item it is about, and how far that is."""

    async def reply_to(self, request: Request) -> Said:
        messages = request.messages
        word = re.search(r"word-\d+\.", "".join(message["content"] for message in messages))
        assert word is not None
        replies = sum(message["role"] == "assistant" for message in messages)
        self.stages.append((word[0], "sub-call" if len(messages) == 1 else str(replies)))
        number = len(self.stages) - 1
        if len(messages) == 1:
            return Said(f"reply {number} to {word[0]}", delay=0.05)
        code = "FINAL(said)" if replies else "said = llm_query(f'What is {context}')\nprint(said)"
        return Said(block(f"# reply {number} to {word[0]}", code), delay=0.05)


def recorded(folder: Path) -> set[int]:
    """The numbers of the replies that the records of the runs have."""
    found: set[int] = set()
    for path in folder.glob("*.rlm"):
        try:
            trajectory = SavedRun.load(path).trajectory
        except RLMError:
            continue
        texts = [record.text for record in trajectory.records if isinstance(record, ReplyReceived)]
        texts += [call.text for call in trajectory.subcalls]
        found |= {int(number) for text in texts for number in re.findall(r"reply (\d+) to", text)}
    return found


@pytest.mark.timeout(600)
def test_a_batch_that_is_killed_is_gone_on_with(tmp_path: Path) -> None:
    chance, out = random.Random(7), tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "tests.faults.batch_host"]
    kills, paid_twice = 0, set[Stage]()
    with Server() as server, (tmp_path / "said").open("wb") as said, watched() as watch:
        while True:
            began = len(server.stages)
            done = {server.stages[number] for number in recorded(tmp_path / "results.jsonl.batch")}
            host = subprocess.Popen(
                [*command, server.openai_url, str(out), str(_ITEMS)],
                cwd=_ROOT,
                stdout=said,
                stderr=said,
                env=os.environ | {"TMPDIR": str(watch.places)},
            )
            try:
                until = time.monotonic() + 60
                while len(server.stages) == began and host.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
                if kills == KILLS:
                    assert host.wait(240) == 0, (tmp_path / "said").read_text()
                else:
                    time.sleep(chance.uniform(0.0, 1.5))
            finally:
                if host.poll() is None:
                    host.send_signal(signal.SIGKILL)
                    kills += 1
                host.wait()
            _, orphans = psutil.wait_procs(watch.kernels(), timeout=_ORPHAN_SECONDS)
            assert orphans == []
            paid_twice |= done & set(server.stages[began:])
            if out.exists():  # whole, whenever it is looked at
                keys = [json.loads(line)["key"] for line in out.read_text().splitlines()]
                assert len(keys) == len(set(keys))
            if host.returncode == 0:
                break
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert kills
    assert [row["row"] for row in rows] == list(range(_ITEMS))
    # an answer may be missing
    wrong = [row for row in rows if row["error"] or f"to word-{row['row']}." not in str(row["answer"])]
    assert not wrong, json.dumps(wrong)
    assert paid_twice == set()
    assert {row["tokens"] for row in rows} == {330}  # three replies of 110: none is counted twice, none is left out
    # a reply that was on the way at a kill is all that is asked for again
    assert len(server.stages) <= len(set(server.stages)) + 6 * kills
    assert {word for word, _ in server.stages} == {f"word-{number}." for number in range(_ITEMS)}
