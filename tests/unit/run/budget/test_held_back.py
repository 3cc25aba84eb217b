"""Sub-calls never starve the answer: a last reply has its room from the start, whatever cells and children ask for."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter import RLM, Limits
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.values import Usage
from tests.support.loopback import Loopback, Said

ROOT, SUB = "vllm/root", "vllm/sub"
PRICE = {ROOT: (1.0, 5.0), SUB: (1.0, 5.0)}
BATCH = "```repl\ntexts = [context[i * 8_000 :][:8_000] for i in range(64)]\n{call}\n```"
TEXT = "".join(f"line {i} of a long text that is read in pieces.\n" for i in range(12_000))


def replies(messages: list[dict[str, str]]) -> Said:
    """A cell that asks until it is refused, again and again, and whatever a last reply is."""
    if len(messages) == 1:
        return Said("a reply about this piece", input_tokens=2_300, output_tokens=10)
    if "best answer now" in messages[-1]["content"]:
        return Said("the answer, from what was seen", input_tokens=2_000, output_tokens=10)
    call = "for text in texts:\n    try: print(len(llm_query(f'Sum up:\\n\\n{text}')))\n    except SubcallError as e: print(e); break"
    return Said(BATCH.format(call=call), input_tokens=1_500, output_tokens=60)


@pytest.mark.parametrize(
    "limits",
    [Limits(max_cost=0.09, max_iterations=5), Limits(max_tokens=90_000, max_iterations=5)],
    ids=["cost", "tokens"],
)
async def test_a_run_whose_sub_calls_use_all_they_get_still_answers(limits: Limits) -> None:
    with Loopback([replies]) as server:
        rlm = RLM(
            ROOT, sub_model=SUB, limits=limits, prices=PRICE, base_url=server.openai_url, window=128_000, save=False
        )
        result = await rlm.acompletion("What is it about?", TEXT)
    assert result.answer == "the answer, from what was seen"
    assert len([call for call in result.trajectory.subcalls if not call.failed]) > 20
    assert [call for call in result.trajectory.subcalls if "held back for the answer" in call.text]
    if limits.max_cost is not None:
        assert result.cost is not None
        assert result.cost <= limits.max_cost
    if limits.max_tokens is not None:
        assert result.usage.total_tokens <= limits.max_tokens


async def test_a_batch_that_goes_beyond_the_rest_is_refused_before_it_is_sent() -> None:
    def batch(messages: list[dict[str, str]]) -> Said:
        if len(messages) == 1:
            return Said("a reply")
        call = "llm_query_batched([f'Sum up:\\n\\n{text}' for text in texts])"
        source = "FINAL('done')" if "nothing was sent" in messages[-1]["content"] else call
        return Said(BATCH.format(call=source))

    with Loopback([batch]) as server:
        rlm = RLM(
            ROOT, limits=Limits(max_cost=0.10), prices=PRICE, base_url=server.openai_url, window=128_000, save=False
        )
        result = await rlm.acompletion("What is it about?", TEXT)
    assert result.answer == "done"
    shown = " ".join(result.trajectory.iterations[0].notices)
    assert "64 prompts take about $0." in shown
    assert "of these at most" in shown
    assert not [call for call in result.trajectory.subcalls if not call.refused]


async def test_a_small_limit_is_enough_for_a_small_run() -> None:
    def small(messages: list[dict[str, str]]) -> Said:
        source = "print(len(context))" if len(messages) == 2 else "FINAL(len(context))"
        return Said(f"```repl\n{source}\n```", input_tokens=900, output_tokens=40)

    with Loopback([small]) as server:
        rlm = RLM(ROOT, limits=Limits(max_tokens=6_000), base_url=server.openai_url, window=128_000, save=False)
        result = await rlm.acompletion("How long is it?", "some text")
        caps = [request.body["max_tokens"] for request in server.requests]
    assert (result.answer, result.stop_reason) == ("9", "answered")
    assert all(512 <= cap < 6_000 for cap in caps)


REQUESTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 900), st.floats(0.1, 1.0)), min_size=1, max_size=30)


@given(REQUESTS, st.integers(100, 4_000))
def test_no_other_request_takes_the_room_of_a_last_word(requests: list[tuple[int, int, float]], most: int) -> None:
    async def run() -> None:
        ledger = Ledger(Limits(max_tokens=most))
        with HeldBack(ledger) as root:
            root.hold(most // 4, 0.0, 1.0)
            with HeldBack(ledger, root) as child:
                child.hold(most // 8, 0.0, 2.0)

                async def ask(tokens: int, share: float) -> None:
                    with contextlib.suppress(LimitReached):
                        async with ledger.reserve(Usage(tokens)) as bill:
                            await asyncio.sleep(0)
                            bill.add(Usage(int(tokens * share)), 0.0)

                await asyncio.gather(*(ask(tokens, share) for _, tokens, share in requests))
                assert ledger.usage.total_tokens <= most - root.tokens - child.tokens
                assert child.seconds == 3.0
                async with ledger.reserve(Usage(child.tokens), held_back=child) as bill:
                    bill.add(Usage(child.tokens), 0.0)
            async with ledger.reserve(Usage(root.tokens), held_back=root) as bill:
                bill.add(Usage(root.tokens), 0.0)
        assert ledger.usage.total_tokens <= most
        assert ledger.tokens_left() == most - ledger.usage.total_tokens

    asyncio.run(run())


async def test_children_that_use_all_they_get_leave_the_root_its_answer() -> None:
    def recursive(messages: list[dict[str, str]]) -> Said:
        if "best answer now" in messages[-1]["content"]:
            return Said("what is known", input_tokens=1_000, output_tokens=10)
        is_root = "What is it about?" in messages[1]["content"]
        step = len(messages)
        source = "rlm_query_batched([context[:5_000], context[5_000:10_000]])" if is_root else "context.count('a')"
        return Said(f"```repl\nprint({step}, {source})\n```", input_tokens=1_200 + 100 * step, output_tokens=60)

    limits = Limits(max_tokens=40_000, max_depth=2, max_iterations=30)
    with Loopback([recursive]) as server:
        rlm = RLM(ROOT, limits=limits, base_url=server.openai_url, window=128_000, save=False)
        result = await rlm.acompletion("What is it about?", TEXT)
    assert (result.answer, result.stop_reason) == ("what is known", "tokens")
    assert result.usage.total_tokens <= 40_000


@pytest.mark.slow
async def test_a_cell_that_takes_all_the_time_leaves_some_for_the_answer() -> None:
    def slow(messages: list[dict[str, str]]) -> Said:
        if "best answer now" in messages[-1]["content"]:
            return Said("what is known")
        return Said("```repl\nprint('begun')\nimport time\ntime.sleep(60)\n```", delay=0.05, pieces=10)

    limits = Limits(max_seconds=8)
    with Loopback([slow]) as server:
        rlm = RLM(ROOT, limits=limits, base_url=server.openai_url, window=128_000, save=False)
        result = await rlm.acompletion("What is it about?", TEXT)
    assert (result.answer, result.stop_reason) == ("what is known", "seconds")
