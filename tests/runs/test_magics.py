"""The magics: options and errors in a real shell, whole cells in a real kernel through nbclient."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from traitlets.config import Config

from rlm_jupyter.frontends.live.result import ShownResult
from rlm_jupyter.frontends.magics.context import context_of
from rlm_jupyter.frontends.magics.rlm import RLMMagics, load
from rlm_jupyter.models import discovery as nearby
from rlm_jupyter.policies import PolicyRegistry
from tests.support.kernels import OTHERS, kernels_of
from tests.support.local_servers import LocalServer
from tests.support.loopback import Loopback
from tests.support.pictures import png

LOOK = "I look.\n```repl\nprint(len(context))\n```"
ANSWER = "```repl\nreply = llm_query('who?')\nFINAL(f'**{len(context)}** {reply}')\n```"
SLEEP = "I wait.\n```repl\nanswer['content'] = 'a draft'\nimport time\ntime.sleep(60)\n```"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # what is long or slow is written to a file, so that a magic can name it
    write_script(tmp_path / "two.json", [LOOK, ANSWER, LOOK, "```repl\nFINAL('again')\n```"])
    write_script(tmp_path / "slow.json", [SLEEP])
    return tmp_path


def write_script(path: Path, replies: list[str]) -> None:
    path.write_text(json.dumps({"replies": replies, "subcalls": ["nobody"] * len(replies)}))


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    load(shell)
    yield shell
    magics(shell).close()
    InteractiveShell.clear_instance()


def magics(shell: InteractiveShell) -> RLMMagics:
    found = shell.magics_manager.registry["RLMMagics"]
    assert isinstance(found, RLMMagics)
    return found


def run(shell: InteractiveShell, source: str) -> tuple[str, Any]:
    """What a cell shows, on all channels, and its error."""
    with capture_output() as captured:
        result = shell.run_cell(source)
    shows = "".join(output.data.get("text/plain", "") for output in captured.outputs)
    return captured.stdout + captured.stderr + shows, result.error_in_exec or result.error_before_exec


def parsed(shell: InteractiveShell, line: str, cell: str | None = None) -> tuple[Any, str]:
    return magics(shell)._parse(line, cell)


@pytest.mark.parametrize(
    ("line", "prompt"),
    [
        ("What's it?", "What's it?"),
        ("-c book What's in 'it'   and  what isn't?", "What's in 'it'   and  what isn't?"),
        ("-c book --max-cost 0.5 Is -m an option? --rerun is", "Is -m an option? --rerun is"),
        ('-m "scripted/a b.json" say "hi"', 'say "hi"'),
        ("-c book -- -5 is what?", "-5 is what?"),
        ("-c=book 'quoted'", "'quoted'"),
        ('-c @"a b/*.csv" Who is @"nobody"?', 'Who is @"nobody"?'),
    ],
)
def test_a_line_prompt_comes_through_as_it_was_written(shell: InteractiveShell, line: str, prompt: str) -> None:
    assert parsed(shell, line)[1] == prompt


def test_options_before_the_prompt_are_read(shell: InteractiveShell) -> None:
    options, _ = parsed(shell, "-c a -c b,c -m 'scripted/a b.json' -o out --max-iterations 3 --rerun What?")
    assert (options.context, options.model, options.result) == (["a", "b,c"], "scripted/a b.json", "out")
    assert (options.max_iterations, options.rerun, options.background) == (3, True, False)


def test_a_cells_text_is_the_prompt_verbatim(shell: InteractiveShell) -> None:
    cell = "  {not} $filled  \n\n%rlm what?\n"
    with pytest.MonkeyPatch.context() as patch:
        seen: list[str] = []
        patch.setattr(RLMMagics, "_answer", lambda self, options, prompt: seen.append(prompt))
        run(shell, f"%%rlm -m scripted/two.json\n{cell}")
    assert seen == [cell.removesuffix("\n")]


def test_a_question_is_not_taken_for_help(shell: InteractiveShell) -> None:
    with pytest.MonkeyPatch.context() as patch:
        seen: list[str] = []
        patch.setattr(RLMMagics, "_answer", lambda self, options, prompt: seen.append(prompt))
        run(shell, "%rlm -c book What's it?")
    assert seen == ["What's it?"]


def test_only_data_of_the_users_is_a_context_and_is_suggested(shell: InteractiveShell) -> None:
    shell.push({"opener": "a text", "opens": len, "ope": str})
    shell.push({"opened": "hidden"}, interactive=False)
    for name, says in {
        "opene": "There is no variable 'opene' for the context. Did you mean opener?",
        "zzz": "There is no variable 'zzz' for the context.",
        "open": "open is a function, not data, so it can't be the context",
        "opens": "opens is a function, not data",
        "ope": "ope is a class, not data",
        "exit": "exit is a command, not data",
    }.items():
        shown, error = run(shell, f"%rlm -c {name} -m scripted/two.json What?")
        told = f"{shown}{error}"
        assert says in told
        assert "Traceback" not in told
        assert ("Did you mean" in told) is (name == "opene")
    shell.push({"open": "a text of the user's own"})
    assert context_of(shell, ["open"]) == "a text of the user's own"


def test_help_shows_options_and_an_example(shell: InteractiveShell) -> None:
    text = shell.inspector._get_info(magics(shell).rlm, "rlm")["text/plain"]  # what `%rlm?` shows
    assert "--max-subcalls INT" in text
    assert "%%rlm -c book -m" in text


def test_options_that_take_a_number_show_which_kind(shell: InteractiveShell) -> None:
    kinds = {int: {"INT"}, float: {"SECONDS", "USD", "SHARE"}}
    resume = shell.magics_manager.magics["line"]["rlm_resume"]
    numbers = [
        (action.option_strings[-1], action.metavar, kinds[action.type])
        for magic in (magics(shell).rlm, resume)
        for action in magic.parser._actions
        if action.type in kinds
    ]
    assert len(numbers) == 19
    assert [number for number in numbers if number[1] not in number[2]] == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%rlm -c bok -m scripted/two.json What?", "no variable 'bok' for the context. Did you mean book?"),
        ("%rlm -c book.title -m scripted/two.json What?", "names of variables, not 'book.title'"),
        ("%rlm -c nothing -m scripted/two.json What?", "'nothing' is None"),
        ("%rlm -c book -m scripted/two.json --answer Promis What?", "'Promis' is not defined. Did you mean Promise?"),
        ("%rlm -c book -m scripted/two.json --answer lst[int] What?", "Did you mean list?"),
        ("%rlm -c picture -m extractive What?", "the context has images alone: name a model that sees (-m)."),
        ("%rlm --max-cots 3 What?", "did you mean --max-cost?"),
        ("%rlm --max-iterations many What?", "--max-iterations many: a whole number is needed"),
        ("%rlm -m extractive --sandbox dockr What?", "--sandbox dockr: there is auto, bwrap, docker, podman and none."),
        ('%rlm -m "openai/gpt 5 What?', 'A quote is opened and not closed: "openai/gpt'),
        ("%rlm -c 'gpl -m extractive What?", "A quote is opened and not closed: 'gpl"),
        (
            "%rlm how long is it -c book",
            "-c stands behind the text, which begins with the first word that is no option",
        ),
        ("%rlm how long --max-cost=1", "--max-cost stands behind the text, "),
        ("%rlm --help", "unrecognized arguments: --help. %rlm? shows the options."),
        ("%rlm -m scripted/two.json --max-iterations 0 What?", "--max-iterations 0: it must be more than zero."),
        ("%rlm -m scripted/two.json --read gone What?", "--read: "),
        ("%rlm -m nobody/x What?", "No provider 'nobody'"),
        ("%rlm -m openai/gpt What?", "OPENAI_API_KEY"),
        ("%rlm -o a.b What?", "-o takes the name of a variable"),
        ("%rlm -o class What?", "-o takes the name of a variable, not 'class'"),
        ("%rlm -m scripted/two.json --termination nope What?", "nope"),
        ("%rlm", "What is the question?"),
        ("%%rlm -c book\n  \n", "What is the question? It stands below the line with %%rlm."),
        ("%%rlm -c book what?\nbody", "stands below the first line"),
        ("%rlm_restore no-such-run", "There is no run 'no-such-run'"),
        ("%rlm -c blank What?", "The variable 'blank' is empty: there is nothing in it to read."),
        ("%rlm -c @gone.txt --output ../made.txt What?", "'../made.txt' is a path: give the plain name of a file"),
        ("%rlm --save no/such/run.ipynb What?", "to save the run in: make it, or name another place."),
        ("%rlm --save mine.ipynb What?", "mine.ipynb is not the notebook of a run, so it is not replaced."),
        ("%rlm -m ollama/qwen What?", "ollama/qwen: no connection to http://127.0.0.1:1/v1"),
        ("%rlm -m ollama/qwen --background What?", "Start it (ollama serve), or say where it is: base_url"),
        ("%rlm_restore", "Which run?"),
        ("%rlm_key opnai", "'opnai' is no provider that takes a key: %rlm_key NAME, with one of openai, anthropic, "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    shell: InteractiveShell, line: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    Path("mine.ipynb").write_text("{}")
    shell.user_ns |= {"book": "text", "nothing": None, "blank": " \n", "Promise": dict, "picture": [png()]}
    text, error = run(shell, line)
    assert says in text
    assert len(text.strip().splitlines()) == 1
    assert error is not None  # the cell fails: Run All stops here
    assert "rlm_result" not in shell.user_ns


def test_words_of_a_question_that_look_like_options_stand_behind_two_hyphens(shell: InteractiveShell) -> None:
    for line, prompt in (
        ("-- What does -c mean?", "What does -c mean?"),
        ("What is -c, or --max-cost 3 for?", "What is -c, or --max-cost 3 for?"),
        ("What is '-c book'?", "What is '-c book'?"),
    ):
        run(shell, f"%rlm -m scripted/two.json {line}")
        assert shell.user_ns["rlm_result"].trajectory.started.prompt == prompt


def test_a_server_of_ones_own_is_looked_at_before_anything_is_shown(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer([block("FINAL('ok')")], kind="ollama", models={"coder": 8000}) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        text, error = run(shell, "%rlm -m ollama/codr What?")
        assert "serves coder, not that model. Did you mean ollama/coder?" in text
        assert len(text.strip().splitlines()) == 1
        assert error is not None
        _, error = run(shell, "%rlm -m ollama/coder What?")
        assert error is None
    text, error = run(shell, "%rlm -m ollama/coder What?")
    assert error is None, "a recorded run needs no server"
    assert shell.user_ns["rlm_result"].answer == "ok"
    with LocalServer(
        [block("FINAL('ok')")], loading=1.0
    ) as server:  # one that loads is waited for while the run is shown
        _, error = run(shell, f"%rlm -m llamacpp/coder --base-url {server.url} --rerun What?")
        assert error is None


def test_configuration_counts_below_options_and_above_the_environment(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLM_MODEL", "extractive")
    ours = magics(shell)
    options, _ = parsed(shell, "What?")
    assert ours.configured(options).settings.routing.root.name == "extractive/bm25"
    run(shell, "%config RLMMagics.model = 'scripted/two.json'")
    run(shell, "%config RLMMagics.max_iterations = 7")
    run(shell, "%config RLMMagics.save = False")
    settings = ours.configured(options).settings
    assert (settings.routing.root.name, settings.limits.max_iterations, settings.save) == (
        "scripted/two.json",
        7,
        False,
    )
    options, _ = parsed(shell, "-m scripted/slow.json --max-iterations 8 --save here What?")
    settings = ours.configured(options).settings
    assert (settings.routing.root.name, settings.limits.max_iterations, settings.save) == (
        "scripted/slow.json",
        8,
        "here",
    )


def test_in_a_terminal_iterations_are_lines_and_the_banner_comes_once(shell: InteractiveShell) -> None:
    shell.user_ns["book"] = "The sky is blue. Grass is green."
    text, error = run(shell, "%rlm -c book What colour is the sky?")
    assert error is None
    assert "it is no language model" in text
    assert [line[:11] for line in text.splitlines() if line.startswith("iteration")] == [
        "iteration 1",
        "iteration 2",
        "iteration 3",
    ]
    assert "The sky is blue." in text
    assert "no language model. Name one" not in run(shell, "%rlm -c book What colour is grass?")[0]


def test_several_contexts_become_a_dict_and_the_result_is_in_its_variable(shell: InteractiveShell) -> None:
    shell.user_ns |= {"a": "xx", "b": [1]}
    write_script(Path("keys.json"), ["```repl\nFINAL(str(sorted(context)) + context['a'])\n```"])
    run(shell, "%%rlm -c a,b -m scripted/keys.json -o found\nWhich?")
    assert shell.user_ns["found"].answer == "['a', 'b']xx"


def test_without_a_context_the_prompt_says_so(shell: InteractiveShell) -> None:
    write_script(Path("none.json"), ["```repl\nFINAL(repr(context))\n```"] * 2)
    run(shell, "%%rlm -m scripted/none.json\nWhat is there?")
    result = shell.user_ns["rlm_result"]
    assert result.answer == "''"
    assert result.trajectory.started.context.type_name == "none"


def test_the_same_again_is_shown_from_the_record_and_asks_nothing(shell: InteractiveShell) -> None:
    shell.user_ns["book"] = "some text"
    cell = "%%rlm -c book -m scripted/two.json\nWhat?"
    run(shell, cell)
    first = shell.user_ns["rlm_result"]
    kernels = children()
    text, _ = run(shell, cell)
    again = shell.user_ns["rlm_result"]
    assert "recorded run of 20" in text
    assert "--rerun runs it again" in text
    assert (again.answer, again.path) == (first.answer, first.path) == ("**9** nobody", first.path)
    assert children() == kernels - 1  # that of the result it replaces is closed, and none is started
    assert len(list(Path("rlm_runs").glob("*.ipynb"))) == 1
    assert (
        "recorded run of 20" in run(shell, f"{cell.replace(chr(10), chr(10) * 2, 1)} \n\n")[0]
    )  # as an editor leaves it
    assert "recorded" not in run(shell, cell.replace("\n", " --rerun\n"))[0]
    shell.user_ns["book"] = "another text"
    assert "recorded" not in run(shell, cell)[0]


def test_a_further_prompt_finds_the_kernel_as_it_was_left(shell: InteractiveShell) -> None:
    write_script(
        Path("ask.json"),
        [LOOK, "```repl\nkept = 'kept'\nFINAL('one')\n```", "```repl\nFINAL(kept + history[0]['answer'])\n```"],
    )
    shell.user_ns["book"] = "some text"
    run(shell, "%%rlm -c book -m scripted/ask.json\nWhat?")
    text, error = run(shell, "again = rlm_result.ask('And?')")
    assert error is None
    assert "iteration 1" in text  # it shows how it goes
    assert shell.user_ns["again"].answer == "keptone"
    assert isinstance(shell.user_ns["again"], ShownResult)
    shell.user_ns["again"].close()
    text, error = run(shell, "rlm_result.ask('And?')")
    assert len(text.strip().splitlines()) == 1
    assert "closed" in text


def test_who_wants_to_approve_is_not_shown_a_record(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    run(shell, "%%rlm -m scripted/two.json\nWhat?")
    text, error = run(shell, "%%rlm -m scripted/two.json --approve\nWhat?")
    assert error is None
    assert "recorded run" not in text
    assert len(asked) == len(shell.user_ns["rlm_result"].trajectory.iterations) == 2


NOTES = """```repl
import pathlib
with open('notes.txt', 'a') as notes: notes.write('x')
kept = len(pathlib.Path('notes.txt').read_text())
print(kept)
{last}
```"""


def test_recorded_follow_ups_are_answered_from_the_record_and_a_new_one_in_a_kernel_like_that_of_then(
    shell: InteractiveShell,
) -> None:
    ends = [NOTES.format(last="name = 'one'\nFINAL(name)"), "```repl\nkept += 10\nFINAL('two')\n```"]
    ends += ["```repl\nFINAL(repr((kept, context, [one['answer'] for one in history])))\n```"]
    write_script(Path("ask.json"), ends)
    shell.user_ns["book"] = "some text"
    cell = "%%rlm -c book -m scripted/ask.json --sandbox none\nWhat?"
    run(shell, cell)
    run(shell, "second = rlm_result.ask('And?')")
    asked = shell.user_ns["second"].path
    assert Path("notes.txt").read_text() == "x"

    before = children()
    write_script(Path("ask.json"), ends[2:])  # all that is asked of the model from now on
    assert "recorded run" in run(shell, cell)[0]
    kernels = children()
    assert kernels == before - 1
    text, error = run(shell, "again = rlm_result.ask('And?')")
    assert error is None
    assert "The recorded run of 20" in text
    assert (shell.user_ns["again"].answer, shell.user_ns["again"].path) == ("two", asked)
    assert children() == kernels
    assert Path("notes.txt").read_text() == "x"

    text, error = run(shell, "third = again.ask('All?')")
    assert error is None
    assert "its 2 cells are executed again in a new kernel" in text
    assert children() == kernels + 1
    assert Path("notes.txt").read_text() == "xx"
    third = shell.user_ns["third"]
    assert third.answer == repr((12, "some text", ["one", "two"]))
    after = [one["run_id"] for one in third.trajectory.started.options["after"]]
    assert "Some gave other outputs than recorded" in third.trajectory.started.opening
    assert "-1\n+2\n" in third.trajectory.started.opening
    assert after == [shell.user_ns["rlm_result"].trajectory.run_id, shell.user_ns["again"].trajectory.run_id]


def failing_script(path: str, *replies: str, subcalls: tuple[str, ...] = ()) -> str:
    """A model that gives these replies, and fails at the next request."""
    Path(path).write_text(json.dumps({"replies": list(replies), "subcalls": list(subcalls)}))
    return f"scripted/{path}"


@pytest.mark.parametrize(
    ("name", "first", "usage"),
    [
        ("rlm", "Answer a question about a text", "%%rlm [options]\n  the question"),
        ("rlm_resume", "Resume a saved run", "%rlm_resume [options] [RUN]"),
    ],
)
def test_the_help_of_a_magic_says_what_it_does_and_how_it_is_written(
    shell: InteractiveShell, name: str, first: str, usage: str
) -> None:
    kind = "cell" if usage.startswith("%%") else "line"
    text = shell.find_magic(name, kind).__doc__ or ""
    assert text.startswith(first)
    assert f"\nUsage:\n\n  {usage}" in text
    assert text.index(usage) < text.index("options:") < text.index("--max-cost USD")
    assert "::" not in text


def test_the_result_of_a_run_that_fails_on_its_way_takes_the_variable(shell: InteractiveShell) -> None:
    before = children()
    run(shell, "%%rlm -m scripted/two.json\nWhat?")
    first = shell.user_ns["rlm_result"]
    text, error = run(shell, f"%%rlm -m {failing_script('short.json', LOOK)}\nWhat?")
    result = shell.user_ns["rlm_result"]
    assert result is not first
    assert isinstance(result, ShownResult)
    assert (result.answer, result.stop_reason, len(result.trajectory.iterations)) == (None, "failed", 1)
    assert children() == before
    [line] = [line for line in text.splitlines() if "no replies are left" in line]
    assert error is not None
    assert result.path is not None
    # the headline says where it is; the command is a line of its own, which is not broken within the name
    assert "saved in" not in text
    assert str(result.path.parent) not in line
    assert f"To resume it: %rlm_resume {result.path.stem}" in text.splitlines()
    # what executes notebooks has nothing but the error
    assert f"The run so far is saved in {result.path}." in str(error)
    text, error = run(shell, f"%rlm_resume {result.path.stem} -m {failing_script('on.json', block('FINAL(40 + 2)'))}")
    assert error is None
    assert shell.user_ns["rlm_result"].answer == "42"
    assert shell.user_ns["rlm_result"].path == result.path


def block(source: str) -> str:
    return f"```repl\n{source}\n```"


NOT_BEGUN = {
    "a context that is not there": "%%rlm -c boook -m scripted/two.json\nWhat?",
    "an option that is not there": "%%rlm --max-cots 3\nWhat?",
    "a wrong value": "%%rlm -m scripted/two.json --max-iterations 0\nWhat?",
    "a model that is not there": "%%rlm -m nobody/x\nWhat?",
    "no key": "%%rlm -m openai/gpt\nWhat?",
    "no prompt": "%%rlm -m scripted/two.json\n   ",
    "a place that can't be written": "%%rlm -m scripted/two.json --save two.json/x --rerun\nWhat?",
    "a provider that fails at once": "%%rlm -m scripted/none.json\nWhat?",
    "a limit that lets nothing through": "%%rlm -m scripted/two.json --max-tokens 10\nWhat?",
    "approval without a person": "%%rlm -m scripted/two.json --approve --background\nWhat?",
    "a run that is not there": "%rlm_resume no-such-run",
    "a resumed run that has its answer": "%rlm_resume",
}


@pytest.mark.parametrize("cell", NOT_BEGUN.values(), ids=NOT_BEGUN)
def test_a_run_that_does_not_begin_costs_no_kernel(shell: InteractiveShell, cell: str) -> None:
    failing_script("none.json")
    shell.user_ns["book"] = "some text"
    write_script(Path("first.json"), [block("kept = 7\nFINAL(kept)"), block("FINAL(kept + 1)")])
    run(shell, "%%rlm -c book -m scripted/first.json\nWhat?")
    result, kernels = shell.user_ns["rlm_result"], children()
    run(shell, cell)
    assert shell.user_ns["rlm_result"] is result
    assert children() == kernels
    text, error = run(shell, "again = rlm_result.ask('And?')")
    assert error is None, text
    assert shell.user_ns["again"].answer == "8"


def test_a_run_in_the_background_that_does_not_begin_gives_the_variable_back(shell: InteractiveShell) -> None:
    failing_script("none.json")
    run(shell, "%%rlm -m scripted/two.json\nWhat?")
    result, kernels = shell.user_ns["rlm_result"], children()
    run(shell, "%%rlm --background -m scripted/none.json\nWhat?")
    deadline = time.monotonic() + 60
    while shell.user_ns["rlm_result"] is not result and time.monotonic() < deadline:
        time.sleep(0.05)
    assert shell.user_ns["rlm_result"] is result
    while children() > kernels and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children() == kernels
    assert run(shell, "rlm_result.ask('And?')")[1] is None


def test_a_run_takes_the_variable_with_its_first_reply(shell: InteractiveShell) -> None:
    waits = (
        "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\nFINAL('x')"
    )
    failing_script("wait.json", block(waits))
    before = children()
    run(shell, "%%rlm -m scripted/two.json\nWhat?")
    first = shell.user_ns["rlm_result"]
    run(shell, "%%rlm --background -m scripted/wait.json\nWhat?")
    deadline = time.monotonic() + 60
    while not (Path("begun").exists() and children() == before + 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children() == before + 1  # that of the first is closed while the second runs
    assert first._kept.why_closed == "another run took rlm_result"
    Path("go").touch()
    assert shell.user_ns["rlm_result"].result(60).answer == "x"


def test_the_newest_run_is_resumed_where_none_is_named(shell: InteractiveShell) -> None:
    run(shell, f"%%rlm -m {failing_script('short.json', LOOK)}\nWhat?")
    newest = shell.user_ns["rlm_result"].path.stem
    text, error = run(shell, f"%rlm_resume -m {failing_script('on.json', block('FINAL(42)'))}")
    assert error is None
    assert text.splitlines()[0] == f"The newest run: {newest}"
    assert shell.user_ns["rlm_result"].answer == "42"
    run(shell, "%config RLMMagics.save = 'elsewhere/'")
    assert "There are no runs in elsewhere" in run(shell, "%rlm_resume")[0]


def test_a_run_is_resumed_at_the_address_that_is_configured(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with Loopback([block("print(len(context))"), block("FINAL('here')")]) as server:
        run(shell, f"%rlm --base-url {server.openai_url} -m openai/any --max-iterations 1 What?")
        newest = shell.user_ns["rlm_result"].path.stem
        shown, _ = run(shell, f"%rlm_resume {newest} --max-iterations 3")
        assert f"openai/any was asked at {server.openai_url}: give that address again" in shown
        run(shell, f"%config RLMMagics.base_url = {server.openai_url!r}")
        run(shell, "%config RLMMagics.model = 'vllm/any'")  # it is that provider's
        assert "give that address again" in run(shell, f"%rlm_resume {newest} --max-iterations 3")[0]
        run(shell, "%config RLMMagics.model = 'openai/other'")
        _, error = run(shell, f"%rlm_resume {newest} --max-iterations 3")
        assert error is None
    assert shell.user_ns["rlm_result"].answer == "here"


def test_a_variable_of_the_readers_own_is_not_unset(shell: InteractiveShell) -> None:
    shell.user_ns["mine"] = 5
    run(shell, "%%rlm -m nobody/x -o mine\nWhat?")
    assert shell.user_ns["mine"] == 5
    run(shell, "%%rlm -m scripted/two.json -o mine\nWhat?\n")
    shell.user_ns["mine"] = 6
    run(shell, "%%rlm -m nobody/x -o mine\nWhat?")
    assert shell.user_ns["mine"] == 6


def test_a_key_goes_into_the_environment_and_is_not_shown(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt: " secret ")
    monkeypatch.setenv("OPENAI_API_KEY", "before")
    text, error = run(shell, "%rlm_key openai")
    assert error is None
    assert os.environ["OPENAI_API_KEY"] == "secret"
    assert "secret" not in text
    monkeypatch.setattr("getpass.getpass", lambda prompt: "")
    assert "OPENAI_API_KEY is as it was" in run(shell, "%rlm_key openai")[0]
    assert os.environ["OPENAI_API_KEY"] == "secret"
    assert "Name the provider" in run(shell, "%rlm_key")[0]


def test_a_result_shows_itself_without_html_of_the_models(shell: InteractiveShell) -> None:
    write_script(Path("evil.json"), [LOOK, "```repl\nFINAL('<script>x</script> **b**')\n```"])
    run(shell, "%%rlm -m scripted/evil.json\nWhat?")
    assert shell.display_formatter is not None
    formats, _ = shell.display_formatter.format(shell.user_ns["rlm_result"])
    assert set(formats) == {"text/plain", "text/html"}
    assert "<script>" not in formats["text/html"]
    assert "<strong>b</strong>" in formats["text/html"]
    assert 'href="rlm_runs/' in formats["text/html"]
    assert re.search(r"\n\n2 iterations · [\d,]+ tokens · [\d.]+ s · rlm_runs/", formats["text/plain"])


def test_loading_twice_is_loading_once(shell: InteractiveShell) -> None:
    before = len(shell.input_transformers_cleanup), len(shell.configurables)
    load(shell)
    assert (len(shell.input_transformers_cleanup), len(shell.configurables)) == before


@pytest.mark.slow
def test_a_kernel_that_is_not_used_for_long_is_closed_and_says_so(shell: InteractiveShell) -> None:
    write_script(Path("idle.json"), [LOOK, "```repl\nFINAL('one')\n```"] + ["```repl\nFINAL('more')\n```"] * 2)
    run(shell, "%%rlm -m scripted/idle.json\nWhat?")
    before = children()
    run(shell, "%config RLMMagics.kernel_idle_seconds = 3")  # also for those that are kept already
    time.sleep(1.7)
    assert run(shell, "rlm_result.ask('And?')")[1] is None
    time.sleep(1.5)
    assert children()  # it was used since
    deadline = time.monotonic() + 40
    while children() >= before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children() < before
    text, error = run(shell, "rlm_result.ask('And?')")
    assert error is not None
    assert "The kernel of this run is closed (after 3 s without use): run the cell again, then ask" in text
    assert len(text.strip().splitlines()) == 1
    assert shell.user_ns["rlm_result"].answer == "one"


def test_only_so_many_kernels_are_kept(shell: InteractiveShell) -> None:
    write_script(Path("few.json"), ["```repl\nFINAL('x')\n```"] * 9)
    before = children()
    run(shell, "%config RLMMagics.max_kept_kernels = 2")
    for name in ("a", "b"):
        assert "was closed" not in run(shell, f"%rlm -m scripted/few.json --rerun -o {name} What?")[0]
    assert run(shell, "a.ask('And?')")[1] is None
    text, error = run(shell, "%rlm -m scripted/few.json --rerun -o c What?")
    assert error is None
    [line] = [line for line in text.splitlines() if "was closed" in line]
    assert line.startswith("The kernel of b, unused for 0 min, was closed to make room: at most 2 are kept")
    assert children() == before + 2
    assert "closed (to make room: at most 2 are kept)" in run(shell, "b.ask('And?')")[0]
    assert shell.user_ns["b"].answer == "x"
    assert run(shell, "a.ask('And?')")[1] is None
    # one that works is not closed, and gives way once it is done
    waits = "while not os.path.exists('go'):\n    time.sleep(0.05)\nFINAL('waited')"
    write_script(Path("wait.json"), [f"```repl\nimport os, time\nopen(f'begun-{{time.time_ns()}}', 'w')\n{waits}\n```"])
    handles = []
    for name in ("a", "c"):
        run(shell, f"%rlm -m scripted/wait.json --rerun --background -o {name} What?")
        handles.append(shell.user_ns[name])
    deadline = time.monotonic() + 40
    while len([*Path().glob("begun-*")]) < 2:  # up to then the kernels of before are kept, and would be closed
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "was closed" not in run(shell, "%rlm -m scripted/few.json --rerun -o d What?")[0]
    Path("go").touch()
    assert [handle.result(60).answer for handle in handles] == ["waited"] * 2
    deadline = time.monotonic() + 40
    while children() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children() == before + 2


def children() -> int:
    """The kernels of this process."""
    return len(kernels_of())


# Whole notebooks, in a kernel as people have it.


def execute(*sources: str, **options: Any) -> list[Any]:
    """The cells of a notebook that loads the magics and executes these."""
    sources = ("%load_ext rlm_jupyter\nbook = 'some text'", *sources)
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client(document, **options).execute()
    nbformat.validate(document)
    return list(document.cells[1:])


def client(document: Any, **options: Any) -> NotebookClient:
    return NotebookClient(document, timeout=60, allow_errors=True, extra_arguments=["--log-level=ERROR"], **options)


def text_of(cell: Any) -> str:
    pieces = []
    for output in cell.outputs:
        pieces += [output.get("text", ""), "\n".join(output.get("traceback", []))]
        pieces += [str(value) for mime, value in output.get("data", {}).items() if mime != "text/plain"]
    return "\n".join(pieces)


def test_a_notebook_file_has_the_last_state_and_the_variable_is_set() -> None:
    asked, after, recorded, again = execute(
        "%%rlm -c book -m scripted/two.json\nWhat?",
        "rlm_result.answer, rlm_result.stop_reason",
        "%%rlm -c book -m scripted/two.json\nWhat?",
        "%%rlm -c book -m scripted/two.json --rerun\nWhat?",
    )
    status, trajectory, answer = asked.outputs
    assert "Answered" in status["data"]["text/html"]
    assert "2 iterations" in status["data"]["text/html"]
    assert 'href="rlm_runs/' in status["data"]["text/html"]
    assert "Iteration 2" in trajectory["data"]["text/html"]
    assert answer["data"] == {"text/html": "<p><strong>9</strong> nobody</p>\n", "text/plain": "**9** nobody"}
    assert after.outputs[0]["data"]["text/plain"] == "('**9** nobody', 'answered')"
    assert "The recorded run of" in text_of(recorded)
    assert "The recorded run of" not in text_of(again)


@pytest.mark.slow
def test_progress_is_seen_while_the_cell_runs() -> None:
    updates: list[str] = []

    class Watching(NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] == "update_display_data":
                updates.append(msg["content"]["data"]["text/html"])
            return super().process_message(msg, cell, cell_index)

    write_script(
        Path("watch.json"), [LOOK, "```repl\nimport time\nprint('half way')\ntime.sleep(1.5)\nFINAL('x' * 1)\n```"]
    )
    source = "%load_ext rlm_jupyter\n%rlm -m scripted/watch.json What is it"
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    Watching(document, timeout=60).execute()
    assert any("half way" in update and "running a cell" in update for update in updates)
    assert any("Iteration 1" in update and "Iteration 2" not in update for update in updates)
    assert "Answered" in document.cells[0].outputs[0]["data"]["text/html"]


async def interrupted(*, times: int, first: str = "") -> tuple[list[Any], float, int]:
    """A notebook whose second cell is interrupted while the model's code sleeps; a third looks at what is left."""
    sources = [
        f"%load_ext rlm_jupyter\nimport psutil\n{first}",
        "%%rlm -m scripted/slow.json\nWhat?",
        "import time\nfor _ in range(100):\n    if not hasattr(rlm_result, 'done') or rlm_result.done: break\n    time.sleep(.1)\n"
        "time.sleep(1)\nprint(rlm_result.answer, rlm_result.stop_reason)",
        "[p.pid for p in psutil.Process().children(recursive=True) if 'rlm_jupyter.kernel.guest' in p.cmdline()"
        f" and p.name() not in {OTHERS}]",
    ]
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    executing = client(document)
    seconds = 0.0
    async with executing.async_setup_kernel():
        await executing.async_execute_cell(document.cells[0], 0)
        cell = asyncio.create_task(executing.async_execute_cell(document.cells[1], 1))
        for _ in range(200):
            await asyncio.sleep(0.1)
            if "running a cell" in text_of(document.cells[1]):
                break
        await asyncio.sleep(0.5)  # it sleeps now
        began = time.monotonic()
        for _ in range(times):
            await cast(Any, executing).km.interrupt_kernel()
            await asyncio.sleep(0.15)
        await cell
        seconds = time.monotonic() - began
        for index in (2, 3):
            await executing.async_execute_cell(document.cells[index], index)
    nbformat.validate(document)
    return list(document.cells[1:]), seconds, len(json.loads(document.cells[3].outputs[0]["data"]["text/plain"]))


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
async def test_an_interrupt_stops_run_and_kernel_and_keeps_what_there_was(times: int) -> None:
    (asked, after, _), seconds, kernels = await interrupted(times=times)
    assert seconds < 30
    shown = text_of(asked)
    # the second interrupt ends the cell while the run is being stopped, and nbclient passes over what comes later
    assert "Stopped" in shown or (
        times == 2 and ("is being stopped in the background" in shown or "rlm_result " in shown)
    )
    assert "To resume it: %rlm_resume " in shown or times == 2
    # what is left may be the view in which the model's own cell has just been interrupted
    assert "Traceback" not in shown or (times == 2 and "time.sleep(60)" in shown)
    assert "rlm_jupyter/" not in shown  # no frame of ours
    [error] = [output for output in asked.outputs if output.output_type == "error"]
    assert error.ename == "KeyboardInterrupt"
    assert len(error.traceback) == 1
    assert after.outputs[0].text == "a draft cancelled\n"
    assert kernels == 0


ANOTHER_WHEN_OVER = """import os, signal
kernel = get_ipython().kernel
execute = kernel.do_execute
async def and_one_more(*args, **options):
    reply = await execute(*args, **options)
    if reply["status"] == "error":
        os.kill(os.getpid(), signal.SIGINT)
    return reply
kernel.do_execute = and_one_more"""


@pytest.mark.slow
async def test_an_interrupt_after_the_last_one_does_not_take_the_reply_away() -> None:
    (asked, after, _), seconds, _ = await interrupted(times=1, first=ANOTHER_WHEN_OVER)
    assert seconds < 30
    assert "Stopped" in text_of(asked)
    assert after.outputs[0].text == "a draft cancelled\n"


@pytest.mark.slow
def test_who_catches_the_interrupt_and_goes_on_can_be_interrupted_again() -> None:
    go_on = """import os, signal, threading, time
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(2, interrupt).start()
began = time.monotonic()
try:
    get_ipython().run_line_magic("rlm", "-m scripted/slow.json What?")
except KeyboardInterrupt:
    caught = time.monotonic() - began
    interrupt()
    threading.Timer(1.5, interrupt).start()
time.sleep(30)"""
    cell, took = execute(go_on, "caught > 1, 1.4 < time.monotonic() - began - caught < 20")
    assert [output.ename for output in cell.outputs if output.output_type == "error"] == ["KeyboardInterrupt"]
    assert took.outputs[0]["data"]["text/plain"] == "(True, True)"


@pytest.mark.slow
def test_in_the_background_a_cell_returns_at_once_and_shows_itself_until_it_is_done() -> None:
    write_script(Path("later.json"), ["```repl\nimport time\ntime.sleep(1)\nFINAL('**later**')\n```"] * 2)
    asked, at_once, later, stopped = execute(
        "%%rlm --background -m scripted/later.json\nWhat?",
        "at_once = type(rlm_result).__name__, rlm_result.done\ntry: rlm_result.answer\nexcept AttributeError as none: print(none)\nat_once",
        "import time\nwaited = rlm_result.result(30).answer\ntime.sleep(.5)\nwaited, rlm_result.answer, type(rlm_result).__name__",
        "%rlm --background -m scripted/slow.json -o slow What?\nimport time\ntime.sleep(1)\nslow.stop()\nslow.result(30).stop_reason",
    )
    said, value = at_once.outputs
    assert said["text"] == "a run has no answer before it is over: rlm_result.result().answer waits for it\n"
    assert value["data"]["text/plain"] == "('BackgroundRun', False)"
    assert later.outputs[0]["data"]["text/plain"] == "('**later**', '**later**', 'ShownResult')"
    assert "<strong>later</strong>" in text_of(asked)
    assert "Answered" in text_of(asked)
    assert stopped.outputs[-1]["data"]["text/plain"] == "'cancelled'"


@pytest.mark.slow
def test_a_run_whose_variable_another_one_takes_says_so() -> None:
    replaced, *_ = execute(
        "%rlm --background -m scripted/slow.json What?",
        "import time\ntime.sleep(1)",
        "%rlm -m scripted/two.json --rerun Tell me.\ntime.sleep(1)",
    )
    assert "Stopped: another run took rlm_result" in text_of(replaced)


def test_nbconvert_executes_and_exports_it() -> None:
    from nbconvert import HTMLExporter
    from nbconvert.preprocessors import ExecutePreprocessor

    source = "%load_ext rlm_jupyter\n%rlm -m scripted/two.json Tell me."
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    ExecutePreprocessor(timeout=60).preprocess(document, {})
    page, _ = HTMLExporter().from_notebook_node(document)
    assert "<strong>0</strong> nobody" in page
    assert "Steps" in page


def test_without_stdin_a_key_is_refused_in_one_line() -> None:
    (cell,) = execute("%rlm_key anthropic")
    assert text_of(cell).strip() == (
        "UsageError: Nobody can be asked here: set ANTHROPIC_API_KEY in the environment instead."
    )


def test_kernels_and_their_files_go_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp" if Path("/tmp").is_dir() else None) as folder:  # sockets want it short
        monkeypatch.setenv("TMPDIR", folder)
        before = children()
        (seen, *_) = execute(
            "%rlm -m scripted/two.json What?\nimport os\nimport glob\nglob.glob(os.environ['TMPDIR'] + '/*/*')"
        )
        assert ".owner" in seen.outputs[-1]["data"]["text/plain"]
        deadline = time.monotonic() + 40
        while (children() > before or list(Path(folder).glob("*/*"))) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert children() == before
        assert not list(Path(folder).glob("*/*"))


SAME_TWICE = """
from rlm_jupyter.policies import PolicyRegistry, TerminationPolicy

class SameTwice(TerminationPolicy):
    def reset(self):
        self.last = None
    def should_terminate(self, result, context):
        again, self.last = result.output == self.last, result.output
        return again, result.output

same_twice = SameTwice()
def rating(action, result, context):
    return 0.25
"""


@pytest.mark.parametrize("registered", [True, False], ids=["by its name", "in a variable"])
def test_a_policy_of_the_users_own_ends_a_run(
    shell: InteractiveShell, in_folder: Path, registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is registered here is no other test's
    monkeypatch.setattr(
        PolicyRegistry, "_policies", {kind: dict(known) for kind, known in PolicyRegistry._policies.items()}
    )
    write_script(in_folder / "same.json", [f"```repl\nx = {n}\nprint('the same')\n```" for n in range(4)])
    name = "same_twice_registered" if registered else "same_twice"
    register = f"\nPolicyRegistry.register_termination({name!r})(SameTwice)" if registered else ""
    assert run(shell, SAME_TWICE + register)[1] is None
    _, error = run(shell, f"%rlm -m scripted/same.json --termination {name} --reward rating What?")
    assert error is None
    result = shell.user_ns["rlm_result"]
    assert (result.answer, result.stop_reason) == ("the same", "terminated")
    rated = [iteration.rated for iteration in result.trajectory.iterations]
    assert [record.reward for record in rated if record] == [0.25, 0.25]


@pytest.mark.parametrize(("typed", "answer"), [(["y", "y"], "x"), (["no thanks", "a"], "refused")])
def test_each_cell_is_asked_about(
    shell: InteractiveShell, in_folder: Path, monkeypatch: pytest.MonkeyPatch, typed: list[str], answer: str
) -> None:
    replies = ["```repl\nx = 'x'\n```", "```repl\nFINAL(globals().get('x', 'refused'))\n```"]
    write_script(in_folder / "asked.json", replies)
    asked: list[str] = []

    def answers(text: str) -> str:
        asked.append(text)
        return typed[len(asked) - 1]

    monkeypatch.setattr("builtins.input", answers)
    shows, error = run(shell, "%rlm -m scripted/asked.json --approve What?")
    assert error is None
    assert shell.user_ns["rlm_result"].answer == answer
    assert len(asked) == 2
    assert "Cell 1 of iteration 1 waits:\n\nx = 'x'" in shows


def test_approval_in_the_background_is_refused_before_anything_starts(shell: InteractiveShell) -> None:
    shows, _ = run(shell, "%rlm -m scripted/two.json --approve --background What?")
    assert "the run can't go on in the background" in shows


def test_options_and_models_are_completed(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(line: str) -> list[str]:
        with provisionalcompleter():
            found = list(shell.Completer.completions(line, len(line)))
        return sorted((line[: completion.start] + completion.text).split()[-1] for completion in found)

    with LocalServer(kind="ollama", models={"qwen3:8b": 4096, "qwen3:4b": 4096, "nomic": 1}) as server:
        monkeypatch.setenv("RLM_FIND_SERVERS", "1")
        monkeypatch.setattr(nearby, "LOOK_SECONDS", 10.0)
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        monkeypatch.setattr(nearby, "_known", (float("-inf"), []))
        assert completed("%%rlm -c book -m oll") == ["ollama/"]
        assert completed("%rlm --sub-model ollama/q") == ["ollama/qwen3:4b", "ollama/qwen3:8b"]
        assert completed("%%rlm -m ollama/qwen3:") == ["ollama/qwen3:4b", "ollama/qwen3:8b"]
        assert completed("%%rlm --base") == ["--base-url"]
    monkeypatch.setattr(nearby, "_known", (float("-inf"), []))


def test_no_model_is_guessed_where_a_server_runs_but_it_is_offered(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer() as server:
        monkeypatch.setenv("RLM_FIND_SERVERS", "1")
        monkeypatch.setattr(nearby, "LOOK_SECONDS", 10.0)
        monkeypatch.setenv("LLAMACPP_BASE_URL", server.url)
        monkeypatch.setattr(nearby, "_known", (float("-inf"), []))
        assert magics(shell).configuration(parsed(shell, "Who?")[0])[0] == "extractive"
        options = parsed(shell, "-m llamacpp/coder --base-url 127.0.0.1:1 --window 3000 Who?")[0]
        model, configured = magics(shell).configuration(options)
        assert (model, configured["base_url"], configured["window"]) == ("llamacpp/coder", "127.0.0.1:1", 3000)
        with capture_output() as captured:
            magics(shell)._banner_shown = False
            magics(shell).say_if_embedded(options)
            assert not captured.outputs
            magics(shell).say_if_embedded(parsed(shell, "Who?")[0])
        place = server.url.removeprefix("http://")
        assert f"llama.cpp at {place} serves coder: -m llamacpp/coder." in captured.outputs[0].data["text/plain"]
        assert server.requests == []
    monkeypatch.setattr(nearby, "_known", (float("-inf"), []))


def test_a_run_that_a_limit_ends_says_how_to_resume_it(shell: InteractiveShell) -> None:
    text, error = run(shell, "%%rlm -m scripted/two.json --max-iterations 1\nWhat?")
    assert error is None
    assert "To resume it: %rlm_resume " in text
    assert "--max-iterations 2" in text
    name = text.partition("%rlm_resume ")[2].split()[0]
    text, error = run(shell, f"%rlm_resume {name} --max-iterations 3")
    assert error is None
    assert "To resume it" not in text
