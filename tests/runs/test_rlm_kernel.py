"""The RLM kernel as front ends start it: by its kernelspec, over the Jupyter protocol."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from jupyter_client.manager import start_new_async_kernel
from nbclient import NotebookClient

import rlm_jupyter
from rlm_jupyter import RLM
from rlm_jupyter.frontends.rlm_kernel.config import KernelConfiguration
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ConfigurationError
from tests.support.kernels import kernels_of
from tests.support.sandboxes import need_bwrap

pytestmark = pytest.mark.slow

SPEC = Path(rlm_jupyter.__file__).parent / "kernelspec"
LOOK = "I look.\n```repl\nprint(len(context))\nmade = [seen] if 'seen' in globals() else []\n```"
ANSWER = "```repl\nreply = llm_query('who?')\nFINAL(f'**{len(context)}** {reply} {made}')\n```"
SLEEP = "I wait.\n```repl\nanswer['content'] = 'a draft'\nimport time\ntime.sleep(60)\n```"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(SPEC, tmp_path / "jupyter" / "kernels" / "rlm")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-in-there")
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("The sky is blue. Grass is green.")
    write_script("two", [LOOK, ANSWER] * 2)
    write_script("slow", [SLEEP, LOOK, "```repl\nFINAL('after')\n```"])
    return tmp_path


def write_script(name: str, replies: list[str]) -> None:
    Path(f"{name}.json").write_text(json.dumps({"replies": replies, "subcalls": ["nobody"] * len(replies)}))


@dataclass
class Shown:
    """What a cell brought."""

    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [content for msg_type, content in self.messages if msg_type == kind]

    def text(self, name: str = "stdout") -> str:
        return "".join(content["text"] for content in self.all("stream") if content["name"] == name)

    @property
    def result(self) -> dict[str, Any]:
        [content] = self.all("execute_result")
        return dict(content["data"])

    @property
    def drawn(self) -> str:
        shows = self.all("display_data") + self.all("update_display_data")
        return "\n".join(show["data"].get("text/html", "") for show in shows)


class Front:
    """A front end: a client of one kernel."""

    def __init__(self, km: Any, kc: Any) -> None:
        self.km, self.kc = km, kc

    async def run(self, code: str, **options: Any) -> Shown:
        shown = Shown()
        hear: Callable[[Any], None] = lambda msg: shown.messages.append((msg["msg_type"], msg["content"]))  # noqa: E731
        # else what follows a cell that failed at once is aborted with it
        options = {"stop_on_error": False} | options
        reply = await self.kc.execute_interactive(code, output_hook=hear, timeout=60, **options)
        shown.reply = reply["content"]
        return shown

    async def begin(self, code: str, until: str) -> tuple[asyncio.Task[Shown], list[str]]:
        """Start a cell, and wait until something of it shows."""
        seen: list[str] = []
        shown = Shown()

        def hear(msg: Any) -> None:
            seen.append(json.dumps(msg["content"], default=str))
            shown.messages.append((msg["msg_type"], msg["content"]))

        async def execute() -> Shown:
            reply = await self.kc.execute_interactive(code, output_hook=hear, timeout=60, stop_on_error=False)
            shown.reply = reply["content"]
            return shown

        task = asyncio.create_task(execute())
        await eventually(lambda: until in "".join(seen) or task.done())
        assert not task.done(), shown
        return task, seen

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.km.provisioner.pid)

    def behind(self) -> psutil.Process:
        [found] = kernels_of(self.process)
        return found


async def started_kernel() -> tuple[Any, Any]:
    """A manager and a client; once more where another process took a port between its choice and the kernel's start."""
    options: dict[str, Any] = {"kernel_name": "rlm", "extra_arguments": ["--log-level=ERROR"]}
    try:
        return await start_new_async_kernel(**options)
    except RuntimeError as error:
        if "died before replying" not in str(error):
            raise
        return await start_new_async_kernel(**options)


@asynccontextmanager
async def started() -> AsyncIterator[Front]:
    km, kc = await started_kernel()
    try:
        yield Front(km, kc)
    finally:
        kc.stop_channels()
        await km.shutdown_kernel()


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with started() as front:
        yield front


async def eventually(holds: Callable[[], bool], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_prompt_is_answered_in_the_kernel_that_cells_of_code_run_in(front: Front) -> None:
    set_up = await front.run("%context book.txt\n%model scripted/two.json")
    assert set_up.text() == "context: str, 32 characters\nmodel scripted/two.json\n"
    mine = await front.run(
        "%%python\nseen = 7\nimport os\nprint(sorted(k for k in os.environ if 'KEY' in k))\nseen + 1"
    )
    assert mine.text() == "[]\n"  # no key is ever in there
    assert (mine.result["text/plain"], mine.reply["execution_count"]) == ("8", 2)

    asked = await front.run("How many?\nAnd who?")
    assert asked.result == {"text/markdown": "**32** nobody [7]", "text/plain": "**32** nobody [7]"}
    assert asked.all("execute_result")[0]["execution_count"] == asked.reply["execution_count"] == 3
    assert "Answered" in asked.drawn
    assert "Iteration 2" in asked.drawn

    after = await front.run("%%python\nmade.append(8)\nprint(reply, history)\nmade")
    assert after.text() == "nobody [{'prompt': 'How many?\\nAnd who?', 'answer': '**32** nobody [7]'}]\n"
    count = after.reply["execution_count"]
    assert count == 6  # the model's two cells have 4 and 5
    assert (await front.run(f"%%python\nOut[{count}], _{count}")).result["text/plain"] == "([7, 8], [7, 8])"

    [notebook] = Path("rlm_runs").glob("*.ipynb")
    record = Trajectory.load(notebook)
    assert (record.started.prompt, record.answer) == ("How many?\nAnd who?", "**32** nobody [7]")
    again = await front.run("And again?")  # it remembers
    assert again.result["text/plain"] == "**32** nobody [7]"
    assert (await front.run("%%python\nlen(history)")).result["text/plain"] == "2"


async def test_without_a_model_the_embedded_one_answers_and_says_so_once(front: Front) -> None:
    await front.run("%context book.txt")
    asked = await front.run("What colour is grass?")
    assert "it is no language model" in asked.drawn
    assert asked.text("stderr") == ""  # which pages draw as an error
    assert "Grass is green." in asked.result["text/plain"]
    assert "it is no language model" not in (await front.run("What colour is the sky?")).drawn
    assert "%context PATH" in (await front.run("%help")).text()
    assert (await front.run("%model")).text() == "model extractive/bm25\n"


async def test_the_environment_names_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_MODEL", "scripted/two.json")
    async with started() as front:
        asked = await front.run("How many?")
        assert asked.text("stderr") == ""
        assert asked.result["text/plain"] == "**0** nobody []"
    monkeypatch.setenv("RLM_MODEL", "nobody/x")
    with pytest.raises(ConfigurationError, match="No provider 'nobody'"):
        _ = KernelConfiguration().settings


async def test_code_is_relayed_as_it_comes(front: Front) -> None:
    code = (
        "%%python\nfrom IPython.display import clear_output, display, HTML\nimport sys\nprint('gone')\nclear_output()\n"
        "shown = display(HTML('<b>1</b>'), display_id=True)\nshown.update(HTML('<b>2</b>'))\nprint('err', file=sys.stderr)\n"
        "display({'application/vnd.jupyter.widget-view+json': {}, 'text/plain': 'a slider'}, raw=True)\n'\\ud800'\n1/0"
    )
    shown = await front.run(code)
    kinds = [kind for kind, _ in shown.messages if kind not in {"status", "execute_input"}]
    expected = ["stream", "clear_output", "display_data", "update_display_data", "stream", "display_data", "error"]
    assert kinds == expected
    first, widget = shown.all("display_data")
    [update] = shown.all("update_display_data")
    assert first["transient"] == update["transient"]
    assert update["data"]["text/html"] == "<b>2</b>"
    assert widget["data"] == {"text/plain": "a slider"}
    assert shown.reply["ename"] == "ZeroDivisionError"
    assert "line 11" in "".join(shown.reply["traceback"])  # as the cell counts
    assert "hi" in (await front.run("!echo hi")).text()
    assert (await front.run("%%time\n5 + 1")).result["text/plain"] == "6"
    assert (await front.run("%%python\n%%capture taken\nprint(3)")).text() == ""
    assert (await front.run("%%python\nprint(taken.stdout + chr(0xD800))")).text() == "3\n\ufffd\n"
    [page] = (await front.run("%%python\nlen?")).reply["payload"]
    assert page["source"] == "page"

    lines: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            lines.append(message["content"]["text"])
            Path("heard").touch()

    waits = (
        "%%python\nimport pathlib, time\nend = time.monotonic() + 30\nprint('first', flush=True)\n"
        f"while not (heard := pathlib.Path({str(Path('heard').absolute())!r}).exists()) and time.monotonic() < end:\n"
        "    time.sleep(0.01)\nprint(heard)"
    )
    await front.kc.execute_interactive(waits, output_hook=hear, timeout=60)
    assert "".join(lines) == "first\nTrue\n"


async def test_without_its_server_a_prompt_brings_one_line(front: Front) -> None:
    await front.run("%model ollama/qwen --base-url 127.0.0.1:1")
    shown = await front.run("What is it?")
    [error] = shown.all("error")
    assert error["evalue"].startswith("ollama/qwen: no connection to http://127.0.0.1:1")
    assert (shown.drawn, shown.text()) == ("", "")


async def test_what_is_wrong_is_said_in_one_line_and_changes_nothing(front: Front) -> None:
    Path("empty.txt").touch()
    await front.run("%context book.txt\n%model scripted/two.json\n%limits max_seconds=60")
    cases = {
        "%context nope.txt": "nope.txt: there is no such file.",
        "%context empty.txt": "empty.txt is empty: there is nothing to answer from.",
        "%context 'book.txt": "quotation mark is missing",
        "%context -": "no standard input here",
        "%context *.nope": "No file matches '*.nope'.",
        "%model nobody/x": "No provider 'nobody'",
        "%model anthropic/claude-sonnet-5": "ANTHROPIC_API_KEY",
        "%model scripted/none.json": "the script can't be read",
        "%model a b": "takes one model, --sub-model, --base-url, --window and --price",
        "%model --sub-model": "--sub-model needs a value",
        "%model scripted/two.json --price=scripted=1": "The price of 'scripted' is",
        "%model scripted/two.json --price scripted/two.json=much": "A price is written MODEL=INPUT,OUTPUT",
        "%limits max_cots=3": "no limit 'max_cots'; there is max_cost",
        "%limits max_cost": "takes NAME=VALUE",
        "%limits max_cost=-1": "must be more than zero",
        "%limits max_cost=much": "a number or none, not 'much'",
        "%limits max_iterations=none": "a number is needed",
        "%limits nope=1\nWho?": "no limit 'nope'",
        "%%python --out x\n1": "takes no options, not '--out x'",
    }
    for code, says in cases.items():
        shown = await front.run(code)
        [error] = shown.all("error")
        assert says in error["evalue"], code
        assert len(error["traceback"]) == 1
        assert shown.reply["status"] == "error"
        assert not shown.all("display_data")
    assert (await front.run("%model")).text() == "model scripted/two.json\n"
    assert "max_seconds=60 " in (await front.run("%limits")).text()
    assert "max_seconds" not in (await front.run("%limits max_seconds = none, max_tokens=5")).text()
    assert (await front.run("%context")).text() == "context: str, 32 characters\n"
    assert (await front.run("Who?")).text("stderr").startswith("No answer")  # five tokens are not enough
    assert not (await front.run("%%python\nllm_query('x')")).reply["evalue"].startswith("no run")


async def test_a_further_context_becomes_context_and_the_first_stays(front: Front) -> None:
    Path("more").mkdir()
    Path("more/a b.txt").write_text("other")
    Path("more/c.txt").write_text("third")
    await front.run("%context book.txt")
    assert (await front.run("%context 'more/a b.txt' more/c.txt")).text() == "context: dict, 2 keys\n"
    told = await front.run("%%python\nprint(len(context_0), context == context_1, sorted(context.values()))")
    assert told.text() == "32 True ['other', 'third']\n"
    assert "context was changed" in (await front.run("%%python\ndel context")).text("stderr") + (
        await front.run("%%python\nlen(context)")
    ).text("stderr")


@pytest.mark.parametrize(
    ("source", "said", "shown"),
    [
        ("context = 'mine, all mine'", "str, 14 characters", "14"),
        ("context = b'mine'", "bytes, 4 bytes", "4"),
        ("context = ['a', 'b']", "list, 2 items", "2"),
        ("context = {1, 2, 3}", "set, 3 items", "3"),
        ("import pandas\ncontext = pandas.DataFrame({'a': range(5)})", "DataFrame, shape (5, 1)", "5"),
        ("context = 'new'\n1 / 0", "str, 3 characters", "3"),
    ],
)
async def test_a_cell_that_sets_context_sets_that_of_the_next_prompts(
    front: Front, source: str, said: str, shown: str
) -> None:
    write_script("len", ["```repl\nFINAL(len(context))\n```"] * 4)
    await front.run("%context book.txt\n%model scripted/len.json")
    told = (await front.run(f"%%python\n{source}")).drawn
    assert f"The next prompts are about this context: {said}." in told
    assert (await front.run("%context")).text() == f"context: {said}\n"
    assert (await front.run("How long?")).result["text/plain"] == shown
    record = Trajectory.load(max(Path("rlm_runs").glob("*.ipynb")))
    assert f"{record.started.context.type_name}, {record.started.context.size}" == said
    # and also where its kernel is another one
    await front.run("%%python\nimport os; os._exit(1)")
    assert (await front.run("%%python\nprint(len(context), len(context_0), context is context_1)")).text() == (
        f"{shown} 32 True\n"
    )


async def test_the_model_is_told_of_contexts_and_prompts_before_and_they_are_one_record(front: Front) -> None:
    last = "```repl\nFINAL([context, context_0, context_1, [m['role'] for m in history_0], history[0]['answer']])\n```"
    write_script("told", ["```repl\nFINAL(len(context))\n```", last])
    await front.run("%context book.txt\n%model scripted/told.json")
    await front.run("How long is it?")
    await front.run("%%python\ncontext = 'mine, all mine'")
    await front.run("%%python\ncontext = ['newest']")
    await front.run("And now?")
    [notebook] = Path("rlm_runs").glob("*.ipynb")
    second = SavedRun.load(RunFiles(notebook.absolute()).prompt(2).notebook)
    book = Path("book.txt").read_text()
    assert second.trajectory.ended is not None
    assert second.trajectory.ended.value == [["newest"], book, "mine, all mine", ["user", "assistant"], "32"]
    opening = second.trajectory.started.opening
    assert "`context_0` (str: 32 characters), `context_1` (str: 14 characters)." in opening
    assert "`context` is the newest, `context_2`." in opening
    assert "`history_0` what was said over it" in opening
    replayed = await RLM.areplay(notebook)
    assert (replayed.run_id, replayed.differences) == (second.trajectory.run_id, ())


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("class Own: ...\ncontext = Own()", "Own is defined in a cell only"),
        ("import threading\ncontext = threading.Lock()", "can't be pickled"),
    ],
)
async def test_what_can_t_be_a_context_is_said_and_the_old_one_stays(front: Front, source: str, why: str) -> None:
    await front.run("%context book.txt")
    told = (await front.run(f"%%python\n{source}")).text("stderr")
    assert "can't be the context of the next prompts" in told
    assert why in told
    assert (await front.run("%context")).text() == "context: str, 32 characters\n"
    assert (await front.run("%%python\nprint(len(context))")).text() == "32\n"


async def test_no_pickle_leaves_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    need_bwrap()
    monkeypatch.setenv("RLM_SANDBOX", "bwrap")
    async with started() as front:
        told = (await front.run("%%python\ncontext = {1, 2}")).text("stderr")
        assert "from within a sandbox only text, bytes and plain data" in told
        assert "list, 1 item" in (await front.run("%%python\ncontext = [1]")).drawn


@pytest.mark.parametrize("how", ["message", "signal"])
async def test_an_interrupt_ends_prompt_or_cell_keeps_what_there_is_and_the_kernel_goes_on(
    front: Front, how: str
) -> None:
    async def interrupt() -> None:
        if how == "message":
            await front.km.interrupt_kernel()
            # it only sends it: else it may reach the kernel when the next cell runs
            assert await front.km._control_socket.poll(60_000)
            await front.km._control_socket.recv_multipart()
        else:
            os.kill(front.process.pid, signal.SIGINT)

    await interrupt()  # nothing runs: nothing happens
    await front.run("%%python\nkept = 1")
    pid = front.behind().pid
    task, _ = await front.begin("%model scripted/slow.json\nWhat?", "running a cell")
    began = time.monotonic()
    await interrupt()
    stopped = await task
    assert time.monotonic() - began < 30
    assert stopped.result["text/plain"] == "a draft"
    assert stopped.reply["ename"] == "KeyboardInterrupt"
    assert "Stopped" in stopped.drawn
    [notebook] = Path("rlm_runs").glob("*.ipynb")
    assert Trajectory.load(notebook).ended.stop_reason == "cancelled"  # type: ignore[union-attr]

    waits = "%%python\nimport time\nprint('on')\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')\ntime.sleep(60)"
    task, seen = await front.begin(waits, '"on\\n')
    await interrupt()
    await eventually(lambda: '"caught\\n' in "".join(seen))  # two that come at once are one
    await asyncio.sleep(1.3)
    assert not task.done()  # the cell caught it; nothing is killed for that
    await interrupt()
    cell = await task
    assert cell.text() == "on\ncaught\n"
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert (await front.run("And?")).result["text/plain"] == "after"
    assert (await front.run("%%python\nkept")).result["text/plain"] == "1"
    assert front.behind().pid == pid


async def test_an_interrupt_while_the_kernel_behind_starts_spares_the_cell(front: Front) -> None:
    task, _ = await front.begin("%%python\nran = 1", "ran = 1")
    await eventually(lambda: bool(kernels_of(front.process)))
    await front.km.interrupt_kernel()
    cell = await task
    assert (cell.reply["ename"], cell.reply["evalue"]) == ("KeyboardInterrupt", "the cell had not begun")
    assert (await front.run("%%python\n'ran' in dir()")).result["text/plain"] == "False"


async def test_cells_that_wait_behind_a_failing_one_are_not_executed(front: Front) -> None:
    front.kc.execute("%%python\nimport time; time.sleep(.5); 1/0")
    asked = await front.run("What?")
    assert asked.reply["status"] == "aborted"


async def test_a_kernel_that_dies_is_started_again_and_that_is_said(front: Front) -> None:
    await front.run("%context book.txt\n%model scripted/two.json")
    died = await front.run("%%python\nlost = 1\nimport os\nos._exit(3)")
    assert "died in this cell. It was started again: context is back" in died.reply["evalue"]
    assert (await front.run("%%python\nlen(context), 'lost' in dir()")).result["text/plain"] == "(32, False)"
    front.behind().kill()
    await asyncio.sleep(0.3)
    asked = await front.run("How many?")
    assert "had died. It was started again" in asked.text("stderr")
    assert asked.result["text/plain"] == "**32** nobody []"


@pytest.mark.parametrize("how", ["typed", "nothing", "interrupted"])
async def test_a_key_is_entered_here_and_is_not_in_the_kernel_behind(front: Front, how: str) -> None:
    assert "Nobody can be asked here" in (await front.run("%rlm_key anthropic", allow_stdin=False)).reply["evalue"]
    assert "Name the provider" in (await front.run("%rlm_key")).reply["evalue"]
    assert "with one of openai, anthropic" in (await front.run("%rlm_key opnai")).reply["evalue"]
    asked: list[dict[str, Any]] = []

    def answer(msg: dict[str, Any]) -> None:
        asked.append(msg["content"])
        if how != "interrupted":
            front.kc.input("sk-secret" if how == "typed" else "")

    entering = asyncio.create_task(front.run("%rlm_key anthropic", allow_stdin=True, stdin_hook=answer))
    if how == "interrupted":
        await eventually(lambda: bool(asked))
        await front.km.interrupt_kernel()
    entered = await entering
    assert asked == [{"prompt": "ANTHROPIC_API_KEY: ", "password": True}]
    named = await front.run("%model anthropic/claude-sonnet-5")
    if how != "typed":
        assert "Nothing was entered" in entered.reply["evalue"]
        assert "ANTHROPIC_API_KEY" in named.reply["evalue"]
        return
    assert "sk-secret" not in str(entered.messages)
    assert named.text() == "model anthropic/claude-sonnet-5\n"
    seen = await front.run("%%python\nimport os\n'sk-secret' in str(dict(os.environ))")
    assert seen.result["text/plain"] == "False"


async def test_a_price_that_is_given_holds_from_then_on(front: Front) -> None:
    priced = await front.run("%model scripted/two.json --price=scripted/two.json=0,0\n%limits max_cost=1")
    assert "max_cost=1" in priced.text()
    assert (await front.run("%model scripted/two.json")).text() == "model scripted/two.json\n"
    assert (await front.run("How many?")).result["text/plain"] == "**0** nobody []"


async def test_where_it_is_asked_for_by_name_the_kernel_behind_is_shut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    need_bwrap()
    secret = Path("secret.txt").absolute()
    secret.write_text("mine")
    for named, seen in (("bwrap", "False"), ("auto", "True")):
        monkeypatch.setenv("RLM_SANDBOX", named)
        async with started() as front:
            shown = await front.run(f"%%python\nimport os\nos.path.exists({str(secret)!r})")
            assert shown.result["text/plain"] == seen


async def test_silence_asks_no_model_and_an_empty_cell_does_nothing(front: Front) -> None:
    await front.run("%model scripted/two.json")
    assert (await front.run("What?", silent=True)).reply["status"] == "ok"
    assert [kind for kind, _ in (await front.run("  \n")).messages] == ["status", "execute_input", "status"]
    assert not Path("rlm_runs").exists()


async def test_code_and_commands_are_completed_and_prose_is_left_alone(front: Front) -> None:
    await front.run("%context book.txt\n%%python\nseen_it = 1")
    cases: dict[str, tuple[str, str]] = {  # the cell, and what it is completed to
        "%%python\n1\nseen_": ("%%python\n1\nseen_it", "code"),
        "%limits max_cost=1\n%%python\nseen_i": ("%limits max_cost=1\n%%python\nseen_it", "code after a command"),
        "%con": ("%context", "a command, before IPython's magics"),
        "%%pyth": ("%%python", "the magic"),
        "%whos_like": ("%whos_like", "nothing"),
        "%model anth": ("%model anthropic/", "a provider"),
        "%model anthropic/": ("%model anthropic/claude-sonnet-5", "a model"),
        "%model x --s": ("%model x --sub-model", "an option"),
        "%limits max_cost=1 max_se": ("%limits max_cost=1 max_seconds=", "a limit"),
        "%context bo": ("%context book.txt", "a file"),
        "%context bo\nWhat is seen_": ("%context bo\nWhat is seen_", "prose"),
        "What is seen_": ("What is seen_", "prose"),
    }

    async def complete(code: str) -> str:
        reply = (await front.kc.complete(code, reply=True, timeout=60))["content"]
        assert reply["status"] == "ok"
        match = (reply["matches"] or [code[reply["cursor_start"] : reply["cursor_end"]]])[0]
        return str(code[: reply["cursor_start"]] + match + code[reply["cursor_end"] :])

    for code, (completed, what) in cases.items():
        found = await complete(code)
        for _ in range(5):  # a busy machine may complete nothing in the time that there is for that
            found = found if found == completed else await complete(code)
        assert found == completed, what
    middle = (await front.kc.complete("%context bo\nWhat is it?", cursor_pos=11, reply=True))["content"]
    assert (middle["matches"], middle["cursor_start"], middle["cursor_end"]) == (["book.txt"], 9, 11)


async def test_code_and_commands_are_inspected_and_a_terminal_knows_when_a_cell_ends(front: Front) -> None:
    await front.run("%%python\nseen = 7")
    for code, says in {"%%python\nseen": "int", "!ls\nseen": "int", "%limits": "max_cost", "What is seen": ""}.items():
        reply = (await front.kc.inspect(code, reply=True))["content"]
        assert (reply["found"], says in reply["data"].get("text/plain", "")) == (bool(says), True), code
    ends = {
        "What is it?": "complete",
        "%model x": "complete",
        "%%python": "incomplete",
        "%%python\nx = 1": "incomplete",
        "%%python\nx = 1\n": "complete",
        "%%python\nfor x in y:": "incomplete",
        "!ls": "complete",
        "%%time\nx = (": "incomplete",
    }
    for code, status in ends.items():
        assert (await front.kc.is_complete(code, reply=True))["content"]["status"] == status, code


async def test_a_terminal_gets_lines(front: Front) -> None:
    await front.run("%context book.txt\n%model scripted/two.json")
    await front.kc.is_complete("How many?", reply=True)
    asked = await front.run("How many?")
    lines = asked.text().splitlines()
    assert [line[:11] for line in lines[:2]] == ["iteration 1", "iteration 2"]
    assert lines[2].startswith("Answered · 2 iterations")
    assert not asked.all("display_data")


async def test_an_answer_loads_nothing_into_the_page(front: Front) -> None:
    for answer in ("![x](http://127.0.0.1/?q=secret)", "<img src=x> **b**"):
        write_script("evil", [LOOK, f"```repl\nFINAL({answer!r})\n```"])
        shown = (await front.run("%model scripted/evil.json\nWhat?")).result
        assert set(shown) == {"text/html", "text/plain"}
        assert "<img" not in shown["text/html"]


async def test_nobody_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(f"/tmp/rlmk{os.getpid()}") if Path("/tmp").is_dir() else tmp_path / "tmp"  # sockets want it short
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(folder))
    try:
        for end in ("shutdown", "busy", "restart", "terminate", "kill"):
            km, kc = await started_kernel()
            front = Front(km, kc)
            await front.run("%%python\nx = 1")
            wrapper, behind = front.process, front.behind()
            task = None
            if end == "busy":
                task, _ = await front.begin("%model scripted/slow.json\nWhat?", "running a cell")
            if end in {"shutdown", "busy"}:
                await km.shutdown_kernel()
            elif end == "restart":
                await km.restart_kernel()
                await kc.wait_for_ready(timeout=60)
                assert (await front.run("%%python\n'x' in dir()")).result["text/plain"] == "False"
            else:
                os.kill(wrapper.pid, signal.SIGTERM if end == "terminate" else signal.SIGKILL)
            gone = [p for p in (wrapper, behind) if p.is_running()]
            await eventually(partial(none_alive, gone))
            if end not in {"restart", "kill"}:
                await eventually(lambda: not list(folder.glob("rlm_jupyter*/*")))
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                [notebook] = Path("rlm_runs").glob("*.ipynb")
                assert Trajectory.load(notebook).ended.stop_reason == "cancelled"  # type: ignore[union-attr]
            kc.stop_channels()
            await km.shutdown_kernel(now=end != "restart")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def none_alive(processes: list[psutil.Process]) -> bool:
    return not any(alive(process) for process in processes)


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_notebook_with_this_kernelspec_is_executed() -> None:
    sources = ["%context book.txt\n%model scripted/two.json", "%%python\nseen = 7", "How many?", "%%python\nmade"]
    document = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={"kernelspec": {"name": "rlm", "display_name": "RLM (Python)", "language": "rlm"}},
    )
    NotebookClient(document, timeout=60, extra_arguments=["--log-level=ERROR"]).execute()
    nbformat.validate(document)
    asked, after = document.cells[2:]
    status, trajectory, answer = asked.outputs
    assert "Answered" in status["data"]["text/html"]
    assert "Iteration 2" in trajectory["data"]["text/html"]
    assert (answer["output_type"], answer["data"]["text/markdown"]) == ("execute_result", "**32** nobody [7]")
    assert after.outputs[0]["data"]["text/plain"] == "[7]"
    assert document.metadata.language_info.name == "rlm"


async def test_a_text_for_a_prompt_is_to_be_a_context(front: Front) -> None:
    shown = await front.run("word " * 5_000)
    assert "25,000 characters" in shown.all("error")[0]["evalue"]
    assert "%context FILE" in shown.all("error")[0]["evalue"]
