"""Answers of a type: shown to the model, checked in the host, sent back with the reasons, an instance in the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from IPython.core.interactiveshell import InteractiveShell
from pydantic import AfterValidator, BaseModel, Field

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.values import Message
from tests.runs.test_cli import cli, script
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.support.here import Notebook

CONTEXT = "Invoice of Abel & Sons. Total: 40.50 EUR.\n" * 200
WRONG, RIGHT = "FINAL({'vendor': 'Abel'})", "FINAL({'vendor': 'Abel', 'total': 40.5, 'lines': ['a']})"
AS_JSON = '{"vendor": "Abel", "total": 40.5, "lines": ["a"]}'
TYPES = """
import dataclasses
@dataclasses.dataclass
class Invoice:
    vendor: str
    total: float
"""


class Invoice(BaseModel):
    vendor: str = Field(description="as on the letterhead")
    total: float = Field(gt=0)
    lines: list[str] = []


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(source: str) -> str:
    return f"```repl\n{source}\n```"


def model(*cells: str) -> ScriptedModel:
    return ScriptedModel([block("print(len(context))"), *map(block, cells)])


def notices(result: Result) -> list[str]:
    return [notice for iteration in result.trajectory.iterations for notice in iteration.notices]


def test_what_is_wrong_goes_back_with_its_place_and_the_value_is_an_instance() -> None:
    nearly = "FINAL({'vendor': 'Abel', 'total': -1, 'lines': [3]})"
    result = RLM(model(WRONG, nearly, RIGHT)).completion("What is it?", CONTEXT, answer=Invoice)
    assert result.stop_reason == "answered"
    assert result.value == Invoice(vendor="Abel", total=40.5, lines=["a"])
    assert json.loads(str(result.answer)) == json.loads(AS_JSON)
    first, second = notices(result)
    assert "- total: field required" in first
    assert "- total: input should be greater than 0, not -1\n- lines[0]: input should be a valid string" in second
    form = result.trajectory.started.opening.partition("<form>\n")[2].partition("\n</form>")[0]
    assert form == (
        '{\n  "vendor": str,  # as on the letterhead\n  "total": float (> 0),\n  "lines": [str, ...],  # optional\n}'
    )


@pytest.mark.parametrize(
    ("wanted", "cell", "value"),
    [
        (int, "FINAL('42')", 42),
        (str, "FINAL('42')", "42"),
        (list[int], "FINAL_VAR('found')", [1, 2]),
        (dict[str, float], "FINAL('{\"a\": 1}')", {"a": 1.0}),
        (Literal["yes", "no"], "FINAL('yes')", "yes"),
        (bool | None, "FINAL(False)", False),
        (bool | None, "FINAL(None)", None),
        (Literal["a"] | None, "nothing = None\nFINAL_VAR(nothing)", None),
        ({"enum": ["a", None]}, "FINAL(None)", None),
        ({"type": "array", "items": {"type": "number"}, "minItems": 1}, "FINAL([1.5])", [1.5]),
    ],
)
def test_any_type_or_schema(wanted: Any, cell: str, value: object) -> None:
    played = ScriptedModel([block("found = [1, 2]\nprint(found)"), block(cell)])
    result = RLM(played, save=False).completion("What?", CONTEXT, answer=wanted)
    assert (result.stop_reason, result.value, type(result.value)) == ("answered", value, type(value))


OBJECTS = """
import dataclasses, datetime, decimal, enum, numpy, pandas, pydantic
@dataclasses.dataclass
class Line:
    name: str
    at: datetime.date
class Model(pydantic.BaseModel):
    lines: list[int]
class Kind(enum.Enum):
    GOOD = "good"
day = datetime.date(2031, 2, 3)
"""
DATED = {"name": "a", "at": "2031-02-03"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "declared", "value"),
    [
        (list[int], "(1, 2)", [1, 2]),
        (tuple[int, str], "(1, 'a')", (1, "a")),
        (set[str], "{'b', 'a'}", {"a", "b"}),
        (dict[int, str], "{1: 'a', 2: 'b'}", {1: "a", 2: "b"}),
        (list[dict[str, str]], "[Line('a', day)]", [DATED]),
        (dict[str, list[int]], "Model(lines=[1, 2])", {"lines": [1, 2]}),
        (list[dict[str, Any]], "pandas.DataFrame({'n': [1, 2]})", [{"n": 1}, {"n": 2}]),
        (dict[str, Any], "{'rows': numpy.arange(2), 'at': day, 'of': Kind.GOOD}", {"rows": [0, 1], "at": DATED["at"], "of": "good"}),
        (list[float], "pandas.Series([1.5, 2])", [1.5, 2.0]),
        (dict[str, str], "{'sum': decimal.Decimal('40.50')}", {"sum": "40.50"}),
        (str, "(1, 2)", "(1, 2)"),
    ],
)  # fmt: skip
def test_what_json_has_no_form_for_is_taken_as_the_plain_data_that_comes_nearest(
    wanted: Any, declared: str, value: object
) -> None:
    result = RLM(model(f"{OBJECTS}FINAL({declared})")).completion("What?", CONTEXT, answer=wanted)
    assert (result.stop_reason, result.value) == ("answered", value)
    assert SavedRun.load(str(result.path)).trajectory.ended == result.trajectory.ended
    assert RLM.replay(str(result.path)).differences == ()


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("[Line(3, day)]", "- [0].name: input should be a valid string, not 3"),
        ("[{'name': float('nan')}]", "- [0].name: NaN is no answer, and nothing that JSON has: say null"),
        ("({'name': 'a'}, object())", "no plain data could be made of a tuple"),
    ],
)
def test_of_what_comes_nearest_the_place_is_told(declared: str, said: str) -> None:
    cells = [f"{OBJECTS}FINAL({declared})", "FINAL([{'name': 'a'}])"]
    result = RLM(model(*cells)).completion("What?", CONTEXT, answer=list[dict[Literal["name", "at"], str]])
    assert result.value == [{"name": "a"}]
    [notice] = notices(result)
    assert said in notice


class Plain:
    """What pydantic knows nothing of."""


def broken(number: int) -> int:
    return number.total  # type: ignore[attr-defined]


def test_a_validator_that_fails_ends_the_run_and_is_not_told_to_the_model() -> None:
    result = RLM(model("FINAL(3)", "FINAL(4)")).completion(
        "What?", CONTEXT, answer=Annotated[int, AfterValidator(broken)]
    )
    assert (result.stop_reason, result.answer, len(result.trajectory.iterations)) == ("failed", "3", 2)
    said = (
        "A validator of the answer's type failed: AttributeError: 'int' object has no attribute 'total' (broken, line "
    )
    assert result.message.startswith(said)
    assert result.path is not None
    assert RLM.replay(result.path).same
    # without it, the draft that was never validated would be the answer
    with pytest.raises(ConfigurationError, match=r"^The type of the answer has validators, .* answer=…$"):
        RLM.resume(result.path, model=ScriptedModel([]))
    with pytest.raises(ConfigurationError, match="The type of the answer has validators"):
        RLM.fork(result.path, 1, model=ScriptedModel([]))
    # mended, the recorded answer is judged again, and nothing is asked for it
    resumed = RLM.resume(result.path, model=ScriptedModel([]), answer=int)
    assert (resumed.stop_reason, resumed.value, len(resumed.trajectory.iterations)) == ("answered", 3, 2)
    assert notices(resumed) == []
    assert RLM.replay(result.path).same


def above_four(number: int) -> int:
    if number <= 4:
        raise ValueError("more than four are needed")
    return number


def test_what_a_mended_validator_refuses_goes_back_to_the_model() -> None:
    result = RLM(model("FINAL(3)")).completion("What?", CONTEXT, answer=Annotated[int, AfterValidator(broken)])
    assert result.path is not None
    again = RLM.resume(result.path, model=ScriptedModel([]), answer=Annotated[int, AfterValidator(broken)])
    assert (again.stop_reason, len(again.trajectory.iterations)) == ("failed", 2)
    resumed = RLM.resume(
        result.path,
        model=ScriptedModel([block("FINAL(5)")]),
        answer=Annotated[int, AfterValidator(above_four)],
    )
    assert (resumed.stop_reason, resumed.value, len(resumed.trajectory.iterations)) == ("answered", 5, 3)
    assert "more than four are needed" in resumed.trajectory.iterations[1].notices[0]
    assert RLM.replay(result.path).same


@pytest.mark.slow
def test_none_is_an_answer_where_the_type_has_it(in_folder: Path) -> None:
    result = RLM(model("FINAL(None)")).completion("What?", CONTEXT, answer=int | None)
    assert (result.stop_reason, result.answer, result.value) == ("answered", "null", None)
    assert result.path is not None
    assert RLM.replay(result.path).same
    assert SavedRun.load(result.path).trajectory.answer == "null"
    assert cli("show", str(result.path)).out.splitlines()[2] == "null"
    with Notebook(in_folder) as notebook:
        notebook.run("%load_ext rlm_jupyter")
        notebook.run(f"%rlm_restore {result.path}")
        assert notebook.run("FINAL(None)").error == ""
    for wanted in (int, None, dict[str, None]):
        refused = RLM(model("FINAL(None)", "FINAL({'a': None})", "FINAL(3)")).completion(
            "What?", CONTEXT, answer=wanted
        )
        [output] = refused.trajectory.iterations[1].cells[0].outputs
        assert "FINAL: the value is None (did a function return nothing?)" in output["evalue"]
    kept = RLM(model("FINAL(None)", "FINAL(None)", "FINAL('none')"))
    with kept.completion("What?", CONTEXT, answer=int | None, keep_kernel=True) as first:
        assert first.answer == "null"
        assert first.ask("And?").answer == "none"  # a follow-up has no form
    assert first.path is not None
    assert RLM.replay(first.path).same


def test_with_one_mistake_too_many_the_last_draft_is_what_there_is() -> None:
    wrong = [f"FINAL({{'vendor': 'Abel {n}'}})" for n in range(5)]
    result = RLM(model(*wrong), limits=Limits(max_answer_errors=2)).completion("What?", CONTEXT, answer=Invoice)
    assert (result.stop_reason, result.value) == ("answer_invalid", {"vendor": "Abel 2"})
    assert result.message == "total: field required"
    assert len(result.trajectory.iterations) == 4
    at_once = RLM(model(*wrong), limits=Limits(max_answer_errors=0)).completion("What?", CONTEXT, answer=Invoice)
    assert (at_once.stop_reason, len(at_once.trajectory.iterations)) == ("answer_invalid", 2)


@pytest.mark.parametrize(
    ("limits", "replies", "begins"),
    [
        (Limits(max_iterations=2), [block("FINAL('many')"), "It is many."], ""),
        (Limits(max_answer_errors=20), [block("FINAL('many')")] * 5, "the model repeated itself. "),
    ],
)
def test_a_draft_of_another_type_is_said_to_be_one(limits: Limits, replies: list[str], begins: str) -> None:
    from rlm_jupyter.frontends.live.result import ShownResult

    article = "The" if begins else "the"
    said = (
        f"{article} answer so far is not of the type that was asked for (input should be a valid integer, not 'many')"
    )
    played = ScriptedModel([block("print(1)"), *replies])
    shown = ShownResult.of(RLM(played, limits=limits).completion("How many?", CONTEXT, answer=int))
    assert (shown.answer, shown.message) == ("many", f"{begins}{said}")
    assert said in shown.answer_html().replace("&#x27;", "'").replace("&#39;", "'")
    assert said in shown.answer_text()
    assert shown.path is not None
    assert not RLM.replay(shown.path).differences


def test_a_draft_of_the_type_is_not_remarked_on() -> None:
    rlm = RLM(model("FINAL('many')", "x = 1"), limits=Limits(max_iterations=3))
    result = rlm.completion("How many?", CONTEXT, answer=str, outputs=["a.csv"])
    assert (result.stop_reason, result.answer, result.message) == ("iterations", "many", "a.csv was not written")


def test_a_run_that_ended_by_it_goes_on_with_more_attempts_and_counts_those_before() -> None:
    limits = Limits(max_answer_errors=1)
    first = RLM(model(WRONG, WRONG), limits=limits).completion("What?", CONTEXT, answer=Invoice)
    assert first.stop_reason == "answer_invalid"
    assert first.path is not None
    with pytest.raises(ConfigurationError, match="max_answer_errors"):
        RLM.resume(first.path, model=model(RIGHT))

    def reply(messages: Sequence[Message]) -> str:
        assert "does not have the form" in messages[-1].content
        return block(RIGHT)

    again = RLM.resume(first.path, model=ScriptedModel([reply]), max_answer_errors=2)
    assert (again.stop_reason, again.value) == ("answered", json.loads(AS_JSON))  # its record knows the schema
    assert len(again.trajectory.iterations) == 4
    worse = RLM(model(WRONG, WRONG), limits=limits).completion("Which?", CONTEXT, answer=Invoice)
    assert worse.path is not None
    other = block("FINAL({'vendor': 'Sons'})")
    ended = RLM.resume(worse.path, model=ScriptedModel([other]), max_answer_errors=2)
    assert ended.stop_reason == "answer_invalid"


def test_a_resumed_run_keeps_its_form_and_a_fork_may_have_another() -> None:
    first = RLM(model(WRONG), limits=Limits(max_answer_errors=0)).completion("What?", CONTEXT, answer=Invoice)
    plain = RLM(model(), limits=Limits(max_iterations=1)).completion("What?", CONTEXT)
    assert first.path is not None
    assert plain.path is not None
    listed = block("FINAL(['a'])")
    for path in (first.path, plain.path):
        with pytest.raises(ConfigurationError, match="keeps its form"):
            RLM.resume(path, model=ScriptedModel([listed]), answer=list[str], max_answer_errors=2, max_iterations=9)
    branch = RLM.fork(first.path, at=1, model=ScriptedModel([listed]), answer=list[str])
    assert (branch.value, branch.trajectory.started.options["answer"]["type"]) == (["a"], "array")
    assert "[str, ...]" in branch.trajectory.started.opening
    again = RLM.resume(first.path, model=model(RIGHT), answer=Invoice, max_answer_errors=2)
    assert again.value == Invoice(vendor="Abel", total=40.5, lines=["a"])


def test_a_run_that_is_resumed_without_its_class_keeps_dates() -> None:
    class Due(BaseModel):
        due: date

    cells = ["print(1)", "print(2)", "FINAL({'due': 'soon'})", "FINAL({'due': '2031-04-01'})"]
    played = ScriptedModel([*map(block, cells[:2]), "I do not know."])
    result = RLM(played, limits=Limits(max_iterations=2)).completion("When?", CONTEXT, answer=Due)
    assert result.stop_reason == "iterations"
    again = RLM.resume(str(result.path), model=ScriptedModel(list(map(block, cells[2:]))), max_iterations=6)
    assert (again.stop_reason, again.value) == ("answered", {"due": "2031-04-01"})
    assert "'soon' is not a 'date'" in str(notices(again))


def test_follow_ups_and_children_have_no_form_to_keep() -> None:
    def child(prompt: str) -> str:
        return block("FINAL('of a child')")

    cells = [block("print(rlm_query('What?\\n\\ntext'))"), block(RIGHT), block("FINAL(f'{len(context):,} characters')")]
    played = ScriptedModel(
        [cells[0], lambda messages: child(""), *cells[1:]],
    )
    rlm = RLM(played, limits=Limits(max_depth=2, max_kernels=4))
    with rlm.completion("What?", CONTEXT, answer=Invoice, keep_kernel=True) as result:
        assert isinstance(result.value, Invoice)
        assert "of a child" in str(result.trajectory.iterations[0].cells[0].outputs)
        further = result.ask("And?")
    assert (further.value, further.stop_reason) == (f"{len(CONTEXT):,} characters", "answered")
    assert "<form>" not in further.trajectory.started.opening


def test_samples_agree_on_what_a_value_is_not_on_how_it_is_written() -> None:
    answers = iter(["FINAL({'vendor': 'Abel', 'total': '40.5'})", "FINAL({'total': 40.50, 'vendor': 'Abel'})"] * 2)

    def reply(messages: Sequence[Message]) -> str:
        said = any(message.role == "assistant" for message in messages)
        return block(next(answers)) if said else block("print(len(context))")

    result = RLM(ScriptedModel([reply] * 20), samples=2).completion("What?", CONTEXT, answer=Invoice)
    assert (result.value, result.confidence) == (Invoice(vendor="Abel", total=40.5), 1.0)


def test_the_record_of_a_run_is_compared_and_forked_with_its_form() -> None:
    result = RLM(model(WRONG, RIGHT)).completion("What?", CONTEXT, answer=Invoice)
    assert result.path is not None
    assert Trajectory.load(result.path).started.options["answer"]["title"] == "Invoice"
    assert not RLM.replay(result.path).differences
    branch = RLM.fork(result.path, at=1, model=ScriptedModel([block(WRONG), block(RIGHT)]))
    assert (branch.stop_reason, len(branch.trajectory.iterations)) == ("answered", 3)


def test_an_answer_that_its_type_writes_in_another_way_is_the_same_when_replayed() -> None:
    result = RLM(model("FINAL({'total': '40.50', 'vendor': 'Abel'})")).completion("What?", CONTEXT, answer=Invoice)
    assert (result.value, result.path is None) == (Invoice(vendor="Abel", total=40.5), False)
    assert not RLM.replay(str(result.path)).differences
    changed = RLM(model("FINAL({'total': len(context) * time.time(), 'vendor': 'Abel'})".join(["import time; ", ""])))
    assert RLM.replay(str(changed.completion("What?", CONTEXT, answer=Invoice).path)).differences


@pytest.mark.slow
def test_a_schema_on_the_command_line() -> None:
    Path("s.schema.json").write_text(json.dumps(Invoice.model_json_schema()))
    Path("text.txt").write_text(CONTEXT)
    played = script(*map(block, ["print(len(context))", WRONG, RIGHT]))
    done = cli("run", "What is it?", "-c", "text.txt", "-m", played, "--schema", "s.schema.json", "--json")
    told = json.loads(done.out)
    assert (done.code, told["value"], told["stop_reason"]) == (0, json.loads(AS_JSON), "answered")
    wrong = script(*map(block, ["print(len(context))", WRONG]), name="w.json")
    done = cli("run", "?", "-c", "text.txt", "-m", wrong, "--schema", "s.schema.json", "--max-answer-errors", "0")
    assert (done.code, json.loads(done.out)) == (1, {"vendor": "Abel"})
    assert (
        "the answer or its files are not as they were asked for (--max-answer-errors 1 lets it try again)" in done.err
    )
    assert done.err.splitlines()[-1].endswith("--max-answer-errors 1")
    for bad, said in (("gone.json", "can't be read"), ("text.txt", "is no JSON")):
        done = cli("run", "?", "-c", "text.txt", "-m", played, "--schema", bad)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert said in done.err


def test_a_type_of_the_notebook_in_the_magic(shell: InteractiveShell) -> None:
    Path("m.json").write_text(json.dumps({"replies": list(map(block, ["print(1)", WRONG, RIGHT]))}))
    run_cell(shell, TYPES + f"book = {CONTEXT!r}")
    ask = '%%rlm -c book -m scripted/m.json --answer "list[Invoice] | Invoice"\nWhat?'
    _, error = run_cell(shell, ask)
    assert error is None
    result = shell.user_ns["rlm_result"]
    assert (type(result.value).__name__, result.value.total) == ("Invoice", 40.5)
    shown, _ = run_cell(shell, ask)  # from the record
    assert "no model was asked" in shown
    assert type(shell.user_ns["rlm_result"].value).__name__ == "Invoice"
    for answer, said in (("Invoise", "NameError"), ("3", "no type"), ("book", "is a text, and no type")):
        _, error = run_cell(shell, f"%%rlm -c book -m scripted/m.json --answer {answer}\nWhat?")
        assert isinstance(error, ConfigurationError)
        assert said in str(error)


EVEN = """
from typing import Annotated
from pydantic import AfterValidator
def even(number):
    assert number % 2 == 0, "it is odd"
    return number
Even = Annotated[int, AfterValidator(even)]
"""


def test_a_recorded_answer_that_a_type_with_the_same_schema_refuses_is_not_its_answer(shell: InteractiveShell) -> None:
    Path("m.json").write_text(json.dumps({"replies": list(map(block, ["print(1)", "FINAL(3)", "FINAL(4)"]))}))
    run_cell(shell, EVEN + f"book = {CONTEXT!r}")
    for answer, value, is_recorded in (("int", 3, False), ("int", 3, True), ("Even", 4, False), ("Even", 4, True)):
        shown, error = run_cell(shell, f"%%rlm -c book -m scripted/m.json --answer {answer}\nWhat?")
        assert error is None
        assert (shell.user_ns["rlm_result"].value, "no model was asked" in shown) == (value, is_recorded)


@pytest.mark.slow
def test_a_type_of_the_notebook_in_its_own_kernel(in_folder: Path) -> None:
    Path("m.json").write_text(json.dumps({"replies": list(map(block, ["print(1)", WRONG, RIGHT]))}))
    with Notebook(in_folder) as notebook:
        assert notebook.run(TYPES).error == ""
        assert notebook.run("%%rlm --here -m scripted/m.json --answer Invoice\nWhat?").error == ""
        assert notebook.run("rlm_result.value").value == "Invoice(vendor='Abel', total=40.5)"
        Path("n.json").write_text(json.dumps({"replies": list(map(block, ["print(1)", "FINAL(None)"]))}))
        for _ in range(2):  # asked, and re-executed
            shown = notebook.run('%%rlm --here -m scripted/n.json --answer "int | None"\nWhat?')
            assert shown.error == ""
            assert "another answer" not in shown.text
            assert notebook.run("(rlm_result.answer, rlm_result.value)").value == "('null', None)"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("list[str]", r"answer='list\[str\]' is a text, and no type: give a pydantic model, a dataclass, int, list"),
        (3, "answer=3 is no type that can be described as JSON: give a pydantic model"),
        ([int], "no type that can be described as JSON: give a pydantic model"),
        (lambda x: x, "is a function, and no type: give a pydantic model"),
        (Plain, "answer=Plain is no type that can be described as JSON: give a pydantic model"),
        (list[dict[tuple[int, int], str]], "the keys of an object are texts in JSON"),
        (list[Plain], r"\(for <class '.*Plain'> there is no form\): give a pydantic model"),
        ({"type": "nonsense"}, "no JSON schema: type: 'nonsense' is not one of "),
        (
            {"type": "object", "properties": {"lines": {"type": ["string", "nul"]}}},
            r"no JSON schema: properties\.lines\.type\[1\]: 'nul' is not one of ",
        ),
        ({"type": "object", "required": "name"}, "no JSON schema: required: 'name' is not of type 'array'"),
        ({"$ref": "#/$defs/Nowhere"}, r'no JSON schema: it refers to "#/\$defs/Nowhere", which is not in it'),
        ({"type": "array", "items": {"$ref": "https://example.org/s.json"}}, "it refers to .*, which is not in it"),
        ({"vendor": "str"}, "takes any answer: a JSON schema says what is wanted by keywords"),
        ({}, "takes any answer"),
        ({"enum": [f"value {n} of many" for n in range(2_000)]}, None),
        ({"properties": {f"the key {n} of a long row": {"type": "string"} for n in range(900)}}, "8,000 are the most"),
    ],
)
def test_what_is_no_type_is_refused_before_anything_is_spent(wanted: Any, said: str | None) -> None:
    played = model(RIGHT)
    if said is None:
        RLM(played, answer=wanted)
        return
    with pytest.raises(ConfigurationError, match=said) as refused:
        RLM(played).completion("What?", CONTEXT, answer=wanted)
    assert "errors.pydantic.dev" not in str(refused.value)
    assert "arbitrary_types_allowed" not in str(refused.value)


def test_a_model_that_answers_in_text_is_refused_before_anything_is_asked(shell: InteractiveShell) -> None:
    said = "extractive/bm25 answers in text, and can give no answer of a type: name another model"
    with pytest.raises(ConfigurationError, match=said):
        RLM("extractive").completion("What does this invoice say?", CONTEXT, answer=Invoice)
    with pytest.raises(ConfigurationError, match=said):
        RLM("extractive", answer=list[str])
    assert "Abel" in str(RLM("extractive").completion("Whose invoice is this?", CONTEXT, answer=str).value)
    Path("s.json").write_text('{"type": "integer"}')
    Path("i.txt").write_text(CONTEXT)
    asked = cli("run", "What?", "--context", "i.txt", "-m", "extractive", "--schema", "s.json")
    assert (asked.code, asked.out) == (2, "")
    assert f"{said} (-m).\n" in asked.err
    _, error = run_cell(shell, "%%rlm -m extractive --answer int\nWhat?")
    assert isinstance(error, ConfigurationError)
    assert said in error.for_notebook


def test_the_example_of_the_docs(in_folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "typed-answers.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    answer = page.partition("result.answer  # '")[2].partition("'\n")[0]
    Path("invoice.txt").write_text("Abel & Sons, due 2031-04-01: 40 apples, 40.50 EUR")
    Path("m.json").write_text(json.dumps({"replies": [block("print(context)"), block(f"FINAL({answer!r})")]}))
    names: dict[str, Any] = {"Path": Path}
    source = example.replace("ollama/qwen3:8b", "scripted/m.json")
    exec(compile(source, "example", "exec", dont_inherit=True), names)
    assert (names["result"].value.total, names["result"].answer) == (40.5, answer)
    form = page.partition("```text\n")[2].partition("  ```")[0]
    assert form.replace("\n  ", "\n").strip() in names["result"].trajectory.started.opening


SUBCALLS = """
from dataclasses import dataclass
from typing import Literal
@dataclass
class Row:
    name: str
    n: int
print(llm_query('how many?', answer=int) + 1)
labels = llm_query_batched(['a', 'b', 'c'], answer=Literal['yes', 'no'])
print(labels[:2], bool(labels[2]), labels[2])
print(llm_query('row', answer=Row), await allm_query('list', answer={'type': 'array', 'items': {'type': 'integer'}}))
try:
    llm_query('wrong', answer=list[str])
except Exception as error:
    print(type(error).__name__, error)
try:
    llm_query('text', answer='int')
except TypeError as error:
    print(error)
"""
REPLIES = {
    "how many?": ["41"],
    "a": ["yes"],
    "b": ["Perhaps.", '```json\n"no"\n```'],
    "c": ["Perhaps.", "I can't say"],
    "row": ['{"name": "x", "n": 3}'],
    "list": ["[1, NaN]", "[1, 2]"],
    "wrong": ["[1, 2", 'Here it is: ["a"]'],
}


def test_sub_calls_of_a_type_are_read_and_asked_for_once_more() -> None:
    asked: list[str] = []

    def sub(prompt: str) -> str:
        asked.append(prompt)
        return REPLIES[prompt.partition("\n")[0]]["You have replied" in prompt]

    result = RLM(ScriptedModel([block(SUBCALLS.strip()), block("FINAL('x')")], sub=sub)).completion("What?", CONTEXT)
    [output] = result.trajectory.iterations[0].cells[0].outputs
    said = "its reply had another form than asked for, twice"
    assert output["text"].splitlines() == [
        "42",
        f"['yes', 'no'] False [no answer: {said}: Input should be 'yes' or 'no']",
        "Row(name='x', n=3) [1, 2]",
        f"SubcallError {said}: Input should be a valid array",
        "llm_query: answer='int' is a text, and no type: give a pydantic model, a dataclass, int, list[str], "
        "Literal['a', 'b'] and the like, or a JSON schema as a dict",
    ]
    assert len(asked) == 11
    again = next(prompt for prompt in asked if prompt.startswith("b\n") and "You have replied" in prompt)
    assert again.startswith(
        'b\n\nReply with JSON alone, of this form:\n"yes" or "no"\n\nYou have replied\n<reply>\nPerhaps.'
    )
    assert result.path is not None
    assert not RLM.replay(result.path).differences  # from the record, in the same order


def test_a_child_is_asked_for_a_type_too() -> None:
    cells = ["print(rlm_query('How many?\\n\\ntext', answer=int) + 1)", "FINAL('42')", "FINAL('x')"]
    rlm = RLM(ScriptedModel(list(map(block, cells))), limits=Limits(max_depth=2, max_kernels=4))
    result = rlm.completion("What?", CONTEXT)
    assert result.trajectory.iterations[0].cells[0].outputs[0]["text"] == "43\n"
    assert result.path is not None
    [child] = SavedRun.load(result.path).children()
    assert "of this form:\nint\n\nHow many?" in Trajectory.load(child.files.notebook).started.opening
