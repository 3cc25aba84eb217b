"""Kernels that die and go on in a fork of theirs: real kernels, real deaths; nothing is lost but the cell's own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits, Result, Sandbox
from rlm_jupyter.frontends.cli.parser import parsed
from rlm_jupyter.kernel import supervisor, template_pool
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.run.context import Context
from rlm_jupyter.types.errors import ConfigurationError
from tests.faults.runs import block
from tests.faults.test_death import Slow, notices
from tests.runs.test_magics import shell as shell
from tests.runs.test_resume import Counting, cut
from tests.runs.test_resume import in_folder as in_folder
from tests.support.examples import one_in
from tests.support.sandboxes import need_bwrap
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not supervisor.can_fork_live(), reason="kernels are forked on Linux"),
]

KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
DEATHS = [KILL, "import os; os._exit(3)", "import ctypes; ctypes.string_at(0)"]
HELD = (
    "n = 0; lazy = (i for i in range(10_000)); thing = type('Thing', (), {'rows': []})(); file = open('/usr/bin/env', 'rb', 0)\n"
    "import asyncio, threading; lock = threading.Lock(); ticks = []\n"
    "async def tick():\n    while True: ticks.append(1); llm_query('from a task') if asleep else None; await asyncio.sleep(0.01)\n"
    "asleep = False; task = asyncio.create_task(tick())"
)


async def run(*replies: str | Callable[[], str], **options: Any) -> Result:
    rlm = RLM(Slow(replies), limits=options.pop("limits", Limits()), save=False, insurance=True, **options)
    return await rlm.acompletion("What?", "0123456789")


async def insured(kernel: Kernel, source: str, moment: tuple[int, int] = (1, 0)) -> None:
    """Execute it, and wait until a fork is kept."""
    assert (await kernel.execute(source)).status == "ok"
    kernel.forks.insure(moment)
    await kernel.forks.insurance.settled()


@pytest.mark.parametrize(
    ("kind", "is_forked"), one_in(4, [("bwrap", True), ("bwrap", False), ("none", True), ("none", False)])
)
async def test_many_deaths_lose_nothing_but_the_cells_own(kind: Any, is_forked: bool) -> None:
    if kind == "bwrap":
        need_bwrap()
    templates, answerer = Templates(are_used=is_forked), Answerer()
    template_pool.current().close()  # a kernel that waits for the next run may be on its way
    before = set(psutil.Process().children(recursive=True))
    kernel = await Kernel.start(answerer, sandbox=Sandbox(kind), templates=templates, insurance=True)
    try:
        await kernel.set_context(Context("0123456789"))
        await insured(kernel, HELD)
        for times in range(1, 7):
            await insured(kernel, "n += 1; next(lazy); thing.rows.append(n); file.read(1)", (times, 0))
            dying = asyncio.create_task(
                kernel.execute(f"n = 'lost'; file.read(1); thing.rows.append('lost'); {DEATHS[times % 3]}")
            )
            assert (await dying).status == "died"
            spare = await kernel.forks.revive()
            assert spare is not None
            assert spare.position == (times, 0)
            shown = text_of(
                await kernel.execute("n, next(lazy), len(thing.rows), file.tell(), len(context), lock.locked()")
            )
            assert shown == str((times, 2 * times - 1, times, times, 10, False))
        assert text_of(await kernel.execute("llm_query('still')")) == "'echo still'"
        running = asyncio.create_task(kernel.execute("import time; time.sleep(60)"))
        await asyncio.sleep(0.5)
        await kernel.interrupt()
        assert (await asyncio.wait_for(running, 30)).status == "interrupted"
        many = [process for process in psutil.Process().children(recursive=True) if process not in before]
    finally:
        await kernel.close()
        await templates.close()
    left = sorted(process.name() for process in psutil.wait_procs(many, timeout=20)[1])
    # the template of runs to come, and what it is in
    assert left in ([], ["rlm-template"], ["bwrap", "bwrap", "rlm-template"])


async def test_a_fork_that_is_kept_does_nothing(tmp_path: Path) -> None:
    answerer = Answerer()
    kernel = await Kernel.start(answerer, templates=Templates(are_used=False), insurance=True)
    try:
        await kernel.execute(HELD)
        await insured(kernel, "asleep = True")
        await kernel.execute("asleep = False; task.cancel(); before = len(ticks)")
        asked = len(answerer.calls)
        await asyncio.sleep(1)
        assert len(answerer.calls) == asked
        # two deaths in a row: it was kept again
        for _ in range(2):
            assert (await kernel.execute(KILL)).status == "died"
            assert await kernel.forks.revive() is not None
    finally:
        await kernel.close()


async def test_the_model_is_told_that_this_cell_alone_is_lost() -> None:
    result = await run(
        block("rows = [1]", "lazy = (i for i in rows)"),
        block("rows.append('lost')", KILL),
        block("print(rows, next(lazy))", "rows.append(2)"),
        block("1/0"),
        block(KILL),
        "FINAL(rows)",  # in prose, a name counts as the variable where there is one
    )
    assert (result.value, result.stop_reason) == ([1, 2], "answered")
    told = "The kernel died while it executed this cell. It goes on as it was after iteration {}: what was done in it since then is lost, and nothing else. Variables, imports and open files are there: rows, lazy."
    assert notices(result).splitlines() == [told.format("1"), told.format("3")]
    assert result.trajectory.iterations[2].cells[0].outputs[0]["text"] == "[1] 1\n"


async def test_a_kernel_that_dies_in_its_first_cell_goes_on_too() -> None:
    result = await run(block("x = 1") + "\n" + block(KILL), block("FINAL(len(context))"))
    assert result.answer == "10"
    assert "It goes on as it was after iteration 1: " in notices(result)
    result = await run(block(KILL), block("FINAL(len(context))"))
    assert result.answer == "10"
    assert "It goes on as it was before your first cell: " in notices(result)


async def test_where_no_fork_is_possible_the_kernel_starts_empty_and_the_model_is_told() -> None:
    thread = "import threading; go = threading.Event(); threading.Thread(target=go.wait, daemon=True).start()"
    result = await run(block("a = 1"), block(f"b = 2; {thread}"), block(KILL), block("print(a)"), block("FINAL(a)"))
    assert result.answer == "1"
    assert "as it was after iteration 1" in notices(result)
    assert "Gone: " in notices(result)
    result = await run(block(f"b = 2; {thread}"), block("c = 3"), block(KILL), block("FINAL('b' in globals())"))
    assert result.value is False


async def test_a_fork_that_is_gone_leaves_a_new_kernel() -> None:
    kernel = await Kernel.start(Answerer(), templates=Templates(are_used=False), insurance=True)
    try:
        await insured(kernel, "x = 1")
        spare = kernel.forks.insurance._fork
        assert spare is not None
        assert spare.process.supervised is not None
        psutil.Process(spare.process.supervised.kernel_pid).kill()
        assert (await kernel.execute(KILL)).status == "died"
        assert await asyncio.wait_for(kernel.forks.revive(), 20) is None
        await kernel.restart()
        assert text_of(await kernel.execute("'x' in globals()")) == "False"
    finally:
        await kernel.close()


async def test_a_child_keeps_its_own() -> None:
    class Parts(Slow):
        def _next(self, messages: Any) -> Any:
            if len(messages) > 1 and "`context` is a str: 6 characters" in messages[1].content:
                return [block("mine = context.upper()"), block(KILL), block("FINAL(mine)")][len(messages) // 2 - 1]
            return super()._next(messages)

    replies = [block("part = rlm_query('a part')"), block("FINAL(part)")]
    rlm = RLM(Parts(replies), limits=Limits(max_depth=2), save=False, insurance=True)
    assert (await rlm.acompletion("What?", "0123456789")).answer == "A PART"


async def test_a_run_with_deaths_is_gone_on_with_and_replayed(in_folder: Path) -> None:
    cells = [
        block("rows = [1]", "lazy = (i for i in rows)"),
        block("rows.append(2)", KILL),
        block("rows.append(3)", "print(rows, 'lazy' in globals())"),
        block(KILL),
        block("print(rows)"),
        block("FINAL(rows)"),
        block("FINAL('rows' in globals())"),
    ]
    result = await RLM(Counting(cells), sandbox="none", insurance=True).acompletion("What?", "some text")
    assert result.value == [1, 3]
    assert result.path is not None
    assert (await RLM.areplay(result.path)).differences == ()
    ends = [i for i, record in enumerate(result.trajectory.records) if type(record).__name__ == "OutputsShown"]
    for lines, asked in ((ends[2] + 1, 3), (ends[4] + 1, 1)):
        model = Counting(cells)
        path = cut(result, lines, name=f"at{lines}")
        # as an earlier version named it
        journal = path.with_suffix(".rlm") / "journal.jsonl"
        journal.write_text(journal.read_text().replace('"insurance":', '"snapshot":'))
        again = await RLM.aresume(path, model=model)
        assert (again.value, model.roots) == ([1, 3], asked)
        # what died after that went on, too
        assert [len(i.notices) for i in again.trajectory.iterations] == [0, 1, 0, 1, 0, 0]
    without = await RLM.aresume(cut(result, ends[3] + 1, name="without"), model=Counting(cells), insurance=False)
    missing = "These had come back when the kernel died, and have not come back now: rows, lazy."
    assert without.value is False
    assert missing in notices(without)


def test_it_is_an_option_everywhere_and_checked(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="insurance is True or False, not str"):
        RLM("extractive", insurance="yes")  # type: ignore[arg-type]
    assert parsed(["run", "q", "--insurance"]).insurance
    magics: Any = shell.find_magic("rlm").__self__

    def configured(line: str) -> bool:
        insurance: bool = magics.configured(magics._parse(f"-m extractive {line}", "q")[0]).settings.insurance
        return insurance

    assert (configured(""), configured("--insurance")) == (False, True)
    magics.insurance = True
    # the notebook's own kernel is not forked, and who asks for it is told
    assert (configured(""), configured("--here")) == (True, False)
    with pytest.raises(UsageError, match=r"--here runs in this notebook's kernel, .*: leave --insurance out"):
        asyncio.run(magics.rlm_here("--here --insurance -m extractive", "q"))
    monkeypatch.setattr(supervisor, "can_fork_live", lambda: False)
    with pytest.raises(ConfigurationError, match="Linux"):
        RLM("extractive", insurance=True)


async def test_where_memory_is_short_no_fork_is_kept_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = await Kernel.start(Answerer(), insurance=True)
    try:
        await insured(kernel, "n = 1")
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000))
        await insured(kernel, "n = 2", (2, 0))
        assert await kernel.forks.insurance.take_over() is None  # the one before has gone, too
    finally:
        await kernel.close()
    result = await run(block("n = 1"), block("n += 1"), block("FINAL(n)"))
    assert result.answer == "2"
    assert re.fullmatch(
        r"no copy of the kernel was kept: it has 0\.\d GB, and 0\.0 GB of memory are left", result.message
    )
