"""From an event to spans and OTLP bytes; a caller's trace context is a hash, ids are our own."""

from __future__ import annotations

import re
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from opentelemetry.trace.status import StatusCode

from telemetry.events import Event, TraceContext, VerdictRecorded
from telemetry.otlp import Envelope, encoded_span
from telemetry.propagation import Traces, format_traceparent, recorded_id, recorded_parts
from telemetry.settings import TelemetrySettings
from telemetry.tracing import SCOPE, is_detailed, resource_of, spans_of
from tests.unit.telemetry import sample

RESOURCE = resource_of(TelemetrySettings(service_version="1.2.3"))


def test_a_reject_is_a_root_span_with_every_fact_and_a_child_per_step_reached() -> None:
    root, *children = spans_of(sample.REJECT, RESOURCE, 0.0)
    assert root.name == "create_memory reject"
    # What a list shows, and the first thing a person asks.
    assert next(iter(root.attributes or {})) == "output.value"
    assert root.kind is SpanKind.SERVER
    assert dict(root.attributes or {}) == {
        "output.value": "reject: source_class_forbidden, L1 from tool_result",
        "output.mime_type": "text/plain",
        "gen_ai.operation.name": "create_memory",
        "gen_ai.provider.name": "mnemogate",
        "gen_ai.memory.store.id": "default",
        "gen_ai.memory.record.count": 1,
        "openinference.span.kind": "GUARDRAIL",
        "mnemogate.decision": "reject",
        "mnemogate.objected": True,
        "mnemogate.reason": "source_class_forbidden",
        "mnemogate.step": 1,
        "mnemogate.memory.class": "L1",
        "mnemogate.source.kind": "tool_result",
        "mnemogate.claimed.source.kind": "user_input",
        "mnemogate.basis": "vouched",
        "mnemogate.principal": "agent-1",
        "mnemogate.tenant": "default",
        "mnemogate.candidate.id": "ab" * 16,
        "mnemogate.epoch": 2,
        "mnemogate.replayed": False,
        "mnemogate.dialect": "native",
        "mnemogate.queued_us": 120,
        "mnemogate.gate_us": 400,
        "mnemogate.commit_us": 900,
    }
    assert [child.name for child in children] == [
        "step 7 audit",
        "step 4 digest",
        "step 5 nonce",
        "step 1 source_class failed: source_class_forbidden",
    ]
    assert dict(children[-1].attributes or {}) == {
        "openinference.span.kind": "GUARDRAIL",
        "mnemogate.step": 1,
        "mnemogate.step.name": "source_class",
        "mnemogate.step.outcome": "failed",
        "mnemogate.candidate.id": "ab" * 16,
        "mnemogate.decision": "reject",
        "mnemogate.reason": "source_class_forbidden",
    }


def test_the_root_hangs_below_the_callers_span_and_the_steps_below_the_root() -> None:
    root, *children = spans_of(sample.REJECT, RESOURCE, 0.0)
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == sample.CONTEXT.parent_span_id
    assert root.parent.is_remote
    assert all(child.parent == root.context for child in children)
    ids = [f"{span.context.span_id:016x}" for span in (root, *children) if span.context]
    assert ids[0] == sample.CONTEXT.span_id
    assert len(set(ids)) == 1 + len(children)
    assert {f"{span.context.trace_id:032x}" for span in (root, *children) if span.context} == {
        sample.CONTEXT.trace_id
    }


@pytest.mark.parametrize("event", [sample.REJECT, sample.HOLD, sample.ADMIT])
def test_a_verdict_is_a_success_of_the_gate_whatever_it_says(event: VerdictRecorded) -> None:
    assert all(
        span.status.status_code is StatusCode.UNSET for span in spans_of(event, RESOURCE, 1.0)
    )


def test_a_gate_that_could_not_decide_is_an_error_with_its_type() -> None:
    root = spans_of(sample.ERROR, RESOURCE, 0.0)[0]
    assert root.status.status_code is StatusCode.ERROR
    assert root.attributes is not None
    assert root.attributes["error.type"] == "StoreUnavailable"


def test_a_refusal_is_traced_whatever_the_callers_flag_says() -> None:
    for event in (sample.REJECT, sample.HOLD, sample.ERROR):
        assert len(spans_of(sample.unsampled(event), RESOURCE, 0.0)) > 1
    # The control: the flag does switch off what is no refusal.
    assert spans_of(sample.unsampled(sample.ADMIT), RESOURCE, 1.0) == []
    unsampled = msgspec.structs.replace(sample.CONTEXT, sampled=False)
    assert spans_of(msgspec.structs.replace(sample.READ, context=unsampled), RESOURCE, 1.0) == []


def test_a_model_request_is_one_span_and_traced_whenever_a_call_of_it_was_refused() -> None:
    (span,) = spans_of(sample.MODEL, RESOURCE, 1.0)
    assert span.name == "chat claude-sonnet-4-5"
    assert span.attributes is not None
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert span.attributes["gen_ai.provider.name"] == "anthropic"
    assert span.attributes["mnemogate.calls.refused"] == 1
    assert span.attributes["mnemogate.first_byte_us"] == 300_000
    assert span.context is not None
    assert f"{span.context.span_id:016x}" == sample.CONTEXT.span_id, "its verdicts name it"
    quiet = msgspec.structs.replace(sample.CONTEXT, sampled=False)
    assert spans_of(msgspec.structs.replace(sample.MODEL, context=quiet), RESOURCE, 1.0) != []
    unrefused = msgspec.structs.replace(sample.MODEL, context=quiet, refused=0)
    assert spans_of(unrefused, RESOURCE, 1.0) == []


def test_a_read_is_one_retriever_span_and_a_request_is_none() -> None:
    (span,) = spans_of(sample.READ, RESOURCE, 1.0)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "mnemogate",
        "gen_ai.memory.store.id": "default",
        "gen_ai.memory.record.count": 7,
        "openinference.span.kind": "RETRIEVER",
        "mnemogate.principal": "agent-1",
        "mnemogate.tenant": "default",
        "mnemogate.dialect": "mem0",
    }
    assert spans_of(sample.REQUEST, RESOURCE, 1.0) == []


def test_the_share_of_detailed_admits_follows_the_trace_id_alone() -> None:
    spread = [
        msgspec.structs.replace(
            sample.ADMIT,
            context=msgspec.structs.replace(
                sample.CONTEXT, trace_id=f"{(number * 0x9E3779B97F4A7C15) % 2**64:032x}"
            ),
        )
        for number in range(1, 10_001)
    ]
    detailed = [is_detailed(event, 0.1) for event in spread]
    assert 900 < sum(detailed) < 1_100
    assert detailed == [is_detailed(event, 0.1) for event in spread]
    assert not any(is_detailed(event, 0.0) for event in spread)
    assert all(is_detailed(event, 1.0) for event in spread)
    assert len(spans_of(sample.ADMIT, RESOURCE, 0.0)) == 1
    assert len(spans_of(sample.ADMIT, RESOURCE, 1.0)) == 1 + len(sample.STEPS)


@pytest.mark.parametrize("gate_us", [0, 1, 400, 10_000_000])
@pytest.mark.parametrize("commit_us", [0, 900, 10_000_000])
def test_steps_lie_one_after_the_other_inside_the_root(gate_us: int, commit_us: int) -> None:
    event = msgspec.structs.replace(sample.REJECT, gate_us=gate_us, commit_us=commit_us)
    root, *children = spans_of(event, RESOURCE, 0.0)
    edge = root.start_time or 0
    for child in children:
        assert edge <= (child.start_time or 0) <= (child.end_time or 0) <= (root.end_time or 0)
        edge = child.end_time or 0


def test_the_origin_of_a_text_is_named_whether_or_not_a_server_has_its_tool() -> None:
    names = {"culprit_kind": "tool_result", "culprit_call_id": "toolu_1"}
    own = msgspec.structs.replace(
        sample.REJECT, culprit_tool="WebFetch", culprit_resource="203.0.113.7", **names
    )
    relayed = msgspec.structs.replace(
        sample.REJECT, culprit_server="web", culprit_tool="fetch", **names
    )
    assert _of(own, "mnemogate.culprit.") == {
        "tool": "WebFetch",
        "call_id": "toolu_1",
        "resource": "203.0.113.7",
        "source.kind": "tool_result",
    }
    assert _of(relayed, "mnemogate.culprit.") == {
        "server": "web",
        "tool": "fetch",
        "call_id": "toolu_1",
        "source.kind": "tool_result",
    }
    # The control: a text without such an origin names none.
    assert _of(sample.REJECT, "mnemogate.culprit.") == {}


def test_a_session_is_named_as_backends_group_by_it_and_an_unknown_one_not_at_all() -> None:
    session = "ab" * 16
    known = msgspec.structs.replace(sample.REJECT, session=session)
    for event in (known, msgspec.structs.replace(sample.MODEL, session=session)):
        assert _of(event, "session.") == {"id": session}
        assert _of(event, "gen_ai.conversation.") == {"id": session}
    for unknown in (sample.REJECT, msgspec.structs.replace(sample.MODEL, session="")):
        assert _of(unknown, "session.") == _of(unknown, "gen_ai.conversation.") == {}


def test_the_span_of_a_model_request_has_the_gravest_verdict_below_it() -> None:
    def decided(gravest: VerdictRecorded | None, refused: int) -> tuple[object, ...]:
        model = msgspec.structs.replace(sample.MODEL, refused=refused)
        (span,) = spans_of(model, RESOURCE, 1.0, gravest)
        assert span.status.status_code is StatusCode.UNSET
        told = span.attributes or {}
        names = ("decision", "objected", "reason", "observed")
        return tuple(told.get(f"mnemogate.{name}") for name in names)

    observed = msgspec.structs.replace(sample.ADMIT, observed="hold", reason="class_floor")
    assert decided(sample.HOLD, 1) == ("hold", True, "class_floor", None)
    assert decided(observed, 0) == ("admit", True, "class_floor", "hold")
    # A call that was refused before it was judged has no verdict, and is seen all the same.
    assert decided(None, 1) == decided(sample.ADMIT, 1) == ("reject", True, "other", None)
    assert decided(sample.ADMIT, 0) == ("admit", None, None, None)
    assert decided(None, 0) == (None, None, None, None)


def test_the_order_of_gravity_is_that_in_which_a_person_wants_to_know() -> None:
    observed = msgspec.structs.replace(sample.ADMIT, observed="reject")
    rising = (sample.ADMIT, observed, sample.HOLD, sample.REJECT, sample.ERROR)
    assert [event.gravity for event in rising] == [0, 1, 2, 3, 4]


def _of(event: Event, prefix: str) -> dict[str, object]:
    """The attributes of an event's first span whose names begin so, without the beginning."""
    told = spans_of(event, RESOURCE, 0.0)[0].attributes or {}
    return {key.removeprefix(prefix): told[key] for key in told if key.startswith(prefix)}


def test_a_clock_that_went_back_yields_an_empty_span_and_no_negative_one() -> None:
    event = msgspec.structs.replace(sample.REJECT, ended_ns=sample.STARTED_NS - 1)
    for span in spans_of(event, RESOURCE, 0.0):
        assert span.start_time == span.end_time == sample.STARTED_NS


@pytest.mark.parametrize("trace_id", ["", "0af7", "x" * 32, "0" * 31])
def test_an_id_that_is_none_is_refused_before_it_can_spoil_a_batch(trace_id: str) -> None:
    broken = msgspec.structs.replace(sample.CONTEXT, trace_id=trace_id)
    with pytest.raises(ValueError, match=r".+"):
        spans_of(msgspec.structs.replace(sample.REJECT, context=broken), RESOURCE, 0.0)


def test_the_resource_is_what_the_settings_say_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "stolen=1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "another")
    settings = TelemetrySettings(resource=(("openinference.project.name", "gate"),))
    assert dict(resource_of(settings).attributes or {}) == {
        "openinference.project.name": "gate",
        "service.name": "mnemogate",
    }


WIDE_RESOURCE = resource_of(TelemetrySettings(service_version="1", resource=(("a.b", "ü" * 200),)))


def read_back(spans: list[ReadableSpan]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    envelope = Envelope(WIDE_RESOURCE, SCOPE)
    request.ParseFromString(envelope.around([encoded_span(span) for span in spans]))
    return request


def spans_for(events: list[Event]) -> list[ReadableSpan]:
    return [span for event in events for span in spans_of(event, WIDE_RESOURCE, 1.0)]


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
    odd = ReadableSpan("odd", context=spans_for([sample.ADMIT])[0].context, resource=WIDE_RESOURCE)
    with pytest.raises(ValueError, match="not finished"):
        encoded_span(odd)
    root = spans_for([sample.ADMIT])[0]
    odd = ReadableSpan(
        "odd",
        context=root.context,
        resource=WIDE_RESOURCE,
        attributes={"ratio": 0.5},
        start_time=1,
        end_time=2,
    )
    with pytest.raises(TypeError):
        encoded_span(odd)


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
WELL_FORMED = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]")
KEY = bytes(range(32))


def traces(seed: int = 7, key: bytes = KEY) -> Traces:
    draws = Random(seed)  # noqa: S311 - a test wants the same ids each time
    return Traces(key, lambda count: draws.randbytes(count).hex())


def accepted(*traceparents: str) -> TraceContext:
    return traces().accept(traceparents)


def test_nothing_of_a_callers_ids_is_taken_over() -> None:
    context = accepted(PARENT)
    said = f"{context}{format_traceparent(context)}{recorded_id(context)}"
    assert TRACE not in said
    assert SPAN not in said
    assert context.parent_span_id == ""
    assert context.sampled
    # The control: it was read.
    assert re.fullmatch("[0-9a-f]{16}", context.caller)


def test_one_trace_of_a_caller_has_one_hash_and_another_key_another() -> None:
    first, second = traces(1).accept([PARENT]), traces(2).accept([f"00-{TRACE}-{'1' * 16}-00"])
    assert first.trace_id != second.trace_id
    assert first.caller == second.caller
    assert traces(key=bytes(32)).accept([PARENT]).caller != first.caller
    assert accepted(f"00-{SPAN}{SPAN}-{SPAN}-01").caller != first.caller


def test_a_trace_of_ours_goes_on_below_the_span_that_it_came_from() -> None:
    mine = traces(1)
    context = mine.start()
    below = traces(2).accept([format_traceparent(context)])
    assert (below.trace_id, below.parent_span_id) == (context.trace_id, context.span_id)
    assert (below.caller, context.caller) == ("", "")
    # With another key it is anybody's.
    assert traces(2, bytes(32)).accept([format_traceparent(context)]).caller


@pytest.mark.parametrize("place", range(32))
def test_an_id_that_differs_in_one_digit_from_ours_is_not_ours(place: int) -> None:
    ours = traces().start().trace_id
    other = "0" if ours[place] != "0" else "1"
    forged = ours[:place] + other + ours[place + 1 :]
    assert traces(3).accept([f"00-{forged}-{SPAN}-01"]).trace_id != forged


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("03", True), ("fe", False), ("ff", True)]
)
def test_only_the_sampled_bit_of_the_flags_is_read(flags: str, sampled: bool) -> None:  # noqa: FBT001
    assert accepted(f"00-{TRACE}-{SPAN}-{flags}").sampled is sampled


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT + "-",
        PARENT + "-00",
        PARENT + "\n",
        " " + PARENT,
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0x",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{TRACE[:-1]}\u0661-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1_000,
        f"{PARENT},{PARENT}",
    ],
)
def test_a_parent_that_breaks_a_rule_counts_as_none(traceparent: str) -> None:
    context = accepted(traceparent)
    assert (context.parent_span_id, context.caller) == ("", "")
    assert context.sampled


def test_a_later_version_is_read_as_far_as_ours_goes() -> None:
    assert accepted(f"cc-{TRACE}-{SPAN}-01").caller == accepted(PARENT).caller
    assert accepted(f"cc-{TRACE}-{SPAN}-01-what-comes-next").caller == accepted(PARENT).caller


def test_two_parents_are_ambiguous_and_count_as_none() -> None:
    assert accepted(PARENT, PARENT).caller == ""
    assert accepted().caller == ""


def test_an_id_of_zeros_is_drawn_again() -> None:
    draws = iter(["01" * 8, "0" * 16, "0" * 16, "02" * 8])
    context = Traces(KEY, lambda _: next(draws)).start()
    assert (context.trace_id[:16], context.span_id) == ("01" * 8, "02" * 8)


def test_what_the_log_keeps_tells_both() -> None:
    for context in (accepted(PARENT), accepted()):
        assert recorded_parts(recorded_id(context)) == (context.trace_id, context.caller)
        assert len(recorded_id(context)) <= 64


@given(st.lists(st.text() | st.from_regex(WELL_FORMED, fullmatch=True), max_size=3))
def test_whatever_arrives_what_we_send_is_well_formed_and_ours(parents: list[str]) -> None:
    context = traces().accept(parents)
    assert WELL_FORMED.fullmatch(format_traceparent(context))
    assert context.trace_id == traces().start().trace_id
