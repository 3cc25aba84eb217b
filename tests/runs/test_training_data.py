"""Runs as training data: what was sent is what is trained on, in the forms that trainers read."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export import WholeRun
from rlm_jupyter.record.export.atif import to_atif
from rlm_jupyter.record.export.sft import to_sft
from rlm_jupyter.record.export.verifiers import to_verifiers
from rlm_jupyter.record.export.windows import Window, windows
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ContextWindowError
from rlm_jupyter.types.events import OutputsShown, RunResumed
from rlm_jupyter.types.values import Message
from tests.runs.test_compaction import Long, line
from tests.support import consumers, exported
from tests.support.exported import FIRST, QUESTION, SECRET, block
from tests.support.sample_run import ended, reply, sample, started

[CHAT] = re.findall(
    r"^```jinja\n(.*?)^```", (Path(__file__).parents[2] / "docs" / "traces.md").read_text(), re.M | re.S
)
"""A chat template that takes the messages' weights for the loss mask."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return exported.make(tmp_path_factory.mktemp("made") / "run.ipynb")


@pytest.fixture
def whole(made: Result) -> WholeRun:
    assert made.path is not None
    return WholeRun.gather(made.path, context=False)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(one) for one in text.split("\n") if one]


def trained(window: dict[str, Any]) -> list[str]:
    return [message["content"] for message in window["messages"] if message.get("weight")]


def check_sent(trajectory: Trajectory, conversations: Sequence[Sequence[Message]]) -> list[Window]:
    """What stands before each reply is what the model was sent for it."""
    found = windows(trajectory)
    turns = [(window, turn) for window in found for turn in window.turns]
    assert len(turns) == len(conversations)
    for (window, turn), sent in zip(turns, conversations, strict=True):
        before = [(message.role, message.content) for message in window.messages[: turn.message]]
        assert before == [(message.role, message.content) for message in sent]
    return found


async def test_the_messages_before_each_reply_are_what_was_sent() -> None:
    model = ScriptedModel([block("print(1)"), "no block", block("1/0"), block("FINAL(len(context))")])
    result = await RLM(model, save=False).acompletion("What?", "text")
    [window] = check_sent(result.trajectory, model.requests)
    assert [turn.iteration.index for turn in window.turns if turn.iteration] == [1, 2, 3, 4]
    assert window.messages[-1] == Message("assistant", block("FINAL(len(context))"))


async def test_a_last_reply_is_trained_on_with_what_asked_for_it() -> None:
    model = ScriptedModel([block("print(len(context))"), "4"])
    result = await RLM(model, limits=Limits(max_iterations=1), save=False).acompletion("How long?", "text")
    assert result.answer == "4"
    [window] = check_sent(result.trajectory, model.requests)
    assert [turn.iteration is None for turn in window.turns] == [False, True]


async def test_outputs_that_made_room_begin_a_window_and_no_reply_is_trained_on_twice() -> None:
    replies: list[Any] = [block(f"print('{i}' * 15_000)") for i in range(4)]
    model = ScriptedModel([*replies, ContextWindowError("too long"), block("FINAL(len(context))")], window=16_000)
    result = await RLM(model, limits=Limits(max_output_tokens=500), compact_at=0, save=False).acompletion(
        "What?", "text"
    )
    assert result.trajectory.elided_through >= 1
    # the request that was too long has no reply
    sent = [request for place, request in enumerate(model.requests) if place != 4]
    found = check_sent(result.trajectory, sent)
    assert len(found) > 1
    exported_lines = lines(to_sft(WholeRun(result.trajectory)))
    said = list(itertools.chain.from_iterable(map(trained, exported_lines)))
    assert said == [*replies, block("FINAL(len(context))")]
    assert [line["window"] for line in exported_lines] == [*range(1, len(found) + 1)]
    assert all(message["weight"] == 0 for message in exported_lines[-1]["messages"][2:-1] if "weight" in message)


async def test_a_summary_begins_a_window() -> None:
    model = Long([line(number) for number in range(1, 60)] + [block("FINAL('done')")])
    result = await RLM(model, limits=Limits(max_iterations=70), save=False).acompletion("What?", "a text")
    assert result.answer == "done"
    found = check_sent(result.trajectory, model.conversations)
    assert len(found) == 1 + len(result.trajectory.compactions) > 1
    assert found[1].compacted is result.trajectory.compactions[0]
    episode = consumers.Episode.model_validate(lines(to_verifiers(WholeRun(result.trajectory)))[0])
    assert sum(node.sampled for node in episode.traces[0].nodes) == 60
    assert [node.message.role for node in episode.traces[0].nodes].count(
        "system"
    ) == 1  # what begins alike is there once
    atif = consumers.Atif.model_validate(lines(to_atif(WholeRun(result.trajectory)))[0])
    assert sum(step.source == "system" for step in atif.steps) == 1 + len(result.trajectory.compactions)


def test_a_run_that_was_resumed_after_its_last_reply_goes_on_without_that() -> None:
    resumed = RunResumed(2, "scripted/root", "scripted/sub", {}, "2026-01-03T03:04:05+00:00", True)
    records = [*sample(), resumed, reply(3, "Now."), OutputsShown(3, "Outputs:\n3"), ended(iteration=3)]
    first, forced, last = windows(Trajectory(records))
    assert [len(window.turns) for window in (first, forced, last)] == [2, 1, 1]
    assert forced.messages[-1].content == "It was Ada."
    assert [message.content for message in last.messages if message.role == "assistant"][-1] == "Now."
    assert "It was Ada." not in [message.content for message in last.messages]


def test_each_run_is_a_line_with_tokens_and_rewards_of_its_iterations(whole: WholeRun, made: Result) -> None:
    root, child = lines(to_sft(whole, 0.5))
    assert (root["score"], root["answer"], root["stop_reason"], root["cost"]) == (0.5, "Ada", "answered", made.cost)
    assert (child["parent"], child["depth"], child["answer"]) == (root["run"], 1, "13")
    assert "score" not in child
    assert trained(root) == [FIRST, block("looked_up('nothing')"), block("FINAL('Ada')")]
    assert "" not in [message["content"] for message in root["messages"]]  # what was resampled is no part of it
    first, second, third = root["iterations"]
    assert (first["prompt_tokens"], first["completion_tokens"], first["cached_tokens"]) == (2000, 30, 500)
    assert first["reasoning_tokens"] == 11
    assert [one["cells"] for one in root["iterations"]] == [["ok"], ["error"], ["ok"]]
    assert first["reward"] > second["reward"]
    assert third["reward"] == root["reward"]
    assert root["messages"][first["message"]]["content"] == FIRST
    assert root["messages"][0]["role"] == "system"
    assert QUESTION in root["messages"][1]["content"]


def test_no_key_is_in_any_form(whole: WholeRun) -> None:
    for export in (to_sft, to_atif, to_verifiers):
        assert SECRET in export(whole)
        assert SECRET not in export(whole.redacted(Redactor()))


# -- what the messages become ------------------------------------------------------------------------------------------


def generation(template: str) -> str:
    """The template without the marks that only transformers knows."""
    return template.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def test_a_chat_template_has_the_weighted_replies_at_places_of_their_own(whole: WholeRun) -> None:
    render = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(generation(CHAT)).render
    for window in lines(to_sft(whole)):
        messages = window["messages"]
        text = render(messages=messages)
        for place, message in enumerate(messages):
            if message.get("weight"):
                before = render(messages=messages[:place])
                assert text.startswith(f"{before}<|assistant|>\n{message['content']}<|end|>")


def test_the_loss_mask_of_transformers_is_the_weighted_replies(whole: WholeRun) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    found = lines(to_sft(whole))
    texts = [message["content"] for window in found for message in window["messages"]]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHAT)
    for window in found:
        made = fast.apply_chat_template(
            window["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        runs = [
            fast.decode([token for token, _ in group])
            for is_trained, group in itertools.groupby(
                zip(made["input_ids"], made["assistant_masks"], strict=True), key=lambda pair: pair[1]
            )
            if is_trained
        ]
        assert runs == [f"{content}<|end|>" for content in trained(window)]


# -- verifiers, and ATIF ---------------------------------------------------------------------------------------------


def episode_of(text: str) -> Any:
    """An episode as `verifiers` reads it, where that is installed; else as we read its form."""
    if importlib.util.find_spec("verifiers") is None:
        return consumers.Episode.model_validate_json(text)
    from verifiers.v1.episode import WireEpisode  # type: ignore[import-not-found,unused-ignore]

    return WireEpisode.model_validate_json(text)


def trajectory_of(text: str) -> Any:
    """A trajectory as Harbor reads it, where that is installed; else as we read ATIF."""
    if importlib.util.find_spec("harbor") is None:
        return consumers.Atif.model_validate_json(text)
    from harbor.models.trajectories import Trajectory as Theirs  # type: ignore[import-not-found,unused-ignore]

    return Theirs.model_validate_json(text)


READERS: list[Callable[[str], Any]] = [consumers.Episode.model_validate_json, episode_of]
ATIF_READERS: list[Callable[[str], Any]] = [consumers.Atif.model_validate_json, trajectory_of]


@pytest.mark.parametrize("read", READERS)
def test_an_episode_has_the_traces_of_all_runs_and_costs_what_they_did(
    read: Callable[[str], Any], whole: WholeRun, made: Result
) -> None:
    episode = read(to_verifiers(whole, 1.0))
    assert episode.ok
    root, child = episode.traces
    assert [node.message.content for node in root.nodes if node.sampled] == [
        FIRST,
        block("looked_up('nothing')"),
        block("FINAL('Ada')"),
    ]
    assert {name: one.score for name, one in root.rewards.items()} == {"score": 1.0}
    assert [*child.rewards] == ["reward"]
    assert (root.agent.name, child.agent.name) == ("root", "child")
    spent = [call.usage for trace in episode.traces for call in trace.calls]
    spent += [usage for trace in episode.traces for usage in trace.extra_usage]
    assert sum(one.cost for one in spent) == pytest.approx(made.cost, abs=1e-12)
    assert sum(one.prompt_tokens + one.cached_input_tokens for one in spent) == made.usage.input_tokens
    assert sum(one.completion_tokens for one in spent) == made.usage.output_tokens
    assert [call.node is None for call in root.calls] == [True, False, False, False]  # the first was resampled


def test_verifiers_sees_turns_branches_and_rewards(whole: WholeRun) -> None:
    pytest.importorskip("verifiers")
    root, child = episode_of(to_verifiers(whole, 1.0)).traces
    assert (root.num_turns, root.num_branches, root.reward, root.last_reply) == (3, 1, 1.0, "Ada")
    assert (child.num_turns, child.stop_condition) == (2, "answered")
    assert [message.role for message in root.branches[0].messages] == ["system", *["user", "assistant"] * 3]


@pytest.mark.parametrize("read", ATIF_READERS)
def test_a_trajectory_of_atif_has_cells_as_calls_and_children_inside(
    read: Callable[[str], Any], whole: WholeRun, made: Result
) -> None:
    trajectory = read(to_atif(whole, 1.0))
    assert [step.source for step in trajectory.steps] == ["system", "user", "agent", "agent", "agent"]
    assert trajectory.final_metrics.total_cost_usd == made.cost
    first = trajectory.steps[2]
    assert first.llm_call_count == 2
    assert (first.metrics.prompt_tokens, first.metrics.cached_tokens) == (2900, 500)
    [call] = first.tool_calls
    assert call.arguments["code"] in FIRST
    assert [one["kind"] for one in call.extra["subcalls"]] == ["llm", "rlm", "tool"]
    refs, shown = first.observation.results
    [child] = trajectory.subagent_trajectories
    assert [one.trajectory_id for one in refs.subagent_trajectory_ref] == [child.trajectory_id]
    assert refs.source_call_id == call.tool_call_id
    assert shown.content.startswith("Outputs:\nA book by")
    assert [step.observation is None for step in trajectory.steps[2:]] == [False, False, True]
    assert trajectory.extra["score"] == 1.0
    costs = [step.metrics.cost_usd for one in (trajectory, child) for step in one.steps if step.metrics]
    inner = [call.extra for one in (trajectory, child) for step in one.steps for call in step.tool_calls or ()]
    costs += [sub["cost_usd"] for extra in inner for sub in extra.get("subcalls", ()) if sub["child"] is None]
    assert sum(costs) == pytest.approx(made.cost, abs=1e-12)


def test_harbors_validator_accepts_the_file(whole: WholeRun, tmp_path: Path) -> None:
    pytest.importorskip("harbor")
    from harbor.utils.trajectory_validator import (  # type: ignore[import-not-found,unused-ignore]
        TrajectoryValidator,
    )

    path = tmp_path / "run.atif.json"
    path.write_text(to_atif(whole))
    validator = TrajectoryValidator()
    assert validator.validate(path), validator.errors


def test_surrogates_and_a_run_without_iterations_are_written_too() -> None:
    odd = WholeRun(Trajectory([started(), reply(1, "\ud800"), ended(answer="\ud800")]))
    assert json.loads(to_sft(odd))["messages"][2]["content"] == "?"
    assert trajectory_of(to_atif(odd)).extra["answer"] == episode_of(to_verifiers(odd)).traces[0].root_reply == "?"
    assert to_sft(WholeRun(Trajectory([started(), ended()]))) == ""
