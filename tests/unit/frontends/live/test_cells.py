"""What a page is told of a run: the recorded conversation, and what holds for any."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter.frontends.live.cell import in_parts
from rlm_jupyter.frontends.live.cells import Cells
from rlm_jupyter.frontends.live.streaming import arrived, arriving
from rlm_jupyter.types.events import (
    CellFinished,
    CellStarted,
    NoticeGiven,
    OutputChanged,
    ReplyStreamed,
    RunEnded,
    RunResumed,
)
from rlm_jupyter.types.values import Usage
from tests.support.protocol import FIRST, PLACE, RUN, received, record, settled, stdout, steps
from tests.support.sample_run import started


def test_the_recorded_conversation_is_what_is_told() -> None:
    assert record() == json.loads(PLACE.read_text(encoding="utf-8")), "python -m tests.support.protocol, if it is meant"


def test_no_key_is_taken_for_a_widget() -> None:
    for message in record()["messages"]:
        assert not {"state", "buffer_paths", "content"} & set(message)


def told(live: Cells) -> list[dict[str, Any]]:
    return json.loads(json.dumps(live.take()))


def test_a_growing_output_is_told_by_what_is_new() -> None:
    live = Cells(RUN)
    live.apply(CellStarted(1, 0, "loop()"))
    text = ""
    live.take()
    sizes = []
    for number in range(50):
        text += f"tick {number}\n" * 20
        live.apply(OutputChanged(1, 0, (stdout(text),)))
        sizes.append(len(json.dumps(told(live))))
    assert max(sizes[1:]) < 600
    live.apply(CellFinished(1, 0, "loop()", None, "ok", (stdout(text),), 1, 1.0))
    done = [item for item in told(live) if item["item"] == "done"]
    assert done[0]["cell"]["outputs"] == [stdout(text)]


def test_a_long_stream_is_cut_and_what_was_told_of_it_stays() -> None:
    live = Cells(RUN)
    live.apply(CellStarted(1, 0, "loop()"))
    live.apply(OutputChanged(1, 0, (stdout("x" * 150_000),)))
    live.take()
    live.apply(OutputChanged(1, 0, (stdout("x" * 250_000),)))
    assert not [item for item in told(live) if item["item"] in {"text", "outputs"}]
    live.apply(CellFinished(1, 0, "loop()", None, "ok", (stdout("x" * 250_000),), 1, 1.0))
    assert len(json.dumps(told(live))) < 110_000


def test_what_cannot_be_encoded_can_be_told() -> None:
    live = Cells(RUN)
    live.apply(received(1, "lone \ud800\n```repl\nprint('\ud800')\n```"))
    live.apply(CellStarted(1, 0, "print('\ud800')"))
    nan = {"output_type": "display_data", "data": {"application/json": {"a": float("nan")}}, "metadata": {}}
    live.apply(CellFinished(1, 0, "print('\ud800')", None, "ok", (stdout("\ud800"), nan), 1, 0.1))
    json.dumps(live.take(), allow_nan=False, ensure_ascii=False).encode()


def test_a_run_that_fails_leaves_no_cell_open() -> None:
    live = Cells(RUN)
    live.apply(ReplyStreamed(1, "I wr"))
    live.take()
    live.apply(CellStarted(1, 0, "x"))
    live.fail("ModelError: gone")
    told(live)
    assert {cell["status"] for cell in live.snapshot()["cells"]} <= {"ok", "skipped"}
    assert live.snapshot()["facts"]["outcome"] == "failed"
    assert live.snapshot()["facts"]["message"] == "ModelError: gone"


def test_the_answer_comes_last_and_its_markup_is_harmless() -> None:
    live = Cells(RUN)
    live.apply(received(1, "Words."))
    text = "<img src=x onerror=alert(1)> ![a](http://evil/?q)\n# Heading"
    live.apply(RunEnded("answered", text, text, True, 1, 1.0, Usage(1, 1), 0.0))
    last = live.snapshot()["cells"][-1]
    assert last["facts"]["role"] == "answer"
    assert "<img" not in last["source"]
    assert "![" not in last["source"]
    assert "**Heading**" in last["source"]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_reply_is_seen_while_it_arrives_and_stays_what_it_was(size: int) -> None:
    live = Cells(RUN)
    for place in range(0, len(FIRST), size):
        live.apply(ReplyStreamed(1, FIRST[place : place + size]))
        live.take()
    before = [cell["id"] for cell in live.snapshot()["cells"]]
    live.apply(received(1, FIRST))
    assert [cell["id"] for cell in live.snapshot()["cells"]] == before
    assert not [item for item in told(live) if item["item"] == "gone"]


def test_only_cells_that_were_executed_are_counted_above_them() -> None:
    live = Cells(RUN)
    live.apply(started())
    executed(live, 1, "1", "1")
    live.apply(received(2, "```repl\nrefused()\n```\n```repl\nafter()\n```"))
    live.apply(CellFinished(2, 0, "refused()", None, "skipped", (), None, 0.0))
    live.apply(RunEnded("cancelled", None, None, False, 2, 1.0, Usage(1, 1), 0.0))
    assert "(2 iterations, 1 of 3 cells of code executed)" in live.snapshot()["cells"][0]["source"]


def test_the_cells_of_a_run_that_is_resumed_stand_between_its_lines() -> None:
    live = Cells(RUN)
    live.apply(started())
    executed(live, 1, "1", "1")
    live.apply(RunEnded("iterations", None, None, False, 1, 1.0, Usage(1, 1), 0.0))
    assert live.take()[-1]["item"] == "end"
    live.apply(RunResumed(1, "any", "any", {}, "2031-01-01T00:00:00Z", reexecuted=True))
    executed(live, 2, "2", "2")
    assert live.snapshot()["facts"]["outcome"] is None
    assert live.take()[-1]["item"] != "end"
    live.apply(RunEnded("answered", "2", None, True, 2, 1.0, Usage(1, 1), 0.0))
    told = live.snapshot()["cells"]
    roles = [cell["facts"]["role"] for cell in told]
    assert roles == ["boundary", "prose", "code", "notice", "prose", "code", "answer", "boundary"]
    assert "(2 iterations, 2 cells of code)" in told[0]["source"]
    assert "Resumed 2031-01-01" in told[3]["source"]


LAST_CALL = "I would look once more.\n```repl\nprint('never executed')\n```"


def executed(live: Cells, index: int, source: str, text: str) -> None:
    live.apply(ReplyStreamed(index, f"Words {index}.\n```repl\n{source}\n```"))
    live.take()
    live.apply(received(index, f"Words {index}.\n```repl\n{source}\n```"))
    live.apply(CellStarted(index, 0, source))
    live.apply(CellFinished(index, 0, source, None, "ok", (stdout(text),), index, 0.1))


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("reply", [LAST_CALL, "The answer is 42."])
def test_the_forced_reply_stands_below_the_last_iteration_and_not_in_its_place(reply: str, is_streamed: bool) -> None:
    live = Cells(RUN)
    executed(live, 1, "x = 1", "one")
    executed(live, 2, "x = 2", "two")
    live.take()
    before = live.snapshot()["cells"]
    live.apply(NoticeGiven(2, "No iteration is left."))
    for piece in reply.splitlines(keepends=True) if is_streamed else []:
        live.apply(ReplyStreamed(2, piece))
        live.take()
        assert live.snapshot()["cells"][: len(before)] == before
    live.apply(replace(received(2, reply), forced=True))
    live.apply(RunEnded("iterations", "42", "42", True, 2, 1.0, Usage(1, 1), 0.0))
    cells = live.snapshot()["cells"]
    assert cells[: len(before)] == before
    assert [(cell["type"], cell["facts"]["role"]) for cell in cells[len(before) :]] == [
        ("markdown", "notice"),
        ("markdown", "prose"),
        ("markdown", "notice"),
        ("markdown", "answer"),
    ]
    assert cells[-3]["source"] == reply
    assert "code in it was not executed" in cells[-2]["source"]


def test_replies_that_are_rejected_leave_what_was_executed_alone() -> None:
    live = Cells(RUN)
    executed(live, 1, "x = 1", "one")
    before = live.snapshot()["cells"]
    for count in range(3):
        live.apply(ReplyStreamed(2, "```repl\nx = 1\n```"))
        live.take()
        assert live.snapshot()["cells"][-1]["source"] == "x = 1"
        live.apply(received(2, "```repl\nx = 1\n```", f"repeats the one before it ({count + 1})"))
    live.apply(ReplyStreamed(1, LAST_CALL))
    live.take()
    live.apply(replace(received(1, LAST_CALL), forced=True))
    live.apply(RunEnded("no_progress", None, None, False, 1, 1.0, Usage(1, 1), 0.0))
    cells = live.snapshot()["cells"]
    assert cells[: len(before)] == before
    assert [cell["facts"]["role"] for cell in cells[len(before) :]] == ["notice", "prose", "notice"]
    assert cells[len(before)]["source"] == "> Resampled 3 times: the reply repeats the one before it."


def test_a_reply_that_was_cut_off_stays_what_it_was_when_the_last_call_comes() -> None:
    live = Cells(RUN)
    executed(live, 1, "x = 1", "one")
    live.apply(ReplyStreamed(2, "I begin to wri"))
    live.apply(ReplyStreamed(1, LAST_CALL))
    live.apply(replace(received(1, LAST_CALL), forced=True))
    cells = live.snapshot()["cells"]
    assert [(cell["source"], cell["status"]) for cell in cells[-3:-1]] == [("I begin to wri", "ok"), (LAST_CALL, "ok")]


@given(st.text(alphabet="ab \n`~#replpython", max_size=200))
def test_any_text_is_seen_as_something(text: str) -> None:
    assert all(source.strip() for _, source in arriving(text))
    assert all(kind in {"code", "markdown"} for kind, _ in arrived(text))


def test_a_snapshot_leaves_out_what_the_page_has() -> None:
    live = Cells(RUN)
    for events in steps():
        for event in events:
            live.apply(event)
    live.take()
    whole = live.snapshot()
    done = [cell["id"] for cell in whole["cells"] if cell["facts"]["role"] == "code"]
    rest = live.snapshot(done)
    assert rest["ids"] == [cell["id"] for cell in whole["cells"]]
    assert [cell["id"] for cell in rest["cells"]] == [each for each in rest["ids"] if each not in done]


def test_a_cell_that_is_not_done_is_in_every_snapshot() -> None:
    live = Cells(RUN)
    live.apply(CellStarted(1, 0, "x"))
    [cell] = live.snapshot()["cells"]
    assert [each["id"] for each in live.snapshot([cell["id"]])["cells"]] == [cell["id"]]


def test_long_lists_of_subcalls_are_told_now_and_then_and_in_full_at_the_end() -> None:
    live = Cells(RUN)
    live.apply(CellStarted(1, 0, "x"))
    told = 0
    for ordinal in range(100):
        live.apply(settled(ordinal, "y" * 1000))
        told += len(json.dumps(live.take()))
    assert live.is_behind
    # each time in full, it would be fifty times as long as the list
    assert told < 20 * 100 * 1000
    live.apply(CellFinished(1, 0, "x", None, "ok", (), 1, 0.1))
    [cell] = [item["cell"] for item in live.take() if item["item"] == "done" and item["cell"]["type"] == "markdown"]
    assert "100 sub-calls" in cell["source"]
    assert len(cell["facts"]["calls"]) == 100
    assert not live.is_behind


def test_a_message_is_not_too_long() -> None:
    def item(size: int) -> dict[str, Any]:
        return {"item": "cell", "cell": {"source": "", "outputs": [stdout("x" * size)]}}

    items = [item(400_000), item(500_000), item(400_000), item(3_000_000), item(1), item(2)]
    parts = in_parts(items)
    assert [len(part) for part in parts] == [2, 1, 1, 2]
    assert [each for part in parts for each in part] == items
    assert in_parts([]) == [[]]
