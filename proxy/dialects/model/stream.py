"""Defines editors of streamed replies: text is forwarded at once, a call waits for its verdict.

An editor is fed events, and returns the bytes to forward now and the complete calls that must be
judged first. Sans I/O: the caller sends, waits and makes the second request.
"""

from __future__ import annotations

import msgspec

from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.sse import Event, event_bytes
from proxy.dialects.strict_json.tolerant import Json, read_body, write_body
from proxy.seams.faults import MalformedRequest, UpstreamError


class CompleteCall(msgspec.Struct, frozen=True, kw_only=True):
    """A complete call that waits for its verdict. `key` identifies the call to the editor."""

    call: ModelCall
    key: int


class CallDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on one tool call: to forward it, or to put the text `refusal` in its place."""

    key: int
    refusal: str | None = None


class UnreadableEvent(UpstreamError):  # noqa: N818 - what the upstream sent, not a mistake here
    """The error for an event that looks like a JSON object and cannot be parsed."""

    def __init__(self) -> None:
        super().__init__("the server behind sent an event that is not JSON")


def payload(event: Event) -> dict[str, Json] | None:
    """The JSON object of an event; None if it has none.

    Raises:
        UnreadableEvent: Other parsers may understand the event, but this code does not.
    """
    if event.data is None:
        return None
    try:
        return read_body(event.data.encode("utf-8", "surrogatepass"))
    except MalformedRequest:
        if "{" in event.data:
            raise UnreadableEvent from None
        return None


def event_of(name: str, body: dict[str, Json]) -> bytes:
    """The bytes of an event that has the given JSON object as its data."""
    return event_bytes(name, write_body(body).decode("utf-8"))


def added(total: dict[str, int], usage: dict[str, Json]) -> dict[str, int]:
    """The token counts of `total`, plus those of one more request."""
    counted = {key: count for key, count in usage.items() if type(count) is int}
    return {key: total.get(key, 0) + counted.get(key, 0) for key in {**total, **counted}}


def summed(usage: dict[str, Json], spent: dict[str, int]) -> dict[str, Json]:
    """The usage of tokens that a reply reports, plus the tokens `spent` by earlier requests."""
    return {
        key: count + spent.get(key, 0) if type(count) is int else count
        for key, count in usage.items()
    }
