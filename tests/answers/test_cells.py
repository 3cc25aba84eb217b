"""What a cell that is executed answers: FINAL and its kin, and the `answer` dict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.answers.conftest import Stage
from tests.answers.vectors import PEERS, Vector
from tests.answers.vectors_cells import COUNTED, DOCUMENT, UNCOUNTED
from tests.answers.vectors_kernel import SAY, Cells

SET, READY = "answer['content'] = 'a'", "answer['ready'] = True"
LOSES = {"official subprocess ipython": None}
LOST = {"official": None, "official in-process ipython": None, **LOSES}
EMPTY = dict.fromkeys(LOST, "")
GO_ON = "FINAL('it went ' + 'on')"
TRUTHY = '{"content": "the document", "ready": true}'


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    opened = Cells()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents") / "a_document.py"
    path.write_text("try: FINAL\nexcept NameError: from __main__ import FINAL\n" + DOCUMENT)
    return path


@pytest.mark.parametrize("vector", COUNTED, ids=lambda vector: vector.id)
def test_counts(cells: Cells, vector: Vector) -> None:
    seen = cells.run(*vector.cells)
    assert seen.answer == vector.ours, seen.told
    assert seen.inspection.answer_state == "declared"
    assert vector.says in seen.told
    assert "did not count" not in seen.told


@pytest.mark.parametrize("vector", UNCOUNTED, ids=lambda vector: vector.id)
def test_does_not_count(cells: Cells, vector: Vector, document: Path) -> None:
    sources = [
        source.replace("{path}", str(document)).replace("{folder}", str(document.parent)) for source in vector.cells
    ]
    seen = cells.run(*sources)
    assert seen.answer is None
    assert vector.says in seen.told
    assert cells.run("FINAL('mine')").answer == "mine"


def test_a_thousand_calls_are_told_once(cells: Cells) -> None:
    seen = cells.run("for i in range(1000): FINAL(i)")
    assert seen.answer == "0"
    assert len(seen.inspection.notices) == 1
    seen = cells.run("for i in range(1000): exec('FINAL(i)')")
    assert seen.answer is None
    assert len(seen.inspection.notices) == 1


def test_a_new_prompt_begins_anew(cells: Cells) -> None:
    assert cells.run("FINAL('one')", "FINAL('two')").answer == "one"
    assert cells.run("x = 1").answer is None
    assert cells.run("FINAL('two')").answer == "two"


def test_an_answer_outlives_the_cells_after_it(cells: Cells) -> None:
    seen = cells.run(
        "it = ['a']\nFINAL(it)", "it.append('b'); del FINAL", "1/0", "import time; time.sleep(60)", cell_seconds=1.0
    )
    assert [run.status for run in seen.runs] == ["ok", "ok", "error", "interrupted"]
    assert seen.answer == '["a"]'


def test_an_answer_stands_in_a_cell_that_is_interrupted(cells: Cells) -> None:
    seen = cells.run("FINAL('a')\nwhile True: pass", cell_seconds=1.0)
    assert (seen.runs[0].status, seen.answer) == ("interrupted", "a")


# fmt: off
ANSWERS: tuple[Vector, ...] = (
    Vector("content, then ready", f"{SET}\n{READY}", "a", dict.fromkeys(LOST, "a")),
    Vector("ready, then content", f"{READY}\n{SET}", "a", EMPTY),
    Vector("ready in a cell before", (READY, SET), "a"),
    Vector("content in a cell before", (SET, READY), "a"),
    Vector("update by names", "answer.update(content='a', ready=True)", "a", LOST),
    Vector("update by a dict", "answer.update({'content': 'a', 'ready': True})", "a", LOST),
    Vector("update by pairs", "answer.update([('content', 'a'), ('ready', True)])", "a", LOST),
    Vector("merged", "answer |= {'content': 'a', 'ready': True}", "a", LOST),
    Vector("merged with dict()", "answer |= dict(content='a', ready=True)", "a", LOST),
    Vector("merged and rebound", "answer = answer | {'content': 'a', 'ready': True}", "a"),
    Vector("rebound", "answer = {'content': 'a', 'ready': True}", "a", {"official": "a", "official in-process ipython": "a", **LOSES}),
    Vector("rebound by dict()", "answer = dict(content='a', ready=True)", "a"),
    Vector("rebound by unpacking", "answer = {**answer, 'content': 'a', 'ready': True}", "a"),
    Vector("rebound, then an error", "answer = {'content': 'a', 'ready': True}\n1/0", "a", {"official": None}),
    Vector("both at once", "answer['content'], answer['ready'] = 'a', True", "a"),
    Vector("setdefault after a deletion", "del answer['ready']\nanswer.setdefault('ready', True)\n" + SET, "a"),
    Vector("__setitem__", f"{SET}\nanswer.__setitem__('ready', True)", "a"),
    Vector("in a function", f"def f():\n    {SET}\n    {READY}\nf()", "a"),
    Vector("in a branch", f"if context:\n    {SET}\n    {READY}", "a"),
    Vector("with %%time", f"%%time\n{SET}\n{READY}", "a"),
    Vector("a number", f"answer['content'] = 6*7\n{READY}", "42"),
    Vector("a dict", f"answer['content'] = {{'n': 1}}\n{READY}", '{"n": 1}'),
    Vector("zero is content", f"answer['content'] = 0\n{READY}", "0"),
    Vector("an empty list is content", f"answer['content'] = []\n{READY}", "[]"),
    Vector("a reply as content", f"answer['content'] = llm_query('say a')\n{READY}", "a"),
    Vector("a document as content", f"answer['content'] = {TRUTHY!r}\n{READY}", TRUTHY),
    Vector("changed after it was ready", f"{SET}\n{READY}\nanswer['content'] = 'b'", "b"),
    Vector("an error after it", f"{SET}\n{READY}\n1/0", "a"),
    Vector("FINAL beside it", f"{SET}\n{READY}\nFINAL('b')", "b"),
    Vector("a reply as answer, then FINAL_VAR", ("answer = llm_query('say a')", "FINAL_VAR(answer)"), "a"),
    Vector("a reply as answer, then FINAL_VAR by name", ("answer = llm_query('say a')", "FINAL_VAR('answer')"), "a"),
    Vector("a reply as answer, then FINAL", ("answer = llm_query('say a')", "FINAL(answer)"), "a"),
    Vector("a reply as answer and FINAL_VAR at once", "answer = llm_query('say a')\nFINAL_VAR(answer)", "a"),
    Vector("a parsed reply, then FINAL_VAR", ("import json\nanswer = json.loads(llm_query('say [1]'))", "FINAL_VAR(answer)"), "[1]"),
    Vector("SUBMIT", "SUBMIT('a')", "a"),
    Vector("SUBMIT of a field", "SUBMIT(answer='a')", "a"),
    # -- no answer
    Vector("content alone", SET, None),
    Vector("ready alone", READY, None, EMPTY, says='answer["content"] is empty'),
    Vector("ready as text", f"{SET}\nanswer['ready'] = 'False'", None, dict.fromkeys(LOST, "a")),
    Vector("ready as text that says so", f"{SET}\nanswer['ready'] = 'True'", None),
    Vector("ready as a number", f"{SET}\nanswer['ready'] = 1", None),
    Vector("ready as a computed truth", f"{SET}\nanswer['ready'] = len(context) > 0", None),
    Vector("not ready", f"{SET}\nanswer['ready'] = False", None),
    Vector("ready and taken back", f"{SET}\n{READY}\nanswer['ready'] = False", None),
    Vector("in a function of a cell before", (f"def f():\n    {SET}\n    {READY}", "f()"), None,
           note="the literal stands in the cell that sets it"),
    Vector("ready in a branch not taken", f"{SET}\nif not context: {READY}", None),
    Vector("ready in a comment", f"{SET}\n# {READY}", None),
    Vector("ready in a string", f"{SET}\ns = \"{READY}\"", None),
    Vector("ready of another dict", f"{SET}\nother = {{}}\nother['ready'] = True", None),
    Vector("ready in capitals", f"{SET}\nanswer['Ready'] = True", None),
    Vector("the parsed reply", "import json\nanswer = json.loads(llm_query('say ' + reply))", None),
    Vector("the parsed reply, by update", "import json\nanswer.update(json.loads(llm_query('say ' + reply)))", None),
    Vector("the parsed reply, merged", "import json\nanswer |= json.loads(llm_query('say ' + reply))", None),
    Vector("the parsed reply, unpacked", "import json\nanswer = {**answer, **json.loads(reply)}", None),
    Vector("the parsed reply, one by one", "import json\nfor k, v in json.loads(reply).items(): answer[k] = v", None),
    Vector("the evaluated reply", "answer = eval(llm_query('say dict(content=1, ready=True)'))", None),
    Vector("the executed reply", 'exec(llm_query("say answer.update(content=1, ready=True)"))', None),
    Vector("a pickled answer", "import pickle\nanswer = pickle.loads(pickle.dumps(json_answer))", None),
    Vector("a parsed reply as answer, unready", ("import json\nanswer = json.loads(reply)", "answer['content']"), None),
    Vector("deleted", f"{SET}\n{READY}\ndel answer", None),
    Vector("rebound to text", f"{READY}\nanswer = 'a'", None),
    Vector("content that can't become text", f"answer['content'] = print\n{READY}", None, says="can't be turned into text"),
)
# fmt: on


@pytest.mark.parametrize("vector", ANSWERS, ids=lambda vector: vector.id)
def test_the_answer_dict(stage: Stage, vector: Vector) -> None:
    look = f"print(1)\nreply = {TRUTHY!r}\njson_answer = dict(content=1, ready=bool(context))"
    replies = [f"I do this.\n```repl\n{source}\n```" for source in (look, *vector.cells, GO_ON)]
    played = stage.play(replies, sub=lambda prompt: prompt.removeprefix(SAY))
    assert played.stop_reason == "answered"
    assert played.answer == ("it went on" if vector.ours is None else vector.ours)
    assert len(played.iterations) == len(vector.cells) + (2 if vector.ours is None else 1)
    if vector.ours is None:
        assert vector.says in played.told


def test_the_tables_are_in_order() -> None:
    for table in (COUNTED, UNCOUNTED, ANSWERS):
        assert len({vector.id for vector in table}) == len(table)
        assert set().union(*(vector.peers for vector in table)) <= PEERS
