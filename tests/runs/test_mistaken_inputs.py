"""What is given as context or prompt, and is probably meant otherwise: paths, names of files, a text without a question."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.files.paths import read_paths
from rlm_jupyter.run.prompt import MOST_PROMPT_CHARS
from rlm_jupyter.types.errors import ConfigurationError
from tests.runs.test_cli import cli, script
from tests.runs.test_cli import here as here
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell

FINAL = "I look.\n```repl\nFINAL(context)\n```"
QUOTED = "I look.\n```repl\nFINAL(f'<{context}>')\n```"
BOOK = "word " * MOST_PROMPT_CHARS


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    Path("docs").mkdir()
    Path("x.txt").write_text("what is in it")
    for name in "ab":
        Path(f"docs/{name}.md").write_text(name)


class Unasked:
    """A model that must not be asked."""

    name, window = "unasked/one", 100_000

    def complete(self, *_: object, **__: object) -> object:
        raise AssertionError("asked")


@pytest.mark.parametrize(
    ("context", "value", "note"),
    [
        (Path("x.txt"), "what is in it", "context: read from x.txt: str, 13 characters.\n"),
        (Path("docs"), {"docs/a.md": "a", "docs/b.md": "b"}, "context: read from docs: dict, 2 keys.\n"),
        (Path("d*/[a]*.md"), {"docs/a.md": "a"}, "context: read from d*/[a]*.md: dict, 1 key.\n"),
        (
            [Path("x.txt"), Path("docs/a.md")],
            {"x.txt": "what is in it", "docs/a.md": "a"},
            "context: read from x.txt, docs/a.md: dict, 2 keys.\n",
        ),
    ],
)
async def test_a_path_is_read(context: object, value: object, note: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = await RLM(ScriptedModel([FINAL, FINAL])).acompletion("What?", context)
    assert result.value == value
    assert capsys.readouterr().err == note
    assert "x.txt" in note or result.trajectory.started.context.type_name == "dict"


def test_a_path_is_read_as_the_context_of_a_root_prompt() -> None:
    rlm = RLM(ScriptedModel([FINAL, FINAL]))
    assert rlm.completion(Path("x.txt"), root_prompt="What?").answer == "what is in it"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["x.txt", "./x.txt", "docs", "docs/*.md"])
def test_the_name_of_a_file_is_refused_before_anything_is_spent(name: str) -> None:
    rlm = RLM(Unasked())  # type: ignore[arg-type]
    for call in (rlm.start, rlm.estimate):
        with pytest.raises(ConfigurationError) as caught:
            call("What?", name)
        assert f"pass Path({name!r})" in str(caught.value)
        assert f"[{name!r}]" in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="there is no such file"):
        rlm.start("What?", Path("gone.txt"))
    assert not Path("rlm_runs").exists()


@pytest.mark.parametrize("text", ["gone.txt", "x.txt\n", "\0", "*", "what is x.txt?", "a" * 5_000])
async def test_other_texts_are_texts(text: str) -> None:
    if text == "*":
        for path in Path().iterdir():
            path.rename(path.with_name(f".{path.name}"))
    assert (await RLM(ScriptedModel([QUOTED, QUOTED])).acompletion("What?", text)).value == f"<{text}>"


@pytest.mark.parametrize("context", ["", " \n", b"", [], {}, (), set()])
async def test_an_empty_context_is_refused_before_anything_is_spent(context: object) -> None:
    rlm = RLM(Unasked())  # type: ignore[arg-type]
    said = "The context is empty, there is nothing to read in it. To ask without one, leave it out."
    for ask in (rlm.start, rlm.estimate, lambda question, context: rlm.session(context).ask(question)):
        with pytest.raises(ConfigurationError, match=f"^{said}$"):
            ask("What?", context)
    with pytest.raises(ConfigurationError, match=said):
        await rlm.acompletion(context, root_prompt="What?")  # type: ignore[arg-type]
    assert not Path("rlm_runs").exists()
    assert (await RLM(ScriptedModel([QUOTED, QUOTED])).acompletion("What?", [""])).value == "<['']>"


async def test_what_a_file_holds_is_no_name_again() -> None:
    Path("list.txt").write_text("x.txt")
    assert (await RLM(ScriptedModel([FINAL, FINAL])).acompletion("What?", Path("list.txt"))).value == "x.txt"
    done = cli("run", "What?", "-c", "list.txt", "-m", script(FINAL, FINAL), "-q")
    assert (done.code, done.out) == (0, "x.txt\n")


def test_a_variable_may_hold_a_path(shell: InteractiveShell) -> None:
    model = f"-m {script(FINAL, FINAL, FINAL)}"
    shell.user_ns |= {"book": Path("x.txt"), "more": Path("docs/a.md"), "name": "x.txt"}
    shown, error = run_cell(shell, f"%rlm {model} -c book What?")
    assert error is None, shown
    assert "context: read from x.txt: str, 13 characters." in shown
    assert shell.user_ns["rlm_result"].value == "what is in it"
    run_cell(shell, f"%rlm {model} -c book,more What?")
    assert shell.user_ns["rlm_result"].value == {"book": "what is in it", "more": "a"}
    shown, error = run_cell(shell, f"%rlm {model} -c name What?")
    assert "pass Path('x.txt')" in str(error)
    shown, error = run_cell(shell, f"%rlm {model} -c x.txt What?")
    assert "a file is named by -c @x.txt" in str(error)


def test_a_text_without_a_question_is_refused_before_anything_is_spent() -> None:
    rlm = RLM(Unasked())  # type: ignore[arg-type]
    for call in (rlm.completion, rlm.start, rlm.estimate):
        with pytest.raises(ConfigurationError) as caught:
            call(BOOK)
        assert "completion(question, context=text), or completion(text, root_prompt=question)?" in str(caught.value)
        assert "50,000 characters" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not Path("rlm_runs").exists()


async def test_a_long_question_with_or_without_a_context_is_asked() -> None:
    long = "x" * MOST_PROMPT_CHARS
    assert (await RLM(ScriptedModel([QUOTED, QUOTED])).acompletion(long)).answer == "<>"
    assert (await RLM(ScriptedModel([FINAL, FINAL])).acompletion(long + "x", "it")).answer == "it"
    assert (await RLM(ScriptedModel([FINAL, FINAL])).acompletion(BOOK, root_prompt="What?")).value == BOOK


def test_each_front_end_says_where_a_text_goes(shell: InteractiveShell) -> None:
    model = f"-m {script(FINAL)}"
    shown, error = run_cell(shell, f"%%rlm {model}\n{BOOK}")
    assert "%%rlm -c text" in str(error)
    assert "root_prompt" not in shown
    done = cli("run", BOOK, *model.split())
    assert done.code == 2
    assert "put the text into a file and name that: QUESTION -c FILE" in done.err
    assert done.err.count("\n") == 1


def test_a_list_of_texts_that_name_files_is_asked_about_and_that_is_said() -> None:
    said: list[str] = []
    for names in (["x.txt", "docs/a.md"], ["x.txt", "gone.txt"], ["x.txt"]):
        assert read_paths(names, note=said.append) is names
    for mixed in ([Path("x.txt"), "a text"], {"a": Path("x.txt")}):
        assert read_paths(mixed, note=said.append) is mixed
    note, *others = said
    assert [other.partition(",")[0] for other in others] == ["context: the paths in it are not read"] * 2
    assert note.startswith("context: a list of 2 texts that name files; the names are asked about")


@pytest.mark.parametrize("save", [True, False])
async def test_a_working_directory_that_is_gone_is_one_line(
    save: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    model = ScriptedModel([FINAL])
    with pytest.raises(ConfigurationError, match=r"^The working directory is gone: change to another\.$"):
        await RLM(model, save=save).acompletion("What?", "a text")
    assert not model.requests
