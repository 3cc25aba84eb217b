import json
from collections.abc import Sequence

import nbformat
import pytest

from rlm_jupyter.record.child_steps import Children
from rlm_jupyter.record.notebook import read
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.types.events import Record
from tests.support.sample_run import FIRST, cell, ended, reply, started, stream, subcall

STEP = "I count <b>them</b>.\n\n```repl\nprint(len(context))\n```\nand\n```repl\nFINAL(1)\n```\n"


def child(*more: Record) -> list[Record]:
    return [
        started(run_id="c1", depth=1),
        reply(1, STEP),
        *more,
        cell(1, 0, "print(len(context))", (stream("12\n"),)),
        cell(1, 1, "FINAL(1)", status="interrupted", execution_count=None),
        reply(2, "nothing", rejected="repeats the reply before it (1)"),
        reply(2, "FINAL(1)"),
        cell(2, 0, "FINAL('1')", execution_count=3),
        ended(),
    ]


def lay_out(records: Sequence[Record], children: Children) -> bytes:
    layout = Layout(None, None, 1, children)
    for record in records:
        layout.add(record)
    return b"".join(joined([layout]))


def shown(records: Sequence[Record], children: Children) -> str:
    content = json.loads(lay_out(records, children))
    nbformat.validate(content)
    [calls] = [c for c in content["cells"] if c["metadata"]["rlm"].get("role") == "subcalls"]
    [line] = calls["source"]
    return str(line)


def asking(*ids: str) -> list[Record]:
    calls = [subcall(1, 0, place, kind="rlm", child=run_id) for place, run_id in enumerate(ids)]
    return [started(), reply(1, FIRST), *calls, cell(1, 0, "print(context[:20])")]


def test_what_a_child_did_stands_folded_below_what_it_was_asked() -> None:
    line = shown(asking("c1"), {"c1": child()}.__getitem__)
    before, _, steps = line.partition("<details><summary>Steps of the child: 2 iterations · answered</summary>")
    assert "Ada." in before
    for words in ("Iteration 1", "&lt;b&gt;them", "Cell [1]", "print(len(context))", "12", "FINAL(1)", "interrupted"):
        assert words in steps, words
    assert steps.index("Iteration 1") < steps.index("print(len") < steps.index("12") < steps.index("Iteration 2")
    assert "FINAL(&#x27;1&#x27;)" in steps
    assert "Cell [3]" in steps
    assert "repeats" not in steps
    assert line.count("<details>") == line.count("</details>")
    asked = subcall(1, 0, 0, prompt_head="p" * 1_000, prompt_chars=3_000, prompt="p" * 3_000, text="r" * 3_000)
    deep = shown(asking("c1"), lambda _: child(asked))
    assert "p" * 3_000 in deep
    assert "r" * 3_000 in deep
    assert "Steps" not in shown(asking("c1"), lambda _: ())


def test_what_its_own_child_did_stands_there_too() -> None:
    deeper: list[Record] = [
        started(run_id="c2", depth=2),
        reply(1, "```repl\nprint('deep')\n```"),
        cell(1, 0, "print('deep')"),
    ]
    records = {"c1": child(subcall(1, 0, 0, kind="rlm", child="c2", prompt_head="dig")), "c2": deeper}
    line = shown(asking("c1"), records.__getitem__)
    assert line.index("rlm&#95;query: dig") < line.index("Steps of the child: 1 iteration<") < line.index("deep&#x27;")


def test_a_child_that_names_itself_is_shown_once() -> None:
    records = child(*(subcall(1, 0, place, kind="rlm", child="c1") for place in range(10)))
    assert shown(asking("c1"), lambda _: records).count("Steps of the child") == 1


def test_a_child_with_many_iterations_is_shown_in_part() -> None:
    records: list[Record] = [started(run_id="c1"), *(reply(i, f"Step {i}. {'_' * 19_000}") for i in range(1, 21))]
    line = shown(asking("c1"), lambda _: records)
    assert len(line) < 210_000
    assert "Steps of the child: 20 iterations" in line
    assert "further iterations: in the record of c1." in line


@pytest.mark.parametrize("count", [90, 400])
def test_a_notebook_with_many_children_stays_small_and_reads_no_more_of_them(count: int) -> None:
    asked: list[str] = []
    long: list[Record] = [started(), *(reply(i, f"{'x' * 14_000}\n```repl\n{i}\n```") for i in range(1, 11))]

    def children(run_id: str) -> Sequence[Record]:
        asked.append(run_id)
        return long

    line = shown(asking(*(f"c{number}" for number in range(count))), children)
    assert len(line) < 5_000_000
    assert len(asked) < 60


def test_the_records_of_the_run_are_the_same_with_them(tmp_path) -> None:
    records = asking("c1")
    path = tmp_path / "run.ipynb"
    path.write_bytes(lay_out(records, lambda _: child()))
    assert read(path) == records
