"""A saved run's notebook, executed by somebody else: the same outputs, and nobody is asked."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.kernel.guest.subcall_client import SubcallError, SubcallFailure
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.replay.recorded_calls import KernelCalls
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell

CELLS = [
    "print(type(context).__name__, len(context))\nSHOW_VARS()",
    # the same prompt twice, with two answers; and a batch in which one fails
    "first = llm_query('same')\nsecond = llm_query('same')\nprint(first, second)\n"
    "for text in llm_query_batched(['a', 'b']): print(text)",
    "try:\n    llm_query('b')\nexcept SubcallError as error:\n    print('refused:', error)\nprint(await allm_query('same'))",
    "context = 'overwritten'\nprint(context)",
    "print(len(context))\n%llm_query what of this?",
    "1/0",
    "FINAL(the answer (with parens))",
]


def block(source: str) -> str:
    return f"I run this.\n```repl\n{source}\n```"


def counting(prompt: str) -> str:
    counting.uses += 1  # type: ignore[attr-defined]
    return f"{prompt} answered {counting.uses}"  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    counting.uses = 0  # type: ignore[attr-defined]


async def recorded(cells: list[str], context: object = "some text " * 20_000) -> Result:
    from rlm_jupyter.types.errors import ModelUnavailableError

    def sub(prompt: str) -> str:
        if prompt == "b":
            raise ModelUnavailableError("nobody home")
        return counting(prompt)

    model = ScriptedModel([block(cell) for cell in cells], sub=sub)
    return await RLM(model, limits=Limits(max_iterations=20)).acompletion("What is it?", context)


def outputs(document: Any) -> list[list[Any]]:
    """The outputs of the run's cells: those in which the record and a new execution must agree."""
    return [
        [plain(output) for output in cell.outputs if output.get("metadata", {}).get("rlm") is None]
        for cell in document.cells
        if cell.cell_type == "code" and cell.metadata.rlm.role == "code"
    ]


def plain(output: Any) -> Any:
    if output.output_type == "error":
        return output.ename, output.evalue
    return output.get("text") or dict(output.data)


async def test_a_saved_notebook_gives_the_same_outputs_in_a_fresh_kernel() -> None:
    result = await recorded(CELLS)
    assert result.answer == "the answer (with parens)"
    assert result.path is not None
    before = nbformat.read(result.path, as_version=4)
    assert before.cells[2].source == f"%load_ext rlm_jupyter\n%rlm_restore {result.trajectory.run_id}"
    again = nbformat.read(result.path, as_version=4)
    for cell in again.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    await NotebookClient(again, timeout=60, resources={"metadata": {"path": str(result.path.parent)}}).async_execute()
    expected = outputs(before)
    assert outputs(again) == expected
    assert (
        expected[1][0] == "same answered 1 same answered 2\na answered 3\n[no answer: nobody home]\n"
    )  # it had been asked
    assert "`context` is back (str, 200,000 characters); its 7 sub-calls are answered" in again.cells[2].outputs[0].text
    [final] = [
        output for cell in again.cells for output in cell.get("outputs", []) if output.get("metadata", {}).get("rlm")
    ]
    assert final.data["text/plain"] == "the answer (with parens)"


async def test_the_notebook_alone_is_enough_when_its_context_is_small() -> None:
    result = await recorded([CELLS[0], "print(llm_query('same'))", "FINAL(len(context))"], {"a": [1]})
    assert result.path is not None
    Path("elsewhere").mkdir()
    alone = shutil.move(result.path, "elsewhere/renamed.ipynb")
    document = nbformat.read(alone, as_version=4)
    shutil.rmtree("rlm_runs")
    expected = outputs(document)
    await NotebookClient(document, timeout=60, resources={"metadata": {"path": "elsewhere"}}).async_execute()
    assert outputs(document) == expected


async def test_files_are_made_again_in_a_folder_of_the_session_and_history_is_there() -> None:
    cells = ["(OUTPUTS / 'a.txt').write_text('made'); print(len(history), (OUTPUTS / 'a.txt').exists())", "FINAL('ok')"]
    rlm = RLM(ScriptedModel([block(cell) for cell in cells]), outputs=["a.txt"], output_dir="made")
    result = await rlm.acompletion("Make it.", "some text")
    Path("made/a.txt").write_text("changed since")
    assert result.path is not None
    document = nbformat.read(result.path, as_version=4)
    expected = outputs(document)
    assert expected[0] == ["0 True\n"]
    await NotebookClient(document, timeout=60).async_execute()
    assert outputs(document) == expected
    assert Path("made/a.txt").read_text() == "changed since"


def test_what_was_not_asked_is_refused_and_the_reader_may_use_the_names(shell: InteractiveShell) -> None:
    result = asyncio.run(recorded(["print(llm_query('same'))", "FINAL(1)"]))
    restore = f"%rlm_restore {result.trajectory.run_id}"
    assert "its 1 sub-call is answered" in run_cell(shell, restore)[0]
    assert run_cell(shell, "print(llm_query('same'))")[0] == "same answered 1\n"
    assert run_cell(shell, "print(llm_query('same'))")[0] == "same answered 1\n"  # executed again, the same
    text, error = run_cell(shell, "llm_query('never asked')")
    assert isinstance(error, SubcallError)
    assert "only replays a recorded run, in which 'never asked' was not asked" in text
    assert "--rerun" in text
    run_cell(shell, "context = 'mine'")
    assert run_cell(shell, "print(context)")[0] == "mine\n"
    run_cell(shell, "value = 3.5")
    assert "3.5" in run_cell(shell, "FINAL_VAR(value)")[0]
    assert "4" in run_cell(shell, "FINAL(4)")[0]
    before = len(shell.input_transformers_cleanup), len(shell.ast_transformers)
    run_cell(shell, restore)
    assert (len(shell.input_transformers_cleanup), len(shell.ast_transformers)) == before
    assert run_cell(shell, "print(len(context))")[0] == "200000\n"


def test_cells_may_be_executed_in_any_order_and_again(shell: InteractiveShell) -> None:
    one, two = "print(llm_query('same'))  # one", "print(llm_query('same'))  # two"
    result = asyncio.run(recorded([one, two, "FINAL(1)"]))
    run_cell(shell, f"%rlm_restore {result.trajectory.run_id}")
    assert [run_cell(shell, source)[0][-2] for source in (two, one, one, two)] == ["2", "1", "1", "2"]


async def test_a_call_is_found_by_its_place_then_by_its_prompt_and_never_by_arrival() -> None:
    result = await recorded(
        ["a = [llm_query('same'), llm_query('same')]", "b = llm_query('same')", "llm_query_batched(['b'])", "FINAL(1)"]
    )
    calls = KernelCalls(result.trajectory)
    calls.begin((2, 0))
    assert calls.call("llm", ["same"], None) == ["same answered 3"]
    calls.begin((1, 0))
    assert calls.call("llm", ["same", "same"], None) == ["same answered 1", "same answered 2"]
    assert calls.call("llm", ["same"], "another/model") == ["same answered 1"]  # by the prompt alone
    [failure] = await calls.acall("llm", ["b"], None)
    assert isinstance(failure, SubcallFailure)
    assert "nobody home" in str(failure)
    backwards = KernelCalls(result.trajectory)
    backwards._in_run.clear()
    backwards.begin((1, 0))
    assert backwards.call("llm", ["same"], None) == ["same answered 1"]
    with pytest.raises(SubcallError, match="was not asked"):
        calls.call("llm", ["x" * 1000], None)


def test_cells_that_look_at_the_past_see_what_they_saw(shell: InteractiveShell) -> None:
    cells = ["print('early')", "print([one.outputs for one in trajectory], trajectory.search('EARLY', most=1)[0].part)"]
    result = asyncio.run(recorded([*cells, "FINAL(len(trajectory))"]))
    assert result.answer == "2"
    run_cell(shell, f"%rlm_restore {result.trajectory.run_id}")
    for _ in range(2):
        run_cell(shell, cells[0])
        assert run_cell(shell, cells[1])[0] == "['early'] outputs\n"
