"""Kernels that die and whose variables come back: real kernels, real SIGKILL; what is gone is said, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits, Result, Sandbox
from rlm_jupyter.frontends.cli.main import _parser
from rlm_jupyter.kernel import snapshots
from rlm_jupyter.kernel.session import Kernel
from rlm_jupyter.kernel.snapshots import Restored, Snapshots
from rlm_jupyter.run.context import Context
from rlm_jupyter.types.errors import ConfigurationError
from tests.faults.runs import block
from tests.faults.test_death import Slow, notices
from tests.runs.test_magics import shell as shell
from tests.runs.test_resume import Counting, cut
from tests.runs.test_resume import in_folder as in_folder
from tests.security.conftest import need_bwrap
from tests.unit.kernel.conftest import answerer as answerer
from tests.unit.kernel.test_session import text_of

KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
KINDS = '''
import dataclasses, enum, math
import xml.etree.ElementTree
import numpy as np, pandas as pd
frame = pd.DataFrame({"n": [1, 2], "s": ["x", "y"]})
seen = []
def ask(text):
    """Uses names of ours, and variables that later cells change."""
    seen.append(text)
    return llm_query(text) + str(len(context)) + str(factor)
factor = 3
square = lambda x: x * x
def counting():
    n = 0
    def count():
        nonlocal n
        n += 1
        return n
    return count
count = counting(); count()
class Base:
    def __init__(self):
        self.rows = [1]
class Thing(Base):
    def __init__(self):
        super().__init__()
        self.rows.append(2)
@dataclasses.dataclass
class Point:
    x: int = 1
class Colour(enum.Enum):
    RED = 1
thing, point, red = Thing(), Point(5), Colour.RED
table = {"same": seen, "count": count}
text = context
_hidden = "private"
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__("one")
odd = [Odd(1, 2)]
lazy = (i for i in range(3))
file = open("/dev/null")
huge = np.zeros(40_000_000)
'''
SHOWN = """
factor = 4
print(list(frame.s), ask("q"), square(5), count(), thing.rows, isinstance(thing, Base), point == Point(5))
print(red is Colour.RED, table["same"] is seen, table["count"] is count, text is context, _hidden, math.pi > 3)
print(xml.etree.ElementTree.__name__, seen, "huge" in globals(), "lazy" in globals(), "file" in globals())
"""
AS_SHOWN = """\
['x', 'y'] echo q104 25 2 [1, 2] True True
True True True True private True
xml.etree.ElementTree ['q'] False False False
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # scripted models reply at once, and this machine may be slow
    monkeypatch.setattr(snapshots, "GRACE_SECONDS", 20.0)


async def run(*replies: str | Callable[[], str], **options: Any) -> Result:
    rlm = RLM(Slow(replies), limits=options.pop("limits", Limits()), save=False, snapshot=True, **options)
    return await rlm.acompletion("What?", "0123456789")


async def kept(kernel: Kernel, source: str) -> None:
    """Execute it, and wait until the variables are kept."""
    assert (await kernel.execute(source)).status == "ok"
    kernel.take_snapshot((1, 0))
    await kernel.snapshots.settled()


async def reborn(kernel: Kernel) -> Restored | None:
    assert (await kernel.execute(KILL)).status == "died"
    await kernel.restart()
    return await kernel.restore()


@pytest.mark.parametrize("kind", ["none", "bwrap"])
async def test_all_that_can_be_pickled_comes_back_as_it_was(answerer: Any, kind: Any) -> None:
    if kind == "bwrap":
        need_bwrap()
    kernel = await Kernel.start(answerer, sandbox=Sandbox(kind), snapshot=True)
    try:
        await kernel.set_context(Context("0123456789"))
        await kept(kernel, KINDS)
        restored = await reborn(kernel)
        assert restored is not None
        assert text_of(await kernel.execute(SHOWN)) == AS_SHOWN
        assert set(restored.modules) == {"dataclasses", "enum", "math", "xml", "np", "pd"}
        assert restored.reasons == {
            "lazy": "cannot pickle 'generator' object",
            "file": "cannot pickle 'TextIOWrapper' object",
            "huge": "larger than what is left of 200 MiB",
            "odd": "Odd.__init__() missing 1 required positional argument: 'b'",
        }
        # it is none of the user's files, and gone with the kernel
        held = kernel.snapshots
        assert held._kept is not None
        file = held._kept.file
        assert not Path(str(file.name)).exists()
    finally:
        await kernel.close()
    assert file.closed


async def test_the_model_is_told_exactly_and_a_second_death_takes_what_was_done_since() -> None:
    result = await run(
        block("import math", "rows = [1]", "double = lambda x: 2 * x", "lazy = (i for i in rows)"),
        block("rows.append('lost')", KILL),
        block("print(rows, double(math.floor(2.5)))", "rows.append(2)", "import threading; lock = threading.Lock()"),
        block("1/0"),
        block(KILL),
        "FINAL(rows)",  # in prose, a name counts as the variable where there is one
    )
    assert (result.value, result.stop_reason) == ([1, 2], "answered")
    assert notices(result).splitlines() == [
        "The kernel died while it executed this cell and was started again. `context` and the functions are back. "
        "These are back as they were after iteration 1: rows, double; imports: math. "
        "Gone: lazy (cannot pickle 'generator' object).",
        "The kernel died while it executed this cell and was started again. `context` and the functions are back. "
        "These are back as they were after iteration 3: rows, double; imports: math, threading. "
        "Gone: lock (cannot pickle '_thread.lock' object).",
    ]
    assert result.trajectory.iterations[2].cells[0].outputs[0]["text"] == "[1] 4\n"


async def test_a_kernel_that_dies_while_it_writes_leaves_the_snapshot_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_SECONDS", 200.0)
    monkeypatch.setattr(snapshots, "GRACE_SECONDS", 2.0)
    slow = "class Slow:\n    def __reduce__(self):\n        import time; time.sleep(30); return (int, ())"
    result = await run(
        block("a = 1"), block("a = 2", slow, "b = Slow()"), block("c = 3", KILL), block("print(a)"), block("FINAL(a)")
    )
    assert result.answer == "1"
    assert "as they were after iteration 1: a. Gone: Slow, b." in notices(result)


async def test_what_goes_wrong_in_pickling_is_no_end_of_the_kernel(
    answerer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_SECONDS", 2.0)
    kernel = await Kernel.start(answerer, snapshot=True)
    try:
        await kept(
            kernel,
            "class Never:\n    def __reduce__(self):\n        while True: pass\n"
            "class Crash:\n    def __reduce__(self):\n        import ctypes; ctypes.string_at(0)\n"
            "class Asks:\n    def __reduce__(self):\n        llm_query('?')\n"
            "mine, never, crash, asks = [1], Never(), Crash(), Asks()\nlast = {'x': mine}",
        )
        # while a child is at it, and when it is interrupted like all that the kernel has started, cells go on
        run = asyncio.create_task(kernel.execute("import time; time.sleep(30)"))
        await asyncio.sleep(0.3)
        await kernel.interrupt()
        assert (await run).status == "interrupted"
        restored = await reborn(kernel)
        assert restored is not None
        assert text_of(await kernel.execute("print(last['x'] is mine, 'never' in globals())")) == "True False\n"
        assert restored.reasons["never"] == "it takes too long to pickle"
        assert restored.reasons["crash"] == "it can't be pickled"
        assert "call this in a cell" in restored.reasons["asks"]
    finally:
        await kernel.close()


async def test_a_snapshot_that_can_not_be_read_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Snapshots._keep
    monkeypatch.setattr(Snapshots, "_keep", lambda self, buffers, moment: keep(self, [memoryview(b"junk")], moment))
    result = await run(block("a = 1"), block(KILL), block("FINAL('a' in globals())"))
    assert result.value is False
    assert "your variables are gone: a. Their snapshot could not be read:" in notices(result)


async def test_a_snapshot_over_which_the_next_kernel_dies_is_not_tried_twice() -> None:
    deadly = "class Deadly:\n    def __reduce__(self):\n        import os; return (os._exit, (3,))"
    result = await run(block("a = 1", deadly, "b = Deadly()"), block(KILL), block("FINAL('a' in globals())"))
    assert (result.value, result.stop_reason) == (False, "answered")
    assert "your variables are gone: a, Deadly, b." in notices(result)


async def test_a_child_keeps_its_own() -> None:
    class Parts(Slow):
        def _next(self, messages: Any) -> Any:
            if len(messages) > 1 and "`context` is a str: 6 characters" in messages[1].content:
                return [block("mine = context.upper()"), block(KILL), block("FINAL(mine)")][len(messages) // 2 - 1]
            return super()._next(messages)

    replies = [block("part = rlm_query('a part')"), block("FINAL(part)")]
    rlm = RLM(Parts(replies), limits=Limits(max_depth=2), save=False, snapshot=True)
    assert (await rlm.acompletion("What?", "0123456789")).answer == "A PART"


async def test_a_run_with_deaths_and_snapshots_is_gone_on_with_and_replayed(in_folder: Path) -> None:
    cells = [
        block("rows = [1]", "lazy = (i for i in rows)"),
        block("rows.append(2)", KILL),
        block("rows.append(3)", "print(rows, 'lazy' in globals())"),
        block(KILL),
        block("print(rows)"),
        block("FINAL(rows)"),
        block("FINAL('rows' in globals())"),
    ]
    result = await RLM(Counting(cells), sandbox="none", snapshot=True).acompletion("What?", "some text")
    assert result.value == [1, 3]
    assert result.path is not None
    assert (await RLM.areplay(result.path)).differences == ()
    ends = [i for i, record in enumerate(result.trajectory.records) if type(record).__name__ == "OutputsShown"]
    for lines, asked in ((ends[2] + 1, 3), (ends[4] + 1, 1)):
        model = Counting(cells)
        path = cut(result, lines, name=f"at{lines}")
        again = await RLM.aresume(path, model=model)
        assert (again.value, model.roots) == ([1, 3], asked)
        # also what died after that was restored
        assert [len(i.notices) for i in again.trajectory.iterations] == [0, 1, 0, 1, 0, 0]
    without = await RLM.aresume(cut(result, ends[3] + 1, name="without"), model=Counting(cells), snapshot=False)
    missing = "These had come back from a snapshot when the kernel died, and have not come back now: rows."
    assert without.value is False
    assert missing in notices(without)


def test_it_is_an_option_everywhere_and_checked(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="snapshot is True or False, not str"):
        RLM("extractive", snapshot="yes")  # type: ignore[arg-type]
    assert _parser().parse_args(["run", "q", "--snapshot"]).snapshot
    magics: Any = shell.find_magic("rlm").__self__

    def configured(line: str) -> bool:
        snapshot: bool = magics.configured(magics._parse(f"-m extractive {line}", "q")[0]).settings.snapshot
        return snapshot

    assert (configured(""), configured("--snapshot")) == (False, True)
    magics.snapshot = True
    # of the notebook's own kernel none is taken, and who asks for one is told
    assert (configured(""), configured("--here")) == (True, False)
    with pytest.raises(UsageError, match=r"--here runs in this notebook's kernel, .*: leave --snapshot out"):
        asyncio.run(magics.rlm_here("--here --snapshot -m extractive", "q"))
    monkeypatch.delattr("os.fork")
    with pytest.raises(ConfigurationError, match="Linux or macOS"):
        RLM("extractive", snapshot=True)
