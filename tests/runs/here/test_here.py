"""`%%rlm --here` in a real kernel: what the model sees and changes, what is shown, recorded and put back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from traitlets.config import Config

from rlm_jupyter.frontends.here.transform import awaited
from rlm_jupyter.frontends.magics.rlm import RLMMagics, load
from rlm_jupyter.record.trajectory import Trajectory
from tests.support.here import Notebook, Shown, script
from tests.support.loopback import Loopback, Said


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # sockets want a short path
    with tempfile.TemporaryDirectory(dir="/tmp" if Path("/tmp").is_dir() else None, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Notebook]:
    with Notebook(folder) as notebook:
        yield notebook


@pytest.fixture
def notebook(shared: Notebook) -> Iterator[Notebook]:
    """Used by test after test: each leaves it as good as new."""
    shared.run("%reset -f")
    yield shared
    assert shared.no_driver_left()
    assert shared.works()


def ask(notebook: Notebook, folder: Path, *cells: str, options: str = "", prompt: str = "What?") -> Shown:
    model = script(folder / "model.json", *cells)
    return notebook.run(f"%%rlm --here -m {model} --rerun {options}\n{prompt}")


def record(notebook: Notebook) -> Trajectory:
    return Trajectory.load(Path(notebook.run("str(rlm_result.path.absolute())").value.strip("'")))


def test_the_model_sees_and_changes_the_very_objects(notebook: Notebook, folder: Path) -> None:
    notebook.run(
        "class Ledger:\n    rows = []\nledger = Ledger()\nlock = __import__('threading').Lock()\nkept = id(ledger)"
    )
    shown = ask(
        notebook,
        folder,
        "print(context is ledger, id(context) == kept, lock.locked())\nledger.rows.append('seen')\nmade = [1]",
        "FINAL(str(ledger.rows) + str(made))",
        options="-c ledger",  # which can't be pickled
    )
    assert shown.error == ""
    assert "True True False" in shown.printed
    assert notebook.run("ledger.rows, made, id(ledger) == kept, rlm_result.answer").value == (
        "(['seen'], [1], True, \"['seen'][1]\")"
    )
    assert "['seen'][1]" in shown.outputs[-1][1]["data"]["text/plain"]


def test_a_run_that_does_not_begin_leaves_the_variable_and_one_that_fails_later_takes_it(
    notebook: Notebook, folder: Path
) -> None:
    ask(notebook, folder, "FINAL('first')")
    shown = ask(notebook, folder, "FINAL('second')", options="-c boook")
    assert "no variable 'boook'" in shown.error
    assert notebook.run("rlm_result.answer").value == "'first'"
    assert "no replies are left" in ask(notebook, folder).error
    assert notebook.run("rlm_result.answer").value == "'first'"
    shown = ask(notebook, folder, "x = 1")
    assert "The run so far is saved in " in shown.error
    assert "saved in" not in "".join(shown.reply["traceback"])
    assert "resume" not in shown.error  # its variables are in no record
    assert notebook.run("rlm_result.stop_reason, len(rlm_result.trajectory.iterations)").value == "('failed', 1)"
    assert notebook.run("rlm_result.path.is_file()").value == "True"


def test_the_model_is_told_what_there_is(notebook: Notebook, folder: Path) -> None:
    notebook.run("import math\nsales = list(range(300))\n_hidden = 1")
    ask(notebook, folder, "FINAL(len(sales))")
    opening = record(notebook).started.opening
    assert "- sales: list [300]" in opening
    assert "kernel of the user's own notebook" in opening
    assert opening.index("sales") < opening.index("<prompt>")
    assert not any(name in opening for name in ("math", "_hidden", "FINAL:", "answer:"))


@pytest.mark.parametrize("mine", ["'mine'", None], ids=["taken", "free"])
def test_what_stood_in_our_names_stands_there_again(notebook: Notebook, folder: Path, mine: str | None) -> None:
    names = ("context", "context_0", "answer", "FINAL", "llm_query", "SubcallError")
    if mine is not None:
        notebook.run("\n".join(f"{name} = {mine}" for name in names) + "\nbook = 'text'")
    else:
        notebook.run("book = 'text'")
    magic = "get_ipython().find_line_magic('llm_query').__func__.__module__"
    before, ours = notebook.run("%who_ls"), notebook.run(magic).value
    ask(
        notebook,
        folder,
        "print(context, answer['ready'])\ncontext = llm_query = 5",
        "FINAL(context)",
        options="-c book",
    )
    assert notebook.run("rlm_result.answer").value == "'text'"
    assert notebook.run(f"[globals().get(name) for name in {names}]").value == repr(
        [mine and mine.strip("'")] * len(names)
    )
    assert set(eval(notebook.run("%who_ls").value)) - {"rlm_result"} == set(eval(before.value))
    for name in names:
        notebook.run(f"globals().pop({name!r}, None)")
    # the session's own magic, and not the run's
    assert notebook.run(magic).value == ours
    assert "guest" not in ours


def test_without_a_context_the_users_own_is_left_alone(notebook: Notebook, folder: Path) -> None:
    notebook.run("context = 'theirs'")
    ask(notebook, folder, "context += '!'", "FINAL(context)")
    assert notebook.run("context, rlm_result.answer").value == "('theirs!', 'theirs!')"


def test_a_name_of_ours_that_was_free_and_that_the_model_takes_stays(notebook: Notebook, folder: Path) -> None:
    ask(notebook, folder, "answer = 'a result to keep'", "FINAL('done')")
    assert notebook.run("answer").value == "'a result to keep'"
    assert "answer" in notebook.run("%who_ls").value
    notebook.run("del answer")
    ask(notebook, folder, "answer = {'content': 'x', 'ready': True}")
    assert notebook.run("'answer' in globals(), rlm_result.answer").value == "(False, 'x')"


def test_its_cells_are_ordinary_history(notebook: Notebook, folder: Path) -> None:
    first = int(notebook.run("get_ipython().execution_count - 1").value)
    shown = ask(notebook, folder, "6 * 7", "print('two')", "FINAL(_ + Out[%d])" % (first + 2))  # noqa: UP031
    assert shown.value == "42"
    assert [content["execution_count"] for kind, content in shown.outputs if kind == "execute_result"] == [first + 2]
    after = notebook.run(f"In[{first + 1}][:25], In[{first + 2}], In[{first + 3}], len(In), rlm_result.answer")
    assert after.reply["execution_count"] == first + 5
    in_order = f"('await get_ipython().magic', '6 * 7', \"print('two')\", {first + 6}, '84')"
    assert " ".join(after.value.split()) == in_order
    counts = [cell.execution_count for iteration in record(notebook).iterations for cell in iteration.cells]
    assert counts == [first + 2, first + 3, first + 4]


def test_each_cell_is_recorded_with_its_own_outputs(notebook: Notebook, folder: Path) -> None:
    ask(
        notebook,
        folder,
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))\n!echo shell",
        "1 / 0",
        "import asyncio\nawait asyncio.sleep(0.05)\n'awaited'",
        "FINAL('done')",
    )
    trajectory = record(notebook)
    cells = [cell for iteration in trajectory.iterations for cell in iteration.cells]
    assert [cell.status for cell in cells] == ["ok", "ok", "error", "ok", "ok"]
    texts = ["".join(str(output.get("text", "")) for output in cell.outputs) for cell in cells]
    streams = {output["name"]: output["text"].strip() for output in cells[0].outputs}
    assert streams == {"stdout": "out", "stderr": "err"}  # which of two streams is sent first, IPython leaves open
    assert [text.strip() for text in texts[1:]] == ["shell", "", "", ""]
    assert cells[1].outputs[0]["data"]["text/html"] == "<b>x</b>"
    assert cells[2].outputs[0]["ename"] == "ZeroDivisionError"
    assert cells[3].outputs[0]["data"]["text/plain"] == "'awaited'"
    assert trajectory.ended is not None
    assert trajectory.ended.stop_reason == "answered"
    saved = folder / notebook.run("str(rlm_result.path)").value.strip("'")
    nbformat.validate(nbformat.read(saved, as_version=4))


SUBCALLS = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(64) as pool:
    threads = list(pool.map(llm_query, [f'thread {n}' for n in range(256)]))
batch = llm_query_batched([f'batch {n}' for n in range(20)])
import asyncio
gathered = await asyncio.gather(*(allm_query(f'task {n}') for n in range(20)))
one, magic = rlm_query('alone'), get_ipython().run_line_magic('llm_query', 'magic')
print(threads == [f'(scripted) thread {n}' for n in range(256)], batch[19], gathered[19], one, magic)
"""


def test_sub_calls_come_from_threads_batches_tasks_and_magics(notebook: Notebook, folder: Path) -> None:
    shown = ask(notebook, folder, SUBCALLS.strip(), "FINAL(llm_query('last'))")
    expected = "True (scripted) batch 19 (scripted) task 19 (scripted) alone (scripted) magic"
    assert expected in shown.printed
    assert notebook.run("rlm_result.answer, len(rlm_result.trajectory.subcalls)").value == "('(scripted) last', 299)"


def test_a_helper_that_outlives_the_run_is_told_that_nobody_answers(notebook: Notebook, folder: Path) -> None:
    ask(notebook, folder, "keep = llm_query", "FINAL('x')")
    assert "SubcallError: nobody is attached" in notebook.run("keep('?')").error


def test_nothing_is_lost_in_a_flood(notebook: Notebook, folder: Path) -> None:
    flood = "from IPython.display import display\nfor n in range(1000):\n    display(n)\nprint('end')"
    many = (
        "import threading\ngot = []\nthreads = [threading.Thread(target=lambda n=n: got.append(llm_query(str(n)))) "
        "for n in range(1500)]\n[t.start() for t in threads]\n[t.join() for t in threads]\nlen(set(got))"
    )
    model = script(folder / "flood.json", flood, many, "FINAL('done')")
    shown = notebook.run(f"%%rlm --here -m {model} --rerun --max-subcalls 2000\nWhat?")
    cells = [cell for iteration in record(notebook).iterations for cell in iteration.cells]
    assert len(cells[0].outputs) == 1001
    assert shown.value == "1500"


STOPPED_READER = """
import os, signal, time, psutil
from IPython.display import display
[driver] = psutil.Process().children()
driver.send_signal(signal.SIGSTOP)
for n in range(1500):
    display({'text/plain': str(n) + ' ' * 20_000}, raw=True)
print('end')
time.sleep(0.5)
driver.send_signal(signal.SIGCONT)
"""


@pytest.mark.slow
def test_nothing_is_lost_where_the_reader_is_slow(folder: Path) -> None:
    with Notebook(folder) as notebook:
        for _ in range(2):  # what connects when the high-water mark was raised, and what connects later
            ask(notebook, folder, STOPPED_READER.strip(), "FINAL('done')")
            [cell] = record(notebook).iterations[0].cells
            assert len(cell.outputs) == 1501
            assert cell.outputs[-1]["text"] == "end\n"
            assert notebook.no_driver_left()


def test_what_a_host_is_given_is_opened_once_and_gone_with_the_kernel(folder: Path) -> None:
    def sockets() -> set[Path]:
        return {path for path in folder.iterdir() if path.is_socket()}

    with Notebook(folder) as notebook:
        before, opened = sockets(), []
        for _ in range(2):
            ask(notebook, folder, "FINAL('x')")
            opened.append(sockets() - before)
        notebook.km.shutdown_kernel()
        assert len(opened[0]) == 2
        assert opened[0] == opened[1]
        assert not opened[0] & sockets()


COUNTED_MARKS = """
import zmq
marks, put = [], zmq.Socket.set
def counted(socket, option, value):
    if option == zmq.SNDHWM:
        marks.append(value)
    put(socket, option, value)
zmq.Socket.set = counted
"""


def test_no_high_water_mark_is_set_as_a_host_leaves(folder: Path) -> None:
    # libzmq's own thread crashes where one is set while a connection is being closed, and the user's kernel with it
    with Notebook(folder) as notebook:
        notebook.run(COUNTED_MARKS)
        for _ in range(2):
            ask(notebook, folder, "FINAL('x')")
            assert notebook.no_driver_left()
        assert notebook.run("sorted(marks)").value == "[0, 100000]"


def test_final_counts_from_the_models_cells_only(notebook: Notebook, folder: Path) -> None:
    notebook.run("def theirs():\n    FINAL('from a cell of the user')\ndocument = \"FINAL('from a document')\"")
    ask(notebook, folder, "exec(document)\nget_ipython().run_cell(document);", "theirs()", "FINAL('from the model')")
    assert notebook.run("rlm_result.answer").value == "'from the model'"


def test_an_exit_of_the_models_ends_its_cell_and_not_the_notebooks_kernel(notebook: Notebook, folder: Path) -> None:
    notebook.run("own = 'still here'\nhistory = 'of mine'")
    shown = ask(notebook, folder, "print(history)\nexit()\nown = 'changed'", "FINAL(own + '!')")
    assert (shown.error, "of mine" in shown.printed) == ("", True)
    assert notebook.run("own, history, rlm_result.answer").value == "('still here', 'of mine', 'still here!')"
    # afterwards, the shell leaves as it did before
    gone = notebook.run("get_ipython().__dict__.keys() & {'ask_exit', 'showtraceback'}, get_ipython().exit_now")
    assert gone.value == "(set(), False)"


def test_the_same_again_asks_no_model_and_does_it_again(notebook: Notebook, folder: Path) -> None:
    cells = ("reply = llm_query('who?')", "data.append(reply)\n1/0", "total = await allm_query('sum')\nFINAL(total)")
    model = script(folder / "again.json", *cells, subcalls=["nobody", "three"])
    source = f"%%rlm --here -c data -m {model}\nWhat is the total?"
    notebook.run("data = ['old']")
    assert notebook.run(source).error == ""
    notebook.run("data = ['old']\ndel total, reply\nfirst = rlm_result")
    script(folder / "again.json", subcalls=[])  # nothing is left to be said
    again = notebook.run(source)
    assert again.error == ""
    assert "nothing was asked or spent; its 3 cells were executed again without a model" in again.text
    assert notebook.run(
        "data, total, reply, rlm_result.answer, rlm_result.path == first.path, 'FINAL' in dir()"
    ).value == ("(['old', 'nobody'], 'three', 'nobody', 'three', True, False)")
    notebook.run("del data\nclass Data(list):\n    append = None\ndata = Data(['old'])")
    assert "RecordError" not in again.error
    assert "no replies are left" in notebook.run(source).error  # other data: it is asked


def test_what_the_recorded_cells_come_to_now_is_said_where_it_differs(notebook: Notebook, folder: Path) -> None:
    cells = ("print('rows:', len(numbers))\nnumbers.append(99)", "len(numbers) > 2", "FINAL(f'total {sum(numbers)}')")
    model = script(folder / "differs.json", *cells)
    source = f"%%rlm --here -m {model}\nSum my numbers"
    notebook.run("numbers = [1, 2, 3]")
    assert notebook.run(source).error == ""
    again = notebook.run(source).text
    assert "its 3 cells were executed again without a model, and 1 gave another output than the recorded" in again
    assert "-rows: 3\n+rows: 4\n" in again
    assert "-total 105\n+total 204" in again
    notebook.run("numbers = [1, 2, 3]")
    same = notebook.run(source).text
    assert "executed again without a model. --rerun" in same
    assert "What differs" not in same


def test_a_recorded_cell_that_fails_now_is_said(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "fails.json", "size = len(helper())", "FINAL(size)")
    notebook.run("helper = lambda: 'text'")
    source = f"%%rlm --here -m {model}\nHow long?"
    notebook.run(source)
    notebook.run("del helper")
    again = notebook.run(source)
    assert again.error.startswith("RecordError: Cell 1 of the recorded run succeeded then and fails now")
    assert "(NameError: name 'helper' is not defined)" in again.error


def test_its_rights_are_said_once(folder: Path) -> None:
    place = folder / "once"
    place.mkdir()
    with Notebook(place) as fresh:
        first, second = (ask(fresh, place, "FINAL(1)") for _ in range(2))
        assert "there is no sandbox" in first.text
        assert "there is no sandbox" not in second.text


def test_a_key_reaches_the_driver_and_nothing_that_others_can_read(notebook: Notebook, folder: Path) -> None:
    seen: list[str] = []

    def look(kind: str, text: str) -> None:
        if "looking" in text and not seen:
            [driver] = notebook.drivers()
            seen.extend([" ".join(driver.cmdline()), str(driver.environ())])

    cell = "I look.\n```repl\nimport time\nprint('looking', flush=True)\ntime.sleep(0.5)\nFINAL('do' + 'ne')\n```"
    with Loopback([cell], key="sk-a-secret-key") as server:
        refused = notebook.run("%%rlm --here -m openai/any --rerun\nWhat?")
        assert "OPENAI_API_KEY" in refused.error
        assert len(refused.reply["traceback"]) == 1
        notebook.run(f"import os\nos.environ['OPENAI_BASE_URL'] = {server.openai_url!r}")
        notebook.run("import getpass\ngetpass.getpass = lambda prompt: 'sk-a-secret-key'\n%rlm_key openai")
        shown = notebook.run("%%rlm --here -m openai/any --rerun\nWhat?", look)
        notebook.run("del os.environ['OPENAI_API_KEY'], os.environ['OPENAI_BASE_URL']")
        assert shown.error == ""
        assert [request.headers["Authorization"] for request in server.requests] == ["Bearer sk-a-secret-key"]
    assert len(seen) == 2
    assert "OPENAI_BASE_URL" in seen[1]
    assert not any("sk-a-secret-key" in text for text in seen)


@pytest.mark.slow
def test_a_cell_begins_in_this_kernel_while_the_model_still_writes(notebook: Notebook) -> None:
    looks = "```repl\nimport time; seen = [time.time()]\nprint('looking')\n```\n" + "Then I read what it shows. " * 8
    ends = "```repl\nFINAL(int(time.time() - seen[0] > 1))\n```"
    with Loopback([Said(looks, pieces=30, delay=0.1), ends]) as server:
        notebook.run(f"import os\nos.environ |= {{'OPENAI_BASE_URL': {server.openai_url!r}, 'OPENAI_API_KEY': 'k'}}")
        shown = notebook.run("%%rlm --here -m openai/any --rerun\nWhat?")
        notebook.run("del os.environ['OPENAI_API_KEY'], os.environ['OPENAI_BASE_URL']")
    assert shown.error == ""
    assert notebook.run("rlm_result.answer").value == "'1'"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("%%rlm --here -m scripted/none.json --rerun\nWhat?", "scripted/none.json: the script can't be read"),
        ("%%rlm --here -c nothing_there -m scripted/x.json\nWhat?", "There is no variable 'nothing_there'"),
        ("%%rlm --here --background\nWhat?", "--here runs in this cell"),
        ("%%rlm --here --max-cots 3\nWhat?", "did you mean --max-cost?"),
        ("%%rlm --here --approve\nWhat?", "nobody can answer here"),
        ("%%rlm --here -m extractive\n  ", "What is the question?"),
        ("x = 1\n%rlm --here -m extractive What?", "with %rlm in a cell of its own"),
        ("%%rlm --here -m extractive\nWhat?", "%autoawait asyncio"),
        ("%%rlm --here --reward rate -m extractive\nWhat?", "a reward policy must come from a module"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(notebook: Notebook, source: str, says: str) -> None:
    notebook.run("def rate(action, result, context):\n    return 1.0")
    notebook.run(f"%autoawait {'False' if 'autoawait' in says else 'asyncio'}")
    shown = notebook.run(source)
    notebook.run("%autoawait asyncio")
    assert says in shown.text
    assert shown.error
    assert len("".join(shown.reply.get("traceback", [])).strip().splitlines()) <= 1


def test_a_child_works_in_a_kernel_of_its_own(notebook: Notebook, folder: Path) -> None:
    notebook.run("mine = 1")
    shown = ask(
        notebook,
        folder,
        "FINAL(rlm_query('look'))",
        "FINAL(f\"{context} {'mine' in globals()}\")",  # the child's
        options="--max-depth 2",
    )
    assert shown.error == ""
    assert notebook.run("rlm_result.answer").value == "'look False'"


def test_the_user_approves_cell_by_cell(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "ask.json", "first = 1", "second = 2", "FINAL('done')")
    shown = notebook.run(f"%%rlm --here --approve -m {model} --rerun\nWhat?", typed=["y", "not that", "y"])
    assert shown.error == ""
    assert "Cell 1 of iteration 2 waits:\n\nsecond = 2" in shown.printed
    assert notebook.run("first, 'second' in globals(), rlm_result.answer").value == "(1, False, 'done')"
    assert "not that" in str(record(notebook).iterations[1].notices)


def test_a_notebook_file_with_such_cells_is_executed_and_valid(folder: Path) -> None:
    place = folder / "file"
    place.mkdir()
    model = script(place / "file.json", "seen = len(book)\nseen", "1 / 0", "await asyncio.sleep(0)\nFINAL(seen)")
    sources = [
        "%load_ext rlm_jupyter\nimport asyncio\nbook = 'some text'",
        f"%%rlm --here -m {model}\nHow long?",
        "seen, rlm_result.answer",
    ]
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(document, timeout=60, resources={"metadata": {"path": str(place)}}).execute()
    nbformat.validate(document)
    kinds = [output.output_type for output in document.cells[1].outputs]
    assert kinds == ["display_data"] * 3 + ["execute_result", "display_data"]
    assert "Answered" in document.cells[1].outputs[1].data["text/html"]
    assert "ZeroDivisionError" in document.cells[1].outputs[2].data["text/html"]
    assert document.cells[2].outputs[0].data["text/plain"] == "(9, '9')"


def test_a_line_magic_alone_in_its_cell_works(notebook: Notebook, folder: Path) -> None:
    model = script(folder / "line.json", "FINAL('by a line')")
    assert notebook.run(f"%rlm --here -m {model} --rerun Is that here?").error == ""
    assert (
        notebook.run("rlm_result.answer, rlm_result.trajectory.started.prompt").value
        == "('by a line', 'Is that here?')"
    )


def test_a_further_prompt_is_refused_in_one_line(notebook: Notebook, folder: Path) -> None:
    ask(notebook, folder, "FINAL(1)")
    shown = notebook.run("rlm_result.ask('And?')")
    assert "takes one prompt: ask further in another %%rlm --here cell" in shown.error
    assert len(shown.reply["traceback"]) == 1


def test_a_model_can_not_let_another_drive(notebook: Notebook, folder: Path) -> None:
    script(folder / "inner.json", "FINAL('inner')")
    shown = ask(notebook, folder, "%%rlm --here -m scripted/inner.json --rerun\nAgain?", "FINAL('outer')")
    assert "a model drives it already" in shown.text
    assert notebook.run("rlm_result.answer").value == "'outer'"


def test_in_a_terminal_it_says_that_it_needs_a_kernel() -> None:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    try:
        load(shell)
        with capture_output() as captured:
            result = shell.run_cell("%%rlm --here -m extractive\nWhat?")
        assert captured.stdout.strip() + captured.stderr.strip() == (
            "UsageError: --here needs a Jupyter kernel, and this is a terminal: leave --here out, or use a notebook."
        )
        assert not result.success
    finally:
        InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        (["%%rlm --here -m x\n", "What?\n"], True),
        (["%rlm --here What is it?\n"], True),
        (["%rlm --here What is it?\n", "\n"], True),
        (["%rlm is --here an option?\n"], False),
        (["%%rlm -m x\n", "--here\n"], False),
        (["%%rlm --here --no-such\n", "What?\n"], False),
        (["text = '''\n", "%rlm --here x\n", "'''\n"], False),
        (["%rlm --here What?\n", "print(1)\n"], False),
        ([], False),
    ],
)
def test_only_what_asks_for_it_is_awaited(lines: list[str], changed: bool) -> None:
    class Shell:
        kernel, autoawait = object(), True

    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    load(shell)
    magics = shell.magics_manager.registry["RLMMagics"]
    assert isinstance(magics, RLMMagics)
    transformed = awaited(Shell(), magics.asks_here)(list(lines))
    InteractiveShell.clear_instance()
    assert (transformed != lines) == changed
    assert not changed or "".join(transformed).startswith("await ")


def test_without_live_cells_everything_is_shown_once_and_a_failed_cell_is_no_failure_of_the_users(
    notebook: Notebook, folder: Path
) -> None:
    model = script(
        folder / "once.json",
        "print('pri' + 'nted')\n'resu' + 'lt'",
        "from IPython.display import display\ndisplay('sho' + 'wn')\n1 / 0",
        "import asyncio\nawait asyncio.sleep(0)\nraise KeyError('awai' + 'ted')",
        "print('aft' + 'erwards')\nFINAL('the ' + 'answer')",
    )
    cell = f"%%rlm --here -m {model}\nWhat is it?"
    for again in (False, True):  # then from the record
        shown = notebook.run(cell)
        assert shown.error == ""
        assert ("The recorded run" in shown.text) is again
        last = [content for kind, content in shown.outputs if kind == "update_display_data"][-2:]
        raw = [content for kind, content in shown.outputs if kind != "update_display_data"]
        text = Shown([("", content) for content in raw + last]).text
        for said in ("printed", "'result'", "'shown'", "afterwards"):
            assert text.count(said) == 1, said
        assert text.count("ZeroDivisionError: division by zero") == text.count("KeyError: ") == 1
        assert not [content for kind, content in shown.outputs if kind == "error"]
    statuses = [cell.status for iteration in record(notebook).iterations for cell in iteration.cells]
    assert statuses == ["ok", "error", "error", "ok"]
    # an error of the user's own is one
    assert notebook.run("1 / 0").outputs[-1][0] == "error"


def test_the_model_has_its_past_and_a_variable_of_that_name_stays_the_users(notebook: Notebook, folder: Path) -> None:
    shown = ask(
        notebook, folder, "print('early')", "print([one.outputs for one in trajectory])", "FINAL(len(trajectory))"
    )
    assert "['early']" in shown.printed
    assert notebook.run("rlm_result.answer, 'trajectory' in globals()").value == "('2', False)"
    notebook.run("trajectory = [(0, 1)]")
    ask(notebook, folder, "trajectory.append((1, 1))\nprint('moved')", "FINAL(len(trajectory))")
    assert notebook.run("rlm_result.answer, trajectory").value == "('2', [(0, 1), (1, 1)])"
