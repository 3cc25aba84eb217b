"""Files that a run is to make: told to the model, checked in the host, sent back, kept, shown, put where they belong."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Artefact, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export import to_html
from rlm_jupyter.record.export.write import send
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.events import CellStarted, Event
from rlm_jupyter.types.values import Message
from tests.runs.test_cli import cli, script
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.support.here import Notebook

CONTEXT = "North sold 40 apples. South sold 2.\n" * 200
TABLE = "(OUTPUTS / 'sales.csv').write_text('region,sold\\nNorth,40\\n')"
BOOK = "import pandas as pd\npd.DataFrame({'region': ['North'], 'sold': [40]}).to_excel(OUTPUTS / 'sales.xlsx')"
PLOT = (
    "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
    "plt.savefig(OUTPUTS / 'plot.png')"
)
DONE = "FINAL('made')"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(source: str) -> str:
    return f"```repl\n{source}\n```"


def model(*cells: str) -> ScriptedModel:
    return ScriptedModel([block("print(len(context))"), *map(block, cells)])


def left(folder: str) -> dict[str, str]:
    """Return the texts of a folder, by their names."""
    return {path.name: path.read_text() for path in sorted(Path(folder).glob("*.*")) if path.is_file()}


def notices(result: Result) -> list[str]:
    return [notice for iteration in result.trajectory.iterations for notice in iteration.notices]


@pytest.mark.parametrize("sandbox", ["auto", "none"])
def test_what_the_model_leaves_in_the_folder_is_checked_kept_and_put_in_its_place(sandbox: str) -> None:
    played = model(DONE, "open('plot.png', 'w').write('x')\n" + f"{TABLE}\n{DONE}", f"{BOOK}\n{PLOT}\n{DONE}")
    wanted = ["sales.csv", Artefact("sales.xlsx", "a row for each region"), "plot.png"]
    result = RLM(played, sandbox=sandbox).completion("Sum it up.", CONTEXT, outputs=wanted, output_dir="made")
    assert (result.stop_reason, result.answer, result.message) == ("answered", "made", "")
    assert '`OUTPUTS / "NAME"`' in (opening := result.trajectory.started.opening)
    assert "- sales.csv\n- sales.xlsx: a row for each region\n- plot.png\n" in opening
    first, second = notices(result)
    assert "- sales.csv is missing: write it to OUTPUTS / 'sales.csv'\n- sales.xlsx is missing" in first
    assert "sales.csv" not in second
    assert "- plot.png is missing in OUTPUTS; there is one in the working directory" in second
    assert result.outputs == {name: Path("made", name).absolute() for name in ("sales.csv", "sales.xlsx", "plot.png")}
    assert result.outputs["sales.csv"].read_text() == "region,sold\nNorth,40\n"
    assert result.path is not None
    objects = SavedRun.load(result.path).files.objects
    ended = result.trajectory.ended
    assert ended is not None
    assert [objects.get(file["sha256"]) for file in ended.files] == [p.read_bytes() for p in result.outputs.values()]
    head = nbformat.read(result.path, 4).cells[1].source
    assert "### Files\n\n- sales.csv (21 bytes), SHA-256 `" in head


def test_a_file_that_is_no_such_file_is_told_like_a_type_error_and_costs_as_much() -> None:
    wrong = [f"(OUTPUTS / 'sales.xlsx').write_bytes(b'PK{n}')\nFINAL({n})" for n in range(5)]
    limits = Limits(max_answer_errors=2)
    result = RLM(model(*wrong), limits=limits).completion("What?", CONTEXT, outputs=["sales.xlsx"])
    assert (result.stop_reason, result.value, dict(result.outputs)) == ("answer_invalid", 2, {})
    assert result.message.startswith("sales.xlsx does not open: no Excel workbook that can be read")
    assert result.message.count("sales.xlsx") == 1
    assert len(result.trajectory.iterations) == 4
    assert not Path("sales.xlsx").exists()


def test_a_wrong_form_and_a_missing_file_are_one_mistake() -> None:
    played = model("FINAL('many')", f"{TABLE}\nFINAL(42)")
    limits = Limits(max_answer_errors=1)
    result = RLM(played, limits=limits).completion("How many?", CONTEXT, answer=int, outputs="sales.csv")
    assert (result.stop_reason, result.value) == ("answered", 42)
    form, files = notices(result)
    assert "input should be a valid integer" in form
    assert "sales.csv is missing" in files


def test_a_check_of_the_users_own_says_what_is_wrong() -> None:
    def whole(content: bytes) -> object:
        if content == b"leave":
            raise SystemExit("at once")
        return True if b"South" in content else "the row of\nSouth is missing" if content != b"no" else False

    texts = ["leave", "no", "North", "North South"]
    played = model(*(f"(OUTPUTS / 'a.txt').write_text({text!r})\n{DONE}" for text in texts))
    result = RLM(played).completion("What?", CONTEXT, outputs=[Artefact("a.txt", check=whole)])
    assert result.stop_reason == "answered"
    said = [notice.partition(":\n- ")[2].partition("\n\n")[0] for notice in notices(result)]
    assert said == [
        "a.txt is not as it was asked for: SystemExit: at once",
        "a.txt is not as it was asked for",
        "a.txt is not as it was asked for: the row of South is missing",
    ]


def no_column(content: bytes) -> None:
    raise KeyError("South")


def misused(content: bytes) -> bool:
    return content > 3  # type: ignore[operator]


def buggy(content: Any) -> bool:
    return bool(content.is_wide)


@pytest.mark.parametrize(("check", "said"), [(buggy, "AttributeError: 'bytes' object has"), (misused, "TypeError")])
def test_a_bug_of_a_check_ends_the_run_and_is_not_told_to_the_model(check: Any, said: str) -> None:
    played = model(f"(OUTPUTS / 'a.txt').write_text('a')\n{DONE}", DONE)
    result = RLM(played).completion("What?", CONTEXT, outputs=[Artefact("a.txt", check=check)])
    assert (result.stop_reason, notices(result)) == ("failed", [])
    assert result.message.startswith(f"The check of a.txt failed: {said}")
    assert result.path is not None
    wanted = [Artefact("a.txt", check=lambda content: content == b"a")]
    resumed = RLM.resume(result.path, model=ScriptedModel([]), outputs=wanted)
    assert (resumed.stop_reason, resumed.answer, len(resumed.trajectory.iterations)) == ("answered", "made", 2)
    assert Path("a.txt").read_text() == "a"


def test_a_check_takes_no_longer_than_the_run_has() -> None:
    ends, looks = threading.Event(), []

    def slow(content: bytes) -> bool:
        looks.append(content)
        return not ends.wait(60)

    wanted = [Artefact("a.txt", check=slow)]
    limits = Limits(max_seconds=2.0)
    began = time.monotonic()
    result = RLM(model(f"(OUTPUTS / 'a.txt').write_text('a')\n{DONE}"), limits=limits).completion(
        "What?", CONTEXT, outputs=wanted
    )
    took = time.monotonic() - began
    ends.set()
    assert result.stop_reason == "seconds"
    assert took < 30  # of the check's own minute
    assert looks == [b"a"]  # and not again as the run ends
    assert not left(".")


def test_a_library_that_can_not_read_a_file_says_what_is_wrong_with_it() -> None:
    played = model(f"(OUTPUTS / 'a.txt').write_text('a')\n{DONE}")
    limits = Limits(max_answer_errors=0)
    result = RLM(played, limits=limits).completion("What?", CONTEXT, outputs=[Artefact("a.txt", check=no_column)])
    assert result.stop_reason == "answer_invalid"
    assert "a.txt is not as it was asked for: KeyError: 'South'" in result.message


@pytest.mark.parametrize("verdict", [5, [], {}, b"no", ("a", "b")])
def test_a_check_that_gives_no_verdict_ends_the_run_in_a_line(verdict: object) -> None:
    wanted = [Artefact("sales.csv", check=lambda _: verdict)]
    said = r"The check of sales\.csv returns nothing or True where the file is right, .* it returned "
    result = RLM(model(f"{TABLE}\n{DONE}")).completion("What?", CONTEXT, outputs=wanted)
    assert (result.stop_reason, dict(result.outputs)) == ("failed", {})
    assert re.fullmatch(said + re.escape(repr(verdict)) + r"\.", result.message)
    stopped = RLM(model(TABLE), limits=Limits(max_iterations=2), save=False)
    result = stopped.completion("What?", CONTEXT, outputs=wanted)
    assert (result.stop_reason, dict(result.outputs)) == ("iterations", {})
    assert re.fullmatch(said + re.escape(repr(verdict)), result.message)


def test_a_run_that_ends_by_a_limit_brings_what_is_whole() -> None:
    played = model(f"{TABLE}\n(OUTPUTS / 'plot.png').write_text('no')", "print(1)")
    limits = Limits(max_iterations=2)
    result = RLM(played, limits=limits).completion("What?", CONTEXT, outputs=["sales.csv", "plot.png", "more.csv"])
    assert (result.stop_reason, [*result.outputs]) == ("iterations", ["sales.csv"])
    assert Path("sales.csv").read_text().startswith("region")
    assert re.fullmatch(r"plot\.png does not open: .*; more\.csv was not written", result.message)


def test_a_draft_in_a_notebook_says_what_is_missing_of_it_beside_the_headline() -> None:
    from rlm_jupyter.frontends.live.result import ShownResult

    played = ScriptedModel([block("print(1)"), "It is x."])
    rlm = RLM(played, limits=Limits(max_iterations=1), outputs=["miss.csv"])
    shown = ShownResult.of(rlm.completion("What?", "x"))
    assert shown.stop_reason == "iterations"
    assert shown.answer is not None
    assert "miss.csv was not written" in shown.answer_html()
    assert "miss.csv was not written" in shown.answer_text()


def test_a_draft_of_a_model_that_repeated_itself_says_what_is_missing_of_it() -> None:
    from rlm_jupyter.frontends.live.result import ShownResult

    played = ScriptedModel([block("print(1)"), *[block(DONE)] * 5])
    shown = ShownResult.of(RLM(played).completion("What?", CONTEXT, outputs=["miss.csv"]))
    assert shown.stop_reason == "no_progress"
    assert shown.answer is not None
    for said in (shown.answer_html(), shown.answer_text()):
        assert "miss.csv was not written" in said
        assert "the model repeated itself" not in said  # the headline says so


def test_whatever_ends_a_run_its_message_names_the_files_that_are_missing() -> None:
    same = [block(DONE)] * 5
    result = RLM(ScriptedModel([block("print(1)"), *same])).completion("What?", CONTEXT, outputs=["a.csv"])
    assert (result.stop_reason, result.message) == (
        "no_progress",
        "the model repeated itself. a.csv was not written",
    )
    died = RLM(model("import os; os._exit(1)"), limits=Limits(max_iterations=2), save=False)
    assert died.completion("What?", CONTEXT, outputs=["a.csv"]).message == "a.csv was not written"
    both = RLM(model("FINAL('many')"), limits=Limits(max_answer_errors=0))
    result = both.completion("What?", CONTEXT, outputs=["a.csv"], answer=int)
    assert result.message.endswith("not 'many'. a.csv was not written")
    assert result.path is not None
    assert not RLM.replay(result.path).differences
    stopped = Control()

    def stop(event: Event) -> None:
        if isinstance(event, CellStarted):
            stopped.stop()

    rlm = RLM(model("import time; time.sleep(60)"), save=False)
    result = asyncio.run(rlm.acompletion("What?", CONTEXT, outputs=["a.csv"], control=stopped, on_event=stop))
    assert (result.stop_reason, result.message) == ("cancelled", "you stopped it. a.csv was not written")


def test_files_are_gone_with_their_kernel_and_the_model_is_told() -> None:
    played = model(f"{TABLE}\nimport os; os._exit(1)", DONE, f"{TABLE}\n{DONE}")
    result = RLM(played).completion("What?", CONTEXT, outputs=["sales.csv"])
    assert result.stop_reason == "answered"
    died, missing = notices(result)
    assert died.endswith("The folder OUTPUTS is empty again: make its files once more.")
    assert "sales.csv is missing" in missing


def test_a_file_of_the_users_is_never_replaced_unless_they_say_so() -> None:
    Path("sales.csv").write_text("mine")
    rlm = RLM(model(f"{TABLE}\n{DONE}"))
    with pytest.raises(ConfigurationError, match="is there already"):
        rlm.completion("What?", CONTEXT, outputs=["sales.csv"])
    assert not Path("rlm_runs").exists()
    result = rlm.completion("What?", CONTEXT, outputs=["sales.csv"], replace=True)
    assert result.outputs["sales.csv"] == Path("sales.csv").absolute()
    assert Path("sales.csv").read_text().startswith("region")
    meanwhile = "open({!r}, 'w').write('mine')".format(str(Path("later.csv").absolute()))
    source = f"{meanwhile}\n(OUTPUTS / 'later.csv').write_text('a\\n1')\n{DONE}"
    result = RLM(model(source), sandbox="none").completion("What?", CONTEXT, outputs=["later.csv"])
    assert (Path("later.csv").read_text(), Path("later-2.csv").read_text()) == ("mine", "a\n1")
    assert result.outputs == {"later.csv": Path("later-2.csv").absolute()}
    assert "later.csv was there already, so the file is saved as later-2.csv" in result.message


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("../x.csv", "is a path: give the plain name"),
        ("/etc/x", "is a path: give the plain name"),
        ("a\\b", "is a path: give the plain name"),
        ("..", "is a path: give the plain name"),
        ("", "name of a file is needed"),
        ("a\nb", "no name that a file can have"),
        ("x" * 300, "no name that a file can have"),
        ("C:x", "no name that a file can have"),
        ("a.csv,b.png", "names several files"),
        ("CON", "no name that a file can have"),
        ("lpt1.csv", "no name that a file can have"),
        ("nul .tar.gz", "no name that a file can have"),
        ([{"nme": "a"}], "names of files"),
        ({"name": "a"}, "a list of names"),
        (Path("a/b"), "is a path: give the plain name"),
        (["a.csv", "a.csv"], "twice"),
        (["a.csv", "A.CSV"], "one file on some systems"),
        (["stra\u00dfe", "STRASSE"], "one file on some systems"),
        ([3], "names of files"),
        (3, "a list of names"),
        ([f"{n}.csv" for n in range(101)], "100 are the most"),
    ],
)
def test_what_is_no_name_is_refused_in_a_line_before_anything_is_spent(wanted: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        RLM(model(DONE)).completion("What?", CONTEXT, outputs=wanted)
    assert "\n" not in str(caught.value)
    assert not Path("rlm_runs").exists()


async def awaited(_: bytes) -> None: ...


def test_what_else_can_not_be_is_refused() -> None:
    for arguments, said in (
        ({"max_bytes": 0}, "whole number above 0"),
        ({"check": 3}, "is a function"),
        ({"check": awaited}, "is called, and not awaited: make it a plain function"),
        ({"check": lambda: True}, "called with the file's bytes: give it one parameter"),
        ({"description": 3}, "is a text"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            Artefact("a.csv", **arguments)
    Path("file").write_text("")
    for folder, said in (
        ("file", "is no folder"),
        ("a/b/c", "more than its last part"),
        (3, "path of a folder"),
        ("a\0b", "can't be"),
        ("~nosuchuser/x", "can't be used"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            RLM(model(DONE)).completion("What?", CONTEXT, outputs=["a.csv"], output_dir=folder)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="leave samples out"):
        RLM(ScriptedModel([lambda _: ""] * 9), samples=2, outputs=["a.csv"])
    with pytest.raises(ConfigurationError, match="say where files go"):
        RLM(model(DONE)).completion("What?", CONTEXT, replace=True)


def test_a_run_that_was_broken_off_is_resumed_with_its_files_and_its_folder() -> None:
    limits = Limits(max_answer_errors=0)
    first = RLM(model(f"{PLOT}\n{DONE}"), limits=limits).completion(
        "What?", CONTEXT, outputs=["plot.png", "sales.csv"], output_dir="made"
    )
    assert (first.stop_reason, [*first.outputs]) == ("answer_invalid", ["plot.png"])
    assert first.path is not None

    def reply(messages: Sequence[Message]) -> str:
        assert "sales.csv is missing" in messages[-1].content
        return block(f"{TABLE}\n{DONE}")

    again = RLM.resume(first.path, model=ScriptedModel([reply]), max_answer_errors=1)
    assert (again.stop_reason, [*again.outputs]) == ("answered", ["plot.png", "sales.csv"])
    # the picture, which its cell has drawn once more, is the same file
    assert {path.parent.name for path in again.outputs.values()} == {"made"}
    replayed = RLM.replay(first.path)
    assert not replayed.differences
    worse = RLM(model(DONE), limits=limits).completion("Which?", CONTEXT, outputs=["x.csv"])
    assert worse.path is not None
    ended = RLM.resume(worse.path, model=ScriptedModel([block(f"{TABLE}\n{DONE}")]), max_answer_errors=1)
    assert ended.stop_reason == "answer_invalid"  # the one before counts
    other = RLM(model(DONE), limits=limits).completion("What?", CONTEXT, outputs=["x.csv"])
    assert other.path is not None
    with pytest.raises(ConfigurationError, match="stay the same"):
        RLM.resume(other.path, model=ScriptedModel([]), outputs=["y.csv"], max_answer_errors=1)
    branch = RLM.fork(other.path, at=1, model=ScriptedModel([block(f"{TABLE}\n{DONE}")]), outputs=["sales.csv"])
    assert (branch.stop_reason, [*branch.outputs]) == ("answered", ["sales.csv"])


def test_a_fork_puts_its_files_where_the_run_has_put_them_last() -> None:
    limits = Limits(max_answer_errors=0)
    first = RLM(model(DONE), limits=limits).completion("What?", CONTEXT, outputs=["sales.csv"], output_dir="one")
    reply = block(f"{TABLE}\n{DONE}")
    assert first.path is not None
    again = RLM.resume(first.path, model=ScriptedModel([reply]), max_answer_errors=1, output_dir="two")
    assert {path.parent.name for path in again.outputs.values()} == {"two"}
    Path("one").mkdir()
    Path("one/sales.csv").write_text("mine")
    fork = RLM.fork(first.path, 0, model=model(f"{TABLE}\n{DONE}"), replace=True)
    assert {path.parent.name for path in fork.outputs.values()} == {"two"}
    assert Path("one/sales.csv").read_text() == "mine"


def test_a_check_that_is_in_no_record_has_to_be_given_again() -> None:
    wanted = [Artefact("a.csv", check=lambda content: b"1" in content)]
    first = RLM(model(DONE), limits=Limits(max_answer_errors=0)).completion("What?", CONTEXT, outputs=wanted)
    assert first.path is not None
    reply = block(f"(OUTPUTS / 'a.csv').write_text('a\\n1')\n{DONE}")
    with pytest.raises(ConfigurationError, match=r"check of a\.csv was a function"):
        RLM.resume(first.path, model=ScriptedModel([reply]), max_answer_errors=1)
    again = RLM.resume(first.path, model=ScriptedModel([reply]), max_answer_errors=1, outputs=wanted)
    assert again.stop_reason == "answered"


def test_follow_ups_and_children_make_no_files() -> None:
    cells = [
        "print(rlm_query('What?\\n\\ntext'))",
        "FINAL('OUTPUTS' in dir())",
        "print(1)",
        f"{TABLE}\n{DONE}",
        "FINAL(len(context))",
    ]
    rlm = RLM(ScriptedModel(list(map(block, cells))), limits=Limits(max_depth=2, max_kernels=4), outputs=["sales.csv"])
    with rlm.completion("What?", CONTEXT, keep_kernel=True) as result:
        assert result.trajectory.iterations[0].cells[0].outputs[0]["text"] == "False\n"
        further = result.ask("And?")
    assert (further.stop_reason, dict(further.outputs)) == ("answered", {})
    assert "OUTPUTS" not in further.trajectory.started.opening
    assert further.path is not None
    assert not RLM.replay(further.path).differences  # of the prompt before, too, whose cells write there


def test_without_a_record_the_files_are_there_all_the_same() -> None:
    result = RLM(model(f"{TABLE}\n{DONE}"), save=False).completion("What?", CONTEXT, outputs=["sales.csv"])
    assert result.outputs["sales.csv"].read_text().startswith("region")


def test_one_file_exports_hold_the_files() -> None:
    big = "(OUTPUTS / 'big.txt').write_text('x' * 10_000_001)"
    wanted = ["sales.csv", "sales.xlsx", "plot.png", "big.txt"]
    source = f"{TABLE}\n{BOOK}\n{PLOT}\n{big}\n{DONE}"
    result = RLM(model(source)).completion("What?", CONTEXT, outputs=wanted)
    assert result.path is not None
    saved = result.save("whole.ipynb")
    whole = nbformat.read(saved, 4)
    nbformat.validate(whole)
    answer = whole.cells[1]
    contents = {name: base64.b64decode(*kinds.values()) for name, kinds in answer.attachments.items()}
    assert contents == {name: result.outputs[name].read_bytes() for name in wanted[:3]}
    assert "![plot.png (" in answer.source
    assert "](attachment:sales.csv)" in answer.source
    page = to_html(result.path)
    table = base64.b64encode(contents["sales.csv"]).decode()
    assert f'<a href="data:application/octet-stream;base64,{table}" download="sales.csv">sales.csv</a>' in page
    assert 'src="data:image/png;base64,' in page
    ended = result.trajectory.ended
    assert ended is not None
    assert "big.txt, 10.0 MB, not in this page" in page
    assert ended.files[3]["sha256"] in page


def test_an_export_carries_no_key_that_stands_in_a_file() -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    source = f"(OUTPUTS / 'a.txt').write_text('key ' + 'sk-ant-api03-' + 'a1B2' * 12)\n{BOOK}\n{DONE}"
    result = RLM(model(source)).completion("What?", CONTEXT, outputs=["a.txt", "sales.xlsx"])
    assert key in result.outputs["a.txt"].read_text()
    files = SavedRun.load(str(result.path)).files
    sent = send(files, "ipynb", "out.ipynb")
    assert sent.path is not None
    attachments = nbformat.read(sent.path, 4).cells[1].attachments
    assert [*attachments] == ["a.txt"]
    assert base64.b64decode(*attachments["a.txt"].values()) == b"key [key 1]"
    assert "sales.xlsx" in sent.said[-1]
    assert key not in sent.path.read_text()


@pytest.mark.slow
def test_on_the_command_line() -> None:
    Path("text.txt").write_text(CONTEXT)
    played = script(*map(block, ["print(1)", f"{TABLE}\n{DONE}"]))
    ask = ["run", "Sum it up.", "-c", "text.txt", "-m", played, "--output", "sales.csv", "--output-dir", "made"]
    done = cli(*ask)
    assert (done.code, done.out.strip()) == (0, "made")
    assert f"File: {Path('made/sales.csv')}" in done.err
    again = cli(*ask)
    assert (again.code, len(again.err.splitlines())) == (2, 1)
    assert "is there already: name another folder by --output-dir, or add --replace" in again.err
    told = json.loads(cli(*ask, "--replace", "--json").out)
    assert told["outputs"] == {"sales.csv": str(Path("made/sales.csv").absolute())}
    played = script(*map(block, ["print(1)", "FINAL(4)"]), name="never.json")
    never = ["run", "?", "-c", "text.txt", "-m", played, "--output", "never.csv", "--max-answer-errors", "0"]
    done = cli(*never)
    assert (done.code, done.out.strip()) == (1, "4")
    assert (
        "Ended early, with the best answer so far: the answer or its files are not as they were asked for "
        "(--max-answer-errors 1 lets it try again). never.csv was not written.\n" in done.err
    )
    gone = f"import shutil; shutil.rmtree({str(Path('gone').absolute())!r})"
    played = script(*map(block, ["print(1)", f"{gone}\n{TABLE}\n{DONE}"]), name="gone.json")
    lost = ["run", "?", "-c", "text.txt", "-m", played, "--output", "sales.csv", "--output-dir", "gone"]
    done = cli(*lost, "--sandbox", "none")
    assert (done.code, done.out.strip()) == (1, "made")
    assert f"sales.csv could not be written to {Path('gone').absolute()}" in done.err
    for bad, said in (
        (["--output", "a/b"], "is a path: give the plain name"),
        (["--replace"], "name these by --output"),
    ):
        done = cli("run", "?", "-c", "text.txt", "-m", played, *bad)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert said in done.err


@pytest.mark.slow
def test_on_the_command_line_a_run_is_gone_on_with_where_its_files_may_go() -> None:
    Path("text.txt").write_text(CONTEXT)
    played = script(*map(block, ["print(1)", f"{TABLE}\n{DONE}"]))
    cli("run", "Sum it up.", "-c", "text.txt", "-m", played, "--output", "sales.csv", "--max-iterations", "1")
    assert not Path("sales.csv").exists()
    Path("sales.csv").write_text("mine")
    resume = ["resume", "--max-iterations", "3", "-m", played, "-y"]
    refused = cli(*resume)
    assert (refused.code, len(refused.err.splitlines())) == (2, 2)  # the first says which run
    assert "name another folder by --output-dir, or add --replace" in refused.err
    assert cli(*resume, "--output-dir", "made").code == 0
    assert ([*left("made")], Path("sales.csv").read_text()) == (["sales.csv"], "mine")
    fork = ["fork", "--at", "1", "-m", played, "-y", "--output-dir", "."]
    assert "add --replace" in cli(*fork).err
    assert cli(*fork, "--replace").code == 0
    assert Path("sales.csv").read_text().startswith("region")


def test_in_the_magic_also_from_the_record(shell: InteractiveShell) -> None:
    Path("m.json").write_text(json.dumps({"replies": list(map(block, ["print(1)", f"{TABLE}\n{DONE}"]))}))
    run_cell(shell, f"book = {CONTEXT!r}")
    ask = "%%rlm -c book -m scripted/m.json --output sales.csv -o made\nSum it up."
    shown, error = run_cell(shell, ask)
    assert error is None
    assert "File: sales.csv (21 bytes)" in shown
    result = shell.user_ns["made"]
    assert '<a href="sales.csv" target="_blank">sales.csv</a>' in result._repr_html_()
    shown, error = run_cell(shell, ask)
    assert error is None
    assert "no model was asked" in shown
    Path("sales.csv").unlink()
    run_cell(shell, ask)  # from the record, which has it
    run_cell(shell, ask.replace("--output sales.csv", "--output sales.csv --output-dir other"))
    assert Path("other/sales.csv").read_text() == Path("sales.csv").read_text()
    assert Path("sales.csv").read_text().startswith("region")
    Path("sales.csv").write_text("mine")
    run_cell(shell, ask)
    assert (Path("sales.csv").read_text(), shell.user_ns["made"].outputs["sales.csv"].name) == ("mine", "sales-2.csv")
    _, error = run_cell(shell, ask.replace("-o made", "--rerun"))
    assert isinstance(error, ConfigurationError)
    assert "--replace" in str(error)


def test_the_kernel_of_the_notebook_is_refused(in_folder: Path) -> None:
    Path("m.json").write_text(json.dumps({"replies": [block(DONE)]}))
    with Notebook(in_folder) as notebook:
        said = notebook.run("%%rlm --here -m scripted/m.json --output a.csv\nWhat?").error
        assert "leave --output out" in said


def test_the_example_of_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text()
    example = page.split("```python\n")[1].partition("```")[0]
    high = PLOT.replace("plt.plot", "plt.figure(figsize=(2, 5)); plt.plot").replace("plot.png", "sales.png")
    book = BOOK + "\n"
    wide = high.replace("(2, 5)", "(5, 2)")
    cells = ["print(1)", f"{book}{high}\n{DONE}", f"{wide}\n{DONE}"]
    Path("m.json").write_text(json.dumps({"replies": list(map(block, cells))}))
    Path("sales.csv").write_text("region,sold\nNorth,40\n" * 200)
    names: dict[str, Any] = {}
    source = example.replace("ollama/qwen3:8b", "scripted/m.json")
    exec(compile(source, "example", "exec", dont_inherit=True), names)
    result = names["result"]
    assert result.outputs == {name: Path("reports", name).absolute() for name in ("sales.xlsx", "sales.png")}
    assert (
        notices(result)[0]
        .partition("\n- ")[2]
        .startswith("sales.png is not as it was asked for: it is 200 x 500: make it wider than high")
    )
    assert "- sales.png: a bar for each region" in result.trajectory.started.opening


def test_of_files_folder_and_replacing_a_call_changes_what_it_is_given_and_nothing_else() -> None:
    """What `RLM` was given holds for the rest: else a file of the user's would be replaced, elsewhere."""
    made = f"{TABLE}\n{DONE}"
    Path("sales.csv").write_text("mine")
    rlm = RLM(model(made), save=False, outputs=["sales.csv"], output_dir="reports")
    result = rlm.completion("What?", CONTEXT, replace=True)
    assert result.outputs == {"sales.csv": Path("reports/sales.csv").absolute()}
    assert Path("sales.csv").read_text() == "mine"
    with pytest.raises(ConfigurationError, match="is there already"):
        rlm.completion("What?", CONTEXT)
    other = f"(OUTPUTS / 'other.csv').write_text('a\\n1')\n{DONE}"
    result = RLM(model(other), save=False, outputs=["sales.csv"], output_dir="reports").completion(
        "What?", CONTEXT, outputs=["other.csv"]
    )
    assert result.outputs == {"other.csv": Path("reports/other.csv").absolute()}
    replacing = RLM(model(made), save=False, outputs=["sales.csv"], replace=True)
    Path("reports/sales.csv").write_text("before")
    result = replacing.completion("What?", CONTEXT, output_dir="reports")
    assert result.outputs == {"sales.csv": Path("reports/sales.csv").absolute()}
    assert Path("reports/sales.csv").read_text().startswith("region")
    with pytest.raises(ConfigurationError, match="is there already"):
        replacing.completion("What?", CONTEXT, replace=False)
    assert Path("sales.csv").read_text() == "mine"


def test_files_are_put_in_their_place_once_with_the_answer_that_was_accepted() -> None:
    """An answer of another form beside sound files is a draft, and so are the files."""
    cells = [
        f"(OUTPUTS / 'a.txt').write_text({text!r})\nFINAL({answer!r})" for text, answer in (("old", "no"), ("new", 3))
    ]
    result = RLM(model(*cells), save=False).completion(
        "What?", CONTEXT, answer=int, outputs=Path("a.txt"), output_dir="made"
    )
    assert (result.value, result.message, left("made")) == (3, "", {"a.txt": "new"})
    gone = "(OUTPUTS / 'a.txt').unlink()"
    limits = Limits(max_iterations=3)
    result = RLM(model(cells[0], gone), limits=limits, save=False).completion(
        "What?", CONTEXT, answer=int, outputs="a.txt", output_dir="none"
    )
    assert (result.stop_reason, dict(result.outputs), left("none")) == ("iterations", {}, {})


def test_a_draft_replaces_nothing() -> None:
    Path("a.txt").write_text("mine")
    draft = "(OUTPUTS / 'a.txt').write_text('draft')\nFINAL('no')"
    result = RLM(model(draft), limits=Limits(max_answer_errors=0), save=False).completion(
        "What?", CONTEXT, answer=int, outputs="a.txt", replace=True
    )
    assert (result.stop_reason, left(".")) == ("answer_invalid", {"a-2.txt": "draft", "a.txt": "mine"})
    assert result.outputs == {"a.txt": Path("a-2.txt").absolute()}
    assert "a.txt was there already, so the file is saved as a-2.txt" in result.message


def test_a_run_that_fails_or_is_cancelled_brings_what_is_whole() -> None:
    with pytest.raises(ModelError):  # the script is over
        RLM(model(TABLE)).completion("What?", CONTEXT, outputs=["sales.csv"], output_dir="failed")
    assert [*left("failed")] == ["sales.csv"]
    [saved] = [SavedRun.load(path) for path in Path("rlm_runs").glob("*.ipynb")]
    assert saved.trajectory.ended is not None
    assert [file["path"] for file in saved.trajectory.ended.files] == [str(Path("failed/sales.csv").absolute())]

    async def cancel() -> None:
        rlm = RLM(model(TABLE, "import time\nprint('begun', flush=True)\ntime.sleep(600)"), save=False)
        begun = asyncio.Event()

        def look(event: Event) -> None:
            if isinstance(event, CellStarted) and "begun" in event.source:
                loop.call_soon_threadsafe(begun.set)

        loop = asyncio.get_running_loop()
        run = asyncio.create_task(
            rlm.acompletion("What?", CONTEXT, outputs=["sales.csv"], output_dir="cancelled", on_event=look)
        )
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel())
    assert [*left("cancelled")] == ["sales.csv"]


def test_files_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlm_jupyter.run.artefacts._MOST_BYTES_IN_ALL", 100)
    wanted = [Artefact(f"{name}.txt", max_bytes=80) for name in "ab"]
    source = "for name in 'ab':\n    (OUTPUTS / f'{name}.txt').write_text('x' * 60)\n"
    rlm = RLM(model(source + DONE), limits=Limits(max_answer_errors=0), save=False)
    result = rlm.completion("What?", CONTEXT, outputs=wanted)
    said = "b.txt has 60 bytes; 40 are the most here, because all files together may have 100"
    assert (result.stop_reason, result.message, [*result.outputs]) == ("answer_invalid", said, ["a.txt"])


def test_a_resumed_run_puts_its_files_in_place_of_those_that_it_brought_before() -> None:
    partial = "(OUTPUTS / 'a.txt').write_text('partial')"
    final = block(f"(OUTPUTS / 'a.txt').write_text('final')\n{DONE}")
    limits = Limits(max_iterations=2)
    first = RLM(model(partial), limits=limits).completion("What?", CONTEXT, outputs="a.txt", output_dir="made")
    assert (first.stop_reason, left("made")) == ("iterations", {"a.txt": "partial"})
    assert first.path is not None
    Path("made/a.txt").write_text("partial, and mine")
    with pytest.raises(ConfigurationError, match=r"made.a\.txt is there already"):
        RLM.resume(first.path, model=ScriptedModel([]), max_iterations=4)
    Path("made/a.txt").write_text("partial")
    again = RLM.resume(first.path, model=ScriptedModel([final]), max_iterations=4)
    assert (again.stop_reason, again.message, left("made")) == ("answered", "", {"a.txt": "final"})
    with pytest.raises(ConfigurationError, match="is there already"):
        RLM.fork(first.path, at=1, model=ScriptedModel([]))
    other = final.replace("final", "fork")
    branch = RLM.fork(first.path, at=1, model=ScriptedModel([other]), replace=True)
    assert (branch.stop_reason, left("made")) == ("answered", {"a.txt": "fork"})


def test_a_folder_that_is_gone_is_made_again_or_refused_before_anything_is_asked() -> None:
    limits = Limits(max_iterations=2)
    first = RLM(model("print(1)"), limits=limits).completion("What?", CONTEXT, outputs="sales.csv", output_dir="made")
    assert first.path is not None
    assert not Path("made").exists()
    Path("made").write_text("")
    with pytest.raises(ConfigurationError, match="is no folder"):
        RLM.resume(first.path, model=ScriptedModel([]), max_iterations=4)
    Path("made").unlink()
    again = RLM.resume(first.path, model=ScriptedModel([block(f"{TABLE}\n{DONE}")]), max_iterations=4)
    assert again.outputs == {"sales.csv": Path("made/sales.csv").absolute()}


def test_a_picture_begins_like_one() -> None:
    source = (
        "(OUTPUTS / 'sound.wav').write_bytes(b'RIFF0000WAVE\\xff')\n(OUTPUTS / 'a.webp').write_bytes(b'RIFF0000WEBP')\n"
    )
    result = RLM(model(source + DONE)).completion("What?", CONTEXT, outputs=["sound.wav", "a.webp"])
    assert result.path is not None
    [attached] = [
        cell.attachments for cell in nbformat.read(result.save("whole.ipynb"), 4).cells if "attachments" in cell
    ]
    kinds = {name: [*content] for name, content in attached.items()}
    assert kinds == {"sound.wav": ["application/octet-stream"], "a.webp": ["image/webp"]}
    sent = send(SavedRun.load(result.path).files, "ipynb", "out.ipynb")
    assert "sound.wav" in sent.said[-1]  # it can't be looked through for keys


def test_where_a_run_fails_the_error_says_what_of_its_files_is_missing() -> None:
    with pytest.raises(ModelError) as failed:
        RLM(model("print(1)")).completion("What?", CONTEXT, outputs=["sales.csv"])
    assert "no replies are left in the script at request 3. sales.csv was not written. The run so far is" in str(
        failed.value
    )
    script(block("print(1)"), name="fails.json")
    done = cli("run", "?", "-m", "scripted/fails.json", "--output", "sales.csv")
    assert re.search(r"no replies are left in the script at request \d\. sales\.csv was not written\.", done.err)


def test_a_folder_that_a_run_has_made_and_left_empty_is_removed_again() -> None:
    Path("theirs").mkdir()

    def run(folder: str, *cells: str) -> Result:
        rlm = RLM(model(*cells), limits=Limits(max_iterations=2))
        return rlm.completion("What?", CONTEXT, outputs=["sales.csv"], output_dir=folder)

    assert "sales.csv was not written" in run("theirs", DONE).message
    failed = run("new", DONE)
    assert "sales.csv was not written" in failed.message
    assert not Path("new").exists()
    assert Path("theirs").is_dir()
    assert failed.path is not None
    resumed = RLM.resume(failed.path, model=model(DONE, TABLE + "\n" + DONE), max_iterations=6)
    assert resumed.answer == "made"
    assert Path("new/sales.csv").is_file()
