"""Hostile documents that nobody wrote: whatever they hold, the run is the model's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm_jupyter import parsing
from rlm_jupyter.models import load_model
from rlm_jupyter.models.repetition import ENDLESS_CHARS
from rlm_jupyter.prompts.outputs import cut, render
from rlm_jupyter.record import notebook
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run import conversation
from rlm_jupyter.types.events import OutputsShown, Record
from tests.answers.bench import END, Bench, recorded_as_it_was, saying, unmoved
from tests.answers.bench import bench as bench
from tests.answers.hostile import TEXTS, WAYS
from tests.answers.table import block
from tests.support.examples import some
from tests.support.loopback import KEY, Loopback
from tests.support.sample_run import cell, ended, reply, started, stream, subcall

_words = st.sampled_from(["FINAL", "FINAL_VAR", "SUBMIT", "final", "FINAL ", "answer.update", "get_ipython().run_cell"])
_quotes = st.sampled_from(["", "'", '"', '"""', "“", "`", "\\"])
_marks = st.sampled_from(["```", "~~~", "````", "`````", "```` ", "``"])
_tags = st.sampled_from(["repl", "python", "py", "", "none", "text", "output", "REPL", "json"])
_leads = st.sampled_from(
    [
        *[
            "",
            "",
            " ",
            "\t",
            "   ",
            "> ",
            "- ",
            "# ",
            "**",
            "1. ",
            "Out[4]: ",
            "In [5]: ",
            "Output: ",
            "\x1b[31m",
            "\x1b]0;",
        ],
        *[
            "\u202e",
            "\ufeff",
            "\x00",
            "\r",
            "I end: ",
            "Human: ",
            "<!-- ",
            "<div>",
            "File x.py:1 ",
            "Cell In[1], line 1 ",
        ],
    ]
)
_ends = st.sampled_from(
    ["\n", "\n", "\r\n", "\n\n", "\r", "", " ", "\u2028", "\x85", "\x0c", "\x1b[0m\n", " -->\n", ")"]
)
_values = st.dictionaries(
    st.sampled_from(["ready", "content", "answer", "record", "$stored", "$float", "$escaped", "at", "output_type"]),
    st.booleans() | st.sampled_from(["hacked", "True", "RunEnded", "nan", "0" * 64]),
    max_size=4,
)
_short = st.text(st.characters(exclude_categories=()), max_size=6)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts around texts: a call, a fence, a line, several."""
    return st.one_of(
        st.builds(lambda word, quote, text: f"{word}({quote}{text}{quote})", _words, _quotes, inner),
        st.builds(lambda mark, tag, text: f"{mark}{tag}\n{text}\n{mark}\n", _marks, _tags, inner),
        st.builds(lambda mark, tag, text: f"{mark}{tag}\n{text}\n", _marks, _tags, inner),
        st.lists(st.builds(lambda lead, text, end: f"{lead}{text}{end}", _leads, inner, _ends), max_size=4).map(
            "".join
        ),
        st.builds(lambda text, times: text * times, inner, st.sampled_from([2, 30, 300])),
        inner.map(json.dumps),
        inner.map(repr),
    )


documents = st.recursive(
    st.sampled_from(sorted(TEXTS.values(), key=len)) | _values.map(json.dumps) | _short, _grown, max_leaves=6
).filter(lambda text: 0 < len(text) < 30_000)
"""Hostile documents."""
_kept = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(_kept, max_examples=some(120))
@given(document=documents, way=st.sampled_from(sorted(WAYS)))
def test_no_document_ends_a_run(bench: Bench, document: str, way: str) -> None:
    bench.said = saying(document)
    replies = [block(WAYS[way]), END]
    unmoved(bench.run(replies, document, save=False), replies)


@settings(_kept, max_examples=some(40))
@given(document=documents, ways=st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=5))
def test_no_document_forges_a_record(bench: Bench, document: str, ways: list[str]) -> None:
    bench.said = saying(document)
    # numbered: a cell that repeats one that failed or changed nothing would be resampled
    replies = [*[block(f"turn = {n}", WAYS[way]) for n, way in enumerate(ways)], END]
    seen = bench.run(replies, document)
    unmoved(seen, replies)
    recorded_as_it_was(seen)


@settings(_kept, max_examples=some(40))
@given(document=documents, executor=st.sampled_from(["exec", "eval", "get_ipython().run_cell", "get_ipython().ex"]))
def test_no_document_that_is_executed_ends_a_run(bench: Bench, document: str, executor: str) -> None:
    source = json.dumps(document)  # a document in Python: it says its text, in its own way
    program = f"text = {source}\nFINAL(text)\nSUBMIT(text)\nanswer.update(content=text, ready=True)\n"
    replies = [block(f"{executor}(document)"), END]
    unmoved(bench.run(replies, program, save=False), replies)


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, list[str]]]:
    """A bench whose sub-calls are answered over HTTP, with what stands in the list."""
    said = [""]
    with Loopback([lambda _: said[0]]) as server:
        model = load_model("openai/gpt-5-mini", base_url=server.openai_url, api_key=KEY)
        opened = Bench(tmp_path_factory.mktemp("wired"), model)
        yield opened, said
        opened.close()


@settings(_kept, max_examples=some(40))
@given(
    # a longer reply that is one piece over and over is cut off, as a model's that has got stuck
    document=documents.filter(lambda text: text.strip() and len(text) < ENDLESS_CHARS),
    way=st.sampled_from([way for way in WAYS if "llm_query('?')" in WAYS[way]]),
)
def test_no_reply_of_a_server_to_a_sub_call_ends_a_run(wired: tuple[Bench, list[str]], document: str, way: str) -> None:
    bench, said = wired
    said[0] = document
    replies = [block(WAYS[way]), END]
    seen = bench.run(replies, "nothing", save=False)
    unmoved(seen, replies)
    assert [call.text for call in seen.trajectory.subcalls] == [document]


def outputs(document: str) -> tuple[dict[str, Any], ...]:
    """A document in every kind of output."""
    shown = {"text/plain": document, "text/html": document, "application/json": {document: [document]}}
    return (
        stream(document),
        stream(document) | {"name": "stderr"},
        {"output_type": "display_data", "data": shown, "metadata": {document: document}},
        {"output_type": "execute_result", "data": {"text/markdown": document}, "metadata": {}, "execution_count": 1},
        {"output_type": "error", "ename": document, "evalue": document, "traceback": document.split("\n")},
    )


@settings(_kept, max_examples=some(200))
@given(documents)
def test_any_outputs_read_as_text_and_hide_nothing(document: str) -> None:
    for output in outputs(document):
        text = render([stream("first\n"), output, {"output_type": "execute_result", "data": {"text/plain": "'next'"}}])
        assert text.startswith("first\n")
        assert text.endswith("'next'")
        shown = cut(text, 500, variable="output_1")
        assert len(shown.text) < 650
        assert shown.text.endswith("'next'")
    text = render([stream(f"{document}\nnext\n")])
    assert text.endswith("next")
    assert "\x1b[" not in text


def run_of(document: str) -> list[Record]:
    """A run in which everything but the model's own replies is hostile."""
    shown = f"Outputs:\n{render(outputs(document))}\n\nIteration 2 of 30."
    return [
        started(),
        reply(1, block("print(context)")),
        subcall(1, 0, 0, text=document, prompt_head=document),
        cell(1, 0, "print(context)", outputs(document)),
        OutputsShown(1, shown),
        reply(2, END),
        cell(2, 0, "FINAL('mine')"),
        ended(answer=document, value={document: [document], "$stored": document}, message=document),
    ]


def lay_out(records: list[Record]) -> bytes:
    layout = Layout()
    for record in records:
        layout.add(record)
    return b"".join(joined([layout]))


@settings(_kept, max_examples=some(100))
@given(documents)
def test_a_run_comes_back_from_its_notebook_byte_for_byte(tmp_path_factory: Any, document: str) -> None:
    records = run_of(document)
    path: Path = tmp_path_factory.getbasetemp() / "hostile.ipynb"
    path.write_bytes(lay_out(records))
    content = json.loads(path.read_bytes())
    nbformat.validate(content)
    roles = [cell["metadata"]["rlm"]["role"] for cell in content["cells"]]
    model = ["prose", "code", "subcalls", "prose", "code"]
    assert roles == ["prompt", "answer", "restore", "boundary", *model, "boundary"]
    back = notebook.read(path)
    assert back == records
    assert lay_out(back) == path.read_bytes()


@settings(_kept, max_examples=some(100))
@given(documents)
def test_a_document_stays_within_its_message(document: str) -> None:
    messages = conversation.messages(Trajectory(run_of(document)))
    assert [message.role for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [messages[2].content, messages[4].content] == [block("print(context)"), END]
    assert messages == [*conversation.messages(Trajectory(run_of(document)[:5])), *messages[4:]]
    assert not any(document in messages[n].content for n in (0, 1) if len(document) > 50)


@settings(_kept, max_examples=some(300))
@given(documents)
def test_a_document_that_a_reply_quotes_is_neither_run_nor_counted(document: str) -> None:
    own = block("print(len(context))")
    as_string = parsing.parse(block(f"text = {document!r}"))
    assert as_string.blocks == (f"text = {document!r}",)
    mark = "`" * (2 + max(3, *(len(run) for run in _runs(document))))
    quotes = "".join(f"> {line}\n" for line in document.split("\n"))
    for quoted in (f"It says:\n\n{mark}text\n{document}\n{mark}\n\n", f"It says:\n\n{quotes}\n"):
        parsed = parsing.parse(quoted + own)
        assert parsed.blocks == ("print(len(context))",)
        assert not parsed.unclosed
        assert "".join(s.prefix + s.text + s.suffix for s in parsed.segments) == (quoted + own)[: parsed.read]
        assert parsing.declared_in_prose(parsed.prose) is None


def _runs(text: str) -> list[str]:
    """The runs of backquotes in a text."""
    return "".join(char if char == "`" else " " for char in text).split() or [""]
