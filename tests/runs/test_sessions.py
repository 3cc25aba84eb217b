"""Sessions: one prompt after the other with one kernel, each a run of its own, in one record."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits
from rlm_jupyter.kernel import template_pool
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import prompts_beside, removal
from rlm_jupyter.record.catalog import find, list_runs
from rlm_jupyter.record.export import WholeRun, to_html, to_jsonl, to_notebook
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.prompt_session import PromptSession
from rlm_jupyter.run.chat_prompt import LAST_MESSAGE, question_of
from rlm_jupyter.run.result import Result
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from tests.runs.test_cli import Done, start
from tests.runs.test_magics import run, shell, write_script

PAGE = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text()
__all__ = ["shell"]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str) -> str:
    return "```repl\n" + "\n".join(lines) + "\n```"


COUNT = [block("found = context.count('a')", "print(found)"), block("FINAL(found)")]
SHOW = "FINAL([found, context, context_0, history, [message['role'] for message in history_0]])"


def printed(result: Any) -> str:
    cells = [cell for iteration in result.trajectory.iterations for cell in iteration.cells]
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


def test_a_session_keeps_its_kernel_and_is_one_record() -> None:
    model = ScriptedModel([*COUNT, block(SHOW), block("FINAL([history_1[-1]['content'], context is context_1])")])
    rlm = RLM(model, sandbox="none")
    with rlm.session("banana", name="fruit") as session:
        first = session.ask("How many a?")
        assert session.add_context("cherry") == "context_1"
        second, third = session.ask("And now?"), session.ask("Which code was that?")
        with pytest.raises(ConfigurationError, match="nothing in this context"):
            session.add_context(None)
    assert first.value == 3
    asked = [{"prompt": "How many a?", "answer": "3"}]
    assert second.value == [3, "cherry", "banana", asked, ["user", "assistant", "user", "assistant"]]
    assert third.value == [block(SHOW), True]
    assert {result.path for result in (first, second, third)} == {Path("rlm_runs/fruit.ipynb").absolute()}
    opening = second.trajectory.started.opening
    assert "`context` is a str: 6 characters." in opening
    assert "`context_0` (str: 6 characters). `context` is the newest, `context_1`." in opening
    assert "`history_0` what was said over it" in opening
    assert "`history_0` to `history_1` are what was said over each" in third.trajectory.started.opening
    # one notebook, in which each prompt can be read back
    assert [path.name for path in Path("rlm_runs").iterdir() if path.suffix == ".ipynb"] == ["fruit.ipynb"]
    notebook = nbformat.read("rlm_runs/fruit.ipynb", as_version=4)
    nbformat.validate(notebook)
    prompts = [cell.source for cell in notebook.cells if cell.metadata.rlm.role == "prompt"]
    assert [prompt.split("\n")[0] for prompt in prompts] == ["## Prompt", "## Prompt 2", "## Prompt 3"]
    assert len(list_runs()) == 1
    shutil.rmtree("rlm_runs/fruit.rlm/prompts")
    assert SavedRun.load(third.trajectory.run_id).records == third.trajectory.records
    assert SavedRun.load("fruit.2").context().buffers == (b"cherry",)
    with pytest.raises(ConfigurationError, match=r"This session has ended. To resume it .*session\(resume="):
        session.ask("More?")
    with pytest.raises(ConfigurationError, match="This session has ended"):
        session.add_context("more")


async def test_its_twin_for_async_code() -> None:
    model = ScriptedModel([*COUNT, block("import time", "time.sleep(60)"), block("FINAL([found, context])")])
    async with RLM(model, sandbox="none").asession("banana") as session:
        assert (await session.ask("How many a?")).value == 3
        running = asyncio.create_task(session.ask("Slowly?"))
        deadline = time.monotonic() + 40
        while not (session.kernel.records[1:] and session.kernel.records[1].iterations):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        with pytest.raises(ConfigurationError, match="A prompt is being answered"):
            await session.add_context("too early")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while session.kernel.in_use:
            await asyncio.sleep(0.05)
        assert await session.add_context("cherry") == "context_1"
        assert (await session.ask("And?")).value == [3, "cherry"]
    with pytest.raises(ConfigurationError, match="has ended"):
        await session.ask("More?")
    assert session.kernel.records[1].ended is not None
    assert session.kernel.records[1].ended.stop_reason == "cancelled"


def test_a_prompt_that_fails_leaves_the_session_to_the_next() -> None:
    model = ScriptedModel([*COUNT, ModelError("overloaded"), block("FINAL([found, len(history)])")])
    with RLM(model, sandbox="none").session("banana") as session:
        session.ask("How many a?")
        with pytest.raises(ModelError, match="overloaded"):
            session.ask("And?")
        last = session.ask("And?")
        assert last.value == [3, 1]
        assert [one.in_history for one in session.kernel.past.answered] == [True, False, True]
        assert [one["told"] for one in last.trajectory.started.options["after"]] == [True, False]
    assert RLM.replay(last.trajectory.run_id).differences == ()


def test_a_session_is_gone_on_with_in_a_new_kernel() -> None:
    RLM(ScriptedModel(COUNT), sandbox="none").completion("How many a?", "banana", keep_kernel=True).close()
    first = list_runs()[0].files
    model = ScriptedModel([block("found += 1", SHOW)])
    with RLM(model, sandbox="none").session(resume=first.notebook) as session:
        session.add_context("cherry")
        result = session.ask("And?")
        assert session.path == first.notebook
    assert result.value[:3] == [4, "cherry", "banana"]
    assert result.value[4] == ["user", "assistant", "user", "assistant"]
    with RLM(ScriptedModel([block("FINAL([found, context])")]), sandbox="none").session(resume=first.name) as session:
        third = session.ask("Now?")
    assert (third.value, third.path) == ([4, "cherry"], first.notebook)
    assert [run["run_id"] for run in third.trajectory.started.options["after"]] == [
        SavedRun.load(files.notebook).trajectory.run_id for files in first.prompts()[:2]
    ]
    # replayed, with what was asked before; forked, into a record of its own
    for name in (first.name, f"{first.name}.2"):
        assert RLM.replay(name).differences == ()
    fork = RLM.fork(f"{first.name}.2", 0, model=ScriptedModel([block("FINAL([found, context, context_0])")]))
    assert fork.value == [3, "cherry", "banana"]
    assert fork.path != first.notebook
    with pytest.raises(ConfigurationError, match="With resume, context and name are those of the session"):
        RLM(model).session("text", resume=first.name)


def test_a_prompt_that_was_broken_off_is_gone_on_with_in_its_record() -> None:
    model = ScriptedModel([*COUNT, block("found += 1", "print(context, found)"), block("FINAL(found)")])
    with RLM(model, sandbox="none").session("banana", name="fruit") as session:
        session.ask("How many a?")
        session.add_context("cherry")
        whole = session.ask("One more?")
    journal = Path("rlm_runs/fruit.rlm/prompts/2.rlm/journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4]) + b'{"record": "Reply')  # as if its host had been killed
    Path("rlm_runs/fruit.ipynb").unlink()
    with pytest.raises(ConfigurationError, match=r"The last prompt of fruit\.2 was broken off: resume it first"):
        RLM(model).session(resume="fruit")
    left = ScriptedModel([block("FINAL(found)")])
    again = RLM.resume("fruit", model=left)
    assert (again.value, again.trajectory.run_id, len(left.requests)) == (4, whole.trajectory.run_id, 1)
    assert again.path == whole.path
    assert not any(iteration.notices for iteration in again.trajectory.iterations)
    notebook = json.loads(Path("rlm_runs/fruit.ipynb").read_bytes())
    assert [one["prompt"] for one in notebook["metadata"]["rlm"]["prompts"]] == [2]
    assert RLM.replay("fruit").differences == ()


def test_what_cells_give_otherwise_is_told_to_the_user_too(in_folder: Path) -> None:
    Path("number.txt").write_text("1")
    model = ScriptedModel([block("print(open('number.txt').read())"), block("FINAL(1)"), block("FINAL(2)")])
    with RLM(model, sandbox="none").session("banana", name="fruit") as session:
        session.ask("Which number?")
    Path("number.txt").write_text("2")
    said: list[str] = []
    with RLM(model, sandbox="none").session(resume="fruit") as session:
        session.ask("Which now?", on_event=lambda event: said.append(getattr(event, "text", "")))
    assert "They came to other outputs than recorded in 1 place; the model is told where." in said


def test_a_later_prompt_is_asked_once_and_says_so() -> None:
    model = ScriptedModel([lambda _: block("FINAL(len(context))")] * 9)
    with RLM(model, sandbox="none", samples=2).session("banana") as session:
        assert session.ask("How long?").message == "2 of 2 samples agree"
        assert (
            session.ask("And now?").message == "samples are made of the first prompt alone, and this one was asked once"
        )


def test_cells_that_a_person_edits_in_the_one_notebook_are_forked() -> None:
    model = ScriptedModel([*COUNT, block("found += 1"), block("FINAL(found)")])
    with RLM(model, sandbox="none").session("banana", name="fruit") as session:
        session.ask("How many a?")
        session.ask("One more?")
    path = Path("rlm_runs/fruit.ipynb")
    path.write_text(path.read_text().replace("found += 1", "found += 10"))
    fork = RLM.fork("fruit", edit=True, model=ScriptedModel([block("FINAL(found)")]))
    assert fork.value == 13
    # what was edited is not lost when the session goes on
    with RLM(ScriptedModel([block("FINAL(found)")]), sandbox="none").session(resume="fruit") as session:
        assert session.ask("And?").value == 4
    assert "found += 10" in Path("rlm_runs/fruit-edited.ipynb").read_text()


def test_one_ledger_for_each_prompt_or_for_all() -> None:
    limits = Limits(max_tokens=20_000)

    def asked(ledger: Any) -> tuple[PromptSession, list[Result], list[int]]:
        with RLM(ScriptedModel([*COUNT, *COUNT]), sandbox="none", limits=limits).session(
            "banana", ledger=ledger
        ) as one:
            results = [one.ask("How many a?"), one.ask("How many a?")]
        openings = [result.trajectory.started.opening for result in results]
        left = [int(re.findall(r"([\d,]+) tokens", opening)[0].replace(",", "")) for opening in openings]
        assert one.usage == results[0].usage + results[1].usage
        assert SavedRun.load(results[1].trajectory.run_id).limits({}).max_tokens == left[1]
        return one, results, left

    assert asked("prompt")[2] == [20_000, 20_000]
    session, results, left = asked("session")
    assert left == [20_000, 20_000 - results[0].usage.total_tokens]
    # also after the session was resumed; nothing is asked when nothing is left
    assert session.path is not None
    model = ScriptedModel(COUNT)
    small = RLM(model, sandbox="none", limits=Limits(max_tokens=session.usage.total_tokens))
    with (
        small.session(resume=session.path) as again,
        pytest.raises(ConfigurationError, match=r"The prompts of this session have used up its max_tokens \([\d,]+\)"),
    ):
        again.ask("More?")
    assert model.requests == []
    # too little for a request: what it says names the limit that was set, not what the prompt before had left
    most = session.usage.total_tokens + 1_000
    with RLM(model, sandbox="none", limits=Limits(max_tokens=most)).session(resume=session.path) as again:
        message = again.ask("More?").message or ""
    assert re.search(rf"may use [\d,]+ tokens, and [\d,]+ of {most:,} are left", message), message
    assert model.requests == []
    with pytest.raises(ConfigurationError, match="ledger is prompt or session, not 'both'"):
        RLM(model).session(ledger="both")  # type: ignore[arg-type]


def test_the_other_with_is_named() -> None:
    rlm = RLM(ScriptedModel(COUNT), sandbox="none")
    one, another = rlm.session("banana"), rlm.asession("banana")
    with pytest.raises(TypeError, match=r"for `with` there is RLM\.session"), another:
        raise AssertionError("it has begun")

    async def entered() -> None:
        async with one:
            raise AssertionError("it has begun")

    with pytest.raises(TypeError, match=r"for `async with` there is RLM\.asession"):
        asyncio.run(entered())
    assert one.closed
    assert another.closed


def test_a_kernel_that_dies_comes_back_with_contexts_and_history() -> None:
    model = ScriptedModel([*COUNT, block("FINAL([context, context_0, history_0[0]['role'], 'found' in globals()])")])
    with RLM(model, sandbox="none").session("banana") as session:
        session.ask("How many a?")
        kernel = session.kernel._session.kernel  # type: ignore[union-attr]
        os.kill(kernel._connection.process.pid, signal.SIGKILL)
        time.sleep(0.5)
        session.add_context("cherry")
        assert session.ask("And?").value == ["cherry", "banana", "user", False]


def test_exports_have_all_prompts() -> None:
    model = ScriptedModel([*COUNT, block("print('second')"), block("FINAL(found)")])
    with RLM(model, sandbox="none").session("banana", name="fruit") as session:
        first = session.ask("How many a?")
        session.add_context("cherry")
        second = session.ask("And the second?")
    whole = WholeRun.gather("fruit")
    page = to_html(whole)
    assert page.count("<h2>Prompt") == 2
    assert "And the second?" in page
    assert to_jsonl(whole).count('"type": "metadata"') == 2
    Path("sent").mkdir()
    Path("sent/fruit.ipynb").write_bytes(to_notebook(whole))
    for run_id in (first.trajectory.run_id, second.trajectory.run_id):
        files = find(run_id, Path("sent").absolute())
        assert files.shown == Path("sent/fruit.ipynb").absolute()
        assert SavedRun.load(files.notebook).records == SavedRun.load(run_id).records
    assert find(second.trajectory.run_id, "sent").load_context().buffers == (b"cherry",)
    assert second.save("alone.ipynb").exists()
    assert sum(used.requests for used in second.usage_by_model.values()) == 2
    assert removal.remove(RunFiles(Path("rlm_runs/fruit.ipynb").absolute())) == []
    assert list(Path("rlm_runs").iterdir()) == []


def test_its_notebook_is_executed_again_in_anybodys_kernel(shell: InteractiveShell) -> None:
    look = "print(found, context, context_0, [one['answer'] for one in history], len(history_0))"
    model = ScriptedModel([*COUNT, block(look), block("FINAL(found)")])
    with RLM(model, sandbox="none").session("banana", name="fruit") as session:
        session.ask("How many a?")
        session.add_context("cherry")
        second = session.ask("And the second?")
    assert printed(second) == "3 cherry banana ['3'] 4\n"
    Path("sent").mkdir()
    Path("sent/fruit.ipynb").write_bytes(to_notebook(WholeRun.gather("fruit")))
    for place in ("rlm_runs", "sent"):
        os.chdir(place)
        for cell in nbformat.read("fruit.ipynb", as_version=4).cells:
            if cell.cell_type == "code":
                text, error = run(shell, cell.source)
                assert error is None
                if cell.source == look:
                    assert text == printed(second)
        os.chdir("..")
    # a file that holds all of it can be replayed, and stays as it is
    assert RLM.replay("sent/fruit.ipynb").run_id == second.trajectory.run_id
    assert RLM.replay("sent/fruit.ipynb").differences == ()
    with pytest.raises(ConfigurationError, match=r"fruit\.ipynb is there without fruit\.rlm: it can be replayed"):
        RLM(model).session(resume="sent/fruit.ipynb")


SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Reply in French."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": [{"type": "text", "text": "Bonjour"}]},
    {"role": "user", "content": "What did I say?"},
]


def test_messages_are_a_question_and_a_context() -> None:
    model = ScriptedModel([block("FINAL([context[1]['content'], context[2]['content'], len(context)])")] * 2)
    result = RLM(model, sandbox="none").completion(SAID)
    assert result.value == ["Hello", "Bonjour", 3]
    assert result.trajectory.started.prompt == "Reply in French.\n\nWhat did I say?"
    with RLM(model, sandbox="none").session("a text") as session:
        again = session.ask(SAID)
    assert (again.value, again.trajectory.started.options["contexts"][0]["size"]) == (result.value, "6 characters")
    assert question_of(SAID[-1:]) == ("What did I say?", None)
    assert question_of([SAID[0], SAID[-1]], has_context=True) == ("Reply in French.\n\nWhat did I say?", None)
    long = [{"role": "user", "content": "x" * 10_001}]
    assert question_of(long) == (LAST_MESSAGE, long)
    # as the reference takes it: with root_prompt, all of it is the context
    held = RLM(model).estimate(SAID, root_prompt="What is this?")
    assert held.input_tokens > 0


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "The list of messages is empty"),
        (["Hello"], "Message 1 is no message: a prompt is a text, or a list"),
        ([{"content": "Hello"}], "Message 1 is no message"),
        ([{"role": "robot", "content": "Hello"}], "Message 1 has the role 'robot'; there are system, developer, user"),
        ([{"role": "user"}], "Message 1, of the user, has no content"),
        ([*SAID[:2], {"role": "assistant", "content": None}, SAID[3]], "Message 3, of the assistant, has no content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "Message 1 holds 'image_url'"),
        (SAID[:3], "The last message is the question, of the user; this one is of the assistant"),
    ],
)
def test_what_is_wrong_with_messages_is_said_in_a_line(messages: Any, why: str) -> None:
    model = ScriptedModel(COUNT)
    with pytest.raises(ConfigurationError, match=re.escape(why)) as error:
        RLM(model).completion(messages)
    assert "\n" not in str(error.value)
    with RLM(model).session("text") as session, pytest.raises(ConfigurationError, match=re.escape(why)):
        session.ask(messages)
    assert model.requests == []


def test_a_second_context_among_messages_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"would be a second context. Put it into a session: add_context"):
        RLM(ScriptedModel(COUNT)).completion(SAID, "a text")


FIRST = "%%rlm -c book -m scripted/ask.json --sandbox none --session fruit\nHow many a?"
SECOND = "%%rlm --session fruit -c more\nAnd now?"
THIRD = "%%rlm --session fruit -o third\nWhat was that?"


def ask_in(shell: InteractiveShell) -> list[tuple[str, Any]]:
    shell.user_ns |= {"book": "banana", "more": "cherry"}
    return [run(shell, cell) for cell in (FIRST, SECOND, THIRD)]


def test_cells_of_a_session_share_a_kernel_and_cost_nothing_the_second_time(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [*COUNT, block(SHOW), block("FINAL([found, len(history), history_1[-1]['role']])")]
    write_script(Path("ask.json"), replies)
    assert [error for _, error in ask_in(shell)] == [None] * 3
    assert shell.user_ns["rlm_result"].value[:3] == [3, "cherry", "banana"]
    assert shell.user_ns["third"].value == [3, 2, "assistant"]
    assert shell.user_ns["third"].path == Path("rlm_runs/fruit.ipynb").absolute()
    answers = [shell.user_ns[name].answer for name in ("rlm_result", "third")]
    # Restart & Run All
    from rlm_jupyter.frontends.magics.rlm import load
    from tests.runs.test_magics import magics

    magics(shell).close()
    shell.magics_manager.registry.pop("RLMMagics")
    load(shell)
    # all that is asked of the model from now on
    write_script(
        Path("ask.json"), [block("FINAL([found, context, len(history), context_0])"), block("FINAL(found + 1)")]
    )
    del shell.user_ns["rlm_result"], shell.user_ns["third"]
    for text, error in ask_in(shell):
        assert error is None
        assert "no model was asked, nothing was spent" in text
    assert [shell.user_ns[name].answer for name in ("rlm_result", "third")] == answers
    # a prompt that is new has the kernel as it was
    text, error = run(shell, "%%rlm --session fruit\nAnd then?")
    assert error is None
    assert "its 4 cells are executed again" in text
    assert shell.user_ns["rlm_result"].value == [3, "cherry", 3, "banana"]
    # its kernel outlives its results, and other cells
    shell.user_ns["book"] = "another"
    write_script(Path("other.json"), COUNT)
    assert run(shell, "%%rlm -m scripted/other.json -c book --sandbox none\nHow many?")[1] is None
    assert run(shell, "%%rlm --session fruit\nOnce more?")[1] is None
    assert shell.user_ns["rlm_result"].value == 4


def test_a_cell_that_is_run_again_shows_what_it_has_got(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlm_jupyter.frontends.magics import rlm as magic

    ids = iter("abab")
    monkeypatch.setattr(magic, "cell_id", lambda _: next(ids))
    write_script(Path("ask.json"), [block("n = 1", "FINAL(n)"), block("n += 1", "FINAL(n)")])
    cell = "%%rlm -m scripted/ask.json --sandbox none --session s\nGo on."
    for value, recorded in ((1, False), (2, False), (1, True), (2, True)):
        text, error = run(shell, cell)
        assert error is None
        assert shell.user_ns["rlm_result"].value == value
        assert ("nothing was spent" in text) is recorded


def test_options_that_contradict_a_session_are_refused_in_a_line(shell: InteractiveShell) -> None:
    write_script(Path("ask.json"), [*COUNT, block("FINAL(found)")])
    write_script(Path("other.json"), COUNT)
    Path("rlm_runs").mkdir()
    nbformat.write(nbformat.v4.new_notebook(), "rlm_runs/mine.ipynb")
    ask_in(shell)
    for line, why in {
        "--session fruit -m scripted/other.json": "The session 'fruit' was begun with --model scripted/ask.json: leave "
        "--model out, or begin another.",
        "--session fruit --sandbox bwrap": "was begun with --sandbox none: leave --sandbox out",
        "--session fruit --max-cost 2": "was begun without --max-cost: leave --max-cost out",
        "--session fruit --answer int": "was begun without --answer",
        "--session a/b -m scripted/other.json": "The name of a session has letters, digits, _ and -, not 'a/b'.",
        "--session '' -m scripted/other.json": "The name of a session has letters",
        "--session mine -m scripted/other.json": "mine.ipynb is not the notebook of a run, so it is not replaced",
        "--session other -m scripted/other.json --ledger all": "ledger is prompt or session, not 'all'.",
        "--ledger session -m scripted/other.json": "--ledger is about the prompts of a session: name it with --session.",
        "--session fruit -m scripted/ask.json -c nope": "There is no variable 'nope' for the context.",
    }.items():
        text, error = run(shell, f"%%rlm {line}\nWhat?")
        assert why in str(error), line
        assert "\n" not in str(error)
        assert "iteration" not in text
    shell.user_ns["rlm_result"].close()
    says = "The session 'fruit' has ended: take another name, or resume it from its record by RLM(…).session(resume='fruit')."
    assert says in str(run(shell, "%%rlm --session fruit\nMore?")[1])


def test_a_prompt_of_a_session_that_fails_says_by_which_name_it_is_resumed(shell: InteractiveShell) -> None:
    shell.user_ns["book"] = "banana"
    write_script(Path("short.json"), COUNT)
    write_script(Path("more.json"), [block("FINAL(found + 1)")])
    assert run(shell, "%%rlm -m scripted/short.json -c book --sandbox none --session fruit\nHow many?")[1] is None
    _, error = run(shell, "%%rlm --session fruit\nAnd one more?")
    assert str(error).endswith("To resume it: %rlm_resume fruit.2")
    shell.user_ns["rlm_result"].close()
    assert run(shell, "%rlm_resume fruit.2 -m scripted/more.json")[1] is None
    assert shell.user_ns["rlm_result"].value == 4


def test_a_session_whose_kernel_was_closed_for_room_is_brought_back(shell: InteractiveShell) -> None:
    write_script(Path("ask.json"), [block("n = 1", "FINAL(n)"), block("FINAL(n + 1)")])
    cell = "%%rlm -m scripted/ask.json --sandbox none --session s\n"
    assert run(shell, f"{cell}One?")[1] is None
    from tests.runs.test_magics import magics

    kernel = magics(shell)._sessions._named["s"].kernel
    kernel.given_up = "to make room: at most 2 are kept"
    kernel.close_soon(kernel.given_up).result()
    text, error = run(shell, f"{cell}Two?")
    assert error is None
    assert "executed again in a new kernel" in text
    assert shell.user_ns["rlm_result"].value == 2


def cli(*args: str) -> Done:
    return Done(start(*args))


@pytest.mark.slow
def test_the_command_line_goes_on_with_a_session(in_folder: Path) -> None:
    write_script(Path("ask.json"), [block("n = len(context)", "FINAL(n)")])
    Path("book.txt").write_text("banana")
    Path("more.txt").write_text("cherry pie")
    model = ("-m", "scripted/ask.json")
    first = cli("run", "How long?", *model, "-c", "book.txt", "--session", "notes", "--sandbox", "none")
    assert (first.code, first.out.strip()) == (0, "6")
    write_script(Path("ask.json"), [block("FINAL([n, len(context), context_0])")])
    refused = cli("run", "And now?", "--session", "notes", "-c", "more.txt")
    assert refused.code == 2
    assert "1 cell of notes would be executed again" in refused.err
    second = cli("run", "And now?", "--session", "notes", "-c", "more.txt", "--yes")
    assert (second.code, json.loads(second.out)) == (0, [6, 10, "banana"])
    assert "notes.ipynb" in second.err
    assert [path.name for path in Path("rlm_runs").glob("*.ipynb")] == ["notes.ipynb"]
    for args, why in {
        ("-m", "scripted/other.json"): "The session notes was begun with --model scripted/ask.json: leave --model out",
        ("--sandbox", "bwrap"): "was begun with --sandbox none",
        ("--no-save",): "--session resumes what is saved",
        ("--output", "q.csv"): "Only the first prompt of a session takes --output",
        ("--samples", "2"): "Only the first prompt of a session takes --samples",
        ("--require-agreement",): "Only the first prompt of a session takes --require-agreement",
        ("--strategy", "auto"): "Only the first prompt of a session takes --strategy",
        ("--read", "elsewhere"): "The session notes was begun without --read: leave --read out, or begin another.",
        ("--save", "foo.ipynb"): "leave --save out, or begin another",
        ("--schema", "s.json"): "Only the first prompt of a session takes --schema",
        ("-c", "@more.txt"): "@more.txt: there is no such file. Here a file is named without the @.",
    }.items():
        wrong = cli("run", "More?", "--session", "notes", "--yes", *args)
        assert wrong.code == 2
        assert why in wrong.err
    replayed = cli("replay", "notes", "--yes")
    assert replayed.code == 0
    for name, shown in {"notes": [True, True], "notes.1": [True, False], "notes.2": [False, True]}.items():
        said = cli("show", name).out.splitlines()
        assert [prompt in said for prompt in ("How long?", "And now?")] == shown, name
    assert "How long? (and 1 more)" in cli("list").out
    # what goes on, or was broken off, is not deleted
    journal = Path("rlm_runs/notes.rlm/prompts/2.rlm/journal.jsonl")
    whole = journal.read_bytes()
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert "Kept: 1 run that did not end" in cli("clean", "--older-than", "0", "--yes").err
    journal.write_bytes(whole)
    with Journal.open(journal.absolute()):
        assert "Kept: 1 run that did not end" in cli("clean", "--older-than", "0", "--yes").err
    # another prompt has only just begun, and has no record yet
    with Journal.open(Path("rlm_runs/notes.rlm/prompts/3.rlm/journal.jsonl").absolute()):
        busy = cli("run", "More?", "--session", "notes", "--yes")
        assert (busy.code, busy.err) == (
            2,
            "jupyter rlm: notes.3 is still going on: another process is at work on it.\n",
        )
    assert "--ledger is about the prompts of a session" in cli("run", "What?", "--ledger", "session", *model).err
    misspelt = cli("run", "How long?", "-m", "extractive", "-c", "book.txt", "--session", "ntes")
    assert "Session ntes: a new one. There is notes, too." in misspelt.err
    other = cli("run", "How long?", "-m", "extractive", "-c", "book.txt", "--session", "ledger")
    assert "Session ledger: a new one.\n" in other.err


def test_the_examples_of_the_page_run(in_folder: Path, shell: InteractiveShell) -> None:
    scripts = [
        [
            block("found = [line for line in context if 'lost' in line]", "FINAL(found)"),
            block("FINAL(len(context))"),
            block("FINAL(len(context_0))"),
        ],
        [block("FINAL(context[1]['content'])")],
        [block("n = 1", "FINAL(n)"), block("FINAL(n + 1)")],
    ]
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    names: dict[str, Any] = {"tickets": ["lost data", "slow"], "more_tickets": ["lost again"]}
    came: list[list[Any]] = []
    for number, (source, replies) in enumerate(zip(examples, scripts, strict=True)):
        write_script(Path(f"page{number}.json"), replies)
        exec(source.replace("ollama/qwen3:8b", f"scripted/page{number}.json"), names)
        came.append([names.get(name) for name in ("first", "second", "third", "answer")])
    assert [result.value for result in came[0][:3]] == [["lost data"], 1, 2]
    assert came[1][3] == "Here is my report: …"
    assert [came[2][0].value, came[2][2].value] == [1, 1]
    # the cells of a notebook, as they stand there
    cells = re.findall(r"^```text\n(%%rlm.*?)^```", PAGE, re.M | re.S)
    shell.user_ns |= {name: names[name] for name in ("tickets", "more_tickets")}
    write_script(Path("cells.json"), scripts[0])
    for cell in cells:
        source = cell.replace("anthropic/claude-sonnet-5 --max-cost 0.50", "scripted/cells.json")
        assert run(shell, source.rstrip())[1] is None
    assert shell.user_ns["rlm_result"].value == 1


def test_a_session_that_is_dropped_ends_its_kernel_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    template_pool.current().close()  # what waits for the next run may be on its way
    before = set(psutil.Process().children(recursive=True))

    def ask_and_drop() -> None:
        rlm = RLM(ScriptedModel([block("FINAL(1)")] * 2), sandbox="none", warm=False)
        assert rlm.session("banana").ask("One?").value == 1
        assert rlm.completion("One?", "banana", keep_kernel=True).value == 1
        assert set(psutil.Process().children(recursive=True)) - before

    ask_and_drop()
    gc.collect()
    until = time.monotonic() + 20
    while set(psutil.Process().children(recursive=True)) - before:
        assert time.monotonic() < until
        time.sleep(0.05)
    gc.collect()  # a task that failed says so when it goes
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.slow
def test_each_prompt_is_named_by_its_number_in_all_commands(in_folder: Path) -> None:
    """`NAME.1` is the first prompt for all of them, and never the last: other cells would be executed, and paid for."""
    replies = [block("n = 1"), block("n += 1"), block("FINAL(n)"), block("FINAL(n * 10)")]
    with RLM(ScriptedModel(replies), sandbox="none").session("banana", name="notes") as session:
        first, second = session.ask("How many?"), session.ask("And times ten?")
    names = {"notes.1": first, "rlm_runs/notes.1": first, "notes.2": second, "notes": second}
    for name, result in names.items():
        assert RLM.replay(name).run_id == result.trajectory.run_id
    assert Trajectory.load("rlm_runs/notes.ipynb").run_id == first.trajectory.run_id
    write_script(Path("other.json"), [block("FINAL(context + str(n))")])
    assert RLM.fork("notes.1", 1, model=ScriptedModel([block("FINAL(['first', n])")])).value == ["first", 1]
    forked = cli("fork", "notes.1", "--at", "2", "-m", "scripted/other.json", "--yes")
    assert (forked.code, forked.out.strip()) == (0, "banana2")
    assert "the first 2 iterations of notes.1." in forked.err
    assert "3 cells executed" in cli("replay", "notes.1", "--yes").err
    assert "4 cells of notes.2 would be executed again" in cli("replay", "notes.2").err
    assert "4 cells executed" in cli("replay", "notes.2", "--yes").err
    for named in ("notes.1", first.trajectory.run_id):
        refused = cli("resume", named, "--yes")
        assert (refused.code, len(refused.err.splitlines())) == (2, 1), refused.err
        assert "notes.1 can't be resumed: further prompts were asked in its kernel" in refused.err
    for name, prompts in {"notes.1": 1, "notes.2": 1, "notes": 2}.items():
        assert cli("export", name, "--to", "jsonl").code == 0
        assert Path(f"{name}.jsonl").read_text().count('"type": "metadata"') == prompts
        assert cli("export", name, "--to", "html").code == 0
        assert Path(f"{name}.html").read_text().count("<h2>Prompt") == prompts
        assert to_jsonl(WholeRun.gather(name)).count('"type": "metadata"') == prompts


def test_a_prompt_that_others_came_after_is_not_gone_on_from(in_folder: Path) -> None:
    model = ScriptedModel([block(f"FINAL({number})") for number in range(4)])
    with RLM(model, sandbox="none").session("a text", name="tree") as session:
        for _ in range(3):
            session.ask("What?")
    with pytest.raises(ConfigurationError, match=r"tree\.1 is prompt 1 of 3 of its session: resume='tree' goes on"):
        RLM(model, sandbox="none").session(resume="tree.1")
    with RLM(model, sandbox="none").session(resume="tree.3") as session:
        assert session.ask("What?").answer == "3"


def test_a_session_that_another_has_gone_on_with_loses_nothing(in_folder: Path) -> None:
    model = ScriptedModel([block(f"FINAL({number})") for number in range(4)])
    rlm = RLM(model, sandbox="none")
    with rlm.session("a text", name="stale") as one:
        one.ask("first")
        with rlm.session(resume="stale") as other:
            other.ask("second")
        with pytest.raises(ConfigurationError, match=r"Another session has gone on with stale \(stale\.2\)"):
            one.ask("third")
    with rlm.session(resume="stale") as again:
        assert again.ask("third").answer == "2"
        assert len(again.kernel.past.answered) == 3


@pytest.mark.parametrize("name", [3, "a b"])
def test_what_is_no_name_of_a_session_is_refused(name: Any) -> None:
    for option in ("name", "resume"):
        with pytest.raises(
            ConfigurationError, match=rf"^{option}=' ' names no session: leave it out, or give a name\.$"
        ):
            RLM(ScriptedModel([])).session(**{option: " "})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="The name of a session has letters, digits, _ and -, not"):
        RLM(ScriptedModel([])).session("a text", name=name)


def test_a_further_prompt_lays_out_none_but_the_one_before(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out: list[int] = []

    def counted(files: RunFiles) -> Layout:
        laid_out.append(files.number)
        return lay_out(files)

    lay_out = prompts_beside.laid_out
    monkeypatch.setattr(prompts_beside, "laid_out", counted)
    model = ScriptedModel([block(f"FINAL({number})") for number in range(6)])
    with RLM(model, sandbox="none").session("a text", name="many") as session:
        for _ in range(3):
            session.ask("What?")
        notebook = Path("rlm_runs/many.ipynb")
        notebook.write_text(notebook.read_text().replace("FINAL(1)", "FINAL('mine')"))
        for _ in range(3):
            session.ask("What?")
    assert laid_out == [1, 2, 3, 4, 5]
    assert "FINAL('mine')" in Path("rlm_runs/many-edited.ipynb").read_text()  # what a person changed is not lost
    assert [f"FINAL({number})" in notebook.read_text() for number in range(6)] == [True] * 6
