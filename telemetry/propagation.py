"""W3C Trace Context, in and out: headers, and the `_meta` object of MCP (SEP-414).

Strict: what does not follow the recommendation to the letter starts a new trace. Nothing here
carries authority: a trace id correlates and never identifies, and baggage is neither read nor
forwarded, since a peer could put a claim of trust (or somebody's data) in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from telemetry.events import TraceContext

RandomBytes = Callable[[int], bytes]
"""`n -> n` unpredictable bytes; `os.urandom` in the process, a seeded source in a test."""

TRACESTATE_LEN_MAX: Final = 512
TRACESTATE_MEMBERS_MAX: Final = 32

_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8
_SAMPLED: Final = 0x01
_PARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-"
    r"(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.ASCII,
)
_PARENT_LEN_MAX: Final = 512
_KEY_REST: Final = r"[a-z0-9_\-*/]"
_MEMBER = re.compile(
    rf"(?P<key>[a-z]{_KEY_REST}{{0,255}}|[a-z0-9]{_KEY_REST}{{0,240}}@[a-z]{_KEY_REST}{{0,13}})"
    r"=(?P<value>[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])",
    re.ASCII,
)


def start(random: RandomBytes) -> TraceContext:
    """A new trace, sampled, without a parent."""
    return TraceContext(
        trace_id=_mint(random, _TRACE_ID_BYTES), span_id=_mint(random, _SPAN_ID_BYTES)
    )


def start_hex(random_hex: Callable[[int], str]) -> TraceContext:
    """As `start`, from a source of hex digits (`n -> 2n` digits)."""
    trace_id, span_id = random_hex(_TRACE_ID_BYTES), random_hex(_SPAN_ID_BYTES)
    if not trace_id.strip("0") or not span_id.strip("0"):
        return start_hex(random_hex)
    return TraceContext(trace_id=trace_id, span_id=span_id)


def accept(
    traceparents: Sequence[str], tracestates: Sequence[str], random: RandomBytes
) -> TraceContext:
    """The context of a request: a child of the caller's span, or a new trace.

    Both arguments are every value of the header, in order. More than one `traceparent` is
    ambiguous, so it starts a new trace (W3C Trace Context 3.2). A `tracestate` that is not valid
    is left out, without harm to the trace.
    """
    if len(traceparents) != 1:
        return start(random)
    parsed = _parse_traceparent(traceparents[0])
    if parsed is None:
        return start(random)
    trace_id, parent_span_id, sampled = parsed
    return TraceContext(
        trace_id=trace_id,
        span_id=_mint(random, _SPAN_ID_BYTES),
        parent_span_id=parent_span_id,
        sampled=sampled,
        tracestate=parse_tracestate(",".join(tracestates)),
    )


def child(context: TraceContext, random: RandomBytes) -> TraceContext:
    """A new span below `context`, in the same trace."""
    return TraceContext(
        trace_id=context.trace_id,
        span_id=_mint(random, _SPAN_ID_BYTES),
        parent_span_id=context.span_id,
        sampled=context.sampled,
        tracestate=context.tracestate,
    )


def sibling(context: TraceContext, random: RandomBytes) -> TraceContext:
    """A new span beside `context`: same trace, same parent. For each further item of a batch."""
    return TraceContext(
        trace_id=context.trace_id,
        span_id=_mint(random, _SPAN_ID_BYTES),
        parent_span_id=context.parent_span_id,
        sampled=context.sampled,
        tracestate=context.tracestate,
    )


def format_traceparent(context: TraceContext) -> str:
    """The `traceparent` value that makes `context` the parent of whoever receives it."""
    return f"00-{context.trace_id}-{context.span_id}-{_SAMPLED if context.sampled else 0:02x}"


def to_headers(context: TraceContext) -> dict[str, str]:
    """Headers for a request that we send: `traceparent`, and `tracestate` where there is one."""
    headers = {"traceparent": format_traceparent(context)}
    if context.tracestate:
        headers["tracestate"] = context.tracestate
    return headers


def accept_meta(meta: Mapping[str, object], random: RandomBytes) -> TraceContext:
    """As `accept`, from the `_meta` object of an MCP request; other keys are not looked at."""
    traceparent = meta.get("traceparent")
    tracestate = meta.get("tracestate")
    return accept(
        (traceparent,) if isinstance(traceparent, str) else (),
        (tracestate,) if isinstance(tracestate, str) else (),
        random,
    )


def to_meta(meta: Mapping[str, object], context: TraceContext) -> dict[str, object]:
    """`meta` with our context in place of the caller's, and without its baggage."""
    kept = {
        key: value
        for key, value in meta.items()
        if key not in {"traceparent", "tracestate", "baggage"}
    }
    return {**kept, **to_headers(context)}


def parse_tracestate(value: str) -> str:
    """The same list, normalised, or "" if it breaks a rule.

    Members that do not fit in 512 characters are cut from the end: the newest stand first.
    """
    members: dict[str, str] = {}
    for part in value.split(",", TRACESTATE_MEMBERS_MAX * 2):
        member = part.strip(" \t")
        if not member:
            continue
        match = _MEMBER.fullmatch(member)
        if match is None or match["key"] in members or len(members) == TRACESTATE_MEMBERS_MAX:
            return ""
        members[match["key"]] = member
    kept: list[str] = []
    length = -1
    for member in members.values():
        length += 1 + len(member)
        if length > TRACESTATE_LEN_MAX:
            break
        kept.append(member)
    return ",".join(kept)


def _parse_traceparent(value: str) -> tuple[str, str, bool] | None:
    """Trace id, the caller's span id and its sampled flag; None if it breaks a rule."""
    if len(value) > _PARENT_LEN_MAX:
        return None
    match = _PARENT.fullmatch(value)
    if match is None or match["version"] == "ff":
        return None
    if match["version"] == "00" and match["more"] is not None:
        return None
    if not match["trace"].strip("0") or not match["span"].strip("0"):
        return None
    return match["trace"], match["span"], bool(int(match["flags"], 16) & _SAMPLED)


def _mint(random: RandomBytes, length_bytes: int) -> str:
    """A random id in hex. An id of zeros is the one that W3C forbids: draw again."""
    while True:
        minted = random(length_bytes)
        if any(minted):
            return minted.hex()
