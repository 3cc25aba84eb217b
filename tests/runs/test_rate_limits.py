"""Providers that are busy, or fail now and then: the whole tree asks them more slowly, and no item is lost."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.frontends.cli.parser import parsed
from rlm_jupyter.frontends.cli.progress import TerminalProgress
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.priced import PricedModel
from rlm_jupyter.models.pricing import Price
from rlm_jupyter.run.budget import request as calls
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter
from rlm_jupyter.run.budget.request import complete
from rlm_jupyter.types.errors import LimitReached, ModelUnavailableError
from rlm_jupyter.types.events import Event, RequestDelayed
from rlm_jupyter.types.values import Message, Reply
from tests.support.examples import one_in
from tests.support.loopback import Fault, Loopback, Request, Said

pytestmark = pytest.mark.slow

USER = [Message("user", "hello")]


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model_at(server: Loopback, wire: str) -> Model:
    url = server.url if wire == "anthropic" else server.openai_url
    return load_model(f"{wire}/some-model", base_url=url, api_key="some-key")


async def say(model: Model, ledger: Ledger | None = None, **options: Any) -> str:
    answered = await complete(model, USER, ledger or Ledger(Limits()), max_output_tokens=100, **options)
    return answered.reply.text


class Narrow(Loopback):
    """Serves so many requests at once, and refuses the others."""

    def __init__(self, room: int, *, retry_after: float | None = None, code: int = 429) -> None:
        super().__init__()
        self.room, self.retry_after, self.code = room, retry_after, code
        self.refused = 0

    async def reply_to(self, request: Request) -> Said | Fault:
        if self._in_flight > self.room:
            self.refused += 1
            return Fault.status(self.code, "busy", retry_after=self.retry_after)
        return Said(request.messages[-1]["content"].upper(), delay=0.01)


@pytest.mark.parametrize(
    ("provider", "code", "retry_after", "items"),
    one_in(
        2,
        [
            ("openai", 429, None, 100),
            ("openai", 503, 0.1, 60),
            ("anthropic", 429, 0.2, 60),
            ("anthropic", 529, None, 60),
        ],
    ),
)
async def test_sub_calls_at_a_server_that_serves_five_at_once_are_all_answered(
    provider: str, code: int, retry_after: float | None, items: int
) -> None:
    with Narrow(5, retry_after=retry_after, code=code) as server:
        model, ledger = model_at(server, provider), Ledger(Limits())
        async with model.lease():
            asked = [
                complete(model, [Message("user", f"item {i}")], ledger, max_output_tokens=100) for i in range(items)
            ]
            answers = await asyncio.gather(*asked)
    assert [answered.reply.text for answered in answers] == [f"ITEM {i}" for i in range(items)]
    assert server.most_at_once <= 33
    assert 0 < server.refused <= 100
    assert len(server.requests) == items + server.refused


async def test_a_whole_run_waits_for_a_busy_server_together(wire: str) -> None:
    class Server(Narrow):
        async def reply_to(self, request: Request) -> Said | Fault:
            said = await super().reply_to(request)
            if isinstance(said, Fault) or len(request.messages) == 1:
                return said
            first = "```repl\nreplies = llm_query_batched([f'item {i}' for i in range(60)])\nprint(len(replies))\n```"
            return Said(first if len(request.messages) == 2 else "```repl\nFINAL([str(r) for r in replies])\n```")

    with Server(5, retry_after=0.1) as server:
        result = await RLM(model_at(server, wire), limits=Limits(max_seconds=60)).acompletion("What?", "text")
    assert result.value == [f"ITEM {i}" for i in range(60)]
    assert result.stop_reason == "answered"
    assert not any(subcall.failed for subcall in result.trajectory.subcalls)
    assert server.refused > 0


async def test_nothing_is_sent_before_the_time_that_the_server_names(wire: str) -> None:
    moments: list[float] = []

    class Server(Narrow):
        async def reply_to(self, request: Request) -> Said | Fault:
            moments.append(time.monotonic())
            if len(moments) == 1:
                return Fault.status(429, retry_after=1)
            return Said("ok")

    with Server(1) as server:
        model, ledger = model_at(server, wire), Ledger(Limits())
        async with model.lease():
            first = asyncio.create_task(say(model, ledger))
            while not moments:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            others = [say(model, ledger) for _ in range(3)]
            assert await asyncio.gather(first, *others) == ["ok"] * 4
    assert moments[1] - moments[0] >= 1


async def test_who_is_to_wait_longer_than_there_is_time_fails_at_once_and_so_do_those_behind(wire: str) -> None:
    with Loopback([Fault.status(429, retry_after=600_000)]) as server:
        ledger = Ledger(Limits(max_seconds=60, concurrency=1))
        started = time.monotonic()
        asked = [say(model_at(server, wire), ledger) for _ in range(5)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert time.monotonic() - started < 40
    assert [type(outcome) for outcome in outcomes] == [LimitReached] * 5
    assert "wants to be asked again in 600000 s, and" in str(outcomes[0])
    assert len(server.requests) == 1


async def test_without_a_deadline_a_refusal_for_a_week_is_a_failure(wire: str) -> None:
    with (
        Loopback([Fault.status(429, "next week", retry_after=600_000)]) as server,
        pytest.raises(ModelUnavailableError, match="next week It refuses everything, and wants to be asked again in"),
    ):
        await say(model_at(server, wire))


async def test_a_root_that_is_to_wait_too_long_ends_with_what_it_has(wire: str) -> None:
    draft = "```repl\nanswer['content'] = 'so far'\n```"
    with Loopback([draft, Fault.status(429, retry_after=600)]) as server:
        started = time.monotonic()
        result = await RLM(model_at(server, wire), limits=Limits(max_seconds=60)).acompletion("What?", "text")
    assert (result.answer, result.stop_reason) == ("so far", "seconds")
    assert "asked again in 600 s" in result.message
    assert time.monotonic() - started < 40


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.status(500, "broken"), r"while retrying, [23] tries so far: .*failed \(500\)\. broken"),
        (Fault.status(429, "busy", retry_after=0.3), r"while retrying, \d tries so far: .*\(429\)\. busy"),
    ],
    ids=["500", "429"],
)
async def test_a_time_that_is_up_while_retrying_names_the_last_failure(wire: str, fault: Fault, said: str) -> None:
    with Loopback([fault]) as server:
        result = await RLM(model_at(server, wire), limits=Limits(max_seconds=2.5)).acompletion("What?", "text")
    assert result.stop_reason == "seconds"
    assert re.search(said, result.message), result.message


@pytest.mark.parametrize("fault", [Fault.status(500), Fault.dropped("before"), Fault.dropped("early")])
async def test_what_fails_once_is_asked_for_again(wire: str, fault: Fault) -> None:
    with Loopback([fault, "after all"]) as server:
        assert await say(model_at(server, wire)) == "after all"
    assert len(server.requests) == 2


async def test_what_fails_for_good_is_told_after_a_few_attempts(wire: str) -> None:
    with (
        Loopback([Fault.status(500, "broken", retry_after=0.01)]) as server,
        pytest.raises(ModelUnavailableError, match=r"failed \(500\). broken"),
    ):
        await say(model_at(server, wire))
    assert len(server.requests) == 5


async def test_a_reply_that_broke_off_is_drawn_again_billed_and_not_shown_twice(wire: str) -> None:
    shown: list[str] = []
    ledger, bill = Ledger(Limits()), Bill()
    with Loopback([Fault.dropped("middle", "The beginning"), "The whole of it"]) as server:
        assert await say(model_at(server, wire), ledger, on_text=shown.append, bill=bill) == "The whole of it"
    assert shown == ["The beginning"]
    assert bill.usage == ledger.usage
    assert bill.usage.input_tokens > 100  # the loopback's count for the second, an estimate for the first


async def test_a_provider_that_bills_more_than_it_was_asked_for_is_named(
    wire: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Loopback([Said("```repl\nFINAL(1)\n```", output_tokens=50_000)]) as server:
        result = await RLM(model_at(server, wire), limits=Limits(max_iterations=2)).acompletion("What?")
    assert result.answer == "1"
    assert result.message == f"{wire}/some-model billed 50,000 output tokens where 8,192 were allowed"
    assert result.message in caplog.text


# the pace itself


async def test_a_burst_of_refusals_halves_the_width_once_and_successes_widen_it_again() -> None:
    limiter = RateLimiter(16)
    refuse = asyncio.Event()

    async def refused() -> None:
        async with limiter.turn():
            await refuse.wait()
            raise ModelUnavailableError("busy", overloaded=True, retry_after=0.01)

    burst = [asyncio.create_task(refused()) for _ in range(16)]
    await asyncio.sleep(0)
    refuse.set()
    await asyncio.gather(*burst, return_exceptions=True)
    assert limiter.width == 8
    for _ in range(8 + 9 + 1):
        async with limiter.turn():
            pass
    assert limiter.width == 10
    for _ in range(200):
        async with limiter.turn():
            pass
    assert limiter.width == 16


async def test_what_was_refused_goes_first_and_the_others_in_order_of_arrival() -> None:
    limiter, served = RateLimiter(1), list[str]()

    async def take(name: str, *, again: bool = False) -> None:
        async with limiter.turn(again=again):
            served.append(name)
            await asyncio.sleep(0)

    async with limiter.turn():
        waiting = [asyncio.create_task(take(name)) for name in "abc"]
        await asyncio.sleep(0)
        waiting[1].cancel()
        waiting.append(asyncio.create_task(take("again", again=True)))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert served == ["again", "a", "c"]


async def test_a_model_of_ones_own_may_say_that_it_is_overloaded() -> None:
    class Busy:
        name, window = "my/model", 10_000
        asked = 0

        def cost(self, usage: object) -> float:
            return 0.0

        async def complete(self, messages: object, **options: object) -> Reply:
            self.asked += 1
            if self.asked < 3:
                raise ModelUnavailableError("busy", overloaded=True, retry_after=0.01)
            return Reply("at last", self.name)

    model: Any = Busy()
    assert await say(model) == "at last"


async def test_a_wait_is_shown_while_it_lasts(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the page's display, on the command line, and in the bar of JupyterLab; it is gone when the run goes on."""
    monkeypatch.setattr(calls, "_REST_SECONDS", 0.01)
    view, facts, progress = View(), RunFacts(), TerminalProgress()
    shown: list[tuple[str, str, str, str]] = []

    def on_event(event: Event) -> None:
        view.apply(event)
        facts.apply(event)
        progress.on_event(event)
        if isinstance(event, RequestDelayed):
            shown.append((event.text, view.text(), facts.told()["remark"], progress._at_work()))

    replies: list[str | Fault] = [Fault.dropped("before"), Fault.status(429, retry_after=0.1), "```repl\nFINAL(1)\n```"]
    with Loopback([*replies]) as server:
        result = await RLM(model_at(server, wire)).acompletion("What?", "text", on_event=on_event)
    assert result.answer == "1"
    assert [text for text, *_ in shown] == [
        f"{wire}/some-model: the connection broke, trying again in 1 s (2 of 5)",
        "",
        f"{wire}/some-model: it refuses more for now, trying again in 1 s",
        "",
    ]
    for text, *displays in shown:
        assert all(("trying again" in display) == bool(text) for display in displays)
    assert "trying again" not in view.status() + view.text()


async def test_of_many_requests_that_wait_one_is_told() -> None:
    told: list[str] = []
    ledger = Ledger(Limits())
    ledger.delays.on_change = told.append
    for n in range(100):
        ledger.delays.put(n, f"request {n}")
    for n in range(100):
        ledger.delays.put(n, "")
    assert told == [*(f"request {n}" for n in range(100)), ""]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "llamacpp"])
async def test_a_server_that_stops_sending_is_given_up(provider: str) -> None:
    with Loopback(["ok", Fault.dropped("stall")]) as server:
        url = server.url if provider == "anthropic" else server.openai_url
        model = load_model(f"{provider}/some-model", base_url=url, api_key="some-key")
        async with model.lease():
            assert await say(model) == "ok"  # a first request takes a while to be sent
            with pytest.raises(ModelUnavailableError, match=r"nothing came from \S+ for 2 s \(request_idle_seconds\)"):
                await say(model, Ledger(Limits(request_idle_seconds=2)))
            assert len(server.requests) == 2  # and no more: it is given up for good
            ledger = Ledger(Limits(request_idle_seconds=None, max_seconds=2))
            with pytest.raises(LimitReached, match="the time is up"):
                await say(model, ledger)


@pytest.mark.parametrize(("provider", "seconds"), [("openai", "0.4"), ("llamacpp", "1.2")])
async def test_a_server_of_ones_own_has_longer_until_its_reply_begins(provider: str, seconds: str) -> None:
    class Deaf(Loopback):
        async def reply_to(self, request: Request) -> Said | Fault:
            await asyncio.sleep(60)
            return Said("late")

    with Deaf() as server:
        model = PricedModel(load_model(f"{provider}/some-model", base_url=server.openai_url, api_key="k"), Price(1, 1))
        with pytest.raises(ModelUnavailableError, match=rf"for {seconds} s \(request_idle_seconds\)"):
            await say(model, Ledger(Limits(request_idle_seconds=0.4)))


def test_the_silence_can_be_set_where_the_other_limits_are() -> None:
    assert parsed(["run", "What?", "--request-idle-seconds", "30"]).request_idle_seconds == 30
