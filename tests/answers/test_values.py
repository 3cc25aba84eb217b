"""What a value reads as when it is the answer: as text, as data, or why it is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rlm_jupyter.kernel.guest.codec import DRAFT
from rlm_jupyter.types.errors import KernelError
from tests.answers.vectors_kernel import Cells
from tests.answers.vectors_values import NO_DATA, NOTHING_SAID, NP, PA, PD, PL, VALUES


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    opened = Cells()
    yield opened
    opened.close()


def data(value: Any) -> Any:
    """Plain data and its types: 1 is not True."""
    return json.dumps(value)


@pytest.mark.parametrize("case", VALUES)
def test_what_a_value_reads_as(cells: Cells, case: str) -> None:
    source, text, plain = VALUES[case]
    value = cells.value(source)
    assert value.text == text
    assert value.is_json == (plain is not NO_DATA)
    assert data(value.json) == data(None if plain is NO_DATA else plain)


@pytest.mark.parametrize("case", [case for case in VALUES if "option_context" not in VALUES[case][0]])
def test_a_draft_and_a_variable_read_the_same(cells: Cells, case: str) -> None:
    source, text, plain = VALUES[case]
    head, _, given = source.partition("FINAL(")
    setting = f"{head}it = ({given}"
    assert cells.run(setting, "answer['content'] = it").inspection.draft == (text != "")
    for name in (DRAFT, "it"):
        value = cells.wait(cells.kernel.get(name))
        assert (value.text, value.is_json) == (text, plain is not NO_DATA)


@pytest.mark.parametrize("case", NOTHING_SAID)
def test_what_is_no_answer_is_an_error_that_says_why(cells: Cells, case: str) -> None:
    source, says = NOTHING_SAID[case]
    seen = cells.run(source)
    assert seen.answer is None
    assert seen.inspection.answer_state == "refused"
    assert seen.runs[0].status == "error"
    assert says in seen.told
    assert seen.inspection.problem.startswith("FINAL: ")
    seen = cells.run(f"{source.rpartition('FINAL(')[0]}pass\nFINAL('better')")
    assert seen.answer == "better"


def numbers(text: str) -> list[str]:
    return "".join(c if c.isdigit() else " " for c in text).split()


@pytest.mark.parametrize(
    "source",
    [
        PD + "FINAL(pd.DataFrame({'n': range(10_000, 11_000)}))",
        PD + "FINAL(pd.DataFrame([range(10_000, 11_000)]))",
        PD + "FINAL(pd.DataFrame({'n': [list(range(10_000, 11_000))]}))",
        PD + "FINAL(pd.Series(range(10_000, 11_000)))",
        PD + "FINAL(pd.Index(range(10_000, 11_000)).astype(str))",
        PD + "FINAL(pd.Categorical(range(10_000, 11_000)))",
        PD + "FINAL(pd.array(range(10_000, 11_000)))",
        PD + "FINAL(pd.MultiIndex.from_product([['a'], range(10_000, 11_000)]))",
        PD + "FINAL([pd.DataFrame({'n': range(10_000, 11_000)})])",
        PD + "FINAL({'frame': pd.Series(range(10_000, 11_000))})",
        PD + "FINAL(pd.DataFrame({'n': range(10_000, 11_000)}).to_dict('records'))",
        NP + "FINAL(np.arange(10_000, 11_000))",
        NP + "FINAL(np.arange(10_000, 12_000).reshape(2, 1000))",
        NP + "FINAL({'a': [np.arange(10_000, 12_000)]})",
        PL + "FINAL(pl.DataFrame({'n': range(10_000, 11_000)}))",
        PL + "FINAL(pl.Series(range(10_000, 11_000)))",
        PL + "FINAL(pl.DataFrame({'n': [list(range(10_000, 11_000))]}))",
        PL + "FINAL([pl.DataFrame({f'c{i}': [i] for i in range(10_000, 11_000)})])",
        PA + "FINAL(pa.table({'n': list(range(10_000, 11_000))}))",
        PA + "FINAL(pa.chunked_array([list(range(10_000, 11_000))]))",
        "from array import array\nFINAL(array('i', range(10_000, 11_000)))",
        "FINAL(set(range(10_000, 11_000)))",
    ],
    ids=lambda source: source.rpartition("FINAL")[2],
)
def test_nothing_is_left_out(cells: Cells, source: str) -> None:
    text = cells.value(source).text
    assert set(map(str, range(10_000, 11_000))) <= set(numbers(text))
    assert "..." not in text
    assert "…" not in text


@pytest.mark.parametrize(
    "source",
    [
        PD + "FINAL(pd.DataFrame({'a': [text], 'b': [text]}))",
        PD + "FINAL([pd.Series([text])])",
        NP + "FINAL(np.array([text]))",
        PL + "FINAL(pl.DataFrame({'a': [text], 'b': [text]}))",
        PL + "FINAL({'s': pl.Series([text])})",
        PA + "FINAL(pa.table({'a': [text]}))",
    ],
    ids=lambda source: source.rpartition("FINAL")[2],
)
def test_long_texts_in_frames_are_neither_cut_nor_broken(cells: Cells, source: str) -> None:
    text = "begin " + "word " * 200 + "end"
    assert text in cells.value(f"text = {text!r}\n{source}").text


def test_a_hundred_megabytes_arrive_whole(cells: Cells) -> None:
    value = cells.value("FINAL('ab' * 50_000_000)")
    assert value.text == "ab" * 50_000_000
    assert value.json is value.text


def test_a_long_number_arrives_whole(cells: Cells) -> None:
    assert cells.value("FINAL(7 * 10 ** 20_000)").text == "7" + "0" * 20_000
    assert cells.value("FINAL([7 * 10 ** 20_000])").text == "[7" + "0" * 20_000 + "]"


def test_every_way_reads_it_the_same(cells: Cells) -> None:
    made = PD + "it = pd.DataFrame({'n': range(100)})\n"
    ways = ("FINAL(it)", "FINAL_VAR(it)", "FINAL_VAR('it')", "FINAL_VAR(name='it')", "SUBMIT(it)", "SUBMIT(answer=it)")
    texts = {cells.value(made + way).text for way in ways}
    assert len(texts) == 1
    assert len(texts.pop().split("\n")) == 101


def test_what_libraries_were_told_stays_as_it_was(cells: Cells) -> None:
    told = (
        "told = [pd.get_option('display.max_rows'), pd.get_option('display.float_format'), np.get_printoptions(), "
        "pl.Config.state(), sys.get_int_max_str_digits()]\n"
    )
    seen = cells.run(
        PD + NP + PL + "import sys\n" + told + "before = told",
        "FINAL({'n': 10 ** 5000})",
        "class C:\n    def __str__(self): 1/0\nFINAL(C())",
        told + "assert told == before, told",
    )
    assert seen.runs[-1].status == "ok", seen.told


@pytest.mark.parametrize("waits", ["pass", "import time; time.sleep(0.05)"])
def test_a_text_that_never_ends_is_bounded_by_the_cell(cells: Cells, waits: str) -> None:
    source = f"class C:\n    def __str__(self):\n        while True: {waits}\nFINAL(C())"
    seen = cells.run(source, "left = 1", cell_seconds=1.0)
    assert [run.status for run in seen.runs] == ["interrupted", "ok"]
    assert seen.answer is None
    assert cells.run("FINAL('next')").answer == "next"


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt", "GeneratorExit", "ZeroDivisionError"])
def test_a_draft_whose_text_raises_leaves_the_kernel_alone(cells: Cells, error: str) -> None:
    seen = cells.run(f"class C:\n    def __str__(self): raise {error}\nanswer['content'] = C()")
    assert seen.inspection.draft
    with pytest.raises(KernelError, match="the C can't be turned into text"):
        cells.wait(cells.kernel.get(DRAFT))
    assert cells.run("FINAL('alive')").answer == "alive"


def test_a_value_that_changes_later_was_read_before(cells: Cells) -> None:
    made = "class C:\n    n = 0\n    def __str__(self):\n        C.n += 1\n        return str(C.n)\nc = C()\nFINAL(c)\nstr(c)"
    assert cells.value(made).text == "1"
    assert cells.value("rows = [1]\nFINAL(rows)\nrows.append(2)").json == [1]


def test_a_stub_of_a_library_breaks_nothing(cells: Cells) -> None:
    stubs = "import sys, types\nkept = {n: sys.modules.get(n) for n in ('pandas', 'polars', 'numpy')}\n"
    away = "for n in kept: sys.modules[n] = types.ModuleType(n)\n"
    back = "\nfor n, m in kept.items():\n    sys.modules.pop(n)\n    if m: sys.modules[n] = m"
    assert cells.value(stubs + away + "FINAL({'a': [1]})" + back).json == {"a": [1]}
