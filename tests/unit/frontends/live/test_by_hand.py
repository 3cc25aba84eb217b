"""Live cells that a person executes, in real kernels: they run where their run's variables are, or nowhere."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.frontends.live import user_cells as by_hand
from tests.support.here import Notebook, Shown
from tests.support.loopback import Fault, Loopback, Request, Said

pytestmark = pytest.mark.slow

LOOK = "```repl\nsize = len(context)\nwho = llm_query('who?')\nprint(size, who)\n```"
FINAL = "```repl\nFINAL(who)\n```"
SECRET = "```repl\nimport os\nsecret = 'the model was here'\nprint(secret)\n```"


class Model(Loopback):
    """Plays its script at the root; sub-calls have an answer of their own."""

    script: list[str]

    async def reply_to(self, request: Request) -> Said | Fault:
        if len(request.messages) == 1:
            return Said(f"**nobody** {len(self.requests)}")
        return Said(self.script.pop(0))


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as server:
        yield server


@pytest.fixture(scope="module")
def shared(model: Model) -> Iterator[Notebook]:
    short = "/tmp" if Path("/tmp").is_dir() else None  # sockets want it short
    with (
        tempfile.TemporaryDirectory(dir=short, ignore_cleanup_errors=True) as folder,
        Notebook(Path(folder), OPENAI_BASE_URL=model.openai_url, OPENAI_API_KEY="k") as notebook,
    ):
        yield notebook


@pytest.fixture
def notebook(shared: Notebook) -> Iterator[Notebook]:
    yield shared
    shared.run("rlm_result.close() if 'rlm_result' in globals() else None\n%reset -f")


def ask(
    notebook: Notebook, model: Model, *script: str, options: str = "--rerun", cell: str = "asking"
) -> list[dict[str, Any]]:
    """Ask, and give the live code cells."""
    model.script = list(script)
    notebook.run("book = 'x' * 1234")
    return code_cells(notebook.run(f"%%rlm -m openai/any -c book {options}\nWhat?", cell_id=cell))


def code_cells(shown: Shown) -> list[dict[str, Any]]:
    items = [item for told in shown.told for item in told.get("items", ())]
    done = {item["cell"]["id"]: item["cell"] for item in items if item["item"] == "done"}
    return [cell for cell in done.values() if cell["facts"]["role"] == "code"]


def facts(shown: Shown) -> dict[str, Any]:
    """What the page is told of a live cell that was executed."""
    return [content["metadata"]["rlm"] for _, content in shown.outputs if content.get("metadata", {}).get("rlm")][-1]


def refusal(shown: Shown, *, gone: bool = True) -> str:
    assert facts(shown) == {"by_hand": False, "gone": gone}
    [(kind, content)] = shown.outputs
    text = str(content["data"]["text/plain"])
    assert kind == "display_data"
    assert "\n" not in text
    assert len(text) <= 140  # more is cut off where a page shows it
    return text


def test_it_runs_where_the_variables_of_its_run_are(notebook: Notebook, model: Model) -> None:
    look, final = ask(notebook, model, LOOK, FINAL, "```repl\nFINAL(who)\n```")
    path = Path(str(notebook.run("str(rlm_result.path.absolute())").value).strip("'"))
    record, asked = path.read_bytes(), len(model.requests)

    # as it was edited in the notebook; nothing of it is in the reader's kernel
    shown = notebook.run("print(size, who)\nwho = 'changed'\nwho", cell_id=look["id"])
    assert shown.error == ""
    assert shown.printed == "1234 **nobody** 2\n"
    assert shown.value == "'changed'"
    assert [c["execution_count"] for kind, c in shown.outputs if kind == "execute_result"] == [3]
    assert facts(shown) == {"by_hand": True, "count": 3}
    assert shown.text.count("Ran in the kernel of rlm_result, not in this notebook's.") == 1
    assert notebook.run("'who' in globals() or 'size' in globals()").value == "False"

    # FINAL ends nothing, and what it was given is shown
    shown = notebook.run("FINAL(who)", cell_id=final["id"])
    assert "changed" in shown.text
    assert "FINAL ends nothing" in shown.text
    assert notebook.run("rlm_result.answer").value == "'**nobody** 2'"
    assert path.read_bytes() == record
    assert len(model.requests) == asked

    # the model goes on with what it finds
    shown = notebook.run("rlm_result = rlm_result.ask('And who now?')")
    assert shown.outputs[0][1]["data"]["text/plain"].startswith("Waiting for the model")  # no kernel is started
    assert notebook.run("rlm_result.answer").value == "'changed'"


def test_what_it_asks_is_answered_from_the_record_and_nothing_is_paid(notebook: Notebook, model: Model) -> None:
    twice = "```repl\na = [llm_query('who?'), llm_query('who?')]\nb = llm_query_batched(['x', 'y'])\n```"
    first, second = ask(notebook, model, twice, "```repl\nFINAL([a, b])\n```")
    recorded, asked = notebook.run("rlm_result.value").value, len(model.requests)
    again = "[[llm_query('who?'), llm_query('who?')], llm_query_batched(['x', 'y'])]"
    assert notebook.run(again, cell_id=first["id"]).value == recorded
    # in another cell than the one that had asked
    assert notebook.run("llm_query('who?')", cell_id=second["id"]).value == f"{recorded.split(',')[0].strip('[')}"
    shown = notebook.run("llm_query('something new')", cell_id=first["id"])
    assert shown.reply["ename"] == "SubcallError"
    assert "'something new' was not asked there" in shown.error
    assert "\n" not in shown.reply["evalue"]
    assert len(model.requests) == asked


def test_an_error_is_that_of_the_cell_and_stops_run_all(notebook: Notebook, model: Model) -> None:
    look, _ = ask(notebook, model, LOOK, FINAL)
    failing = notebook.send("print('before')\nsize / 0", cell_id=look["id"])
    after = notebook.send("went_on = True")
    shown = notebook.follow(failing)
    assert shown.error == "ZeroDivisionError: division by zero"
    [error] = [content for kind, content in shown.outputs if kind == "error"]
    assert error["ename"] == "ZeroDivisionError"
    assert any("size" in line for line in error["traceback"])
    assert not any("rlm_jupyter" in line for line in error["traceback"])
    assert shown.printed == "before\n"
    assert notebook.follow(after).reply["status"] == "aborted"
    assert notebook.run("'went_on' in globals()").value == "False"


def test_what_it_shows_is_made_harmless_and_shown_as_it_comes(notebook: Notebook, model: Model) -> None:
    look, _ = ask(notebook, model, LOOK, FINAL)
    seen: list[tuple[float, str]] = []
    source = (
        "import time\nfrom IPython.display import HTML, Javascript, Markdown, clear_output, display\n"
        "print('early')\ntime.sleep(1)\n"
        "display(HTML('<table><tr><td onclick=1>cell</td></tr></table><script>1</script>'))\n"
        "display(Javascript('1'), Markdown('<img src=http://a/b> **bold**'))\n"
        "handle = display(HTML('<b>one</b>'), display_id='mine')\nhandle.update(HTML('<i onclick=1>two</i>'))\n"
        "print('x' * 150_000)\nprint('more')\nclear_output(wait=True)\n"
    )
    shown = notebook.run(source, lambda kind, text: seen.append((time.monotonic(), text)), cell_id=look["id"])
    assert seen[0][1].startswith("early")
    assert seen[1][0] - seen[0][0] > 0.5
    data = [content["data"] for kind, content in shown.outputs if kind != "stream"]
    assert "<td>cell</td>" in data[0]["text/html"]
    assert list(data[1]) == ["text/plain"]  # a script is not shown
    assert "<strong>bold</strong>" in data[2]["text/html"]
    everything = str(data)
    assert not any(bad in everything for bad in ("<script", "onclick", "<img", "javascript"))
    ids = [content["transient"]["display_id"] for _, content in shown.outputs if content.get("transient")]
    assert len(ids) == 2
    assert ids[0] == ids[1]
    assert ids[0] not in {"mine", ""}  # a display of the reader's own may have that name
    assert len(shown.printed) < 101_000
    assert "more]" in shown.printed


def test_an_interrupt_reaches_it(notebook: Notebook, model: Model) -> None:
    look, _ = ask(notebook, model, LOOK, FINAL)
    sent = itertools.count()

    def interrupt(kind: str, text: str) -> None:
        # one too many would reach the notebook's own kernel, which may just be sending the reply
        if kind == "stream" and "now" in text and next(sent) <= 1 + by_hand._MOST_INTERRUPTS:
            threading.Timer(0.3, notebook.interrupt).start()

    shown = notebook.run("import time\nprint('now', flush=True)\ntime.sleep(60)", interrupt, cell_id=look["id"])
    assert shown.seconds < 40
    assert shown.reply["ename"] == "KeyboardInterrupt"
    assert "time.sleep" in shown.text
    assert notebook.run("size", cell_id=look["id"]).value == "1234"

    deaf = (
        "for n in range(100):\n    try:\n        print('now', n, flush=True)\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    shown = notebook.run(deaf, interrupt, cell_id=look["id"])
    assert "heeds no interrupt" in shown.error
    assert "is not over" in refusal(notebook.run("size", cell_id=look["id"]), gone=False)
    assert notebook.run("rlm_result.close()").error == ""
    assert notebook.run("6 * 7").value == "42"


def test_where_there_is_no_kernel_for_it_a_line_says_so(notebook: Notebook, model: Model) -> None:
    look, _ = ask(notebook, model, SECRET, "```repl\nFINAL('it')\n```")
    asked = len(model.requests)
    assert "the kernel of its run is gone" in refusal(notebook.run(look["source"], cell_id="rlm-01234567-1"))
    given_up = ask(notebook, model, SECRET, "```repl\nFINAL('it')\n```", cell="another")
    assert "(another run took rlm_result)" in refusal(notebook.run("secret", cell_id=look["id"]))
    asked, look = len(model.requests), given_up[0]
    notebook.run("rlm_result.close()")
    assert "kernel of its run is closed. --rerun" in refusal(notebook.run(look["source"], cell_id=look["id"]))
    # an edited one does not run in another kernel all of a sudden
    assert "closed" in refusal(notebook.run("secret = 1", cell_id=look["id"]))

    # a cell of the reader's own, whatever its id
    assert notebook.run("print('own')", cell_id="rlm-notes").printed == "own\n"

    recorded = code_cells(notebook.run("%%rlm -m openai/any -c book\nWhat?", cell_id="again"))
    assert "the kernel of its run is gone" in refusal(notebook.run(look["source"], cell_id=recorded[0]["id"]))
    assert notebook.run("'secret' in globals()").value == "False"
    assert len(model.requests) == asked


def test_a_kernel_that_died_is_said_to_have(notebook: Notebook, model: Model) -> None:
    look, _ = ask(notebook, model, LOOK, FINAL, "```repl\nFINAL(len(context))\n```")
    shown = notebook.run("import os\nos._exit(3)", cell_id=look["id"])
    assert shown.error.startswith("KernelDiedError: the kernel of the run died in this cell. rlm_result.ask(…)")
    assert "has died" in refusal(notebook.run("size", cell_id=look["id"]), gone=False)
    notebook.run("rlm_result = rlm_result.ask('And?')")
    assert notebook.run("rlm_result.answer").value == "'1234'"
    assert notebook.run("len(context)", cell_id=look["id"]).value == "1234"


def test_run_all_runs_no_cell_of_a_model(notebook: Notebook, model: Model) -> None:
    old = ask(notebook, model, SECRET, "```repl\nFINAL('one')\n```")
    model.script = [LOOK, FINAL]
    asked = len(model.requests)
    # a page sends all of it at once: the cell that asks, and after it the live cells that stand there still
    sent = [notebook.send("%%rlm -m openai/any -c book --rerun\nWhat?", "asking")]
    sent += [notebook.send(cell["source"], cell["id"]) for cell in old]
    asking, *after = [notebook.follow(request) for request in sent]
    assert len(code_cells(asking)) == 2
    assert all("the kernel of its run is gone" in refusal(shown) for shown in after)
    assert len(model.requests) == asked + 3  # two replies and a sub-call, of the new run
    assert notebook.run("'secret' in globals() or 'os' in globals()").value == "False"
    new = code_cells(asking)[0]["id"]
    assert "NameError" in notebook.run("secret", cell_id=new).error


def test_while_the_run_goes_on_it_waits_for_a_pause(notebook: Notebook, model: Model) -> None:
    slow = "```repl\nx = 1\nimport time\nfor n in range(30):\n    time.sleep(0.1)\nprint('slept')\n```"
    ask(notebook, model, slow, "```repl\nFINAL(x)\n```", options="--rerun --background", cell="pausing")
    cell_id = notebook.run(
        "import time\nfrom rlm_jupyter.frontends.live import open_runs\ncells, until = [], time.monotonic() + 60\n"
        "while not cells and time.monotonic() < until:\n"
        "    cells = [c.id for c in open_runs._runs['rlm-pausing'].cells.settled() if c.status == 'running']\n"
        "    time.sleep(0.05)\n"
        "rlm_result.control.pause()\ncells[0]"
    ).value.strip("'")
    refused = refusal(notebook.run("x", cell_id=cell_id), gone=False)
    assert refused == "Not run: the run is using its kernel: stop or pause it first."
    deadline = time.monotonic() + 40
    while "Not run" in (shown := notebook.run("x += 40\nFINAL('by hand')\nx", cell_id=cell_id)).text:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert shown.value == "41"
    # it is resumed while a person's cell runs: the model's next cell comes after that
    notebook.run(
        "import threading\ndef resume():\n    while rlm_result._running.session._hand is None: time.sleep(0.05)\n"
        "    rlm_result.control.resume()\nthreading.Thread(target=resume, daemon=True).start()"
    )
    notebook.run("time.sleep(1.5)\nx += 1", cell_id=cell_id)
    answer = notebook.run("rlm_result.result(60).answer if hasattr(rlm_result, 'result') else rlm_result.answer")
    assert answer.value == "'42'"
