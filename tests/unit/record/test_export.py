import dataclasses
import json
import re

import pytest

from rlm_jupyter.record.export import markup, to_html, to_jsonl
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ConfigurationError
from tests.support.sample_run import FIRST, SECOND, cell, ended, long_run, reply, sample, started


def test_the_lines_have_what_the_visualizer_reads() -> None:
    metadata, first, second = map(json.loads, to_jsonl(Trajectory(sample())).splitlines())
    assert metadata["type"] == "metadata"
    assert metadata.keys() >= {
        "timestamp", "root_model", "max_depth", "max_iterations", "backend", "backend_kwargs", "environment_type",
        "environment_kwargs", "other_backends",
    }  # fmt: skip
    assert (metadata["root_model"], metadata["max_iterations"]) == ("scripted/root", 30)
    assert [first["type"], first["iteration"], second["iteration"]] == ["iteration", 1, 2]
    assert first["timestamp"] < second["timestamp"]
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert second["prompt"] == [
        {"role": "assistant", "content": FIRST},
        {"role": "user", "content": "Outputs:\nA line"},
    ]
    assert (first["response"], second["response"]) == (FIRST, SECOND)
    assert (first["final_answer"], second["final_answer"]) == (None, "Ada wrote it.")
    assert first["iteration_time"] == 2.0


@pytest.mark.parametrize("prompt", ["Who?", 'Who said "no"?', "Why? " * 300])
@pytest.mark.parametrize(
    "before", ["", "Your kernel is shut off: it has no network and shows none of the user's files.\n\n"]
)
def test_the_question_is_what_the_visualizer_takes_for_it(prompt: str, before: str) -> None:
    begun = dataclasses.replace(started(), prompt=prompt, opening=f"{before}<prompt>\n{prompt}\n</prompt>")
    _, first = map(json.loads, to_jsonl(Trajectory([begun, reply(1, "Hm.")])).splitlines())
    # as the visualizer looks for it, in each user message
    [found] = [re.search(r'original query: "([^"]+)"', m["content"]) for m in first["prompt"] if m["role"] == "user"]
    assert found is not None
    assert found[1] == prompt.replace('"', "'")
    assert begun.opening in first["prompt"][1]["content"]


def test_a_block_has_its_result_and_its_calls() -> None:
    _, first, second = map(json.loads, to_jsonl(Trajectory(sample())).splitlines())
    [block] = first["code_blocks"]
    assert block["code"] == "print(context[:20])"
    result = block["result"]
    assert (result["stdout"], result["stderr"]) == ("A line\nand another\n<Figure>\n", "")
    assert result["locals"]["context"] == "str: 1,000 characters"
    good, failed = result["rlm_calls"]
    assert (good["prompt"], good["response"], good["execution_time"]) == ("Who is this?", "Ada.", 0.25)
    assert (good["prompt_tokens"], good["completion_tokens"]) == (20, 2)
    assert good["usage_summary"]["model_usage_summaries"]["sub"]["total_input_tokens"] == 20
    assert failed["error"] == "no answer"
    assert "error" not in good
    assert second["code_blocks"][0]["result"]["stderr"] == "a\nb"


def test_surrogates_and_a_run_without_an_end_are_written_too() -> None:
    text = to_jsonl(Trajectory([started(), reply(1, "\ud800")]))
    text.encode()
    assert json.loads(text.splitlines()[1])["response"] == "\ud800"
    assert to_jsonl(Trajectory([started(), ended()])).count("\n") == 1


def test_the_text_grows_with_the_run_and_not_with_its_square() -> None:
    short, long = (len(to_jsonl(Trajectory(list(long_run(n, 800))))) for n in (50, 200))
    assert long < short * 5


def test_a_page_shows_the_run_and_runs_nothing_of_it(tmp_path) -> None:
    records = sample()
    records[1] = reply(1, "<script>alert(1)</script>\n\n<img src=x onerror=alert(2)> I look.\n```repl\nprint(1)\n```")
    table = {"text/html": "<table><tr><td>7331</td></tr></table>", "text/plain": "7331"}
    output = {"output_type": "display_data", "data": table, "metadata": {}}
    records[4] = cell(1, 0, "print(1)", (output,))
    path = Trajectory(records).save(tmp_path / "run.ipynb")
    page = to_html(path)
    assert "Ada wrote it." in page
    assert "I look." in page
    assert "<script>alert" not in page
    assert not re.search("<[^>]*onerror", page)
    assert "<td>7331</td>" in page


def test_what_is_no_run_is_refused_in_a_line(tmp_path) -> None:
    (tmp_path / "mine.ipynb").write_text("{}")
    with pytest.raises(ConfigurationError, match="not the notebook of a run"):
        to_html(tmp_path / "mine.ipynb")


@pytest.mark.slow
def test_what_a_cell_shows_as_html_keeps_its_table_and_nothing_that_acts_or_looks_like_ours() -> None:
    deep = "<div>" * 50_000 + "deep"
    evil = "<style>.answer{display:none}</style><title>t</title><table class='notice' style='x'><tr><td colspan=2>7331"
    for page in (deep, f"{evil}</td></tr></table><a href='https://host/?q'>l</a><img src='//host'><svg><script>1"):
        shown = markup.shown([{"output_type": "display_data", "data": {"text/html": page}, "metadata": {}}])
        assert "deep" in shown or '<td colspan="2">7331</td>' in shown
        assert not re.search(r"style|class='notice|class=\"notice|host|script|<title|display:none", shown)
