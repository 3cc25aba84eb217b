"""How a run in the notebook's own kernel is stopped, and what is left: the kernel works, the bill has ended."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from rlm_jupyter.record.trajectory import Trajectory
from tests.support.here import Notebook, Shown, script
from tests.support.loopback import Loopback, Said

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp" if Path("/tmp").is_dir() else None, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture
def shared(folder: Path) -> Iterator[Notebook]:
    with Notebook(folder) as notebook:
        yield notebook


@pytest.fixture
def notebook(shared: Notebook) -> Iterator[Notebook]:
    """Each test has one of its own, lest a kernel that dies takes the others along; it leaves it as good as new."""
    shared.run("%reset -f")
    yield shared
    assert shared.no_driver_left()
    assert shared.works()


def once(act: Callable[[], object], when: str, after: float = 0.0) -> Callable[[str, str], None]:
    """Acts as soon as an output says `when`, and a little later."""
    done: list[bool] = []

    def look(kind: str, text: str) -> None:
        if when in text and kind == "stream" and not done:
            done.append(True)
            threading.Timer(after, act).start()

    return look


WAITS = {
    "asleep": "print('waits', flush=True)\ntime.sleep(60)",
    "busy": "print('waits', flush=True)\nwhile True: pass",
    "awaiting": "print('waits', flush=True)\nawait asyncio.sleep(60)",
    "gathering": "print('waits', flush=True)\nawait asyncio.gather(*(asyncio.sleep(60) for _ in range(3)))",
    "blocking in an awaiting cell": "await asyncio.sleep(0)\nprint('waits', flush=True)\ntime.sleep(60)",
    "in a shell": "print('waits', flush=True)\n!sleep 60",
}
IMPORTS = "import asyncio, time\nanswer['content'] = 'a draft'\n"


def limited(model: str, **limits: float) -> str:
    """A cell that asks with limits which the magic has no options for."""
    given = ", ".join(f"{name}={value!r}" for name, value in limits.items())
    return (
        "from rlm_jupyter import Limits\nfrom rlm_jupyter.frontends.here.notebook_side import answer\n"
        "from rlm_jupyter.frontends.here.question import Question\n"
        f"r = await answer(get_ipython(), Question('What?', None, {model!r}, {{'limits': Limits({given})}}, rerun=True))"
    )


@pytest.mark.parametrize("wait", WAITS)
def test_a_cell_that_takes_too_long_is_interrupted_and_the_run_goes_on(
    notebook: Notebook, folder: Path, wait: str
) -> None:
    model = script(folder / "long.json", IMPORTS + WAITS[wait], "kept = 'on'\nFINAL('went ' + kept)")
    shown = notebook.run(limited(model, cell_seconds=0.5))
    assert shown.error == ""
    assert shown.seconds < 30
    assert (
        notebook.run(
            "r.answer, [c.status for i in r.trajectory.iterations for c in i.cells], kept, time.__name__"
        ).value
        == "('went on', ['interrupted', 'ok'], 'on', 'time')"
    )


@pytest.mark.parametrize("wait", ["asleep", "gathering", "in a shell"])
def test_the_users_stop_ends_run_driver_and_bill_and_keeps_what_there_is(
    notebook: Notebook, folder: Path, wait: str
) -> None:
    model = script(folder / "stop.json", IMPORTS + WAITS[wait], "FINAL('too late')")
    began: list[float] = []

    def stop() -> None:
        began.append(time.monotonic())
        notebook.interrupt()

    shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?", once(stop, "waits", 0.1))
    assert time.monotonic() - began[0] < 30
    assert shown.error == "KeyboardInterrupt: rlm_result holds what the run had by then."
    # the name is what stops Run All; a person reads what has become of the run
    assert shown.reply["traceback"] == ["rlm_result holds what the run had by then."]
    assert "Stopped" in shown.text
    assert notebook.run("rlm_result.answer, rlm_result.stop_reason, rlm_result.path.exists()").value == (
        "('a draft', 'cancelled', True)"
    )


def slow(seconds: float, cell: str) -> Callable[[list[dict[str, str]]], str | Said]:
    """Answers the root with a cell, and sub-calls after a while."""

    def reply(messages: list[dict[str, str]]) -> str | Said:
        if len(messages) == 1:
            return Said("x" * 9, delay=seconds)
        return f"I look.\n```repl\n{cell}\n```"

    return reply


SUBCALLS = {
    "in threads": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
    "    list(pool.map(llm_query, 'abcdefgh'))",
    "awaited": "await asyncio.gather(*map(allm_query, 'abcdefgh'))",
}


LATE = """import threading
from rlm_jupyter.frontends.here.notebook_side import _Here
late = _Here._send
_Here._send = lambda self, steered: threading.Timer(2, late, [self, steered]).start()"""


def test_no_reply_is_asked_for_after_a_stop_though_the_word_of_it_comes_late(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "late.json", IMPORTS + WAITS["asleep"], "FINAL('too late')")
    notebook.run(LATE)
    try:
        shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?", once(notebook.interrupt, "waits", 0.1))
        assert shown.error.startswith("KeyboardInterrupt: rlm_result ")
        assert notebook.run("rlm_result.answer, len(rlm_result.trajectory.iterations)").value == "('a draft', 1)"
    finally:
        notebook.run("_Here._send = late")


@pytest.mark.parametrize("calls", SUBCALLS)
def test_stop_within_sub_calls(notebook: Notebook, folder: Path, calls: str) -> None:
    with Loopback([slow(60, IMPORTS + SUBCALLS[calls])]) as server:
        notebook.run(f"%env OPENAI_BASE_URL={server.openai_url}\n%env OPENAI_API_KEY=k")

        def when_all_are_asked() -> None:
            while len(server.requests) < 9:
                time.sleep(0.02)
            notebook.interrupt()

        threading.Thread(target=when_all_are_asked, daemon=True).start()
        shown = notebook.run("%%rlm --here -m openai/any --rerun\nWhat?")
        assert shown.seconds < 30
        assert shown.error.startswith("KeyboardInterrupt: rlm_result ")
        assert notebook.run("rlm_result.answer").value == "'a draft'"
        time.sleep(0.3)
        assert len(server.requests) == 9


def test_stop_while_the_model_thinks(notebook: Notebook, folder: Path) -> None:
    with Loopback([Said("I think about that for a while.", delay=60)]) as server:
        notebook.run(f"%env OPENAI_BASE_URL={server.openai_url}\n%env OPENAI_API_KEY=k")

        def when_asked() -> None:
            while not server.requests:
                time.sleep(0.02)
            notebook.interrupt()

        threading.Thread(target=when_asked, daemon=True).start()
        shown = notebook.run("%%rlm --here -m openai/any --rerun\nWhat?")
        assert shown.seconds < 30
        assert shown.error.startswith("KeyboardInterrupt: rlm_result ")
        assert notebook.run("rlm_result.answer, rlm_result.stop_reason").value == "(None, 'cancelled')"


def test_stop_before_the_driver_is_there(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "early.json", "FINAL('too late')")

    def stop() -> None:
        while not notebook.drivers():
            time.sleep(0.002)
        notebook.interrupt()

    threading.Thread(target=stop, daemon=True).start()
    shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?")
    assert shown.error.startswith("KeyboardInterrupt: ")
    assert len(shown.reply["traceback"]) == 1


def test_a_second_interrupt_ends_the_cell_at_once(notebook: Notebook, folder: Path) -> None:
    # it is never outside its `try` for long: an interrupt that came there would end it
    deaf = (
        "import time\nfor _ in range(30):\n    try:\n        print('waits', flush=True)\n        time.sleep(0.1)\n"
        "    except BaseException: pass"
    )
    model = script(folder / "deaf.json", deaf, "FINAL('too late')")

    def stop() -> None:
        for _ in range(2):
            notebook.interrupt()
            time.sleep(0.3)

    shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?", once(stop, "waits"))
    assert shown.error.startswith("KeyboardInterrupt: the run is being stopped")


def test_a_cell_that_can_not_be_interrupted_is_said(notebook: Notebook, folder: Path) -> None:
    deaf = (
        "import time\nend = time.monotonic() + 4.5\nwhile time.monotonic() < end:\n"
        "    try:\n        time.sleep(0.1)\n    except BaseException: pass"
    )
    model = script(folder / "deaf.json", deaf, "FINAL('too late')")
    shown = notebook.run(limited(model, cell_seconds=0.3))
    assert shown.error == ""
    told = notebook.run("print(r.stop_reason, r.message)").printed
    assert told.startswith("kernel_died the cell could not be interrupted")


CATCHES = "try:\n    time.sleep(60)\nexcept BaseException:\n    time.sleep(60)"


@pytest.mark.parametrize("cell", ["time.sleep(60)", "llm_query('?')", "await asyncio.sleep(60)", CATCHES])
def test_a_driver_that_is_killed_is_said_in_one_line_and_the_cell_ends(
    notebook: Notebook, folder: Path, cell: str
) -> None:
    cell = f"import time, asyncio\nprint('waits', flush=True)\n{cell}"

    def kill() -> None:
        for driver in notebook.drivers():
            driver.send_signal(signal.SIGKILL)

    with contextlib.ExitStack() as stack:
        model = script(folder / "kill.json", cell)
        if "llm_query" in cell:
            server = stack.enter_context(Loopback([slow(60, cell)]))
            notebook.run(f"%env OPENAI_BASE_URL={server.openai_url}\n%env OPENAI_API_KEY=k")
            model = "openai/any"
        shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?", once(kill, "waits", 0.3))
    assert shown.seconds < 30
    assert shown.error.startswith("RLMError: The process that drove the run has ended (signal 9); the variables stay.")
    assert len(shown.reply["traceback"]) == 1
    assert "Traceback" not in "".join(shown.reply["traceback"])
    assert "rlm_result" not in notebook.run("dir()").value
    # nothing that was paid for is lost
    record = Path(shown.error.partition("up to there: ")[2].removesuffix("."))
    assert len(Trajectory.load(folder / record.with_suffix(".rlm")).iterations) == 1


LATELY = """import asyncio, signal, time
from rlm_jupyter.kernel.guest.attached_cells import AttachedCells
interrupt = AttachedCells.interrupt
AttachedCells.interrupt = lambda self, cell: (time.sleep(0.5), interrupt(self, cell))
selector = asyncio.get_running_loop()._selector
select = selector.select
def lately(timeout=None):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return select(timeout)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
selector.select = type(lately)(lately.__code__, {"signal": signal, "select": select}, argdefs=(None,))"""
"""Each signal is as one that comes just before the loop goes to sleep: it wakes nobody."""


def test_an_interrupt_that_comes_as_the_loop_goes_to_sleep_is_not_lost(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "asleep.json", "print('waits', flush=True)\nimport asyncio\nawait asyncio.sleep(40)")

    def kill() -> None:
        for driver in notebook.drivers():
            driver.kill()

    notebook.run(LATELY)
    try:
        shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?", once(kill, "waits", 0.3))
    finally:
        notebook.run("selector.select, AttachedCells.interrupt = select, interrupt")
    assert shown.seconds < 30
    assert shown.error.startswith("RLMError: The process that drove the run has ended (signal 9)")


KEPT = """
from rlm_jupyter.kernel.guest.attached_cells import AttachedCells
kept, before = [], AttachedCells.mark
def mark(self, cell, state, **within):
    kept[:] = self, cell
    before(self, cell, state, **within)
AttachedCells.mark = mark
"""
AFTERWARDS = "import threading, time\nthread = threading.Thread(target=kept[0].interrupt, args=kept[1:])\n" + (
    "thread.start()\nthread.join()\ntime.sleep(0.2)\nAttachedCells.mark = before\nkept[1] != ''"
)


def test_an_interrupt_that_comes_when_no_run_serves_it_any_more_is_none_of_the_kernels(
    notebook: Notebook, folder: Path
) -> None:
    notebook.run(KEPT)
    model = script(folder / "gone.json", "FINAL('x')")
    notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?")
    assert notebook.run(AFTERWARDS).value == "True"


def test_a_kernel_that_is_killed_takes_its_driver_along(folder: Path) -> None:
    place = folder / "killed"
    place.mkdir()
    model = script(place / "wait.json", "import time\nprint('waits', flush=True)\ntime.sleep(60)")
    drivers: list[psutil.Process] = []
    with Notebook(place) as notebook:
        kernel = notebook.process

        def kill() -> None:
            drivers.extend(notebook.drivers())
            kernel.kill()

        msg_id = notebook.kc.execute(f"%%rlm --here -m {model}\nWhat?")
        while True:
            message = notebook.kc.get_iopub_msg(timeout=20)
            if message["parent_header"].get("msg_id") == msg_id and message["content"].get("text") == "waits\n":
                break
        kill()
        gone, alive = psutil.wait_procs(drivers, timeout=30)
    assert (len(gone), len(alive)) == (1, 0)
    [saved] = (place / "rlm_runs").glob("*.ipynb")
    ended = Trajectory.load(saved).ended
    assert ended is not None
    assert ended.stop_reason == "cancelled"


def test_results_of_a_failing_host_are_one_line(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "short.json", "x = 1")
    shown: Shown = notebook.run(f"%%rlm --here -m {model} --rerun\nWhat?")
    assert "no replies are left" in shown.error
    assert shown.error.startswith("ModelError")
    assert len(shown.reply["traceback"]) == 1
    assert notebook.run("x").value == "1"
