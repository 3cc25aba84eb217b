"""Templates inside sandboxes that several runs share: each run is as alone as with one of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import psutil
import pytest

from rlm_jupyter import RLM, Limits, Sandbox
from rlm_jupyter.kernel import template_group
from rlm_jupyter.kernel import templates as templates_module
from rlm_jupyter.kernel.forked_kernel import KernelEnvironment
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.template_group import TemplateGroup
from rlm_jupyter.kernel.template_pool import TemplatePool
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.models.scripted import ScriptedModel
from tests.support.sandboxes import need_bwrap
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of

pytestmark = pytest.mark.skipif(not templates_module.are_possible(), reason="kernels are forked on Linux")

BOXED = Sandbox("bwrap")
_GONE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def boxed(pool: TemplatePool) -> None:
    need_bwrap()


@pytest.fixture
async def group() -> AsyncIterator[TemplateGroup]:
    made = TemplateGroup()
    yield made
    made.close()


class OneRun:
    """The kernel of a run that shares its template with others."""

    def __init__(self, group: TemplateGroup) -> None:
        self.templates = Templates(group=group)

    async def __aenter__(self) -> OneRun:
        self.kernel = await Kernel.start(Answerer(), sandbox=BOXED, templates=self.templates)
        assert self.kernel.is_forked, self.templates.problem
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kernel.close()
        await self.templates.close()

    async def text(self, source: str) -> str:
        return text_of(await self.kernel.execute(source))

    @property
    def template(self) -> Template:
        [template] = self.templates._own.values()
        return template


def below() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def is_gone(template: Template) -> bool:
    until = time.monotonic() + _GONE_SECONDS
    while not (gone := template.has_ended) and time.monotonic() < until:
        time.sleep(0.05)
    return gone


async def test_no_run_sees_what_another_one_has(group: TemplateGroup) -> None:
    leave = (
        "import os, subprocess, pathlib\nsecret = 'of the first'; os.environ['SECRET'] = secret\n"
        "for folder in ('/tmp', '/dev/shm', os.path.expanduser('~'), '.'):\n"
        "    pathlib.Path(folder, 'left').write_text(secret)\n"
        "sleeping = subprocess.Popen(['sleep', '300'])\nos.getpid()"
    )
    look = (
        "import glob, os, pathlib\n"
        "found = [str(pathlib.Path(folder, 'left')) for folder in ('/tmp', '/dev/shm', os.path.expanduser('~'), '.')\n"
        "         if pathlib.Path(folder, 'left').exists()]\n"
        "others = [pathlib.Path(path).read_text() for path in glob.glob('/proc/[0-9]*/comm')]\n"
        "found, 'secret' in globals(), 'SECRET' in os.environ, 'sleep\\n' in others, len(others) < 6"
    )
    async with OneRun(group) as one, OneRun(group) as other:
        shared = one.template
        assert other.template is shared
        await one.text(leave)
        assert await other.text(look) == "([], False, False, False, True)"
    async with OneRun(group) as later:
        assert later.template is shared
        assert await later.text(look) == "([], False, False, False, True)"


async def test_a_template_serves_so_many_at_a_time_and_rests_before_it_ends(
    group: TemplateGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_group, "_MOST_RUNS", 2)
    async with OneRun(group) as one, OneRun(group) as two, OneRun(group) as three:
        first, second = one.template, three.template
        assert two.template is first
        assert second is not first
    assert not first.has_ended
    monkeypatch.setattr(template_group, "_REST_SECONDS", 0.0)
    async with OneRun(group) as later:
        assert later.template in (first, second)
        assert await later.text("1 + 1") == "2"
    await asyncio.sleep(0.1)
    assert is_gone(first)
    group.close()
    assert is_gone(second)


async def test_where_a_template_gives_one_run_no_kernel_the_others_keep_theirs(group: TemplateGroup) -> None:
    async with OneRun(group) as one, OneRun(group) as other:
        failed = one.template
        one.templates._give_up(failed)
        one.templates._give_up(failed)  # two kernels of this run at once
        assert await other.text("x = 1; x") == "1"
        async with OneRun(group) as later:
            assert later.template is not failed
        assert await other.text("x") == "1"
        assert not failed.has_ended
    assert is_gone(failed)


async def test_where_a_template_is_killed_its_runs_take_another(group: TemplateGroup) -> None:
    async with OneRun(group) as one, OneRun(group) as other:
        killed = one.template
        assert killed._launcher.pid is not None
        os.kill(killed._launcher.pid, signal.SIGKILL)
        assert is_gone(killed)
        for each in (one, other):
            await each.kernel.restart()
            assert await each.text("2 * 3") == "6"
            assert each.template is not killed
        assert one.template is other.template


def test_the_items_of_a_batch_share_one_and_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Template] = []
    begin = Template.__init__

    def noted(self: Template, environment: KernelEnvironment) -> None:
        made.append(self)
        begin(self, environment)

    monkeypatch.setattr(Template, "__init__", noted)
    before = below()
    answer = "```repl\nprint(context)\n```", "```repl\nFINAL(context.upper())\n```"
    model = ScriptedModel([lambda messages: answer[any(m.role == "assistant" for m in messages)]] * 24, latency=0.2)
    rlm = RLM(model, sandbox=BOXED, limits=Limits(max_kernels=6))
    rows = rlm.batch([{"word": f"w{n}"} for n in range(12)], prompt="?", context="word", out="r.jsonl", concurrency=6)
    assert sorted(str(row.answer) for row in rows.rows) == sorted(f"W{n}" for n in range(12))
    assert len(made) == 1
    assert is_gone(made[0])
    until = time.monotonic() + _GONE_SECONDS
    while (left := below() - before) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
