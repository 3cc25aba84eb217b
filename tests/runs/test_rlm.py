"""Whole runs: a scripted model, a real kernel, a record on disk."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import (
    ConfigurationError,
    ContextError,
    ContextWindowError,
    KernelError,
    ModelError,
    ModelUnavailableError,
    PolicyError,
    RLMError,
)
from rlm_jupyter.types.events import (
    CellFinished,
    CellProposed,
    CellStarted,
    Event,
    OutputChanged,
    ReplyStreamed,
    RunEnded,
    RunStarted,
)
from rlm_jupyter.types.values import Message, Reply

Script = list[Any]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str) -> str:
    return "I run this.\n```repl\n" + "\n".join(lines) + "\n```"


async def run(
    replies: Script, context: object = "some text", sub: Callable[[str], str] | None = None, **options: Any
) -> Result:
    model = ScriptedModel(replies, sub=sub)
    limits = options.pop("limits", None) or Limits(max_iterations=6)
    return await RLM(model, limits=limits, **options).acompletion("What is it?", context)


def told(result: Result, iteration: int = -1) -> str:
    seen = result.trajectory.iterations[iteration]
    return "\n".join([seen.shown, *seen.notices])


async def test_a_run_looks_and_answers() -> None:
    result = await run([block("print(len(context))"), block("FINAL(context[:4])")])
    assert (result.answer, result.stop_reason) == ("some", "answered")
    assert "9" in result.trajectory.iterations[0].shown


# some of them through `RLM` itself, and a kernel of their own each; all of them are in tests/answers
ENDINGS: list[tuple[str, Script, str | None]] = [
    ("repl block", [block("FINAL('hi')", "x = 1")], "hi"),
    (
        "text with parentheses",
        [block("print(1)"), "```repl\nFINAL(the answer (with parens))\n```"],
        "the answer (with parens)",
    ),
    ("final_var quoted", [block("x = 'v'"), block('FINAL_VAR("x")')], "v"),
    ("prose", [block("print(1)"), "FINAL(2024-11-12)"], "2024-11-12"),
    ("prose final_var", [block("x = 'v'"), "FINAL_VAR(x)"], "v"),
    (
        "literal after a block, again",
        [block("print(1)") + "\nFINAL(same)", block("print(2)") + "\nFINAL(same)"],
        "same",
    ),
    ("nothing", ["hm", block("FINAL(len(context))")], "9"),
    ("cut off", ["```repl\nFINAL('cut", block("FINAL(len(context))")], "9"),
    ("answer dict", [block('answer["ready"] = True', 'answer["content"] = "done"')], "done"),
    ("before an error", [block("FINAL('stands')", "1/0")], "stands"),
    ("all there is was shown", [block("FINAL('1234')")], "1234"),
    (
        "a made-up output",
        ["```repl\nprint(len(context))\n```\n**Output:**\n```\n100\n```\nFINAL(100)", block("FINAL(len(context))")],
        "9",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("replies", "answer"), [case[1:] for case in ENDINGS], ids=[case[0] for case in ENDINGS])
async def test_endings(replies: Script, answer: str | None) -> None:
    result = await run(replies)
    assert (result.answer, result.stop_reason) == (answer, "answered")
    assert len(result.trajectory.iterations) == len(replies)


def test_it_can_be_pickled_for_another_process_before_a_run_and_after() -> None:
    with RLM("extractive", limits=Limits(max_iterations=7)) as rlm:
        rlm.completion("Who keeps the key?", "Ada keeps the key. " * 9, keep_kernel=True)
        other = pickle.loads(pickle.dumps(rlm))
    assert (repr(other), other.settings.limits.max_iterations) == (repr(rlm), 7)
    result = other.completion("Who keeps the key?", "Ada keeps the key. " * 9, keep_kernel=True)
    assert "Ada keeps the key" in str(result.answer)
    other.close()


async def test_blocks_stop_at_the_first_that_fails() -> None:
    reply = "```repl\nprint('one')\n```\n```repl\n1/0\n```\n```repl\nprint('three')\n```"
    result = await run([reply, block("FINAL(1)")])
    assert [cell.status for cell in result.trajectory.iterations[0].cells] == ["ok", "error", "skipped"]
    assert "1 more block was not executed" in told(result, 0)


async def test_sub_calls_are_answered_and_recorded() -> None:
    result = await run(
        [block("r = llm_query_batched(['a', 'b'])", "FINAL(r)")], sub=lambda prompt: prompt.upper(), sub_model=None
    )
    assert result.value == ["A", "B"]
    calls = result.trajectory.iterations[0].subcalls
    assert sorted((call.prompt_head, call.text) for call in calls) == [("a", "A"), ("b", "B")]


async def test_rlm_query_is_a_plain_call_at_the_last_depth() -> None:
    result = await run([block("FINAL(rlm_query('deep'))")], sub=lambda prompt: f"plain {prompt}")
    assert result.answer == "plain deep"
    assert result.trajectory.subcalls[0].kind == "llm"


async def test_rlm_query_starts_a_run_of_its_own(in_folder: Path) -> None:
    child = ScriptedModel([block("print(context)"), block("FINAL('child says ' + context)")], name="scripted/child")
    root = ScriptedModel([block("FINAL(rlm_query('the part'))")])
    result = await RLM(root, sub_model=child, limits=Limits(max_depth=2)).acompletion("What?", "text")
    assert result.answer == "child says the part"
    (call,) = result.trajectory.subcalls
    assert call.kind == "rlm"
    assert result.path is not None
    children = list(result.path.with_suffix(".rlm").glob("children/*.ipynb"))
    assert [Trajectory.load(path).answer for path in children] == ["child says the part"]
    assert Trajectory.load(children[0]).started.parent == result.trajectory.run_id


async def test_a_cell_can_only_name_models_of_the_run() -> None:
    result = await run([block("llm_query('x', model='openai/expensive')"), block("FINAL(len(context))")])
    assert "not part of this run" in told(result, 0)


async def test_names_put_back_are_mentioned() -> None:
    result = await run([block("for llm_query in [1]: pass"), block("1"), block("FINAL(len(context))")])
    assert "llm_query" in told(result, 1)
    assert "put back" in told(result, 1)


STAND_INS = """context = '''some
lines'''
def llm_query(prompt):
    return prompt
FINAL = None
FINAL(llm_query(context))"""


async def test_stand_ins_for_what_is_there_are_left_out() -> None:
    result = await run([block(STAND_INS)], "the whole text", sub=str.upper)
    assert result.answer == "THE WHOLE TEXT"
    [cell] = result.trajectory.iterations[0].cells
    assert cell.source == STAND_INS
    assert "in place of `context` and `llm_query` and `FINAL` was left out" in told(result, 0)


async def test_a_context_of_its_own_is_no_stand_in_where_there_is_none() -> None:
    result = await run([block("context = 'mine'", "FINAL(context)")], None)
    assert result.answer == "mine"


async def test_a_dead_kernel_is_started_again_and_the_model_told() -> None:
    result = await run([block("kept = 1"), block("import os; os._exit(1)"), block("FINAL(len(context))")])
    assert result.answer == "9"
    assert "your variables are gone: kept" in told(result, 1)


async def test_a_kernel_that_keeps_dying_ends_the_run() -> None:
    result = await run([block(f"import os; os._exit({i})") for i in range(4)] + ["the best guess"])
    assert (result.answer, result.stop_reason) == ("the best guess", "kernel_died")


async def test_what_was_said_before_a_death_may_be_said_again_once() -> None:
    """Somebody else may have killed the kernel; what kills it each time is a repetition from the second time on."""
    told = iter(["die", "go on"])
    cell = block("if llm_query('well?') == 'die':\n    import os\n    os._exit(1)")
    result = await run([cell, cell, block("FINAL(len(context))")], sub=lambda prompt: next(told))
    assert result.answer == "9"
    assert not result.trajectory.rejected
    kills = block("import os; os._exit(1)")
    result = await run([*[kills] * 5, "what I know"])
    assert (result.answer, result.stop_reason) == ("what I know", "no_progress")
    assert [len(result.trajectory.iterations), len(result.trajectory.rejected)] == [2, 3]


async def test_of_two_runs_in_one_second_the_later_one_is_the_newest() -> None:
    results = [await run([block("FINAL(len(context))")]) for _ in range(5)]
    begun = [result.trajectory.started.started for result in results]
    assert begun == sorted(set(begun))


async def test_long_outputs_are_cut_and_kept_in_a_variable() -> None:
    result = await run(
        [block("print('x' * 50_000)"), block("FINAL(len(output_1))")],
        limits=Limits(output_chars=1000),
    )
    assert len(result.trajectory.iterations[0].shown) < 1500
    assert result.answer in {"50000", "50001"}


async def test_a_repeated_failure_is_drawn_again_and_ends_in_no_progress() -> None:
    result = await run([block("1/0")] * 4 + ["what I know"])
    assert (result.stop_reason, result.answer) == ("no_progress", "what I know")
    assert len(result.trajectory.iterations) == 1
    assert len(result.trajectory.rejected) == 3


async def test_a_repetition_drawn_anew_goes_on() -> None:
    result = await run([block("1/0"), block("1/0"), block("FINAL(len(context))")])
    assert result.answer == "9"
    assert len(result.trajectory.iterations) == 2


LIMITS: list[tuple[str, Limits, Script]] = [
    ("iterations", Limits(max_iterations=2), [block("print(1)"), block("print(2)")]),
    ("errors", Limits(max_errors=2), [block("1/0"), block("2/0")]),
    ("subcalls", Limits(max_subcalls=1), [block("llm_query('a')"), block("llm_query('b')")]),
    ("seconds", Limits(max_seconds=2.5), [block("import time; time.sleep(30)")]),
    ("tokens", Limits(max_tokens=5_000), [block("print(1)"), block("print(2)"), block("print(3)")]),
]


@pytest.mark.parametrize(("stop", "limits", "replies"), LIMITS, ids=[case[0] for case in LIMITS])
async def test_a_limit_ends_the_run_with_its_name(stop: str, limits: Limits, replies: Script) -> None:
    started = time.monotonic()
    result = await run([*replies, "the best guess"], limits=limits)
    assert result.stop_reason == stop
    assert result.answer in {"the best guess", None}
    assert time.monotonic() - started < 25  # the cell would sleep for 30 s


async def test_a_draft_is_the_answer_where_a_limit_ends_the_run() -> None:
    result = await run([block("answer['content'] = 'draft'")], limits=Limits(max_iterations=1))
    assert (result.answer, result.stop_reason) == ("draft", "iterations")


@pytest.mark.slow
async def test_a_draft_outlives_the_kernel() -> None:
    deaf = "import time\nwhile True:\n    try: time.sleep(5)\n    except BaseException: pass"
    result = await run([block("answer['content'] = 'draft'"), block(deaf)], limits=Limits(max_seconds=5))
    assert (result.answer, result.stop_reason) == ("draft", "seconds")


async def test_a_forced_reply_that_still_wants_to_run_code_is_no_answer() -> None:
    result = await run([block("print(1)"), block("print(2)")], limits=Limits(max_iterations=1))
    assert (result.answer, result.stop_reason) == (None, "iterations")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (block('SUBMIT(answer="42")'), "42"),
        (block("FINAL()"), None),
        (block('%%time\nFINAL("42")'), "42"),
        ("FINAL_VAR(answer)", "Paris"),
    ],
)
async def test_a_forced_reply_is_read_whatever_it_is(reply: str, answer: str | None) -> None:
    result = await run([block("print(42); answer = 'Paris'"), reply], limits=Limits(max_iterations=1))
    assert (result.answer, result.stop_reason) == (answer, "iterations")


async def test_a_rebound_answer_is_found_by_name() -> None:
    result = await run([block("answer = 'Paris'"), "FINAL(answer)"])
    assert result.answer == "Paris"


async def test_a_draft_that_never_becomes_text_ends_no_run_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlm_jupyter.kernel.kernel.LOOK_SECONDS", 1.0)
    slow = "import time\nclass A:\n    def __str__(self): time.sleep(1e6)\nanswer['content'] = A()"
    result = await run([block(slow), block("FINAL(len(context))")])
    assert result.answer == "9"
    assert "died" in told(result, 0)


@pytest.mark.slow
async def test_the_bill_counts_what_was_stopped() -> None:
    class Slow(ScriptedModel):
        async def complete(self, messages: Any, **options: Any) -> Any:
            if len(messages) == 1:
                await asyncio.sleep(30)
            return await super().complete(messages, **options)

    model = Slow([block("llm_query('x' * 4000)")])
    result = await RLM(model, limits=Limits(max_seconds=5)).acompletion("What?", "text")
    assert result.stop_reason == "seconds"
    assert result.trajectory.subcalls[0].usage.input_tokens == 1000
    assert result.usage == result.trajectory.usage


async def test_a_sub_call_that_outlives_its_cell_fails_instead_of_waiting(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    class Slow(ScriptedModel):
        async def complete(self, messages: Any, **options: Any) -> Any:
            if len(messages) == 1:
                asked.touch()
                await asyncio.sleep(30)
            return await super().complete(messages, **options)

    start = (
        "import os, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "f = ThreadPoolExecutor(1).submit(llm_query, 'x')\n"
        f"while not os.path.exists({str(asked)!r}): time.sleep(0.01)"
    )
    look = "try:\n    f.result()\nexcept SubcallError as error:\n    FINAL(str(error))"
    result = await RLM(Slow([block(start), block(look)])).acompletion("What?", "text")
    assert result.answer == "its cell had ended before it was answered"


async def test_a_watcher_that_fails_costs_nobody_the_run() -> None:
    model = ScriptedModel([block("FINAL(len(context))")])

    def watch(event: object) -> None:
        raise ZeroDivisionError

    assert (await RLM(model).acompletion("How long?", "abc", on_event=watch)).answer == "3"


@pytest.mark.parametrize("background", [True, False])
def test_a_watcher_that_fails_is_reported_with_one_traceback_and_a_count(
    background: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told = 0

    def watch(event: object) -> None:
        nonlocal told
        told += 1
        raise ZeroDivisionError

    rlm = RLM(ScriptedModel([block("print(1)"), block("FINAL(len(context))")]))
    if background:
        rlm.completion("How long?", "abc", on_event=watch)
    else:
        asyncio.run(rlm.acompletion("How long?", "abc", on_event=watch))
    failures = [record for record in caplog.records if "on_event failed" in record.message]
    assert [bool(record.exc_info) for record in failures] == [True, False]
    assert f"failed {told} times" in failures[-1].message
    assert told > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ModelUnavailableError, KernelError, PolicyError])
@pytest.mark.parametrize("way", ["completion", "acompletion", "start", "stream"])
def test_an_error_has_the_result_so_far_and_says_how_to_resume(way: str, kind: type[RLMError]) -> None:
    rlm = RLM(ScriptedModel([block("answer['content'] = 'a draft'"), block("x = 1"), kind("out of order.")]))

    async def consume() -> None:
        async for _ in rlm.stream("What?", "abc"):
            pass

    ways: dict[str, Callable[[], Any]] = {
        "completion": lambda: rlm.completion("What?", "abc"),
        "acompletion": lambda: asyncio.run(rlm.acompletion("What?", "abc")),
        "start": lambda: rlm.start("What?", "abc", keep_kernel=True).result(60),
        "stream": lambda: asyncio.run(consume()),
    }
    with pytest.raises(kind) as raised:
        ways[way]()
    result = raised.value.result
    assert result is not None
    assert (result.answer, result.stop_reason, result.message) == ("a draft", "failed", "out of order.")
    assert len(result.trajectory.iterations) == 2
    assert result.usage == result.trajectory.usage
    assert result.usage.output_tokens > 0
    assert result.path is not None
    assert Trajectory.load(result.path).ended == result.trajectory.ended
    assert str(raised.value) == (
        f"out of order. The run so far is saved in {result.path}. To resume it: jupyter rlm resume {result.path.stem}"
    )
    assert RLM.resume(result.path.stem, model=ScriptedModel([block("FINAL(x)")])).answer == "1"


def test_leaving_with_a_result_closes_its_kernel() -> None:
    rlm = RLM(ScriptedModel([block("kept = 7", "FINAL(1)"), block("FINAL(kept)")]), save=False)
    with rlm.completion("What?", "abc", keep_kernel=True) as result:
        assert result.ask("And?").answer == "7"
    with pytest.raises(ConfigurationError, match="closed"):
        result.ask("And?")
    with pytest.raises(ZeroDivisionError), result:
        raise ZeroDivisionError


def test_leaving_with_an_rlm_closes_every_kernel_that_was_kept_through_it() -> None:
    with RLM(ScriptedModel([block(f"FINAL({n})") for n in range(3)] + [block("import time", "time.sleep(60)")])) as rlm:
        results = [rlm.completion("What?", "abc", keep_kernel=True) for _ in range(3)]
        begun = threading.Event()
        running = rlm.start(
            "What?", "abc", keep_kernel=True, on_event=lambda e: begun.set() if isinstance(e, CellStarted) else None
        )
        assert begun.wait(60)
        assert [result.answer for result in results] == ["0", "1", "2"]
    assert all(result._kept is not None and result._kept.closed for result in results)
    assert running.result(60).stop_reason == "cancelled"
    # closing once more does no harm, and the object can be used further
    rlm.close()


def test_an_error_of_a_follow_up_has_its_result_and_leaves_the_kernel() -> None:
    model = ScriptedModel([block("kept = 7", "FINAL(1)"), ModelError("out of order"), block("FINAL(kept)")])
    rlm = RLM(model, save=False)
    first = rlm.completion("What?", "abc", keep_kernel=True)
    with pytest.raises(ModelError) as raised:
        first.ask("And?")
    assert str(raised.value) == "out of order"
    result = raised.value.result
    assert result is not None
    assert (result.answer, result.path, result.trajectory.started.prompt) == (None, None, "And?")
    assert result.ask("And now?").answer == "7"
    first.close()


def test_an_error_before_the_run_has_no_result() -> None:
    with pytest.raises(ConfigurationError) as raised:
        RLM(ScriptedModel([]), save="a/\0").completion("What?", "abc")
    assert raised.value.result is None


def test_a_second_run_leaves_the_files_of_the_first_where_they_are() -> None:
    rlm = RLM(ScriptedModel([block("FINAL('one')"), block("FINAL('two')"), block("FINAL('three')")]), save="out.ipynb")
    first = rlm.completion("What?", "abc", keep_kernel=True)
    second, third = first.ask("And?"), rlm.completion("What else?", "abc")
    first.close()
    names = [result.path.name for result in (first, second, third) if result.path]
    assert names == ["out.ipynb", "out.ipynb", "out-2.ipynb"]  # a further prompt stands in the notebook of the first
    assert (first.message, second.message) == ("", "")
    assert third.message == "out.ipynb is the notebook of another run, so this run is saved in out-2.ipynb"
    assert [result.answer for result in (first, second, third)] == ["one", "two", "three"]
    assert [Trajectory.load(name).answer for name in ("out.ipynb", "out-2.ipynb")] == ["one", "three"]
    assert Trajectory.load(first.save("copy")).answer == "one"
    with pytest.raises(ConfigurationError, match=r"save writes a notebook, and no \.pdf: save\('copy\.ipynb'\)"):
        first.save("copy.pdf")
    assert not Path("copy.pdf.ipynb").exists()
    wrong: Any = 5
    with pytest.raises(RLMError, match="A run is named by its id, its name or a path, not 5"):
        RLM.resume(wrong)


def test_a_run_inside_on_event_is_refused_instead_of_waiting_for_itself() -> None:
    said: list[str] = []

    def watch(event: object) -> None:
        try:
            RLM(ScriptedModel([])).completion("inner", "x")
        except ConfigurationError as error:
            said.append(str(error))

    RLM(ScriptedModel([block("FINAL(len(context))")])).completion("How long?", "abc", on_event=watch)
    assert "inside on_event" in said[0]


async def test_an_overflow_that_the_provider_reports_makes_room() -> None:
    replies = [
        block("print(1)"),
        block("print(2)"),
        block("print(3)"),
        ContextWindowError("too long"),
        block("FINAL(len(context))"),
    ]
    result = await run(replies)
    assert result.answer == "9"
    assert result.trajectory.elided_through >= 1


async def test_a_variable_of_the_models_is_not_overwritten_by_a_cut_output() -> None:
    result = await run(
        [block("output_2 = 'mine'"), block("print('x' * 50_000)"), block("FINAL([output_2, len(_output_2)])")],
        limits=Limits(output_chars=1000),
    )
    assert result.value == ["mine", 50_000]


async def test_a_cell_that_a_person_refuses_is_no_failure_of_the_models() -> None:
    control, refused = Control(approving=True), iter([True, True, False, True, False])

    def decide(event: Event) -> None:
        if isinstance(event, CellProposed):
            (control.refuse if next(refused) else control.approve)()

    model = ScriptedModel([block(f"print({n})") for n in "12"] + [block("1/0"), block("print(4)"), block("FINAL('5')")])
    rlm = RLM(model, limits=Limits(max_errors=2))
    result = await rlm.acompletion("What is it?", "some text", on_event=decide, control=control)
    assert (result.answer, result.stop_reason) == ("5", "answered")
    assert [iteration.cells[0].status for iteration in result.trajectory.iterations] == [
        "skipped",
        "skipped",
        "error",
        "skipped",
        "ok",
    ]
    assert result.path is not None
    assert RLM.replay(result.path).same


async def test_an_answer_counts_before_the_limit() -> None:
    result = await run([block("print(1)"), block("FINAL('last')")], limits=Limits(max_iterations=2))
    assert (result.answer, result.stop_reason) == ("last", "answered")


async def test_a_failing_model_is_an_error_and_the_record_is_kept(in_folder: Path) -> None:
    with pytest.raises(ModelError, match="out of order"):
        await run([block("print(1)"), ModelError("out of order")])
    (notebook,) = in_folder.glob("rlm_runs/*.ipynb")
    trajectory = Trajectory.load(notebook)
    assert trajectory.ended is not None
    assert (trajectory.ended.stop_reason, trajectory.ended.message) == ("failed", "out of order")
    assert len(trajectory.iterations) == 1


async def test_the_conversation_is_append_only_and_alternates() -> None:
    model = ScriptedModel([block("print(1)"), "no block", block("1/0"), block("FINAL(len(context))")])
    await RLM(model).acompletion("What?", "text")
    before: list[Message] = []
    for request in model.requests:
        messages = list(request)
        assert messages[: len(before)] == before
        assert [m.role for m in messages] == ["system", *["user", "assistant"] * (len(messages) // 2)][: len(messages)]
        assert messages[-1].role == "user"
        before = messages


async def test_the_oldest_outputs_make_room_in_a_small_window() -> None:
    replies = [block(f"print('{i}' * 15_000)") for i in range(4)] + [block("FINAL(len(context))")]
    model = ScriptedModel(replies, window=16_000)
    result = await RLM(model, limits=Limits(max_output_tokens=500), compact_at=0).acompletion("What?", "text")
    assert result.answer == "4"
    assert result.trajectory.elided_through >= 1
    assert "left out now" in model.requests[-1][3].content


async def test_the_notebook_is_valid_and_tells_the_run(in_folder: Path) -> None:
    result = await run([block("print(len(context))"), "hm", block("FINAL('done')")])
    assert result.path is not None
    assert result.path.parent == in_folder / "rlm_runs"
    notebook = nbformat.read(result.path, as_version=4)
    nbformat.validate(notebook)
    sources = [cell.source for cell in notebook.cells]
    assert "print(len(context))" in sources
    assert any("%rlm_restore" in source for source in sources)
    assert Trajectory.load(result.path).records == result.trajectory.records


async def test_nothing_is_saved_when_told_so(in_folder: Path) -> None:
    result = await run([block("FINAL(len(context))")], save=False)
    assert result.path is None
    assert not list(in_folder.iterdir())


def test_sync_in_a_script() -> None:
    model = ScriptedModel([block("FINAL(len(context))")])
    result = RLM(model).completion("the text", root_prompt="How long is it?")
    assert result.value == 8


async def test_sync_inside_a_running_loop() -> None:
    result = RLM(ScriptedModel([block("FINAL(len(context))")])).completion("How long?", "abc")
    assert result.value == 3


async def test_stream_yields_events_and_ends() -> None:
    model = ScriptedModel([block("FINAL(len(context))")])
    events = [event async for event in RLM(model).stream("How long?", "abc")]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert {ReplyStreamed, CellFinished} <= {type(event) for event in events}


async def test_cancelling_ends_kernel_and_record(in_folder: Path) -> None:
    model = ScriptedModel([block("print('seen', flush=True)", "import time; time.sleep(60)")])
    seen = asyncio.Event()

    def watch(event: object) -> None:
        if isinstance(event, OutputChanged):
            seen.set()

    running = asyncio.create_task(RLM(model).acompletion("What?", "text", on_event=watch))
    await asyncio.wait_for(seen.wait(), 30)
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 20
    trajectory = Trajectory.load(next(in_folder.glob("rlm_runs/*.ipynb")))
    assert trajectory.ended is not None
    assert trajectory.ended.stop_reason == "cancelled"
    assert trajectory.iterations[0].cells[0].outputs[0]["text"] == "seen\n"


def test_stop_ends_with_the_draft() -> None:
    model = ScriptedModel([block("answer['content'] = 'so far'"), block("import time; time.sleep(60)")])
    started = threading.Semaphore(0)

    def on_event(event: Event) -> None:
        if isinstance(event, CellStarted):
            started.release()

    running = RLM(model).start("What?", "text", on_event=on_event)
    for _ in range(2):
        assert started.acquire(timeout=60)
    running.stop()
    result = running.result(30)
    assert (result.answer, result.stop_reason) == ("so far", "cancelled")


def test_a_second_prompt_goes_to_the_same_kernel() -> None:
    model = ScriptedModel([block("found = 7; FINAL(found)"), block("FINAL([found, history[0]['answer']])")])
    result = RLM(model).completion("First?", "text", keep_kernel=True)
    second = result.ask("Second?")
    assert second.value == [7, "7"]
    result.close()
    with pytest.raises(ConfigurationError, match="closed"):
        result.ask("Third?")


def test_a_kept_kernel_outlives_a_failing_prompt_and_answers_one_at_a_time() -> None:
    slow = block("import time; time.sleep(0.5); FINAL(len(context) + found)")
    model = ScriptedModel([block("found = 7; FINAL(found)"), ModelError("busy"), slow, slow])
    result = RLM(model).completion("First?", "text", keep_kernel=True)
    with pytest.raises(ModelError, match="busy"):
        result.ask("Second?")
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(result.ask, ["Third?", "Fourth?"]))
    assert [answer.value for answer in answers] == [11, 11]
    result.close()


@pytest.mark.parametrize(
    ("prompt", "context", "says"),
    [("", "x", "empty"), (3, "x", "not int"), ("q", (i for i in [1]), "generator"), ("q", lambda: 1, "function")],
)
def test_bad_input_is_refused_before_anything_starts(prompt: Any, context: object, says: str, in_folder: Path) -> None:
    with pytest.raises((ConfigurationError, ContextError), match=says):
        RLM(ScriptedModel([])).completion(prompt, context)
    assert not list(in_folder.iterdir())


def test_a_dollar_limit_needs_a_price() -> None:
    class Unpriced(ScriptedModel):
        def cost(self, usage: object) -> None:
            return None

    with pytest.raises(ConfigurationError, match="price of"):
        RLM(Unpriced([]), limits=Limits(max_cost=1.0))


async def test_a_termination_policy_steers_the_run() -> None:
    result = await run([block("print('ANSWER')\nprint('FINAL(from the output)')")], termination="final_pattern")
    assert (result.answer, result.stop_reason) == ("from the output", "terminated")


async def test_printed_text_never_ends_a_run_by_default() -> None:
    result = await run([block("print('FINAL(hacked)')"), block("FINAL('mine')")], context="FINAL(hacked)")
    assert result.answer == "mine"


def test_a_sub_calls_reply_that_broke_off_is_said() -> None:
    cut = Reply("the beginning of", "scripted", finish="length")
    model = ScriptedModel([block("a = llm_query_batched(['x', 'y'])"), block("FINAL(len(a))")], sub=[cut, "whole"])
    result = RLM(model, save=False).completion("What?")
    assert result.answer == "2"
    assert result.trajectory.iterations[0].notices == (
        "Replies to sub-calls that broke off at 8,192 tokens, and are incomplete: 1. Ask for shorter ones, or about "
        "less at once.",
    )


async def test_an_empty_prompt_is_refused_at_its_place_and_the_others_are_sent() -> None:
    model = ScriptedModel([block("r = llm_query_batched(['x', ' ', ''])", "FINAL(list(map(str, r)))")], sub=str.upper)
    result = await RLM(model, save=False).acompletion("What?", "text")
    assert result.value == [
        "X",
        *["[no answer: the prompt is empty, and was not sent: put the question and the passage into it.]"] * 2,
    ]
    by_place = sorted(result.trajectory.subcalls, key=lambda call: call.ordinal)
    assert [(call.text if not call.refused else None) for call in by_place] == ["X", None, None]
