"""Sampling options and the user's paragraph in the system message: on the wire, in the record, and when it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import load_model
from rlm_jupyter.models.sampling import parsed
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import RunResumed
from tests.runs.test_cli import cli
from tests.runs.test_cli import here as here
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.support.loopback import KEY, Loopback

ASK = "I ask.\n```repl\nreply = llm_query('one')\nprint(reply)\n```"
END = "```repl\nFINAL(reply)\n```"
SCRIPT = [ASK, "a reply", END]
EXTRA = "The times are in UTC. Answer in French."


@pytest.fixture(autouse=True)
def in_folder(here: Path) -> Path:
    return here


def connect(server: Loopback, wire: str, **options: Any) -> RLM:
    url = server.openai_url if wire == "openai" else server.url
    return RLM(f"{wire}/some-model", base_url=url, api_key=KEY, **options)


@pytest.mark.parametrize(
    ("wire", "options"),
    [
        ("openai", {"temperature": 0.1, "top_p": 0.9, "seed": 7, "reasoning_effort": "low"}),
        ("anthropic", {"temperature": 0.1, "top_p": 0.9, "top_k": 5}),
    ],
)
@pytest.mark.parametrize("sub", [None, {"temperature": 0.6}])
async def test_options_are_sent_with_every_request_and_recorded(
    wire: str, options: dict[str, Any], sub: dict[str, Any] | None
) -> None:
    with Loopback(SCRIPT) as server:
        rlm = connect(server, wire, model_options=options, sub_model_options=sub)
        result = await rlm.acompletion("What?", "text")
    assert result.answer == "a reply"
    first, asked, last = [request.body for request in server.requests]
    assert options.items() <= first.items()
    assert options.items() <= last.items()
    assert (options if sub is None else sub).items() <= asked.items()
    assert ("top_p" in asked) is (sub is None)
    assert result.path is not None
    recorded = Trajectory.load(result.path).started.options
    assert recorded["model_options"] == options
    assert recorded.get("sub_model_options") == sub


async def test_the_body_that_only_a_server_knows_is_sent_beside_ours() -> None:
    with Loopback(SCRIPT) as server:
        body = {"extra_body": {"mirostat": 2}, "min_p": 0.05}
        model = load_model("llamacpp/some-model", base_url=server.openai_url, options=body)
        await RLM(model).acompletion("What?", "text")
    assert {"mirostat": 2, "min_p": 0.05, "return_progress": True, "temperature": 0.2}.items() <= server.requests[
        0
    ].body.items()


@pytest.mark.parametrize("place", ["model_options", "sub_model_options"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"messages": []}, "'messages' can't be set: the run writes them"),
        ({"model": "x"}, "'model' can't be set"),
        ({"stream": False}, "'stream' can't be set"),
        ({"max_tokens": 5}, r"Limits\(max_output_tokens=…\)"),
        ({"max_completion_tokens": 5}, r"Limits\(max_output_tokens=…\)"),
        ({"extra_body": {"max_tokens": 5}}, "'max_tokens' can't be set"),
        ({"extra_headers": {"authorization": "secret"}}, "may hold keys"),
        ({"n": 2}, "one reply"),
        ({"temperature": 3}, "no temperature of 3"),
        ({"temperature": "hot"}, "no temperature of 'hot'"),
        ({"seed": object()}, "plain data"),
        ({"top_p": float("nan")}, "plain data"),
        (["temperature"], "a mapping by name"),
        ({1: 2}, "a mapping by name"),
    ],
)
def test_what_can_t_be_set_is_refused_in_one_line(place: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        RLM("openai/gpt-5-mini", api_key=KEY, **{place: options})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_options_need_a_server_and_a_name() -> None:
    with pytest.raises(ConfigurationError, match="nor options"):
        RLM("extractive", model_options={"seed": 1})
    with pytest.raises(ConfigurationError, match="made already"):
        RLM(ScriptedModel([END]), model_options={"seed": 1})
    with pytest.raises(ConfigurationError, match="system_prompt_extra is a str, not list"):
        RLM("extractive", system_prompt_extra=["x"])  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_an_option_that_the_sdk_does_not_know_is_named_before_anything_is_asked(wire: str, here: Path) -> None:
    with Loopback(SCRIPT) as server:
        rlm = connect(server, wire, model_options={"temprature": 0.1})
        with pytest.raises(
            ConfigurationError, match="takes no option 'temprature'; did you mean 'temperature'"
        ) as caught:
            await rlm.acompletion("What?", "text")
    assert "\n" not in str(caught.value)
    assert server.requests == []


def test_options_and_the_paragraph_tell_requests_apart() -> None:
    def digest(**options: Any) -> str:
        return request_digest(RLM("openai/gpt-5-mini", api_key=KEY, **options).settings, "What?", Context("text"))

    plain = digest()
    others = [
        digest(model_options={"seed": 1}),
        digest(model_options={"seed": 2}),
        digest(sub_model_options={"seed": 1}),
        digest(system_prompt_extra=EXTRA),
    ]
    assert len({plain, *others}) == 5
    assert digest(model_options={}, sub_model_options={}, system_prompt_extra=" ") == plain


@pytest.mark.parametrize("way", ["resume", "fork"])
async def test_a_run_goes_on_with_its_options(way: str) -> None:
    options = {"model_options": {"seed": 7}, "sub_model_options": {"seed": 8}, "system_prompt_extra": EXTRA}
    with Loopback([ASK, "a reply", END, END]) as server:
        first = await connect(server, "openai", limits=Limits(max_iterations=1), **options).acompletion("What?", "text")
        assert first.path is not None
        at = {"base_url": server.openai_url, "api_key": KEY}
        on: Any = {"max_iterations": 9, **at}
        before = len(server.requests)
        if way == "resume":
            with pytest.raises(ConfigurationError, match="fork the run"):
                await RLM.aresume(first.path, system_prompt_extra="Another.", **on)
            again = await RLM.aresume(first.path, model_options={"seed": 9}, **on)
        else:
            again = await RLM.afork(first.path, 1, model_options={"seed": 9}, **on)
    assert again.path is not None
    assert {request.body["seed"] for request in server.requests[before:]} == {9}
    assert server.requests[-1].messages[0]["content"].endswith(f"\n{EXTRA}\n")
    saved = SavedRun.load(again.path)
    if way == "resume":
        [resumed] = [record for record in saved.records if isinstance(record, RunResumed)]
        assert resumed.sampling == {"model_options": {"seed": 9}, "sub_model_options": {"seed": 8}}
    else:
        assert saved.trajectory.started.options["model_options"] == {"seed": 9}


async def test_options_do_not_go_to_another_model() -> None:
    with Loopback([ASK, "a reply", END, END]) as server:
        rlm = connect(server, "openai", limits=Limits(max_iterations=1), model_options={"seed": 7})
        first = await rlm.acompletion("What?", "text")
        assert first.path is not None
        on: Any = {"base_url": server.openai_url, "api_key": KEY, "max_iterations": 9}
        await RLM.aresume(first.path, model="openai/other", **on)
    assert "seed" in server.requests[0].body
    assert "seed" not in server.requests[-1].body


async def test_the_paragraph_is_told_to_the_run_and_to_its_children() -> None:
    child = "```repl\nFINAL('from below')\n```"
    replies = ["```repl\nreply = rlm_query('a part')\nprint(reply)\n```", child, END]
    with Loopback(replies) as server:
        rlm = connect(server, "openai", system_prompt_extra=f"  {EXTRA}\n", limits=Limits(max_depth=2))
        result = await rlm.acompletion("What?", "text")
        plain = await connect(server, "openai").acompletion("What?", "text")
    assert result.answer == "from below"
    systems = [request.messages[0]["content"] for request in server.requests[:3]]
    assert all(text.endswith(f"\n\n{EXTRA}\n") for text in systems)
    assert result.trajectory.started.options["system_prompt_extra"] == EXTRA
    assert EXTRA not in plain.trajectory.started.system


def test_pairs_are_read() -> None:
    pairs = ["temperature=0.2", "effort=low", 'extra_body={"a": [1]}', "stop==", "x="]
    assert parsed(pairs) == {"temperature": 0.2, "effort": "low", "extra_body": {"a": [1]}, "stop": "=", "x": ""}
    with pytest.raises(ConfigurationError, match="NAME=VALUE"):
        parsed(["temperature"])


@pytest.mark.slow
def test_from_a_notebook_and_from_the_command_line(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Loopback(SCRIPT * 3) as server:
        line = f"-m openai/some-model --base-url {server.openai_url}"
        shown, error = run_cell(shell, f'%rlm {line} --option temperature=0.3 --system-extra "Be brief." What?')
        assert error is None, shown
        run_cell(shell, "%config RLMMagics.model_options = {'seed': 3}")
        run_cell(shell, f"%rlm {line} What else?")
        done = cli(
            "run", "What?", *line.split(), "--option", "seed=5", "--sub-option", "seed=6", "--system-extra", "Ok."
        )
        assert done.code == 0, done.err
        refused = cli("run", "What?", *line.split(), "--option", "max_tokens=5")
    by_magic, _, _, by_trait, _, _, by_command, below, _ = server.requests
    assert by_magic.body["temperature"] == 0.3
    assert by_magic.messages[0]["content"].endswith("\nBe brief.\n")
    assert by_trait.body["seed"] == 3
    assert (by_command.body["seed"], below.body["seed"]) == (5, 6)
    assert by_command.messages[0]["content"].endswith("\nOk.\n")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
