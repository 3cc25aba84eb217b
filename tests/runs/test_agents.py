"""`jupyter rlm mcp`, as another agent has it: a real client over real standard streams, real kernels, scripted models."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlm_jupyter.frontends.agents.tools import tools
from rlm_jupyter.frontends.cli.parser import parsed
from rlm_jupyter.record.catalog import list_runs
from rlm_jupyter.record.trajectory import Trajectory
from tests.runs.test_cli import cli, script
from tests.support.agent import (
    MODES,
    SERVER,
    Mode,
    agent,
    endless,
    lines_of_protocol,
    served,
    text,
    until,
)
from tests.support.loopback import Fault, Loopback
from tests.support.pace import Pace

pytestmark = pytest.mark.slow

COUNTED = ("I look.\n\n```repl\nn = len(context)\n```", "```repl\nother = 3\n```", "```repl\nFINAL(f'{n} in all')\n```")
NO_MORE_SECONDS = 2.0
"""After which nothing more may be asked of a model, once a run is stopped."""

FAST_MODES = ["auto", pytest.param("legacy", marks=pytest.mark.soak)]
"""For tests of some seconds: the older handshake is a matter of the package, and is tried by hand."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    return tmp_path


@pytest.fixture
def busy() -> Iterator[Loopback]:
    """A model that works on and on."""
    with Loopback([endless()]) as server:
        yield server


async def no_more(server: Loopback) -> None:
    """Check that after two seconds nothing more is asked of a model."""
    await asyncio.sleep(NO_MORE_SECONDS)
    asked = len(server.requests)
    await asyncio.sleep(1.5)
    assert len(server.requests) == asked
    assert server.connections == 0


# --- ask ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_a_text_is_answered_with_its_notebook_and_the_iterations(mode: Mode, here: Path) -> None:
    async with agent("-m", script(*COUNTED), mode=mode) as one:
        result = await one.call("ask", question="How long?", text="abc" * 1_000)
        assert not result.is_error
        found = result.structured_content
        assert found["answer"] == "3000 in all"
        assert (found["state"], found["stop_reason"], found["is_draft"]) == ("ended", "answered", False)
        assert (found["iterations"], found["answer_from_iterations"]) == (3, [1, 3])
        notebook = Path(found["notebook"])
        assert notebook.is_file()
        assert notebook.parent == here / "rlm_runs"
        assert Trajectory.load(notebook).answer == "3000 in all"
        answer, source, spent = text(result).split("\n\n")
        assert answer == "3000 in all"
        assert source == f"Source: run r1, notebook {notebook}, iterations 1, 3 of 3."
        assert spent.startswith("Spent: ")
        assert one.heard[0][1].startswith("reading")  # it hears something before the run begins


async def test_the_tools_say_in_a_few_words_what_they_do() -> None:
    async with agent("-m", script(*COUNTED)) as one:
        tools = {tool.name: tool for tool in (await one.client.list_tools()).tools}
        assert [*tools] == ["ask", "result", "status", "note", "stop", "runs"]
        assert all(len(tool.description or "") < 600 for tool in tools.values())
        assert tools["ask"].input_schema["required"] == ["question"]
        assert len(json.dumps([tool.model_dump(mode="json", exclude_none=True) for tool in tools.values()])) < 5_000


async def test_files_folders_and_patterns_are_read_and_the_answer_keeps_a_schema(here: Path) -> None:
    (here / "docs").mkdir()
    (here / "docs" / "a.md").write_text("apples")
    (here / "docs" / "b.md").write_text("pears")
    cell = "```repl\nFINAL({'names': sorted(context)})\n```"
    schema = {"type": "object", "properties": {"names": {"type": "array"}}, "required": ["names"]}
    async with agent("-m", script(cell)) as one:
        assert (await one.ask(paths=["docs"], schema=schema))["value"] == {"names": ["docs/a.md", "docs/b.md"]}
        assert (await one.ask(paths=["docs/a*.md"]))["value"] == {"names": ["docs/a.md"]}
        both = await one.ask(paths=[str(here / "docs" / "b.md"), "docs/a.md"])
        assert both["value"] == {"names": ["docs/a.md", "docs/b.md"]}


async def test_an_answer_that_is_no_unicode_is_sent_all_the_same() -> None:
    async with agent("-m", script("```repl\nFINAL('a' + chr(0xd800) + 'b')\n```")) as one:
        result = await one.call("ask", question="What?")
        assert text(result).startswith("a?b\n")
        assert result.structured_content["answer"] == "a?b"


# --- long runs ------------------------------------------------------------------------------------------------


def sleepy(seconds: float) -> str:
    """A run of one long cell."""
    return script(f"```repl\nimport time\ntime.sleep({seconds})\nFINAL('rested')\n```")


@pytest.mark.parametrize("mode", FAST_MODES)
async def test_a_client_that_gives_up_after_some_seconds_of_silence_hears_enough(mode: Mode) -> None:
    async with agent("-m", sleepy(6), mode=mode) as one:
        result = await one.call("ask", question="Rest.", patience=4)
        assert result.structured_content["answer"] == "rested"
        gaps = [later - before for (before, _), (later, _) in zip(one.heard, one.heard[1:], strict=False)]
        assert max(gaps) < 4
        assert any(said.startswith("Iteration 1 of 30") for _, said in one.heard)


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_a_run_of_minutes_survives_a_client_of_little_patience() -> None:
    async with agent("-m", sleepy(200), "--wait", "400") as one:
        result = await one.call("ask", question="Rest.", patience=6)
        assert result.structured_content["answer"] == "rested"
        assert len(one.heard) > 60


async def test_a_call_ends_before_its_run_and_another_brings_the_answer() -> None:
    async with agent("-m", sleepy(4), "--wait", "1") as one:
        result = await one.call("ask", question="Rest.")
        found = result.structured_content
        assert (found["run"], found["state"]) == ("r1", "running")
        assert 'call result with run="r1"' in text(result)
        assert (await one.call("status", run="r1")).structured_content["state"] == "running"
        assert (await one.call("runs")).structured_content["runs"] == [
            {"run": "r1", "state": "goes on", "question": "Rest."}
        ]
        result = await one.call("result", run="r1", wait_seconds=30)
        assert result.structured_content["answer"] == "rested"


async def test_a_run_is_told_something_and_stopped_with_its_best_answer(busy: Loopback) -> None:
    async with agent(*served(busy)) as one:
        found = await one.ask(wait_seconds=0)
        await until(lambda: len(busy.requests) > 1)
        result = await one.call("note", run=found["run"], text="Look at the second half only.")
        assert not result.is_error
        await until(lambda: any("second half only" in m["content"] for m in busy.requests[-1].messages))
        result = await one.call("stop", run=found["run"])
        assert result.structured_content["stop_reason"] == "cancelled"
        assert "stopped by the agent that asked" in text(result)
        await no_more(busy)
        result = await one.call("note", run=found["run"], text="More.")
        assert text(result) == "note: run r1 has ended; ask a new question."


# --- who pays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAST_MODES)
@pytest.mark.parametrize("tool", ["ask", "result"])
async def test_a_call_that_is_cancelled_stops_the_bill(tool: str, mode: Mode, busy: Loopback) -> None:
    async with agent(*served(busy), mode=mode) as one:
        if tool == "result":
            await one.ask(wait_seconds=0)
        asked: dict[str, Any] = {"question": "What?"} if tool == "ask" else {"run": "r1"}
        call = asyncio.create_task(one.call(tool, **asked))
        await until(lambda: len(busy.requests) > 2)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await no_more(busy)
        # the server is there, and knows how it ended
        found = (await one.call("result", run="r1")).structured_content
        assert found["stop_reason"] == "cancelled"
    assert Trajectory.load(found["notebook"]).ended is not None


async def test_a_client_that_goes_away_stops_what_goes_on(busy: Loopback) -> None:
    async with agent(*served(busy)) as one:
        await one.ask(wait_seconds=0)
        await until(lambda: len(busy.requests) > 2)
        [process] = [p for p in psutil.Process().children() if "mcp" in p.cmdline()]
        kernels = process.children(recursive=True)
        assert kernels
        leaving = Pace()
    assert leaving.within(4)
    await no_more(busy)
    assert not psutil.wait_procs([process, *kernels], timeout=20)[1]
    [run] = list_runs()
    assert run.ended is not None
    assert run.ended.message == "the client went away"


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGKILL]
)
async def test_a_server_that_is_killed_leaves_no_kernel_and_no_bill(number: int, busy: Loopback) -> None:
    with subprocess.Popen([*SERVER, *served(busy)], stdin=-1, stdout=-1, stderr=-1) as process:
        speak(process, asking(wait_seconds=0))
        await until(lambda: len(busy.requests) > 2)
        kernels = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        assert process.wait(20) in {130, -number}
        await no_more(busy)
        assert not psutil.wait_procs(kernels, timeout=20)[1]
    if number != signal.SIGKILL:
        [run] = list_runs()
        assert run.ended is not None
        assert run.ended.message == f"{signal.Signals(number).name} ended the server"


async def test_a_client_that_is_killed_in_the_middle_leaves_no_bill_and_no_traceback(busy: Loopback) -> None:
    with subprocess.Popen([*SERVER, *served(busy)], stdin=-1, stdout=-1, stderr=-1) as process:
        speak(process, asking())
        await until(lambda: len(busy.requests) > 2)
        for stream in (process.stdout, process.stdin):
            assert stream is not None
            stream.close()
        await no_more(busy)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


# --- the protocol's own stream --------------------------------------------------------------------------------


def asking(**arguments: Any) -> dict[str, Any]:
    call = {"name": "ask", "arguments": {"question": "What?", **arguments}, "_meta": {"progressToken": "t"}}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}


def speak(process: subprocess.Popen[bytes], *messages: dict[str, Any]) -> None:
    """Say the handshake, and what follows it."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert process.stdin is not None
    for message in (first, ready, *messages):
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def test_standard_output_carries_nothing_but_the_protocol(here: Path) -> None:
    tool = (
        "import os\nprint('as it is imported')\ndef shout():\n    print('hello')\n    os.system('echo from a child')\n"
    )
    (here / "mine.py").write_text(tool + "    return 1\n")
    model = script("```repl\n!echo from the kernel\nprint('hi')\nFINAL(shout())\n```")
    with subprocess.Popen([*SERVER, "-m", model, "--tool", "mine:shout"], stdin=-1, stdout=-1, stderr=-1) as process:
        speak(process, asking())
        assert process.stdout is not None
        out = b""
        while b'"id":2' not in out:
            out += process.stdout.readline()
        rest, errors = process.communicate(timeout=20)
        messages = lines_of_protocol(out + rest)
    assert process.returncode == 0
    assert messages[-1]["result"]["structuredContent"]["answer"] == "1"
    assert {message.get("method", "reply") for message in messages} == {"reply", "notifications/progress"}
    assert b"as it is imported" in errors
    assert b"from a child" in errors
    assert b"Traceback" not in errors


# --- what is refused ------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("ask", {"question": "  "}, "ask: the question is empty."),
    ("ask", {}, "ask: 'question' is a required property."),
    ("ask", {"question": "?", "text": " "}, "ask: the text is empty; leave it out to ask without one."),
    ("ask", {"question": "?", "text": "a", "paths": ["b"]}, "ask: give paths or text, not both."),
    ("ask", {"question": "?", "text": "errors.txt"}, "ask: the text is the name of a file; give it in paths to read "),
    ("ask", {"question": "?", "paths": ["none.txt"]}, "{here}/none.txt: there is no such file."),
    ("ask", {"question": "?", "paths": ["no*.txt"]}, "No file matches '{here}/no*.txt'."),
    ("ask", {"question": "?", "paths": ["/etc/passwd"]}, "/etc/passwd: {outside}"),
    ("ask", {"question": "?", "paths": ["/etc/*"]}, "/etc/*: {outside}"),
    ("ask", {"question": "?", "paths": ["../x"]}, "{here}/../x: {outside}"),
    ("ask", {"question": "?", "paths": ["*/../../*"]}, "{here}/*/../../*: {outside}"),
    ("ask", {"question": "?", "paths": ["-"]}, "-: {outside}"),
    ("ask", {"question": "?", "max_cost": 9}, "ask: max_cost is 0.5 at most here, not 9."),
    ("ask", {"question": "?", "max_seconds": 61}, "ask: max_seconds is 60 at most here, not 61."),
    ("ask", {"question": "?", "max_cost": 0}, "ask: max_cost: 0 is less than or equal to the minimum of 0."),
    ("ask", {"question": "?", "model": "x"}, "ask: Additional properties are not allowed ('model' was unexpected)."),
    ("ask", {"question": "?", "schema": {"type": "nonsense"}}, "The schema of the answer is no JSON schema: "),
    ("result", {"run": "r7"}, "There is no run r7; runs lists them."),
    ("status", {"run": "../../x"}, "There is no run ../../x; runs lists them."),
    ("note", {"run": "r7", "text": "x"}, "note: there is no run r7 that goes on; runs lists them."),
    ("fetch", {}, "There is no tool fetch. There are: ask, result, status, note, stop, runs."),
]


async def test_what_can_not_be_is_refused_in_one_line_and_costs_nothing(here: Path, busy: Loopback) -> None:
    places = {"here": here, "outside": f"outside of the folders that may be read ({here})."}
    limits = ["--max-cost", "0.5", "--max-seconds", "60", "--price", "openai/any=1,2"]
    async with agent(*served(busy), *limits) as one:
        for tool, arguments, said in REFUSED:
            result = await one.call(tool, **arguments)
            assert result.is_error, (tool, arguments)
            assert "\n" not in text(result)
            assert text(result).startswith(said.format(**places)), arguments
        assert text(await one.call("runs")) == "There are no runs yet."
    assert busy.requests == []
    assert "Traceback" not in Path("errors.txt").read_text()


@pytest.mark.parametrize("mode", FAST_MODES)
async def test_the_roots_of_the_client_hold_links_followed(mode: Mode, here: Path) -> None:
    inside, outside = here / "inside", here / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
    (inside / "link.txt").symlink_to(outside / "a.txt")
    cell = "```repl\nFINAL(context if isinstance(context, str) else sorted(context.values()))\n```"
    async with agent("-m", script(cell), roots=[inside], mode=mode) as one:
        assert (await one.ask(paths=["a.txt"]))["answer"] == "inside"
        assert (await one.ask(paths=[str(inside)]))["value"] == ["inside"]
        for path in (outside / "a.txt", inside / "link.txt", here):
            result = await one.call("ask", question="?", paths=[str(path)])
            assert text(result) == f"{path}: outside of the folders that may be read ({inside})."
    async with agent("-m", script(cell), "--root", "outside", roots=[here], mode=mode) as one:
        assert (await one.ask(paths=["a.txt"]))["answer"] == "outside"
        assert (await one.call("ask", question="?", paths=[str(inside / "a.txt")])).is_error
    async with agent("-m", script(cell), "--root", "outside", roots=[inside], mode=mode) as one:
        result = await one.call("ask", question="?", paths=["a.txt"])
        assert text(result).startswith("ask: no folder may be read here.")


# --- limits ---------------------------------------------------------------------------------------------------


async def test_who_asks_may_lower_the_owners_limits(busy: Loopback) -> None:
    limits = ["--max-cost", "0.5", "--price", "openai/any=1,2", "--max-tokens", "100000"]
    async with agent(*served(busy), *limits) as one:
        found = await one.ask(max_cost=0.25, max_tokens=50_000, max_seconds=1.5)
    assert found["stop_reason"] == "seconds"
    recorded = Trajectory.load(found["notebook"]).limits
    assert (recorded["max_cost"], recorded["max_tokens"], recorded["max_seconds"]) == (0.25, 50_000, 1.5)


async def test_all_runs_together_cost_no_more_than_the_owner_allows() -> None:
    with Loopback(["```repl\nFINAL(1)\n```"]) as server:
        # 100 tokens in, 10 out: a tenth of a dollar and a little more
        async with agent(*served(server), "--price", "openai/any=1000,1000", "--total-cost", "40") as one:
            first = await one.ask()
            limits = Trajectory.load(first["notebook"]).limits
            assert limits["max_cost"] == 40
            second = await one.ask()
            assert Trajectory.load(second["notebook"]).limits["max_cost"] == pytest.approx(40 - first["cost"])
            third = await one.ask(wait_seconds=0)
            assert third["state"] == "running"
            result = await one.call("ask", question="And?")
            assert text(result) == "ask: all of the $40 that this server may spend is spent, or is in use."


async def test_no_more_than_four_runs_go_on_at_once() -> None:
    async with agent("-m", sleepy(30)) as one:
        for _ in range(4):
            await one.ask(wait_seconds=0)
        result = await one.call("ask", question="And?")
        assert text(result).startswith("ask: 4 runs go on, and no more may at once: r1, r2, r3, r4.")
        assert (await one.call("stop", run="r2")).structured_content["stop_reason"] == "cancelled"
        assert (await one.ask(wait_seconds=0))["run"] == "r5"


async def test_a_server_that_is_started_again_knows_the_runs_that_are_kept() -> None:
    model = script(*COUNTED)
    async with agent("-m", model) as one:
        before = await one.ask("How long?", text="abcd")
    name = Path(before["notebook"]).stem
    async with agent("-m", model) as one:
        assert text(await one.call("runs")) == f"{name}  answered: How long?"
        for tool in ("result", "status"):
            found = (await one.call(tool, run=name)).structured_content
            assert found == before | {"run": name}


async def test_a_model_that_fails_is_told_in_a_line() -> None:
    with Loopback([Fault.status(401, "no such key")]) as server:
        async with agent(*served(server)) as one:
            result = await one.call("ask", question="?")
    assert result.is_error
    first, _, _ = text(result).partition("\n")
    assert first.startswith("No answer: ")
    assert "401" in first
    assert "Traceback" not in Path("errors.txt").read_text()


def test_options_that_are_wrong_are_told_in_a_line_before_anything_is_served(here: Path) -> None:
    for options, said in {
        ("--root", "nowhere"): f"jupyter rlm: --root {here}/nowhere: there is no such folder.",
        ("--wait", "0"): "jupyter rlm: --wait 0: it must be more than zero.",
        ("--merge",): "jupyter rlm: --merge goes with --install: jupyter rlm mcp --install claude --merge",
        ("-m", "nobody/x"): "jupyter rlm: ",
    }.items():
        done = subprocess.run(
            [*SERVER, *options], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        assert (done.returncode, done.stdout) == (2, ""), options
        assert done.stderr.startswith(said)
        assert done.stderr.count("\n") == 1


def test_without_the_package_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = None; from rlm_jupyter.frontends.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "mcp", "-m", script(*COUNTED)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jupyter rlm: jupyter rlm mcp needs mcp: pip install 'rlm_jupyter[mcp]'\n"


# --- the page about it ----------------------------------------------------------------------------------------


def test_the_commands_of_its_page_do_what_it_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.M | re.S)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("jupyter rlm ")]
    assert len(commands) == 2
    doctor, install = (cli(*shlex.split(command, comments=True)[2:]) for command in commands)
    assert (doctor.code, install.code) == (0, 0), doctor.out + install.err
    arguments = json.loads(install.out)["mcpServers"]["rlm"]["args"]
    assert arguments[-6:] == ["--max-cost", "0.50", "--total-cost", "5", "--wait", "3540"]
    named = set(re.findall(r"`(\w+)\(", page))
    assert {tool.name for tool in tools(50)} <= named
    _, options, _ = page.partition("| what you say |")
    for option in re.findall(r"`(--[\w-]+)", options.partition("## What the agent has")[0]):
        args = parsed(["mcp", option, "none" if option == "--sandbox" else "1"])
        assert getattr(args, option.lstrip("-").replace("-", "_")), option


async def test_the_answer_that_its_page_shows_is_what_an_agent_reads() -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    [shown] = re.findall(r"as structured data:\n\n```\n(.*?)\n```", page, re.S)
    async with agent("-m", script(*COUNTED)) as one:
        said = text(await one.call("ask", question="How long?", text="abc" * 1_000))
    shape = re.sub(r"/\S*ipynb", "NOTEBOOK", re.sub(r"[\d,.]+ (s|tokens)", r"N \1", said))
    assert shape == re.sub(r"/\S*ipynb", "NOTEBOOK", re.sub(r"[\d,.]+ (s|tokens)", r"N \1", shown)).replace(
        ", $0.0089", ""
    )
