"""Runs for the tests of the record: one as people know it, and any that hypothesis can think of."""

from collections.abc import Iterator
from typing import Any, get_args

from hypothesis import strategies as st

from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    NoticeGiven,
    OutputsElided,
    OutputsShown,
    Record,
    ReplyReceived,
    RunEnded,
    RunStarted,
    SubcallSettled,
)
from rlm_jupyter.types.values import CellStatus, ContextInfo, FinishReason, StopReason, SubcallKind, Usage

FIRST = "I look at how it begins.\n```repl\nprint(context[:20])\n```\n"
SECOND = (
    "Now the\ntwo halves.\n\n```repl\nx = 1 / 0\n```\n\nand\n```repl\nFINAL(x)\n```\nOutput:\n```\n42\n```\nFINAL(42)"
)
IMAGE = {
    "output_type": "display_data",
    "data": {"image/png": "iVBORw0KGgo=\n", "text/plain": "<Figure>"},
    "metadata": {},
}


def started(**changes: Any) -> RunStarted:
    values: dict[str, Any] = {
        "run_id": "20260102-030405-who",
        "prompt": "Who wrote it?",
        "system": "You answer.",
        "opening": "<prompt>\nWho wrote it?\n</prompt>",
        "context": ContextInfo("str", "1,000 characters", ("20 lines",), "It begins", "ab" * 32, 1000),
        "model": "scripted/root",
        "sub_model": "scripted/sub",
        "depth": 0,
        "limits": {"max_iterations": 30, "max_depth": 1, "max_cost": None},
        "started": "2026-01-02T03:04:05+00:00",
        "request": "cd" * 32,
        "version": "0.1.0",
    }
    return RunStarted(**(values | changes))


def reply(iteration: int, text: str, **changes: Any) -> ReplyReceived:
    values: dict[str, Any] = {"model": "root", "usage": Usage(100, 10), "cost": 0.01, "finish": "stop", "seconds": 1.5}
    return ReplyReceived(iteration, text, **(values | changes))


def subcall(iteration: int, block: int, ordinal: int, **changes: Any) -> SubcallSettled:
    values: dict[str, Any] = {
        "kind": "llm",
        "prompt_sha256": "ef" * 32,
        "prompt_chars": 12,
        "prompt_head": "Who is this?",
        "asked_model": None,
        "model": "sub",
        "text": "Ada.",
        "failed": False,
        "usage": Usage(20, 2),
        "cost": 0.001,
        "seconds": 0.25,
    }
    return SubcallSettled(iteration, block, ordinal=ordinal, **(values | changes))


def cell(
    iteration: int, block: int, source: str, outputs: tuple[dict[str, Any], ...] = (), **changes: Any
) -> CellFinished:
    values: dict[str, Any] = {"executed": None, "status": "ok", "execution_count": iteration + block, "seconds": 0.5}
    return CellFinished(iteration, block, source, outputs=outputs, **(values | changes))


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def ended(**changes: Any) -> RunEnded:
    values: dict[str, Any] = {
        "stop_reason": "answered",
        "answer": "Ada wrote it.",
        "value": "Ada wrote it.",
        "is_json": True,
        "iteration": 2,
        "seconds": 4.0,
        "usage": Usage(320, 32),
        "cost": 0.031,
    }
    return RunEnded(**(values | changes))


def sample() -> list[Any]:
    """A run with everything in it: sub-calls out of order, an error, a skipped cell, a rejected reply."""
    error = {
        "output_type": "error",
        "ename": "ZeroDivisionError",
        "evalue": "division by zero",
        "traceback": ["a", "b"],
    }
    return [
        started(),
        reply(1, FIRST),
        subcall(1, 0, 1),
        subcall(1, 0, 0, failed=True, text="no answer", cost=0.0),
        cell(1, 0, "print(context[:20])", (stream("A line\nand another\n"), IMAGE)),
        OutputsShown(1, "Outputs:\nA line"),
        reply(2, FIRST, rejected="repeats the reply before it (1)"),
        reply(2, SECOND, read=SECOND.index("Output:")),
        cell(2, 0, "x = 1 / 0", (error,), status="error", executed="x = 1/0"),
        cell(2, 1, "FINAL(x)", status="skipped", execution_count=None),
        NoticeGiven(2, "Two lines\nof a notice."),
        OutputsShown(2, "Outputs:\nZeroDivisionError"),
        OutputsElided(1),
        reply(2, "It was Ada.", forced=True),
        ended(),
    ]


_any_char = st.characters(exclude_categories=())
_odd = st.sampled_from(
    ["\ud800", "\ud83d\ude00", "\\ud800", "\\u005c", "```repl\n", "\n```", "\r\n", "\u2028", "$", "FINAL(1)", "\n"]
)
texts = st.lists(st.one_of(st.text(_any_char, max_size=8), _odd), max_size=8).map("".join)
"""Text of all that is hard: lone surrogates, what looks like their escapes, fences, all line breaks."""
_numbers = st.integers(0, 10**9)
_small = st.integers(1, 4)
_seconds = st.floats(0, 1e6)
_costs = st.none() | st.floats(0, 1e3)
_usages = st.builds(Usage, _numbers, _numbers, _numbers, _numbers, _numbers)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_bundles = st.fixed_dictionaries(
    {}, optional={"text/plain": texts, "text/html": texts, "image/png": texts, "application/json": plain}
)
_counts = st.none() | _numbers
outputs = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"output_type": st.just("stream"), "name": st.sampled_from(["stdout", "stderr"]), "text": texts}
        ),
        st.fixed_dictionaries({"output_type": st.just("display_data"), "data": _bundles, "metadata": st.just({})}),
        st.fixed_dictionaries(
            {
                "output_type": st.just("execute_result"),
                "data": _bundles,
                "metadata": st.just({}),
                "execution_count": _counts,
            }
        ),
        st.fixed_dictionaries(
            {
                "output_type": st.just("error"),
                "ename": texts,
                "evalue": texts,
                "traceback": st.lists(texts, max_size=3),
            }
        ),
    ),
    max_size=3,
).map(tuple)

_infos = st.builds(ContextInfo, texts, texts, st.lists(texts, max_size=3).map(tuple), texts, texts, _numbers)
starts = st.builds(
    RunStarted, texts, texts, texts, texts, _infos, texts, texts, _small,
    st.dictionaries(texts, st.none() | _numbers | _seconds, max_size=3), texts, texts, st.none() | texts, texts,
)  # fmt: skip
_lasting = st.one_of(
    st.builds(
        ReplyReceived, _small, texts, texts, _usages, _costs, st.sampled_from(get_args(FinishReason)), _seconds,
        st.none() | _numbers, st.just("") | texts, st.booleans(),
    ),
    st.builds(
        SubcallSettled, _small, _small, st.sampled_from(get_args(SubcallKind)), _small, texts, _numbers, texts,
        st.none() | texts, texts, texts, st.booleans(), _usages, _costs, _seconds, st.none() | texts, st.none() | texts,
    ),
    st.builds(
        CellFinished, _small, st.integers(0, 2), texts, st.none() | texts, st.sampled_from(get_args(CellStatus)),
        outputs, _counts, _seconds,
    ),
    st.builds(NoticeGiven, _small, texts),
    st.builds(OutputsShown, _small, texts),
    st.builds(OutputsElided, _small),
    st.builds(
        ConversationCompacted, _small, _small, texts, texts, _small, texts, _usages, _costs, _seconds,
    ),
    st.builds(
        RunEnded, st.sampled_from(get_args(StopReason)), st.none() | texts, plain, st.booleans(), _small, _seconds,
        _usages, _costs, texts,
    ),
)  # fmt: skip
runs = st.builds(lambda first, rest: [first, *rest], starts, st.lists(_lasting, max_size=8))
"""Any run at all, sensible or not."""


def long_run(iterations: int, output_chars: int) -> Iterator[Record]:
    """A run whose outputs all have this length."""
    yield started()
    for i in range(1, iterations + 1):
        yield reply(i, FIRST)
        yield cell(
            i, 0, "print(context[:20])", (stream("x" * 79 + "\n") | {"text": ("x" * 79 + "\n") * (output_chars // 80)},)
        )
        yield OutputsShown(i, "Outputs:\n" + "x" * 1000)
