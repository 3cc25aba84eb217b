"""A real kernel for each test, or each file, and somebody who answers its sub-calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.template_pool import TemplatePool
from rlm_jupyter.types.values import Subcall, SubcallFailure
from tests.support.sandboxes import need_bwrap


class Answerer:
    """Answers `echo PROMPT`; `fail` fails, `wait` waits until it is cancelled."""

    def __init__(self) -> None:
        self.calls: list[Subcall] = []
        self.cancelled = 0

    async def __call__(self, call: Subcall) -> list[str | SubcallFailure]:
        self.calls.append(call)
        try:
            if "wait" in call.prompts:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [SubcallFailure("it failed") if p == "fail" else f"echo {p}" for p in call.prompts]


@pytest.fixture
def answerer() -> Answerer:
    return Answerer()


@pytest.fixture(params=["none", "bwrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "bwrap":
        need_bwrap()
    return Sandbox(request.param)


_others: set[int] = set()
"""The processes that were there when a test's pool was made: a server of other tests has kernels that wait, too."""


def children() -> list[psutil.Process]:
    """The processes that the test has brought about."""
    return [child for child in psutil.Process().children(recursive=True) if child.pid not in _others]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TemplatePool]:
    """A pool of the test's own, and a folder: its kernels have an environment that no others have."""
    monkeypatch.chdir(tmp_path)
    template_pool.current().close()  # those of other tests
    _others.clear()
    _others.update(child.pid for child in psutil.Process().children(recursive=True))
    made = TemplatePool()
    monkeypatch.setattr(template_pool, "_pool", made)
    yield made
    made.close()


@pytest.fixture
async def kernel(answerer: Answerer) -> AsyncIterator[Kernel]:
    started = await Kernel.start(answerer)
    yield started
    await started.close()


# for files whose tests do no harm to a kernel; they take `begun` as their `kernel`, on the loop of the module


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting() -> AsyncIterator[Kernel]:
    started = await Kernel.start(Answerer())
    yield started
    await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def begun(lasting: Kernel, answerer: Answerer) -> Kernel:
    """The kernel of all tests of a file, with nothing in it of those before."""
    lasting._subcalls._answer = answerer
    left = [variable.name for variable in (await lasting.inspect()).variables]
    if left:
        await lasting.execute(f"del {', '.join(left)}")
    await lasting.begin()
    await lasting.inspect()  # it forgets its notices
    return lasting
