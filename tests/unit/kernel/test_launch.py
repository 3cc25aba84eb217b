"""How many kernels of a run come up at the same time."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.launch import place_of
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.kernel.template_group import TemplateGroup
from rlm_jupyter.kernel.templates import Templates
from tests.unit.kernel.conftest import Answerer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("pool")]


class Watched:
    """Counts the kernels that come up at the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.most = 0
        come_up = Connection.come_up

        async def watched(connection: Connection) -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await come_up(connection)
            finally:
                self.now -= 1

        monkeypatch.setattr(Connection, "come_up", watched)


async def start_all(chosen: list[Templates]) -> None:
    kernels = await asyncio.gather(
        *(Kernel.start(Answerer(), sandbox=NO_SANDBOX, templates=templates) for templates in chosen)
    )
    for kernel in kernels:
        await kernel.close()


@pytest.mark.parametrize("are_used", [True, False], ids=["forked", "anew"])
async def test_few_kernels_of_a_run_come_up_at_once(are_used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    watched, templates = Watched(monkeypatch), Templates(are_used=are_used)
    await start_all([templates] * 5)
    assert watched.most == 2
    await templates.close()


async def test_the_runs_of_a_batch_share_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    watched, group = Watched(monkeypatch), TemplateGroup()
    runs = [Templates(group=group) for _ in range(5)]
    await start_all(runs)
    assert watched.most == 2
    for templates in runs:
        await templates.close()
    group.close()


async def test_a_start_that_is_cancelled_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    templates = Templates()
    never = asyncio.Event()

    async def stuck(connection: Connection) -> None:
        try:
            await never.wait()
        except BaseException:
            await connection.close("it was cancelled")
            raise

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "come_up", stuck)
        starting = [
            asyncio.create_task(Kernel.start(Answerer(), sandbox=NO_SANDBOX, templates=templates)) for _ in range(3)
        ]
        await asyncio.sleep(0.5)
        for task in starting:
            task.cancel()
        await asyncio.wait(starting)
    async with asyncio.timeout(30):
        await start_all([templates] * 3)
    await templates.close()


async def test_a_kernel_by_itself_and_one_in_a_container_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    templates = Templates()
    launches: list[dict[str, Any]] = [
        {"sandbox": NO_SANDBOX, "templates": None},
        {"sandbox": Sandbox("docker", image="rlm"), "templates": templates},
    ]
    for launch in launches:
        async with asyncio.timeout(5), place_of(launch), place_of(launch), place_of(launch):
            assert not templates.places.locked()
    async with place_of({"templates": templates}), place_of({"templates": templates}):
        assert templates.places.locked()
