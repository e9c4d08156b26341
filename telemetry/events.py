"""The events that telemetry reports, one struct each, without a field for content.

Times are Unix nanoseconds (`_ns`) or durations in microseconds (`_us`).
"""

from __future__ import annotations

from typing import Final

import msgspec


class TraceContext(msgspec.Struct, frozen=True, kw_only=True):
    """The W3C trace context of one request: hex ids that were made here.

    `parent_span_id` is "" for a new trace. `caller` is a keyed hash of the trace id that the caller
    sent, 16 hex digits, or "" if none was sent.
    """

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    sampled: bool = True
    caller: str = ""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one numbered step of the gate."""

    step: int
    name: str
    outcome: str  # "passed", "failed" or "not_reached"


class VerdictRecorded(msgspec.Struct, frozen=True, kw_only=True, tag="verdict"):
    """One candidate was judged.

    The event becomes the span of the write, with a child span for each step.
    """

    context: TraceContext
    operation: str  # gen_ai.operation.name: create_memory, update_memory, delete_memory, ...
    dialect: str
    started_ns: int
    ended_ns: int
    decision: str  # the gate's answer: "admit", "hold", "reject" or "error"
    reason: str
    step: int
    memory_class: str
    source_kind: str
    claimed_source_kind: str
    basis: str
    principal: str
    tenant: str
    candidate_id: str
    memory_id: str
    version: int
    leaf_index: int
    replayed: bool
    ruleset_epoch: int
    steps: tuple[StepOutcome, ...]
    queued_us: int
    gate_us: int
    commit_us: int
    error_type: str = ""
    # If a gate in observe mode admitted the candidate: "hold" or "reject", which an enforcing gate
    # would have answered for `reason` at `step`. Else "".
    observed: str = ""
    # Whether the candidate's class is below the one that the client named.
    class_lowered: bool = False
    # The origin of the candidate's text, a segment that contains it: names, no content.
    culprit_kind: str = ""
    culprit_server: str = ""
    culprit_tool: str = ""
    culprit_call_id: str = ""
    culprit_resource: str = ""
    # The session ledger's id of the candidate's session; "" if no session is known.
    session: str = ""

    @property
    def gravity(self) -> int:
        """How far the verdict is from a plain admit: 0 for that, and more for a refusal."""
        return _GRAVITY.get(self.decision, bool(self.observed))


_GRAVITY: Final = {"hold": 2, "reject": 3, "error": 4}


class ReadServed(msgspec.Struct, frozen=True, kw_only=True, tag="read"):
    """One read was answered: search_memory, get, list, history, export."""

    context: TraceContext
    operation: str
    dialect: str
    started_ns: int
    ended_ns: int
    principal: str
    tenant: str
    record_count: int
    error_type: str = ""
    recall_id: str = ""  # the id of the read's record in the recall ledger; "" if there is none


class RequestServed(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """One HTTP request was answered, refused or failed; only for metrics and the access log."""

    context: TraceContext
    listener: str  # the listener of the request: "data", "admin", "health" or "guard"
    method: str
    route: str  # the route's template, never the requested path
    status: int
    started_ns: int
    ended_ns: int
    principal: str = ""
    error_type: str = ""


class ModelServed(msgspec.Struct, frozen=True, kw_only=True, tag="model"):
    """One model request was answered, to its last byte or until the agent left.

    The event's span is the parent of the spans of verdicts on writes that the model asked for.
    """

    context: TraceContext
    provider: str  # "anthropic", "openai" or "gemini": whose API the request is for
    api: str  # the API's form: "anthropic", "chat", "responses" or "gemini"
    model: str  # the model's name as the agent wrote it
    status: int
    streamed: bool
    started_ns: int
    ended_ns: int
    # When the request was sent upstream, and when the first byte of a reply was sent to the agent;
    # 0 if never.
    sent_ns: int
    first_ns: int
    principal: str
    tenant: str
    session: str
    askings: int
    calls: int
    refused: int
    withheld: bool
    error_type: str = ""
    # The number of memories in the request.
    reply_memories: int = 0


class IncidentAsk(msgspec.Struct, frozen=True, kw_only=True):
    """One replay of a wrong answer: the number of memories in it, and its outcome."""

    size: int
    outcome: str  # "fails" (the answer is still wrong), "passes" or "unknown"
    repeat: int
    started_ns: int
    ended_ns: int


class IncidentStepped(msgspec.Struct, frozen=True, kw_only=True, tag="incident"):
    """The incident of a wrong answer reached its next step.

    If `ended`, the event becomes a span with children. `links` are the trace ids of the commits of
    the culprits, as the audit leaves have them.
    """

    context: TraceContext
    incident_id: str
    signal: str
    step: str
    mode: str
    tenant: str
    suspects: int
    rounds: int
    culprits: int
    ended: bool
    started_ns: int
    ended_ns: int
    links: tuple[str, ...] = ()
    asks: tuple[IncidentAsk, ...] = ()
    # The reason why a person is needed: a word of `vocabulary.INCIDENT_REASONS`.
    why: str = ""
    error_type: str = ""
    # Start and end (ns) of each act that followed from a conviction.
    closures: tuple[tuple[int, int], ...] = ()


class StoreGauges(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a store at the moment of a scrape; new values replace the earlier ones."""

    version: int
    epoch: int
    live_count: int
    held_count: int
    leaf_count: int
    bytes_used: int
    bytes_quota: int
    writable: bool
    observing: bool = False
    queue_len: int = 0
    # The age of the oldest candidate that waits for a person, and of the oldest notice of a hold
    # that the webhook's receiver has not received.
    held_oldest_s: float = 0.0
    held_untold_s: float = 0.0
    # The number of records that the recall ledger dropped since the start.
    recalls_dropped: int = 0
    # The number of models' replies that were not compared with anchors since the start.
    replies_unchecked: int = 0


Event = VerdictRecorded | ReadServed | RequestServed | ModelServed | IncidentStepped
