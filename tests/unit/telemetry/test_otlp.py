"""Our OTLP bytes against the SDK's own encoder."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from telemetry.events import Event
from telemetry.otlp import Envelope, encoded_span
from telemetry.settings import TelemetrySettings
from telemetry.tracing import SCOPE, resource_of, spans_of
from tests.unit.telemetry import sample

RESOURCE = resource_of(TelemetrySettings(service_version="1", resource=(("a.b", "ü" * 200),)))


def read_back(spans: list[ReadableSpan]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    envelope = Envelope(RESOURCE, SCOPE)
    request.ParseFromString(envelope.around([encoded_span(span) for span in spans]))
    return request


def spans_for(events: list[Event]) -> list[ReadableSpan]:
    return [span for event in events for span in spans_of(event, RESOURCE, 1.0)]


def test_every_event_is_encoded_as_the_sdk_would() -> None:
    new_trace = msgspec.structs.replace(sample.CONTEXT, parent_span_id="", caller="0a" * 8)
    spans = spans_for([*sample.EVENTS, msgspec.structs.replace(sample.HOLD, context=new_trace)])
    assert len(spans) > 20
    assert read_back(spans) == encode_spans(spans)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
def test_any_name_and_any_number_are_encoded_as_the_sdk_would(
    text: str,
    number: int,
    truth: bool,  # noqa: FBT001
) -> None:
    event = msgspec.structs.replace(
        sample.REJECT, principal=text, version=number, leaf_index=-number - 1, replayed=truth
    )
    spans = spans_for([event])
    assert read_back(spans) == encode_spans(spans)


def test_truth_and_one_are_not_taken_for_each_other() -> None:
    for replayed, step in ((True, 1), (False, 0), (True, 0), (False, 1)):
        spans = spans_for([msgspec.structs.replace(sample.REJECT, replayed=replayed, step=step)])
        assert read_back(spans) == encode_spans(spans)


def test_what_it_does_not_know_is_refused_and_not_left_out() -> None:
    odd = ReadableSpan("odd", context=spans_for([sample.ADMIT])[0].context, resource=RESOURCE)
    with pytest.raises(ValueError, match="not finished"):
        encoded_span(odd)
    root = spans_for([sample.ADMIT])[0]
    odd = ReadableSpan(
        "odd",
        context=root.context,
        resource=RESOURCE,
        attributes={"ratio": 0.5},
        start_time=1,
        end_time=2,
    )
    with pytest.raises(TypeError):
        encoded_span(odd)
