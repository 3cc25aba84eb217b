"""The comm in a real kernel, with a client that says and hears what a page does."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ipykernel._version import version_info
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from rlm_jupyter.control import Control
from rlm_jupyter.events import CellDecided, CellProposed
from rlm_jupyter.live.cells import Cells
from rlm_jupyter.live.comm import LiveRun, act

LOOK = "I look.\n```repl\nprint(len(context))\n```"
FINAL = "```repl\nFINAL('done')\n```"
SLOW = "```repl\nanswer['content'] = 'a draft'\nimport time\nfor i in range(600):\n    time.sleep(0.1)\n```"
HAS_SUBSHELLS = version_info >= (7, 0)


class Page:
    """A client of a kernel that speaks as a page does."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
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
        page = Page(client)
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
    done = [item["cell"] for message in messages[1:] for item in message["items"] if item["item"] == "done"]
    assert [cell["facts"]["role"] for cell in done] == ["prose", "code", "code", "answer"]
    assert done[1]["source"] == "print(len(context))"
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


@pytest.mark.skipif(not HAS_SUBSHELLS, reason="this ipykernel has no subshells: an interrupt stops the run")
def test_a_page_is_heard_while_the_cell_runs(page: Page) -> None:
    subshell = page.subshell()
    request = page.execute("%%rlm -m scripted/slow.json\nWhat?")
    comm_id = page.until(lambda message: message["msg_type"] == "comm_open")["content"]["comm_id"]
    page.make_heard(comm_id, {"type": "hello"}, "comm_msg", subshell)
    page.until(lambda m: "range(600)" in json.dumps([heard["content"] for heard in page.heard]))
    # from now on the display is brief: the cells are in the page
    brief = page.until(lambda message: message["msg_type"] == "update_display_data")["content"]["data"]["text/html"]
    assert "rlm-head" in brief
    assert "range(600)" not in brief
    began = time.monotonic()
    page.make_heard(comm_id, {"type": "stop"}, "comm_msg", subshell)
    page.until_idle(request)
    assert time.monotonic() - began < 20
    heard = page.heard
    items = [item for content in of_kind(heard, "comm_msg") for item in content["data"].get("items", [])]
    assert items[-1]["item"] == "end"
    assert [item["facts"]["outcome"] for item in items if item["item"] == "run"][-1] == "cancelled"
    assert of_kind(heard, "error")[0]["ename"] == "KeyboardInterrupt"
    # the reply to a page's message says idle, which a page takes for the whole kernel: it is set right at once
    said_idle = page.states.index(("comm_msg", "idle"))
    assert ("execute_request", "busy") in page.states[said_idle:]


@pytest.mark.skipif(not HAS_SUBSHELLS, reason="this ipykernel has no subshells")
def test_a_page_that_closes_the_line_gets_no_more(page: Page) -> None:
    subshell = page.subshell()
    request = page.execute("%%rlm -m scripted/slow.json --max-seconds 8\nWhat?")
    comm_id = page.until(lambda message: message["msg_type"] == "comm_open")["content"]["comm_id"]
    page.make_heard(comm_id, {}, "comm_close", subshell)
    page.until(lambda message: message["msg_type"] == "update_display_data")  # one message may be on its way
    heard = page.until_idle(request)
    assert not of_kind(heard, "comm_msg")
    assert any("limit of time" in d["data"]["text/plain"] for d in of_kind(page.heard, "update_display_data"))


def test_cells_of_a_model_are_kept_out_of_the_readers_kernel(page: Page) -> None:
    heard = page.until_idle(page.execute("%%rlm -m scripted/two.json\nWhat?"))
    items = [item for content in of_kind(heard, "comm_msg") for item in content["data"]["items"]]
    ours = [item["cell"] for item in items if item["item"] == "done" and item["cell"]["type"] == "code"]
    assert ours[1]["source"] == "FINAL('done')"
    for cell_id in (ours[1]["id"], "rlm-01234567-9"):  # one of this session, one of another
        said = page.until_idle(page.execute("FINAL('done')", cell_id))
        assert "Not executed" in of_kind(said, "stream")[0]["text"]
        assert not of_kind(said, "error")
    # a cell that somebody has edited is theirs, and so are their own
    assert of_kind(page.until_idle(page.execute("print('mine')", ours[1]["id"])), "stream")[0]["text"] == "mine\n"
    assert of_kind(page.until_idle(page.execute("print('own')", "rlm-notes")), "stream")[0]["text"] == "own\n"


def test_what_people_ask_for_is_done() -> None:
    control = Control()
    act(control, {"type": "pause"})
    paused = control.is_paused
    act(control, {"type": "resume"})
    assert (paused, control.is_paused) == (True, False)
    act(control, {"type": "note", "text": " look at chapter 3 "})
    assert control.take_notes() == ["look at chapter 3"]
    act(control, {"type": "approve"})  # nothing waits: nothing happens
    act(control, {"type": "unheard of"})
    act(control, {})


def test_the_second_half_of_a_double_click_runs_no_cell_unseen() -> None:
    asked: list[str] = []

    class Steered:
        def approve(self, source: str | None) -> None:
            asked.append("approve")

        def stop(self) -> None:
            asked.append("stop")

    live = object.__new__(LiveRun)
    live._control, live._kernel, live._cell_is_over, live._cell_lock = Steered(), None, True, threading.Lock()
    live.cells = Cells("run")
    live.cells.apply(CellProposed(1, 0, "print(1)"))
    first = live.cells.proposed

    def click(kind: str) -> None:
        live._hear({"content": {"data": {"type": kind, "cell": first}}})

    click("approve")
    live.cells.apply(CellDecided(1, 0, runs=True))
    live.cells.apply(CellProposed(1, 1, "print(2)"))
    assert live.cells.proposed not in (None, first)
    click("approve")
    click("stop")
    assert asked == ["approve", "stop"]
