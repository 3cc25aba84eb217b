"""Cells of a session in a real JupyterLab: one kernel, one notebook, and nothing to pay the second time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import Lab, texts

pytestmark = pytest.mark.slow

FIRST = "%%rlm --session notes -m openai/any -c text\nHow long is it?"
SECOND = "%%rlm --session notes -c more -o second\nAnd this?"
LOOK = "I look.\n```repl\nseen = len(context)\nprint(seen)\n```"
AGAIN = "I compare.\n```repl\nprint(seen, len(context), context_0[:3], history[0]['answer'])\n```"


def test_a_sessions_second_prompt_is_live_and_all_of_it_is_free_the_second_time(
    opened: Open, model: Waiting, lab: Lab
) -> None:
    model.play([LOOK, "```repl\nFINAL(seen)\n```", AGAIN, "```repl\nFINAL(seen + len(context))\n```"], opened=4)
    page = opened("text = 'x' * 1234\nmore = 'y' * 66", FIRST, SECOND, "second.value, str(second.path)")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "the first answer")
    page.run("user-3")
    page.until(lambda: page.live("answer")[1:], "the second answer")
    cells = page.live()
    roles = [cell["metadata"]["rlm"]["role"] for cell in cells]
    assert roles.count("answer") == 2
    assert [cell["source"] for cell in page.live("answer")] == ["**Answer**\n\n1234", "**Answer**\n\n1300"]
    look, compare = (cell for cell in page.live("code") if "print" in cell["source"])
    assert "1234 66 xxx 1234" in texts(compare)
    # the cells of each prompt stand below the cell that asked it
    order = [cell["id"] for cell in page.cells()]
    assert order.index("user-2") < order.index(look["id"]) < order.index("user-3") < order.index(compare["id"])
    page.picture("session")
    asked = len(model.requests)

    page.command("notebook:restart-run-all", wait=False)
    page.page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.until(lambda: "1300" in texts(page.cells()[-1]), "the last cell has run")
    assert len(model.requests) == asked
    answers = ["**Answer**\n\n1234", "**Answer**\n\n1300"]
    page.until(lambda: [cell["source"] for cell in page.live("answer")] == answers, "both answers, again")
    page.picture("session-again")
    [notebook] = [path for path in Path(lab.folder).rglob("notes.ipynb") if path.parent.name == "rlm_runs"]
    ours = json.loads(notebook.read_bytes())["metadata"]["rlm"]
    assert [one["prompt"] for one in ours["prompts"]] == [2]
