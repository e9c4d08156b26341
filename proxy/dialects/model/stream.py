"""What the editors of all streams share: text passes at once, a call waits until it is whole.

An editor is fed events and gives back what may go on now, and calls that somebody must decide about
first. Sans I/O: whoever drives it sends, waits and asks again.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from proxy.dialects.model.transcript import ModelCall, ModelReply  # noqa: TC001 - msgspec reads it
from proxy.dialects.sse import Event, event_bytes
from proxy.dialects.strict_json.tolerant import Json, read_body, write_body
from proxy.seams.faults import MalformedRequest


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A whole call that has not gone on. `key` is the editor's own."""

    call: ModelCall
    key: int


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of it: it goes on, or `refusal` stands where it was."""

    key: int
    refusal: str | None = None


class Editor(Protocol):
    """One reply; after `again()` the stream of the second asking is fed to the same editor."""

    def feed(self, event: Event) -> tuple[bytes, tuple[Waiting, ...]]:
        """What goes on now, and what is whole now and waits."""
        ...

    def decide(self, decided: Decided) -> bytes:
        """What goes on instead of what waits. Everything that waits is decided once."""
        ...

    def refused_all(self) -> bool:
        """Whether the reply makes calls and every one of them was refused: ask again."""
        ...

    def again(self) -> list[Json]:
        """What to append to the conversation for the second asking."""
        ...

    def close(self) -> bytes:
        """The end of a reply whose calls were all refused, where the model is not asked again."""
        ...

    def said(self) -> ModelReply:
        """What the model has said and called in this asking, refused calls too."""
        ...

    @property
    def over(self) -> bool:
        """Whether the end of the reply was fed."""
        ...

    @property
    def holds(self) -> bool:
        """Whether something was fed that has not gone on."""
        ...


class Unread(Exception):  # noqa: N818 - what the upstream sent, not a mistake here
    """An event that looks like a JSON object and is none."""


def payload(event: Event) -> dict[str, Json] | None:
    """The JSON object of an event; None where it holds none.

    Raises:
        Unread: It is one that others may be able to read, and nobody here.
    """
    if event.data is None:
        return None
    try:
        return read_body(event.data.encode("utf-8", "surrogatepass"))
    except MalformedRequest:
        if "{" in event.data:
            raise Unread from None
        return None


def event_of(name: str, body: dict[str, Json]) -> bytes:
    """An event with a JSON object."""
    return event_bytes(name, write_body(body).decode("utf-8"))


def added(total: dict[str, int], usage: dict[str, Json]) -> dict[str, int]:
    """Counted tokens of one more asking."""
    counted = {key: count for key, count in usage.items() if type(count) is int}
    return {key: total.get(key, 0) + counted.get(key, 0) for key in {**total, **counted}}


def summed(usage: dict[str, Json], spent: dict[str, int]) -> dict[str, Json]:
    """A usage object with the tokens of earlier askings in it."""
    return {
        key: count + spent.get(key, 0) if type(count) is int else count
        for key, count in usage.items()
    }
