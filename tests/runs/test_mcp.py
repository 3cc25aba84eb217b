"""Servers of the Model Context Protocol: their tools are modules in the kernel, and they end with the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Tool
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError
from tests.runs.test_cli import cli, script
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.runs.test_tool_approval import Person
from tests.runs.test_tools import answered, printed
from tests.runs.test_typed_answers import block
from tests.runs.test_typed_answers import in_folder as in_folder
from tests.support.ports import port_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
THINGS = {"command": sys.executable, "args": ["-m", "tests.support.mcp_server"], "cwd": str(ROOT)}
USES = "found = things.search_things('a', limit=3)\nprint(found)"


@pytest.fixture
def address() -> Iterator[str]:
    arguments = [sys.executable, "-m", "tests.support.mcp_server", "http", "0"]
    with subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            port = port_of(process)
            assert port is not None, "the server has ended"
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def servers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if any("tests.support.mcp_server" in word for word in process.cmdline()):
                found.append(process)
    return found


def test_a_servers_tools_are_a_module_and_it_ends_with_the_run() -> None:
    result = answered(
        [],
        USES,
        "help(things)\nhelp(things.search_things)\nprint(things.get_secret('RLM_TEST_SECRET'))\n"
        "print(things.list_resources())\nprint(things.read_resource('things://all'))\n"
        "try:\n    things.fail('no luck')\nexcept SubcallError as error:\n    print(error)\n"
        "print(things.between(9, **{'from': 4}))\nhelp(things.between)\n"
        "try:\n    things.search_things()\nexcept TypeError as error:\n    print(error)",
        "print(len(things.search_things('b', None)), len(things.search_things('b', limit=None)))",
        "FINAL(found[0]['name'])",
        mcp={"things": THINGS | {"env": {"RLM_TEST_SECRET": "s3cret"}}},
    )
    assert result.answer == "a 0"
    told = result.trajectory.started.system
    assert (
        "- things (7 functions): search_things, get_secret, between, fail, leave, list_resources, read_resource\n"
        in told
    )
    assert "Search the things." not in told
    out = printed(result)
    assert "[{'name': 'a 0', 'size': 9}, {'name': 'a 1', 'size': 8}, {'name': 'a 2', 'size': 7}]" in out
    described, _, _ = out.partition("Help on function")
    assert "things.search_things(query: str, limit: int = 2): Search the things." in described
    assert "things.leave(): End the server." in described
    assert "search_things(query: str, limit: int = 2)" in out
    assert "Largest first." in out
    assert "s3cret" in out
    assert "[{'uri': 'things://all', 'name': 'everything', 'about': 'All things, as text.'}]" in out
    assert "a thing, another thing" in out
    assert "no luck" in out
    # a name that is none in Python
    assert "\n5\n" in out
    assert "between(more: int, **more_)" in out
    assert "**{'from': int}: the first" in out
    # None leaves out what may be left out, and takes no null
    assert out.endswith("2 2\n")
    assert "things.search_things: missing a required argument: 'query'." in out
    assert result.trajectory.subcalls[0].prompt_head == 'things.search_things("a", 3)'
    assert servers() == []
    assert result.path is not None
    record = json.dumps(result.trajectory.started.options)
    assert '"mcp": ["things"]' in record
    assert "s3cret" not in record


def test_a_server_is_named_as_in_its_file_and_called_as_in_python(in_folder: Path) -> None:
    (in_folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"my-things": THINGS}}))
    model = script(
        block("print(my_things.search_things('a'))"), block("FINAL(my_things.search_things('b')[0]['name'])")
    )
    asked = cli("run", "-m", model, "--mcp", "my-things", "--save", str(in_folder / "run.ipynb"), "What?")
    assert (asked.code, asked.out) == (0, "b 0\n")
    assert "2 tool calls" in asked.err
    assert "sub-call" not in asked.err
    saved = RLM.replay(in_folder / "run.ipynb")
    assert saved.same
    result = answered([], "print(1)", "FINAL(my_things.search_things('b')[0]['name'])", mcp={"my-things": THINGS})
    assert "- my_things (the server my-things, 7 functions): search_things, " in result.trajectory.started.system
    assert result.trajectory.started.options["mcp"] == ["my-things"]
    assert [*result.usage_by_model] == ["scripted/replies"]
    with pytest.raises(ConfigurationError, match="my_things is a tool and an MCP server"):
        answered([named("my_things")], "print(1)", mcp={"my_things": THINGS})


def test_a_server_that_is_called_as_a_module_of_pythons_is_not_hidden_by_its_import() -> None:
    cell = "import os\nFINAL(mcp_os.search_things('b')[0]['name'])"
    result = answered([], cell, mcp={"os": THINGS})
    assert result.answer == "b 0"
    assert "- mcp_os (the server os, 7 functions): search_things, " in result.trajectory.started.system


@pytest.mark.parametrize("cell", ["import things", "from things import search_things", "import things as t"])
def test_a_servers_module_can_be_imported_too(cell: str) -> None:
    result = answered([], f"{cell}\nFINAL(things.search_things('b')[0]['name'])", mcp={"things": THINGS})
    assert result.answer == "b 0"
    assert result.trajectory.iterations[0].cells[0].status == "ok"


def test_a_library_that_is_called_as_a_server_is_still_imported() -> None:
    cell = "import pandas\nFINAL(pandas.__name__ + str(hasattr(pandas, 'DataFrame')))"
    assert answered([], cell, mcp={"pandas": THINGS}).answer == "pandasTrue"


def named(name: str) -> Tool:
    return Tool(len, name=name)


def test_a_record_is_replayed_without_its_server_and_resumed_with_it() -> None:
    result = answered([], USES, "FINAL(found[1]['name'])", mcp={"things": THINGS})
    assert result.path is not None
    assert RLM.replay(result.path).same
    with pytest.raises(ConfigurationError, match="This run had the MCP servers things, give them again: mcp="):
        RLM.fork(result.path, 1)
    model = ScriptedModel([block("FINAL(found[2]['name'])")])
    forked = RLM.fork(result.path, 1, model=model, mcp={"things": THINGS})
    assert forked.answer == "a 2"


def test_a_server_that_dies_is_named_and_the_run_goes_on() -> None:
    cell = (
        "for i in range(2):\n    try:\n        things.leave()\n    except SubcallError as error:\n        print(error)"
    )
    result = answered([], cell, "FINAL('done')", mcp={"things": THINGS})
    assert result.answer == "done"
    first, second = printed(result).splitlines()
    assert first.startswith(("The MCP server things:", "things:"))
    assert "things" in second


PRINTS = f"""
import runpy, sys
sys.stdout.buffer.write(b"Server ready, caf\\xe9 " + b"x" * 500 + b"\\n{{}}\\n")
sys.stdout.flush()
sys.path.insert(0, {str(ROOT)!r})
sys.argv = ["server"]
runpy.run_module("tests.support.mcp_server", run_name="__main__")
"""


def test_a_server_that_prints_is_named_in_a_line_and_serves(in_folder: Path) -> None:
    things = {"command": sys.executable, "args": ["-c", PRINTS]}
    (in_folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"things": things}}))
    model = script(block("print(things.search_things('a'))"), block("FINAL('done')"))
    asked = cli("run", "-m", model, "--mcp", "things", "What?")
    assert (asked.code, asked.out) == (0, "done\n")
    said = "The MCP server things printed 'Server ready, caf\ufffd x"
    assert [line for line in asked.err.splitlines() if said in line]
    assert asked.err.count("which is for the protocol alone") == 1
    assert "Traceback" not in asked.err
    assert "pydantic" not in asked.err


def test_a_server_that_only_prints_is_refused_with_what_it_says() -> None:
    with pytest.raises(
        ConfigurationError, match=r"The MCP server things \(echo\): .*: 'usage: things SERVER'\. Its command"
    ):
        RLM(ScriptedModel([]), mcp={"things": ["echo", "usage: things SERVER"]}).completion("What?", "x")


def test_a_server_is_reached_by_its_address(address: str) -> None:
    result = answered([], USES, "FINAL(found[0]['name'])", mcp={"things": {"url": address, "headers": {"X-Key": "k"}}})
    assert result.answer == "a 0"


def test_a_session_that_is_kept_keeps_its_server() -> None:
    model = ScriptedModel([block("print(1)"), block("FINAL('one')"), block(USES), block("FINAL(found[0]['name'])")])
    with RLM(model, mcp={"things": THINGS}) as rlm:
        result = rlm.completion("What?", "x", keep_kernel=True)
        assert len(servers()) == 1
        assert result.ask("And?").answer == "a 0"
    assert servers() == []


def test_a_server_that_says_nothing_is_given_up_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlm_jupyter.run.mcp.server.START_SECONDS", 1.0)
    silent = [sys.executable, "-c", "import time; time.sleep(600)  # tests.support.mcp_server"]
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match=r"The MCP server things \(.*\): it has said nothing for 1 s"):
        RLM(ScriptedModel([]), mcp={"things": silent}).completion("What?", "x")
    assert time.monotonic() - began < 30
    assert servers() == []


def test_a_run_is_stopped_while_its_server_starts() -> None:
    silent = [sys.executable, "-c", "import time; time.sleep(600)  # tests.support.mcp_server"]
    running = RLM(ScriptedModel([]), mcp={"things": silent}).start("What?", "x")
    while not servers():
        time.sleep(0.05)
    running.stop()
    result = running.result(timeout=30)
    assert (result.stop_reason, result.answer) == ("cancelled", None)
    assert servers() == []


@pytest.mark.parametrize(
    ("mcp", "says"),
    [
        ("things", "mcp is a dict of servers by their names, not 'things'."),
        ({"things": 3}, "The MCP server things needs a command or a url."),
        ({"things": ""}, "The MCP server things needs a command or a url."),
        ({"things": {"args": []}}, "The MCP server things needs a command or a url."),
        ({"things": {"command": "x", "url": "http://x"}}, "The MCP server things has a command and a url: leave one"),
        ({"things": {"comand": "x"}}, "The MCP server things: what is comand? Known: approval, args, command"),
        ({"things": {"command": "x", "type": "stdoi"}}, "its type is stdio, or left out, not 'stdoi'."),
        ({"things": {"url": "http://x/mcp", "type": "sse"}}, "its type is http or streamable-http or"),
        ({"things": {"command": "x", "disabled": True}}, 'The MCP server things is disabled: take its "disabled" out.'),
        ({"things": {"url": "localhost:9/mcp?key=s3cret"}}, "The MCP server things: its url begins with http:// or ht"),
        ({"things": {"command": "x", "arg": []}}, "The MCP server things: what is arg? Known: approval, args, command"),
        ({"things": {"command": "x", "args": "a b"}}, "The MCP server things: args is a list of texts."),
        ({"things": {"command": "x", "env": {"A": 1}}}, "The MCP server things: env is an object of texts."),
        ({"things": {"command": "x", "env": {"A": "${RLM_NO_SUCH}"}}}, "things needs RLM_NO_SUCH in the environment."),
        ({"my things": "x", "my_things": "x"}, "'my things' and 'my_things' would both be the module my_things in the"),
        ({" ": "x"}, "mcp: each server needs a name."),
        ({"context": "x"}, "The MCP server context can't be called so: the kernel has the name context already."),
        ({"things": "'x"}, "is no command"),
        ({"things": "no-such-program-anywhere --key s3cret"}, "No such file or directory: 'no-such-program-anywhere'."),
        ({"things": {"command": "no-such-program x"}}, '\'. Words that follow the program go into "args".'),
        ({"things": {"command": sys.executable, "cwd": "/no/such"}}, "No such file or directory: '/no/such'."),
        (
            {"things": [sys.executable, "-c", "import sys; sys.exit('no key was given')"]},
            "no key was given. Its command has to speak the Model Context Protocol over its standard streams.",
        ),
        (
            {"things": "http://me:s3cret@127.0.0.1:9/mcp?key=s3cret"},
            "The MCP server things (http://127.0.0.1:9/mcp): All connection attempts failed. Does it run, and is that its "
            "whole address",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line_before_anything_is_asked(mcp: Any, says: str) -> None:
    model = ScriptedModel([block("FINAL(1)")])
    with pytest.raises(ConfigurationError) as refused:
        RLM(model, mcp=mcp).completion("What?", "x")
    assert says in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value).partition(" The run so far")[0]
    assert model.requests == []
    assert servers() == []


def test_servers_are_named_on_the_command_line_and_in_a_magic(shell: InteractiveShell, in_folder: Path) -> None:
    missing = cli("run", "-m", script("x"), "--mcp", "things", "What?")
    assert "--mcp names a server of .mcp.json: there is none here" in missing.err
    (in_folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"things": THINGS | {"disabled": True}}}))
    off = cli("run", "-m", script("x"), "--mcp", "things", "What?")
    assert 'The MCP server things is disabled: take its "disabled" out.' in off.err
    (in_folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"things": THINGS}}))
    model = script(block(USES), block("FINAL(found[0]['name'])"))
    assert cli("run", "-m", model, "--mcp", "things", "What?").out == "a 0\n"
    unknown = cli("run", "-m", model, "--mcp", "thing", "What?")
    assert ".mcp.json knows no server 'thing'. Known: things." in unknown.err
    _, error = run_cell(shell, f"%rlm -m {model} --mcp things What is it?")
    assert error is None
    assert shell.user_ns["rlm_result"].answer == "a 0"


def test_a_person_is_asked_about_the_calls_of_a_servers_tools_that_are_named() -> None:
    calls = (
        "print(things.search_things('a', limit=1))\nprint(things.get_secret('NONE'))\nprint(things.list_resources())"
    )
    refused = "try:\n    things.search_things('b')\nexcept SubcallError as error:\n    print(error)"
    model = ScriptedModel([block(calls), block(refused), block("FINAL(1)")])
    server = THINGS | {"approval": {"search_things": "always"}}
    rlm = RLM(model, mcp={"things": server}, sandbox="none")
    person = Person(lambda event: "'a'" in event.call or '"a"' in event.call)
    result = person.watch(rlm)
    assert [asked.split("(")[0] for asked in person.asked] == ["things.search_things"] * 2
    assert person.decided == [True, False]
    assert "'name': 'a 0'" in printed(result)
    assert "The person refused this call." in printed(result)
    with pytest.raises(
        ConfigurationError, match=r"The tool search_things of the MCP server things asks a person before it is called"
    ):
        asyncio.run(rlm.acompletion("What?", "a text"))
    with pytest.raises(
        ConfigurationError, match="The MCP server things: approval='often': it is never, once or always"
    ):
        RLM(model, mcp={"things": THINGS | {"approval": "often"}})
    with pytest.raises(ConfigurationError, match="approval=None: it is never, once or always"):
        RLM(model, mcp={"things": THINGS | {"approval": None}})
    # a name that is misspelt would let calls pass that somebody wants to be asked about
    misspelt = RLM(
        model, mcp={"mcpServers": {"things": THINGS | {"approval": {"search_thing": "always"}}}}, sandbox="none"
    )
    with pytest.raises(ConfigurationError, match=r"has no tool search_thing, .*It has: search_things, get-secret"):
        Person(lambda event: True).watch(misspelt)
    assert not servers()


def test_completion_asks_at_a_terminal_about_a_servers_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    typed: list[str] = []

    def answered(text: str) -> str:
        typed.append(text)
        return "y"

    # as at a terminal
    monkeypatch.setattr("rlm_jupyter.run.run_handle.asks_here", lambda: "calls")
    monkeypatch.setattr("builtins.input", answered)
    model = ScriptedModel([block("print(things.search_things('a'))"), block("FINAL('done')")])
    rlm = RLM(model, mcp={"things": THINGS | {"approval": "always"}}, sandbox="none", save=False)
    assert rlm.completion("What?", "a text").answer == "done"
    assert [text.partition("?")[0] for text in typed] == ["Make this call"]
