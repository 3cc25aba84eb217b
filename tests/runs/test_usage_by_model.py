"""What each model used adds up to what the run used: root, sub-calls, children, replies that did not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.frontends.cli.main import main
from rlm_jupyter.record.export import WholeRun, sft
from tests.support.loopback import Fault, Loopback, Said, Scripted

ROOT, SUB, LEAF = "vllm/root", "vllm/sub", "vllm/leaf"
PRICES = {ROOT: (1.0, 5.0), SUB: (0.5, 2.0), LEAF: (0.1, 0.2)}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Replies:
    """A root that fails, says the same once more, and then asks children and sub-calls; a child that asks one."""

    def __init__(self) -> None:
        self._failed = 0

    def __call__(self, messages: list[dict[str, str]]) -> Said:
        if len(messages) == 1:
            return Said("a reply", input_tokens=70, output_tokens=7)
        if "What is it?" not in messages[1]["content"]:
            step = "print(llm_query('read this: ' + context))" if len(messages) == 2 else "FINAL(context[:4])"
            return Said(f"```repl\n{step}\n```", input_tokens=300, output_tokens=20)
        self._failed += 1
        asks = f"print({len(messages)}, rlm_query('a part'), llm_query('this: a passage of the text'))"
        step = "1/0" if self._failed <= 2 else asks
        return Said(f"```repl\n{step}\n```", input_tokens=500, output_tokens=30)


def check(result: Result) -> None:
    used = result.usage_by_model
    assert sum(one.usage.total_tokens for one in used.values()) == result.usage.total_tokens
    assert sum(one.cost or 0.0 for one in used.values()) == pytest.approx(result.cost)


@pytest.mark.parametrize("save", [True, False], ids=["saved", "unsaved"])
async def test_it_adds_up_with_children_and_resampled_replies(save: bool) -> None:
    with Loopback([Replies()]) as server:
        rlm = RLM(
            ROOT,
            sub_model=[SUB, LEAF],
            limits=Limits(max_depth=2, max_iterations=4),
            prices=PRICES,
            base_url=server.openai_url,
            window=64_000,
            save=save,
        )
        result = await rlm.acompletion("What is it?", "a text about it")
        check(result)
        assert {"root", "sub"} <= set(result.usage_by_model)
        assert result.usage_by_model["root"].cost is not None
        if not save:
            return
        assert "leaf" in result.usage_by_model
        assert result.trajectory.rejected
        assert result.path is not None
        again = await RLM.aresume(result.path, max_iterations=6, base_url=server.openai_url, window=64_000)
    check(again)
    assert again.usage_by_model["root"].requests > result.usage_by_model["root"].requests


def test_the_command_line_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.json").write_text(json.dumps({"replies": ["```repl\nFINAL(llm_query('a: b'))\n```"], "subcalls": ["x"]}))
    Path("t.json").write_text(json.dumps({"replies": [], "subcalls": ["x"]}))
    assert main(["run", "What?", "-m", "scripted/s.json", "--sub-model", "scripted/t.json", "--json", "-q"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["usage_by_model"]) == {"scripted/s.json", "scripted/t.json"}
    assert facts["usage_by_model"]["scripted/t.json"]["requests"] == 1
    assert main(["show"]) == 0
    assert "scripted/t.json: 1 request" in capsys.readouterr().out


def test_one_bill_and_one_name_where_replies_broke_off(capsys: pytest.CaptureFixture[str]) -> None:
    # the first breaks off behind a cell, which counts; the last is still written when the time is up
    asks = Fault.dropped("middle", "```repl\nprint(len(context))\n```\nAnd then, ")
    looks = "```repl\nprint(llm_query('this: a passage'), llm_query('a reply that breaks off'))\n```"
    of_subcalls = [Fault.dropped("middle")] * 3
    replies: list[Scripted] = [asks, looks, "a reply", *of_subcalls, "```repl\nprint(2)\n```", Fault.dropped("stall")]
    with Loopback(replies) as server:
        rlm = RLM(
            ROOT,
            sub_model=SUB,
            limits=Limits(max_seconds=6, max_depth=1),
            prices=PRICES,
            base_url=server.openai_url,
            window=64_000,
            save="run.ipynb",
        )
        result = rlm.completion("What is it?", "a text about it")
    assert result.stop_reason == "seconds"
    check(result)
    assert set(result.usage_by_model) == {"root", "sub", "(stopped on the way)"}
    assert main(["show", "run.ipynb"]) == 0
    shown = capsys.readouterr().out
    spent = f"{result.usage.total_tokens:,} tokens · ${result.cost:,.4f}"
    assert f"time limit reached · 3 iterations · 2 sub-calls · {spent}" in shown
    assert "root: 3 requests" in shown
    lost = result.usage_by_model["(stopped on the way)"]
    assert f"(stopped on the way): {lost.usage.total_tokens:,} tokens" in shown
    assert spent.replace(" · ", ", ") in repr(result.trajectory)
    assert sft.about(WholeRun.gather("run.ipynb"))["cost"] == result.cost
