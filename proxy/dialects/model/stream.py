"""What the editors of all streams share: text passes at once, a call waits until it is whole.

An editor is fed events and gives back what may go on now, and calls that somebody must decide about
first. Sans I/O: whoever drives it sends, waits and asks again.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from proxy.dialects.model.body import Json, read_body, write_body
from proxy.dialects.model.sse import Event, event_bytes
from proxy.dialects.model.transcript import ModelCall  # noqa: TC001 - msgspec reads it
from proxy.dialects.operation import MalformedRequest


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A whole call that has not gone on. `key` is the editor's own."""

    call: ModelCall
    key: int


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a waiting call: it goes on, or `refusal` stands where it was."""

    key: int
    refusal: str | None = None


class Editor(Protocol):
    """One stream of one reply."""

    def feed(self, event: Event) -> tuple[bytes, tuple[Waiting, ...]]:
        """What goes on now, and the calls that are whole now and wait."""
        ...

    def decide(self, decided: Decided) -> bytes:
        """What goes on instead of a waiting call. Every waiting call is decided once."""
        ...

    def refused_all(self) -> bool:
        """Whether the reply ends in calls and every one of them was refused: ask again."""
        ...


def payload(event: Event) -> dict[str, Json] | None:
    """The JSON object of an event; None where it holds none."""
    if event.data is None:
        return None
    try:
        return read_body(event.data.encode("utf-8", "surrogatepass"))
    except MalformedRequest:
        return None


def event_of(name: str, body: dict[str, Json]) -> bytes:
    """An event with a JSON object."""
    return event_bytes(name, write_body(body).decode("utf-8"))
