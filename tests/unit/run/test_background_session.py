"""Prompts that share a kernel: each waits for its turn, and is heard meanwhile."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.background_session import BackgroundSession
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import Event, RemarkMade, RunEnded, RunStarted

SLEEP = "```repl\nimport time\nx = 1\ntime.sleep(60)\n```"


def wait_until_it_runs(session: BackgroundSession, count: int) -> None:
    deadline = time.monotonic() + 40
    while len(session.records) < count or not session.records[-1].iterations:  # its reply is there
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_prompt_that_waits_for_its_turn_hears_that_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = ScriptedModel(["```repl\nFINAL('one')\n```", SLEEP, "```repl\nFINAL(x)\n```", SLEEP])
    kept = RLM(model).completion("One?", keep_kernel=True)
    session = kept._kept
    assert isinstance(session, BackgroundSession)
    first = RunHandle(session, "Two?", None)
    wait_until_it_runs(session, 2)
    events: list[Event] = []
    queued = RunHandle(session, "Three?", events.append)
    time.sleep(0.2)
    assert not queued.done
    queued.stop()
    result = queued.result(60)
    assert (result.stop_reason, result.answer, result.cost) == ("cancelled", None, 0.0)
    assert "its turn had not come" in result.message
    assert events[0] == RemarkMade("Waiting until its kernel is free", passes=True)
    assert [type(event) for event in events[1:]] == [RunStarted, RunEnded]
    assert not first.done
    # nothing is kept of what did not begin
    [notebook] = (tmp_path / "rlm_runs").glob("*.ipynb")
    assert [path.name for path in notebook.with_suffix(".rlm").glob("prompts/*")] == ["2.rlm"]
    first.stop()
    assert first.result(60).stop_reason == "cancelled"
    assert kept.ask("Four?").answer == "1"

    # closing stops what is under way, too
    under_way = RunHandle(session, "Five?", None)
    wait_until_it_runs(session, 4)
    kept.close()
    assert under_way.result(60).stop_reason == "cancelled"
    with pytest.raises(ConfigurationError, match="closed"):
        kept.ask("Six?")


def test_a_prompt_whose_turn_comes_as_its_kernel_is_closed_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = RLM(ScriptedModel(["```repl\nFINAL('one')\n```"])).completion("One?", keep_kernel=True)
    session = kept._kept
    assert isinstance(session, BackgroundSession)
    begin_turn, closing = session._begin_turn, list[asyncio.Task[None]]()

    async def begin_and_close() -> None:
        await begin_turn()
        closing.append(asyncio.create_task(session.aclose()))

    monkeypatch.setattr(session, "_begin_turn", begin_and_close)
    result = RunHandle(session, "Two?", None).result(60)
    assert (result.stop_reason, result.answer, result.cost) == ("cancelled", None, 0.0)
    session.close_soon().result(60)  # after that one
    assert closing[0].done()
