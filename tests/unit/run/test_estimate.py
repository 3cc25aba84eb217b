"""What a run may cost, before anything is asked; and prices of one's own."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits
from rlm_jupyter.frontends.cli.main import main
from rlm_jupyter.frontends.magics.rlm import load
from rlm_jupyter.models import load_model
from rlm_jupyter.models.pricing import own_prices, parsed_prices
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.tokens import estimate_tokens
from rlm_jupyter.types.values import Usage
from tests.support.local_servers import LocalServer
from tests.support.loopback import Loopback, Said

MINE = "azure_openai/mine"
PRICES = {MINE: (2.0, 8.0, 0.5)}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mine() -> Any:
    return load_model(MINE, base_url="http://127.0.0.1:9", api_key="some-key", window=100_000)


def test_a_price_of_ones_own_goes_before_the_list() -> None:
    model = Routing("extractive", [mine()], prices=own_prices(PRICES)).sub[0]
    assert model.cost(Usage(1_000_000)) == 2.0
    assert model.cost(Usage(1_000_000, 500_000, cached_tokens=400_000)) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 4)
    assert model.name == MINE
    assert model.window == 100_000
    assert mine().cost(Usage(1)) is None


def test_the_same_model_stays_one_model() -> None:
    model = mine()
    routing = Routing(model, [model], prices=own_prices(PRICES))
    assert routing.root is routing.sub[0]
    assert len(routing.models) == 1


@pytest.mark.parametrize(
    "prices",
    [5, {"a/b": 3}, {"a/b": (1,)}, {"a/b": (1, 2, 3, 4)}, {"a/b": (1, -2)}, {"a/b": ("1", "2")}, {"a/b": (None, 1)}],
)
def test_a_wrong_price_is_named(prices: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"prices is a dict|The price of 'a/b' is \(input, output\)"):
        RLM("extractive", prices=prices)


@pytest.mark.parametrize("word", ["a/b", "a/b=1", "a/b=1,x", "a/b=1;2"])
def test_a_price_that_is_written_otherwise_is_named(word: str) -> None:
    with pytest.raises(ConfigurationError, match=r"MODEL=INPUT,OUTPUT|is \(input, output\)"):
        parsed_prices([word])
    assert parsed_prices(["a/b=1,2", "c/d=1,2,0.1"]) == {"a/b": (1.0, 2.0), "c/d": (1.0, 2.0, 0.1)}


def test_a_limit_in_dollars_needs_a_price_before_the_run() -> None:
    with pytest.raises(ConfigurationError, match=f"price of {MINE} is not known: give it, as in prices=") as error:
        RLM(mine(), limits=Limits(max_cost=1.0))
    assert f"as in %config RLMMagics.prices = {{{MINE!r}: (0.25, 2.0)}} (US" in error.value.for_notebook
    assert f"as in --price {MINE}=0.25,2.0 (US" in error.value.for_command_line
    assert RLM(mine(), limits=Limits(max_cost=1.0), prices=PRICES).settings.routing.unpriced == ""


async def test_a_run_is_billed_at_its_own_price_and_remembers_it() -> None:
    with Loopback([Said("```repl\nFINAL(1)\n```", input_tokens=1000, output_tokens=100)]) as server:
        model = load_model("openai/unheard-of", base_url=server.openai_url, api_key="some-key")
        rlm = RLM(model, prices={"openai/unheard-of": (10, 20)}, limits=Limits(max_cost=1.0))
        result = await rlm.acompletion("What?")
    assert result.cost == pytest.approx(0.01 + 0.002)
    assert result.trajectory.started.options["prices"] == {"openai/unheard-of": [10.0, 20.0, None]}


# the estimate


def test_the_first_request_and_the_cap_are_told_and_nothing_is_asked() -> None:
    model = ScriptedModel([])
    estimate = RLM(model, prices={model.name: (1, 10)}, limits=Limits(max_cost=0.5)).estimate("Who?", "text " * 1000)
    assert not model.requests
    assert 500 < estimate.input_tokens < 3000
    assert estimate.input_cost == pytest.approx(estimate.input_tokens / 1e6)
    assert estimate.request_cost == pytest.approx((estimate.input_tokens + 10 * 8192) / 1e6)
    assert (estimate.run_cost, estimate.capped_by) == (0.5, "max_cost")
    said = str(estimate)
    assert "with a reply of 8,192 tokens (the maximum), " in said
    assert "The whole run: at most $0.5000 (max_cost)." in said
    assert "A token has 4 bytes" in said


async def test_the_first_request_is_as_long_as_it_was_estimated() -> None:
    model = ScriptedModel(["```repl\nFINAL(len(context))\n```"])
    rlm = RLM(model, save=False, sandbox="none")
    estimate = rlm.estimate("Who?", {"a": 1})
    await rlm.acompletion("Who?", {"a": 1})
    assert estimate.input_tokens == sum(estimate_tokens(message.content) for message in model.requests[0])


@pytest.mark.parametrize(
    ("limits", "cost", "by"),
    [
        ({"max_tokens": 1_000_000}, 10.0, "max_tokens"),
        ({"max_subcalls": 0, "max_iterations": 1}, None, "max_iterations"),
        ({"max_subcalls": None}, None, "set max_cost"),
        ({"max_subcalls": 10, "max_depth": 2, "max_iterations": 2}, None, "max_iterations"),
    ],
)
def test_without_a_limit_in_dollars_the_others_bound_it(limits: dict[str, Any], cost: float | None, by: str) -> None:
    model = ScriptedModel([])
    estimate = RLM(model, prices={model.name: (1, 10)}, limits=Limits(**limits)).estimate("Who?", "text")
    assert by in estimate.capped_by
    if cost is not None:
        assert estimate.run_cost == cost
    elif limits["max_subcalls"] is None:
        assert estimate.run_cost is None
        assert "The whole run: not known" in str(estimate)
    else:
        assert estimate.run_cost is not None
        assert estimate.request_cost is not None
        assert estimate.run_cost >= 2 * estimate.request_cost


def test_a_bound_is_proposed_where_none_is_set() -> None:
    def said(price: tuple[float, float], **limits: Any) -> str:
        model = ScriptedModel([])
        return str(RLM(model, prices={model.name: price}, limits=Limits(**limits)).estimate("Who?", "text"))

    assert "(assumed: 5 replies" in said((1, 10))
    assert "\nTo bound it, set max_cost, such as --max-cost 0.2: the other limits (max_iterations and " in said((1, 10))
    assert "such as --max-cost 0.04:" in said((0.1, 1.9))
    assert "The whole run: at most $0.0500 (max_cost)." in said((1, 10), max_cost=0.05)
    assert "The whole run: at most $0.0500 (max_tokens, all" in said((1, 10), max_tokens=5_000)
    assert said((0, 0)).splitlines()[1] == "The whole run costs nothing."


def test_an_unknown_price_is_said() -> None:
    estimate = RLM(mine()).estimate("Who?", "text")
    assert estimate.run_cost is None
    assert f"tokens to {MINE}, whose price is not known." in str(estimate)
    assert f"the price of {MINE} is not known: set prices" in str(estimate)


def test_the_command_line_estimates_and_takes_prices(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("text")
    Path("s.json").write_text('["```repl\\nFINAL(len(context))\\n```"]')
    asked = ["run", "Who?", "--context", "a.txt", "-m", "scripted/s.json", "--price", "scripted/s.json=1,10"]
    assert main([*asked, "--max-cost", "2", "--estimate"]) == 0
    assert "The whole run: at most $2.00 (max_cost)." in capsys.readouterr().out
    assert main([*asked, "--estimate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "scripted/s.json"
    assert not Path("rlm_runs").exists()
    assert main([*asked, "--no-save", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"] > 0
    assert main([*asked[:-1], "s=1"]) == 2


def test_the_command_line_and_the_magic_estimate_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    models = ["-m", "openai/gpt-5", "--sub-model", "anthropic/claude-sonnet-5"]
    assert main(["run", "What?", *models, "--estimate"]) == 0
    assert "$" in capsys.readouterr().out
    assert main(["run", "What?", *models]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    shell = InteractiveShell()
    load(shell)
    shell.run_line_magic("rlm", "-m openai/gpt-5 --estimate What?")
    assert "$" in capsys.readouterr().out


def test_a_typical_figure_stands_beside_the_bound_by_assumption_and_by_record() -> None:
    def small(messages: list[dict[str, str]]) -> Said:
        source = "print(llm_query(context[:100]))" if len(messages) == 2 else "FINAL(len(context))"
        return Said("ok" if len(messages) == 1 else f"```repl\n{source}\n```", input_tokens=900, output_tokens=40)

    text = "some text " * 10_000
    with Loopback([small]) as server:
        rlm = RLM("vllm/root", prices={"vllm/root": (1.0, 5.0)}, base_url=server.openai_url, window=128_000)
        assumed = rlm.estimate("How long?", text)
        result = rlm.completion("How long?", text)
        recorded, other = rlm.estimate("What else?", text), rlm.estimate("What else?", text * 10)
    assert assumed.typical_cost is not None
    assert assumed.run_cost is not None
    assert 0.02 < assumed.typical_cost < assumed.run_cost / 100
    assert "assumed: 5 replies" in str(assumed)
    assert recorded.typical_cost == pytest.approx(result.cost)
    assert "the median of 1 run on record" in str(recorded)
    assert "assumed" in other.typical_basis  # ten times as long


def test_what_is_asked_of_the_answer_is_counted() -> None:
    plain, typed = (RLM(mine()).estimate("Who?", "text", answer=answer) for answer in (None, dict[str, list[int]]))
    assert typed.input_tokens > plain.input_tokens
    assert RLM(mine()).estimate("Who?", "text", outputs=["a.csv"]).input_tokens > plain.input_tokens


@pytest.mark.parametrize(("kind", "provider"), [("vllm", "vllm"), ("ollama", "ollama")])
def test_a_server_of_ones_own_is_asked_for_its_window(kind: str, provider: str) -> None:
    with LocalServer(kind=kind, models={"coder": 32_768}) as server:
        rlm = RLM(f"{provider}/coder", base_url=server.openai_url)
        said = str(rlm.estimate("Who?", "text"))
        assert server.requests == []
        asked = len(server.asked)
        assert str(rlm.estimate("Who?", "text")) == said
        assert len(server.asked) == asked
    assert f"each filling the 32,768 tokens that {provider}/coder reads;" in said
    assert "assumed, for nobody" not in said


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_window_that_nobody_says_is_assumed(is_silent: bool) -> None:
    with socket.socket() as held:  # while it is, no other program gets its port
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        if is_silent:
            held.listen()
        began = time.monotonic()
        rlm = RLM("vllm/coder", base_url=f"http://127.0.0.1:{port}/v1")
        said = str(rlm.estimate("Who?", "text"))
        assert time.monotonic() - began < 4
    assert (
        "\n- That vllm/coder reads 128,000 tokens is assumed, for nobody says it: set window (--window) if need be."
        in said
    )
    given = RLM("vllm/coder", base_url=f"http://127.0.0.1:{port}/v1", window=8_000)
    assert "is assumed" not in str(given.estimate("Who?", "text"))
    assert "is assumed" not in str(RLM("openai/gpt-5", api_key="k").estimate("Who?", "text"))
