"""`max_seconds` ends a run wherever it is, with the best answer so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.policies import TerminationPolicy
from rlm_jupyter.record import journal
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import ChildReported, Event, RunEnded, RunStarted, SubcallSettled
from rlm_jupyter.types.values import Message, Reply
from tests.support.examples import one_in
from tests.support.loopback import Fault, Loopback
from tests.support.pace import Pace

pytestmark = pytest.mark.slow

DRAFT = "answer['content'] = 'so far'"
IN_C = "sum(range(10**14))"
"""Holds the interpreter's lock: no signal is heard, and no other thread runs."""


SLOW_DRAFT = """\
class Draft:
    def __str__(self):
        import time
        time.sleep(60)
answer['content'] = Draft()"""


def block(*lines: str) -> str:
    return "I work.\n```repl\n{}\n```".format("\n".join(lines))


class Slow(ScriptedModel):
    """Begins at once, and then takes a minute for what is marked as slow."""

    async def complete(
        self, messages: Sequence[Message], *, max_output_tokens: int, on_text: Callable[[str], None] | None = None
    ) -> Reply:
        reply = await super().complete(messages, max_output_tokens=max_output_tokens, on_text=on_text)
        if reply.text.startswith("slow"):
            await asyncio.sleep(60)
        return reply


class Ponders(TerminationPolicy):
    """A policy that takes its time."""

    name = "ponders"

    def should_terminate(self, result: Any, context: Any) -> tuple[bool, str | None]:
        if context.step:
            time.sleep(5)
        return False, None


@dataclass(frozen=True)
class Place:
    """Where a run is when its time is up."""

    id: str
    reply: str
    """The second; the first leaves a draft."""
    within: float = 2.0
    """Seconds after the deadline."""
    child: str = "slow"
    depth: int = 1
    seconds: float = 1.5
    termination: Any = None


STRETCHES = (2, 4)
"""Further attempts at being in time, each with more of it: a busy machine comes late to the place, and adds to every end."""
CHILD = block("print(rlm_query('a part'))")
PLACES = (
    Place("a reply is streamed", "slow to come"),
    Place("Python code", block("while True: pass")),
    Place("a sleep that is interrupted", block("import time", "try: time.sleep(60)", "finally: print('seen')")),
    Place(
        "code that hears no interrupt",
        block("import signal", "signal.signal(2, signal.SIG_IGN)", "while True: pass"),
        4,
    ),
    Place("C code that holds the interpreter's lock", block(IN_C), 4),
    Place("a batch of sub-calls", block("print(llm_query_batched(['slow'] * 40))")),
    Place("an awaited sub-call", block("print(await allm_query('slow'))")),
    Place("a draft that takes its time", block(SLOW_DRAFT)),
    Place("a policy that thinks", block("1"), termination=Ponders()),
    Place("a reply of a child", CHILD, depth=2, seconds=3.0),
    Place("a cell of a child", CHILD, child=block("import time; time.sleep(60)"), depth=2, seconds=3.0),
    Place("children that wait for a kernel", block("rlm_query_batched(['a', 'b', 'c'])"), depth=2, seconds=3.0),
)


class FromFirstRecord:
    """Lets the limit count from the first record on, however long the kernel took to start.

    Parameters
    ----------
    seconds
        The limit, from then on.
    """

    def __init__(self, seconds: float) -> None:
        self.control = Control()
        self._seconds, self._called = seconds, time.monotonic()
        self.began = 0.0
        self.ends: list[RunEnded] = []
        """Of children."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.began = time.monotonic()
            self.control.raise_limit("max_seconds", self.began - self._called + self._seconds)
        if isinstance(event, ChildReported) and isinstance(event.event, RunEnded):
            self.ends.append(event.event)

    async def watch(self, rlm: RLM, prompt: str = "What?", context: str = "text") -> Result:
        return await rlm.acompletion(prompt, context, on_event=self, control=self.control)


async def played(place: Place, seconds: float) -> tuple[Result, float, list[RunEnded]]:
    """A run with so much time: what came of it, the seconds after its deadline, and how its children ended."""
    model = Slow([block(DRAFT), place.reply, *[place.child] * 4], sub=lambda prompt: prompt)
    limits = Limits(max_seconds=60, max_depth=place.depth, max_kernels=2, cell_seconds=None)
    clock = FromFirstRecord(seconds)
    result = await clock.watch(RLM(model, limits=limits, save=False, termination=place.termination))
    over = time.monotonic() - clock.began - seconds
    print(f"{place.id}: {over:+.2f} s after the deadline")
    return result, over, clock.ends


_LATE_SECONDS = 8.0


async def never(*_: Any, **__: Any) -> None:
    """The kernel's process is there, and does not answer."""
    await asyncio.sleep(600)


async def test_a_kernel_that_does_not_come_up_in_time_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Connection, "request", never)
    for awaits in (True, False):
        rlm = RLM(ScriptedModel([]), limits=Limits(max_seconds=0.7), save=tmp_path / "run.ipynb")
        pace, began = Pace(), time.monotonic()
        result = await rlm.acompletion("What?", "text") if awaits else await asyncio.to_thread(rlm.completion, "What?")
        assert time.monotonic() - began >= 0.7
        assert pace.within(2.7)
        assert (result.answer, result.stop_reason, result.cost) == (None, "seconds", 0.0)
        assert result.message == "The time was up before its kernel had started"
        assert isinstance(journal.read(tmp_path / "run.rlm" / "journal.jsonl")[-1], RunEnded)
        assert result.trajectory.started.prompt == "What?"


async def test_a_run_is_stopped_while_its_kernel_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "request", never)
    running = RLM(ScriptedModel([]), save=False).start("What?", "text", keep_kernel=True)
    await asyncio.sleep(0.5)
    pace = Pace()
    running.stop()
    result = await asyncio.to_thread(running.result)
    assert pace.within(2)
    assert (result.answer, result.stop_reason) == (None, "cancelled")
    with pytest.raises(ConfigurationError, match="kernel of this run is closed"):
        result.ask("And?")


async def test_the_start_of_the_kernel_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Kernel.start.__func__  # type: ignore[attr-defined]

    async def late(cls: type[Kernel], *args: Any, **options: Any) -> Kernel:
        await asyncio.sleep(_LATE_SECONDS)
        kernel: Kernel = await start(cls, *args, **options)
        return kernel

    monkeypatch.setattr(Kernel, "start", classmethod(late))
    clock: list[float] = []
    rlm = RLM(ScriptedModel([block("import time; time.sleep(60)")]), limits=Limits(max_seconds=14), save=False)
    result = await rlm.acompletion("What?", "text", on_event=lambda event: clock.append(time.monotonic()))
    assert result.stop_reason == "seconds"
    assert clock[-1] - clock[0] < 14 - _LATE_SECONDS / 2  # what was left when its kernel was there, and not all


@pytest.mark.parametrize("place", one_in(3, PLACES), ids=lambda place: place.id)
async def test_a_run_ends_in_time_wherever_it_is(place: Place) -> None:
    result, over, ends = await played(place, place.seconds)
    for stretch in STRETCHES:
        if result.answer == "so far" and over <= place.within and len(ends) == (place.depth == 2):
            break
        result, over, ends = await played(place, place.seconds * stretch)
    assert (result.answer, result.stop_reason) == ("so far", "seconds")
    assert -1 <= over <= place.within
    assert {end.stop_reason for end in ends} <= {"seconds"}
    assert len(ends) == (place.depth == 2)
    notices = [notice for iteration in result.trajectory.iterations for notice in iteration.notices]
    assert not any("was started again" in notice for notice in notices)  # nobody would use that kernel


async def waited(wire: str, seconds: float) -> tuple[Result, float, int]:
    """A run with so much time, at a server that is busy: what came of it, seconds after its deadline, requests."""
    with Loopback([block(DRAFT), Fault.status(529)]) as server:
        url = server.url if wire == "anthropic" else server.openai_url
        model = load_model(f"{wire}/some-model", base_url=url, api_key="some-key")
        began: list[float] = []
        result = await RLM(model, limits=Limits(max_seconds=seconds)).acompletion(
            "What?", "text", on_event=lambda event: began.append(time.monotonic())
        )
        return result, time.monotonic() - began[0] - seconds, len(server.requests)


@pytest.mark.parametrize("wire", one_in(2, ["openai", "anthropic"]))
async def test_a_run_ends_in_time_while_a_busy_server_is_waited_for(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result, over, requests = await waited(wire, 4)
    for stretch in STRETCHES:
        if result.answer == "so far" and over <= 2:
            break
        result, over, requests = await waited(wire, 4 * stretch)
    assert (result.answer, result.stop_reason) == ("so far", "seconds")
    assert over <= 2
    assert 2 < requests < 20  # one for the draft, and it has tried again


async def test_a_limit_that_is_raised_in_time_lets_a_reply_go_on() -> None:
    class Late(ScriptedModel):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
            await asyncio.sleep(2)
            return await super().complete(messages, **options)

    clock = FromFirstRecord(1)

    def watch(event: Event) -> None:
        clock(event)
        if isinstance(event, RunStarted):
            asyncio.get_running_loop().call_later(0.5, clock.control.raise_limit, "max_seconds", 60)

    rlm = RLM(Late([block("FINAL('in time')")]), limits=Limits(max_seconds=60), save=False)
    result = await rlm.acompletion("What?", on_event=watch, control=clock.control)
    assert (result.answer, result.stop_reason) == ("in time", "answered")


# what was stopped


async def test_what_was_stopped_is_billed_and_recorded() -> None:
    asks = block("import time", "llm_query('quick')", "print(llm_query_batched(['slow', 'slow', 'quick']))")
    model = Slow([block(DRAFT), asks], sub=lambda prompt: prompt)
    result = await FromFirstRecord(2.5).watch(RLM(model, limits=Limits(max_seconds=60), save=False))
    assert result.stop_reason == "seconds"
    settled = sorted((call.ordinal, call.failed, call.text) for call in result.trajectory.subcalls)
    stopped = "it was stopped before it was answered"
    assert [(ordinal, failed) for ordinal, failed, _ in settled] == [(0, False), (1, True), (2, True), (3, False)]
    assert [text for _, failed, text in settled if failed] == [stopped] * 2
    assert all(call.usage.input_tokens for call in result.trajectory.subcalls)
    assert result.trajectory.usage == result.usage  # the last bill is the sum of the records


async def test_a_child_that_was_stopped_has_its_bill_in_the_record() -> None:
    class Parts(Slow):
        def _next(self, messages: Sequence[Message]) -> Any:
            return "slow" if "`context` is a str: 6 characters" in messages[1].content else super()._next(messages)

    model = Parts([block("print(rlm_query('a part'))"), "no more"])
    limits = Limits(max_seconds=60, max_depth=2)
    result = await FromFirstRecord(4.0).watch(RLM(model, limits=limits, save=False), context="longer text")
    (call,) = [record for record in result.trajectory.records if isinstance(record, SubcallSettled)]
    assert (call.failed, call.kind) == (True, "rlm")
    assert call.usage.input_tokens > 100
    assert result.trajectory.usage == result.usage


async def test_three_generations_with_one_request_at_a_time_and_a_kernel_each_do_not_wait_for_each_other() -> None:
    def reply(messages: Sequence[Message]) -> str:
        if len(messages) > 2:
            return block("FINAL(found)")
        opening = messages[1].content
        if "`context` is a str: 11 characters" in opening:
            return block("print(context[:3])", "found = rlm_query_batched(['child', 'child'])")
        if "`context` is a str: 5 characters" in opening:
            return block("found = rlm_query('grandchild')")
        return block("found = llm_query_batched([context] * 5)")

    model = ScriptedModel([reply] * 20, sub=lambda prompt: f"<{prompt}>", latency=0.01)
    limits = Limits(concurrency=1, max_depth=3, max_kernels=3, max_seconds=60)
    result = await RLM(model, limits=limits, save=False).acompletion("What?", "longer text")
    assert result.stop_reason == "answered"
    assert [str(child).count("<grandchild>") for child in result.value] == [5, 5]
    assert result.usage == result.trajectory.usage


async def test_a_cell_that_took_all_the_time_leaves_some_for_a_last_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cells", "loop"):  # so much that the interrupt takes of it on any machine, and leaves enough
        monkeypatch.setattr(f"rlm_jupyter.run.{module}.INTERRUPT_MARGIN", 1.5)
    model = ScriptedModel([block("print('seen 7')"), block("import time", "time.sleep(60)"), "7"])
    result = await RLM(model, save=False, limits=Limits(max_seconds=4)).acompletion("What is seen?", "a text")
    assert (result.stop_reason, result.answer) == ("seconds", "7")
