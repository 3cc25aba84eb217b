"""The comm in a real kernel, with a client that says and hears what a page does."""

from __future__ import annotations

import base64
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from ipykernel._version import version_info
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from rlm_jupyter.frontends.here.remote_control import FarControl
from rlm_jupyter.frontends.live.actions import export_saved
from rlm_jupyter.frontends.live.cells import Cells
from rlm_jupyter.frontends.live.comm import LiveRun
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export import WholeRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import CellDecided, CellProposed, Event, OutputsShown, RunStarted
from tests.support.protocol import ASKS

LOOK = "I look.\n```repl\nprint(len(context))\n```"
FINAL = "```repl\nFINAL('done')\n```"
SLOW = "```repl\nanswer['content'] = 'a draft'\nimport time\nfor i in range(600):\n    time.sleep(0.1)\n```"
HAS_SUBSHELLS = version_info >= (7, 0)


class Page:
    """A client of a kernel that speaks as a page does."""

    def __init__(self, client: BlockingKernelClient, interrupt: Callable[[], None]) -> None:
        self.client = client
        self.interrupt = interrupt
        self.heard: list[dict[str, Any]] = []
        """All that came on iopub."""
        self.states: list[tuple[str, str]] = []
        """The kernel's states so far, each with the kind of request that it is about."""
        self.over: set[str] = set()
        """Requests whose cells have ended."""

    def execute(self, source: str, cell_id: str | None = "the-cell") -> str:
        """Send a cell; returns the request's id."""
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = self.client.session.msg("execute_request", content)
        message["metadata"] = {} if cell_id is None else {"cellId": cell_id}
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def until_idle(self, request: str, seconds: float = 40.0) -> list[dict[str, Any]]:
        """What came on iopub, up to the end of the request's cell."""
        heard, deadline = [], time.monotonic() + seconds
        while request not in self.over:
            heard.append(self.next(deadline))
        return heard

    def until(self, holds: Any, seconds: float = 30.0) -> dict[str, Any]:
        """The first message of which something holds."""
        deadline = time.monotonic() + seconds
        while not holds(message := self.next(deadline)):
            pass
        return message

    def next(self, deadline: float) -> dict[str, Any]:
        """The next message on iopub."""
        try:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.1))
        except queue.Empty:
            last = [(m["msg_type"], m["parent_header"].get("msg_type"), str(m["content"])[:200]) for m in self.heard]
            raise AssertionError(f"nothing more came after {last[-12:]}") from None
        self.heard.append(message)
        if message["msg_type"] == "status":
            self.states.append((message["parent_header"].get("msg_type", ""), message["content"]["execution_state"]))
        if message["content"].get("execution_state") == "idle":
            self.over.add(str(message["parent_header"].get("msg_id")))
        return message

    def say(self, comm_id: str, data: dict[str, Any], kind: str = "comm_msg", subshell: str | None = None) -> str:
        """Send over a comm; returns the message's id."""
        message = self.client.session.msg(kind, {"comm_id": comm_id, "data": data})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def make_heard(self, *said: Any) -> None:
        """Say it until the kernel has heard it: now and then a busy kernel leaves a message lying until the next."""
        sent: set[str] = set()
        for _ in range(5):
            sent.add(self.say(*said))
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                try:
                    self.next(deadline)
                except AssertionError:
                    break
                if sent & self.over:
                    return
        raise AssertionError(f"{said} was not heard")

    def subshell(self) -> str:
        """Open a subshell, as JupyterLab does for a comm."""
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        return str(self.client.get_control_msg(timeout=10)["content"]["subshell_id"])


def asks(*asked: dict[str, Any], page: str = "a-page") -> dict[str, Any]:
    """What a page says of all that it does not know to be heard."""
    return {"type": "asks", "page": page, "asks": list(asked)}


def of_kind(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message["content"] for message in messages if message["msg_type"] == kind]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for name, replies in {"two": [LOOK, FINAL], "slow": [SLOW]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"replies": replies * 3}))
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=30)
        page = Page(client, manager.interrupt_kernel)
        page.until_idle(page.execute("%load_ext rlm_jupyter"))
        yield page
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_run_is_told_in_order_and_whole(page: Page) -> None:
    heard = page.until_idle(request := page.execute("%%rlm -m scripted/two.json\nWhat?"))
    [opening] = of_kind(heard, "comm_open")
    assert opening["target_name"] == "rlm"
    assert opening["comm_id"] == "rlm-the-cell"
    messages = [opening["data"], *(content["data"] for content in of_kind(heard, "comm_msg"))]
    assert messages[0]["parent"] == "the-cell"
    assert messages[0]["execution"] == request
    assert [message["seq"] for message in messages] == list(range(len(messages)))
    assert len({message["run"] for message in messages}) == 1
    told = [item["cell"] for message in messages[1:] for item in message["items"] if item["item"] == "done"]
    done = list({cell["id"]: cell for cell in told}.values())  # the line above them is told again with their number
    assert [cell["facts"]["role"] for cell in done] == ["boundary", "prose", "code", "code", "answer", "boundary"]
    assert "(2 iterations, 2 cells of code)" in done[0]["source"]
    assert done[2]["source"] == "print(len(context))"
    assert messages[-1]["items"][-1] == {"item": "end", "ids": [cell["id"] for cell in done]}
    # the display that every front end has says it, too
    displays = of_kind(heard, "update_display_data")
    assert any("Answered" in display["data"]["text/plain"] for display in displays)

    # what was missed can still be asked for when it is over
    page.say("rlm-the-cell", {"type": "resync"})
    snapshot = page.until(lambda message: message["msg_type"] == "comm_msg")["content"]["data"]
    assert snapshot["seq"] == len(messages)
    assert [cell["id"] for cell in snapshot["snapshot"]["cells"]] == [cell["id"] for cell in done]
    assert snapshot["snapshot"]["facts"]["outcome"] == "answered"

    # another run of the cell has the same line again
    again = page.until_idle(page.execute("%%rlm -m scripted/two.json --rerun\nWhat?"))
    kinds = [m["msg_type"] for m in again if m["msg_type"] in {"comm_open", "comm_close"}]
    assert kinds == ["comm_close", "comm_open"]
    assert of_kind(again, "comm_open")[0]["comm_id"] == "rlm-the-cell"


@pytest.mark.parametrize(
    ("before", "cell_id"), [("", None), ("__vsc_ipynb_file__ = '/a.ipynb'", "the-cell")], ids=["nbclient", "VS Code"]
)
def test_where_no_page_shows_cells_no_comm_is_opened(page: Page, before: str, cell_id: str | None) -> None:
    page.until_idle(page.execute(before))
    heard = page.until_idle(page.execute("%%rlm -m scripted/two.json\nWhat?", cell_id))
    assert not [message for message in heard if message["msg_type"].startswith("comm_")]
    assert any("Answered" in display["data"]["text/plain"] for display in of_kind(heard, "update_display_data"))


@pytest.mark.slow
@pytest.mark.skipif(not HAS_SUBSHELLS, reason="this ipykernel has no subshells: an interrupt stops the run")
def test_a_page_is_heard_while_the_cell_runs(page: Page) -> None:
    subshell = page.subshell()
    request = page.execute("%%rlm -m scripted/slow.json\nWhat?")
    comm_id = page.until(lambda message: message["msg_type"] == "comm_open")["content"]["comm_id"]
    page.make_heard(comm_id, asks(), "comm_msg", subshell)
    page.until(lambda m: "range(600)" in json.dumps([heard["content"] for heard in page.heard]))
    # from now on the display is brief: the cells are in the page; a last one that is not may be on its way
    html = page.until(lambda message: message["msg_type"] == "update_display_data")["content"]["data"]["text/html"]
    for _ in range(2 if "range(600)" in html else 1):
        html = page.until(lambda message: message["msg_type"] == "update_display_data")["content"]["data"]["text/html"]
        assert "rlm-head" in html
        assert "range(600)" not in html
        assert "<style" not in html  # with each that comes, a page looks at all that stands in it again
    began = time.monotonic()
    page.make_heard(comm_id, asks({"type": "stop", "n": 1}), "comm_msg", subshell)
    page.until_idle(request)
    assert time.monotonic() - began < 40
    heard = page.heard
    items = [item for content in of_kind(heard, "comm_msg") for item in content["data"].get("items", [])]
    assert items[-1]["item"] == "end"
    assert [item["facts"]["outcome"] for item in items if item["item"] == "run"][-1] == "cancelled"
    assert of_kind(heard, "error")[0]["ename"] == "KeyboardInterrupt"
    # the reply to a page's message says idle, which a page takes for the whole kernel: it is set right at once
    said_idle = page.states.index(("comm_msg", "idle"))
    assert ("execute_request", "busy") in page.states[said_idle:]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_SUBSHELLS, reason="this ipykernel has no subshells")
def test_a_page_that_closes_the_line_gets_no_more(page: Page) -> None:
    subshell = page.subshell()
    request = page.execute("%%rlm -m scripted/slow.json\nWhat?")
    comm_id = page.until(lambda message: message["msg_type"] == "comm_open")["content"]["comm_id"]
    page.make_heard(comm_id, {}, "comm_close", subshell)
    page.until(lambda message: message["msg_type"] == "update_display_data")  # one message may be on its way
    before = len(page.heard)
    for _ in range(2):
        page.until(lambda message: message["msg_type"] == "update_display_data")
    page.interrupt()
    page.until_idle(request)
    assert not of_kind(page.heard[before:], "comm_msg")
    assert any("Stopped" in d["data"]["text/plain"] for d in of_kind(page.heard, "update_display_data"))


class Line:
    """A comm that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, data: dict[str, Any]) -> None:
        self.sent.append(data)

    @property
    def facts(self) -> dict[str, Any]:
        """Those that were told last."""
        return [item["facts"] for message in self.sent for item in message["items"] if item["item"] == "run"][-1]


def a_live_run(control: Any) -> tuple[LiveRun, Line]:
    """A run's end of the line, without a kernel."""
    live, line = object.__new__(LiveRun), Line()
    live._control, live._kernel, live._cell_is_over, live._cell_lock = control, None, True, threading.Lock()
    live._comm, live._page, live._over, live._sending = (
        cast(Any, line),
        "a-session",
        threading.Event(),
        threading.Lock(),
    )
    live._seq, live._noted, live.refused, live.is_heard = 0, None, False, False
    live.on_shown = None
    live._known_to_be_over = threading.Event()
    live._known_to_be_over.set()  # nothing is said again
    live.cells = Cells("run")
    return live, line


def say(live: LiveRun, data: Any) -> None:
    live.hear({"content": {"data": data}})


class Steered(Control):
    """Keeps what is done."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Any] = []

    def stop(self, why: str = "") -> None:
        self.done.append("stop")

    def approve(self, source: str | None = None, *, cell: tuple[int, ...] | None = None) -> None:
        self.done.append("approve")

    def pause(self) -> None:
        self.done.append("pause")

    def note(self, text: str) -> None:
        self.done.append(text)

    def raise_limit(self, name: str, value: float | None) -> None:
        super().raise_limit(name, value)
        self.done.append((name, value))


def test_what_is_said_again_and_again_is_done_once_and_in_order() -> None:
    live, line = a_live_run(control := Steered())
    for message in ASKS[:-2]:
        say(live, message)
    page = ASKS[0]["page"]
    assert control.done == ["look at chapter 3", "pause", ("max_cost", 1.5)]
    assert line.facts["heard"] == {page: 3}
    assert line.facts["limits"]["max_cost"] == 1.5
    # what was lost holds the rest back until it is said again; another page has numbers of its own
    say(live, asks({"type": "stop", "n": 5}, page=page))
    assert "stop" not in control.done
    say(live, asks({"type": "nothing", "n": 4}, {"type": "stop", "n": 5}, page=page))
    say(live, asks({"type": "stop", "n": 1}, page="reloaded"))
    assert control.done[3:] == ["stop", "stop"]
    assert line.facts["heard"] == {page: 5, "reloaded": 1}
    # the facts are told again where a page has missed them, though nothing is new
    told = len(line.sent)
    say(live, asks({"type": "stop", "n": 1}, page="reloaded"))
    assert len(line.sent) == told + 1
    assert control.done[3:] == ["stop", "stop"]


def test_nothing_is_taken_for_heard_before_there_is_a_run_to_do_it_to() -> None:
    live, line = a_live_run(None)
    say(live, asks({"type": "stop", "n": 1}))
    assert line.facts["heard"] == {"a-page": 0}
    live._control = control = Steered()
    say(live, asks({"type": "stop", "n": 1}))
    assert (control.done, line.facts["heard"]) == (["stop"], {"a-page": 1})


@pytest.mark.parametrize(
    "data",
    [
        None,
        "stop",
        {},
        {"type": "unheard of"},
        {"type": "asks"},
        {"type": "asks", "page": 7, "asks": []},
        {"type": "asks", "page": "p", "asks": {"n": 1}},
        asks(*cast(Any, ["stop", None, {"type": "stop"}, {"type": "stop", "n": "1"}, {"type": "stop", "n": True}])),
        asks({"n": 1}, {"type": ["stop"], "n": 2}, {"type": "limit", "name": 1, "value": "x", "n": 3}, page="numbered"),
        asks({"type": "limit", "n": 1}, {"type": "note", "n": 2}, {"type": "approve", "n": 3}, page="numbered"),
    ],
)
def test_what_is_malformed_is_passed_over(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    live, line = a_live_run(control := Steered())
    with caplog.at_level("INFO"):
        say(live, data)
    assert control.done == []
    assert not [record for record in caplog.records if record.levelname != "INFO"]
    if isinstance(data, dict) and data.get("page") == "numbered":
        assert line.facts["heard"] == {"numbered": 3}  # so it is in no later one's way
    say(live, asks({"type": "pause", "n": 1}, page="another"))
    assert control.done == ["pause"]


def test_a_limit_that_cannot_be_is_refused_with_a_line() -> None:
    live, line = a_live_run(control := Steered())
    control.unpriced = "openai/any"
    say(
        live,
        asks(
            {"type": "limit", "name": "max_cost", "value": 2, "n": 1},
            {"type": "limit", "name": "max_iterations", "value": 0, "n": 2},
            {"type": "limit", "name": "max_kernels", "value": 3, "n": 3},
            {"type": "limit", "name": "max_seconds", "value": None, "n": 4},
        ),
    )
    assert control.done == [("max_seconds", None)]
    said = line.facts["said"]
    assert [(item["n"], item["what"]) for item in said] == [(1, "refused"), (2, "refused"), (3, "refused")]
    assert said[0]["text"] == ("max_cost can't be set: the price of openai/any is not known. Set max_tokens instead.")
    assert "max_cost" not in line.facts["limits"]
    # in a run that goes on in another process, before it is sent there
    sent: list[Any] = []
    far = FarControl(sent.append)
    far.unpriced, sent[:] = "openai/any", []
    with pytest.raises(ConfigurationError, match="the price of openai/any is not known"):
        far.raise_limit("max_cost", 2)
    assert not sent


async def test_a_run_is_exported_for_the_page_while_it_goes_on_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "mine.ipynb"))
    live, line = a_live_run(control := Control())

    def exported(form: str, number: int) -> dict[str, Any]:
        say(live, asks({"type": "export", "form": form, "n": number}))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if said := [item for item in line.facts["said"] if item["n"] == number]:
                return dict(said[0])
            time.sleep(0.02)
        raise AssertionError(f"{form} was not exported")

    key = "sk-" + "ant-api03-" + "Zx9_kQ41" * 9
    half_way: list[dict[str, Any]] = []

    def on_event(event: Event) -> None:
        match event:
            case RunStarted(run_id=run_id):
                control.notebook = RunFiles(tmp_path / "rlm_runs" / f"{run_id[:-7]}.ipynb").notebook
            case OutputsShown(iteration=1):
                half_way.append(exported("html", 1))

    look = f"```repl\nprint({key!r}, 'seen', 6 * 7)\n```"
    result = await RLM(ScriptedModel([look, FINAL])).acompletion("What?", "a text", on_event=on_event)
    page = (tmp_path / half_way[0]["file"]["beside"]).read_text("utf-8")
    assert "seen 42" in page
    assert "done" not in page
    assert key not in page
    assert half_way[0]["text"].startswith("Removed: 1 key")

    live._over.set()
    live.cells.facts.keep(result.path)
    again = exported("ipynb", 2)
    assert Path(again["file"]["path"]).parent == tmp_path
    assert WholeRun.gather(again["file"]["path"]).trajectory.answer == "done"
    assert exported("docx", 3)["what"] == "refused"

    # by a page that has only the id; its line is gone
    def saved(run: str, form: str) -> dict[str, Any]:
        return dict(json.loads(base64.b64decode(export_saved(run, form))))

    late = saved(result.trajectory.run_id, "jsonl")
    assert (late["what"], late["file"]["beside"][-6:]) == ("exported", ".jsonl")
    assert key not in Path(late["file"]["path"]).read_text("utf-8")
    assert "There is no run 'nobody'" in saved("nobody", "html")["text"]
    unsaved, line = a_live_run(Control())
    live = unsaved
    assert exported("html", 1)["text"] == "This run is not saved, so there is nothing to export."


def test_a_note_that_the_model_never_read_is_said() -> None:
    live, line = a_live_run(Control())
    live._news, live._thread = threading.Event(), threading.Thread()
    live._thread.start()
    say(live, asks({"type": "note", "text": "too late", "n": 1}))
    live.end()
    assert line.facts["said"] == [{"page": "a-page", "n": 1, "what": "unread", "text": "too late"}]


def test_the_second_half_of_a_double_click_runs_no_cell_unseen() -> None:
    live, _ = a_live_run(control := Steered())
    live.cells.apply(CellProposed(1, 0, "print(1)"))
    first = live.cells.proposed

    def click(kind: str, number: int) -> None:
        live.hear({"content": {"data": asks({"type": kind, "cell": first, "n": number})}})

    click("approve", 1)
    live.cells.apply(CellDecided(1, 0, runs=True))
    live.cells.apply(CellProposed(1, 1, "print(2)"))
    assert live.cells.proposed not in (None, first)
    click("approve", 2)
    click("stop", 3)
    assert control.done == ["approve", "stop"]
