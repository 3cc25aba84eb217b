"""Cells that misbehave: the run survives each of them, and no output shows up in a cell that is not its own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.events import Event, OutputsShown
from tests.faults.runs import block

pytestmark = pytest.mark.slow

_LITTLE_SECONDS = 1.5
_MUCH_SECONDS = 20.0
LATER = """
import threading, time
def late():
    time.sleep({wait})
    for i in range(5):
        print('late', i, flush=True)
        time.sleep(0.05)
threading.Thread(target=late).start()
print('begun', flush=True)
"""


@dataclass(frozen=True)
class Hostile:
    """A cell, and what became of it."""

    id: str
    source: str
    status: tuple[str, ...] = ("ok",)
    survives: bool = True
    """Whether its kernel does."""


OFTEN = (
    "swallows interrupts", "prints later from a thread", "closes its stdout", "changes directory", "breaks json",
    "breaks builtins", "kills its process group", "leaves",
)  # fmt: skip
"""The rest is under `soak`."""
CELLS = (
    Hostile("swallows interrupts", "import time\nwhile True:\n    try: time.sleep(5)\n    except BaseException: pass", ("died",), False),
    Hostile("blocks in C", "sum(range(10**14))", ("died",), False),
    Hostile("blocks in C, and lets others run", "import time; time.sleep(600)", ("interrupted",)),
    Hostile("ignores SIGINT", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", ("died",), False),
    Hostile("prints later from a thread", LATER.format(wait=0.7)),
    Hostile("closes its stdout", "import sys; sys.stdout.close(); sys.stderr.close()"),
    Hostile("closes the descriptors", "import os; os.close(1); os.close(2); os.close(0)"),
    Hostile("replaces its stdout", "import sys, io; sys.stdout = sys.stderr = io.StringIO()"),
    Hostile("changes directory", "import os, tempfile; os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())"),
    Hostile("breaks json", "import json; json.dumps = json.loads = json.JSONEncoder = None", ("ok", "error", "died"), False),
    Hostile("breaks builtins", "import builtins; builtins.len = builtins.isinstance = builtins.str = None", ("ok", "error", "died", "interrupted"), False),
    Hostile("breaks print and open", "import builtins; builtins.print = builtins.open = None"),
    Hostile("breaks zmq", "import zmq; zmq.Socket.send = zmq.Socket.send_multipart = None", ("ok", "error", "died", "interrupted"), False),
    Hostile("terminates zmq", "import zmq; zmq.Context.instance().destroy(linger=0)", ("ok", "error", "died", "interrupted"), False),
    Hostile("closes every descriptor", "import os; os.closerange(3, 1000)", ("ok", "error", "died", "interrupted"), False),
    Hostile("kills its process group", "import os, signal; os.killpg(0, signal.SIGKILL)", ("died",), False),
    Hostile("terminates its process group", "import os, signal; os.killpg(0, signal.SIGTERM)\nimport time; time.sleep(5)", ("died", "ok", "error", "interrupted"), False),
    Hostile("leaves", "import sys; sys.exit(1)", ("error",)),
    Hostile("quits", "quit()", ("ok", "error", "died"), False),
    Hostile("stops its event loop", "import asyncio; asyncio.get_event_loop().stop()", ("ok", "error", "died", "interrupted"), False),
    Hostile("empties its namespace", "globals().clear()", ("ok", "error"), False),
    Hostile("replaces the shell's hooks", "ip = get_ipython(); ip.events.callbacks = {}; ip.run_cell = None", ("ok", "error", "interrupted", "died"), False),
    Hostile("traces everything", "import sys; sys.settrace(lambda *a: 1/0)", ("ok", "error"), False),
    Hostile("holds its own stop", "import signal, os; os.kill(os.getpid(), signal.SIGSTOP)", ("died",), False),
)  # fmt: skip


@pytest.mark.parametrize(
    "hostile",
    [pytest.param(cell, id=cell.id, marks=() if cell.id in OFTEN else pytest.mark.soak) for cell in CELLS],
)
async def test_a_run_survives_a_hostile_cell(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlm_jupyter.kernel.kernel.LOOK_SECONDS", 3.0)
    replies = [
        block("kept = 1"),
        block(*hostile.source.strip("\n").split("\n")),
        block("import time", "for i in range(8):", "    time.sleep(0.1)", "    print('mine', flush=True)"),
        block("print(len(context), llm_query('Who?'))"),
        block("print('kept' in globals())", "FINAL('do' + 'ne')"),
    ]
    model = ScriptedModel(replies, sub=lambda prompt: "me")
    control = Control()

    def limit(event: Event) -> None:
        """The hostile cell has little time, the others have what a busy machine may need."""
        if isinstance(event, OutputsShown):
            control.raise_limit("cell_seconds", _LITTLE_SECONDS if event.iteration == 1 else _MUCH_SECONDS)

    limits = Limits(cell_seconds=_MUCH_SECONDS, max_iterations=8)
    rlm = RLM(model, limits=limits, save=False)
    result = await rlm.acompletion("What?", "0123456789", control=control, on_event=limit)
    cells = [cell for iteration in result.trajectory.iterations for cell in iteration.cells]
    shown = ["".join(str(o.get("text", o.get("ename", ""))) for o in cell.outputs) for cell in cells]
    print([cell.status for cell in cells], shown)
    assert (result.answer, result.stop_reason) == ("done", "answered")
    assert cells[1].status in hostile.status
    for place, text in enumerate(shown):
        assert ("late" not in text) or place == 1
        assert ("mine" not in text) or place == 2
    if hostile.survives:
        assert cells[4].status == "ok"
        assert shown[4] == "True\n"
        assert shown[2:4] == ["mine\n" * 8, "10 me\n"]
    assert sum(cell.status not in {"ok", "error"} for cell in cells) <= 1  # what broke the kernel broke it once
