"""Tools: functions of the host that cells call; described, recorded, never called a second time by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import json
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from pydantic import BaseModel, Field

from rlm_jupyter import RLM, Limits, Result, Tool
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from tests.runs.test_cli import cli, script
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.runs.test_typed_answers import block
from tests.runs.test_typed_answers import in_folder as in_folder
from tests.support.here import Notebook

CONTEXT = "Rain in April. " * 50


def answered(tools: list[Any], *cells: str, limits: Limits | None = None, **options: Any) -> Result:
    return RLM(ScriptedModel([*map(block, cells)]), tools=tools, limits=limits, **options).completion("What?", CONTEXT)


def printed(result: Result) -> str:
    cells = [cell for iteration in result.trajectory.iterations for cell in iteration.cells]
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


def counting(name: str = "look_up") -> tuple[Callable[[str], str], list[str]]:
    """Return a tool, and the words that it was called with."""
    called: list[str] = []

    def look_up(word: str) -> str:
        called.append(word)
        return f"{word}, for the {len(called)}. time"

    look_up.__name__ = name
    return look_up, called


class Query(BaseModel):
    word: str
    since: date


@dataclasses.dataclass
class Hit:
    title: str
    on: date


def search(query: Query, limit: int = 2) -> list[Hit]:
    """Search the archive.

    Newest first.
    """
    assert isinstance(query, Query)
    return [Hit(f"{query.word} {i}", query.since) for i in range(limit)]


async def add(a: int, b: int = 1, *more: int) -> int:
    """Add numbers."""
    await asyncio.sleep(0.01)
    return a + b + sum(more)


def test_a_tool_is_described_called_in_the_host_and_recorded() -> None:
    result = answered(
        [search, add],
        "hits = search({'word': 'rain', 'since': '2031-04-01'}, limit=1)\nprint(hits, add(1), add(1, 2, 3))",
        "help(search)\nprint(SHOW_TOOLS('number'))",
        "FINAL(hits[0]['title'])",
    )
    assert result.answer == "rain 0"
    told = result.trajectory.started.system
    assert "- search(query: Query, limit: int = 2) -> list[Hit]: Search the archive.\n" in told
    assert (
        """  query: {"word": str, "since": str (date)}\n  returns: [{"title": str, "on": str (date)}, ...]\n""" in told
    )
    assert "- add(a: int, b: int = 1, *more: int) -> int: Add numbers.\n" in told
    out = printed(result)
    assert "[{'title': 'rain 0', 'on': '2031-04-01'}] 2 6\n" in out
    assert "Newest first." in out
    assert "add(a: int, b: int = 1, *more: int) -> int: Add numbers.\n" in out
    calls = [(call.kind, call.prompt_head, json.loads(call.text)) for call in result.trajectory.subcalls]
    assert calls == [
        ("tool", 'search({"word": "rain", "since": "2031-04-01"}, 1)', [{"title": "rain 0", "on": "2031-04-01"}]),
        ("tool", "add(1)", 2),
        ("tool", "add(1, 2, 3)", 6),
    ]
    assert result.cost == 0.0


class Room(enum.Enum):
    SEA = "sea"
    LAND = "land"


def book(nights: Annotated[int, Field(ge=2, description="how many nights")], room: Room = Room.SEA) -> str:
    return f"{nights} {room.name}"


def test_the_fields_of_what_a_tool_takes_are_told_and_shown_by_help() -> None:
    def lately(query: Query | None = None) -> int:
        return 3

    result = answered(
        [book, lately, search], "help(book)\nhelp(lately)\nprint(SHOW_TOOLS('nothing'))", "FINAL(book(2, 'land'))"
    )
    assert result.answer == "2 LAND"
    told, out = result.trajectory.started.system, printed(result)
    assert "- book(nights: int, room: Room = " in told
    for text in ("nights: int (>= 2)  # how many nights\n", 'room: "sea" or "land"\n'):
        assert f"  {text}" in told
        assert text in out
    assert 'query: {"word": str, "since": str (date)} or None' in out
    assert "FieldInfo" not in told + out
    assert "No tool mentions 'nothing'." in out


def test_what_goes_wrong_is_an_error_in_the_cell_and_ends_nothing() -> None:
    def raises() -> None:
        raise ValueError("no luck.")

    def finds() -> int:
        return next(iter(()))

    def leaves() -> None:
        raise SystemExit(3)

    def slow() -> None:
        time.sleep(5)

    async def sleeps() -> None:
        await asyncio.sleep(5)

    def frame() -> object:
        return object()

    def much() -> str:
        return "x" * 1_000_001

    def broken(word: str) -> str:
        return word.encode().decode("latin-1") + "\ud800"

    caught = "\n".join(
        f"try:\n    {call}\nexcept Exception as error:\n    print(type(error).__name__, error)"
        for call in (
            "raises()",
            "finds()",
            "leaves()",
            "slow()",
            "sleeps()",
            "frame()",
            "much()",
            "search()",
            "search({'word': 1}, limit='many')",
            "add(object())",
        )
    )
    tools = [
        raises,
        Tool(finds, seconds=9),
        leaves,
        Tool(slow, seconds=0.2),
        Tool(sleeps, seconds=0.2),
        frame,
        much,
        search,
        add,
        broken,
    ]
    result = answered(tools, caught, "print(len(broken('a')))", "FINAL('done')")
    assert result.answer == "done"
    assert printed(result).splitlines() == [
        "SubcallError ValueError: no luck.",
        "SubcallError RuntimeError: StopIteration.",
        "SubcallError SystemExit: 3.",
        "SubcallError slow took more than 0.2 s; it may still be at work.",
        "SubcallError sleeps took more than 0.2 s.",
        "SubcallError frame gave object, which is no plain data: it has to return text, numbers, lists, dicts, "
        "dataclasses or pydantic models.",
        "SubcallError the result of much takes 1,000,003 characters, 1,000,000 are the most: ask for less.",
        "TypeError search: missing a required argument: 'query'. search(query: Query, limit: int = 2) -> list[Hit]: "
        "Search the archive.",
        "SubcallError wrong arguments: query.word: Input should be a valid string; query.since: Field required; limit: "
        "Input should be a valid integer, unable to parse string as an integer.",
        "TypeError add takes plain data (text, numbers, lists, dicts): object is none",
        "2",
    ]


def test_what_is_called_in_an_option_is_not_called(shell: InteractiveShell) -> None:
    called: list[int] = []
    shell.user_ns["wipe"] = lambda: called.append(1)
    for options, says in (
        ("--tool wipe()", r"--tool takes the name of a function of the notebook, not 'wipe\(\)'"),
        ("--tool print --sub-tool stok", "--sub-tool takes a function of the notebook, not 'stok': NameError"),
        ("--answer wipe()", r"--answer takes a type, not 'wipe\(\)'"),
    ):
        shown, error = run_cell(shell, f"%rlm -m scripted/no.json {options} What?")
        assert re.search(says, str(error)), shown
    assert called == []


def test_the_same_question_with_a_tool_that_does_something_else_is_asked_anew(shell: InteractiveShell) -> None:
    Path("script.json").write_text(json.dumps([block("FINAL(look_up('a'))")]))
    answers = []
    for body in ("word * 2", "word * 2", "word * 3"):
        shell.run_cell(f"def look_up(word: str) -> str:\n    return {body}\n", store_history=True)
        shown, error = run_cell(shell, "%rlm -m scripted/script.json --tool look_up What?")
        assert error is None, shown
        answers.append((shell.user_ns["rlm_result"].answer, "recorded run" in shown))
    assert answers == [("aa", False), ("aa", True), ("aaa", False)]


@pytest.mark.parametrize(("words", "says"), [(["no"], "its only call"), (["no", "no"], "all 2 calls")])
def test_a_tool_that_always_fails_is_named_beside_the_answer(words: list[str], says: str) -> None:
    def look_up(word: str) -> str:
        if word == "no":
            raise LookupError("no such word")
        return word

    cell = "for word in {}:\n    try:\n        look_up(word)\n    except SubcallError:\n        pass\nprint('done')"
    for asked in (words, [*words, "yes"]):
        model = ScriptedModel([block(cell.format(asked)), block("FINAL('done')")])
        message = RLM(model, tools=[look_up], save=False, sandbox="none").completion("What?", "a text").message
        assert message == (f"the tool look_up failed in {says}: LookupError: no such word" if asked == words else "")


def test_tools_are_called_at_once_from_threads() -> None:
    barrier = threading.Barrier(8, timeout=20)

    def meet(number: int) -> int:
        barrier.wait()
        return number

    result = answered(
        [meet],
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    FINAL(sum(pool.map(meet, range(8))))",
    )
    assert result.answer == "28"


FORGED = """
calls = get_ipython().kernel.rlm_guest.calls
for name, text in [("rm", "rm()"), ("look_up", "rm()"), ("look_up", "look_up"), ("look_up", 'look_up("a") or 1'),
                   ("look_up", "look_up(__import__('os'))"), (None, 'look_up("a")'), ("look_up", "look_up(" + "[" * 9999)]:
    print(calls.call("tool", [text], name)[0])
print(calls.call("tool", ['look_up("a")', 'look_up("b")'], "look_up"))
"""


def test_what_was_not_handed_over_is_not_called_whatever_a_message_says() -> None:
    look_up, called = counting()
    result = answered([look_up], FORGED, "FINAL('done')")
    lines = printed(result).splitlines()
    assert result.answer == "done"
    assert called == []
    assert lines[0] == "[no answer: there is no tool 'rm' for this run.]"
    assert lines[1] == "[no answer: this is a call of 'rm', not of 'look_up'.]"
    assert all("this is no call" in line or "there is no tool" in line for line in lines[2:7])


def test_children_have_only_the_tools_that_are_handed_to_them() -> None:
    look_up, called = counting()
    other, others = counting("other")
    child = "print('look_up' in globals())\nprint(other('c'))"
    forged = "print(get_ipython().kernel.rlm_guest.calls.call('tool', ['look_up(\"b\")'], 'look_up'))"
    model = ScriptedModel([block("print(look_up('a'), 'other' in globals())\nFINAL(rlm_query('Do it.'))")])
    sub = ScriptedModel([block(child), block(forged), block("FINAL(SHOW_TOOLS())")])
    result = RLM(model, sub_model=sub, tools=[look_up], sub_tools=[other], limits=Limits(max_depth=2)).completion(
        "?", "x"
    )
    assert result.answer == "other(word: str) -> str"
    assert called == ["a"]
    assert others == ["c"]


def test_the_calls_are_limited() -> None:
    look_up, called = counting()
    cell = (
        "for i in range(5):\n    try:\n        look_up(str(i))\n    except SubcallError as error:\n        print(error)"
    )
    result = answered([look_up], cell, "FINAL('done')", limits=Limits(max_tool_calls=3))
    assert result.answer == "done"
    assert called == ["0", "1", "2"]
    assert printed(result) == "tools were called 3 times, which is the most (max_tool_calls).\n" * 2


def test_a_record_is_replayed_resumed_and_forked_without_calling_a_tool() -> None:
    look_up, called = counting()
    again, calls = counting("again")
    cell = "found = look_up('a'), look_up('a')\nprint(found, again('b'))"
    first = RLM(
        ScriptedModel([block(cell)]), tools=[look_up, Tool(again, repeatable=True)], limits=Limits(max_iterations=1)
    )
    stopped = first.completion("What?", CONTEXT)
    assert (called, calls) == (["a", "a"], ["b"])
    assert stopped.path is not None

    replayed = RLM.replay(stopped.path)
    assert (replayed.same, replayed.subcalls, replayed.tool_calls) == (True, 0, 3)
    assert (called, calls) == (["a", "a"], ["b"])

    with pytest.raises(ConfigurationError, match=r"^This run had the tools look_up, again, give them again: tools="):
        RLM.resume(stopped.path, max_iterations=3)

    tools = [look_up, Tool(again, repeatable=True)]
    more = ScriptedModel([block("FINAL(found[1] + ' ' + look_up('c'))")])
    forked = RLM.fork(stopped.path, 1, model=more, tools=tools, max_iterations=3)
    assert forked.answer == "a, for the 2. time c, for the 3. time"
    assert (called, calls) == (["a", "a", "c"], ["b", "b"])

    resumed = RLM.resume(stopped.path, model=ScriptedModel([block("FINAL(found[0])")]), tools=tools, max_iterations=3)
    assert resumed.answer == "a, for the 1. time"
    assert (called, calls) == (["a", "a", "c"], ["b", "b", "b"])


WITH_EFFECTS = {
    "one after the other": ["found = [effect('a'), effect('a')]", "found.append(effect('b'))"],
    "from threads": [
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    found = sorted(pool.map(effect, 'abcd'))",
        "found.append(effect('e'))",
    ],
    "some fail": [
        "found = []\nfor word in ('a', '!', 'b', '!'):\n    try:\n        found.append(effect(word))\n"
        "    except SubcallError as error:\n        found.append(str(error))",
        "found.append(effect('a'))\neffect('!')",
    ],
    "in a child": ["found = [effect('a'), rlm_query('Do it.')]", "found.append(effect('b'))"],
    "beside sub-calls": [
        "found = [effect('a'), *llm_query_batched(['x', 'y'])]",
        "found.append(effect(llm_query('z')))",
    ],
}
CHILD = ["print(inner('c'), inner('d'))", "FINAL(inner('e'))"]


@pytest.mark.slow
@pytest.mark.parametrize("times", [15, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])])
def test_replays_resumes_and_forks_have_no_effect_outside(times: int, in_folder: Path) -> None:
    effects = in_folder / "effects"

    def effect(word: str) -> str:
        with effects.open("a") as file:
            file.write(f"{word}\n")
        if word == "!":
            raise ValueError("no luck")
        return f"{word} after {len(effects.read_text().split())}"

    recorded: dict[str, tuple[Path, str]] = {}
    handed: dict[str, Any] = {"tools": [effect], "sub_tools": [Tool(effect, name="inner")]}
    for kind, cells in WITH_EFFECTS.items():
        sub = ScriptedModel([*map(block, CHILD)] if kind == "in a child" else [], sub=lambda prompt: f"<{prompt}>")
        first = RLM(
            ScriptedModel([*map(block, cells)]), sub_model=sub, limits=Limits(max_iterations=2, max_depth=2), **handed
        )
        stopped = first.completion("What?", CONTEXT)
        assert stopped.path is not None
        assert stopped.stop_reason == "iterations"
        again = RLM.fork(
            stopped.path, 2, model=ScriptedModel([block("FINAL(repr(found))")]), max_iterations=3, **handed
        )
        assert again.answer is not None
        recorded[kind] = stopped.path, again.answer
    before = effects.read_text()
    assert len(before.split()) == 21
    for number in range(times):
        path, answer = recorded[[*recorded][number % len(recorded)]]
        action = ("replay", "resume", "fork")[number % 3]
        if action == "replay":
            assert RLM.replay(path).same
            continue
        copied = in_folder / f"copy-{number}"
        shutil.copytree(path.parent, copied)
        more: dict[str, Any] = {"model": ScriptedModel([block("FINAL(repr(found))")]), "max_iterations": 3, **handed}
        result = (
            RLM.resume(copied / path.name, **more) if action == "resume" else RLM.fork(copied / path.name, 2, **more)
        )
        assert result.answer == answer
    assert effects.read_text() == before
    print(f"{times} replays, resumes and forks: no effect outside")


def test_a_killed_kernel_has_its_tools_again() -> None:
    look_up, called = counting()
    result = answered([look_up], "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "FINAL(look_up('a'))")
    assert result.answer == "a, for the 1. time"
    assert called == ["a"]


def test_a_stand_in_is_put_back() -> None:
    look_up, _ = counting()
    result = answered([look_up], "look_up = 3", "FINAL(look_up('a'))")
    assert result.answer == "a, for the 1. time"


def test_the_saved_notebook_is_executed_again_with_the_recorded_results(in_folder: Path) -> None:
    look_up, called = counting()
    result = answered([look_up], "print(look_up('a'))", "FINAL('done')")
    assert result.path is not None
    notebook = nbformat.read(result.path, as_version=4)
    shown = "".join(cell.source for cell in notebook.cells)
    assert "look_up(&quot;a&quot;)" in shown or "look_up(" in shown
    NotebookClient(notebook, resources={"metadata": {"path": str(result.path.parent)}}).execute()
    texts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("a, for the 1. time" in text for text in texts)
    assert called == ["a"]


def test_many_tools_are_named_and_described_when_asked() -> None:
    def made(number: int) -> Tool:
        def tool(word: str) -> int:
            """Give a number."""
            return number

        return Tool(tool, name=f"tool_number_{number}")

    few = answered([made(i) for i in range(20)], "print(1)", "FINAL(1)")
    many = answered([made(i) for i in range(200)], "print(SHOW_TOOLS('199'))", "FINAL(tool_number_199('a'))")
    assert len(many.trajectory.started.system) <= len(few.trajectory.started.system)
    assert "tool_number_3, tool_number_4" in many.trajectory.started.system
    assert printed(many) == "tool_number_199(word: str) -> int: Give a number.\n"
    assert many.answer == "199"


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        (search, "tools is a list of functions, not"),
        ("search", "tools is a list of functions, not 'search'."),
        ([3], "A tool is a function, not a value of type int."),
        ([CONTEXT], "A tool is a function, not a value of type str."),
        ([Query], "A tool is a function, not the class Query."),
        ([lambda: 3], "needs a name that can be called in Python"),
        ([search, search], "Two tools are called search: give one another name"),
        ([counting("print")[0]], "A tool can't be called print: the kernel has that name already"),
        ([counting("context")[0]], "A tool can't be called context"),
        ([counting("llm_query")[0]], "A tool can't be called llm_query"),
        ([counting("class")[0]], "needs a name that can be called in Python"),
    ],
)
def test_what_is_no_tool_is_refused_in_a_line(tools: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RLM(ScriptedModel([]), tools=tools)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("seconds", [0, -1, "3", True, float("nan")])
def test_a_duration_is_a_number_above_zero(seconds: Any) -> None:
    with pytest.raises(RLMError, match="a number above zero is needed, or None"):
        Tool(search, seconds=seconds)


def test_a_magic_takes_functions_of_the_notebook(shell: InteractiveShell) -> None:
    look_up, called = counting()
    shell.user_ns["look_up"] = look_up
    model = script(block("FINAL(look_up('a'))"))
    run_cell(shell, f"%rlm -m {model} --tool look_up What is it?")
    assert shell.user_ns["rlm_result"].answer == "a, for the 1. time"
    assert called == ["a"]
    _, error = run_cell(shell, f"%rlm -m {model} --tool lookup What is it?")
    assert "--tool takes a function of the notebook, not 'lookup': NameError" in str(error)
    shell.user_ns["complaints"] = CONTEXT
    _, error = run_cell(shell, f"%rlm -m {model} --tool complaints What is it?")
    assert "--tool takes a function of the notebook; complaints is of type str." in str(error)
    assert "Rain" not in str(error)


def test_a_command_takes_functions_of_modules(in_folder: Path) -> None:
    (in_folder / "my_tools.py").write_text("def look_up(word: str) -> str:\n    return word.upper()\n")
    model = script(block("print(look_up('a'))"), block("FINAL(look_up('done'))"))
    done = cli("run", "-m", model, "--tool", "my_tools:look_up", "What?")
    assert (done.code, done.out.strip()) == (0, "DONE")
    wrong = cli("run", "-m", model, "--tool", "my_tools:nothing", "What?")
    assert wrong.code != 0
    assert "my_tools has no nothing" in wrong.err
    assert "Traceback" not in wrong.err


def test_the_documented_example_runs(in_folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    source = page.partition("```python\n")[2].partition("```")[0]
    cell = "found = orders('Abel', since='2031-01-01')\nprint(found)"
    name = script(block(cell), block("FINAL(found[0][0])"))
    (in_folder / "complaints.txt").write_text("Abel: late again.")
    with contextlib.closing(sqlite3.connect("shop.db")) as database, database:
        database.execute("create table orders (customer, day)")
        database.executemany("insert into orders values (?, ?)", [("Abel", "2030-05-01"), ("Abel", "2031-05-01")])
    names: dict[str, Any] = {}
    exec(compile(source.replace("ollama/qwen3:8b", name), "tools.md", "exec", dont_inherit=True), names)
    names["database"].close()
    assert names["result"].value == "Abel"
    assert printed(names["result"]) == "[['Abel', '2031-05-01']]\n"


def test_a_notebooks_own_kernel_has_its_functions(in_folder: Path) -> None:
    with Notebook(in_folder) as notebook:
        assert (
            "with what is there: leave --tool and --mcp out" in notebook.run("%%rlm --here --tool print\nWhat?").error
        )
        for option in ("--samples 3", "--strategy auto", "--require-agreement"):
            error = notebook.run(f"%%rlm --here -m extractive {option}\nWhat?").error
            assert f"takes one run, in one kernel: leave {option.split()[0]} out" in error


def test_what_a_tool_prints_does_not_stand_before_the_answer(in_folder: Path) -> None:
    Path("loud.py").write_text("def shout():\n    print('LOUD')\n    return 3\n")
    Path("m.json").write_text(json.dumps({"replies": [block("FINAL(shout())")]}))
    done = cli("run", "How many?", "-m", "scripted/m.json", "--tool", "loud:shout", "--json")
    assert json.loads(done.out)["answer"] == "3"
    assert "LOUD" in done.err
