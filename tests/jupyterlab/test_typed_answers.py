"""An answer of a type in a real JupyterLab: a table for the reader, an instance for the next cell."""

from __future__ import annotations

import pytest

from tests.jupyterlab.conftest import Open, Waiting

pytestmark = pytest.mark.slow

TYPES = "from dataclasses import dataclass\n@dataclass\nclass Row:\n    city: str\n    total: float\ntext = 'x' * 1234"
ASK = '%%rlm -m openai/any -c text --rerun --answer "list[Row]"\nWhat is the total of each city?'
LOOK = "```repl\nprint(len(context))\n```"
WRONG = "```repl\nFINAL([{'city': 'Rome'}])\n```"
RIGHT = "```repl\nFINAL([{'city': 'Rome', 'total': 3.5}, {'city': 'Köln | Bonn', 'total': '$4'[1:]}])\n```"


def test_rows_are_a_table_and_instances(opened: Open, model: Waiting) -> None:
    model.play([LOOK, WRONG, RIGHT], opened=3)
    page = opened(TYPES, ASK, "rlm_result.value[1]")
    for cell in ("user-1", "user-2"):
        page.run(cell)
    page.until(lambda: page.live("answer"), "the answer")
    assert "| Rome | 3.5 |\n| Köln \\| Bonn | 4.0 |" in page.live("answer")[0]["source"]
    [notice] = page.live("notice")
    assert "total: field required" in notice["source"]
    table = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) table")
    page.until(lambda: table.count(), "a table")
    assert table.last.locator("td").all_inner_texts() == ["Rome", "3.5", "Köln | Bonn", "4.0"]
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    page.run("user-3")
    cell = page.until(lambda: [c for c in page.cells() if c["id"] == "user-3" and c["outputs"]], "the value")[0]
    assert cell["outputs"][0]["data"]["text/plain"] == "Row(city='Köln | Bonn', total=4.0)"
    page.picture("typed", 500)
