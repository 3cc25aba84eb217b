"""The recorded conversation of kernel and page: `protocol.json`, which pytest and jest both check.

`python -m tests.support.protocol` writes it anew, for when the protocol is changed on purpose.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from rlm_jupyter.frontends.display.clock import Clock
from rlm_jupyter.frontends.display.status import Speed
from rlm_jupyter.frontends.live import cells, facts
from rlm_jupyter.frontends.live.cell import Item
from rlm_jupyter.frontends.live.cells import Cells
from rlm_jupyter.types.events import (
    CellDecided,
    CellFinished,
    CellProposed,
    CellStarted,
    ChildReported,
    Event,
    NoticeGiven,
    OutputChanged,
    OutputsShown,
    ReplyReceived,
    ReplyStreamed,
    RunEnded,
    RunPaused,
    RunStarted,
    RunUnpaused,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import ContextInfo, Output, Usage

PLACE = Path(__file__).with_name("protocol.json")
RUN = "0123abcd"
CHILD = "child-a1b2c3"
FIRST = "# Look \N{EYES}\n\nI *look*.\n\n```repl\nprint(len(context))\nx = llm_query('who?')\n```\nThen ![p](http://a.b/c).\n"
SECOND = "```repl\n1 / 0\n```"
NOTE = {"type": "note", "text": "look at chapter 3", "n": 1}
PAUSE = {"type": "pause", "n": 2}
LIMIT = {"type": "limit", "name": "max_cost", "value": 1.5, "n": 3}
EXPORT = {"type": "export", "form": "html", "n": 4}
ASKS: list[dict[str, Any]] = [
    {"type": "asks", "page": "a1b2c3d4", "asks": asks}
    for asks in ([], [NOTE], [NOTE, PAUSE], [NOTE, PAUSE], [LIMIT], [LIMIT, EXPORT], [EXPORT])
]
"""What a page says in turn: all that it does not know to be heard; the last of each in `HEARD_AFTER` got through."""
HEARD_AFTER = {3: 2, 5: 3}
"""After which of them the page learns that it was heard, and up to which number."""


def stdout(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text}


def received(index: int, text: str, rejected: str = "") -> ReplyReceived:
    return ReplyReceived(index, text, "provider/a", Usage(100, 10), 0.01, "stop", 0.5, rejected=rejected)


def settled(ordinal: int, text: str, *, failed: bool = False) -> SubcallSettled:
    return SubcallSettled(
        1, 0, "llm", ordinal, "0" * 64, 4, "who?", None, "provider/b", text, failed, Usage(20, 3), 0.001, 0.2
    )


def child(event: Event) -> ChildReported:
    return ChildReported(CHILD, "name-1", 1, 3, 0, 0, event)


def childs_steps() -> Iterator[list[Event]]:
    """What a child does that the third iteration asks."""
    info = ContextInfo("str", "8 characters")
    began = RunStarted(CHILD, "Do it.", "s", "o", info, "provider/b", "", 1, {}, "2026-01-01T00:00:02+00:00")
    source = "print(context)"
    yield [SubcallStarted(3, 0, "rlm", 0, 8, "the part"), child(began), child(ReplyStreamed(1, "I read"))]
    yield [child(received(1, f"I read.\n```repl\n{source}\n```")), child(CellStarted(1, 0, source))]
    yield [child(CellFinished(1, 0, source, None, "ok", (stdout("the part\n"),), 1, 0.1))]
    yield [
        child(RunEnded("answered", "a part", "a part", True, 1, 0.7, Usage(100, 10), 0.01)),
        SubcallSettled(
            3, 0, "rlm", 0, "0" * 64, 8, "the part", None, "", "a part", False, Usage(100, 10), 0.01, 0.8, CHILD
        ),
    ]


def steps() -> Iterator[list[Event]]:
    """What happens between one message and the next."""
    html = {"text/html": "<b onclick='x()'>b</b><script>x()</script>", "application/javascript": "x()"}
    rich = {"output_type": "display_data", "data": html, "metadata": {}}
    failure = {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["t"]}
    info = ContextInfo("str", "9 characters")
    limits = {"max_iterations": 30, "max_cost": 0.5}
    yield [RunStarted("name-1", "Who is it?", "s", "o", info, "provider/a", "", 0, limits, "2026-01-01T00:00:00+00:00")]
    for place in range(0, len(FIRST), 40):
        yield [ReplyStreamed(1, FIRST[place : place + 40])]
    yield [received(1, FIRST), CellStarted(1, 0, "print(len(context))\nx = llm_query('who?')")]
    yield [OutputChanged(1, 0, (stdout("9\n"),)), SubcallStarted(1, 0, "llm", 0, 4), SubcallStarted(1, 0, "llm", 1, 4)]
    yield [settled(0, "A `man`\n\nin <b>black</b>"), OutputChanged(1, 0, (stdout("9\nmore\n"),))]
    yield [settled(1, "too late", failed=True), OutputChanged(1, 0, (stdout("9\nmore\n"), rich))]
    source = "print(len(context))\nx = llm_query('who?')"
    yield [CellFinished(1, 0, source, None, "ok", (stdout("9\nmore\n"), rich), 1, 0.25), OutputsShown(1, "…")]
    yield [RunPaused(2)]
    yield [RunUnpaused(2), ReplyStreamed(2, "Once ag")]
    yield [received(2, FIRST, rejected="repeats the reply before it (1)"), NoticeGiven(2, "Say it otherwise.")]
    yield [ReplyStreamed(2, SECOND), received(2, SECOND), CellProposed(2, 0, "1 / 0")]
    yield [CellDecided(2, 0, True), CellStarted(2, 0, "1 / 0  # edited")]
    yield [CellFinished(2, 0, "1 / 0  # edited", None, "error", (failure,), 2, 0.1), OutputsShown(2, "…")]
    yield [received(3, "FINAL(a man)"), CellStarted(3, 0, "FINAL('a man')")]
    yield from childs_steps()
    yield [
        CellFinished(3, 0, "FINAL('a man')", None, "ok", (), 3, 0.01),
        RunEnded("answered", "a man", "a man", True, 3, 3.25, Usage(340, 36), 0.032),
    ]


def steered(live: Cells) -> list[Item]:
    """What people asked for in the meantime, as the page is told of it."""
    with mock.patch.object(facts, "home", return_value=Path("/home/me/notes")):
        live.facts.keep(Path("/home/me/notes/rlm_runs/name.ipynb"))
        file = facts.page_path(Path("/home/me/notes/name.html"))
    for message in ASKS[:-1]:
        for ask in live.facts.asks.new(message):
            if ask["type"] == "limit":
                live.facts.limit(ask["name"], ask["value"])
    said = {**EXPORT, "page": ASKS[0]["page"]}
    live.facts.asks.say(said, "exported", "Nothing to redact.", file=file)
    return live.take()


def record() -> dict[str, Any]:
    """The messages of these steps, and what a page that folded them all holds."""
    live = Cells(RUN)
    live.facts._speed = Speed(lambda: 0.0)  # the same on every machine
    ticks = itertools.count(100.0, 0.5)
    live.facts._clock = Clock(lambda: next(ticks))
    times = (f"2026-01-01T00:00:{second:02}.000Z" for second in itertools.count())
    opening = {"v": 1, "run": RUN, "seq": 0, "parent": "the-cell", "execution": "a-request"}
    messages: list[dict[str, Any]] = [opening]
    with mock.patch.object(cells, "_now", side_effect=times):
        for events in steps():
            for event in events:
                live.apply(event)
            if items := live.take():
                messages.append({"v": 1, "run": RUN, "seq": len(messages), "items": items})
        messages.append({"v": 1, "run": RUN, "seq": len(messages), "items": steered(live)})
        live.show_child(CHILD, is_open=True)
        messages.append({"v": 1, "run": RUN, "seq": len(messages), "items": live.take()})
    whole: dict[str, Any] = json.loads(
        json.dumps({"messages": messages, "final": live.snapshot(), "asks": ASKS, "heard_after": HEARD_AFTER})
    )
    return whole


if __name__ == "__main__":
    PLACE.write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
