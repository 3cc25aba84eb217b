"""What the cell that asked shows in the end, as a page that came later is told it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ipykernel.zmqshell import ZMQDisplayPublisher
from IPython.core.displaypub import DisplayPublisher
from jupyter_client.session import Session

from rlm_jupyter.frontends.live.asking_cell import AskingCell


class Recording(Session):
    """Sends nothing, and keeps what it would."""

    def send(self, stream: Any, msg_or_type: Any, *_: Any, **__: Any) -> Any:
        sent.append(msg_or_type)


sent: list[Any] = []
REQUEST = {"header": {"msg_id": "asking"}}


def shell() -> Any:
    sent.clear()
    publisher = ZMQDisplayPublisher(session=Recording(key=b""))
    publisher.set_parent(REQUEST)
    return SimpleNamespace(display_pub=publisher)


def test_displays_are_kept_as_they_are_last_and_empty_ones_left_out() -> None:
    page = shell()
    cell = AskingCell(page, "asking")
    page.display_pub.publish({"text/html": "under way"}, transient={"display_id": "a"})
    page.display_pub.publish({"text/html": ""}, transient={"display_id": "b"})
    page.display_pub.publish({"text/html": "over"}, transient={"display_id": "a"}, update=True)
    page.display_pub.publish({"text/plain": "Rome"})
    cell.leave(SimpleNamespace(execution_count=7, error_in_exec=None))
    page.display_pub.publish({"text/plain": "of the next cell"})
    assert [output["data"] for output in cell.told()["outputs"]] == [{"text/html": "over"}, {"text/plain": "Rome"}]
    assert cell.told()["execution_count"] == 7
    assert len(sent) == 5  # all of them went to the page as well


def test_what_a_cell_displays_that_is_executed_within_it_is_not_its_own() -> None:
    page = shell()
    cell = AskingCell(page, "asking")
    page.display_pub.set_parent({"header": {"msg_id": "of the model's cell"}})
    page.display_pub.publish({"image/png": "a figure"})
    page.display_pub.set_parent(REQUEST)
    page.display_pub.publish({"text/plain": "Rome"})
    cell.leave(None)
    assert [output["data"] for output in cell.told()["outputs"]] == [{"text/plain": "Rome"}]


def test_an_error_stands_below() -> None:
    cell = AskingCell(shell(), "asking")
    error = ValueError("no key")
    error.__dict__["_render_traceback_"] = lambda: ["in one line"]
    cell.leave(SimpleNamespace(execution_count=2, error_in_exec=error))
    [output] = cell.told()["outputs"]
    assert (output["output_type"], output["ename"], output["evalue"]) == ("error", "ValueError", "no key")
    assert output["traceback"] == ["in one line"]


def test_a_publisher_without_hooks_is_left_alone() -> None:
    cell = AskingCell(SimpleNamespace(display_pub=DisplayPublisher()), "asking")
    cell.leave(None)
    assert cell.told() == {"outputs": [], "execution_count": None}
