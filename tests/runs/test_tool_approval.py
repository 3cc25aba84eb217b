"""Tools that ask a person before they are called: at a terminal, in a notebook, by a program; and never twice."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Tool
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import CallDecided, CallProposed, Event
from tests.runs.test_cli import cli, script
from tests.runs.test_tools import counting, printed
from tests.runs.test_typed_answers import block
from tests.runs.test_typed_answers import in_folder as in_folder
from tests.support.here import Notebook

pytestmark = pytest.mark.slow

TRY = "for word in {words!r}:\n    try:\n        print(look_up(word))\n    except SubcallError as error:\n        print(error)"
NOBODY = "The tool look_up asks a person before it is called, and nobody can be asked here"


class Person:
    """Decides on each call that waits, by what it says."""

    def __init__(self, decide: Any) -> None:
        self._decide = decide
        self._ready = threading.Event()
        self.running: RunHandle | None = None
        self.asked: list[str] = []
        self.decided: list[bool] = []

    def __call__(self, event: Event) -> None:
        event = getattr(event, "event", event)
        if isinstance(event, CallProposed):
            self.asked.append(event.call)
            threading.Thread(target=self._do, args=[event]).start()
        elif isinstance(event, CallDecided):
            self.decided.append(event.runs)

    def _do(self, event: CallProposed) -> None:
        self._ready.wait(30)
        assert self.running is not None
        position = (event.iteration, event.block, event.ordinal)
        said = self._decide(event)
        control = self.running.control
        control.approve(cell=position) if said is True else control.refuse(said or "", cell=position)

    def watch(self, rlm: RLM) -> Any:
        self.running = rlm.start("What?", "a text", on_event=self, approve="calls")
        self._ready.set()
        return self.running.result(60)


def asking(approval: Any, *cells: str, **options: Any) -> tuple[RLM, list[str]]:
    look_up, called = counting()
    model = ScriptedModel([*map(block, cells)])
    return RLM(model, tools=[Tool(look_up, approval=approval)], sandbox="none", **options), called


def test_each_call_is_asked_about_and_a_refusal_is_an_error_that_the_model_sees() -> None:
    rlm, called = asking("always", TRY.format(words=["a", "b", "c"]), "FINAL('done')")
    person = Person(lambda event: {"a": True, "b": "not that one", "c": ""}[event.call[9]])
    result = person.watch(rlm)
    assert person.asked == ['look_up("a")', 'look_up("b")', 'look_up("c")']
    assert person.decided == [True, False, False]
    assert called == ["a"]
    assert printed(result).splitlines() == [
        "a, for the 1. time",
        "The person refused this call. Their message: not that one.",
        "The person refused this call.",
    ]
    assert "Their message: not that one" in (result.trajectory.iterations[0].shown or "")
    # what is on record is not asked about, nor made again, whoever is there
    assert RLM.replay(result.path).same
    look_up, again = counting()
    tools = [Tool(look_up, approval="always", repeatable=True)]
    person = Person(lambda event: True)
    forked = RLM.fork(result.path, 1, model=ScriptedModel([block("FINAL(look_up('d'))")]), tools=[look_up])
    assert (forked.answer, again) == ("d, for the 1. time", ["d"])
    with pytest.raises(ConfigurationError, match=NOBODY):
        RLM.fork(result.path, 1, model=ScriptedModel([block("FINAL(1)")]), tools=tools)


def test_nobody_is_asked_about_a_call_whose_arguments_are_wrong() -> None:
    cell = TRY.replace("look_up(word)", "look_up([word])").format(words=["a"])
    rlm, called = asking("always", cell, "FINAL('done')")
    person = Person(lambda event: True)
    assert "wrong arguments: word" in printed(person.watch(rlm))
    assert person.asked == called == []


def test_once_is_for_each_run_and_always_until_a_person_says_all() -> None:
    rlm, called = asking("once", TRY.format(words=["a", "b", "c"]), "FINAL('done')")
    answers = iter(["no", True])
    person = Person(lambda event: next(answers))
    person.watch(rlm)
    assert person.asked == ['look_up("a")', 'look_up("b")']
    assert called == ["b", "c"]
    rlm, called = asking("always", TRY.format(words=["a", "b"]), "FINAL('done')")

    def all_of_it(event: CallProposed) -> bool:
        assert person.running is not None
        person.running.control.approve_all(event.tool)
        return True

    person = Person(all_of_it)
    person.watch(rlm)
    assert (person.asked, called) == (['look_up("a")'], ["a", "b"])


def test_calls_from_threads_are_asked_about_one_by_one_and_those_of_children_too() -> None:
    threads = "from concurrent.futures import ThreadPoolExecutor as P\nfound = sorted(P(4).map(look_up, 'abcd'))"
    rlm, called = asking("always", threads, "FINAL(len(found))")
    person = Person(lambda event: True)
    assert person.watch(rlm).value == 4
    assert (sorted(person.asked), len(called)) == ([f'look_up("{word}")' for word in "abcd"], 4)
    rlm, called = asking("once", threads, "FINAL(len(found))")
    person = Person(lambda event: True)
    assert person.watch(rlm).value == 4
    assert (len(person.asked), len(called)) == (1, 4)
    look_up, called = counting()
    model = ScriptedModel(
        [block("found = rlm_query('Do it.')"), block("FINAL(look_up('child'))"), block("FINAL(found)")]
    )
    rlm = RLM(model, sub_tools=[Tool(look_up, approval="always")], sandbox="none", limits=Limits(max_depth=2))
    person = Person(lambda event: True)
    assert person.watch(rlm).answer == "child, for the 1. time"
    assert person.asked == ['look_up("child")']


def test_a_long_call_is_shown_by_its_beginning_and_its_end_and_waiting_costs_no_time() -> None:
    cell = "look_up('begin' + 'x' * 5000 + '\\x1b[2J\\u202e' + 'end')"
    rlm, called = asking("always", cell, "FINAL('done')", limits=Limits(max_seconds=8, cell_seconds=8))

    def slowly(event: CallProposed) -> bool:
        time.sleep(9)
        return True

    person = Person(slowly)
    assert person.watch(rlm).stop_reason == "answered"
    [asked] = person.asked
    assert asked.startswith('look_up("beginxxx')
    assert asked.endswith('\\u001b[2J\\u202eend")')  # nothing that a terminal acts on
    assert " characters … " in asked
    assert len(asked) < 700
    assert len(called[0]) > 5000


def test_a_run_that_is_stopped_while_it_asks_calls_nothing() -> None:
    rlm, called = asking("always", "look_up('a')", "FINAL('done')")

    def stop(event: CallProposed) -> str:
        assert person.running is not None
        person.running.stop()
        person.running.result(30)  # before anything is said of the call
        return ""

    person = Person(stop)
    result = person.watch(rlm)
    assert (result.stop_reason, result.message) == ("cancelled", "")
    [call] = result.trajectory.subcalls
    assert call.text == "the run was stopped before this call was made"
    assert called == []


async def test_where_nobody_can_be_asked_the_run_is_refused_before_it_begins(in_folder: Path) -> None:
    rlm, called = asking("once", "FINAL(look_up('a'))")
    for ask in (
        lambda: rlm.completion("What?", "a text"),
        lambda: rlm.start("What?", "a text"),
        lambda: rlm.session("a text").ask("What?"),
        lambda: rlm.batch([{"text": "a"}], prompt="What is {text}?", out="out.csv"),
    ):
        with pytest.raises(ConfigurationError, match=NOBODY):
            ask()
    with pytest.raises(ConfigurationError, match=NOBODY):
        await rlm.acompletion("What?", "a text")
    with pytest.raises(ConfigurationError, match=NOBODY):
        [event async for event in rlm.stream("What?", "a text")]
    assert called == []
    assert not Path("rlm_runs").exists()
    with pytest.raises(ConfigurationError, match=r"approval='often'.: it is never, once or always"):
        Tool(len, name="count", approval="often")  # type: ignore[arg-type]


MODULE = """\
from rlm_jupyter import Tool

def look_up(word: str) -> str:
    open("called.txt", "a").write(word)
    return word.upper()

asking = Tool(look_up, approval="always")
"""


def test_at_a_terminal_the_command_asks(in_folder: Path) -> None:
    Path("my_tools.py").write_text(MODULE)
    model = script(block(TRY.format(words=["a", "b"])), block("FINAL(look_up('c'))"))
    args = ("run", "-m", model, "--tool", "my_tools:asking", "--sandbox", "none", "What?")
    refused = cli(*args)
    assert refused.code == 2
    assert refused.err.strip().splitlines()[-1].endswith(f"{NOBODY}: standard input is no terminal.")
    assert not Path("called.txt").exists()
    host, side = pty.openpty()
    command = [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", *args]
    with subprocess.Popen(command, stdin=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.write(host, b"y\nonly the first\n\n")
        out, err = process.communicate(timeout=60)
    os.close(host)
    os.close(side)
    said = err.decode()
    assert said.count("Make this call? [y]es, [n]o, [a]ll of look_up from now on") == 3
    assert 'A cell of iteration 1 calls a tool:\n\nlook_up("a")' in said
    assert Path("called.txt").read_text() == "a"  # the second was refused with a message, the third by Enter
    assert process.returncode != 0
    assert out == b""


def test_the_end_of_the_input_stops_the_run_and_calls_nothing(in_folder: Path) -> None:
    Path("my_tools.py").write_text(MODULE)
    model = script(block(TRY.format(words=["a", "b"])), block("FINAL(1)"))
    command = [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", "run", "-m", model, "--sandbox", "none", "What?"]
    host, side = pty.openpty()
    with subprocess.Popen(
        [*command, "--tool", "my_tools:asking"], stdin=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.write(host, b"\x04")
        _, err = process.communicate(timeout=60)
    os.close(host)
    os.close(side)
    assert b"The input has ended, and nobody can be asked: the run stops." in err
    assert b"To resume it: " in err
    assert b"Traceback" not in err
    assert process.returncode == 1
    assert not Path("called.txt").exists()


def test_in_a_notebook_the_cell_asks(in_folder: Path) -> None:
    Path("my_tools.py").write_text(MODULE)
    model = script(block(TRY.format(words=["a", "b"])), block("FINAL(look_up('c'))"))
    line = f"%rlm -m {model} --sandbox none --tool asking What?"
    with Notebook(in_folder) as notebook:
        assert notebook.run("from my_tools import asking").error == ""
        refused = notebook.run(line)
        assert f"{NOBODY}: this front end takes no input" in refused.error
        assert not Path("called.txt").exists()
        asked = notebook.run(line, typed=["y", "not b", "a"])
        assert asked.error == ""
        assert 'look_up("b")' in asked.printed
        assert notebook.run("rlm_result.answer").value == "'C'"
        assert Path("called.txt").read_text() == "ac"
        # the same in Python, and in the kernel that is kept
        ask = f"from rlm_jupyter import RLM\nRLM({model!r}, tools=[asking], sandbox='none').completion('And?').answer"
        assert notebook.run(ask, typed=["n", "n", "y"]).value == "'C'"
        assert Path("called.txt").read_text() == "acc"


@pytest.mark.parametrize("approve", ["cells", "yes", 1])
def test_what_is_to_be_approved_is_said_by_a_word_that_is_known(approve: Any) -> None:
    rlm, called = asking("always", "FINAL('done')")
    with pytest.raises(ConfigurationError, match=f"approve is True, False or .calls., not {approve!r}"):
        rlm.start("What?", "a text", approve=approve)
    assert not called
