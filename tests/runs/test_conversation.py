"""A conversation that every server takes, in whole runs against one that refuses what real ones refuse."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import Scripted, ScriptedModel
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.types.errors import ContextWindowError
from tests.support.loopback import Loopback, Request, Said

OWN_WORDS = "the model's own words"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str, tag: str = "repl") -> str:
    return "\n".join(["I look.", f"```{tag}", *lines, "```"])


def reply(dice: random.Random) -> str:
    """Something that a model may say, sane or not."""
    number = dice.randrange(5)
    return dice.choice(
        [
            block(f"print(context[:{number}])"),
            block(f"print({number})"),
            block("1/0"),
            block("x = ", "y"),
            block(f"print({number})") + f"\n\n**Output:**\n```\n{number}\n```\nFINAL({number})",
            block(f"parts = llm_query_batched(['a', 'b{number}'])"),
            block(f"answer['content'] = 'draft {number}'"),
            f"I think that it is {number}.",
            f"FINAL({number})",
            f"```repl\nprint({number}",
            "```",
            "Output:\n```\n1\n```",
            block("import os; os._exit(1)") if number == 0 else block("pass"),
            block(f"FINAL('{OWN_WORDS}')") if number < 2 else "FINAL_VAR(gone)",
        ]
    )


class Listening(Loopback):
    """Says what the dice say; after a stop, as a forced call has it, prose."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(alternates=True, **options)
        self.dice = random.Random(seed)
        self.is_stuck = False

    async def reply_to(self, request: Request) -> Said:
        messages = request.messages
        if "No more code can be executed" in messages[-1]["content"] or messages[0]["role"] == "user":
            return Said(OWN_WORDS)
        return Said(block("1/0") if self.is_stuck else reply(self.dice))


def sane(server: Loopback, trajectory: Trajectory) -> None:
    """What is our own never comes back as the answer, and the conversation only ever grows at its end."""
    assert trajectory.ended is not None
    assert trajectory.ended.stop_reason != "failed", trajectory.ended.message
    ours = [trajectory.started.system, trajectory.started.opening]
    ours += [text for iteration in trajectory.iterations for text in (*iteration.notices, iteration.shown) if text]
    assert not any((trajectory.answer or "").startswith(text[:40]) for text in ours)
    requests = [request.messages for request in server.requests if request.messages[0]["role"] == "system"]
    for before, after in itertools.pairwise(requests):
        # a notice may come to the last message, which is why only its beginning stands
        assert after[: len(before) - 1] == before[:-1]
        assert after[len(before) - 1]["content"].startswith(before[-1]["content"])


async def test_whatever_a_model_says_every_server_takes_the_conversation() -> None:
    limits = Limits(max_iterations=5, max_errors=3, cell_seconds=20)
    with Listening(0) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k")
        async with open_session(RLM(model, limits=limits).settings, Context("some text")) as session:
            reasons = set()
            for seed in range(24):
                server.dice, server.is_stuck = random.Random(seed), seed % 12 == 0
                server.requests.clear()
                control = Control()
                control.note("Look at the end, too.")
                trajectory = await session.answer("What is it?", control=control)
                sane(server, trajectory)
                assert trajectory.ended is not None
                reasons.add(trajectory.ended.stop_reason)
    assert {"answered", "iterations", "errors", "no_progress"} <= reasons


async def test_a_run_that_is_taken_up_and_its_children_alternate_too(in_folder: Path) -> None:
    child = block("part = rlm_query('a part')", "print(part)")
    limits = Limits(max_iterations=2, max_depth=2)
    script = [child, block("len(context)"), "Still.", "its guess", "Hm.", "a guess", "Well.", "Then.", "the last guess"]
    with Loopback(script, alternates=True) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k")
        first = await RLM(model, limits=limits).acompletion("What is it?", "some text")
        assert first.path is not None
        assert first.stop_reason == "iterations"
        again = await RLM.aresume(first.path, model=model, max_iterations=4)
    assert (again.stop_reason, again.answer, len(server.requests)) == ("iterations", "the last guess", len(script))
    assert all(request.messages[-1]["role"] == "user" for request in server.requests)


async def test_an_overflow_teaches_the_window_and_the_run_goes_on() -> None:
    replies = [block(f"print('{i}' * 9_000)") for i in range(4)] + [block("FINAL(len(context))")]
    answers = iter(replies)
    with Loopback([lambda _: next(answers)], n_ctx=32_768, holds=9_000, alternates=True) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k", window=32_768)
        result = await RLM(model, limits=Limits(max_output_tokens=500), compact_at=0).acompletion("How long?", "abc")
    assert (result.answer, result.stop_reason) == ("3", "answered")
    assert model.window == 9_000
    assert result.trajectory.elided_through >= 1
    # once it is known how the server counts, it is not overrun again
    assert len(server.requests) == len(replies) + 1


async def test_one_output_that_fills_the_window_is_left_out_too() -> None:
    answers = iter([block("print('x' * 12_000)"), block("FINAL(len(context))")])
    with Loopback([lambda _: next(answers)], holds=6_000) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k", window=100_000)
        result = await RLM(model, limits=Limits(max_output_tokens=500)).acompletion("How long?", "abc")
    assert result.answer == "3"
    assert "left out now" in server.requests[-1].messages[-1]["content"]


def prefix_changes(model: ScriptedModel) -> int:
    """How many requests do not extend the one before them, so that a provider's cache has nothing of their end."""
    conversations = [[message.content for message in request] for request in model.requests]
    return sum(later[: len(earlier)] != earlier for earlier, later in itertools.pairwise(conversations))


async def test_elision_is_rare_because_it_frees_half_of_the_room_at_once() -> None:
    # each output takes an eleventh of the window
    cells = [f"```repl\nprint('{number} ' + 'x y z ' * 480)\n```" for number in range(40)]
    model = ScriptedModel([*cells, "```repl\nFINAL('done')\n```"], window=8_000)
    result = await RLM(model, limits=Limits(max_iterations=50), save=False, compact_at=0).acompletion("What?", "a text")
    assert result.answer == "done"
    assert 0 < prefix_changes(model) <= 40 / 3


async def test_a_refusal_that_names_no_count_frees_half_of_the_conversation() -> None:
    cells: list[Scripted] = [f"```repl\nprint('{number} ' + 'x y z ' * 480)\n```" for number in range(10)]
    model = ScriptedModel([*cells, ContextWindowError("too long"), "```repl\nFINAL('done')\n```"])
    result = await RLM(model, save=False, compact_at=None).acompletion("What?", "a text")
    assert result.answer == "done"
    assert prefix_changes(model) == 1
    before, after = (sum(len(message.content) for message in request) for request in model.requests[-2:])
    assert after < before * 0.6
