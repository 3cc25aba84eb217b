"""A kernel that waits for the next run: who takes it, when there is none, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from rlm_jupyter import RLM, Sandbox
from rlm_jupyter.kernel import ready_kernel, shared_texts, template_pool, templates
from rlm_jupyter.kernel.forked_kernel import ForkedKernel
from rlm_jupyter.kernel.guest.app import READY
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.template_pool import TemplatePool
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError, KernelStartError
from tests.unit.kernel.conftest import Answerer, children
from tests.unit.kernel.test_kernel import text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not templates.are_possible(), reason="kernels are forked on Linux"),
    pytest.mark.usefixtures("pool"),
]

_SECONDS = 20.0


@contextlib.asynccontextmanager
async def run(sandbox: Sandbox, chosen: Templates | None = None) -> AsyncIterator[Kernel]:
    """The kernel of a run."""
    kernel = await Kernel.start(Answerer(), sandbox=sandbox, templates=chosen)
    try:
        yield kernel
    finally:
        await kernel.close()
        if chosen is not None:
            await chosen.close()


def waiting(process: int | None = None) -> list[psutil.Process]:
    """The kernels that wait, and what watches over them."""
    found = []
    for below in children() if process is None else psutil.Process(process).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if below.name() == READY:
                found.append(below)
    return found


async def one() -> psutil.Process:
    """The kernel that waits, once it does."""
    async with asyncio.timeout(_SECONDS):
        while not (found := waiting()):
            await asyncio.sleep(0.01)
    return found[0]


def ready(pool: TemplatePool) -> list[Template]:
    return [template for template in (*pool.shared.values(), *pool.spare.values()) if template._ready is not None]


async def test_the_next_run_takes_the_one_that_waits(sandbox: Sandbox, pool: TemplatePool) -> None:
    async with run(sandbox) as kernel:
        assert text_of(await kernel.execute("x = 1; x")) == "1"
        assert not ready(pool)  # none while a run is under way
    process = await one()
    async with run(sandbox) as kernel:
        assert kernel.pid == process.pid
        assert not ready(pool)
        run_of_x = await kernel.execute("x")
        assert run_of_x.outputs[-1]["ename"] == "NameError"
        assert process.name() != READY
        assert text_of(await kernel.execute("llm_query('a')")) == "'echo a'"
        assert (await kernel.execute("import os; os._exit(3)")).status == "died"
        assert kernel._connection.ended == "the kernel's process ended (exit code 3)"
        await kernel.restart()
        assert kernel.pid != process.pid
    assert (await one()).pid != process.pid


async def test_two_runs_at_once_take_one_each(sandbox: Sandbox) -> None:
    async with run(sandbox):
        pass
    process = await one()
    async with run(sandbox) as first, run(sandbox) as second:
        assert first.pid == process.pid != second.pid
        assert [text_of(await kernel.execute("1 + 1")) for kernel in (first, second)] == ["2", "2"]


async def test_it_is_there_after_warm(pool: TemplatePool) -> None:
    rlm = RLM(ScriptedModel(["```repl\nimport os\nFINAL(os.getpid())\n```"]), sandbox="none", save=False)
    rlm.warm()
    process = await one()
    template_pool.expect_no_next_run()
    assert (await rlm.acompletion("Which?", "text")).answer == str(process.pid)
    rlm.warm()
    assert not ready(pool)


async def test_there_is_one_at_a_time(tmp_path: Path, pool: TemplatePool) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        chosen = Templates()
        chosen.warm(chosen.environment(None, tmp_path / name, None, Sandbox("none")))
    [template] = ready(pool)
    assert template.environment.cwd == tmp_path / "b"

    def places() -> list[str]:
        with contextlib.suppress(psutil.NoSuchProcess):  # one ends as it is looked at
            return [Path(process.cwd()).name for process in waiting()]
        return []

    async with asyncio.timeout(_SECONDS):
        while places() != ["b"]:
            await asyncio.sleep(0.01)


async def test_one_that_has_died_is_not_taken(sandbox: Sandbox) -> None:
    async with run(sandbox):
        pass
    process = await one()
    process.kill()
    psutil.wait_procs([process], timeout=_SECONDS)
    async with run(sandbox) as kernel:
        assert kernel.pid != process.pid
        assert kernel.is_forked
        assert text_of(await kernel.execute("1 + 1")) == "2"


async def test_one_whose_folder_is_another_by_now_is_not_taken(tmp_path: Path) -> None:
    async with run(Sandbox("none")):
        pass
    process = await one()
    tmp_path.rename(tmp_path.with_name("before"))
    tmp_path.mkdir()
    os.chdir(tmp_path)
    (tmp_path / "file").touch()
    async with run(Sandbox("none")) as kernel:
        assert kernel.pid != process.pid
        assert text_of(await kernel.execute("import os; os.listdir()")) == "['file']"
    shutil.rmtree(tmp_path.with_name("before"))


async def test_one_that_nobody_takes_ends_and_one_that_is_taken_does_not(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm_jupyter.kernel.template.IDLE_SECONDS", 5)
    async with run(sandbox):
        pass
    process = await one()
    async with run(sandbox) as kernel:
        assert kernel.pid == process.pid
        await asyncio.sleep(6)
        assert text_of(await kernel.execute("1 + 1")) == "2"
    process = await one()
    assert not psutil.wait_procs([process], timeout=_SECONDS)[1]
    async with run(sandbox) as kernel:
        assert text_of(await kernel.execute("1 + 1")) == "2"


async def test_one_that_has_ended_makes_room_for_another(monkeypatch: pytest.MonkeyPatch, pool: TemplatePool) -> None:
    monkeypatch.setattr("rlm_jupyter.kernel.template.IDLE_SECONDS", 5)
    chosen = Templates()
    wanted = chosen.environment(None, Path.cwd(), None, Sandbox("none"))
    chosen.warm(wanted)
    process = await one()
    [template] = ready(pool)
    assert template._ready is not None
    folder = template._ready._made.result().directory.path
    assert not psutil.wait_procs([process], timeout=_SECONDS)[1]
    monkeypatch.setattr("rlm_jupyter.kernel.template.IDLE_SECONDS", 300)
    async with asyncio.timeout(_SECONDS):
        while folder.exists():
            chosen.warm(wanted)
            await asyncio.sleep(0.05)
    assert (await one()).pid != process.pid


async def test_one_that_is_discarded_before_it_is_there_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, pool: TemplatePool
) -> None:
    monkeypatch.setattr(ready_kernel, "_END_SECONDS", 0.0)  # it takes longer to come than anybody waits
    chosen = Templates()
    chosen.warm(chosen.environment(None, Path.cwd(), None, Sandbox("none")))
    [template] = ready(pool)
    waits = template._ready
    assert waits is not None
    assert not waits.is_there
    template.drop_ready()
    kernel = waits._made.result(_SECONDS)
    async with asyncio.timeout(_SECONDS):
        while kernel.directory.path.exists():
            await asyncio.sleep(0.01)
    assert not psutil.pid_exists(kernel.process.kernel_pid)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_run_has_its_answer_where_no_thread_can_be_started_for_it(
    is_kept: bool, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("rlm_jupyter.kernel.template.ReadyKernel", none)
    rlm = RLM(ScriptedModel(["```repl\nFINAL(1)\n```"]), sandbox=sandbox, save=False)
    with rlm.completion("What?", "text", keep_kernel=is_kept) as result:
        assert result.value == 1


async def test_a_template_that_has_died_is_put_away_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, pool: TemplatePool
) -> None:
    async with run(Sandbox("none")):
        pass
    await one()
    [template] = ready(pool)
    threads: list[threading.Thread] = []
    close = Template.close

    def slowly(template: Template) -> None:
        threads.append(threading.current_thread())
        close(template)

    monkeypatch.setattr(Template, "close", slowly)
    psutil.Process(template._launcher.pid).kill()
    async with asyncio.timeout(_SECONDS):
        while not template.has_ended:
            await asyncio.sleep(0.01)
    async with run(Sandbox("none")) as kernel:
        assert kernel.is_forked
    assert threads
    assert threads[0] is not threading.main_thread()


async def test_a_template_whose_kernels_are_its_children_is_claimed_by_no_run(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[bool] = []
    say = Template._say

    def noted(template: Template, *, claimed: bool) -> None:
        said.append(claimed)
        say(template, claimed=claimed)

    monkeypatch.setattr(Template, "_say", noted)
    for _ in range(2):
        async with run(sandbox):
            pass
        await one()
    assert said == ([False, True, False] if sandbox.kind == "bwrap" else [])


async def test_one_that_is_old_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_kernel, "_LATEST_SECONDS", -1.0)
    async with run(Sandbox("none")):
        pass
    process = await one()
    async with run(Sandbox("none")) as kernel:
        assert kernel.pid != process.pid
        assert not psutil.wait_procs([process], timeout=_SECONDS)[1]


async def test_a_run_that_is_cancelled_while_it_waits_for_it_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, pool: TemplatePool
) -> None:
    forked: list[ForkedKernel] = []
    began, may_go = asyncio.Event(), asyncio.Event()
    loop, fork = asyncio.get_running_loop(), Template.fork

    async def slowly(template: Template, idle_seconds: int = 0) -> ForkedKernel:
        made = await fork(template, idle_seconds)
        if idle_seconds:
            forked.append(made)
            loop.call_soon_threadsafe(began.set)
            while not may_go.is_set():
                await asyncio.sleep(0.01)
        return made

    monkeypatch.setattr(Template, "fork", slowly)
    chosen = Templates()
    chosen.warm(chosen.environment(None, Path.cwd(), None, Sandbox("none")))
    await asyncio.wait_for(began.wait(), _SECONDS)
    starting = asyncio.create_task(Kernel.start(Answerer(), sandbox=Sandbox("none"), templates=chosen))
    await asyncio.sleep(0.1)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    may_go.set()
    [kernel] = forked
    async with asyncio.timeout(_SECONDS):
        while kernel.directory.path.exists():
            await asyncio.sleep(0.01)
    assert not psutil.pid_exists(kernel.process.kernel_pid)
    pool.has_next_run = False  # else another is forked as slowly, when this loop is gone
    await chosen.close()


@pytest.mark.parametrize("lacks", ["memory", "templates"])
async def test_none_waits_where_memory_is_short_or_kernels_are_not_forked(
    lacks: str, monkeypatch: pytest.MonkeyPatch, pool: TemplatePool
) -> None:
    if lacks == "memory":
        monkeypatch.setattr(template_pool, "_LEAST_MEMORY", 10**18)
    else:
        monkeypatch.setenv(templates.VARIABLE, "0")
    async with run(Sandbox("none")):
        pass
    assert not ready(pool)


async def test_one_that_waits_is_given_a_large_text(monkeypatch: pytest.MonkeyPatch, pool: TemplatePool) -> None:
    from rlm_jupyter.run.context import Context

    monkeypatch.setattr(shared_texts, "LARGE_TEXT", 10)
    chosen = Templates()
    chosen.warm(chosen.environment(None, Path.cwd(), None, Sandbox("none")))
    process = await one()
    context = Context("x" * 100)
    kernel = await Kernel.start(Answerer(), sandbox=Sandbox("none"), templates=chosen, context=context)
    assert kernel.pid == process.pid
    await kernel.set_context(context)
    assert text_of(await kernel.execute("len(context)")) == "100"
    assert "memfd:rlm_text" in Path(f"/proc/{process.pid}/maps").read_text()
    await kernel.close()
    await chosen.close()


async def test_a_pool_that_closes_ends_it(sandbox: Sandbox, pool: TemplatePool) -> None:
    before = set(psutil.Process().children(recursive=True))  # what serves other tests
    async with run(sandbox):
        pass
    process = await one()
    pool.close()
    assert not psutil.wait_procs([process], timeout=_SECONDS)[1]
    assert not set(psutil.Process().children(recursive=True)) - before


HOST = """
import sys, time
from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
RLM(ScriptedModel([]), sandbox=sys.argv[1], save=False).warm()
print("warm", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["killed", "ended"])
async def test_it_ends_with_its_host(how: str, sandbox: Sandbox) -> None:
    words = [sys.executable, "-c", HOST, sandbox.kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin is not None
        until = time.monotonic() + _SECONDS
        while not waiting(host.pid):
            assert time.monotonic() < until
            await asyncio.sleep(0.01)
        below = psutil.Process(host.pid).children(recursive=True)
        if how == "killed":
            host.send_signal(signal.SIGKILL)
        else:
            host.stdin.close()
        host.wait(_SECONDS)
        assert not psutil.wait_procs(below, timeout=_SECONDS)[1]


async def test_what_is_wrong_with_the_template_is_said_to_the_run_that_takes_it() -> None:
    chosen = Templates(["no_such_module_anywhere"])
    chosen.warm(chosen.environment(None, Path.cwd(), None, Sandbox("none")))
    with pytest.raises(ConfigurationError, match="no_such_module_anywhere"):
        await Kernel.start(Answerer(), sandbox=Sandbox("none"), templates=chosen)
    await chosen.close()


async def test_what_was_wrong_when_it_was_forked_is_no_matter_of_a_later_run(
    monkeypatch: pytest.MonkeyPatch, pool: TemplatePool
) -> None:
    def full(*args: object, **options: object) -> None:
        raise KernelStartError(os.strerror(errno.ENOSPC))

    chosen = Templates()
    with monkeypatch.context() as patched:
        patched.setattr("rlm_jupyter.kernel.template.own_directories", full)
        chosen.warm(chosen.environment(None, Path.cwd(), None, Sandbox("none")))
        [template] = ready(pool)
        assert template._ready is not None
        with pytest.raises(KernelStartError, match="No space left"):
            template._ready._made.result(_SECONDS)
    async with run(Sandbox("none"), chosen) as kernel:
        assert kernel.is_forked
        assert text_of(await kernel.execute("1 + 1")) == "2"
