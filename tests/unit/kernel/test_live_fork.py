"""A kernel that is forked between two cells: what the fork has, that both go on by themselves, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from ipykernel._version import version_info

from rlm_jupyter import Sandbox
from rlm_jupyter.kernel import directory
from rlm_jupyter.kernel import templates as templates_module
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError
from tests.support.sandboxes import need_bwrap
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of
from tests.unit.kernel.test_templates import below

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not templates_module.are_possible(), reason="kernels are forked on Linux"),
    pytest.mark.skipif(version_info < (7, 4), reason="what is refused with this ipykernel"),
    pytest.mark.usefixtures("pool"),
]

_GONE_SECONDS = 20.0


@pytest.fixture(params=["anew", "from a template"])
def templates(request: pytest.FixtureRequest) -> Templates:
    return Templates(are_used=request.param != "anew")


@contextlib.asynccontextmanager
async def started(sandbox: Sandbox, templates: Templates | None = None) -> AsyncIterator[Kernel]:
    templates = templates or Templates(are_used=False)
    kernel = await Kernel.start(Answerer(), sandbox=sandbox, templates=templates)
    try:
        yield kernel
    finally:
        await kernel.close()
        await templates.close()


HELD = """
import asyncio, contextvars, functools, numpy, random, types
class Counted:
    total = 0
    def add(self): type(self).total += 1; return type(self).total
def outer(n):
    def inner(): nonlocal n; n += 1; return n
    return inner
random.seed(3); numpy.random.seed(3); own = random.Random(4); generator = numpy.random.default_rng(5)
counted, nested, numbers = Counted(), outer(10), [1, 2]
module = types.ModuleType('made'); module.state = ['a']
gen = (i * i for i in range(100)); next(gen); next(gen)
async def ticks():
    while True:
        ticked.append(1); await asyncio.sleep(0.01)
ticked = []; task = asyncio.create_task(ticks())
kept = contextvars.ContextVar('kept'); kept.set('set')
with open('lines.txt', 'w') as file: file.writelines(f'line {i}\\n' for i in range(10_000))
reads = open('lines.txt'); reads.readline(); raw = open('lines.txt', 'rb', buffering=0); raw.read(7)
"""
IN_LARGE_PAGES = """
text = 'x' * 200_000_000
with open('/proc/self/smaps_rollup') as file:
    print(next(int(line.split()[1]) for line in file if line.startswith('AnonHugePages')) > 100_000)
"""
YOUNG = "[True, False, False]\n"
LOOKED_AT = """
ticked_before = len(ticked)
await asyncio.sleep(0.2)
numbers.append(len(numbers)); module.state.append('b')
print([numbers, module.state, next(gen), counted.add(), nested(), kept.get(), random.random(), own.random(),
    float(numpy.random.random()), float(generator.random()), raw.read(6), len(ticked) > ticked_before,
    [reads.readline() for _ in range(5_000)][-1]])
"""


def gives_large_pages() -> bool:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    libc, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return enabled.exists() and "[never]" not in enabled.read_text() and libc == "glibc" and version >= "2.35"


@pytest.mark.skipif(not gives_large_pages(), reason="this system gives no large pages where they are asked for")
async def test_a_large_block_has_few_pages_to_copy(sandbox: Sandbox, templates: Templates) -> None:
    async with started(sandbox, templates) as kernel:
        assert text_of(await kernel.execute(IN_LARGE_PAGES)) == "True\n"


async def test_a_fork_has_all_that_the_kernel_has_and_both_go_on(
    sandbox: Sandbox, templates: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with started(sandbox, templates) as kernel:
        assert (await kernel.execute(HELD)).status == "ok"
        fork = await kernel.fork(Answerer())
        try:
            shown = [text_of(await each.execute(LOOKED_AT)) for each in (fork, kernel)]
            assert shown[0] == shown[1]
            assert "line 5000" in shown[0]
            assert "True" in shown[0]
            await fork.execute("numbers = 'of the fork'; open('of_fork', 'w').close()")
            assert text_of(await kernel.execute("numbers")) == "[1, 2, 2]"
            connections = [each._connection.process for each in (kernel, fork)]
            assert connections[0].key != connections[1].key
            assert connections[0]._directory.path != connections[1]._directory.path
            look = "s = get_ipython().kernel.session; s.session, __import__('os').getpid()"
            assert text_of(await kernel.execute(look)) != text_of(await fork.execute(look))
            again = await fork.fork(Answerer())
            assert text_of(await again.execute("numbers")) == "'of the fork'"
            await again.close()
            assert text_of(await fork.execute("numbers")) == "'of the fork'"
        finally:
            await fork.close()


async def test_a_fork_does_not_look_for_garbage_among_what_the_kernel_has_just_made(sandbox: Sandbox) -> None:
    generations = "print([any(one is young for one in gc.get_objects(each)) for each in range(3)])"
    async with started(sandbox) as kernel:
        assert text_of(await kernel.execute(f"import gc; gc.collect(); young = [1]; {generations}")) == YOUNG
        fork = await kernel.fork(Answerer())
        try:
            assert text_of(await fork.execute(generations)) == "[False, False, True]\n"
        finally:
            await fork.close()


async def test_sub_calls_outputs_and_answers_of_a_fork_are_its_own(sandbox: Sandbox, templates: Templates) -> None:
    async with started(sandbox, templates) as kernel:
        first, second = Answerer(), Answerer()
        kernel._subcalls._answer = first
        await kernel.execute("llm_query('before')")
        fork = await kernel.fork(second)
        try:
            source = (
                "print(llm_query(name)); import os; os.write(1, name.encode()); os.system('echo ' + name); FINAL(name)"
            )
            both = [each.execute(f"name = {name!r}; {source}") for each, name in ((kernel, "one"), (fork, "two"))]
            shown = [text_of(run) for run in await asyncio.gather(*both)]
            assert ["one" in text and "two" not in text for text in shown] == [True, False]
            assert shown[1].count("two") >= 3
            assert [call.prompts for call in first.calls] == [("before",), ("one",)]
            assert [call.prompts for call in second.calls] == [("two",)]
            assert not {call.id for call in first.calls} & {call.id for call in second.calls}
            assert [each.declared and each.declared.text for each in (kernel, fork)] == ["one", "two"]
        finally:
            await fork.close()


async def test_a_fork_outlives_the_kernel_and_the_kernel_outlives_a_fork(
    sandbox: Sandbox, templates: Templates
) -> None:
    leave = "import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True)"
    async with started(sandbox, templates) as kernel:
        await kernel.execute("x = 1; path = __import__('tempfile').mkdtemp(); open(path + '/f', 'w').write('there')")
        forks = [await kernel.fork(Answerer()) for _ in range(3)]
        before = below()
        assert (await forks[0].execute("import os; os._exit(3)")).status == "died"
        await forks[1].execute(leave)
        await forks[1].close()
        assert text_of(await kernel.execute("x")) == "1"
        assert psutil.STATUS_ZOMBIE not in {process.status() for process in below()}
        await kernel.execute(leave)
        assert (await kernel.execute("import ctypes; ctypes.string_at(0)")).status == "died"
        assert kernel._connection.ended == "the kernel's process ended (signal 11)"
        await kernel.close()
        assert text_of(await forks[2].execute("x, open(path + '/f').read()")) == "(1, 'there')"
        assert "sleep" not in {process.name() for process in below()}
        last = await forks[2].fork(Answerer())
        assert (await forks[2].execute("import os; os._exit(4)")).status == "died"
        assert forks[2]._connection.ended == "the kernel's process ended (exit code 4)"
        assert text_of(await last.execute("x")) == "1"
        places = [each._connection.process._directory.path for each in (kernel, *forks, last)]
        before += below()
        for each in (*forks, last):
            await each.close()
            await each.close()
    _, alive = psutil.wait_procs(before, timeout=_GONE_SECONDS)
    kept = ["rlm-template"] if sandbox.kind == "none" else ["bwrap", "bwrap", "rlm-template"]  # for the next run
    assert sorted(process.name() for process in alive) in ([], kept)
    assert not [place for place in places if place.exists() or directory._marker_of(place).exists()]


async def test_a_fork_is_interrupted_and_limited_like_any_kernel(sandbox: Sandbox, templates: Templates) -> None:
    async with started(Sandbox(sandbox.kind, memory=2 * 2**30, processes=64), templates) as kernel:
        await kernel.execute("x = 1")
        fork = await kernel.fork(Answerer())
        try:
            for source in (
                "!sleep 60",
                "import time; time.sleep(60)",
                "llm_query('wait')",
                "await __import__('asyncio').sleep(60)",
            ):
                running = asyncio.create_task(fork.execute(source))
                await asyncio.sleep(0.5)
                await fork.interrupt()
                assert (await asyncio.wait_for(running, 30)).status == "interrupted"
            run = await fork.execute("bytearray(3 * 2**30)")
            assert run.outputs[-1]["ename"] == "MemoryError"
            if sandbox.kind == "bwrap":
                run = await fork.execute(
                    "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=[2]).start()"
                )
                assert run.outputs[-1]["ename"] == "RuntimeError"
            assert text_of(await fork.execute("x")) == "1"
            assert text_of(await kernel.execute("x")) == "1"
        finally:
            await fork.close()


@pytest.mark.parametrize(
    ("obstacle", "says", "removes"),
    [
        ("import threading; go = threading.Event(); t = threading.Thread(target=go.wait, name='mine'); t.start()",
         "it runs a thread (mine)", "go.set(); t.join()"),
        ("import _thread, os; lock = _thread.allocate_lock(); lock.acquire(); others = {*os.listdir('/proc/self/task')}\n"
         "_thread.start_new_thread(lock.acquire, ()); mine = {*os.listdir('/proc/self/task')} - others",
         "a library runs threads (", "lock.release()\nwhile mine & {*os.listdir('/proc/self/task')}: pass"),
        ("import subprocess; p = subprocess.Popen(['sleep', '60'])", "it has started a process that runs (sleep)",
         "p.kill(); p.wait()"),
        ("import socket; s = socket.create_server(('127.0.0.1', 0))", "it has a socket (AF_INET, at ('127.0.0.1', ",
         "s.close()"),
        ("import socket; a, b = socket.socketpair()", "it has a socket (AF_UNIX, to ", "a.close(); b.close()"),
        ("import mmap; m = mmap.mmap(-1, 4096)", "it shares memory with others, or with a file (", "m.close()"),
        ("import selectors; s = selectors.EpollSelector()", "it has an event loop of its own", "s.close()"),
        ("import zmq; c = zmq.Context(); s = c.socket(zmq.PULL)", "it has", "s.close(); c.term()"),
    ],
)  # fmt: skip
async def test_what_a_fork_would_lack_is_named_and_nothing_else_happens(obstacle: str, says: str, removes: str) -> None:
    async with started(Sandbox("none")) as kernel:
        descriptors = "import os; len(os.listdir('/proc/self/fd'))"
        before = text_of(await kernel.execute(descriptors))
        await kernel.execute(obstacle)
        with pytest.raises(ForkRefusedError) as refused:
            await kernel.fork(Answerer())
        assert str(refused.value).startswith(f"The kernel can't be forked: {says}")
        assert "\n" not in str(refused.value)
        assert (await kernel.execute(removes)).status == "ok"
        assert text_of(await kernel.execute(descriptors)) == before
        fork = await kernel.fork(Answerer())
        assert text_of(await fork.execute("1 + 1")) == "2"
        await fork.close()


async def test_no_fork_while_a_cell_runs_or_after_the_end() -> None:
    async with started(Sandbox("none")) as kernel:
        running = asyncio.create_task(kernel.execute("import time; time.sleep(60)"))
        await asyncio.sleep(0.3)
        with pytest.raises(ForkRefusedError, match="a cell is running"):
            await kernel.fork(Answerer())
        await kernel.interrupt()
        assert (await running).status == "interrupted"
        await kernel.execute("import os; os._exit(1)")
        with pytest.raises(KernelDiedError):
            await kernel.fork(Answerer())


HOST = """
import asyncio, json, os, signal, sys
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.kernel import Kernel
async def main():
    kernel = await Kernel.start(None, sandbox=Sandbox(sys.argv[1]))
    await kernel.execute('x = 1')
    fork = await kernel.fork(None)
    tasks = [asyncio.create_task(each.execute('import itertools; sum(itertools.count())')) for each in (kernel, fork)]
    await asyncio.sleep(1)
    print(json.dumps([each._connection.process.supervised.kernel_pid for each in (kernel, fork)]
        + [kernel._connection.process.supervised.supervisor.pid]), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("first", ["host", "supervisor"])
def test_a_fork_ends_with_its_host_and_with_its_supervisor(sandbox: Sandbox, first: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, sandbox.kind], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        kernel, fork, supervisor = map(psutil.Process, json.loads(host.stdout.readline()))
        many = below(host.pid)
        assert {kernel, fork, supervisor} <= {*many}
        if first == "host":
            host.kill()
        else:
            supervisor.kill()
            psutil.wait_procs([kernel], timeout=_GONE_SECONDS)
            host.kill()
        host.wait()
    _, alive = psutil.wait_procs(many, timeout=_GONE_SECONDS)
    assert not alive


async def test_a_shut_off_kernel_gets_no_way_out_by_being_forked() -> None:
    need_bwrap()
    async with started(Sandbox("bwrap")) as kernel:
        steal = (
            "import gc, os, socket, stat\n"
            "forks = next(one for one in gc.get_objects() if type(one).__name__ == 'SelfFork')\n"
            "seen = []\n"
            "def receive(number, _taken=forks._files.take):\n"
            "    fds = _taken(number); seen.extend((stat.S_IFMT(os.fstat(fd).st_mode), os.path.isdir(f'/proc/self/fd/{fd}/..')) for fd in fds); return fds\n"
            "forks._files.take = receive; del gc"
        )
        await kernel.execute(steal)
        fork = await kernel.fork(Answerer())
        kinds = text_of(
            await kernel.execute("{(kind in (stat.S_IFSOCK, stat.S_IFIFO), way) for kind, way in seen}, len(seen)")
        )
        assert kinds == "({(True, False)}, 5)"
        look = "sorted(os.listdir('/proc/self/ns')) and [os.readlink(f'/proc/self/ns/{n}') for n in ('pid', 'net', 'mnt', 'user')]"
        assert text_of(await fork.execute(look)) == text_of(await kernel.execute(look))
        rights = "[line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')]"
        assert eval(text_of(await fork.execute(rights))) == ["0" * 16] * 5
        await fork.close()


@pytest.mark.parametrize(
    "answers",
    [
        "forks._fork = lambda asked, fds: socket.socket(fileno=os.dup(fds[3])).send(b'forked') and False",  # itself
        "forks._fork = lambda asked, fds: False",  # nobody
        "forks._fork = lambda asked, fds: 1 / 0",
        "forks._be_the_fork = lambda *_: os._exit(0)",
        "forks._be_the_fork = lambda *_: os.kill(os.getpid(), 9)",
    ],
)
async def test_a_kernel_that_cheats_gets_no_fork(answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlm_jupyter.kernel import live_fork

    monkeypatch.setattr(live_fork, "_SECONDS", 5.0)
    async with started(Sandbox("none")) as kernel:
        find = (
            "import gc, os, socket; forks = next(one for one in gc.get_objects() if type(one).__name__ == 'SelfFork')"
        )
        await kernel.execute(f"{find}; {answers}")
        with pytest.raises(ForkRefusedError):
            await kernel.fork(Answerer())
        assert text_of(await kernel.execute("1 + 1")) == "2"
    assert not below()
