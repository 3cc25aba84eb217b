"""A kernel that waits for the next run where none can be forked, as on macOS: real processes, started anew."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from rlm_jupyter import RLM, Sandbox
from rlm_jupyter.kernel import ready_kernel, template_pool, templates
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.template_pool import TemplatePool
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import KernelStartError
from tests.unit.kernel.conftest import Answerer, children
from tests.unit.kernel.test_kernel import text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="none waits there"),
    pytest.mark.usefixtures("pool"),
]

_SECONDS = 20.0
_ARE_POSSIBLE = templates.are_possible


@pytest.fixture(autouse=True)
def _no_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "are_possible", lambda: False)


@contextlib.asynccontextmanager
async def run(sandbox: Sandbox, *, are_used: bool = True) -> AsyncIterator[Kernel]:
    """The kernel of a run."""
    chosen = Templates(are_used=are_used)
    kernel = await Kernel.start(Answerer(), sandbox=sandbox, templates=chosen)
    try:
        yield kernel
    finally:
        await kernel.close()
        await chosen.close()


async def waiting(pool: TemplatePool) -> KernelProcess:
    """The kernel that waits, once it is there."""
    assert pool.launched is not None
    process: KernelProcess = await asyncio.wrap_future(pool.launched._made)
    return process


def pid(process: KernelProcess) -> int:
    return process.pid if process.supervised is None else process.supervised.kernel_pid


async def gone(processes: list[psutil.Process]) -> None:
    assert not (await asyncio.to_thread(psutil.wait_procs, processes, _SECONDS))[1]


async def test_the_next_run_takes_the_one_that_waits(sandbox: Sandbox, pool: TemplatePool) -> None:
    async with run(sandbox) as kernel:
        assert not kernel.is_forked
        assert text_of(await kernel.execute("x = 1; x")) == "1"
        assert pool.launched is None  # none while a run is under way
        first = kernel.pid
    process = await waiting(pool)
    assert pid(process) != first
    async with run(sandbox) as kernel:
        assert kernel._connection.process is process
        assert pool.launched is None
        assert (await kernel.execute("x")).outputs[-1]["ename"] == "NameError"
        assert text_of(await kernel.execute("llm_query('a')")) == "'echo a'"
        assert (await kernel.execute("import os; os._exit(3)")).status == "died"
        await kernel.restart()
        assert text_of(await kernel.execute("1 + 1")) == "2"
    assert (await waiting(pool)) is not process


async def test_two_runs_at_once_take_one_each(sandbox: Sandbox, pool: TemplatePool) -> None:
    async with run(sandbox):
        pass
    process = await waiting(pool)
    async with run(sandbox) as first, run(sandbox) as second:
        assert first._connection.process is process
        assert second._connection.process is not process
        assert [text_of(await kernel.execute("1 + 1")) for kernel in (first, second)] == ["2", "2"]
    assert pool.launched is not None


async def test_it_is_there_after_warm(pool: TemplatePool) -> None:
    rlm = RLM(ScriptedModel(["```repl\nimport os\nFINAL(os.getpid())\n```"]), sandbox="none", save=False)
    rlm.warm()
    process = await waiting(pool)
    rlm.warm()
    assert await waiting(pool) is process
    template_pool.expect_no_next_run()
    assert (await rlm.acompletion("Which?", "text")).answer == str(pid(process))
    assert pool.launched is None


@pytest.mark.parametrize("why", ["another sandbox", "another folder", "it has ended", "its time is over"])
async def test_one_that_is_not_what_is_needed_is_not_taken(
    why: str, tmp_path: Path, pool: TemplatePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    sandbox = Sandbox("none")
    async with run(sandbox):
        pass
    process = await waiting(pool)
    process_below = psutil.Process(pid(process))
    if why == "another sandbox":
        sandbox = Sandbox("none", memory=10**10)
    elif why == "another folder":
        (tmp_path / "here").rename(tmp_path / "there")
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
    elif why == "it has ended":
        process_below.kill()
        while not process.has_ended:
            await asyncio.sleep(0.01)
    else:
        monkeypatch.setattr(ready_kernel, "_LATEST_SECONDS", 0.0)
    async with run(sandbox) as kernel:
        assert kernel._connection.process is not process
        assert text_of(await kernel.execute("1 + 1")) == "2"
    await gone([process_below])


async def test_it_has_the_variables_that_its_run_is_to_have(
    pool: TemplatePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = "import os; os.environ.get('TZ')"
    monkeypatch.delenv("TZ", raising=False)
    async with run(Sandbox("none")):
        monkeypatch.setenv("TZ", "Asia/Tokyo")  # as the run ends
    process = await waiting(pool)
    monkeypatch.delenv("TZ")
    async with run(Sandbox("none")) as kernel:
        assert kernel._connection.process is process
        assert text_of(await kernel.execute(look)) == ""
    process = await waiting(pool)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    async with run(Sandbox("none")) as kernel:
        assert kernel._connection.process is not process
        assert text_of(await kernel.execute(look)) == "'Asia/Tokyo'"


async def test_where_none_comes_up_none_waits(pool: TemplatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Templates()
    with monkeypatch.context() as patched:
        patched.setattr("rlm_jupyter.kernel.command._GUEST", "rlm_jupyter.no_such_guest")
        with pytest.raises(KernelStartError):
            await Kernel.start(Answerer(), sandbox=Sandbox("none"), templates=chosen)
    await chosen.close()
    assert pool.launched is None
    assert not pool.runs


async def test_closed_twice_it_is_started_once(pool: TemplatePool) -> None:
    chosen = Templates()
    kernel = await Kernel.start(Answerer(), sandbox=Sandbox("none"), templates=chosen)
    for _ in range(2):
        await kernel.close()
        await chosen.close()
        if (waits := pool.launched) is not None:
            pool.launched = None
            waits.discard()
    assert pool.launched is None


@pytest.mark.parametrize("how", ["memory", "turned off", "anew", "no next run", "they can be forked"])
async def test_none_waits(how: str, pool: TemplatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "memory":
        monkeypatch.setattr(template_pool, "_LEAST_MEMORY", 10**18)
    elif how == "turned off":
        monkeypatch.setenv(templates.VARIABLE, "0")
    elif how == "no next run":
        template_pool.expect_no_next_run()
    elif how == "they can be forked":
        if not _ARE_POSSIBLE():
            pytest.skip("not here")
        monkeypatch.setattr(templates, "are_possible", _ARE_POSSIBLE)
    async with run(Sandbox("none"), are_used=how != "anew") as kernel:
        assert kernel.is_forked is (how == "they can be forked")
    assert pool.launched is None


async def test_where_templates_have_failed_one_waits_too(pool: TemplatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "are_possible", _ARE_POSSIBLE)
    chosen = Templates()
    environment = chosen.environment(None, Path.cwd(), None, Sandbox("none"))
    pool.failures[environment] = template_pool.ATTEMPTS
    async with run(Sandbox("none")):
        pass
    process = await waiting(pool)
    async with run(Sandbox("none")) as kernel:
        assert kernel._connection.process is process


async def test_it_ends_after_its_time_and_with_the_pool(
    sandbox: Sandbox, pool: TemplatePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(children())
    async with run(sandbox):
        pass
    await waiting(pool)
    mine = [process for process in children() if process not in before]
    assert mine
    pool.close()
    await gone(mine)
    monkeypatch.setattr(ready_kernel, "IDLE_SECONDS", 0.5)
    async with run(sandbox):
        pass
    await waiting(pool)
    mine = [process for process in children() if process not in before]
    await gone(mine)
    assert pool.launched is not None
    assert pool.launched.is_spent
    assert (await waiting(pool)).has_ended


async def test_one_that_can_not_be_started_is_no_matter(pool: TemplatePool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(environment: object) -> KernelProcess:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        async with run(Sandbox("none")):
            patched.setattr(KernelProcess, "anew", fail)
        assert pool.launched is not None
        with pytest.raises(OSError, match="no room"):
            await waiting(pool)
    async with run(Sandbox("none")) as kernel:
        assert text_of(await kernel.execute("1 + 1")) == "2"


def test_a_process_that_exits_leaves_none() -> None:
    script = (
        "from rlm_jupyter import RLM\nfrom rlm_jupyter.kernel import templates\n"
        "from rlm_jupyter.models.scripted import ScriptedModel\ntemplates.are_possible = lambda: False\n"
        "rlm = RLM(ScriptedModel(['```repl\\nimport os\\nFINAL(os.getpid())\\n```'] * 2), sandbox='none', save=False)\n"
        "print(rlm.completion('?', 'text').answer)\nfrom rlm_jupyter.kernel import template_pool\n"
        "made = template_pool.current().launched._made.result(30)\nprint(made.supervised.kernel_pid if made.supervised else made.pid)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert not done.stderr
    for each in done.stdout.split():
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(each)).wait(_SECONDS)
