"""Runs as traces of OpenTelemetry: what is nested in what, what it cost, and where it is sent."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.record.export import WholeRun, otlp, semconv
from rlm_jupyter.record.export.costs import stopped
from rlm_jupyter.record.export.otlp import to_otlp
from rlm_jupyter.record.export.span import Span
from rlm_jupyter.record.export.spans import spans
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.events import Record, RunResumed, SampleSettled
from rlm_jupyter.types.values import Usage
from tests.runs.test_cli import cli
from tests.runs.test_compaction import Long, line
from tests.support import exported
from tests.support.collector import Collector
from tests.support.exported import QUESTION, SECRET, block
from tests.support.sample_run import cell, ended, reply, sample, started, subcall

CONTENT = {
    semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.TOOL_ARGUMENTS, semconv.TOOL_RESULT,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return exported.make(tmp_path_factory.mktemp("made") / "run.ipynb")


@pytest.fixture
def whole(made: Result) -> WholeRun:
    assert made.path is not None
    return WholeRun.gather(made.path, context=False)


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (semconv.CAPTURE, "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


def outline(found: list[Span]) -> list[str]:
    """The names, indented as the spans are nested."""
    by_id = {span.span_id: span for span in found}
    assert len(by_id) == len(found)

    def depth(span: Span) -> int:
        return 0 if span.parent_id is None else 1 + depth(by_id[span.parent_id])

    return [f"{'  ' * depth(span)}{span.name}" for span in found]


def cost(found: list[Span]) -> float:
    return total(found, semconv.COST)


def total(found: list[Span], name: str) -> float:
    """The sum of an attribute, over the spans that have it."""
    return sum(float(str(span.attributes.get(name, 0))) for span in found)


def parsed(text: str) -> list[ProtoSpan]:
    """The spans of a file, by the protocol's own definition: ids are in hexadecimal there, and not in base64."""
    found: list[ProtoSpan] = []
    for one in text.splitlines():
        data = json.loads(one)
        for resource in data["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
                    found.append(json_format.ParseDict(span, ProtoSpan()))
        json_format.ParseDict(data, TracesData())
    return found


def test_runs_iterations_requests_cells_sub_calls_and_tools_are_nested(whole: WholeRun) -> None:
    chat, run, tool = "chat gpt-5.4-mini", "invoke_agent rlm_jupyter", "execute_tool"
    assert outline(spans(whole)) == [
        run,
        "  iteration",
        f"    {chat}",
        f"    {chat}",
        f"    {tool} python",
        f"      {chat}",
        f"      {run}",
        "        iteration",
        f"          {chat}",
        f"          {tool} python",
        f"            {chat}",
        "        iteration",
        f"          {chat}",
        f"          {tool} python",
        f"      {tool} looked_up",
        "  iteration",
        f"    {chat}",
        f"    {tool} python",
        f"      {tool} looked_up",
        "  iteration",
        f"    {chat}",
        f"    {tool} python",
    ]
    assert spans(whole) == spans(whole)  # the same run is the same trace


def test_the_requests_cost_what_the_ledger_says_and_no_other_span_has_that_attribute(
    whole: WholeRun, made: Result
) -> None:
    found = spans(whole)
    assert cost(found) == pytest.approx(made.cost, abs=1e-12)
    assert {span.attributes[semconv.OPERATION] for span in found if semconv.COST in span.attributes} == {"chat"}
    chats = [span for span in found if span.kind == "CLIENT"]
    assert total(chats, semconv.INPUT_TOKENS) == made.usage.input_tokens
    assert found[0].attributes[semconv.TOTAL_COST] == made.cost


def test_each_kind_of_span_says_what_the_conventions_require(whole: WholeRun) -> None:
    found = spans(whole)
    for span in found:
        assert not CONTENT & span.attributes.keys()  # it is opt-in
        assert span.interval[0] <= span.interval[1]
        if span.name == "iteration":
            assert {semconv.ITERATION, semconv.REWARD} <= span.attributes.keys()
            [event] = span.events
            assert event.name == "gen_ai.evaluation.result"
            continue
        operation = span.attributes[semconv.OPERATION]
        needed = {
            "chat": {semconv.PROVIDER, semconv.REQUEST_MODEL, semconv.RESPONSE_MODEL, semconv.OUTPUT_TOKENS},
            "invoke_agent": {semconv.PROVIDER, semconv.AGENT_NAME, semconv.AGENT_VERSION, semconv.STOP_REASON},
            "execute_tool": {semconv.TOOL_NAME, semconv.TOOL_TYPE, semconv.TOOL_CALL},
        }[str(operation)]
        assert needed <= span.attributes.keys()
        assert span.attributes.get(semconv.PROVIDER, "openai") == "openai"
    first, second = [span.attributes for span in found if span.kind == "CLIENT"][:2]
    assert semconv.RESAMPLED in first
    assert (second[semconv.CACHE_READ], second[semconv.REASONING], second[semconv.FINISH_REASONS]) == (
        500,
        11,
        ["stop"],
    )
    failed = [(span.name, span.attributes[semconv.ERROR_TYPE]) for span in found if span.error is not None]
    assert failed == [("execute_tool python", "SubcallError"), ("execute_tool looked_up", "_OTHER")]


def test_content_is_there_where_it_is_opted_in_and_without_keys(
    whole: WholeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(semconv.CAPTURE, "true")
    assert SECRET in to_otlp(whole)
    text = to_otlp(whole.redacted(Redactor()))
    assert SECRET not in text
    root, _, _, request, run_cell, *_ = spans(whole)
    [asked] = json.loads(str(root.attributes[semconv.INPUT_MESSAGES]))
    assert asked == {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    [answered] = json.loads(str(root.attributes[semconv.OUTPUT_MESSAGES]))
    assert (answered["parts"][0]["content"], answered["finish_reason"]) == ("Ada", "stop")
    assert [one["role"] for one in json.loads(str(request.attributes[semconv.INPUT_MESSAGES]))] == ["system", "user"]
    assert "llm_query" in json.loads(str(run_cell.attributes[semconv.TOOL_ARGUMENTS]))["code"]
    assert "A book by" in str(run_cell.attributes[semconv.TOOL_RESULT])


def test_the_file_is_what_the_protocol_defines(whole: WholeRun) -> None:
    found, read = spans(whole), parsed(to_otlp(whole))
    assert [span.name for span in read] == [span.name for span in found]
    assert [span.span_id.hex() for span in read] == [span.span_id for span in found]
    assert {span.trace_id.hex() for span in read} == {found[0].trace_id}
    assert [span.kind for span in read] == [{"INTERNAL": 1, "CLIENT": 3}[span.kind] for span in found]
    values = {one.key: one.value for one in read[3].attributes}
    assert values[semconv.COST].double_value == found[3].attributes[semconv.COST]
    assert values[semconv.INPUT_TOKENS].int_value == 2000
    assert read[0].end_time_unix_nano - read[0].start_time_unix_nano > 10**6


async def test_summaries_and_conversations_after_them_are_told_apart() -> None:
    model = Long([line(number) for number in range(1, 40)] + [block("FINAL('done')")])
    result = await RLM(model, limits=Limits(max_iterations=50), save=False).acompletion("What?", "a text")
    found = spans(WholeRun(result.trajectory))
    compacted = [span for span in found if span.attributes.get(semconv.COMPACTED)]
    assert 0 < len(compacted) < 40
    asked = [span for span in found if span.kind == "CLIENT"]
    assert len(asked) == 40 + len(result.trajectory.compactions)
    assert cost(found) == result.cost


def test_what_stands_in_no_record_of_its_own_is_a_span_and_nothing_is_counted_twice() -> None:
    below: list[Record] = [
        started(run_id="c", parent="20260102-030405-who", depth=1),
        reply(1, "x", usage=Usage(50, 5), cost=0.02),
        ended(usage=Usage(60, 5), cost=0.025),  # 10 tokens of it were of a request that was stopped
    ]
    child = WholeRun(Trajectory(below))
    records: list[Record] = [
        started(),
        reply(1, "x", rejected="again"),
        reply(1, "x"),
        subcall(1, 0, 0),
        subcall(1, 0, 1, child="c", kind="rlm", usage=Usage(60, 5), cost=0.025),
        subcall(1, 0, 2, child="gone", kind="rlm", model="", usage=Usage(7, 1), cost=0.5),
        cell(1, 0, "x", seconds=3.0),
        SampleSettled(2, "s", "root", "answered", "A", "A", True, None, Usage(30, 3), 0.25, 1.0),
        ended(usage=Usage(400, 60), cost=1.0),
    ]
    run = WholeRun(Trajectory(records), None, (child,))
    lost = stopped(run)
    assert lost is not None
    assert lost.usage.input_tokens == 400 - 100 - 100 - 20 - 60 - 7 - 30
    found = spans(run)
    assert cost(found) == pytest.approx(1.0)
    names = Counter(span.name for span in found if semconv.COST in span.attributes)
    # three of the root's and two of the child's, one of each stopped; a sub-call; a child and a sample not here
    assert names == {"chat root": 5, "chat sub": 1, "invoke_agent rlm_jupyter": 2}
    cancelled = [span for span in found if span.attributes.get(semconv.ERROR_TYPE) == "cancelled"]
    assert [span.attributes[semconv.COST] for span in cancelled] == pytest.approx([0.005, lost.cost])


def test_a_run_that_has_not_ended_is_a_trace_that_says_so() -> None:
    [root, *_] = spans(WholeRun(Trajectory(sample()[:4])))
    assert (root.error, root.attributes[semconv.ERROR_TYPE]) == ("it has not ended", "unfinished")
    killed = [*sample()[:4], RunResumed(1, "openai/other", "openai/sub", {}, "2026-01-02T04:00:00+00:00", True)]
    again = spans(WholeRun(Trajectory([*killed, reply(2, "x")])))[-1]
    assert again.name == "chat other"
    assert again.interval[0] == pytest.approx(1767326400.0)


def test_texts_that_are_no_utf8_are_sent_and_long_ones_cut_as_the_sdk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "\ud800" + "x" * 5_000
    call = subcall(1, 0, 0, failed=True, text=odd, prompt_head=odd)
    end = ended(answer=odd, usage=Usage(120, 12), cost=0.011)
    run = WholeRun(Trajectory([started(prompt=odd), reply(1, odd), call, cell(1, 0, odd), end]))
    monkeypatch.setenv(semconv.CAPTURE, "1")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "300")
    assert [span.status.message[:2] for span in parsed(to_otlp(run))] == ["", "", "", "", "?x"]
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        assert otlp.send([run]) == len(collector.spans) == 5
    lengths = [len(one.value.string_value) for span in collector.spans for one in span.attributes]
    assert max(lengths) == 300


def test_an_address_is_shown_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:secret@host/x")
    assert otlp.endpoint() == "https://host/x"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://host:4318")
    assert otlp.endpoint() == "http://host:4318"


def test_without_an_address_it_is_a_file(made: Result) -> None:
    done = cli("export", str(made.path), "--to", "otel")
    assert done.err.startswith("Written: run.otel.jsonl\n"), done.err
    assert len(parsed(Path("run.otel.jsonl").read_text())) == 22
    assert SECRET not in Path("run.otel.jsonl").read_text()


def test_it_is_sent_to_where_the_usual_variables_say(made: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    monkeypatch.setenv(semconv.CAPTURE, "true")
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        done = cli("export", str(made.path), "--to", "otel")
        assert done.code == 0, done.err
        assert done.err.startswith(f"Sent: 22 spans to {collector.url}\nExported: 1 run.\nRemoved: ")
        file = cli("export", str(made.path), "--to", "otel", "--output", "here.otel.jsonl")
        assert file.err.startswith("Written: here.otel.jsonl")
    assert collector.paths == ["/v1/traces"]
    assert collector.headers[0]["x-token"] == "abc"
    resource = {one.key: one.value.string_value for one in collector.requests[0].resource_spans[0].resource.attributes}
    assert (resource["service.name"], resource["deployment.environment"]) == ("rlm_jupyter", "test")
    written = parsed(Path("here.otel.jsonl").read_text())
    by_id = {span.span_id: span for span in collector.spans}
    for span in written:
        sent = by_id[span.span_id]
        assert (sent.name, sent.kind, sent.trace_id, sent.parent_span_id) == (
            span.name,
            span.kind,
            span.trace_id,
            span.parent_span_id,
        )
        assert sorted(map(str, sent.attributes)) == sorted(map(str, span.attributes))
        assert (sent.start_time_unix_nano, sent.end_time_unix_nano) == (
            span.start_time_unix_nano,
            span.end_time_unix_nano,
        )
        assert list(map(str, sent.events)) == list(map(str, span.events))
    assert len(by_id) == len(written)


def test_a_collector_that_is_not_there_or_refuses_is_one_line(made: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Collector(code=401) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        refused = cli("export", str(made.path), "--to", "otel")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "401" in refused.err
    gone = cli("export", str(made.path), "--to", "otel")
    assert (gone.code, gone.err.count("\n")) == (2, 1)
    assert gone.err.startswith(f"jupyter rlm: The spans were not taken by {collector.url}: ")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    other = cli("export", str(made.path), "--to", "otel")
    assert "pip install opentelemetry-exporter-otlp-proto-grpc" in other.err
    assert other.err.count("\n") == 1


def test_the_sdk_is_loaded_only_where_spans_are_sent() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from rlm_jupyter.record.export import otlp\n"
        "import rlm_jupyter.frontends.cli.commands.export, rlm_jupyter.record.export.write\n"
        "from rlm_jupyter.types.errors import ConfigurationError\n"
        "try:\n    otlp.send([])\nexcept ConfigurationError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'rlm_jupyter[otel]'" in said


async def test_a_plain_run_loads_nothing_of_the_exports() -> None:
    code = (
        "import sys\nfrom rlm_jupyter import RLM\nfrom rlm_jupyter.models.scripted import ScriptedModel\n"
        f"RLM(ScriptedModel([{block('FINAL(1)')!r}]), save=False).completion('?', 'a')\n"
        "print([name for name in sys.modules if 'opentelemetry.sdk' in name or name.endswith(('.spans', '.sft'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
