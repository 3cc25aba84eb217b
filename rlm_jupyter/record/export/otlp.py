"""Spans as a file of OTLP's JSON, and sent by the exporter of OpenTelemetry's SDK.

Source of the file: https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/, a line for each trace; it needs no
other package. Where it is sent to, how, and with which headers, is said by the SDK's usual environment variables.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlm_jupyter.record.export import semconv as names
from rlm_jupyter.record.export.span import Attributes, Span
from rlm_jupyter.record.export.spans import spans
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from rlm_jupyter.record.export.bundle import WholeRun

_KINDS = {"INTERNAL": 1, "CLIENT": 3}
_ERROR = 2
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_AT_ONCE = 64
"""Spans of one request: collectors take some megabytes."""
INSTALL = "pip install 'rlm_jupyter[otel]'"


def to_otlp(run: WholeRun) -> str:
    """Return a run as OTLP's JSON: a line for its trace; of a session, one for each prompt."""
    lines = [_traces(list(group)) for _, group in groupby(spans(run), key=lambda span: span.trace_id)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _traces(trace: list[Span]) -> dict[str, Any]:
    scope = {"scope": {"name": names.AGENT}, "spans": [_span(span) for span in trace]}
    return {
        "resourceSpans": [
            {"resource": {"attributes": _attributes({"service.name": names.AGENT})}, "scopeSpans": [scope]}
        ]
    }


def _span(span: Span) -> dict[str, Any]:
    begun, over = map(_nanoseconds, span.interval)
    data: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(over),
        "attributes": _attributes(span.attributes),
        "status": {} if span.error is None else {"code": _ERROR, "message": span.error},
    }
    if span.parent_id is not None:
        data["parentSpanId"] = span.parent_id
    if span.events:
        data["events"] = [
            {
                "name": event.name,
                "timeUnixNano": str(_nanoseconds(event.moment)),
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ]
    return data


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def endpoint() -> str:
    """Return where the SDK's exporter sends spans to by its environment variables, to be shown; empty: none is set."""
    address = next((address for name in _ENDPOINTS if (address := os.environ.get(name, ""))), "")
    # without a name and a password
    scheme, marks, rest = address.rpartition("://")
    return f"{scheme}{marks}{rest.rpartition('@')[2]}"


def send(runs: Iterable[WholeRun]) -> int:
    """Send the spans of runs by the SDK's exporter; return how many there were.

    Raises
    ------
    ConfigurationError
        The SDK is not installed, or the spans were not taken.
    """
    exporter = _exporter()
    sent = 0
    try:
        for run in runs:
            made = _of_sdk(spans(run))
            for first in range(0, len(made), _AT_ONCE):
                _export(exporter, made[first : first + _AT_ONCE])
            sent += len(made)
    finally:
        exporter.shutdown()
    return sent


def _exporter() -> SpanExporter:
    protocol = next((value for name in _PROTOCOLS if (value := os.environ.get(name, ""))), "http/protobuf")
    try:
        if protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # type: ignore[import-not-found,unused-ignore]
                OTLPSpanExporter as GrpcExporter,
            )

            return GrpcExporter()  # type: ignore[no-any-return,unused-ignore]
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    except ImportError:
        package = "pip install opentelemetry-exporter-otlp-proto-grpc" if protocol == "grpc" else INSTALL
        raise ConfigurationError(
            f"To send spans to {endpoint()}, the SDK of OpenTelemetry is needed: {package}; or name a file by --output."
        ) from None


def _export(exporter: SpanExporter, made: Sequence[ReadableSpan]) -> None:
    from opentelemetry.sdk.trace.export import SpanExportResult

    with _heard("opentelemetry") as complaints:
        result = exporter.export(made)
    if result is not SpanExportResult.SUCCESS:
        why = f": {complaints[-1]}" if complaints else ""
        raise ConfigurationError(f"The spans were not taken by {endpoint()}{why}".rstrip(".") + ".")


@contextmanager
def _heard(logger: str) -> Iterator[list[str]]:
    """Collect what a logger would print: its last complaint becomes the reason."""
    complaints: list[str] = []

    class _Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complaints.append(" ".join(record.getMessage().split()))

    log, listener = logging.getLogger(logger), _Listener()
    propagate, log.propagate = log.propagate, False
    log.addHandler(listener)
    try:
        yield complaints
    finally:
        log.removeHandler(listener)
        log.propagate = propagate


def _of_sdk(made: Sequence[Span]) -> list[ReadableSpan]:
    """Return the same spans as the SDK has them."""
    from opentelemetry.attributes import BoundedAttributes
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    # by OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES it may be called otherwise
    resource = Resource({"service.name": names.AGENT}).merge(OTELResourceDetector().detect())
    scope, limits = InstrumentationScope(names.AGENT), SpanLimits()

    def context(span: Span, span_id: str) -> SpanContext:
        return SpanContext(int(span.trace_id, 16), int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))

    return [
        ReadableSpan(
            span.name,
            context=context(span, span.span_id),
            parent=None if span.parent_id is None else context(span, span.parent_id),
            resource=resource,
            # by OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and its kin
            attributes=BoundedAttributes(
                limits.max_span_attributes, span.attributes, max_value_len=limits.max_span_attribute_length
            ),
            events=[Event(event.name, event.attributes, _nanoseconds(event.moment)) for event in span.events],
            kind=SpanKind[span.kind],
            status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=_nanoseconds(span.interval[0]),
            end_time=_nanoseconds(span.interval[1]),
            instrumentation_scope=scope,
        )
        for span in made
    ]
