"""Programs in the manner of the reference implementation's examples, with the imports changed, over real HTTP."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.compat import (
    RLM,
    CompatWarning,
    ErrorThresholdExceededError,
    RLMChatCompletion,
    RLMLogger,
    TokenLimitExceededError,
    UsageSummary,
    errors,
)
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from tests.support.loopback import KEY, Loopback, Said

Messages = list[dict[str, str]]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(errors, "_SAID", set())  # what was said once is said again in the next test
    return tmp_path


def block(source: str) -> str:
    return f"```repl\n{source}\n```"


def played(*root: str, child: tuple[str, ...] = (), sub: str = "seven") -> Callable[[Messages], str]:
    """Replies of a root, of children (each from the beginning), and to plain sub-calls."""

    def reply(messages: Messages) -> str:
        if len(messages) == 1:
            return sub
        replies = child if "Your task stands at the beginning of `context`" in messages[1]["content"] else root
        return block(replies[sum(message["role"] == "assistant" for message in messages)])

    return reply


def arguments(server: Loopback, **more: Any) -> dict[str, Any]:
    return {"backend": "openai", "backend_kwargs": model(server), **more}


def model(server: Loopback) -> dict[str, Any]:
    return {"model_name": "gpt-5-nano", "api_key": KEY, "base_url": server.openai_url}


def test_a_needle_in_a_long_prompt_with_a_log_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    letters = random.Random(1)
    lines = ["".join(letters.choices("abcdefgh ", k=100)) for _ in range(5_000)]
    lines.insert(3_000, "CODE_WORD=8841")
    cells = ["import re\nfound = re.findall('CODE_WORD=([0-9]+)', context)\nprint(found)", "FINAL(found[0])"]
    with Loopback([played(*cells)]) as server:
        logger = RLMLogger(log_dir="./logs")
        rlm = RLM(**arguments(server), environment="local", max_iterations=10, logger=logger, verbose=True)
        result = rlm.completion("Return the digits of the line CODE_WORD=<digits>.\n\n" + "\n".join(lines))
        asked = server.requests[0].messages
    assert (result.response, result.root_model, result.error) == ("8841", "gpt-5-nano", None)
    assert "Your task stands in `context`" in asked[1]["content"]
    assert sum(len(message["content"]) for message in asked) < 20_000
    assert "openai/gpt-5-nano" in capsys.readouterr().err
    assert logger.log_file_path is not None
    assert Path(logger.log_file_path).parent == Path("logs")
    metadata, *iterations = map(json.loads, Path(logger.log_file_path).read_text().splitlines())
    assert (metadata["type"], metadata["root_model"], metadata["max_iterations"]) == (
        "metadata",
        "openai/gpt-5-nano",
        10,
    )
    assert [line["type"] for line in iterations] == ["iteration", "iteration"]
    assert iterations[0]["code_blocks"][0]["result"]["stdout"] == "['8841']\n"
    assert iterations[-1]["final_answer"] == "8841"


def stock(symbol: str) -> dict[str, Any]:
    """Look a price up."""
    return {"price": {"AB": 1.5, "CD": 2.5}[symbol]}


def worth(holdings: dict[str, int]) -> float:
    return sum(stock(symbol)["price"] * shares for symbol, shares in holdings.items())


def test_tools_with_descriptions_and_a_value() -> None:
    tools = {
        "stock": {"tool": stock, "description": "Price of a symbol (AB, CD)"},
        "worth": worth,
        "SETTINGS": {"tool": {"currency": "EUR"}, "description": "How amounts are written"},
    }
    cells = [
        "print(stock('AB'))\ntotal = worth({'AB': 100, 'CD': 100})",
        "FINAL(f\"{total:,.2f} {SETTINGS()['currency']}\")",
    ]
    with Loopback([played(*cells)]) as server:
        with pytest.warns(CompatWarning) as said:
            rlm = RLM(**arguments(server), custom_tools=tools)
        result = rlm.completion("What are 100 shares of each worth?")
        system = server.requests[0].messages[0]["content"]
    assert result.response == "400.00 EUR"
    assert "Price of a symbol (AB, CD)" in system
    assert "How amounts are written" in system
    assert [str(one.message).partition(":")[2].split(",")[0] for one in said] == [
        " functions are called in this process",
        " SETTINGS is a value",
    ]


def test_a_trajectory_in_memory() -> None:
    with Loopback([played("print(sum(range(6)))", "answer['content'] = 15\nanswer['ready'] = True")]) as server:
        logger = RLMLogger()
        rlm = RLM(**arguments(server), environment="local", environment_kwargs={}, max_depth=1, logger=logger)
        result = rlm.completion("Compute the sum 1 + 2 + 3 + 4 + 5 in a REPL block, then set answer.")
    assert result.response == "15"
    assert logger.log_file_path is None
    assert logger.iteration_count == 2
    assert result.metadata == logger.get_trajectory()
    assert result.metadata is not None
    assert {"prompt", "response", "code_blocks", "final_answer", "iteration_time"} <= result.metadata["iterations"][
        0
    ].keys()
    assert result.metadata["run_metadata"]["max_depth"] == 1
    assert "type" not in result.metadata["run_metadata"]


def test_children_with_their_own_trajectories_and_what_is_called_back() -> None:
    told: list[tuple[Any, ...]] = []
    cells = ["primes = rlm_query('What are the first primes?')\nprint(primes)", "FINAL(primes)"]
    child = ("print(context)", "FINAL('2, ' + '3')")
    with Loopback([played(*cells, child=child)]) as server:
        rlm = RLM(
            **arguments(server),
            max_depth=2,
            max_iterations=3,
            logger=RLMLogger(),
            on_subcall_start=lambda *a: told.append(("start", *a)),
            on_subcall_complete=lambda depth, model, _, error: told.append(("complete", depth, model, error)),
            on_iteration_start=lambda *a: told.append(("iteration", *a)),
            on_iteration_complete=lambda depth, number, _: told.append(("iterated", depth, number)),
        )
        result = rlm.completion("Ask rlm_query() for the first primes, and answer with its reply.")
    assert result.response == "2, 3"
    assert result.metadata is not None
    [call] = [
        call
        for iteration in result.metadata["iterations"]
        for code in iteration["code_blocks"]
        for call in code["result"]["rlm_calls"]
    ]
    assert call["root_model"] == "openai/gpt-5-nano"
    assert (call["response"], len(call["metadata"]["iterations"])) == ("2, 3", 2)
    assert told == [
        ("iteration", 0, 1),
        ("start", 1, "openai/gpt-5-nano", "What are the first primes?"),
        ("complete", 1, "openai/gpt-5-nano", None),
        ("iterated", 0, 1),
        ("iteration", 0, 2),
        ("iterated", 0, 2),
    ]


def test_batches_of_children_and_a_model_of_their_own() -> None:
    cells = ["parts = rlm_query_batched(['Count a.', 'Count b.'])\nprint(parts, llm_query('And?'))", "FINAL(parts)"]
    child = ("print(len(context))", "FINAL(str(len(context)))")
    with Loopback([played(*cells)]) as server, Loopback([played(child=child)]) as other:
        rlm = RLM(
            **arguments(server, max_depth=2),
            other_backends=["anthropic"],
            other_backend_kwargs=[{"model_name": "claude-haiku-4-5", "api_key": KEY, "base_url": other.url}],
            sampling_args={"temperature": 0.5},
            sub_sampling_args={"temperature": 0.25},
        )
        result = rlm.completion("Count both.")
        assert {request.body["temperature"] for request in server.requests} == {0.5}
        assert {request.body["temperature"] for request in other.requests} == {0.25}
    assert json.loads(result.response) == ["8", "8"]
    summaries = result.usage_summary.model_usage_summaries
    assert {name: one.total_calls for name, one in summaries.items()} == {
        "gpt-5-nano": 2,
        "claude-haiku-4-5": 5,
    }
    assert result.usage_summary.total_input_tokens == sum(one.total_input_tokens for one in summaries.values())
    assert result.usage_summary.total_cost


def test_a_result_is_plain_data_and_back() -> None:
    with Loopback([played("print(context[:4])", "FINAL(context[:4])")]) as server:
        result = RLM(**arguments(server)).completion("text " * 9, root_prompt="How does it begin?")
    data = result.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data.keys() == {"root_model", "prompt", "response", "usage_summary", "execution_time"}
    again = RLMChatCompletion.from_dict(data)
    assert again.to_dict() == data
    assert isinstance(again.usage_summary, UsageSummary)
    assert data["usage_summary"]["total_cost"] == result.usage_summary.total_cost
    assert result.result is not None
    assert result.result.path is not None  # ours has more: the notebook, for one


def test_one_question_after_the_other_in_a_kernel_that_stays() -> None:
    cells = ["kept = len(context)\nprint(kept)", "FINAL(kept)", "FINAL([kept, len(context_0), context, len(history)])"]

    def reply(messages: Messages) -> str:
        is_further = "has answered 1 prompt before" in messages[1]["content"]
        said = sum(message["role"] == "assistant" for message in messages)
        return block(cells[2] if is_further else cells[said])

    logger = RLMLogger(log_dir="logs")
    with Loopback([reply]) as server, RLM(**arguments(server), persistent=True, logger=logger) as rlm:
        first = rlm.completion("x" * 50, root_prompt="How long is it?")
        assert (first.response, logger.iteration_count) == ("50", 2)
        further = rlm.completion("And what is there by now?")
    assert json.loads(further.response) == [50, 50, "And what is there by now?", 1]
    assert logger.iteration_count == 1
    lines = Path(str(logger.log_file_path)).read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["metadata", *["iteration"] * 3]


def test_a_limit_raises_as_there_with_the_best_answer_so_far() -> None:
    logger = RLMLogger()
    draft = Said(block("answer['content'] = 'a draft'\nprint(1)"), input_tokens=9_000)
    with Loopback([draft]) as server:
        rlm = RLM(**arguments(server), max_tokens=10_000, logger=logger)
        with pytest.raises(TokenLimitExceededError) as caught:
            rlm.completion("How many?")
    used = caught.value.tokens_used
    assert str(caught.value).startswith(f"10,000 tokens may be used; {used:,} were")
    assert caught.value.partial_answer == "a draft"
    assert caught.value.token_limit == 10_000
    assert logger.iteration_count
    with (
        Loopback([played(*[f"{number} / 0" for number in range(9)])]) as server,
        pytest.raises(ErrorThresholdExceededError) as failed,
    ):
        RLM(**arguments(server), max_errors=2).completion("How many?")
    assert (failed.value.threshold, failed.value.last_error) == (2, "ZeroDivisionError: division by zero")


def test_what_means_something_else_is_said_once() -> None:
    with Loopback([""]) as server:
        for given, said in (
            ({"custom_system_prompt": "Be brief."}, "is added to the system message"),
            ({"user_prologue": "Hints."}, "is added to the system message"),
            ({"orchestrator": False}, "means nothing"),
            ({"depth": 1}, "always 0"),
            ({"max_depth": 0}, "no model directly"),
            ({"compaction": True}, "`trajectory` in the kernel"),
            ({"compaction_threshold_pct": 0.5}, "means nothing without compaction=True"),
            ({"environment_kwargs": {"image": "x"}}, "image means nothing"),
            ({"backend_kwargs": model(server) | {"max_retries": 2}}, "max_retries means nothing"),
        ):
            with pytest.warns(CompatWarning, match=said) as warned:
                RLM(**arguments(server) | given)
            assert warned[0].filename == __file__  # where the argument stands
            RLM(**arguments(server) | given)  # a second warning would be an error here


def test_what_can_not_be_is_one_line_that_names_the_nearest_thing() -> None:
    with Loopback([""]) as server:
        for given, said in (
            ({"environment": "docker"}, 'sandbox="bwrap"'),
            ({"environment": "moon"}, "there is local"),
            ({"environment_kwargs": {"setup_code": "x = 1"}}, "custom_tools"),
            ({"backend_kwargs": {}}, "model is not named"),
            ({"backend": "nobody"}, "nobody"),
            ({"backend": "openai/gpt-5"}, 'backend="openai", backend_kwargs={"model_name": "gpt-5"}'),
            ({"other_backends": ["openai", "openai"]}, "list of one backend"),
            ({"custom_tools": [stock]}, "dict of functions by name"),
            ({"custom_tools": {"llm_query": stock}}, "has that name already"),
            ({"max_iterations": 0}, "max_iterations"),
            ({"limits": Limits()}, "limits= is not taken here: use max_iterations"),
            ({"tools": [stock]}, "use custom_tools"),
            ({"foo": 3}, "no argument 'foo'"),
            ({"max_iteration": 3}, r"no argument 'max_iteration'\. Did you mean max_iterations\?"),
            ({"custom_tool": 3}, r"Did you mean custom_tools\?"),
            ({"logger": "logs/"}, "logger is an RLMLogger"),
            ({"logger": {}}, "logger is an RLMLogger"),
            ({"on_iteration_start": 3}, "on_iteration_start is a function of depth, iteration, not 3"),
            ({"on_subcall_complete": lambda: 1}, "a function of depth, model, seconds, error"),
            ({"backend_kwargs": [1]}, "backend_kwargs is a dict, not"),
            ({"environment_kwargs": 3}, "environment_kwargs is a dict, not 3"),
            ({"sampling_args": "hot"}, "sampling_args is a dict"),
            ({"other_backends": ["openai"], "other_backend_kwargs": [3]}, r"other_backend_kwargs\[0\] is a dict"),
            ({"other_backends": 3}, "list of one backend"),
            ({"persistent": "yes"}, "persistent is True or False, not 'yes'"),
            ({"verbose": 3}, "verbose is True or False"),
            ({"max_depth": "1"}, "max_depth is a whole number from 0 on, not '1'"),
            ({"max_concurrent_subcalls": 0}, "max_concurrent_subcalls is a whole number from 1 on, not 0"),
            ({"custom_tools": {"db": object()}}, "db is of type object, which is no plain data"),
            # named as the caller did
            ({"max_timeout": 0}, r"RLM\(max_timeout=0\): it must be more than zero"),
            ({"max_budget": "1"}, r"RLM\(max_budget='1'\): a number"),
            ({"environment_kwargs": {"cell_timeout": -1}}, r"RLM\(cell_timeout=-1\)"),
            ({"environment": "lcoal"}, "local .or ipython"),
        ):
            with pytest.raises(ConfigurationError, match=said) as caught:
                RLM(**arguments(server) | given)
            assert "\n" not in str(caught.value)
            assert server.requests == []
        with (
            pytest.warns(CompatWarning),
            pytest.raises(ConfigurationError, match=r"^compaction_threshold_pct is a share"),
        ):
            RLM(**arguments(server), compaction=True, compaction_threshold_pct=85)
        with pytest.raises(ConfigurationError, match="prompt is empty"):
            RLM(**arguments(server)).completion("  ")
    Path("file").write_text("")
    with pytest.raises(ConfigurationError, match="log_dir"):
        RLMLogger(log_dir="file/logs")


def test_compaction_is_the_share_of_the_window() -> None:
    with Loopback([played("print(1)", "FINAL(len(context))")]) as server:
        with pytest.warns(CompatWarning):
            rlm = RLM(**arguments(server), compaction=True, compaction_threshold_pct=0.5)
        done = rlm.completion("Step by step.", root_prompt="How long is it?")
        assert done.result is not None
        assert done.result.trajectory.started.options["compact_at"] == 0.5


def test_the_example_of_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "from-the-reference.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    cells = ["import re\nfound = re.findall('SECRET_NUMBER=([0-9]+)', context)\nprint(found)", "FINAL(found[0])"]
    with Loopback([played(*cells)]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        names: dict[str, Any] = {"text": "a line\n" * 2_000 + "SECRET_NUMBER=77\n"}
        exec(compile(example, "example", "exec", dont_inherit=True), names)
    assert names["result"].response == "77"
    [log] = Path("logs").iterdir()
    assert log.read_text().count("\n") == 3


def test_a_callback_that_raises_is_logged_by_its_name_and_keeps_no_other_from_being_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    completed: list[int] = []

    def start(depth: int, number: int) -> None:
        raise ValueError("not today")

    with Loopback([played("print(1)", "FINAL(2)")]) as server:
        RLM(
            **arguments(server),
            on_iteration_start=start,
            on_iteration_complete=lambda depth, number, _: completed.append(number),
        ).completion("abc")
    said = [record.getMessage() for record in caplog.records]
    assert "on_iteration_start raised ValueError: not today" in said
    assert "on_iteration_start raised 2 times during this run; the first traceback is above" in said
    assert not any("on_event" in message for message in said)
    assert completed == [1, 2]
