"""What the main thread of a page did, task by task, as Chromium's own trace tells it."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import CDPSession, Page

_CATEGORIES = ["disabled-by-default-devtools.timeline", "devtools.timeline", "v8", "__metadata"]
_PROFILER = "disabled-by-default-v8.cpu_profiler"
"""Tells what functions took the time, and takes some itself: only where `RLM_LAB_PROFILE` is set."""
_WORK = {
    "Layout": "layout",
    "UpdateLayoutTree": "style",
    "Paint": "paint",
    "PrePaint": "paint",
    "Layerize": "paint",
    "Commit": "paint",
    "ParseHTML": "HTML",
    "MajorGC": "garbage",
    "MinorGC": "garbage",
    "V8.GC_MARK_COMPACTOR": "garbage",
}
"""What a browser does in a task that is no script, by the names of its events."""
_STAMP = "traced"
_NOBODY = {"(root)", "(program)", "(idle)", "(garbage collector)"}


@dataclass
class Task:
    """One task of the main thread: nothing that a person does is heard before it ends."""

    began: float
    """Milliseconds from the beginning of the trace."""
    wall: float
    """Milliseconds by the clock; on a machine that does other things too, more than the task itself needs."""
    cpu: float
    """Milliseconds of the thread itself."""
    work: Counter[str] = field(default_factory=Counter)
    """Milliseconds of the browser's own work, by its kind; some of it within scripts, which force it."""
    selves: Counter[str] = field(default_factory=Counter)
    """Samples, about one a millisecond, by the function that was at work."""
    within: Counter[str] = field(default_factory=Counter)
    """Samples, by the functions that were under way."""

    def __str__(self) -> str:
        work = ", ".join(f"{name} {spent:.0f}" for name, spent in self.work.most_common(5) if spent >= 1)
        if not self.selves:
            return f"{self._times}: {work}"
        calls = ", ".join(f"{name} {count}" for name, count in self.within.most_common(14))
        selves = ", ".join(f"{name} {count}" for name, count in self.selves.most_common(5))
        return f"{self._times}: {work}\n        within: {calls}\n        itself: {selves}"

    @property
    def _times(self) -> str:
        return f"{self.wall:5.0f} ms, {self.cpu:5.0f} ms of its thread, after {self.began / 1000:6.1f} s"


class Trace:
    """What was recorded; `tasks` is there once the recording has ended."""

    tasks: list[Task]

    def worst(self, count: int = 10) -> list[Task]:
        """The longest tasks by the clock."""
        return sorted(self.tasks, key=lambda task: task.wall, reverse=True)[:count]


@contextmanager
def traced(page: Page) -> Iterator[Trace]:
    """Record what the page's main thread does."""
    browser = page.context.browser
    assert browser is not None
    session = browser.new_browser_cdp_session()
    trace = Trace()
    categories = [*_CATEGORIES, _PROFILER] if os.environ.get("RLM_LAB_PROFILE") else _CATEGORIES
    config = {"recordMode": "recordAsMuchAsPossible", "includedCategories": categories}
    session.send("Tracing.start", {"transferMode": "ReturnAsStream", "traceConfig": config})
    page.evaluate(f"console.timeStamp('{_STAMP}')")
    ended: list[dict[str, Any]] = []
    session.on("Tracing.tracingComplete", lambda said: ended.append(said))
    yield trace
    page.evaluate(f"console.timeStamp('{_STAMP}')")
    session.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(100)
    trace.tasks = _tasks(json.loads(_text(session, ended[0]["stream"]))["traceEvents"])
    session.detach()


def _text(session: CDPSession, stream: str) -> str:
    pieces = []
    while True:
        read = session.send("IO.read", {"handle": stream, "size": 1 << 22})
        pieces.append(read["data"])
        if read["eof"]:
            session.send("IO.close", {"handle": stream})
            return "".join(pieces)


def _tasks(events: list[dict[str, Any]]) -> list[Task]:
    first, last = (event for event in events if event["name"] == "TimeStamp" and _says(event, _STAMP))
    pid, tid, begin = first["pid"], first["tid"], first["ts"]
    here = [event for event in events if event["pid"] == pid and event["tid"] == tid and event["ph"] == "X"]
    # the profiler takes its time before the first stamp, and after the last one
    runs = [event for event in here if event["name"] == "RunTask" and begin <= event["ts"] < last["ts"]]
    runs.sort(key=lambda event: float(event["ts"]))
    tasks = [
        Task((event["ts"] - begin) / 1000, event.get("dur", 0) / 1000, event.get("tdur", 0) / 1000) for event in runs
    ]
    starts = [event["ts"] for event in runs]

    def of(moment: float) -> Task | None:
        place = bisect_right(starts, moment) - 1
        return tasks[place] if place >= 0 and moment < starts[place] + runs[place].get("dur", 0) else None

    for event in here:
        kind = _WORK.get(event["name"])
        task = of(event["ts"]) if kind else None
        if kind and task:
            task.work[kind] += event.get("dur", 0) / 1000
    for moment, stack in _samples([event for event in events if event["pid"] == pid], tid):
        task = of(moment)
        if task and stack:
            task.selves[stack[-1]] += 1
            task.within.update(set(stack) - _NOBODY)
    return tasks


def _says(event: dict[str, Any], text: str) -> bool:
    return event["args"].get("data", {}).get("message") == text


def _samples(events: list[dict[str, Any]], tid: int) -> Iterator[tuple[float, list[str]]]:
    """When the profiler looked, and what it saw: the functions under way, the outermost first."""
    profiles = {event["id"]: event for event in events if event["name"] == "Profile" and event["tid"] == tid}
    clocks = {id_: event["args"]["data"]["startTime"] for id_, event in profiles.items()}
    stacks: dict[tuple[str, int], list[str]] = {}
    chunks = [event for event in events if event["name"] == "ProfileChunk" and event["id"] in profiles]
    for chunk in sorted(chunks, key=lambda event: event["ts"]):
        data, id_ = chunk["args"]["data"], chunk["id"]
        profile = data.get("cpuProfile", {})
        for node in profile.get("nodes", []):
            frame = node["callFrame"]
            name = frame["functionName"] or "(anonymous)"
            if frame.get("url"):
                # the bundles are minified: a line is the whole of one, so it is the column that tells
                name += f" ({frame['url'].split('?')[0].rsplit('/', 1)[-1][:12]}:{frame.get('columnNumber', 0)})"
            stacks[id_, node["id"]] = [*stacks.get((id_, node.get("parent", 0)), []), name]
        for sample, delta in zip(profile.get("samples", []), data.get("timeDeltas", []), strict=True):
            clocks[id_] += delta
            yield clocks[id_], stacks.get((id_, sample), [])
