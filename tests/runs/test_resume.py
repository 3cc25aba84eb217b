"""A run that was broken off is resumed: everything that was paid for is there, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.policies import TerminationPolicy
from rlm_jupyter.prompts import notices
from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.recorded_configuration import configuration
from rlm_jupyter.replay.resume import Resumption
from rlm_jupyter.run import background
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.events import CellReplayed, CellStarted, Event, NoticeGiven, Record, RunResumed
from rlm_jupyter.types.values import Message, Reply
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.support.loopback import Loopback, Said

CONTEXT = "some text " * 2_000


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str) -> str:
    return "I run this.\n```repl\n" + "\n".join(lines) + "\n```"


class Thrice(TerminationPolicy):
    """Ends a run that printed the same twice; it has to have seen the first."""

    def reset(self) -> None:
        self.last = ""

    def should_terminate(self, result: Any, context: Any) -> tuple[bool, str | None]:
        again, self.last = result.output == self.last, result.output
        return again, result.output


class Broken(TerminationPolicy):
    """Fails where it is to judge an answer."""

    def should_terminate(self, result: Any, context: Any) -> tuple[bool, str | None]:
        if result.action_type == "final":
            raise RuntimeError("a bug")
        return False, None


class Counting(ScriptedModel):
    """Replies by how far the conversation is, so that it does not matter who asks; counts what it was asked."""

    def __init__(self, replies: Sequence[str | Callable[[], str]], **options: Any) -> None:
        self.asked: list[str] = []
        self.replies = list(replies)

        def reply(messages: Sequence[Message]) -> str:
            said = self.replies[sum(message.role == "assistant" for message in messages)]
            return said() if callable(said) else said

        super().__init__([reply] * 100, sub=self._sub, **options)

    def _sub(self, prompt: str) -> str:
        self.asked.append(prompt)
        return f"<{prompt}>"

    @property
    def roots(self) -> int:
        return sum(len(messages) > 1 for messages in self.requests)


CELLS = [
    block("x = [1]", "print('first', len(context))"),
    "Two.\n```repl\ny = llm_query_batched(['a', 'b'])\nprint(y)\n```\n```repl\nx.append(llm_query('c'))\nx\n```",
    block("print(hash('fixed') == h if 'h' in globals() else 'no h'); h = hash('fixed')", "1/0"),
    block("FINAL([x, y, len(context)])"),
]
ANSWER = '[[1, "<c>"], ["<a>", "<b>"], 20000]'


async def whole(replies: Sequence[str | Callable[[], str]] = CELLS, **options: Any) -> Result:
    # cells that look at files next to the test
    return await RLM(Counting(replies), sandbox="none", **options).acompletion("What is it?", CONTEXT)


def cut(result: Result, lines: int, *, name: str) -> Path:
    """A copy of a run as if its host had been killed when the journal had so many lines."""
    assert result.path is not None
    notebook = Path(name).absolute() / "run.ipynb"
    folder = notebook.with_suffix(".rlm")
    shutil.copytree(result.path.with_suffix(".rlm"), folder)
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]) + b'{"record": "Reply')
    return notebook


def conversation(path: Path) -> list[tuple[str, str]]:
    return [(i.reply.text, i.shown) for i in Trajectory.load(path).iterations]


def test_an_option_that_is_misspelt_is_named(in_folder: Path) -> None:
    RLM(ScriptedModel(["```repl\nprint(1)\n```", "```repl\nFINAL(1)\n```"]), save="run.ipynb").completion("q", "t")
    with pytest.raises(ConfigurationError, match=r"no option 'max_iteration'\. Did you mean max_iterations\?"):
        RLM.fork("run.ipynb", 1, max_iteration=9)
    with pytest.raises(ConfigurationError, match="at is a number of iterations, not '1'"):
        RLM.fork("run.ipynb", "1")  # type: ignore[arg-type]


@pytest.mark.slow
async def test_wherever_a_run_is_broken_off_it_ends_the_same_and_nothing_is_asked_twice() -> None:
    result = await whole()
    assert result.answer == ANSWER
    assert result.path is not None
    records = result.trajectory.records
    expected = conversation(result.path)

    async def resume(lines: int) -> None:
        path = cut(result, lines, name=f"at{lines}")
        model = Counting(CELLS)
        again = await RLM.aresume(path, model=model)
        left = [type(record).__name__ for record in records[lines:]]
        assert (again.answer, again.stop_reason) == (ANSWER, "answered"), lines
        assert (model.roots, len(model.asked)) == (left.count("ReplyReceived"), left.count("SubcallSettled")), lines
        assert [(i.reply.text, i.shown) for i in again.trajectory.iterations] == expected, lines
        assert Trajectory.load(path).records == again.trajectory.records
        assert tuple(notebook.read(path)) == again.trajectory.records
        assert again.usage == again.trajectory.usage == result.usage
        # every prompt has one answer on record
        assert sorted(call.prompt_head for call in again.trajectory.subcalls) == ["a", "b", "c"]

    several = asyncio.Semaphore(3)

    async def in_turn(lines: int) -> None:
        async with several:
            await resume(lines)

    await asyncio.gather(*(in_turn(lines) for lines in range(1, len(records))))


CHILD = [block("part = context.upper()", "print(part)"), block("z = llm_query(part)", "print(z)"), block("FINAL(z)")]


async def test_a_child_that_was_under_way_is_gone_on_with_not_begun_anew(in_folder: Path) -> None:
    limits = Limits(max_depth=2)
    root = [block("print(rlm_query_batched(['one', 'two']))"), block("FINAL('done')")]
    result = await RLM(Counting(root), sub_model=Counting(CHILD), limits=limits).acompletion("What?", CONTEXT)
    assert result.path is not None
    children = {Trajectory.load(path).run_id: path for path in in_folder.glob("rlm_runs/*.rlm/children/*.ipynb")}
    assert len(children) == 2
    # the cell that asked for them is under way, and neither has answered: one in the middle, one at its end
    for lines, ended in ((4, False), (6, False), (99, True)):
        path = cut(result, 2, name=f"child{lines}")
        left = 0
        for child in sorted(path.with_suffix(".rlm").glob("children/*.rlm")):
            journal = child / "journal.jsonl"
            kept = journal.read_bytes().splitlines(keepends=True)
            left += sum(b'"record": "ReplyReceived"' in line for line in kept[lines:])
            journal.write_bytes(b"".join(kept[:lines]))
            child.with_suffix(".ipynb").unlink()
        model, sub = Counting(root), Counting(CHILD)
        again = await RLM.aresume(path, model=model, sub_model=sub)
        assert again.answer == "done"
        assert again.trajectory.iterations[0].shown == result.trajectory.iterations[0].shown
        assert (model.roots, sub.roots) == (1, left)
        assert (left == 0) is ended
        assert {call.child for call in again.trajectory.subcalls} == set(children)
        assert again.usage == again.trajectory.usage == result.usage


HOST = """
import asyncio, sys
from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import load_model
model = load_model("openai/any", base_url=sys.argv[1], api_key="k")
RLM(model, save="run.ipynb", sandbox="none").completion("What is it?", "some text")
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["a cell", "half of a batch", "a reply"])
async def test_the_host_is_killed_and_the_server_hears_nothing_twice(moment: str, in_folder: Path) -> None:
    release = Path("release")
    sleep = "import time, os\ntime.sleep(0 if os.path.exists('release') else 60)"
    cells = [
        "print('before')",
        f"r = llm_query_batched([f'p{{i}}' for i in range(6)])\nprint(r)\n{sleep if moment == 'a cell' else ''}",
        "FINAL(' '.join(r))",
    ]

    def answer(messages: list[dict[str, str]]) -> Said:
        text = messages[-1]["content"]
        if messages[0]["role"] != "system":
            late = moment == "half of a batch" and text in {"p3", "p4", "p5"}
            return Said(text.upper(), delay=0 if release.exists() else 20 * late)
        iteration = sum(message["role"] == "assistant" for message in messages)
        late = moment == "a reply" and iteration == 2
        return Said(block(cells[iteration]), delay=0 if release.exists() else 20 * late)

    def paid(kind: str) -> int:
        journal = Path("run.rlm/journal.jsonl")
        return journal.read_text().count(f'"record": "{kind}"') if journal.exists() else 0

    with Loopback([answer]) as server:
        host = subprocess.Popen([sys.executable, "-c", HOST, server.openai_url])
        subcalls, requests = {"a cell": (6, 8), "half of a batch": (3, 8), "a reply": (6, 9)}[moment]
        try:
            await _until(lambda: paid("SubcallSettled") == subcalls and len(server.requests) == requests)
        finally:
            host.send_signal(signal.SIGKILL)
            host.wait()
        known = {call.prompt_head for call in Trajectory.load("run.ipynb").subcalls}
        release.touch()
        again = await RLM.aresume("run.ipynb", model=load_model("openai/any", base_url=server.openai_url, api_key="k"))
        assert (again.answer, again.stop_reason) == ("P0 P1 P2 P3 P4 P5", "answered")
        asked = [request.messages[-1]["content"] for request in server.requests[requests:]]
        subs = [text for text in asked if re.fullmatch(r"p\d", text)]
        assert len(known) == subcalls
        assert sorted(subs) == sorted({f"p{i}" for i in range(6)} - known)
        assert len(asked) - len(subs) == 1  # only the last iteration's reply
        assert sorted(call.prompt_head for call in again.trajectory.subcalls) == [f"p{i}" for i in range(6)]


async def _until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_cell_in_which_the_run_was_stopped_is_executed_and_what_it_had_asked_is_not_asked_again() -> None:
    cells = [
        block("x = 1"),
        block(
            "a = llm_query('a')",
            "import os, time",
            "time.sleep(0 if os.path.exists('go') else 60)",
            "b = llm_query('b')",
        ),
        block("FINAL(a + b)"),
    ]
    model, control = Counting(cells), Control()
    running = asyncio.create_task(
        RLM(model, save="run.ipynb", sandbox="none").acompletion("What?", CONTEXT, control=control)
    )
    await _until(lambda: model.asked == ["a"])
    await asyncio.sleep(0.2)
    control.stop()
    assert (await running).stop_reason == "cancelled"
    Path("go").touch()
    model, events = Counting(cells), list[Event]()
    again = await RLM.aresume("run.ipynb", model=model, on_event=events.append)
    assert (again.answer, model.asked, model.roots) == ("<a><b>", ["b"], 1)
    assert [cell.status for i in again.trajectory.iterations for cell in i.cells] == ["ok"] * 3
    assert [event.executed for event in events if isinstance(event, CellReplayed)] == [True]
    assert sum(isinstance(event, RunResumed) for event in events) == 1
    assert Trajectory.load("run.ipynb").records == again.trajectory.records
    assert tuple(notebook.read("run.ipynb")) == again.trajectory.records
    executed = [cell for cell in nbformat.read("run.ipynb", as_version=4).cells if "llm_query('a')" in cell.source]
    assert [cell.metadata.get("tags") for cell in executed] == [["rlm-interrupted", "skip-execution"], None]


async def _stopped(cells: list[str], begins: str, *, again: bool = False, times: int = 1) -> list[str]:
    """Stop a run, or one that is resumed, as soon as a cell has begun so often; what the model was asked."""
    model, control = Counting(cells), Control()
    if again:
        running = asyncio.create_task(RLM.aresume("run.ipynb", model=model, control=control))
    else:
        rlm = RLM(model, save="run.ipynb", sandbox="none")
        running = asyncio.create_task(rlm.acompletion("What?", CONTEXT, control=control))
    await _until(lambda: Path(begins).exists() and len(Path(begins).read_text()) == times)
    await asyncio.sleep(0.2)
    control.stop()
    assert (await running).stop_reason == "cancelled"
    return model.asked


async def test_a_cell_that_was_stopped_is_not_executed_again_and_the_model_is_told() -> None:
    endless = ["open('begun', 'a').write('x')", "print('half')", "y = 2", "while True: pass"]
    cells = [block("x = 1"), block(*endless), block("FINAL([x, 'y' in globals()])")]
    await _stopped(cells, "begun")
    model = Counting(cells)
    again = await RLM.aresume("run.ipynb", model=model)
    assert (again.value, model.roots) == ([1, False], 1)
    assert Path("begun").read_text() == "x"
    assert [cell.status for i in again.trajectory.iterations for cell in i.cells] == ["ok", "interrupted", "ok"]
    stopped = again.trajectory.iterations[1]
    assert 0.2 < stopped.cells[0].seconds < 30
    assert stopped.notices == (notices.STOPPED,)
    assert "half" in stopped.shown
    assert model.requests[-1][-1].content.startswith("Outputs:\nhalf")
    assert notices.STOPPED in model.requests[-1][-1].content
    # gone over once more, it is the same
    replayed = await RLM.areplay("run.ipynb")
    assert (replayed.differences, replayed.passed_over) == ((), (2,))
    path = cut(again, len(again.trajectory.records) - 3, name="copy")
    model = Counting(cells)
    third = await RLM.aresume(path, model=model)
    assert (third.value, third.trajectory.iterations[1].notices) == ([1, False], (notices.STOPPED,))
    assert Path("begun").read_text() == "x"


async def test_a_cell_with_sub_calls_that_is_stopped_a_second_time_is_not_executed_again() -> None:
    cells = [
        block("a = llm_query('a')", "open('begun', 'a').write('x')", "while True: pass"),
        block("FINAL('a' in globals())"),
    ]
    assert await _stopped(cells, "begun") == ["a"]
    assert await _stopped(cells, "begun", again=True, times=2) == []
    model = Counting(cells)
    again = await RLM.aresume("run.ipynb", model=model)
    assert (again.value, model.asked, Path("begun").read_text()) == (False, [], "xx")
    assert again.trajectory.iterations[0].notices == (notices.STOPPED,)


class Slow(Counting):
    async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
        if messages[0].content == "slow" and not Path("go").exists():
            self.asked.append("slow")
            await asyncio.sleep(60)
        return await super().complete(messages, **options)


async def test_a_sub_call_in_flight_when_the_run_was_stopped_is_asked_again_and_that_answer_counts() -> None:
    cells = [block("r = llm_query_batched(['a', 'slow', 'b'])", "print(r, llm_query('a'))"), block("FINAL(r)")]
    model, control = Slow(cells), Control()
    running = asyncio.create_task(RLM(model, save="run.ipynb").acompletion("What?", CONTEXT, control=control))
    await _until(lambda: sorted(model.asked) == ["a", "b", "slow"])
    await asyncio.sleep(0.2)
    control.stop()
    assert (await running).stop_reason == "cancelled"
    Path("go").touch()
    model = Slow(cells)
    again = await RLM.aresume("run.ipynb", model=model)
    assert (again.value, sorted(model.asked)) == (["<a>", "<slow>", "<b>"], ["a", "slow"])
    assert (await RLM.areplay("run.ipynb")).differences == ()


async def test_a_run_that_is_stopped_while_its_cells_are_executed_again_loses_nothing() -> None:
    cells = [block("import os, time", "time.sleep(60 if os.path.exists('slow') else 0)"), *CELLS]
    result = await whole(cells)
    path = cut(result, len(result.trajectory.records) - 4, name="copy")
    Path("slow").touch()
    events, control = list[Event](), Control()
    running = asyncio.create_task(RLM.aresume(path, model=Counting(cells), on_event=events.append, control=control))
    await _until(lambda: any(isinstance(event, CellStarted) for event in events))
    control.stop()
    stopped = await running
    assert (stopped.stop_reason, len(stopped.trajectory.iterations)) == ("cancelled", 5)
    Path("slow").unlink()
    model = Counting(cells)
    again = await RLM.aresume(path, model=model)
    assert (again.answer, model.roots) == (ANSWER, 0)
    assert [len(i.cells) for i in again.trajectory.iterations] == [1, 1, 2, 1, 1]


async def test_a_kernel_that_had_died_between_two_cells_is_started_again_there() -> None:
    cells = [
        block("kept = 1", "import threading, os", "threading.Timer(0.4, os._exit, [1]).start()"),
        block("print('kept' in globals())"),
        block("print(2)"),
        block("FINAL('end')"),
    ]

    class SlowOnce(Counting):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
            self.latency = 1.5 if len(self.requests) == 1 else 0.0  # it has died by then
            return await super().complete(messages, **options)

    result = await RLM(SlowOnce(cells), sandbox="none").acompletion("What?", CONTEXT)
    assert any("died between two cells" in text for text in result.trajectory.iterations[1].notices)
    path = cut(result, len(result.trajectory.records) - 5, name="copy")
    model, events = Counting(cells), list[Event]()
    again = await RLM.aresume(path, model=model, on_event=events.append)
    assert (again.answer, model.roots) == ("end", 1)
    assert [event.difference for event in events if isinstance(event, CellReplayed)] == ["", "", ""]


async def test_what_differs_is_told_and_what_legitimately_does_is_not() -> None:
    cells = [
        block("print(object(), f'{1.5 + id(object()) % 7:.2f} s')", "import datetime; print(datetime.datetime.now())"),
        block("import os", "seen = os.environ.get('X') or len(os.listdir('.'))", "print('files:', seen)"),
        block("print('quiet')"),
        block("FINAL(seen)"),
    ]
    result = await whole(cells)
    path = cut(result, len(result.trajectory.records) - 5, name="copy")
    Path("one more file").touch()
    model, events = Counting(cells), list[Event]()
    again = await RLM.aresume(path, model=model, on_event=events.append)
    replayed = [event for event in events if isinstance(event, CellReplayed)]
    assert [bool(event.difference) for event in replayed] == [False, True, False]
    assert "-files: " in replayed[1].difference
    assert "+files: " in replayed[1].difference
    (notice,) = [event.text for event in events if isinstance(event, NoticeGiven)]
    assert "gave other outputs" in notice
    assert "+files: " in notice
    # what the model had been shown stands; its variables are the new ones
    assert [i.shown for i in again.trajectory.iterations[:3]] == [i.shown for i in result.trajectory.iterations[:3]]
    assert int(again.answer or 0) > int(result.answer or 0)
    assert notice in model.requests[0][-1].content


async def test_timed_out_cells_and_dead_kernels_are_replayed_as_recorded_without_being_executed() -> None:
    cells = [
        block("kept = 1"),
        block("import time", "time.sleep(300)"),
        block("after = kept + 1", "print(after)"),
        block("import os", "open('deaths', 'a').write('x')", "os._exit(3)"),
        block("print('kept' in globals())"),
        block("FINAL('end')"),
    ]
    result = await whole(cells, limits=Limits(cell_seconds=1))
    statuses = [cell.status for i in result.trajectory.iterations for cell in i.cells]
    assert statuses == ["ok", "interrupted", "ok", "died", "ok", "ok"]
    path = cut(result, len(result.trajectory.records) - 4, name="copy")
    began, events = time.monotonic(), list[Event]()
    again = await RLM.aresume(path, model=Counting(cells), on_event=events.append, cell_seconds=60)
    assert time.monotonic() - began < 50
    assert again.answer == "end"
    assert Path("deaths").read_text() == "x"
    assert [i.shown for i in again.trajectory.iterations[:5]] == [i.shown for i in result.trajectory.iterations[:5]]
    replayed = [event for event in events if isinstance(event, CellReplayed)]
    assert [event.executed for event in replayed] == [True, False, True, False, True]
    assert not any(event.difference for event in replayed)
    assert any(
        "had been interrupted were not executed again" in text
        for i in again.trajectory.iterations
        for text in i.notices
    )


async def test_without_executing_anything_the_model_is_told_that_its_kernel_is_empty() -> None:
    cells = [block("open('traces', 'a').write('x')"), block("print(2)"), block("FINAL('kept' in globals())")]
    result = await whole(cells)
    path = cut(result, len(result.trajectory.records) - 5, name="copy")
    model = Counting(cells)
    again = await RLM.aresume(path, model=model, reexecute=False)
    assert (again.answer, model.roots) == ("False", 1)
    assert Path("traces").read_text() == "x"
    assert "cells were not executed again" in model.requests[0][-1].content


async def test_a_limit_is_raised_and_the_bill_goes_on() -> None:
    result = await whole(limits=Limits(max_iterations=2, max_subcalls=4))
    assert result.stop_reason == "iterations"
    assert result.path is not None
    with pytest.raises(
        ConfigurationError, match=r"ended by its limit max_iterations=2. Raise it to go on: max_iterations=N"
    ):
        await RLM.aresume(result.path, model=Counting(CELLS))
    with pytest.raises(ConfigurationError, match="There is no option"):
        await RLM.aresume(result.path, model=Counting(CELLS), max_everything=3)
    model = Counting(CELLS)
    again = await RLM.aresume(result.path, model=model, max_iterations=9)
    assert (again.answer, model.roots, model.asked) == (ANSWER, 2, [])
    assert again.usage == again.trajectory.usage
    assert "code can be executed. Iteration 3 of 9. Left: 1 sub-calls" in model.requests[0][-1].content
    # what was raised is recorded: whoever goes on after that has it
    assert Trajectory.load(result.path).started.limits["max_iterations"] == 2
    path = cut(again, len(again.trajectory.records) - 3, name="copy")
    model = Counting(CELLS)
    assert (await RLM.aresume(path, model=model)).answer == ANSWER
    assert model.roots <= 1


@pytest.mark.slow
async def test_the_time_that_re_execution_takes_is_not_that_of_the_run(in_folder: Path) -> None:
    nap = in_folder / "nap"
    nap.write_text("0")
    slow = block(f"import pathlib, time; time.sleep(float(pathlib.Path({str(nap)!r}).read_text())); print('slow')")
    model = Counting([slow, block("FINAL('no')")])
    rlm = RLM(model, save="slow.ipynb", termination=Thrice(), limits=Limits(max_iterations=1), sandbox="none")
    await rlm.acompletion("How slow?", CONTEXT)
    nap.write_text("3")
    again = Counting([block("never asked"), block("FINAL('later')")])
    # a policy of the user's is given no more time than the run has
    result = await RLM.aresume("slow.ipynb", model=again, max_iterations=3, max_seconds=2, termination=Thrice())
    assert (result.stop_reason, result.answer) == ("answered", "later")


async def test_policies_see_again_what_they_had_seen() -> None:
    cells = [block(f"print(abs({i}), hash({i}))") for i in (1, 2, 2, 2)]
    policy = {"name": "tests.runs.test_resume:Thrice"}
    result = await RLM(Counting(cells), termination=policy).acompletion("What?", CONTEXT)
    assert (result.stop_reason, len(result.trajectory.iterations)) == ("terminated", 3)
    path = cut(result, len(result.trajectory.records) - 6, name="copy")
    model = Counting(cells)
    again = await RLM.aresume(path, model=model)
    assert (again.stop_reason, again.answer, model.roots) == ("terminated", result.answer, 1)


async def test_an_answer_that_a_policy_has_failed_on_is_judged_again_by_the_mended_one() -> None:
    cells = [block("print(len(context))"), block("FINAL('yes')"), block("FINAL('no')")]
    result = await RLM(Counting(cells), termination=Broken()).acompletion("What?", CONTEXT)
    assert (result.stop_reason, len(result.trajectory.iterations)) == ("failed", 2)
    assert result.path is not None
    model = Counting(cells)
    again = await RLM.aresume(result.path, model=model, termination="final_pattern")
    assert (again.stop_reason, again.answer, model.roots) == ("answered", "yes", 0)


async def test_what_can_not_be_gone_on_with_is_refused_in_one_line(in_folder: Path) -> None:
    result = await whole()
    assert result.path is not None
    with pytest.raises(ConfigurationError, match=r"has its answer.*jupyter rlm fork"):
        await RLM.aresume(result.path)
    path = cut(result, 6, name="copy")
    with (
        Journal.open(path.with_suffix(".rlm") / "journal.jsonl"),
        pytest.raises(ConfigurationError, match="still going on"),
    ):
        await RLM.aresume(path)
    with pytest.raises(RecordError, match="There is no run"):
        await RLM.aresume("nowhere.ipynb")
    child = await RLM(
        Counting([block("FINAL(rlm_query('part'))")]), sub_model=Counting(CHILD), limits=Limits(max_depth=2)
    ).acompletion(
        "What?",
        "text",
    )
    assert child.path is not None
    with pytest.raises(ConfigurationError, match="answers a sub-call of"):
        await RLM.aresume(next(child.path.with_suffix(".rlm").glob("children/*.ipynb")))
    limits = Limits(max_iterations=1)
    own = await RLM(Counting([block("1"), "none"]), termination=Thrice(), limits=limits).acompletion("What?", "text")
    assert own.path is not None
    with pytest.raises(ConfigurationError, match="was an object of Thrice, which is not in its record: give it again"):
        await RLM.aresume(own.path, max_iterations=3)
    shutil.rmtree(path.with_suffix(".rlm") / "objects")
    with pytest.raises(RecordError, match="is missing"):
        await RLM.aresume(path, model=Counting(CELLS))


async def test_a_record_is_read_once_and_again_only_where_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Counting([block("x = 1"), block("never asked")])
    first = await RLM(model, limits=Limits(max_iterations=1), save="once.ipynb").acompletion("How often?", CONTEXT)
    assert first.path is not None
    read: list[Path] = []
    real = journal.read

    def counted(path: Path, *args: Any) -> list[Record]:
        read.append(path)
        return real(path, *args)

    monkeypatch.setattr(journal, "read", counted)
    settings = RLM(Counting([block("x"), block("FINAL(x)")]), limits=Limits(max_iterations=3)).settings
    going_on = Resumption(SavedRun.load(first.path), settings)
    late = Resumption(SavedRun.load(first.path), settings)
    read.clear()
    assert (await going_on.answer("How often?", None, None)).answer == "1"
    assert not read
    with pytest.raises(ConfigurationError, match="has its answer"):
        await late.answer("How often?", None, None)  # somebody was faster
    assert read


async def test_the_notebook_alone_is_enough_and_its_record_is_complete_again(in_folder: Path) -> None:
    limits = Limits(max_iterations=2)
    result = await RLM(Counting(CELLS), limits=limits).acompletion("What?", "short")
    assert result.path is not None
    Path("alone").mkdir()
    path = Path(shutil.copy(result.path, "alone/run.ipynb"))
    again = await RLM.aresume(path, model=Counting(CELLS), max_iterations=9)
    assert again.answer == '[[1, "<c>"], ["<a>", "<b>"], 5]'
    shutil.rmtree("rlm_runs")
    path.unlink()
    assert Trajectory.load("alone/run.rlm").records == again.trajectory.records


async def test_where_the_journal_is_damaged_the_notebook_serves_and_the_damage_is_kept_aside() -> None:
    result = await whole(limits=Limits(max_iterations=2))
    assert result.path is not None
    journal = result.path.with_suffix(".rlm") / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"{{{\n", *lines[2:]]))
    model = Counting(CELLS)
    again = await RLM.aresume(result.path, model=model, max_iterations=9)
    assert (again.answer, model.roots, model.asked) == (ANSWER, 2, [])
    assert b"{{{" in journal.with_suffix(".damaged").read_bytes()
    assert Trajectory.load(result.path.with_suffix(".rlm")).records == again.trajectory.records


async def test_notes_in_the_notebook_outlive_that_it_is_gone_on_with(caplog: pytest.LogCaptureFixture) -> None:
    result = await whole(limits=Limits(max_iterations=2))
    assert result.path is not None
    content = json.loads(result.path.read_bytes())
    content["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "my notes"})
    result.path.write_text(json.dumps(content))
    again = await RLM.aresume(result.path, model=Counting(CELLS), max_iterations=9)
    assert again.answer == ANSWER
    kept = result.path.with_name(f"{result.path.stem}-edited.ipynb")
    assert "my notes" in kept.read_text()
    assert kept.name in caplog.text
    assert Trajectory.load(result.path).records == again.trajectory.records


async def test_a_run_that_is_gone_on_with_leaves_no_other_version_of_its_notebook(in_folder: Path) -> None:
    result = await whole(limits=Limits(max_iterations=2))
    assert result.path is not None
    await RLM.aresume(result.path, model=Counting(CELLS), max_iterations=9)
    assert {path.suffix for path in result.path.parent.iterdir()} == {".ipynb", ".rlm"}
    assert len(list(result.path.parent.iterdir())) == 2


def test_it_works_without_await_and_from_a_running_loop(in_folder: Path) -> None:
    result = asyncio.run(whole(limits=Limits(max_iterations=2)))
    assert result.path is not None
    assert RLM.resume(result.path.stem, model=Counting(CELLS), max_iterations=9).answer == ANSWER


def test_from_a_notebook(in_folder: Path, shell: InteractiveShell) -> None:
    replies = [block("x = 20"), block("FINAL(x + 1)")]
    Path("s.json").write_text(json.dumps(replies))
    run_cell(shell, "%rlm -m scripted/s.json --max-iterations 1 --save run.ipynb What?")
    refused, _ = run_cell(shell, "%rlm_resume run.ipynb")
    assert "ended by its limit max_iterations=" in refused
    assert "--max-iterations N" in refused
    assert refused.count("\n") <= 2
    Path("s.json").write_text(json.dumps(replies[1:]))
    shown, error = run_cell(shell, "%rlm_resume run.ipynb --max-iterations 5")
    assert error is None, shown
    assert "21" in shown
    assert shell.user_ns["rlm_result"].answer == "21"


async def test_one_sub_model_for_each_depth_is_gone_on_with_as_it_was() -> None:
    limits, replies = Limits(max_iterations=1), [block("print(1)"), *["nothing"] * 5]
    one, two, three = (Counting(replies, name=f"scripted/{name}") for name in ("one", "two", "three"))
    result = await RLM(Counting(replies), sub_model=[one, two], limits=limits).acompletion("What?", "text")
    assert result.path is not None
    assert configuration(SavedRun.load(result.path), {}).options["sub_model"] == ["scripted/one", "scripted/two"]
    # what it was resumed with counts from then on
    changes: dict[str, Any] = {"model": Counting(replies), "max_iterations": 2}
    again = await RLM.aresume(result.path, sub_model=[two, three], **changes)
    assert again.path is not None
    assert configuration(SavedRun.load(again.path), {}).options["sub_model"] == ["scripted/two", "scripted/three"]
    last = await RLM.aresume(again.path, sub_model=three, **(changes | {"max_iterations": 3}))
    assert last.path is not None
    assert configuration(SavedRun.load(last.path), {}).options["sub_model"] == "scripted/three"


FIRST = [block("x = [1]", "y = llm_query('a')", "print(y)"), block("FINAL(x)")]
SECOND = [block("x.append(2)", "print(x, y, history[0]['answer'])"), block("FINAL(x)")]


@pytest.mark.parametrize("dies", [False, True])
def test_a_further_prompt_is_gone_on_with_in_the_kernel_that_the_one_before_had_left(
    dies: bool, in_folder: Path
) -> None:
    model = ScriptedModel([*FIRST, *SECOND], sub=lambda prompt: f"<{prompt}>")
    rlm = RLM(model, sandbox="none", insurance=dies, save=True)
    first = rlm.completion("First?", "text", keep_kernel=True)
    try:
        if dies:
            kernel = cast(Any, first._kept)._session.kernel
            background.submit(kernel.forks.insurance.settled()).result()
            os.kill(kernel._connection.process.supervised.kernel_pid, signal.SIGKILL)
            time.sleep(0.5)
        second = first.ask("Second?")
    finally:
        first.close()
    assert second.value == [1, 2]
    opening = second.trajectory.started.opening
    back = "it died and was started again; these are back as they were before this prompt: x, y (gone: none), `history`"
    assert (back if dies else "its variables are still there") in opening
    assert second.path is not None
    assert first.path is not None
    assert second.path == first.path
    assert RLM.replay(second.path).differences == ()
    # as an earlier version kept it: a run of its own, beside the one before
    path = cut(second, 4, name="alone")
    shutil.rmtree(path.with_suffix(".rlm") / "prompts")
    journal = (second.path.with_suffix(".rlm") / "prompts" / "2.rlm" / "journal.jsonl").read_bytes()
    lines = b"".join(journal.splitlines(keepends=True)[:4]) + b'{"record": "Reply'
    (path.with_suffix(".rlm") / "journal.jsonl").write_bytes(lines)
    model = ScriptedModel(SECOND[1:])
    with pytest.raises(RecordError, match=rf"asked in the kernel of {first.trajectory.run_id}, whose record is not"):
        RLM.resume(path, model=model)
    for source in (first.path, first.path.with_suffix(".rlm")):
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path.with_name(source.name))
    again = RLM.resume(path, model=model)
    assert (again.value, len(model.requests), again.usage.input_tokens) == ([1, 2], 1, second.usage.input_tokens)
    assert not any(i.notices for i in again.trajectory.iterations)
    fork = RLM.fork(path, 0, model=ScriptedModel([block("x.append(3)", "FINAL([x, y])")]))
    assert fork.value == [[1, 3], "<a>"]
    assert fork.trajectory.started.opening == opening
    assert SavedRun.load(path).cells_again == 4


@pytest.mark.parametrize(
    ("begun", "first", "holds"),
    [
        ({}, {"compact_at": 0.5, "see_figures": "never", "termination": "final_pattern"}, None),
        ({"compact_at": 0.5, "see_figures": "never"}, {"compact_at": 0.8, "see_figures": "auto"}, {}),
        ({"compact_at": 0.5, "termination": "final_pattern"}, {}, {"compact_at": 0.5, "termination": "final_pattern"}),
    ],
    ids=["changed", "as usual again", "as it began"],
)
async def test_what_a_resumption_changes_holds_for_the_next_one(
    begun: dict[str, Any], first: dict[str, Any], holds: dict[str, Any] | None
) -> None:
    replies = [block(f"print({number})") for number in range(4)]
    result = await RLM(ScriptedModel(replies[:1]), limits=Limits(max_iterations=1), **begun).acompletion("?", "a text")
    path = Path(str(result.path))
    await RLM.aresume(path, model=ScriptedModel(replies[1:2]), max_iterations=2, **first)
    await RLM.aresume(path, model=ScriptedModel(replies[2:3]), max_iterations=3)  # the one in between changes nothing
    [*_, last] = [record for record in SavedRun.load(path).records if isinstance(record, RunResumed)]
    assert last.options == (first if holds is None else holds)
    options = configuration(SavedRun.load(path), {}).options
    now = begun | first if holds != {} else {}
    assert {name: options[name] for name in ("compact_at", "see_figures", "termination") if name in options} == now


async def test_a_window_is_that_of_the_model_it_was_given_for_and_holds_for_the_next_resumption() -> None:
    with Loopback(replies=[Said(block(f"print({number})")) for number in range(6)]) as server:
        given: dict[str, Any] = {"base_url": server.openai_url, "api_key": "some-key"}
        rlm = RLM("openai/one", window=8_000, limits=Limits(max_iterations=1), **given)
        path = Path(str((await rlm.acompletion("?", "a text")).path))
        await RLM.aresume(path, max_iterations=2, **given)
        assert configuration(SavedRun.load(path), given).options["window"] == 8_000
        await RLM.aresume(path, model="openai/two", window=9_000, max_iterations=3, **given)
        assert configuration(SavedRun.load(path), given).options["window"] == 9_000
        await RLM.aresume(path, model="openai/three", max_iterations=4, **given)
        assert configuration(SavedRun.load(path), given).options["window"] is None


async def test_a_run_that_was_resumed_with_a_policy_of_ones_own_can_be_replayed() -> None:
    replies = [block(f"print({number})") for number in range(2)]
    result = await RLM(ScriptedModel(replies[:1]), limits=Limits(max_iterations=1)).acompletion("?", "a text")
    await RLM.aresume(str(result.path), model=ScriptedModel(replies[1:]), max_iterations=2, termination=Thrice())
    assert (await RLM.areplay(str(result.path))).same
