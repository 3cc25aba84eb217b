"""A real kernel: what cells do, how they are interrupted, how the kernel dies and comes back."""

from __future__ import annotations

import ast
import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.run import context as contexts
from rlm_jupyter.types.errors import ConfigurationError, ContextError, KernelDiedError, KernelError
from rlm_jupyter.types.values import CellRun
from tests.unit.kernel.conftest import Answerer


def text_of(run: CellRun) -> str:
    """All that the cell showed, as plain text."""
    shown = []
    for output in run.outputs:
        shown.append(output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", ""))
    return "".join(shown)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("1 + 1", "2"),
        ("print('a')\n'b'", "a\n'b'"),
        ("import asyncio\nawait asyncio.sleep(0)\n'awaited'", "'awaited'"),
        ("%who_ls", "[]"),
        ("import sys; print('err', file=sys.stderr)", "err\n"),
        ("SHOW_VARS()", "context: str [0]"),
        ("SEARCH('ada', 'Ada slept. Bob ran. Ada woke.')", "Ada slept.\nAda woke."),
        ("print(SEARCH('ada'))", "Nothing was found.\n"),
        ("import sys; 'debugpy' in sys.modules", "False"),
        ("import debugpy; debugpy.__name__", "'debugpy'"),
        ("import os; os.environ.get('OPENAI_API_KEY'), os.environ.get('ANTHROPIC_API_KEY')", "(None, None)"),
    ],
)
async def test_a_cell_shows_what_jupyter_would_show(
    kernel: Kernel, source: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await kernel.execute(source)
    assert run.status == "ok"
    assert text_of(run) == shown


async def test_shell_and_timeit_work(kernel: Kernel) -> None:
    assert "hello" in text_of(await kernel.execute("!echo hello"))
    assert "loop" in text_of(await kernel.execute("%timeit -n 1 -r 1 pass"))


async def test_no_key_of_the_host_enters_the_kernel(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("SOME_TOKEN", "t-secret")
    kernel = await Kernel.start(answerer, environment={"EXTRA": "given"})
    try:
        run = await kernel.execute("import os; print(sorted(os.environ.values()), os.environ['EXTRA'])")
    finally:
        await kernel.close()
    assert "given" in text_of(run)
    assert "secret" not in text_of(run)


async def test_figures_and_frames_are_kept_as_rich_outputs(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import pandas as pd\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\npd.DataFrame({'a': [1, 2]})"
    )
    kinds = [sorted(output["data"]) for output in run.outputs if "data" in output]
    assert ["image/png", "text/plain"] in kinds
    assert ["text/html", "text/plain"] in kinds


async def test_input_is_refused_with_a_clear_message(kernel: Kernel) -> None:
    run = await kernel.execute("input('name? ')")
    assert run.status == "error"
    assert "no person sits at this kernel" in run.outputs[0]["evalue"]


INTERRUPTED = {
    "pure Python": "while True: pass",
    "sleep": "import time\ntime.sleep(60)",
    "a blocked sub-call": "llm_query('wait')",
    "eight pool workers": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    print(list(pool.map(llm_query, ['wait'] * 8)))"
    ),
    "gather": "import asyncio\nawait asyncio.gather(*[allm_query('wait') for _ in range(8)])",
    "a sleeping await": "import asyncio\nawait asyncio.sleep(60)",
    "a blocked call in an async cell": "import asyncio\nawait asyncio.sleep(0)\nllm_query('wait')",
    "a shell command": "!sleep 60",
}


@pytest.mark.parametrize("source", INTERRUPTED.values(), ids=INTERRUPTED.keys())
async def test_interrupt_ends_the_cell_and_keeps_the_kernel(kernel: Kernel, source: str) -> None:
    await kernel.execute("kept = 'still here'")
    begun = asyncio.Event()
    source = f"print('begun', flush=True)\n{source}"
    running = asyncio.create_task(kernel.execute(source, on_outputs=lambda _: begun.set()))
    await asyncio.wait_for(begun.wait(), 30)
    await asyncio.sleep(0.2)  # it has come to where it waits
    await kernel.interrupt()
    run = await asyncio.wait_for(running, 30)
    assert run.status == "interrupted"  # one that hears it too late is killed, and has died
    assert text_of(await kernel.execute("kept")) == "'still here'"


async def test_interrupt_cancels_the_calls_of_the_cell_on_the_host(kernel: Kernel, answerer: Answerer) -> None:
    running = asyncio.create_task(kernel.execute("llm_query('wait')"))
    while not answerer.calls:
        await asyncio.sleep(0.01)
    await kernel.interrupt()
    await running
    assert answerer.cancelled == 1


@pytest.mark.slow
async def test_a_cell_deaf_to_interrupts_loses_its_kernel(kernel: Kernel) -> None:
    deaf = "import time\nwhile True:\n    try: time.sleep(5)\n    except BaseException: pass"
    run = await kernel.execute(deaf, cell_seconds=0.3)
    assert run.status == "died"
    assert not kernel.is_alive
    await kernel.restart()
    assert text_of(await kernel.execute("1")) == "1"


async def test_the_time_of_a_cell_does_not_count_waiting_for_subcalls(kernel: Kernel, answerer: Answerer) -> None:
    async def slow(call: Any) -> list[Any]:
        await asyncio.sleep(2.0)
        return ["late"]

    kernel._subcalls._answer = slow
    run = await kernel.execute("llm_query('x')", cell_seconds=1.5)
    assert (run.status, text_of(run)) == ("ok", "'late'")
    began = time.monotonic()
    run = await kernel.execute("llm_query('x')", left=lambda: 0.5 - (time.monotonic() - began))
    assert run.status == "interrupted"


async def test_cancelling_execute_interrupts_the_cell_first(kernel: Kernel) -> None:
    seen: list[Any] = []
    running = asyncio.create_task(
        kernel.execute("import time\nprint('begun', flush=True)\ntime.sleep(60)", on_outputs=seen.append)
    )
    while not seen:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen[-1][0]["text"] == "begun\n"
    assert text_of(await kernel.execute("'idle'")) == "'idle'"


async def begun(kernel: Kernel, source: str) -> asyncio.Task[CellRun]:
    """A cell that runs, as soon as it has printed something."""
    seen: list[Any] = []
    running = asyncio.create_task(kernel.execute(f"print('begun', flush=True)\n{source}", on_outputs=seen.append))
    while not seen:
        await asyncio.sleep(0.01)
    return running


async def test_an_interrupt_that_comes_late_spares_the_next_cell(kernel: Kernel) -> None:
    running = await begun(kernel, "import time\ntime.sleep(60)")
    await kernel.interrupt()
    assert (await running).status == "interrupted"
    running = await begun(kernel, "time.sleep(0.5)\n'whole'")
    await kernel._connection.process.interrupt()
    run = await running
    assert (run.status, text_of(run)) == ("ok", "begun\n'whole'")

    running = await begun(kernel, "time.sleep(60)")
    await kernel._connection.process.interrupt()  # the signal overtakes the word that it is meant for this cell
    await asyncio.sleep(0.2)
    assert not running.done()
    kernel._tell("rlm_stop", {"cell": kernel._cell.id if kernel._cell else "", "reason": "enough"})
    run = await asyncio.wait_for(running, 10)
    assert run.outputs[-1]["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("waits", ["time.sleep(60)", "while True: pass", "import asyncio; await asyncio.sleep(60)"])
async def test_the_traceback_of_an_interrupted_cell_ends_in_code_of_its_own(kernel: Kernel, waits: str) -> None:
    running = await begun(kernel, f"import time\n{waits}")
    await kernel.interrupt()
    traceback = re.sub(r"\x1b\[[0-9;]*m", "", "".join((await running).outputs[-1]["traceback"]))
    assert waits in traceback
    assert "guest" not in traceback


async def test_a_cell_that_the_kernel_leaves_lying_is_run(kernel: Kernel) -> None:
    # as ipykernel 7.0 to 7.3 does by chance: the socket is never announced as readable again
    await kernel.execute(
        "stream = get_ipython().kernel.shell_stream\n"
        "stream.io_loop.add_callback(stream.io_loop.remove_handler, stream.socket)"
    )
    assert text_of(await asyncio.wait_for(kernel.execute("'run'"), 30)) == "'run'"


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
    ],
)
async def test_death_is_seen_at_once_and_survived(kernel: Kernel, source: str, how: str) -> None:
    await kernel.set_context(contexts.pack("the text"))
    started = time.monotonic()
    run = await kernel.execute(f"print('before', flush=True)\nimport time; time.sleep(0.2)\n{source}")
    assert run.status == "died"
    assert time.monotonic() - started < 8  # the tests of whole runs say how soon
    with pytest.raises(KernelDiedError, match=how):
        await kernel.execute("1")
    await kernel.restart()
    assert text_of(await kernel.execute("context")) == "'the text'"


async def test_death_with_calls_in_flight_cancels_them(kernel: Kernel, answerer: Answerer) -> None:
    running = asyncio.create_task(kernel.execute("llm_query('wait')"))
    while not answerer.calls:
        await asyncio.sleep(0.01)
    assert kernel.pid is not None
    psutil.Process(kernel.pid).kill()
    assert (await running).status == "died"
    assert answerer.cancelled == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "",
        "text\r\nwith ünï",
        "lone \ud800 surrogate",
        b"bytes",
        [1, "two", None],
        {"k": [1.5]},
        pd.DataFrame({"a": [1, 2]}),
    ],
    ids=["empty", "unicode", "surrogate", "bytes", "list", "dict", "frame"],
)
async def test_a_context_arrives_as_it_was(kernel: Kernel, value: object) -> None:
    await kernel.set_context(contexts.pack(value))
    frame = isinstance(value, pd.DataFrame)
    test = "context.equals(pd.DataFrame({'a': [1, 2]}))" if frame else f"context == {value!r}"
    run = await kernel.execute(f"import pandas as pd\n(type(context).__name__, {test}, context is context_0)")
    assert text_of(run) == f"('{type(value).__name__}', True, True)"


async def test_a_context_that_the_kernel_cannot_load_names_its_type(kernel: Kernel) -> None:
    packed = contexts.pack([1])
    broken = packed.__class__("pickle", (b"cno_such_module\nThing\n.",), packed.info)
    with pytest.raises(ContextError, match="no_such_module"):
        await kernel.set_context(broken)


async def test_a_value_comes_out_whole_without_its_repr(kernel: Kernel) -> None:
    await kernel.execute("big = 'x' * 30_000_000\nclass S(str):\n    def __repr__(self): 1/0\ns = S('quiet')")
    assert len((await kernel.get("big")).text) == 30_000_000
    assert (await kernel.get("s")).text == "quiet"
    with pytest.raises(KernelError, match="no variable 'nothing'"):
        await kernel.get("nothing")


async def test_a_value_comes_out_while_a_cell_runs(kernel: Kernel) -> None:
    begun = asyncio.Event()
    source = "x = 5\nprint('begun', flush=True)\nimport time; time.sleep(60)"
    running = asyncio.create_task(kernel.execute(source, on_outputs=lambda _: begun.set()))
    await asyncio.wait_for(begun.wait(), 30)
    assert (await kernel.get("x")).json == 5
    assert not running.done()
    await kernel.interrupt()
    await running


async def test_names_of_ours_are_put_back_and_the_model_can_be_told(kernel: Kernel) -> None:
    await kernel.set_context(contexts.pack("mine"))
    await kernel.execute("llm_query = 3\ncontext = None\ndel FINAL")
    run = await kernel.execute("context, callable(llm_query), callable(FINAL)")
    assert text_of(run) == "('mine', True, True)"
    assert set((await kernel.inspect()).restored) == {"context", "llm_query", "FINAL"}
    assert text_of(await kernel.execute("%who_ls")) == "[]"


async def test_variables_are_described_without_running_their_code(kernel: Kernel) -> None:
    await kernel.execute(
        "class Loud:\n    def __repr__(self): raise SystemExit\n    __len__ = __repr__\nloud = Loud()\nrows = [1, 2, 3]"
    )
    variables = {v.name: (v.type_name, v.size) for v in (await kernel.inspect()).variables}
    assert variables == {"Loud": ("type", ""), "loud": ("Loud", ""), "rows": ("list", "3")}


async def test_nothing_is_left_behind(answerer: Answerer) -> None:
    kernel = await Kernel.start(answerer)
    process = kernel._connection.process
    pid, home = process.pid, process._directory.path
    await kernel.execute("import subprocess; subprocess.Popen(['sleep', '300'])")
    children = psutil.Process(pid).children()
    await kernel.close()
    await kernel.close()
    assert not home.exists()
    assert not psutil.pid_exists(pid)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


async def test_a_missing_kernelspec_or_directory_is_named(answerer: Answerer, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no kernelspec 'nope'"):
        await Kernel.start(answerer, kernel_name="nope")
    with pytest.raises(ConfigurationError, match="does not exist"):
        await Kernel.start(answerer, cwd=tmp_path / "gone")


async def test_the_kernel_of_a_named_kernelspec_gets_the_guest(answerer: Answerer) -> None:
    kernel = await Kernel.start(answerer, kernel_name="python3")
    try:
        assert text_of(await kernel.execute("llm_query('hi')")) == "'echo hi'"
    finally:
        await kernel.close()


async def test_the_kernel_works_where_the_caller_is(kernel: Kernel) -> None:
    assert text_of(await kernel.execute("import os; print(os.getcwd())")).strip() == str(Path.cwd())


async def test_large_outputs_arrive_whole(kernel: Kernel) -> None:
    run = await kernel.execute("for i in range(50_000): print('x' * 99)")
    assert len(text_of(run)) == 5_000_000
    assert len(run.outputs) == 1


async def test_a_kernel_has_no_thread_that_nobody_needs(kernel: Kernel) -> None:
    source = "import threading; sorted(thread.name for thread in threading.enumerate())"
    names = ast.literal_eval(text_of(await kernel.execute(source)))
    # for what code in C writes to standard output and error
    assert [name for name in names if "_watch_pipe_fd" not in name] == ["Control", "IOPub", "MainThread"]


async def test_nobody_is_waited_for_where_nothing_was_printed(kernel: Kernel) -> None:
    source = (
        "import sys; stream, waited = sys.stdout, []; schedule = stream.pub_thread.schedule\n"
        "stream.pub_thread.schedule = lambda call: (waited.append(call), schedule(call))[1]\n"
        "stream.flush(); empty = len(waited); print('x', end=''); stream.flush(); printed = len(waited)\n"
        "del stream.pub_thread.schedule\n(empty, printed > 0)"
    )
    run = await kernel.execute(source)
    assert text_of(run) == "x(0, True)"


BUSY = """\
import os, sys, threading
sys.setswitchinterval(0.02)
goes_on = [True]
def work():
    while goes_on: pass
for _ in range(2): threading.Thread(target=work).start()
"""
"""Has other threads get their turn late."""
AT_REST = "goes_on.clear(); sys.setswitchinterval(0.005)"


async def test_what_processes_put_out_is_there_when_their_cell_ends(kernel: Kernel) -> None:
    """A thread reads it, and gets its turn late beside two that are at work."""
    await kernel.execute(BUSY)
    runs = [await kernel.execute(f"status = os.system('echo {number}; echo {number} >&2')") for number in range(12)]
    await kernel.execute(AT_REST)
    assert [text_of(run) for run in runs] == [f"{number}\n{number}\n" for number in range(12)]


async def test_what_processes_put_out_is_the_cells_that_runs_whoever_reads_it(kernel: Kernel) -> None:
    """A thread of an earlier cell that flushes reads the pipe as well."""
    await kernel.execute(
        "import os, sys, threading, time\ngoes_on = [True]\n"
        "def work():\n    while goes_on: sys.stdout.flush(); time.sleep(0.0002)\n"
        "threading.Thread(target=work).start()"
    )
    runs = [await kernel.execute(f"status = os.system('echo {number}; sleep 0.01')") for number in range(30)]
    await kernel.execute("goes_on.clear()")
    assert [text_of(run) for run in runs] == [f"{number}\n" for number in range(30)]


async def test_what_a_process_puts_out_stands_before_what_is_printed_after_it(kernel: Kernel) -> None:
    await kernel.execute(BUSY)
    run = await kernel.execute(
        "for number in range(12):\n    status = os.system(f'echo {number}')\n    print(number, flush=number % 2 == 0)"
    )
    await kernel.execute(AT_REST)
    assert text_of(run) == "".join(f"{number}\n{number}\n" for number in range(12))


async def test_characters_that_a_process_puts_out_in_two_pieces_are_whole(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import os, sys\n"
        "for byte in 'é€😀'.encode():\n    size = os.write(1, bytes([byte])); sys.stdout.flush()\n"
        "size = os.write(1, b'\\xff.\\n')"
    )
    assert text_of(run) == "é€😀\N{REPLACEMENT CHARACTER}.\n"


async def test_a_signals_handler_may_print_amid_prints_and_a_processs_output(kernel: Kernel) -> None:
    """Each may wait for what the other holds."""
    run = await kernel.execute(
        "import signal, subprocess, time\ncalls = []\n"
        "def handler(*_):\n    calls.append(time.sleep(0.02)); print('!', flush=True)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.003)\n"
        "before = signal.signal(signal.SIGALRM, handler)\n"
        "noisy = subprocess.Popen('while true; do echo x; done', shell=True)\n"
        "alarm = signal.setitimer(signal.ITIMER_REAL, 0.003)\n"
        "while len(calls) < 40: print('y')\n"
        "alarm, killed = signal.setitimer(signal.ITIMER_REAL, 0), noisy.kill()",
        cell_seconds=60.0,
    )
    assert run.status == "ok"
    assert text_of(run).count("!") >= 40


async def test_a_cells_file_has_the_name_that_ipykernel_gives_it(kernel: Kernel) -> None:
    """IPython draws tracebacks by it."""
    said = await kernel.execute("import warnings\nwarnings.warn('hm')")
    assert re.search(r"/ipykernel_\d+/\d+\.py:2: UserWarning: hm", "".join(out["text"] for out in said.outputs))
    failed = await kernel.execute("x = 0\n1 / x")
    assert "1 / x" in re.sub(r"\x1b\[[\d;]*m", "", "\n".join(failed.outputs[-1]["traceback"]))


async def test_a_kernel_whose_guest_is_older_and_answers_no_greeting_comes_up_a_second_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    send = Connection.send_request

    def to_an_older_one(self: Connection, msg_id: str, msg_type: str, content: dict[str, Any]) -> None:
        sent.append(msg_type)
        if msg_type != "rlm_greet":
            send(self, msg_id, msg_type, content)

    monkeypatch.setattr(Connection, "send_request", to_an_older_one)
    kernel = await Kernel.start(Answerer())
    try:
        assert sent == ["rlm_greet", "kernel_info_request"]
        assert text_of(await kernel.execute("1 + 1")) == "2"
    finally:
        await kernel.close()
