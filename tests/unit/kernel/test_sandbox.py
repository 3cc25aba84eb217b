"""Kernels that are shut off, and what every kernel is started with: real processes, real signals."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlm_jupyter import RLM, Limits, Sandbox
from rlm_jupyter.kernel import directory as place
from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.sandbox import cgroup as pids
from rlm_jupyter.kernel.sandbox import undumpable as hidden
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError, KernelDiedError, KernelStartError
from tests.support.sandboxes import need_bwrap
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux")


@pytest.fixture
async def shut(answerer: Answerer) -> AsyncIterator[Kernel]:
    need_bwrap()
    kernel = await Kernel.start(answerer, sandbox=Sandbox("bwrap"))
    yield kernel
    await kernel.close()


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "!sleep 60",
        "llm_query('wait')",
        "import asyncio\nawait asyncio.sleep(60)",
    ],
)
async def test_a_shut_off_cell_is_interrupted(shut: Kernel, source: str) -> None:
    await shut.execute("kept = 1")
    running = asyncio.create_task(shut.execute(source))
    await asyncio.sleep(0.5)
    await shut.interrupt()
    run = await asyncio.wait_for(running, 30)
    assert run.status == "interrupted"
    assert text_of(await shut.execute("kept")) == "1"


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
    ],
)
async def test_the_death_of_a_shut_off_kernel_is_seen_and_survived(shut: Kernel, source: str, how: str) -> None:
    started = time.monotonic()
    assert (await shut.execute(source)).status == "died"
    assert time.monotonic() - started < 8
    with pytest.raises(KernelDiedError, match=how):
        await shut.execute("1")
    await shut.restart()
    assert text_of(await shut.execute("llm_query('x')")) == "'echo x'"


async def test_nothing_of_a_shut_off_kernel_is_left_behind(shut: Kernel) -> None:
    process = shut._connection.process
    await shut.execute("import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True)")
    inside = psutil.Process(process.pid).children(recursive=True)
    assert "sleep" in {child.name() for child in inside}
    folder, group = process._directory.path, process._directory._group
    await shut.close()
    _, alive = psutil.wait_procs(inside, timeout=20)
    assert not alive
    assert not folder.exists()
    assert group is None or not group.exists()


async def test_only_named_folders_are_shown(
    answerer: Answerer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bwrap()
    for name in ("data", "out", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(name)
    monkeypatch.chdir(tmp_path / "data")
    sandbox = Sandbox("bwrap", read=["."], write=[tmp_path / "out"])
    kernel = await Kernel.start(answerer, sandbox=sandbox)
    try:
        # where it is shown, the working directory is the caller's, as it is without a sandbox
        run = await kernel.execute(f"import os; print(open('file.txt').read(), sorted(os.listdir({str(tmp_path)!r})))")
        assert text_of(run) == "data ['data', 'out']\n"
        assert "Read-only" in text_of(await kernel.execute("open('new.txt', 'w')"))
        await kernel.execute(f"open({str(tmp_path / 'out' / 'new.txt')!r}, 'w').write('made inside')")
        assert (tmp_path / "out" / "new.txt").read_text() == "made inside"
    finally:
        await kernel.close()


@pytest.mark.parametrize("forks", [True, False])
@pytest.mark.parametrize("how", ["read", "write"])
async def test_the_places_of_kernels_are_in_no_folder_that_is_shown(
    how: str, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a kernel without a sandbox may wait there for the next run, with its sockets
    need_bwrap()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        (Path(folder) / "seen").touch()
        options: dict[str, Any] = {how: [folder]}
        templates = Templates(are_used=forks)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(templates.close)
            open_one = await Kernel.start(Answerer(), sandbox=Sandbox("none"), templates=templates)
            stack.push_async_callback(open_one.close)
            shut_off = await Kernel.start(Answerer(), sandbox=Sandbox("bwrap", **options), templates=templates)
            stack.push_async_callback(shut_off.close)
            places = place.folder_of_all()
            assert len(list(places.iterdir())) >= 4  # two directories and their markers
            shown = text_of(await shut_off.execute(f"import os; os.listdir({folder!r}), os.listdir({str(places)!r})"))
            seen, inside = eval(shown)
            assert sorted(seen) == sorted(["seen", places.name])
            assert len(inside) <= 1  # its own, empty but for what is mounted there
            assert open_one._connection.process._directory.path.name not in inside
            run = await shut_off.execute(f"open({str(places / 'f')!r}, 'w')")
            assert run.outputs[-1]["ename"] in {"OSError", "PermissionError"}
        template_pool.current().close()


@pytest.mark.parametrize(
    ("base", "beside"),
    [("/tmp", "/var/tmp"), ("/dev/shm", "/var/tmp"), ("/var/tmp", "/dev/shm"), ("/dev/shm", "/dev/shm")],
)
@pytest.mark.parametrize("forks", [True, False], ids=["forked", "anew"])
async def test_wherever_temporary_files_are_what_is_shown_there_is_seen_and_modules_are_imported(
    base: str, beside: str, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bwrap()
    with tempfile.TemporaryDirectory(dir=base) as folder, tempfile.TemporaryDirectory(dir=beside) as data:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        for name in ("read", "write"):
            (Path(data) / name).mkdir()
            (Path(data) / name / "file.txt").write_text(name)
        sandbox = Sandbox("bwrap", read=[Path(data) / "read"], write=[Path(data) / "write"])
        async with AsyncExitStack() as stack:
            templates = Templates(are_used=forks)
            stack.push_async_callback(templates.close)
            kernel = await Kernel.start(Answerer(), sandbox=sandbox, templates=templates)
            stack.push_async_callback(kernel.close)
            assert kernel.is_forked is forks
            read = f"[open({data!r} + f'/{{name}}/file.txt').read() for name in ('read', 'write')]"
            assert text_of(await kernel.execute(read)) == "['read', 'write']"
            # our own modules, which are shown in our own folder there
            assert (await kernel.execute("import rlm_jupyter.kernel.guest.tool_functions")).status == "ok"
            await kernel.execute(f"open({data!r} + '/write/new.txt', 'w').write('made inside')")
            assert (Path(data) / "write" / "new.txt").read_text() == "made inside"
            # what is above it in a /tmp or /dev/shm is the kernel's own
            above = (place for place in (data, folder) if place.startswith("/var/tmp"))
            for place in (f"{data}/read", *above, "/"):
                run = await kernel.execute(f"open({place!r} + '/new.txt', 'w')")
                assert run.outputs[-1]["ename"] in {"OSError", "PermissionError"}
            assert (await kernel.execute("import tempfile; tempfile.NamedTemporaryFile()")).status == "ok"
        template_pool.current().close()


def test_a_link_into_what_is_kept_leaves_that_as_it_is(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as data:
        (tmp_path / "link").symlink_to(data)
        for shown, kept in (("/var/tmp", True), (data, True), (tmp_path / "link", False)):
            words = bwrap.options(Sandbox("bwrap", read=[shown]), sys.executable, tmp_path / "own", None)
            both = list(itertools.pairwise(words))
            assert (("--dir", "/var/tmp") in both, ("/tmp", "/var/tmp") in both) == (kept, not kept)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for others the system counts itself")
@pytest.mark.parametrize("are_used", [True, False], ids=["forked", "anew"])
async def test_roots_processes_are_bounded_before_a_cell_runs_and_nobody_waits_for_it(
    are_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bwrap()
    template_pool.current().close()  # a kernel that waits there was bounded before this test looks
    bounded: list[tuple[int, threading.Thread]] = []

    def hold(directory: KernelDirectory, process: int, most: int) -> None:
        bounded.append((process, threading.current_thread()))

    monkeypatch.setattr(KernelDirectory, "hold", hold)
    async with AsyncExitStack() as stack:
        templates = Templates(are_used=are_used)
        stack.push_async_callback(templates.close)
        kernel = await Kernel.start(Answerer(), sandbox=Sandbox("bwrap"), templates=templates)
        stack.push_async_callback(kernel.close)
        # of a template, the one kernel that waits for the next run may have been taken
        assert [process for process, _ in bounded][-1] in {
            process.pid for process in psutil.Process().children(recursive=True)
        }
        assert threading.main_thread() not in {thread for _, thread in bounded}
    template_pool.current().close()


async def test_the_key_of_a_fork_is_on_no_disk(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        templates = Templates()
        stack.push_async_callback(templates.close)
        chosen = templates.environment(None, tmp_path, None, Sandbox("none"))
        for template in templates.usable(chosen):
            kernel = await template.kernel()
            stack.callback(kernel.end)
            run = kernel.directory.path / "run"
            async with asyncio.timeout(20):
                while not (run / "k-ipc-1").exists():
                    assert not (run / "k.json").exists()
                    await asyncio.sleep(0.001)
            key = kernel.connection["key"].encode()
            for file in kernel.directory.path.rglob("*"):
                assert not file.is_file() or key not in file.read_bytes()
            break


async def test_another_folder_is_not_shown_and_work_is_done_in_a_private_one(shut: Kernel) -> None:
    assert text_of(await shut.execute("import os; os.getcwd(), os.listdir()")) == "('/tmp/work', [])"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("chroot", "there is auto, bwrap, docker, podman and none"),
        ({"kind": "auto", "reed": ["."]}, "a Sandbox"),
        ({"read": ["/no/such/folder"]}, "does not exist"),
        ({"read": ["/"]}, "can't be shown"),
        ({"write": ["/proc/self"]}, "can't be shown"),
        ({"read": ["/dev/shm"]}, "can't be shown"),
        ({"read": [place.folder_of_all()]}, "can't be shown"),
        ({"memory": 0}, "above zero"),
        ({"processes": 1.5}, "whole number"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        RLM("extractive", sandbox=value)


def test_without_bubblewrap_auto_goes_without_and_bwrap_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    bwrap.why_not.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match="apt-get install bubblewrap"):
            RLM("extractive", sandbox="bwrap")
        assert Sandbox().chosen().kind == "none"
        broken = tmp_path / "bwrap"
        broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        broken.chmod(0o755)
        bwrap.why_not.cache_clear()
        with pytest.raises(ConfigurationError, match="No permissions to create new namespace"):
            RLM("extractive", sandbox="bwrap")
        broken.write_text("#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2; exit 1\n")
        bwrap.why_not.cache_clear()
        with pytest.raises(ConfigurationError, match=r"Install bubblewrap 0\.8"):
            RLM("extractive", sandbox="bwrap")
    finally:
        bwrap.why_not.cache_clear()


@pytest.mark.usefixtures("pool")  # another has no template that was set up before
async def test_a_sandbox_that_cannot_be_set_up_says_why(
    answerer: Answerer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need_bwrap()
    monkeypatch.setattr(bwrap, "_SHUT", (*bwrap._SHUT, "--ro-bind", str(tmp_path / "gone"), "/gone"))
    with pytest.raises(KernelStartError, match="gone: No such file"):
        await Kernel.start(answerer, sandbox=Sandbox("bwrap"))


async def test_a_run_says_what_it_is_kept_in_and_its_children_are_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bwrap()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLM_X", raising=False)
    look = "import os\n__import__('os').getpid(), os.path.exists('/tmp/home')"
    child = ScriptedModel([f"```repl\n{look}\nFINAL(os.path.exists('/tmp/home'))\n```"], name="scripted/child")
    root = ScriptedModel([f"```repl\n{look}\nprint(rlm_query('x'))\nFINAL(os.getcwd())\n```"])
    rlm = RLM(root, sub_model=child, limits=Limits(max_depth=2), sandbox=Sandbox(memory=2**33))
    result = await rlm.acompletion("Where?", "text")
    assert result.answer == "/tmp/work"
    assert "True" in result.trajectory.iterations[0].shown
    started = result.trajectory.started
    assert started.options["sandbox"] == {"kind": "bwrap", "memory": 2**33}
    assert Sandbox.of(started.options["sandbox"]).memory == 2**33
    assert "no network" in started.opening
    assert result.path is not None
    assert "- Sandbox: bwrap" in result.path.read_text()


async def test_every_kernel_has_places_of_its_own(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await kernel.execute("import os, tempfile; os.path.expanduser('~'), tempfile.gettempdir()")
    folder = str(kernel._connection.process._directory.path)
    assert text_of(run) == f"('{folder}/home', '{folder}/tmp')"
    assert not (Path(folder) / "run").exists()


HOST = """
import asyncio, os, sys, threading
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.kernel import Kernel
async def main():
    kernel = await Kernel.start(None, sandbox=Sandbox(sys.argv[1]))
    cell = asyncio.create_task(kernel.execute(sys.argv[2]))
    await asyncio.sleep(1)
    print(kernel._connection.process._directory.path, flush=True)
    await cell
asyncio.run(main())
"""


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("kind", ["none", "bwrap"])
def test_a_kernel_ends_with_its_host_whatever_its_code_does_and_its_place_is_swept(kind: str, tmp_path: Path) -> None:
    if kind == "bwrap":
        need_bwrap()
    # the sum holds the lock of Python's interpreter: nothing else in the kernel gets a turn
    busy = "import itertools, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {2, 15})\nsum(itertools.count())"
    host = subprocess.Popen([sys.executable, "-c", HOST, kind, busy], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    folder = Path(host.stdout.readline().strip())
    below = psutil.Process(host.pid).children(recursive=True)
    assert below
    assert folder.is_dir()
    place.sweep(str(folder.parents[1]))
    assert folder.is_dir()  # its owner lives
    host.kill()
    host.wait()
    host.stdout.close()
    _, alive = psutil.wait_procs(below, timeout=20)
    assert not alive
    groups = [parent / f"rlm_jupyter-{folder.name}" for parent in pids._parents()]
    until = time.monotonic() + 20
    while any(path.exists() for path in (*groups, folder)) and time.monotonic() < until:
        place.sweep(str(folder.parents[1]))  # while one that has ended is not reaped, its group stays
    assert not any(group.exists() for group in groups)
    assert not folder.exists()
    assert not folder.with_name(f"{folder.name}.owner").exists()


@LINUX
def test_a_kernel_outlives_the_thread_that_asked_for_it() -> None:
    launched: list[KernelProcess] = []

    async def launch() -> None:
        launched.append(await KernelProcess.launch())
        while (
            len(list((launched[0]._directory.path / "run").iterdir())) < 4
        ):  # until it is up, and has said what it wants
            await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(launch()))
    thread.start()
    thread.join()
    process = launched[0]
    time.sleep(1.0)
    assert psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
    asyncio.run(process.kill())
    assert not psutil.pid_exists(process.pid)


@LINUX
@pytest.mark.parametrize("turns", [1, 2, 3, 4, 6, 9])
async def test_a_start_in_which_every_task_is_cancelled_leaves_nothing(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As happens when an interpreter exits."""
    template_pool.current().close()  # a kernel that waits may be on its way
    places: list[KernelDirectory] = []

    class Noted(KernelDirectory):
        def __init__(self) -> None:
            super().__init__()
            places.append(self)

    monkeypatch.setattr("rlm_jupyter.kernel.process.KernelDirectory", Noted)
    before = set(psutil.Process().children(recursive=True))
    starting = asyncio.create_task(KernelProcess.launch())
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.sleep(0.3)
    assert not set(psutil.Process().children(recursive=True)) - before
    assert not any(made.path.exists() for made in places)


@LINUX
@pytest.mark.parametrize(("value", "dumpable"), [(None, 0), ("1", 1)])
def test_the_host_hides_its_memory_from_the_first_kernel_on(value: str | None, dumpable: int) -> None:
    code = (
        "import asyncio, ctypes\nfrom rlm_jupyter.kernel.process import KernelProcess\n"
        "async def main():\n    await (await KernelProcess.launch()).kill()\n"
        "asked = lambda: ctypes.CDLL(None).prctl(3)\n"
        "before = asked(); asyncio.run(main()); print([before, asked()])"
    )
    env = {name: text for name, text in os.environ.items() if name != hidden.OPT_OUT}
    env |= {hidden.OPT_OUT: value} if value else {}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert json.loads(done.stdout) == [1, dumpable]


@LINUX
async def test_a_kernel_stopped_by_a_signal_is_killed_all_the_same(shut: Kernel) -> None:
    process = shut._connection.process
    running = asyncio.create_task(shut.execute("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"))
    await asyncio.sleep(0.3)
    running.cancel()
    started = time.monotonic()
    await shut.close()
    assert time.monotonic() - started < 20
    assert not psutil.pid_exists(process.pid)
    await asyncio.gather(running, return_exceptions=True)


SCRIPT = {"replies": ["```repl\nFINAL(open('data/x.txt').read())\n```"], "subcalls": []}


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that reads a file of the folder where it is started."""
    need_bwrap()
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/x.txt").write_text("shown")
    Path("s.json").write_text(json.dumps(SCRIPT))
    return "scripted/s.json"


@pytest.mark.parametrize(("shown", "answer"), [(["--read", "."], "shown"), ([], None)])
def test_the_command_line_names_sandbox_and_folders(scripted: str, shown: list[str], answer: str | None) -> None:
    command = [
        sys.executable,
        "-m",
        "rlm_jupyter.frontends.cli.main",
        "run",
        "?",
        "-m",
        scripted,
        "--sandbox",
        "bwrap",
        "--json",
    ]
    done = subprocess.run([*command, "--max-iterations", "1", *shown], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["answer"] == answer
    assert "sandbox: bwrap" in done.stderr


def test_the_magic_names_sandbox_and_folders_by_option_and_by_configuration(
    scripted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    from rlm_jupyter.frontends.magics.rlm import RLMMagics

    magics = RLMMagics(InteractiveShell())

    def sandbox(line: str) -> Sandbox:
        options, _ = magics._parse(f"-m {scripted} {line} What?", None)
        return magics.configured(options).settings.sandbox

    monkeypatch.setenv("RLM_SANDBOX", "bwrap")
    assert sandbox("") == Sandbox("bwrap")
    assert sandbox("--sandbox none") == Sandbox("none")
    assert sandbox("--sandbox bwrap --read data --write s.json") == Sandbox("bwrap", ["data"], ["s.json"])
    magics.sandbox, magics.read = "auto", ["data"]
    assert sandbox("") == Sandbox("auto", ["data"])
    assert sandbox("--here") == Sandbox("none")
    monkeypatch.setenv("RLM_SANDBOX", "doker")
    magics.sandbox = None
    with pytest.raises(ConfigurationError, match="there is auto"):
        sandbox("")
    magics.close()
