"""Server-sent events (WHATWG HTML, section 9.2), cut anywhere by the network.

Each event keeps the very bytes it came in: what nobody changes goes on as it was.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024

# An event ends at the first empty line; lines end in LF, CR or CR LF.
_END: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LINE: Final = re.compile(rb"\r\n|\n|\r")
_FIELDS: Final = frozenset({b"", b"data", b"event", b"id", b"retry"})
# What else some readers end a line at; no JSON has it as it is.
_BREAKS: Final = bytes.maketrans(b"\x0b\x0c\x1c\x1d\x1e", b"     ")
_BOM: Final = b"\xef\xbb\xbf"
# Next line, line separator, paragraph separator.
_MARKS: Final = {
    b"\xc2\x85": b"\\u0085",
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `data` is None for a comment or a keep-alive."""

    raw: bytes
    name: str
    data: str | None


class EventTooLarge(Exception):  # noqa: N818 - what the upstream sent, not a mistake here
    """An event is larger than anything an API sends."""


class SseReader:
    """Splits a stream into events. Any cut of the same bytes gives the same events."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._bytes_max = bytes_max

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that are complete now.

        Raises:
            EventTooLarge: One that is not is larger than allowed.
        """
        self._buffer += chunk
        events: list[Event] = []
        begin = 0
        # A CR at the very end may be half of a CR LF: what follows it decides.
        end = len(self._buffer) - (1 if self._buffer.endswith(b"\r") else 0)
        while found := _END.search(self._buffer, max(begin, self._searched), end):
            events.append(_event(bytes(self._buffer[begin : found.end()])))
            begin = self._searched = found.end()
        del self._buffer[:begin]
        # Both line ends of an empty line take four bytes at most.
        self._searched = max(0, len(self._buffer) - 4)
        if len(self._buffer) > self._bytes_max:
            raise EventTooLarge
        return events

    def last(self) -> list[Event]:
        """What is left when the stream ends: no event, say the rules; some read it."""
        left, self._buffer = bytes(self._buffer), bytearray()
        self._searched = 0
        return [_event(left)] if left else []


def _event(raw: bytes) -> Event:
    name = ""
    data: list[str] = []
    # A reader that knows the mark only at the beginning would not see the line behind it.
    raw = raw.removeprefix(_BOM)
    odd = False
    for line in _LINE.split(raw):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        # Some readers trim a line, or do not look at case.
        odd = odd or field not in _FIELDS
        if field == b"data":
            data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    told = "\n".join(data) if data else None
    if odd or len(data) > 1:
        # Some readers take each line for an event.
        one = None if told is None else told.replace("\n", " ")
        raw = b":\n\n" if one is None else event_bytes(name, one)
    return Event(raw=_one_line(raw.translate(_BREAKS)), name=name, data=told)


def event_bytes(name: str, data: str) -> bytes:
    """An event of our own."""
    head = f"event: {name}\n" if name else ""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return _one_line(f"{head}{lines}\n".encode("utf-8", "surrogatepass"))


def _one_line(raw: bytes) -> bytes:
    """The event, with what some readers take for a line's end as the escapes of JSON.

    Else a model could write a line of its own into its text: an event that nobody judged.
    """
    for mark, escape in _MARKS.items():
        if mark in raw:
            raw = raw.replace(mark, escape)
    return raw
