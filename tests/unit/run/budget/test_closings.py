"""Kernels of children that end when their answer is there already."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from typing import Any

import psutil
import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.budget.closings import Closings
from tests.benchmarks.scripts import reply

LIMITS = Limits(max_depth=2, max_kernels=2, cell_seconds=None)


async def test_an_answer_does_not_wait_for_its_kernel_to_end_and_the_next_kernel_and_the_run_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is one place for a child's kernel."""
    happened: list[str] = []
    ended: list[float] = []
    close, start = Kernel.close, Kernel.start

    async def slowly(kernel: Kernel) -> None:
        happened.append("ends")
        await asyncio.sleep(3.0 if happened.count("ends") == 1 else 0.1)
        await close(kernel)
        happened.append("ended")
        ended.append(time.monotonic())

    async def noted(*args: object, **options: object) -> Kernel:
        happened.append("starts")
        return await start(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "close", slowly)
    monkeypatch.setattr(Kernel, "start", noted)
    cell = "import time\na = rlm_query('1')\nanswered = time.monotonic()\nb = rlm_query('2')"
    root = ScriptedModel([reply(cell), reply("FINAL([a, b, answered])")], name="scripted/root")
    child = ScriptedModel([reply("FINAL(context)")] * 2, name="scripted/child")
    template_pool.current().close()  # a kernel that waits is nobody's
    before = set(psutil.Process().children(recursive=True))
    rlm = RLM(root, sub_model=child, limits=LIMITS, sandbox="none", warm=False, save=False)
    result = await rlm.acompletion("?", "text")
    assert isinstance(result.value, list)
    first, second, answered = result.value
    assert (first, second) == ("1", "2")
    assert answered < ended[0]  # the clock of all processes
    assert happened[:5] == ["starts", "starts", "ends", "ended", "starts"]
    assert happened[-3:] == ["ended", "ends", "ended"]  # the root's is the last
    assert {child for child in psutil.Process().children(recursive=True) if child not in before} == set()


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_a_child_without_an_answer_ends_with_its_kernel(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlm_jupyter.types.errors import ModelError

    class Failing(ScriptedModel):
        async def complete(self, *args: Any, **options: Any) -> Any:
            if how == "failed":
                raise ModelError("no such model")
            await asyncio.sleep(60)
            raise AssertionError

    root = ScriptedModel([reply("try:\n    print(rlm_query('1'))\nexcept Exception as error:\n    print(error)")] * 2)
    limits = Limits(max_depth=2, max_iterations=1, max_seconds=4.0 if how == "cancelled" else None)
    template_pool.current().close()  # a kernel that waits is nobody's
    before = set(psutil.Process().children(recursive=True))
    rlm = RLM(root, sub_model=Failing([], name="scripted/child"), limits=limits, sandbox="none", warm=False, save=False)
    result = await rlm.acompletion("?", "text")
    assert result.stop_reason != "answered"
    assert set(psutil.Process().children(recursive=True)) <= before


async def test_what_can_not_be_closed_is_logged_and_the_rest_is(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[str] = []

    async def fails() -> None:
        raise OSError("no")

    async def closes() -> None:
        await asyncio.sleep(0.05)
        closed.append("closed")

    closings = Closings()
    for how in (fails, closes, fails):
        stack = AsyncExitStack()
        stack.push_async_callback(how)
        closings.begin(stack)
    finishing = asyncio.create_task(closings.finish())
    await asyncio.sleep(0)
    finishing.cancel()
    with caplog.at_level(logging.ERROR), pytest.raises(asyncio.CancelledError):
        await finishing
    assert closed == ["closed"]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["no", "no"]
    await closings.finish()


async def test_what_is_cancelled_before_it_begins_is_closed_all_the_same() -> None:
    """As happens when an event loop is closed."""
    closed: list[str] = []

    async def closes() -> None:
        closed.append("closed")

    closings, stack = Closings(), AsyncExitStack()
    stack.push_async_callback(closes)
    before = asyncio.all_tasks()
    closings.begin(stack)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.sleep(0)
    await closings.finish()
    assert closed == ["closed"]
