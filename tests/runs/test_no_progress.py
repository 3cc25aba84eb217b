"""A run does not go in circles: what is said again is drawn anew, and ends the run when nothing else comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result, parsing
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import notebook
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget import request
from rlm_jupyter.types.events import SubcallSettled
from rlm_jupyter.types.values import Reply
from tests.support.loopback import Fault, Loopback


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str, says: str = "I look.") -> str:
    return "\n".join([says, "```repl", *lines, "```"])


END = block("FINAL(len(context))")


async def run(replies: list[Any], **options: Any) -> Result:
    return await RLM(ScriptedModel(replies), **options).acompletion("How long?", "some text")


COUNTS = """\
count = 0
words = {}
for word in context.split():
    count += 1
    words[word] = words.get(word, 0) + 1
print(count, words)"""


@pytest.mark.parametrize(
    ("replies", "rejected", "iterations"),
    [
        ([block("1/0"), block("1 / 0  # again", "", says="Otherwise:"), END], 1, 2),
        ([block("def f():", " 1"), block("x = = 1"), block("  # so", "x =  = 1"), END], 1, 3),
        (["I think about it.", "I think\nabout it.", END], 1, 2),
        (["", " \n", END], 2, 1),
        (["Left: 9 s, I think.", "Left: 8 s, I think.", END], 1, 2),
        ([block("print(1)"), block("print( 1 )"), block("print(1)", says="Once more."), END], 2, 2),
        ([block("len(context)")] * 3 + [END], 2, 2),
        ([block(COUNTS)] * 3 + [END], 2, 2),
        ([block("context = context.split()[1:]", "print(context)")] * 3 + [END], 2, 2),
        ([block("print(hash(1))")] * 3 + [END], 1, 3),
        ([block("print(context[:1])"), block("print(hash(1))"), block("print(context[:1])  # again"), END], 1, 3),
        ([block("1/0"), block("print(hash(1))"), block("1/0"), END], 1, 3),
        (
            [
                block("import re", "x = 1"),
                *[block("print(re.findall('s', context))"), block("print(hash(1))")] * 2,
                END,
            ],
            1,
            5,
        ),
        ([block("print(7)"), block("7"), END], 1, 2),
        ([block("print('some text')"), block("some text", "and so on"), END], 1, 2),
        ([block("print(7)"), block("2", "<prompt>", "How long?", "</prompt>"), END], 1, 2),
        ([block("print(7)"), "```repl\n0\n\nIteration 3 of 30. Nothing was found that way", END], 1, 2),
    ],
    ids=[
        "a failed cell",
        "what is no Python",
        "words",
        "nothing",
        "words with what was left",
        "a cell that shows the same",
        "a value",
        "a count",
        "another context",
        "a cell that might have shown something else",
        "a cell before the one before",
        "a failed cell before the one before",
        "a cell that uses what another imported, and another in turn",
        "the last outputs",
        "the last outputs and more",
        "the prompt",
        "the line after the outputs, in a block without an end",
    ],
)
async def test_what_is_said_again_is_drawn_anew(replies: list[str], rejected: int, iterations: int) -> None:
    result = await run(replies)
    assert (result.answer, result.stop_reason) == ("9", "answered")
    assert (len(result.trajectory.rejected), len(result.trajectory.iterations)) == (rejected, iterations)
    assert result.usage.total_tokens == result.trajectory.usage.total_tokens
    assert all(reply.usage.input_tokens for reply in result.trajectory.rejected)


@pytest.mark.parametrize(
    "cell",
    [
        "import random; print(random.random())",
        "n = globals().get('n', 0) + 1; print(n)",
        "seen = globals().setdefault('seen', []); seen.append(1)",
        "it = globals().setdefault('it', iter(range(9))); _ = next(it)",
        "n = n + 1 if 'n' in globals() else 0; part = llm_query(f'part {n}')",
        "%time pass",
        "n = globals().get('n', 0); m = n; n += 1; print(len(context))",
        "found = [seen] if 'seen' in globals() else [[]]; seen = found[0]; seen.append(1)",
        "kept = globals().get('kept', []); new = []; new = kept; new.append(1)",
    ],
    ids=[
        "at random",
        "counting",
        "a list",
        "an iterator",
        "sub-calls",
        "a magic",
        "counting on",
        "a list by its name",
        "a list by a name that was new",
    ],
)
async def test_a_cell_that_gets_on_is_no_circle(cell: str) -> None:
    result = await run([block(cell)] * 4 + [END])
    assert (result.answer, len(result.trajectory.iterations)) == ("9", 5)
    assert not result.trajectory.rejected


@pytest.mark.parametrize(
    "replies",
    [
        [block("print(hash(words))"), block("words = 'some'"), block("print(hash(words))")],
        [
            block("print(re.findall('s', context))"),
            block("import re", "x = 1"),
            block("print(re.findall('s', context))"),
        ],
        [block("print('x = 1')"), block("x = 1")],
        [block("print('7')"), block("# 7", "print(hash(7))")],
        [block("print('a')"), block("print('''", "<prompt>", "''')")],
    ],
    ids=[
        "of what was set since",
        "of what was imported since",
        "what was printed is code",
        "what was printed is a comment",
        "a text with tags",
    ],
)
async def test_what_only_looks_like_a_repetition_is_executed(replies: list[str]) -> None:
    result = await run([*replies, END])
    assert (result.answer, len(result.trajectory.iterations)) == ("9", len(replies) + 1)
    assert not result.trajectory.rejected


async def test_what_the_model_is_no_longer_shown_may_be_looked_at_again() -> None:
    looks, more = block("print(context[:3000])"), [block(f"print('{digit}' * 3000)") for digit in range(1, 5)]
    limits = Limits(output_chars=4_000, max_output_tokens=300)
    model = ScriptedModel([looks, *more, looks, END], window=5_000)
    result = await RLM(model, limits=limits).acompletion("How long?", "some text " * 500)
    assert result.trajectory.elided_through >= 1
    assert (result.answer, result.trajectory.rejected) == ("5000", ())


async def test_mending_an_indentation_is_no_repetition() -> None:
    result = await run([block("if 1:", "x = 1"), block("if 1:", "    x = 1"), END])
    assert not result.trajectory.rejected


async def test_another_answer_beside_the_same_cell_is_no_repetition() -> None:
    same = block("print(hash(1))")
    result = await run([same, same, f"{same}\n\nFINAL(nine)", f"{same}\n\nFINAL(nine)"])
    assert (result.answer, result.trajectory.rejected) == ("nine", ())


async def test_a_circle_ends_with_what_there_is_and_its_record_says_so() -> None:
    result = await run([block("answer['content'] = 'draft'"), *[block("1/0")] * 5])
    assert (result.answer, result.stop_reason) == ("draft", "no_progress")
    assert (len(result.trajectory.iterations), len(result.trajectory.rejected)) == (2, 3)
    assert result.path is not None
    assert notebook.read(result.path) == list(result.trajectory.records)
    replayed = await RLM.areplay(result.path)
    assert not replayed.differences


NEVER_CLOSED = "```repl\nprint(len(context))"


@pytest.mark.parametrize("replies", [[NEVER_CLOSED] * 2, [NEVER_CLOSED, "````repl\nprint(9)"]])
async def test_a_model_that_never_closes_its_blocks_gets_its_second_one_executed(replies: list[str]) -> None:
    result = await run([*replies, NEVER_CLOSED.replace("print", "FINAL")])
    assert (result.answer, result.stop_reason) == ("9", "answered")
    first, second, last = result.trajectory.iterations
    assert [len(one.cells) for one in (first, second, last)] == [0, 1, 1]
    assert "is not closed" in first.notices[0]
    assert not second.notices
    assert second.cells[0].outputs[0]["text"] == "9\n"
    assert not result.trajectory.rejected
    assert result.path is not None
    assert not RLM.replay(result.path).differences


@pytest.mark.parametrize(
    ("first", "second"),
    [("length", "stop"), ("stop", "length"), ("other", "other")],
)
async def test_a_block_that_may_have_been_cut_off_is_not_executed(first: Any, second: Any) -> None:
    replies = [Reply(NEVER_CLOSED + " ", "scripted/m", finish=first), Reply(NEVER_CLOSED, "scripted/m", finish=second)]
    result = await run([*replies, END])
    assert [len(one.cells) for one in result.trajectory.iterations] in ([0, 1], [0, 0, 1])
    assert result.trajectory.iterations[-1].reply.text == END


async def test_it_is_drawn_warmer_where_that_can_be_said_and_told_once() -> None:
    with Loopback([block("1/0"), block("1/0"), block("1/0"), END], alternates=True) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k")
        result = await RLM(model).acompletion("How long?", "some text")
    assert result.answer == "9"
    heats = [request.body.get("temperature") for request in server.requests]
    assert heats == [None, None, 1.0, 1.3]
    first, told, again = (request.messages for request in server.requests[1:])
    assert told == again
    assert (told[:-1], told[-1]["content"].startswith(first[-1]["content"])) == (first[:-1], True)
    assert "would give the same result" in told[-1]["content"]


async def test_elsewhere_the_model_is_told_and_a_resumed_run_says_the_same(in_folder: Path) -> None:
    replies = [block("1/0"), block("1/0"), "Hm.", "my guess"]
    model = ScriptedModel(replies)
    first = await RLM(model, limits=Limits(max_iterations=2)).acompletion("How long?", "some text")
    told = model.requests[2][-1].content
    assert told.startswith(model.requests[1][-1].content)
    assert "would give the same result" in told
    assert first.path is not None
    after = ScriptedModel([END])
    result = await RLM.aresume(first.path, model=after, max_iterations=3)
    assert result.answer == "9"
    assert after.requests[0][: len(model.requests[2])] == model.requests[2]
    assert Trajectory.load(first.path).rejected[0].text == block("1/0")


async def test_a_child_in_a_circle_ends_too() -> None:
    child = ScriptedModel([*[block("1/0")] * 4, "its guess"], name="scripted/child")
    root = ScriptedModel([block("FINAL(rlm_query('a part'))")])
    result = await RLM(root, sub_model=child, limits=Limits(max_depth=2)).acompletion("What?", "some text")
    assert result.answer == "its guess"
    assert len(child.requests) == 5


async def test_the_same_sub_call_without_chance_is_not_sent_twice() -> None:
    cells = [
        block("a = llm_query_batched(['one', 'two', 'one'])"),
        block("b = [llm_query('two'), llm_query('three')]", "print(b)"),
        block("FINAL(a + b)"),
    ]
    with Loopback([lambda messages: messages[-1]["content"].upper()]) as server:
        cold = load_model("openai/cold", base_url=server.openai_url, api_key="k", temperature=0)
        result = await RLM(ScriptedModel(cells), sub_model=cold).acompletion("What?", "some text")
        assert result.value == ["ONE", "TWO", "ONE", "TWO", "THREE"]
        asked = sorted(request.messages[-1]["content"] for request in server.requests)
        assert asked == ["one", "three", "two"]
        assert {request.body["temperature"] for request in server.requests} == {0}
        said = ["not sent again" in str(iteration.notices) for iteration in result.trajectory.iterations]
        assert said == [True, True, False]
        assert len(result.trajectory.subcalls) == 5
        assert sum(call.usage.total_tokens > 0 for call in result.trajectory.subcalls) == 3
        assert result.path is not None
        assert not (await RLM.areplay(result.path)).differences
        server.requests.clear()
        other = load_model("openai/warm", base_url=server.openai_url, api_key="k")
        await RLM(ScriptedModel(cells), sub_model=other).acompletion("What?", "some text")
        assert len(server.requests) == 5


async def test_a_failed_sub_call_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "_REST_SECONDS", 0.01)
    settled: list[SubcallSettled] = []
    cells = [block("try: llm_query('one')", "except SubcallError: pass"), block("FINAL(llm_query('one'))")]

    def reply(_: object) -> Any:
        return "at last" if settled else Fault.status(500)

    with Loopback([reply]) as server:
        cold = load_model("openai/cold", base_url=server.openai_url, api_key="k", temperature=0)
        result = await RLM(ScriptedModel(cells), sub_model=cold).acompletion(
            "What?", "some text", on_event=lambda e: settled.append(e) if isinstance(e, SubcallSettled) else None
        )
    assert result.answer == "at last"
    assert [call.failed for call in settled] == [True, False]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1", "x=1  # one\n\n", True),
        ("f('a  b')", "f('a b')", False),
        ("f('# a')", "f('')", False),
        ("%time x", "%time  x", True),
        ("%time x", "%time y", False),
        ("!ls a", "!ls b", False),
        ("%%bash\nls a", "%%bash\nls b", False),
    ],
)
def test_cells_are_the_same_but_for_white_space_and_comments(one: str, other: str, same: bool) -> None:
    assert (parsing.normal(one) == parsing.normal(other)) is same
