"""Calls of tools in a real JupyterLab: they stand below the cell that made them, folded."""

from __future__ import annotations

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import texts

TOOL = '''text = "Abel complains. " * 20
def orders(customer: str, most: int = 2) -> list[dict]:
    """List the orders of a customer."""
    if not customer: raise LookupError("nobody")
    return [{"customer": customer, "item": item} for item in ["pears", "plums"][:most]]'''
CELL = """I ask for the orders.
```repl
for name in ["Abel", ""]:
    try:
        print(orders(name, most=1))
    except SubcallError as error:
        print(error)
```"""


def test_calls_of_a_tool_stand_below_their_cell_with_arguments_and_results(opened: Open, model: Waiting) -> None:
    model.play([CELL, "```repl\nFINAL('pears')\n```"], opened=2)
    page = opened(TOOL, "%%rlm -m openai/any -c text --rerun --tool orders\nWhat was ordered?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("answer"), "the answer")
    [calls] = page.live("subcalls")
    source = str(calls["source"])
    assert "<summary>2 tool calls, 1 failed, the slowest" in source
    assert "orders(&quot;Abel&quot;, 1)" in source
    assert "LookupError: nobody." in source
    [output] = [texts(cell) for cell in page.live("code") if "orders(name" in str(cell["source"])]
    assert output == "[{'customer': 'Abel', 'item': 'pears'}]\nLookupError: nobody.\n"
    for summary in page.cell(str(calls["id"])).locator("summary:visible").all():
        summary.click()
    page.picture("tools", 400)
    assert page.errors == []
