"""A host that is killed at random moments: nothing that it had received is lost, and its kernels go with it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
import pytest

from rlm_jupyter.kernel.directory import sweep
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX
from rlm_jupyter.record import atomic, journal, notebook
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.events import ReplyReceived, SubcallSettled
from tests.faults.injector import Watch, watched
from tests.faults.runs import block
from tests.support.examples import one_in
from tests.support.loopback import Loopback, Request, Said

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RLM_FAULTS_TIMES", "200"))
_ORPHAN_SECONDS = 20.0
"""By then they are gone also where three tests keep the machine busy; the soak has it for itself."""
_SOAK_ORPHAN_SECONDS = 2.0
_IN_HAND_SECONDS = 0.05
"""A reply that came so shortly before the kill may still have been in the host's hands: it writes at once, but not
before it has looked. On the way from the provider to here, it could have been lost as well. Time in which the machine
did something else does not count, up to `_STARVED_SECONDS`."""
_STARVED_SECONDS = 2.0
_ROOT = Path(__file__).parents[2]
BUSY = {
    "in C, holding the interpreter's lock": "sum(range(10**14))",
    "in a regular expression": "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')",
    "in Python, deaf to signals": (
        "import signal, threading\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass"
    ),
    "asleep": "import time; time.sleep(600)",
}


class Server(Loopback):
    """Never ends a run: batches of eight, and a child every third time. No reply is like another."""

    def __init__(self, cell: str = "") -> None:
        super().__init__()
        self._cell = cell
        self._numbers = itertools.count()
        self.random = random.Random(0)

    async def reply_to(self, request: Request) -> Said:
        number, messages = next(self._numbers), request.messages
        delay = self.random.uniform(0.0, 0.02)
        if len(messages) == 1:
            return Said(f"about {number}", delay=delay)
        if "`context` is a str: 6 characters" in messages[1]["content"]:
            ask = "llm_query('of a child')"
            done = len(messages) > 2
            return Said(block(f"# {number}", "FINAL('of the child')" if done else ask), delay=delay / 2)
        ask = (
            "rlm_query_batched(['a part', 'b part'])"
            if number % 3 == 2
            else "llm_query_batched([str(i) for i in range(8)])"
        )
        return Said(block(f"# {number}", self._cell or f"print({ask})"), delay=delay / 2)


@dataclass
class Killed:
    """What was found after one kill."""

    received: int
    lost: int
    in_hand: int
    unsaved: bool
    subcalls: int
    torn: bool
    gone: float
    """Seconds after the kill in which nothing of it was left that runs: kernel, supervisor, what a cell had started."""


def kill_one(
    folder: Path, watch: Watch, server: Server, seconds: float, *, from_start: bool = False, after_reply: bool = False
) -> Killed:
    """Start a host, kill it, and look at what is left.

    Parameters
    ----------
    seconds
        After which it is killed: of its first request, or its start, or its first reply.
    """
    folder.mkdir()
    files, log = RunFiles(folder / "run.ipynb"), folder / "received"
    asked = len(server.requests)
    command = [sys.executable, "-m", "tests.faults.host", server.openai_url, str(files.notebook), str(log)]
    with (folder / "said").open("wb") as said:
        host = subprocess.Popen(
            command, cwd=_ROOT, stdout=said, stderr=said, env=os.environ | {"TMPDIR": str(watch.places)}
        )
    try:
        until = time.monotonic() + 60
        while not from_start and len(server.requests) == asked and time.monotonic() < until:
            time.sleep(0.005)
        while after_reply and not (log.exists() and log.stat().st_size) and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(seconds)
        assert host.poll() is None, (folder / "said").read_text()
    finally:
        killed_at = time.monotonic()
        busy = psutil.Process(host.pid).cpu_times() if host.poll() is None else None
        host.send_signal(signal.SIGKILL)
        host.wait()
    used = busy.user + busy.system if busy else 0.0
    gone = killed_at
    while orphans := watch.kernels():
        assert gone - killed_at < _ORPHAN_SECONDS, f"what outlives its host: {orphans}"
        psutil.wait_procs(orphans, timeout=0.2)
        gone = time.monotonic()
    gone -= killed_at
    notes = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    received = Counter(text for *_, text in notes)
    if not files.journal.exists():
        return Killed(received.total(), received.total(), 0, True, 0, False, gone)
    torn = not files.journal.read_bytes().endswith(b"\n")
    if files.notebook.exists():
        nbformat.validate(nbformat.read(files.notebook, as_version=4))
        notebook.read(files.notebook)
    kept: Counter[str] = Counter()
    for path in (files.journal, *(files.folder / CHILDREN).glob("*.rlm/journal.jsonl")):
        for record in journal.read(path) if path.stat().st_size else ():
            if isinstance(record, ReplyReceived | SubcallSettled):
                kept[record.text] += 1
    subcalls = sum(text.startswith("about") for text in received)
    if kept:  # the only reply may have been in the host's hands
        assert SavedRun.load(files.folder).trajectory.iterations
    missing = [(killed_at - at, used - busy_at) for at, busy_at, text in notes if not kept[text]]
    in_hand = sum(min(ago, worked) < _IN_HAND_SECONDS and ago < _STARVED_SECONDS for ago, worked in missing)
    return Killed(received.total(), len(missing) - in_hand, in_hand, False, subcalls, torn, gone)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    tmp_path_factory.getbasetemp()
    with watched() as watch:
        yield watch


def kill_many(times: int, folder: Path, watch: Watch, orphan_seconds: float) -> None:
    seed = int(os.environ.get("RLM_FAULTS_SEED", time.time_ns() % 10**6))
    chance = random.Random(seed)
    found = []
    with Server() as server:
        for number in range(times):
            from_start = number % 4 == 3
            seconds = chance.uniform(0.0, 2.0 if from_start else 1.2)
            killed = kill_one(folder / str(number), watch, server, seconds, from_start=from_start)
            assert not killed.lost, f"kill {number} of seed {seed}: {killed}, {folder / str(number)}"
            assert killed.gone < orphan_seconds, f"kill {number} of seed {seed}: {killed}"
            found.append(killed)
    received, subcalls = sum(k.received for k in found), sum(k.subcalls for k in found)
    unsaved, torn, in_hand = (sum(getattr(k, name) for k in found) for name in ("unsaved", "torn", "in_hand"))
    print(
        f"{times} kills (seed {seed}), {unsaved} of them before there was a run, {torn} tore a line: {received} replies "
        f"received, {subcalls} of them to sub-calls; 0 lost, {in_hand} in hand, "
        f"0 orphans, the last of them gone after {max(killed.gone for killed in found):.2f} s at most"
    )
    assert received or times < 10
    for half in folder.glob(f"*/*.rlm/{atomic.STAGING}/*.tmp"):
        os.utime(half, (time.time() - 3_600,) * 2)
        atomic.sweep(half.parents[2])
        assert not half.exists()
    sweep(str(watch.places))
    # killed between the two calls that make a marker, a host leaves an empty one, which says nothing of whose it is
    assert not [path for path in watch.directories() if path.is_dir() or path.stat().st_size]


def test_a_host_that_is_killed_loses_nothing(tmp_path: Path, watch: Watch) -> None:
    kill_many(4, tmp_path, watch, _ORPHAN_SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_host_that_is_killed_hundreds_of_times_loses_nothing(tmp_path: Path, watch: Watch) -> None:
    kill_many(KILLS, tmp_path, watch, _SOAK_ORPHAN_SECONDS)


@pytest.mark.parametrize("busy", one_in(2, BUSY))
def test_a_kernel_ends_with_its_host_whatever_it_does(busy: str, tmp_path: Path, watch: Watch) -> None:
    with Server(BUSY[busy]) as server:
        killed = kill_one(tmp_path / "run", watch, server, 1.0, after_reply=True)
    assert (killed.received, killed.lost) == (1, 0)


STRAYS = """
import multiprocessing, os, subprocess, sys, time
os.system("sleep 601 &")
os.system("setsid sleep 602 &")
subprocess.Popen(["sleep", "603"])
subprocess.Popen(["sleep", "604"], start_new_session=True)
subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; sleep 605; sleep 605"], start_new_session=True)
multiprocessing.get_context("fork").Process(target=time.sleep, args=(606,)).start()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execvp("sleep", ["sleep", "607"])  # a daemon
    os._exit(0)
"""


def started(watch: Watch) -> list[psutil.Process]:
    """The processes that the cell has started, all of them."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(psutil.NoSuchProcess):  # what has begun a daemon is gone at any moment
            found = [process for process in watch.kernels() if "tests.faults.host" not in process.cmdline()]
            found = [process for process in found if process.name() != "rlm-template"]
            if len(found) == 10:  # the supervisor, the kernel, its fork, and seven others
                return found
        time.sleep(0.05)
    raise AssertionError([process.cmdline() for process in watch.kernels()])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is best effort")
def test_what_a_cell_has_started_ends_with_the_host(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLM_SANDBOX", "none")
    folder = tmp_path / "run"
    folder.mkdir()
    with Server(STRAYS + BUSY["in C, holding the interpreter's lock"]) as server:
        arguments = [server.openai_url, str(folder / "run.ipynb"), str(folder / "log")]
        command = [sys.executable, "-m", "tests.faults.host", *arguments]
        environment = os.environ | {"TMPDIR": str(watch.places)}
        with subprocess.Popen(command, cwd=_ROOT, env=environment, stderr=subprocess.DEVNULL) as host:
            try:
                processes = started(watch)
            finally:
                host.kill()
    assert not psutil.wait_procs(processes, timeout=_ORPHAN_SECONDS)[1]
    assert not psutil.wait_procs(watch.kernels(), timeout=_ORPHAN_SECONDS)[1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is best effort")
@pytest.mark.parametrize("last", ["", "os._exit(3)", "os.killpg(0, 9)"], ids=["closes", "dies", "kills its group"])
async def test_what_a_cell_has_started_ends_with_its_kernel(last: str, watch: Watch) -> None:
    async def answer(call: object, kind: object) -> None: ...

    kernel = await Kernel.start(answer, sandbox=NO_SANDBOX)  # type: ignore[arg-type]
    try:
        await kernel.execute(STRAYS)
        processes = started(watch)
        if last:
            ran = await kernel.execute(last)
            assert ran.status == "died"
            code = "exit code 3" if "_exit" in last else "signal 9"
            assert kernel._connection.ended == f"the kernel's process ended ({code})"
            assert not psutil.wait_procs(processes, timeout=_ORPHAN_SECONDS)[1]
    finally:
        await kernel.close()
    assert not psutil.wait_procs(processes, timeout=_ORPHAN_SECONDS)[1]
