"""Large texts that the kernels of a run share: what is one copy, who has it, and what becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ipykernel._version import version_info

from rlm_jupyter import Sandbox
from rlm_jupyter.kernel import templates as templates_module
from rlm_jupyter.kernel.guest import held_text
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.kernel.text_template import TextTemplate
from rlm_jupyter.run.context import Context
from rlm_jupyter.types.utf8 import is_ascii, utf8
from rlm_jupyter.types.values import PackedContext, SubcallFailure
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of
from tests.unit.kernel.test_templates import _GONE_SECONDS, below

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not templates_module.are_possible(), reason="kernels are forked on Linux"),
    pytest.mark.usefixtures("pool"),
]

MB = 1_000_000
SIZE = 64 * MB
_LOOK = (
    "import hashlib\nprint(hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest(), len(context), "
    "type(context).__name__)"
)

_WAYS = """
import os, re
names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
found = [os.readlink(name) for name in names if os.path.lexists(name)]  # the one that listed them is closed
sorted(re.sub("[0-9]+", "", each) for each in found if "eventfd" not in each)  # of these zmq has some more or less
"""


@pytest.fixture(autouse=True)
def _large(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates_module, "LARGE_TEXT", 100_000)


def text(size: int, letter: str = "a") -> str:
    line = letter * 99 + "\n"
    return line * (size // len(line))


def seen(value: str) -> str:
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest} {len(value)} str\n"


@contextlib.asynccontextmanager
async def given(
    templates: Templates, *contexts: Context, sandbox: Sandbox, shares: bool = True, **options: Any
) -> AsyncIterator[list[Kernel]]:
    """Kernels of one run, each with its context; the first has them held."""
    kernels: list[Kernel] = []
    try:
        for index, context in enumerate(contexts):
            first = shares and not index
            answerer = options.get("answerer") or Answerer()
            kernels.append(
                await Kernel.start(answerer, sandbox=sandbox, templates=templates, context=context, shares=first)
            )
            await kernels[-1].set_context(context)
        yield kernels
    finally:
        for kernel in reversed(kernels):
            await kernel.close()
        await templates.close()


def held(templates: Templates) -> list[TextTemplate | None]:
    return list(templates._holding.values())


def private(kernel: Kernel) -> int:
    process = psutil.Process(kernel._connection.process.supervised.kernel_pid)  # type: ignore[union-attr]
    return int(process.memory_full_info().uss)


async def test_kernels_that_are_given_one_text_have_it_in_memory_once(sandbox: Sandbox) -> None:
    context, templates = Context(text(SIZE)), Templates()
    context.release()
    async with given(templates, *[context] * 4, sandbox=sandbox) as kernels:
        for kernel in kernels:
            assert text_of(await kernel.execute(_LOOK)) == seen(text(SIZE))
            assert text_of(await kernel.execute("context is context_0, context.count('b'), hash(context) != 0"))
            assert kernel._connection.process.held is context
        # what they have looked for, and what their own interpreters take
        assert all(private(kernel) < SIZE // 2 for kernel in kernels)
        everything = sum(process.memory_full_info().pss for process in below())
        assert everything < SIZE + (len(kernels) + 2) * 35 * MB
    assert held(templates) == []


@pytest.mark.parametrize(
    "value", ["é" * MB, "\ud800€\r\n" * MB, "x" * MB + "\U0001f600", "\x00" * MB, "a" * MB + "\udfff"]
)
async def test_a_text_of_any_characters_is_what_it_was(value: str) -> None:
    context, templates = Context(value), Templates()
    async with given(templates, context, sandbox=Sandbox("none")) as [kernel]:
        assert kernel._connection.process.held
        assert text_of(await kernel.execute(_LOOK)) == seen(value)
        assert text_of(await kernel.execute("import sys; sys.getsizeof(context)")) == str(sys.getsizeof(value))


@pytest.mark.parametrize(
    ("sent", "nbytes", "is_ascii", "refused"),
    [
        (b"x" * 3_000, 3_000, True, None),
        ("é€\U0001f600".encode() * 300, 2_700, False, None),
        (b"x" * 2_999 + b"\xc3", 3_000, True, ValueError),
        (b"x" * 2_999 + b"\xc3", 3_000, False, ValueError),
        (b"x" * 2_999, 3_000, True, EOFError),
        (b"x" * 3_001, 3_000, True, EOFError),
        (b"x" * 2_999, 3_000, False, EOFError),
        (b"x" * 3_001, 3_000, False, EOFError),
    ],
)
def test_a_text_is_what_was_sent_or_it_is_refused(
    sent: bytes, nbytes: int, is_ascii: bool, refused: type[Exception] | None
) -> None:
    source, writes = os.pipe()
    os.write(writes, sent)
    os.close(writes)
    with contextlib.nullcontext() if refused is None else pytest.raises(refused):
        assert held_text.read(source, nbytes, is_ascii=is_ascii) == sent.decode()


@pytest.mark.parametrize("value", ["x" * 2 * MB, "x" * 2 * MB + "é", "", "é"])
def test_whether_bytes_are_ascii(value: str) -> None:
    sent = utf8(value)
    assert is_ascii(sent) == is_ascii(memoryview(bytes(sent))) == value.isascii()


async def test_no_kernel_has_a_text_that_it_was_not_given(sandbox: Sandbox) -> None:
    """Neither one of the same run that was given another text, nor one of another run."""
    whole, part, templates = Context(text(SIZE)), Context(text(SIZE // 8)), Templates()
    has_none = "from rlm_jupyter.kernel.guest import held_text; held_text.text is None"
    async with (
        given(templates, whole, part, sandbox=sandbox) as [root, child],
        given(Templates(), part, sandbox=sandbox, shares=False) as [other],
    ):
        assert root._connection.process.held
        assert not child._connection.process.held
        for kernel in (child, other):
            assert text_of(await kernel.execute(has_none)) == "True"
            rss = psutil.Process(kernel._connection.process.supervised.kernel_pid).memory_info().rss  # type: ignore[union-attr]
            assert rss < 100 * MB - SIZE // 2 + SIZE // 4
        # and a kernel that has it has no more ways to others than one that has not
        until, ways, others = time.monotonic() + _GONE_SECONDS, "", "?"
        while ways != others and time.monotonic() < until:  # zmq closes some connections a little later
            ways, others = [text_of(await kernel.execute(_WAYS)) for kernel in (root, child)]
        assert "socket:" in ways
        assert ways == others


async def test_a_text_that_is_let_go_of_while_it_is_read_is_held_by_nobody() -> None:
    context, templates = Context(text(SIZE)), Templates()
    assert templates.hold(context)
    environment = templates.environment(None, Path.cwd(), None, Sandbox("none"))
    making = asyncio.create_task(templates.holder(environment, context))
    while not templates._making.locked():
        await asyncio.sleep(0)
    await templates.let_go(context)
    assert await making is None
    assert held(templates) == []
    await templates.close()


async def test_a_kernel_that_has_died_has_the_text_again_and_a_killed_template_is_replaced(sandbox: Sandbox) -> None:
    context, templates = Context(text(MB)), Templates()
    async with given(templates, context, context, sandbox=sandbox) as [kernel, other]:
        for kills in (False, True):
            assert (await kernel.execute("import os; os._exit(1)")).status == "died"
            if kills:
                [template] = held(templates)
                assert template is not None
                signal.pidfd_send_signal(template._pidfd, signal.SIGKILL)
                assert template._is_gone(_GONE_SECONDS)
            await kernel.restart()
            assert text_of(await kernel.execute(_LOOK)) == seen(text(MB))
            assert kernel._connection.process.held
        assert text_of(await other.execute("len(context)")) == str(MB)


@pytest.mark.skipif(version_info < (7, 4), reason="kernels that live are forked with newer ipykernels")
async def test_a_fork_of_a_kernel_has_the_text_too(sandbox: Sandbox) -> None:
    context = Context(text(MB))
    async with given(Templates(), context, context, sandbox=sandbox) as [_, other]:
        fork = await other.fork(Answerer())
        assert text_of(await fork.execute("len(context)")) == str(MB)
        await fork.close()


async def test_where_a_text_can_not_be_held_each_kernel_gets_a_copy(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(text(MB))
    limited = Sandbox(sandbox.kind, memory=3 * MB + 300 * MB)
    monkeypatch.setattr(templates_module, "_fits", lambda context, sandbox: sandbox.memory is None)
    async with given(Templates(), context, sandbox=limited) as [kernel]:
        assert not kernel._connection.process.held
        assert text_of(await kernel.execute("len(context)")) == str(MB)
    # a template that does not read it to its end
    monkeypatch.setattr("rlm_jupyter.kernel.text_template._write", lambda writes, text, stop: os.close(writes))
    async with given(templates := Templates(), context, context, sandbox=sandbox) as kernels:
        for kernel in kernels:
            assert kernel.is_forked
            assert not kernel._connection.process.held
            assert text_of(await kernel.execute("len(context)")) == str(MB)
        assert held(templates) == [None]
        assert templates.problem is None
    async with given(Templates(are_used=False), context, sandbox=sandbox) as [kernel]:
        assert not kernel.is_forked
        assert text_of(await kernel.execute("len(context)")) == str(MB)


async def test_a_start_that_is_cancelled_leaves_nothing(pool: Any, sandbox: Sandbox) -> None:
    context = Context(text(SIZE))
    for seconds in (0.0, 0.05, 0.5):
        templates = Templates()
        starting = asyncio.create_task(
            Kernel.start(Answerer(), sandbox=sandbox, templates=templates, context=context, shares=True)
        )
        await asyncio.sleep(seconds)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).close()
        await templates.close()
        assert held(templates) == []
    pool.close()
    assert not psutil.wait_procs(below(), timeout=_GONE_SECONDS)[1]


_HOST = """
import asyncio, sys
from rlm_jupyter import Sandbox
from rlm_jupyter.kernel import templates
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.run.context import Context
templates.LARGE_TEXT = 1
async def main():
    made, context = templates.Templates(), Context("x" * 1_000_000)
    kernel = await Kernel.start(None, sandbox=Sandbox(sys.argv[1]), templates=made, context=context, shares=True)
    await kernel.set_context(context)
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_all_of_it_ends_with_a_host_that_is_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST, sandbox.kind], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    many = below(host.pid)
    assert [process.name() for process in many].count("rlm-template") == 2
    host.kill()
    host.wait()
    host.stdout.close()
    assert not psutil.wait_procs(many, timeout=_GONE_SECONDS)[1]


class Keeping(Answerer):
    async def __call__(self, call: Any) -> list[str | SubcallFailure]:
        self.calls.append(call)
        return ["done"] * len(call.prompts)


async def test_a_context_that_is_handed_on_is_named_and_not_sent() -> None:
    first, second, answerer = Context(text(MB)), PackedContext("str", (b"z" * MB,), Context("z" * MB).info), Keeping()
    async with given(Templates(), first, sandbox=Sandbox("none"), answerer=answerer) as [kernel]:
        await kernel.set_context(second)
        source = "rlm_query_batched([context_0, context_1, context_0[1:], context[:9]], 'a/b'); llm_query(context_0)"
        assert (await kernel.execute(source)).status == "ok"
        batch, single = answerer.calls
        assert [each is not None for each in batch.contexts] == [True, True, False, False]
        assert batch.contexts[0] is first
        assert batch.contexts[1] is second
        assert batch.prompts[0] is first._value
        assert single.prompts[0] is first._value
        assert list(batch.prompts[1:]) == ["z" * MB, text(MB)[1:], "z" * 9]
        # whatever a cell says of names, it gets no text but those that it was given
        for names in ("['context_7']", "[{}]", "['context_0', None]", "'context_0'", "[0]"):
            await kernel.execute(
                f"guest = get_ipython().kernel.rlm_guest\nid = str(hash({names!r}))\n"
                + f"guest.wire.send('rlm_call', {{'id': id, 'kind': 'llm', 'contexts': {names}}}, [b'own'])\n"
                "llm_query('wait for it')"
            )
            assert ("own",) in [call.prompts for call in answerer.calls[2:]], names
            answerer.calls[2:] = []
