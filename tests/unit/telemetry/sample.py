"""Events for tests: one of each, and copies with some fields replaced."""

from __future__ import annotations

import msgspec

from telemetry.events import (
    Event,
    ModelServed,
    ReadServed,
    RequestServed,
    StepOutcome,
    TraceContext,
    VerdictRecorded,
)

STARTED_NS = 1_700_000_000_000_000_000

CONTEXT = TraceContext(
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_span_id="00f067aa0ba902b7",
)

STEPS = (
    StepOutcome(step=7, name="audit", outcome="passed"),
    StepOutcome(step=4, name="digest", outcome="passed"),
    StepOutcome(step=5, name="nonce", outcome="passed"),
    StepOutcome(step=1, name="source_class", outcome="failed"),
    StepOutcome(step=6, name="promotion", outcome="not_reached"),
)

REJECT = VerdictRecorded(
    context=CONTEXT,
    operation="create_memory",
    dialect="native",
    started_ns=STARTED_NS,
    ended_ns=STARTED_NS + 3_000_000,
    decision="reject",
    reason="source_class_forbidden",
    step=1,
    memory_class="L1",
    source_kind="tool_result",
    claimed_source_kind="user_input",
    basis="vouched",
    principal="agent-1",
    tenant="default",
    candidate_id="ab" * 16,
    memory_id="",
    version=41,
    leaf_index=83,
    replayed=False,
    ruleset_epoch=2,
    steps=STEPS,
    queued_us=120,
    gate_us=400,
    commit_us=900,
)

ADMIT = msgspec.structs.replace(
    REJECT,
    decision="admit",
    reason="",
    step=0,
    memory_class="L3",
    memory_id="6f2c1c1e-6c7f-4d1e-9a63-0b9a1f0c2d3e",
    version=42,
    steps=tuple(msgspec.structs.replace(step, outcome="passed") for step in STEPS),
)

HOLD = msgspec.structs.replace(REJECT, decision="hold", reason="class_floor")

ERROR = msgspec.structs.replace(
    REJECT, decision="error", reason="gate_unavailable", step=0, error_type="StoreUnavailable"
)

READ = ReadServed(
    context=CONTEXT,
    operation="search_memory",
    dialect="mem0",
    started_ns=STARTED_NS,
    ended_ns=STARTED_NS + 2_000_000,
    principal="agent-1",
    tenant="default",
    record_count=7,
)

REQUEST = RequestServed(
    context=CONTEXT,
    listener="data",
    method="POST",
    route="/v1/memories",
    status=403,
    started_ns=STARTED_NS,
    ended_ns=STARTED_NS + 4_000_000,
    principal="agent-1",
)

MODEL = ModelServed(
    context=CONTEXT,
    provider="anthropic",
    api="anthropic",
    model="claude-sonnet-4-5",
    status=200,
    streamed=True,
    started_ns=STARTED_NS,
    ended_ns=STARTED_NS + 900_000_000,
    sent_ns=STARTED_NS + 1_000_000,
    first_ns=STARTED_NS + 300_000_000,
    principal="agent-1",
    tenant="default",
    session="0" * 32,
    askings=2,
    calls=3,
    refused=1,
    withheld=True,
)

EVENTS: tuple[Event, ...] = (REJECT, ADMIT, HOLD, ERROR, READ, REQUEST, MODEL)


def numbered(event: VerdictRecorded, number: int) -> VerdictRecorded:
    """The same verdict as a write of its own: another trace, another candidate."""
    return msgspec.structs.replace(
        event,
        context=msgspec.structs.replace(
            event.context, trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}"
        ),
        candidate_id=f"{number:032x}",
    )


def unsampled(event: VerdictRecorded) -> VerdictRecorded:
    """The same verdict, asked for by a caller that does not want a trace."""
    return msgspec.structs.replace(
        event, context=msgspec.structs.replace(event.context, sampled=False)
    )


def string_fields(event: Event) -> tuple[str, ...]:
    """The names of the event's own fields that hold a string."""
    return tuple(
        field.name for field in msgspec.structs.fields(event) if field.type in {str, "str"}
    )


def with_string(event: Event, field: str, value: str) -> Event:
    """The same event, with one string replaced."""
    return msgspec.structs.replace(event, **{field: value})
