"""Whole runs with servers of one's own, played by the loopback server."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.run.context import pack
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.types.errors import ModelUnavailableError
from rlm_jupyter.types.events import Event, RemarkMade, ReplyStreamed, RunStarted
from rlm_jupyter.types.tokens import DEFAULT_WINDOW, fitting_chars
from tests.support.local_servers import LocalServer
from tests.support.loopback import Said
from tests.support.pace import Pace

BATCH = "```repl\nreplies = llm_query_batched([f'{i}?' for i in range(12)])\nFINAL(len([r for r in replies if r]))\n```"
FINAL = "```repl\nFINAL(len(context))\n```"
ENDLESS = "I think that the the " + "the " * 16_000


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def local(server: LocalServer, name: str = "coder", **options: Any) -> RLM:
    return RLM(f"{server.kind}/{name}", base_url=server.url, **{"save": False, **options})


def by_role(messages: list[dict[str, str]]) -> Said:
    """The root asks a batch; what it asks takes a moment."""
    return Said(BATCH) if messages[0]["role"] == "system" else Said("yes", delay=0.02)


async def test_what_the_server_says_is_what_the_run_goes_by() -> None:
    with LocalServer([by_role], slots=2, models={"coder": 6000}) as server:
        result = await local(server, limits=Limits(max_cost=0.01)).acompletion("How many?", "a text")
        assert (result.answer, result.cost) == ("12", 0.0)
        assert server.most_at_once == 2
    takes = f"{fitting_chars(6000, 1500):,}"
    assert f"nothing else, up to about {takes} characters" in result.trajectory.started.system


async def test_another_model_that_answers_is_told_before_the_run_and_with_its_result() -> None:
    events: list[Event] = []
    with LocalServer([FINAL]) as server:
        result = await local(server, "gpt-9").acompletion("How long?", "abc", on_event=events.append)
    said = f"llama.cpp at {server.openai_url} serves coder, which answers for 'gpt-9'."
    assert events[0] == RemarkMade(said)
    assert result.message == said
    assert result.answer == "3"


async def test_without_its_server_no_kernel_is_started_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: Any, **__: Any) -> Kernel:
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(Kernel, "start", start)
    with LocalServer() as server:
        rlm = local(server, save=True)
    with pytest.raises(ModelUnavailableError, match="Start it"):
        await rlm.acompletion("How long?", "abc")
    assert not list(Path("rlm_runs").glob("*"))


async def test_a_server_that_loads_is_waited_for_in_the_time_of_the_run() -> None:
    events: list[Event] = []
    with LocalServer([FINAL], loading=1.0) as server:
        result = await local(server, limits=Limits(max_seconds=30)).acompletion(
            "How long?", "abc", on_event=events.append
        )
    assert isinstance(events[0], RemarkMade)
    assert events[0].passes
    assert isinstance(events[1], RunStarted)
    left = re.search(r"Left: .*?(\d+) s\b", result.trajectory.started.opening)
    assert left is not None
    assert int(left[1]) < 30
    with LocalServer(loading=60) as server:
        late = await local(server, limits=Limits(max_seconds=0.5)).acompletion("How long?", "abc")
    assert late.stop_reason == "seconds"


def test_a_server_that_loads_for_long_can_be_given_up() -> None:
    told = threading.Event()
    with LocalServer(loading=60) as server:
        running = local(server).start("How long?", "abc", on_event=lambda _: told.set())
        assert told.wait(10)
        running.stop()
        assert running.result(10).stop_reason == "cancelled"


@pytest.mark.parametrize("written", [False, True], ids=["before its first word", "in the middle of a reply"])
def test_stop_ends_the_reply_on_the_server_within_half_a_second(written: bool) -> None:
    streamed = threading.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ReplyStreamed):
            streamed.set()

    with LocalServer([Said("one two three", delay=1.0)], thinks=0.0 if written else 30) as server:
        running = local(server).start("How long?", "abc", on_event=hear)
        while not server.requests:
            time.sleep(0.01)
        assert not written or streamed.wait(10)
        pace, began = Pace(), time.monotonic()
        running.stop()
        while not server.abandoned and time.monotonic() - began < 20:
            time.sleep(0.01)
        assert pace.within(0.5)
        assert running.result(10).stop_reason == "cancelled"


async def test_a_reply_without_an_end_is_cut_off_and_named() -> None:
    with LocalServer([Said(ENDLESS, delay=0.2), FINAL]) as server:
        result = await local(server).acompletion("How long?", "abc")
        assert result.answer == "3"
        assert server.abandoned == 1
        assert len(server.requests) == 2
    with LocalServer([ENDLESS]) as server:
        result = await local(server).acompletion("How long?", "abc")
    assert (result.stop_reason, len(server.requests)) == ("no_progress", 3)
    assert "llamacpp/coder wrote 'the ' over and over" in result.message


async def test_empty_replies_are_drawn_again_and_named_in_the_end() -> None:
    with LocalServer(["", FINAL]) as server:
        assert (await local(server).acompletion("How long?", "abc")).answer == "3"
    with LocalServer([""]) as server:
        result = await local(server).acompletion("How long?", "abc")
    assert (result.stop_reason, len(server.requests)) == ("no_progress", 3)
    assert "sent nothing" in result.message


async def test_a_sub_call_without_an_end_fails_alone() -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if messages[0]["role"] != "system":
            return ENDLESS if "0?" in messages[0]["content"] else "yes"
        return "```repl\nreplies = llm_query_batched(['0?', '1?'])\nFINAL([str(reply)[:60] for reply in replies])\n```"

    with LocalServer([reply]) as server:
        result = await local(server).acompletion("What?", "abc")
    failed, fine = result.value
    assert fine == "yes"
    assert "llamacpp/coder wrote 'the ' over and over" in failed


def test_another_address_makes_another_question() -> None:
    packed = pack("abc")
    rlms = [RLM("llamacpp/a"), RLM("llamacpp/a", base_url="http://127.0.0.1:1"), RLM("llamacpp/a", window=3000)]
    assert len({request_digest(rlm.settings, "How long?", packed) for rlm in rlms}) == 3
    assert [rlm.settings.routing.model_for(1).window for rlm in rlms[1:]] == [DEFAULT_WINDOW, 3000]
    other = RLM("llamacpp/a", sub_model="ollama/b", base_url="http://127.0.0.1:1/v1").settings.routing
    assert [getattr(model, "provider", "") for model in other.models] == [
        "http://127.0.0.1:1/v1",
        "http://127.0.0.1:11434/v1",
    ]
