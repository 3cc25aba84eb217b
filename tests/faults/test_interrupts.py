"""Ctrl-C in a real process, once, twice and impatiently: it ends soon, and nothing of it is left."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rlm_jupyter.record import journal
from rlm_jupyter.record.store import RunFiles
from tests.faults.injector import Watch, watched
from tests.faults.runs import check_record
from tests.support.examples import one_in

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
from pathlib import Path
from rlm_jupyter import RLM, Limits
from tests.faults.runs import Endless
def told(event):
    print(type(event).__name__, flush=True)
rlm = RLM(Endless(), limits=Limits(max_depth=2), save=Path(sys.argv[1]) / "run.ipynb")
rlm.completion("What?", "some longer text " * 20, on_event=told)
"""
ASYNC = SCRIPT.replace("rlm.completion(", "import asyncio; asyncio.run(rlm.acompletion(") + ")"
STRUCK = """
import os, signal, sys
from pathlib import Path
import rlm_jupyter.kernel.process, rlm_jupyter.kernel.kernel
kind, name = rlm_jupyter.kernel.{kind}, {name!r}
method = getattr(kind, name)
strikes = [signal.SIGINT]
def struck(self):
    while strikes and (Path(sys.argv[1]) / "interrupted").exists():
        os.kill(os.getpid(), strikes.pop())
    return method(self)
setattr(kind, name, struck)
"""
"""The second one comes at this step of what puts a kernel away; not before the first, as a child's kernel ends."""
_GONE_SECONDS = 20.0
_ENDS_SECONDS = 50.0
AT_ONCE = int(os.environ.get("RLM_FAULTS_TIMES", "50"))
SEED = int(os.environ.get("RLM_FAULTS_SEED", "11"))
OFTEN = {"completion-twice at once", "completion-impatiently", "acompletion-once", "acompletion-twice"}
"""The rest is under `soak`."""
TIMES = {"once": (), "twice": (0.15,), "twice at once": (0.0,), "impatiently": (0.1, 0.1, 0.1, 0.1)}


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    tmp_path_factory.getbasetemp()
    with watched() as watch:
        yield watch


def interrupted(
    script: str, again: tuple[float, ...], folder: Path, watch: Watch, seconds: float, until: str = "RunStarted"
) -> None:
    folder.mkdir()
    # those of a host that was interrupted twice stay until the next one sweeps
    before = set(watch.directories())
    environment = os.environ | {"TMPDIR": str(watch.places)}
    with (folder / "said").open("wb") as said:
        host = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)],
            stdout=subprocess.PIPE, stderr=said, text=True, env=environment, cwd=Path(__file__).parents[2],
            start_new_session=True,
        )  # fmt: skip
        assert host.stdout is not None
        try:
            assert f"{until}\n" in iter(host.stdout.readline, ""), (folder / "said").read_text()
            time.sleep(seconds)
            (folder / "interrupted").touch()
            host.send_signal(signal.SIGINT)
            for rest in again:
                time.sleep(rest)
                host.send_signal(signal.SIGINT)
            host.stdout.read()
            host.wait(_ENDS_SECONDS)
        finally:
            host.kill()
            host.stdout.close()
            host.wait()
    assert host.returncode in {1, 130, -signal.SIGINT}, host.returncode
    assert re.search("KeyboardInterrupt|RunInterrupted: the run was stopped", (folder / "said").read_text())
    orphans = psutil.wait_procs(watch.kernels(), timeout=_GONE_SECONDS)[1]
    assert not orphans
    if not again:
        assert not set(watch.directories()) - before
        ended = check_record(folder)
        assert ended is not None
        assert ended.stop_reason == "cancelled"
    else:  # who will not wait may find the notebook behind, and never a journal that lacks something
        assert journal.read(RunFiles(folder / "run.ipynb").journal)


@pytest.mark.parametrize(
    ("script", "times"),
    [
        pytest.param(script, times, id=f"{name}-{times}", marks=() if f"{name}-{times}" in OFTEN else pytest.mark.soak)
        for name, script in {"completion": SCRIPT, "acompletion": ASYNC}.items()
        for times in TIMES
    ],
)
def test_ctrl_c_ends_it(script: str, times: str, tmp_path: Path, watch: Watch) -> None:
    interrupted(script, TIMES[times], tmp_path / "run", watch, 0.4)


def test_it_leaves_with_what_the_run_had_and_how_to_resume_it(tmp_path: Path, watch: Watch) -> None:
    script = SCRIPT.replace("rlm.completion", "try:\n    rlm.completion") + (
        "except KeyboardInterrupt as stopped:\n"
        "    print(stopped.result.stop_reason, '|', stopped, file=sys.stderr)\n"
        "    raise\n"
    )
    # what the model is shown of the first iteration comes behind the draft that this has left
    interrupted(script, (), tmp_path / "run", watch, 0.0, until="OutputsShown")
    said = (tmp_path / "run" / "said").read_text()
    notebook = tmp_path / "run" / "run.ipynb"
    line = f"the run was stopped, with the best answer so far. The run so far is saved in {notebook}. To resume it: jupyter rlm resume"
    assert f"cancelled | {line} {notebook}" in said
    assert f"RunInterrupted: {line} {notebook}" in said


@pytest.mark.parametrize(
    ("kind", "name"),
    one_in(
        2, [("process.KernelProcess", "_kill"), ("process.KernelProcess", "_unwatch"), ("kernel.Kernel", "end_process")]
    ),
)
def test_the_second_comes_while_the_kernel_is_put_away(kind: str, name: str, tmp_path: Path, watch: Watch) -> None:
    interrupted(STRUCK.format(kind=kind, name=name) + ASYNC, (), tmp_path / "run", watch, 0.4)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("script", [SCRIPT, ASYNC], ids=["completion", "acompletion"])
def test_ctrl_c_twice_at_once_ends_it_at_any_moment(script: str, tmp_path: Path, watch: Watch) -> None:
    chance = random.Random(SEED)
    for number in range(AT_ONCE):
        interrupted(
            script, (chance.choice([0.0, 0.0, 0.001]),), tmp_path / str(number), watch, chance.uniform(0.0, 1.2)
        )
        assert not watch.directories(), number
    print(f"{AT_ONCE} times twice at once, nothing left")


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("script", [SCRIPT, ASYNC], ids=["completion", "acompletion"])
def test_ctrl_c_ends_it_at_any_moment(script: str, tmp_path: Path, watch: Watch) -> None:
    chance = random.Random(7)
    for number in range(50):
        again = tuple(chance.uniform(0.0, 0.3) for _ in range(chance.choice([0, 1, 1, 3])))
        interrupted(script, again, tmp_path / str(number), watch, chance.uniform(0.0, 1.5))
    print("50 interrupts, nothing left")
