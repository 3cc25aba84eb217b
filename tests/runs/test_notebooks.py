"""The guides in `notebooks/` run, and the values that they are kept with are still true.

What they print is the same each time; that of the policies is the list that the package has, and is compared, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from rlm_jupyter.record.store import RunFiles

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def results(notebook: Any) -> list[str]:
    """What the cells' last expressions were."""
    return [
        output["data"]["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]


def printed(notebook: Any) -> list[str]:
    """What each cell wrote to standard output."""
    written = [[o.text for o in cell.get("outputs", ()) if o.get("name") == "stdout"] for cell in notebook.cells]
    return ["".join(texts) for texts in written]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_guide_runs_and_its_results_are_those_it_shows_also_the_second_time(path: Path, tmp_path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert results(kept)
    outputs: list[list[str]] = []
    for _ in range(2):
        fresh = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(fresh, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
        assert results(fresh) == results(kept)
        outputs.append(printed(fresh))
    assert outputs[0] == outputs[1]
    if path.stem == "policies":
        assert outputs[0] == printed(kept)


def test_the_quick_start_asks_nothing_twice(tmp_path: Path) -> None:
    [path] = [path for path in NOTEBOOKS if path.stem == "quickstart"]
    fresh = nbformat.read(path, as_version=4)
    in_python = next(place for place, cell in enumerate(fresh.cells) if cell.source.startswith("## In Python"))
    del fresh.cells[in_python:]
    for _ in range(2):
        nbclient.NotebookClient(fresh, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
        [notebook] = (tmp_path / "rlm_runs").glob("*.ipynb")
        assert len(RunFiles(notebook).prompts()) == 2  # the second question stands in the notebook of the first


def test_there_is_a_quick_start_and_a_tour() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {"quickstart", "tour"}
