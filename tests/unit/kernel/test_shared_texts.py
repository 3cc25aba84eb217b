"""Large texts that kernels share: what is one copy, who has it, who can write to it, and what becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ipykernel._version import version_info

from rlm_jupyter import Sandbox
from rlm_jupyter.kernel import shared_texts
from rlm_jupyter.kernel import templates as templates_module
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.shared_texts import SharedTexts
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.run import context as context_module
from rlm_jupyter.run.context import Context
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError
from rlm_jupyter.types.utf8 import is_ascii, utf8
from rlm_jupyter.types.values import PackedContext, SubcallFailure
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of
from tests.unit.kernel.test_templates import _GONE_SECONDS, below

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not templates_module.are_possible(), reason="texts are shared on Linux"),
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

_OVERWRITE = """
import ctypes, mmap, sys
place = id(context) + sys.getsizeof(context) - len(context) - 1
libc = ctypes.CDLL(None)
whole = place // mmap.PAGESIZE * mmap.PAGESIZE
print(libc.mprotect(ctypes.c_void_p(whole), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE))
ctypes.memset(place, ord("!"), 10)
print(context[:12])
"""


@pytest.fixture(autouse=True)
def _large(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_texts, "LARGE_TEXT", 100_000)


def text(size: int, letter: str = "a") -> str:
    line = letter * 99 + "\n"
    return line * (size // len(line))


def seen(value: str) -> str:
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest} {len(value)} str\n"


@contextlib.asynccontextmanager
async def given(
    templates: Templates, *contexts: Context, sandbox: Sandbox, **options: Any
) -> AsyncIterator[list[Kernel]]:
    """Kernels of one run, each with its context."""
    kernels: list[Kernel] = []
    try:
        for context in contexts:
            answerer = options.get("answerer") or Answerer()
            kernels.append(await Kernel.start(answerer, sandbox=sandbox, templates=templates, context=context))
            await kernels[-1].set_context(context)
        yield kernels
    finally:
        for kernel in reversed(kernels):
            await kernel.close()
        await templates.close()


def process(kernel: Kernel) -> psutil.Process:
    return psutil.Process(kernel._connection.process.supervised.kernel_pid)  # type: ignore[union-attr]


def shares(kernel: Kernel) -> bool:
    """Return whether it has mapped a text."""
    return "memfd:rlm_text" in Path(f"/proc/{process(kernel).pid}/maps").read_text()


def files() -> list[int]:
    """Return the descriptors here of texts that are shared."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if "memfd:rlm_text" in str(entry.readlink()):
                found.append(int(entry.name))
    return found


async def none_is_left() -> None:
    until = time.monotonic() + _GONE_SECONDS
    while files() and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert files() == []


async def test_kernels_that_are_given_one_text_have_it_in_memory_once(sandbox: Sandbox) -> None:
    context, templates = Context(text(SIZE)), Templates()
    context.release()
    async with given(templates, *[context] * 4, sandbox=sandbox) as kernels:
        for kernel in kernels:
            assert text_of(await kernel.execute(_LOOK)) == seen(text(SIZE))
            assert text_of(await kernel.execute("context is context_0, context.count('b'), hash(context) != 0"))
            assert shares(kernel)
        assert len(files()) == 1
        # what they have looked for, and what their own interpreters take
        assert all(process(kernel).memory_full_info().uss < SIZE // 2 for kernel in kernels)
        everything = sum(each.memory_full_info().pss for each in below())
        assert everything < SIZE + (len(kernels) + 2) * 35 * MB
    await none_is_left()


@pytest.mark.parametrize(
    "value", ["é" * MB, "\ud800€\r\n" * MB, "x" * MB + "\U0001f600", "\x00" * MB, "a" * MB + "\udfff", "é" * MB + "€"]
)
@pytest.mark.parametrize("is_packed", [False, True])
async def test_a_text_of_any_characters_is_what_it_was(value: str, is_packed: bool) -> None:
    context = Context(value)
    packed: Any = context.packed() if is_packed else context
    async with given(Templates(), packed, sandbox=Sandbox("none")) as [kernel]:
        assert shares(kernel)
        assert text_of(await kernel.execute(_LOOK)) == seen(value)
        assert text_of(await kernel.execute("import sys; sys.getsizeof(context)")) == str(sys.getsizeof(value))


@pytest.mark.parametrize("value", ["x" * 2 * MB, "x" * 2 * MB + "é", "", "é"])
def test_whether_bytes_are_ascii(value: str) -> None:
    sent = utf8(value)
    assert is_ascii(sent) == is_ascii(memoryview(bytes(sent))) == value.isascii()


async def test_no_kernel_has_a_text_that_it_was_not_given(sandbox: Sandbox) -> None:
    """Neither one of the same run that was given another text, nor one of another run."""
    whole, part, small = Context(text(SIZE)), Context(text(SIZE // 8)), Context("small")
    async with (
        given(Templates(), whole, part, sandbox=sandbox) as [root, child],
        given(Templates(), small, sandbox=sandbox) as [other],
    ):
        assert shares(root)
        assert shares(child)
        assert not shares(other)
        for kernel, most in ((child, SIZE // 4), (other, 0)):
            assert process(kernel).memory_info().rss < 100 * MB - SIZE // 2 + most
        # and a kernel that has one has no more ways to others than one that has not
        until, ways, others = time.monotonic() + _GONE_SECONDS, "", "?"
        while ways != others and time.monotonic() < until:  # zmq closes some connections a little later
            ways, others = [text_of(await kernel.execute(_WAYS)) for kernel in (root, other)]
        assert "socket:" in ways
        assert ways == others


async def test_what_a_cell_does_to_its_text_no_other_kernel_sees(sandbox: Sandbox) -> None:
    context = Context(text(MB))
    async with given(Templates(), context, context, sandbox=sandbox) as [kernel, other]:
        assert text_of(await kernel.execute(_OVERWRITE)) == f"0\n{'!' * 10}aa\n"
        assert text_of(await other.execute(_LOOK)) == seen(text(MB))
        [file] = files()
        for change in (
            lambda: os.pwrite(file, b"!", 0),
            lambda: os.ftruncate(file, 0),
            lambda: os.ftruncate(file, 2 * MB),
            lambda: fcntl.fcntl(file, fcntl.F_ADD_SEALS, 0),
        ):
            with pytest.raises(PermissionError):
                change()
        # as it is mapped, it can't be written to at all
        assert (await other.execute("import ctypes; ctypes.memset(id(context) + 500_000, 33, 10)")).status == "died"
        await other.restart()
        assert text_of(await other.execute(_LOOK)) == seen(text(MB))


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_text_that_is_left_is_written_no_further_and_passed_to_nobody(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = SharedTexts()
    if not is_there:
        monkeypatch.setattr(shared_texts, "_PIECE_BYTES", 1)
    shared = texts.take(Context(text(SIZE)))
    assert shared is not None
    assert texts.take(shared.context) is shared
    texts.leave(shared)
    if is_there:
        assert await shared.pass_to(lambda file: int(file in files())) is not None
    texts.leave(shared)

    def send(file: int) -> int:
        raise AssertionError("it is passed")

    assert await shared.pass_to(send) is None
    assert (shared._written.result() is None) is not is_there
    await none_is_left()
    again = texts.take(shared.context)
    assert again is not None
    assert again is not shared
    texts.leave(again)
    await none_is_left()


async def test_a_kernel_that_has_died_has_the_text_again(sandbox: Sandbox) -> None:
    context = Context(text(MB))
    async with given(Templates(), context, context, sandbox=sandbox) as [kernel, other]:
        for _ in range(2):
            assert (await kernel.execute("import os; os._exit(1)")).status == "died"
            await kernel.restart()
            assert text_of(await kernel.execute(_LOOK)) == seen(text(MB))
            assert shares(kernel)
        assert text_of(await other.execute("len(context)")) == str(MB)
        assert len(files()) == 1


async def test_one_that_waits_no_longer_is_no_matter_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, put = threading.Event(), shared_texts._put
    monkeypatch.setattr(shared_texts, "_put", lambda *given: (may_end.wait(30), put(*given))[1])
    texts, context = SharedTexts(), Context(text(MB))
    first = texts.take(context)
    assert first is not None
    assert texts.take(context) is first
    waiting = [asyncio.create_task(first.pass_to(lambda file: file)) for _ in range(2)]
    await asyncio.sleep(0.05)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    may_end.set()
    assert await waiting[1]
    assert await first.pass_to(lambda file: file)
    for _ in range(2):
        texts.leave(first)
    await none_is_left()


async def test_nobody_waits_until_texts_of_one_length_are_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, described = threading.Event(), context_module._described
    monkeypatch.setattr(context_module, "_LARGE", 1)
    monkeypatch.setattr(context_module, "_described", lambda *given: (may_end.wait(30), described(*given))[1])
    texts, contexts = SharedTexts(), [Context(text(MB)) for _ in range(2)]
    one, other = (texts.take(context) for context in contexts)
    assert one is not None
    assert other is not None
    assert one is not other
    assert texts.take(contexts[0]) is one
    may_end.set()
    for context in contexts:
        await context.described()
    known = Context(text(MB))
    await known.described()
    assert texts.take(known) is one
    for shared in list(texts._texts):
        for _ in range(shared.users):
            texts.leave(shared)
    await none_is_left()


async def test_a_kernel_that_reads_nothing_of_what_it_is_passed_holds_up_nobody() -> None:
    context = Context(text(MB))
    async with given(Templates(), context, sandbox=Sandbox("none")) as [kernel]:
        process = kernel._connection.process
        passed = [process.pass_text(files()[0]) for _ in range(1_000)]
        assert passed[0] is not None
        assert passed[-1] is None
        await kernel.set_context(Context(text(2 * MB)))
        assert text_of(await kernel.execute(_LOOK)) == seen(text(2 * MB))
        with pytest.raises(ForkRefusedError):
            await kernel.fork(Answerer())


async def test_a_kernel_that_dies_before_it_is_given_a_text_is_no_reason_to_share_none() -> None:
    context, another = Context(text(MB)), Context(text(2 * MB))
    async with given(Templates(), context, sandbox=Sandbox("none")) as [kernel]:
        process(kernel).kill()
        with pytest.raises(KernelDiedError):
            await kernel.set_context(another)
        await kernel.restart()
        await kernel.set_context(another)
        assert text_of(await kernel.execute(_LOOK)) == seen(text(2 * MB))
        assert Path(f"/proc/{process(kernel).pid}/maps").read_text().count("memfd:rlm_text") == 2


@pytest.mark.skipif(version_info < (7, 4), reason="kernels that live are forked with newer ipykernels")
async def test_a_fork_keeps_a_text_for_its_children_when_the_kernel_it_came_from_is_gone(sandbox: Sandbox) -> None:
    context, templates = Context(text(MB)), Templates()
    async with given(templates, context, sandbox=sandbox) as [kernel]:
        fork = await kernel.fork(Answerer())
        shared = templates.texts.take(context)
        assert shared is not None
        templates.texts.leave(shared)
        await kernel.close()
        assert templates.texts.take(context) is shared
        templates.texts.leave(shared)
        await fork.close()
        assert files() == []


@pytest.mark.skipif(version_info < (7, 4), reason="kernels that live are forked with newer ipykernels")
async def test_a_fork_of_a_kernel_has_the_text_too_and_what_was_passed_and_not_taken_is_no_obstacle(
    sandbox: Sandbox,
) -> None:
    context, another = Context(text(MB)), Context(text(2 * MB))
    async with given(Templates(), context, context, sandbox=sandbox) as [_, other]:
        assert other._connection.process.pass_text(files()[0])
        fork = await other.fork(Answerer())
        assert text_of(await fork.execute(_LOOK)) == seen(text(MB))
        for kernel in (fork, other):
            await kernel.set_context(another)
            assert text_of(await kernel.execute(_LOOK)) == seen(text(2 * MB))
            assert text_of(await kernel.execute("len(context_0), len(context_1)")) == str((MB, 2 * MB))
        assert len(files()) == 2
        assert (await fork.execute("import os; os._exit(1)")).status == "died"
        await fork.restart()
        assert text_of(await fork.execute(_LOOK)) == seen(text(2 * MB))
        assert shares(fork)
        await fork.close()


@pytest.mark.parametrize(
    "lacks", ["memory", "a channel", "the length", "a kernel that knows how", "the call", "descriptors"]
)
async def test_where_a_text_can_not_be_shared_each_kernel_gets_a_copy(
    lacks: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(text(MB))
    if lacks == "memory":

        def full(*_: object) -> None:
            raise OSError(errno.ENOMEM, "no memory")

        monkeypatch.setattr(shared_texts, "_put", full)
    elif lacks == "the call":  # as in some builds of Python; bubblewrap needs it, too
        sandbox = Sandbox("none")
        monkeypatch.delattr(os, "memfd_create")
    elif lacks == "descriptors":
        opened = os.open

        def full_table(path: Any, *given: Any, **options: Any) -> int:
            if str(path).startswith("/proc/self/fd/") and given == (os.O_RDONLY,):
                raise OSError(errno.EMFILE, "too many open files")
            return opened(path, *given, **options)

        monkeypatch.setattr(os, "open", full_table)
    elif lacks == "a channel":
        monkeypatch.setattr("rlm_jupyter.kernel.process.KernelProcess.pass_text", lambda *_: None)
    elif lacks == "the length":  # the file is shorter than it is said to be
        monkeypatch.setattr(
            shared_texts, "asdict", lambda made: {"file": made.file, "length": 10 * MB, "width": 1, "is_ascii": True}
        )
    else:
        monkeypatch.setattr(shared_texts, "asdict", lambda made: {"file": made.file, "no such": 1})
    async with given(Templates(), context, context, sandbox=sandbox) as kernels:
        for kernel in kernels:
            assert not shares(kernel)
            assert text_of(await kernel.execute(_LOOK)) == seen(text(MB))
        await none_is_left()  # not for a kernel that has a copy


async def test_a_kernel_that_is_started_anew_shares_it(sandbox: Sandbox) -> None:
    context = Context(text(MB))
    async with given(Templates(are_used=False), context, sandbox=sandbox) as [kernel]:
        assert not kernel.is_forked
        assert shares(kernel)
        assert text_of(await kernel.execute(_LOOK)) == seen(text(MB))


async def test_a_kernel_with_a_limit_of_memory_has_room_for_the_text_once(sandbox: Sandbox) -> None:
    limited, context = Sandbox(sandbox.kind, memory=SIZE + 700 * MB), Context(text(SIZE))
    async with given(Templates(), context, sandbox=limited) as [kernel]:
        assert shares(kernel)
        assert text_of(await kernel.execute("len(context)")) == str(SIZE)
        assert (await kernel.execute(f"bytearray({SIZE + 700 * MB})")).status == "error"


async def test_a_start_that_is_cancelled_leaves_nothing(pool: Any, sandbox: Sandbox) -> None:
    context = Context(text(SIZE))
    for seconds in (0.0, 0.05, 0.5):
        templates = Templates()
        starting = asyncio.create_task(Kernel.start(Answerer(), sandbox=sandbox, templates=templates, context=context))
        await asyncio.sleep(seconds)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).close()
        await templates.close()
        await none_is_left()
    pool.close()
    assert not psutil.wait_procs(below(), timeout=_GONE_SECONDS)[1]


_HOST = """
import asyncio, sys
from rlm_jupyter import Sandbox
from rlm_jupyter.kernel import shared_texts, templates
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.run.context import Context
shared_texts.LARGE_TEXT = 1
async def main():
    made, context = templates.Templates(), Context("x" * 1_000_000)
    kernel = await Kernel.start(None, sandbox=Sandbox(sys.argv[1]), templates=made, context=context)
    await kernel.set_context(context)
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_all_of_it_ends_with_a_host_that_is_killed(sandbox: Sandbox) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST, sandbox.kind], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    many = below(host.pid)
    assert len(many) >= 2
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
