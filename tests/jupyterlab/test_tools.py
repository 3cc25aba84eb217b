"""Calls of tools in a real JupyterLab: they stand below the cell that made them, folded."""

from __future__ import annotations

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import texts

pytestmark = pytest.mark.slow

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


ASKING = '''from rlm_jupyter import Tool
sent = []
def send(to: str) -> str:
    """Send a letter."""
    sent.append(to)
    return f"sent to {to}"
post = Tool(send, approval="always")'''
LETTERS = """```repl
for name in ["Abel", "Berta", "Cäsar", "Dora"]:
    try:
        print(send(name))
    except SubcallError as error:
        print(error)
```"""


def test_a_call_that_asks_is_allowed_and_refused_by_buttons_below_its_cell(opened: Open, model: Waiting) -> None:
    model.play([LETTERS, "```repl\nFINAL('done')\n```"], opened=2)
    page = opened(ASKING, "%%rlm -m openai/any --rerun --tool post\nWrite to all.", "print(sent)")
    page.run("user-1")
    page.run("user-2")
    strip = page.page.locator(".rlm-proposal")
    bar = page.page.locator(".rlm-bar")
    page.until(lambda: 'send("Abel")' in strip.inner_text() or "send('Abel')" in strip.inner_text(), "the first call")
    assert not page.page.locator(".jp-Stdin").count()
    assert "A call of send waits for your approval" in bar.inner_text()
    status = page.page.locator(".rlm-status")
    page.until(lambda: status.inner_text().startswith("RLM: a call of send waits"), "the status bar")
    page.picture("call-proposed", 300)
    strip.get_by_role("button", name="Call:").click()
    page.until(lambda: "Berta" in strip.inner_text(), "the second call")
    strip.get_by_role("button", name="Refuse…").click()
    dialog = page.page.get_by_role("dialog")
    dialog.locator("input").fill("not her")
    page.page.keyboard.press("Enter")
    page.until(lambda: "Cäsar" in strip.inner_text(), "the third call")
    # what is called is to be seen, wherever its cell is
    page.command("notebook:delete-cell", on=page.live("code")[0]["id"])
    page.until(lambda: page.cell("user-2").locator(".rlm-proposal").count(), "that it is shown where the run was asked")
    assert "Cäsar" in strip.inner_text()
    page.command("notebook:undo-cell-action")
    page.until(lambda: page.live("code"), "the cell")
    strip.get_by_role("button", name="Call All of send").click()
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    assert not strip.count()
    output = texts(page.live("code")[0])
    assert "sent to Abel\n" in output
    assert "The person refused this call. Their message: not her" in output
    assert "sent to Cäsar\nsent to Dora\n" in output
    page.run("user-3")
    page.until(lambda: texts(page.cells()[-1]) == "['Abel', 'Cäsar', 'Dora']\n", "what was sent")
    assert page.errors == []
