"""The command line as people use it: real processes, real kernels, real signals, a real terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from rlm_jupyter.frontends.cli import progress, terminal
from rlm_jupyter.frontends.cli.commands import COMMANDS
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.values import Usage
from tests.support.loopback import Fault, Loopback
from tests.support.pictures import png
from tests.support.sample_run import ended, sample, started

FINAL = "I count.\n\n```repl\n# count the letters\nFINAL(len(context))\n```"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "JPY_PARENT_PID", "COLUMNS", "PYTHONIOENCODING", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def script(*replies: str, name: str = "s.json", **more: Any) -> str:
    Path(name).write_text(json.dumps({"replies": replies, **more}))
    return f"scripted/{name}"


def start(*args: str, **options: Any) -> subprocess.Popen[bytes]:
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    # without it a child gets what readline has put into the environment behind Python's back: LINES, COLUMNS
    options["env"] = dict(os.environ)
    return cast(
        "subprocess.Popen[bytes]",
        subprocess.Popen([sys.executable, "-m", "rlm_jupyter.frontends.cli.main", *args], **options),
    )


class Done:
    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes | None = None) -> None:
        out, err = process.communicate(stdin, timeout=60)
        self.out, self.err, self.code = (out or b"").decode(), (err or b"").decode(), process.returncode
        assert "Traceback" not in self.err, self.err


def cli(*args: str, stdin: bytes | None = None, **options: Any) -> Done:
    return Done(start(*args, **({"stdin": subprocess.PIPE} if stdin is not None else {}), **options), stdin)


def kernels(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The kernels that a command has started; waits for one whose cell runs."""
    for _ in range(400):
        started = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "rlm-supervisor"]
        if started and Path("running").exists():
            return started
        time.sleep(0.05)
    raise AssertionError("no kernel came up")


def drained(pipe: int) -> None:
    """Wait until the other process has read all that is in a pipe: from then on it waits for more."""
    from fcntl import ioctl
    from termios import FIONREAD

    deadline = time.monotonic() + 60
    while any(ioctl(pipe, FIONREAD, bytes(4))):
        assert time.monotonic() < deadline, "the command does not read its standard input"
        time.sleep(0.01)


def gone(started: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(started, timeout=20)[1]


# --- run ------------------------------------------------------------------------------------------------------


def test_the_answer_alone_is_on_stdout() -> None:
    Path("a.txt").write_text("Größe")
    done = cli("run", "How long is it?", "--context", "a.txt", "-m", script(FINAL))
    assert (done.out, done.code) == ("5\n", 0)
    lines = done.err.splitlines()
    assert lines[0] == "scripted/s.json · str, 5 characters"
    assert lines[1] == "No sandbox: the model's code runs with your rights."
    assert lines[2] == "  1 I count."
    assert re.fullmatch(r"    ✓ count the letters  \d\.\d s", lines[3])
    assert re.fullmatch(r"1 iteration · [\d,]+ tokens · \d\.\d s", lines[4])
    assert lines[5].startswith("Notebook: rlm_runs/")
    assert Path(lines[5].removeprefix("Notebook: ")).is_file()
    assert "\x1b" not in done.err


def test_json_is_one_object() -> None:
    cell = '```repl\nFINAL({"n": llm_query("?"), "word": "größe"})\n```'
    done = cli("run", "?", "-m", script(cell, subcalls=["four"]), "--json", "--quiet", "--save", "r.ipynb")
    assert done.code == 0
    assert done.err == ""
    facts = json.loads(done.out)
    assert facts["value"] == {"n": "four", "word": "größe"}
    assert facts["stop_reason"] == "answered"
    assert facts["usage"]["input_tokens"] > 0
    assert facts["cost"] == 0
    assert facts["iterations"] == 1
    assert facts["seconds"] > 0
    assert facts["notebook"] == str(Path("r.ipynb").absolute())
    assert Path("r.ipynb").is_file()
    assert "größe" in facts["answer"]
    assert done.out.count("\n") == 1


def test_save_names_a_folder_or_a_notebook_and_replaces_neither() -> None:
    model = script(FINAL)
    first, second = (cli("run", "How long?", "-m", model, "--save", "out.ipynb") for _ in range(2))
    assert "another run" not in first.err
    assert "out.ipynb is the notebook of another run, so this run is saved in out-2.ipynb." in second.err.splitlines()
    assert "Notebook: out-2.ipynb" in second.err.splitlines()
    Path("some").mkdir()
    assert cli("run", "How long?", "-m", model, "--save", "some/folder/").code == 0
    assert len(list(Path("some/folder").glob("*-how-long.ipynb"))) == 1


def test_json_holds_every_character_whatever_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    model = script("```repl\nFINAL('größe 😀 \\ud800')\n```")
    facts = json.loads(cli("run", "?", "-m", model, "--json", "--no-save").out)
    assert facts["answer"] == "größe 😀 \ud800"
    assert facts["notebook"] is None
    assert not Path("rlm_runs").exists()


@pytest.mark.slow
def test_standard_input_several_files_and_a_folder() -> None:
    Path("d").mkdir()
    for name in ("a.txt", "b.txt"):
        Path("d", name).write_text(name)
    model = script("```repl\nFINAL(context)\n```")
    done = cli("run", "?", "-m", model, "-q", "--no-save", "--json", "-c", "d", "-c", "-", stdin="größe".encode())
    assert json.loads(done.out)["value"] == {"d/a.txt": "a.txt", "d/b.txt": "b.txt", "-": "größe"}
    done = cli("run", "?", "-m", script(FINAL), "-q", "--no-save", "-c", "-", stdin=b"abc")
    assert (done.out, done.err, done.code) == ("3\n", "", 0)


def test_a_run_without_an_answer_says_why_and_what_to_raise() -> None:
    model = script("```repl\nx = 1\n```", "```repl\nx = 2\n```", "")
    done = cli("run", "?", "-m", model, "--max-iterations", "2")
    assert (done.out, done.code) == ("", 1)
    assert "No answer: iteration limit reached (--max-iterations 4 raises it)." in done.err
    [path] = Path("rlm_runs").glob("*.ipynb")
    assert done.err.splitlines()[-1] == f"To resume it: jupyter rlm resume {path.stem} --max-iterations 4"


def test_a_limit_with_a_draft_prints_it_and_is_no_answer() -> None:
    model = script("```repl\nanswer['content'] = 'a draft'\n```", "```repl\nx = 1\n```")
    done = cli("run", "?", "-m", model, "--max-iterations", "1", "--no-save")
    assert (done.out, done.code) == ("a draft\n", 1)
    assert (
        "Ended early, with the best answer so far: iteration limit reached (--max-iterations 2 raises it)." in done.err
    )


def test_a_run_that_fails_says_so_in_one_line_and_keeps_its_record() -> None:
    model = script("```repl\nx = 1\n```")
    done = cli("run", "?", "-m", model, "--json")
    assert done.code == 1
    *_, failure, _facts, notebook, resume = done.err.splitlines()
    assert failure == "No answer: scripted/s.json: no replies are left in the script at request 2."
    assert Path(notebook.removeprefix("Notebook: ")).is_file()
    assert resume == f"To resume it: jupyter rlm resume {Path(notebook).stem}"
    facts = json.loads(done.out)
    assert (facts["answer"], facts["stop_reason"]) == (None, "failed")
    assert facts["notebook"] == str(Path(notebook.removeprefix("Notebook: ")).absolute())


@pytest.mark.slow
def test_the_line_to_resume_a_failed_run_resumes_it() -> None:
    Path("another place").mkdir()
    failed = cli("run", "?", "-m", script("```repl\nx = 20\n```"), "--save", "another place/", "--quiet")
    failure, resume = failed.err.splitlines()
    assert (failed.code, failed.out) == (1, "")
    assert "no replies are left" in failure
    command = shlex.split(resume.removeprefix("To resume it: jupyter rlm "))
    assert Path(command[1]).is_file()
    resumed = cli(*command, "--yes", "-m", script("```repl\nFINAL(x + 1)\n```", name="more.json"))
    assert (resumed.code, resumed.out) == (0, "21\n")


@pytest.mark.slow
def test_the_newest_run_is_resumed_where_none_is_named() -> None:
    cli("run", "?", "-m", script("```repl\nx = 20\n```"))
    [notebook] = Path("rlm_runs").glob("*.ipynb")
    resumed = cli("resume", "--yes", "-m", script("```repl\nFINAL(x + 1)\n```", name="more.json"))
    assert (resumed.code, resumed.out) == (0, "21\n")
    assert resumed.err.splitlines()[0] == f"The newest run: {notebook.stem}"


def test_the_best_answer_of_a_failed_run_is_printed_and_is_a_failure() -> None:
    done = cli("run", "?", "-m", script("```repl\nanswer['content'] = 'a draft'\n```"), "--no-save")
    assert (done.out, done.code) == ("a draft\n", 1)
    assert "Ended early, with the best answer so far: scripted/s.json: no replies are left in the script" in done.err
    assert "resume" not in done.err


@pytest.mark.slow
def test_the_model_is_named_by_option_then_environment_and_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.txt").write_text("The sky is blue. Grass is green.")
    done = cli("run", "What colour is the sky?", "-c", "a.txt", "--no-save")
    assert done.err.startswith("No model is named, so the embedded `extractive` answers. It is not a language model")
    assert "RLM_MODEL" in done.err
    assert "The sky is blue." in done.out
    monkeypatch.setenv("RLM_MODEL", script("```repl\nFINAL('by environment')\n```"))
    done = cli("run", "?", "--no-save", "-q")
    assert (done.out, done.err) == ("by environment\n", "")
    done = cli("run", "?", "--no-save", "-q", "-m", script("```repl\nFINAL('by option')\n```", name="o.json"))
    assert done.out == "by option\n"


@pytest.mark.slow
def test_a_served_model_and_a_sub_model_at_one_address() -> None:
    with Loopback(['```repl\nFINAL(llm_query("piece"))\n```', "of the sub-model"]) as server:
        models = ("-m", "vllm/root", "--sub-model", "vllm/sub", "--base-url", server.openai_url)
        done = cli("run", "?", *models, "--no-save", "-q")
        assert (done.out, done.err, done.code) == ("of the sub-model\n", "", 0)
        assert [request.body["model"] for request in server.requests] == ["root", "sub"]


@pytest.mark.slow
def test_a_run_is_asked_nowhere_else_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    look = "```repl\nprint(len(context))\n```"
    with Loopback([look, look + " again", "```repl\nFINAL('here')\n```"]) as own, Loopback(["elsewhere"]) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        Path("note.txt").write_text("private")
        there = ("--base-url", own.openai_url)
        asked = ("run", "?", "-c", "note.txt", "-m", "openai/any", *there)
        done = cli(*asked, "--save", "run.ipynb", "--max-iterations", "1")
        assert done.code == 1
        assert f"resume run --base-url {own.openai_url} --max-iterations 2" in done.err
        for command in ("resume", "fork"):
            done = cli(
                command, "run.ipynb", *(["--max-iterations", "2"] if command == "resume" else ["--at", "1"]), "--yes"
            )
            assert done.code == 2
            assert done.err.splitlines()[-1].endswith(
                f"openai/any was asked at {own.openai_url}: give that address again, or another, by --base-url URL."
            )
        done = cli("resume", "run.ipynb", "--max-iterations", "4", "--yes", *there)
        assert (done.out.strip(), done.code) == ("here", 0)
        assert other.requests == []


def test_a_question_that_the_window_has_no_room_for_is_wrong_input() -> None:
    with Loopback(["nothing"]) as server:
        asked = ("run", "?", "-m", "vllm/root", "--base-url", server.openai_url)
        done = cli(*asked, "--window", "100")
        assert done.code == 2
        assert "are needed: set window (--window) if it reads more, or name a model that does)." in done.err
        assert server.requests == []


def test_a_question_at_the_end_of_an_error_has_one_mark() -> None:
    with Loopback([Fault.dropped("early")]) as server:
        done = cli("run", "?", "-m", "vllm/root", "--base-url", server.openai_url)
    assert done.code == 1
    assert " broke off before its reply began. Is that the whole address?\n" in done.err
    error = RLMError("It broke off. Is that its address?")
    error.advice = "The run is saved."
    assert str(error) == "It broke off. Is that its address? The run is saved."


@pytest.mark.slow
def test_a_session_is_asked_nowhere_else_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    end = "```repl\nFINAL('here')\n```"
    with Loopback([end, end]) as own, Loopback(["elsewhere"]) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        asked = ("run", "?", "-m", "openai/any", "--session", "mine", "--yes")
        there = ("--base-url", own.openai_url)
        assert cli(*asked, *there).code == 0
        done = cli(*asked)
        assert (done.code, "by --base-url URL" in done.err) == (2, True)
        done = cli(*asked, *there)
        assert (done.out.strip(), done.code) == ("here", 0)
        assert other.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("question", ["What is the code?", "Code?", "Tell me the code", "What is the code in a/b.txt?"])
@pytest.mark.parametrize("behind", [False, True])
def test_the_question_may_stand_last(question: str, behind: bool) -> None:
    Path("note.txt").write_text("The code is 7391 here.")
    done = cli("run", "-m", "extractive", "--no-save", "-q", "-c", "note.txt", *(["--"] if behind else []), question)
    assert "The code is 7391 here." in done.out
    assert done.code == 0


NO_QUESTION = r"jupyter rlm: The question is missing\. It comes first, or last behind --: jupyter rlm run"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["run"], f'{NO_QUESTION} "QUESTION" --context PATH, or jupyter rlm run --context PATH -- "QUESTION"'),
        (["run", " "], f'{NO_QUESTION} "QUESTION" --context PATH, .*'),
        (["run", "", "-c", "a.txt"], f'{NO_QUESTION} "QUESTION" --context PATH, .*'),
        (["run", "-c", "a.txt"], f'{NO_QUESTION} "QUESTION" --context PATH, .*'),
        (["run", "-c", "a.txt", "not there.txt"], f"{NO_QUESTION} 'not there.txt' --context PATH, .*"),
        (["run", "-c", "a.txt", "gone.t?t"], f"{NO_QUESTION} 'gone.t.t' --context PATH, .*"),
        (["run", "-c", "a.txt", "gone"], f"{NO_QUESTION} gone --context PATH, .*"),
        (["run", "What is it?", "a.txt"], "jupyter rlm: .*the question is one argument, in quotes, .*"),
        (["run", "?", "-c", "blank.txt"], "jupyter rlm: blank.txt is empty: there is nothing to answer from."),
        (
            ["run", "?", "-c", "a.txt", "--save", "../no/such/x.ipynb"],
            "jupyter rlm: There is no folder .*/no to save .*",
        ),
        (["run", "?", "--save", "no/such/"], "jupyter rlm: There is no folder .*/no to save .*"),
        (["run", "?", "-c", "a.txt", "--read", "gone"], "jupyter rlm: --read: .*gone does not exist."),
        (["run", "?", "-c", "gone.txt", "-m", "extractive"], "jupyter rlm: gone.txt: there is no such file."),
        (["run", "?", "-c", "gone.txt"], "jupyter rlm: gone.txt: there is no such file."),
        (["run", "?", "--contxt", "a.txt"], r"jupyter rlm: .* \(did you mean --context\?\) .*"),
        (["run", "?", "-c", "a.txt", "-m", "extractive", "--output", "o.txt"], "jupyter rlm: .*makes no files.*"),
        (
            ["run", "?", "-c", "a.png", "-m", "extractive"],
            r"jupyter rlm: extractive/bm25 picks passages of texts, .*images alone.*",
        ),
        (["run", "?", "--max-iteration", "3"], r"jupyter rlm: .* \(did you mean --max-iterations\?\) .*"),
        (["run", "?", "-m", "openai/x"], "jupyter rlm: .*OPENAI_API_KEY.*"),
        (["run", "?", "-m", "nobody/x"], "jupyter rlm: .*nobody.*"),
        (["run", "?", "--base-url", "http://127.0.0.1:1"], "jupyter rlm: --base-url needs a model: .*"),
        (["run", "?", "-m", "extractive", "--termination", "x"], "jupyter rlm: Unknown termination policy 'x'.*"),
        (
            ["run", "?", "--sandbox", "dockr"],
            r"jupyter rlm run: --sandbox dockr: there is auto, bwrap, docker, podman and none \(see .*",
        ),
        (["run", "?", "--max-seconds", "0"], "jupyter rlm: --max-seconds 0: it must be more than zero."),
        (["run", "?", "--sandbox", "none", "--max-cost", "-0.5"], "jupyter rlm: --max-cost -0.5: it must be .*"),
        (["run", "?", "--max-iterations", "0"], "jupyter rlm: --max-iterations 0: it must be more than zero."),
        (["run", "?", "--max-answer-errors", "-1"], "jupyter rlm: --max-answer-errors -1: it must be zero or more."),
        (
            ["run", "?", "--answer", "Invoice"],
            "jupyter rlm: .* --answer names a type of a notebook; .* --schema FILE.*",
        ),
        (
            ["run", "?", "--answr", "Invoice"],
            "jupyter rlm: .* --answer names a type of a notebook; .* --schema FILE.*",
        ),
        (["run", "?", "--max-cost", "much"], r"jupyter rlm run: --max-cost much: a number is needed \(see .*"),
        (["run", "?", "--save", "a.txt/x", "-m", "extractive"], "jupyter rlm: A run can't be saved in .*"),
        (["walk"], "jupyter rlm: .*invalid choice: 'walk'.*"),
        ([], "jupyter rlm: A command is missing: .*"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(args: list[str], line: str) -> None:
    Path("a.txt").write_text("text")
    Path("blank.txt").write_text("\n")
    Path("a.png").write_bytes(png())
    done = cli(*args)
    assert (done.out, done.code) == ("", 2)
    assert done.err.count("\n") == 1
    assert re.fullmatch(line.replace("?'", r"\?'"), done.err.strip())
    assert not Path("rlm_runs").exists()


# --- interrupts -----------------------------------------------------------------------------------------------

SLEEP = "```repl\nimport pathlib, time\nanswer['content'] = 'a draft'\npathlib.Path('running').touch()\n{}\n```"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_run_and_kernel_and_prints_the_best_answer(number: int) -> None:
    process = start("run", "?", "-m", script(SLEEP.format("time.sleep(60)")))
    started = kernels(process)
    process.send_signal(number)
    interrupted = time.monotonic()
    done = Done(process)
    assert time.monotonic() - interrupted < 40  # and not the minute that the cell sleeps
    assert (done.out, done.code) == ("a draft\n", 130)
    assert gone(started)
    notebook = named_at_the_end(done)
    assert "Ended early, with the best answer so far: stopped by you." in done.err
    assert RunFiles(notebook).exists()
    assert '"cancelled"' in RunFiles(notebook).journal.read_text()


def named_at_the_end(done: Done) -> Path:
    """The notebook of a run that was stopped, which the last two lines name."""
    notebook, resume = done.err.splitlines()[-2:]
    path = Path(notebook.removeprefix("Notebook: "))
    assert resume == f"To resume it: jupyter rlm resume {path.stem}"
    return path


@pytest.mark.slow
def test_a_second_interrupt_leaves_at_once_without_a_traceback() -> None:
    deaf = "while True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass"
    process = start("run", "?", "-m", script(SLEEP.format(deaf)), bufsize=0)
    started = kernels(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    # two that come before the first is handled are one
    assert any(line.startswith(b"Stopping the run") for line in iter(process.stderr.readline, b""))
    process.send_signal(signal.SIGINT)
    interrupted = time.monotonic()
    done = Done(process)
    assert time.monotonic() - interrupted < 40
    assert (done.out, done.code) == ("", 130)
    assert "No answer: interrupted" in done.err
    assert gone(started)
    notebook = named_at_the_end(done)
    assert '"cancelled"' in notebook.read_text(), "written to the end, though the process was leaving"


def test_an_interrupt_before_the_run_is_one_line() -> None:
    reading, writing = os.pipe()
    process = start("run", "?", "-m", script(FINAL), "-c", "-", stdin=reading)
    os.write(writing, b"the beginning of a context")
    drained(reading)
    process.send_signal(signal.SIGINT)
    done = Done(process)
    os.close(reading)
    os.close(writing)
    assert (done.out, done.err, done.code) == ("", "Interrupted.\n", 130)


# --- pipes and terminals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_closed_pipe_is_no_traceback(size: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = cli("run", "?", "-m", script(f"```repl\nFINAL('x' * {size})\n```"), "--no-save", "-q", stdout=writing)
    os.close(writing)
    assert (done.err, done.code) == ("", 1)


def test_help_into_a_closed_pipe_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = cli("run", "--help", stdout=writing)
    os.close(writing)
    assert (done.err, done.code) == ("", 0)


def test_progress_that_nobody_reads_does_not_stop_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = cli("run", "?", "-m", script("```repl\nFINAL('still there')\n```"), "--json", stderr=writing)
    os.close(writing)
    assert json.loads(done.out)["answer"] == "still there"


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = cli("run", "?", "-m", script(FINAL, "```repl\nFINAL(1)\n```"), "--no-save", "-q", stdout=full)
    assert (done.err, done.code) == ("jupyter rlm: No space left on device\n", 1)


def test_no_standard_streams_at_all() -> None:
    model = script("```repl\nFINAL(1)\n```")
    command = f"{sys.executable} -m rlm_jupyter.frontends.cli.main run ? -m {model} --save r.ipynb <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], timeout=60).returncode == 0
    assert "RunEnded" in Path("r.rlm/journal.jsonl").read_text()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    process = start("run", "?", "-m", script("```repl\nFINAL('größe 日本 \\ud800')\n```"), "--no-save")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.decode(encoding).encode("ascii", "backslashreplace") == b"gr\\xf6\\xdfe \\u65e5\\u672c \\ud800\n"
    assert b"    + FINAL(" in err


def on_terminal(*args: str, width: int = 100, act: Callable[[int], None] = lambda _: None) -> tuple[str, int]:
    """Everything that a terminal is sent, and the exit code."""
    import pty
    import struct
    from fcntl import ioctl
    from termios import TIOCSWINSZ

    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    process = start(*args, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    act(ours)
    sent = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:
            break
        if not piece:
            break
        sent += piece
    os.close(ours)
    return sent.decode(), process.wait(60)


def test_on_a_terminal_it_is_live_and_leaves_no_trace() -> None:
    cells = [
        "Wait.\n\n```repl\nimport time\n# sleep a little\ntime.sleep(1)\n```",
        "```repl\nFINAL('\\x1b[2Jred')\n```",
    ]
    sent, code = on_terminal("run", "?", "-m", script(*cells), "--no-save", width=60)
    assert code == 0
    assert "iteration 1 of 30 · sleep a little" in sent
    assert "\x1b[?25l" in sent, "the cursor is hidden while it is drawn"
    assert sent.rindex("\x1b[?25h") > sent.rindex("\x1b[?25l"), "and shown again"
    # what a model writes does not steer the terminal
    assert "\\x1b[2Jred" in sent
    assert "\x1b[2J" not in sent
    assert "of 30 · closing" not in sent, "none is under way then"
    assert sent[sent.rindex("closing the kernel") :].count("\x1b[2K") == 2, "its two lines are erased"


def test_in_a_notebook_s_shell_there_are_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    sent, code = on_terminal("run", "?", "-m", script("```repl\nFINAL(1)\n```"), "--no-save")
    assert code == 0
    assert "    ✓ FINAL(1)" in sent
    assert "\x1b" not in sent


def test_progress_survives_a_stderr_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def isatty(self) -> bool:
            return False

    with progress.TerminalProgress() as told:
        monkeypatch.setattr(sys, "stderr", Broken())
        for record in sample():
            told.on_event(record)
    assert told.ended is not None
    assert told.run_id is not None


# --- demo, list, show, clean, help ----------------------------------------------------------------------------


def test_demo_is_right_and_never_asks_a_named_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_MODEL", "nobody/x")
    done = cli("demo")
    assert done.code == 0
    assert "Question: When are default parameter values evaluated?" in done.out
    assert "evaluated from left to right when the function definition is executed" in done.out
    assert "no language model" in done.out
    assert Path(done.out.splitlines()[-1].removeprefix("Notebook: ")).is_file()


@pytest.fixture
def kept(here: Path) -> Iterator[list[RunFiles]]:
    """Three runs: one that ended long ago, one that was broken off, one that goes on."""
    old = (datetime.now(UTC) - timedelta(days=40)).isoformat(timespec="seconds")
    runs, journals = [], []
    for name, until in (("ended", None), ("broken", 4), ("open", 2)):
        files = RunFiles.create("q", here / "rlm_runs" / name)
        journals.append(Journal.open(files.journal, files.objects))
        for record in [started(started=old), *sample()[1:until]]:
            journals[-1].append(record)
        runs.append(files)
    for journal in journals[:2]:
        journal.close()
    yield runs
    journals[2].close()


def test_what_is_piped_in_is_the_context() -> None:
    model = script("```repl\nFINAL(len(context or ''))\n```")
    done = cli("run", "How long?", "-m", model, "--no-save", stdin="größe".encode())
    assert (done.code, done.out.strip()) == (0, "5")
    assert "5 characters" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paths", "given", "options", "answer", "told"),
    [
        (["a.txt"], b"piped", [], "4", True),
        (["a.txt"], b"", [], "4", False),
        (["a.txt"], b"piped", ["-q"], "4", False),
        (["a.txt", "-"], b"piped", [], "2", False),
    ],
)
def test_a_pipe_beside_files_is_told_of_where_it_is_not_read(
    paths: list[str], given: bytes, options: list[str], answer: str, told: bool
) -> None:
    Path("a.txt").write_text("text")
    Path("piped").write_bytes(given)
    for stdin in (subprocess.PIPE, os.open("piped", os.O_RDONLY)):
        args = ["run", "?", "-m", script(FINAL), "--no-save", *options, "-c", *paths]
        done = Done(start(*args, stdin=stdin), given if stdin == subprocess.PIPE else None)
        assert (done.code, done.out.strip()) == (0, answer)
        assert ("What is piped in is not read, because --context names the context" in done.err) == told


def test_a_pipe_that_brings_nothing_is_refused_before_anything_is_asked() -> None:
    done = cli("run", "How long?", "-m", script(FINAL), stdin=b"")
    assert (done.code, done.out) == (2, "")
    refused = "jupyter rlm: Standard input is empty: there is nothing to answer from."
    assert done.err == f"{refused} To ask without a context: < /dev/null\n"
    assert cli("run", "How long?", "-c", "-", "-m", script(FINAL), stdin=b" \n").err == f"{refused}\n"
    assert not Path("rlm_runs").exists()


def test_models_lists_the_embedded_one_and_suggests_the_nearest_provider() -> None:
    assert "extractive" in cli("models").out.splitlines()
    done = cli("models", "olama")
    assert done.code == 2
    assert "Did you mean ollama?" in done.err


def test_models_of_a_provider_without_a_key_is_a_mistake_in_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    done = cli("models", "openrouter")
    assert (done.code, done.out) == (2, "")
    assert "OPENROUTER_API_KEY" in done.err


def test_list_tells_what_became_of_each_run(kept: list[RunFiles]) -> None:
    done = cli("list")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert {row[0]: row[2] for row in rows} == {"ended": "answered", "broken": "interrupted", "open": "going on"}
    assert done.code == 0
    shown, _ = on_terminal("list", "rlm_runs", width=70)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.splitlines()]
    assert "ended   answered     Who wrote it?  Ada wrote it." in lines
    narrow, _ = on_terminal("list", "rlm_runs", width=40)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in narrow.splitlines()]
    assert len(lines) == 4
    assert any(re.fullmatch(r"ended   answered     Who.*…  Ada.*…", line) for line in lines), lines
    empty = cli("list", "nowhere")
    assert (empty.out, empty.err, empty.code) == ("", "No runs in nowhere.\n", 0)
    assert cli("list", ".").err == f"No runs in {Path.cwd()}.\n"


def test_why_a_run_ended_is_the_same_everywhere() -> None:
    Path("a.txt").write_text("Rome is the capital of Italy.")
    done = cli("run", "zebra?", "-c", "a.txt", "-m", "extractive")
    says = "nothing in the context matches"
    assert (
        "No answer: Nothing in the context matches. The extractive model only matches words, and sees no image: try "
        in done.err
    )
    assert "to the model" not in done.err  # it has said that it has no answer
    [path] = Path("rlm_runs").glob("*.ipynb")
    told = json.loads(path.read_text())["cells"]
    assert "".join(told[-1]["source"]) == f"*End of the run: {says}.*"
    assert f"*{says} · iterations: 3 · " in "".join(told[1]["source"])
    assert cli("list").out.split("\t")[2] == says
    assert cli("show").out.splitlines()[2].startswith(f"{says} · 3 iterations")
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in on_terminal("list", width=90)[0].splitlines()]
    assert re.fullmatch(rf"{path.stem} +{says} +zebra\? *", lines[1].rstrip())


def test_show_reads_a_run_and_export_writes_it(kept: list[RunFiles]) -> None:
    done = cli("show", "ended")
    assert ended().answer in done.out.splitlines()
    assert "[1] " in done.out
    assert "sub-call" in done.out
    assert "\x1b" not in done.out
    assert "interrupted" in cli("show", "rlm_runs/broken.rlm").out
    # one command writes files
    assert "--html" in cli("show", "ended", "--html", "run.html").err
    assert cli("export", "ended", "--to", "jsonl").code == cli("export", "ended", "--to", "html").code == 0
    assert json.loads(Path("ended.jsonl").read_text().splitlines()[0])["type"] == "metadata"
    assert "<html" in Path("ended.html").read_text()


@pytest.mark.parametrize("command", ["show", "export", "resume", "fork", "replay"])
@pytest.mark.parametrize(("named", "says"), [(["nothing"], "There is no run 'nothing'"), ([], "There are no runs in")])
def test_a_run_that_is_not_there_is_one_line_and_code_2(command: str, named: list[str], says: str) -> None:
    missing = cli(command, *named)
    assert (missing.out, missing.code) == ("", 2)
    assert missing.err.startswith(f"jupyter rlm: {says}")
    assert missing.err.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_without_its_server_nothing_is_started_and_one_line_says_how(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    done = cli("run", "?", "-m", "ollama/qwen", *options)
    assert (done.out, done.code) == ("", 2)
    assert done.err.startswith("jupyter rlm: ollama/qwen: no connection to http://127.0.0.1:1/v1 ")
    assert done.err.endswith("Start it (ollama serve), or say where it is: base_url (--base-url), or OLLAMA_HOST.\n")
    assert done.err.count("\n") == 1
    assert not list(Path().glob("rlm_runs/*"))


def test_clean_deletes_only_runs_that_ended(kept: list[RunFiles]) -> None:
    done, broken, going_on = kept
    Path("rlm_runs/mine.ipynb").write_text("{}")
    done.notebook.write_text("a notebook that is no run any more")
    refused = cli("clean")
    assert refused.code == 2
    assert refused.err.endswith("jupyter rlm: Nobody can be asked here: add --yes to delete.\n")
    for days in ("nan", "1e400", "-1", "1000000"):
        refused = cli("clean", f"--older-than={days}", "--yes")
        assert refused.code == 2
        assert "it takes a number of days, from 0 to 36,500." in refused.err
    assert "Nothing to delete" in cli("clean", "--older-than", "41", "--yes").err
    assert done.folder.is_dir()

    def say(word: bytes) -> Callable[[int], None]:
        def type_it(terminal: int) -> None:  # the terminal keeps it until the command asks
            os.write(terminal, word + b"\n")

        return type_it

    declined, code = on_terminal("clean", act=say(b"n"))
    assert code == 1
    assert "Delete 1 run (" in declined
    assert "Nothing was deleted." in declined
    assert done.folder.is_dir()
    _, code = on_terminal("clean", "--older-than", "39", act=say(b"y"))
    assert code == 0
    assert not done.folder.exists()
    assert done.notebook.exists(), "it was somebody's own"
    assert broken.journal.is_file()
    assert going_on.journal.is_file()
    assert Path("rlm_runs/mine.ipynb").is_file()


def test_clean_takes_the_notebook_with_it() -> None:
    assert cli("run", "?", "-m", script("```repl\nFINAL(1)\n```"), "-q").code == 0
    assert len(list(Path("rlm_runs").iterdir())) == 2
    done = cli("clean", "-y")
    assert done.code == 0
    assert "Deleted 1 run (" in done.err
    assert list(Path("rlm_runs").iterdir()) == []


def test_a_large_context_is_kept_once_told_of_and_cleaned_with_the_last_run() -> None:
    Path("a.txt").write_bytes(b"0123456789abcde\n" * 3_200_000)
    model = script("```repl\nFINAL(len(context))\n```")
    told = [cli("run", "?", "-c", "a.txt", "-m", model, "--save", f"rlm_runs/{name}.ipynb").err for name in "ab"]
    assert "Its context is kept with it: 51 MB, once for all runs here. jupyter rlm clean deletes old runs." in told[0]
    assert "Its context (51 MB) is kept once for 2 runs here." in told[1]
    done = cli("clean", "-y")
    assert [line for line in done.err.splitlines() if "51.2 MB of it shared" in line] == done.err.splitlines()[:2]
    assert "Deleted 2 runs (51.2 MB)" in done.err


@pytest.mark.slow
def test_clean_leaves_what_is_not_the_runs() -> None:
    child = ["```repl\nprint(rlm_query('the part'))\n```", "```repl\nFINAL(1)\n```", "```repl\nFINAL(2)\n```"]
    for name in ("a", "b", "c"):
        done = cli("run", "?", "-m", script(*child), "-q", "--save", f"rlm_runs/{name}.ipynb", "--max-depth", "2")
        assert done.code == 0
    a, b, c = (RunFiles(Path(f"rlm_runs/{name}.ipynb").absolute()) for name in ("a", "b", "c"))
    assert list((a.folder / "children").glob("*.rlm"))
    (a.folder / "notes.md").write_text("mine")
    (a.folder / "objects").mkdir(exist_ok=True)
    (a.folder / "objects" / "data.csv").write_text("mine")
    Path("mine").mkdir()
    Path("mine/journal.jsonl").write_text("mine")
    (a.folder / "children" / "link.rlm").symlink_to(Path("mine").absolute(), target_is_directory=True)
    content = json.loads(b.notebook.read_bytes())
    content["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "my notes"})
    b.notebook.write_text(json.dumps(content))
    c.notebook.write_bytes(b.notebook.read_bytes())  # of another run
    done = cli("clean", "-y")
    assert done.code == 0, done.err
    assert done.err.count("Kept: ") == 5
    left = {str(path.relative_to("rlm_runs")) for path in Path("rlm_runs").rglob("*") if not path.is_dir()}
    link = "a.rlm/children/link.rlm"
    assert left - {link} == {"a.rlm/notes.md", "a.rlm/objects/data.csv", "b.ipynb", "c.ipynb"}
    assert Path("rlm_runs", link).is_symlink()
    assert Path("mine/journal.jsonl").read_text() == "mine"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = cli(command, "--help")
    assert done.code == 0
    assert f"examples:\n  jupyter rlm {command}" in done.out
    assert "\n\nexit codes:" in done.out


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys; from rlm_jupyter.frontends.cli import commands, main as cli\n"
        "def loaded(): return {name for name in commands.COMMANDS if f'{commands.__name__}.{name}' in sys.modules}\n"
        "assert cli.main(['--help']) == cli.main(['--version']) == 0 and not loaded()\n"
        "assert cli.main(['run', '--help']) == 0 and loaded() == {'run'}\n"
        "for name in commands.COMMANDS:\n"
        "    assert cli.main([name, '--help']) == 0\n"
        "heavy = {'openai', 'anthropic', 'IPython', 'jupyter_client', 'zmq', 'nbformat', 'rich', 'pandas', 'asyncio'}\n"
        "sys.exit(','.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0)
    assert re.search(r"^rlm_jupyter \d+\.\d+", done.stdout, re.MULTILINE)


def test_jupyter_finds_the_command() -> None:
    jupyter = Path(sys.executable).parent / "jupyter"
    path = f"{jupyter.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [jupyter, "rlm", "--version"], capture_output=True, text=True, timeout=60, env=os.environ | {"PATH": path}
    )
    assert done.stdout.startswith("rlm_jupyter ")


# --- words ----------------------------------------------------------------------------------------------------


def test_words_for_people() -> None:
    assert terminal.printable("a\tb\n\x1b[31mred\x07\x9b1mx\r\nGröße\u202f5") == (
        "a\tb\n\\x1b[31mred\\x07\\x9b1mx\nGröße\u202f5"
    )
    assert terminal.one_line("  two\n lines ") == "two lines"
    assert terminal.one_line("x" * 11, 10) == "x" * 9 + "…"
    assert terminal.one_line("\n" * 1000 + "x", 10) == "…"
    assert [terminal.duration(s) for s in (0.04, 9.94, 10, 59.6, 200)] == [
        "0.0 s",
        "9.9 s",
        "10 s",
        "1 min 00 s",
        "3 min 20 s",
    ]
    assert terminal.spent(Usage(1, 0), None) == "1 token"
    assert terminal.spent(Usage(1000, 234), 0.01) == "1,234 tokens · $0.0100"


def test_a_policy_in_a_file_of_ones_own_ends_a_run(tmp_path: Path) -> None:
    replies = [f"```repl\nx = {n}\nprint('the same')\n```" for n in range(4)]
    (tmp_path / "same.json").write_text(json.dumps({"replies": replies}))
    (tmp_path / "mine.py").write_text(
        "from rlm_jupyter.policies import TerminationPolicy\n"
        "class SameTwice(TerminationPolicy):\n"
        "    def reset(self):\n        self.last = None\n"
        "    def should_terminate(self, result, context):\n"
        "        again, self.last = result.output == self.last, result.output\n"
        "        return again, result.output\n"
        "def rating(action, result, context):\n    return 0.25\n"
    )
    policies = ("--termination", "mine:SameTwice", "--reward", "mine:rating")
    done = cli("run", "What?", "-m", "scripted/same.json", "--json", *policies, cwd=tmp_path)
    told = json.loads(done.out)
    assert (told["answer"], told["stop_reason"]) == ("the same", "terminated")


@pytest.mark.slow
def test_a_working_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"rmdir {shlex.quote(str(gone))} && {shlex.quote(sys.executable)} -m rlm_jupyter.frontends.cli.main list"
    done = subprocess.run(["sh", "-c", command], cwd=gone, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "jupyter rlm: the working directory is gone: change to another."
