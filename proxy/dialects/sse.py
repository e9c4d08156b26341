"""Server-sent events (WHATWG HTML, section 9.2): a byte stream to events, and back.

A line ends with CR LF, LF or CR, an empty line ends an event, a colon begins a comment. For MCP the
fields of an event are parsed. For a model's stream an event has its original bytes as well, so that
the event can be forwarded unchanged.
"""

from __future__ import annotations

import re
from typing import Final, Generic, TypeVar

import msgspec

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
ID_LEN_MAX: Final = 1_024
MESSAGE: Final = "message"
PING: Final = b": ping\n\n"

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_RETRY: Final = re.compile(r"[0-9]{1,9}")
_BOM: Final = b"\xef\xbb\xbf"
_FIELDS: Final = frozenset({b"", b"data", b"event", b"id", b"retry"})
# Control characters at which some readers end a line, although the standard does not. JSON never
# has them unescaped, so they are replaced by blanks.
_BREAKS: Final = bytes.maketrans(b"\x0b\x0c\x1c\x1d\x1e", b"     ")
# Longer characters (next line, line separator, paragraph separator) at which some readers end a
# line. JSON may have them unescaped, so they are replaced by JSON escapes.
_MARKS: Final = {
    b"\xc2\x85": b"\\u0085",
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
}


class BrokenStream(Exception):  # noqa: N818 - says what came, not what we did
    """The error for a stream that is not valid: an event is too long, or not UTF-8.

    Its message never quotes the stream.
    """


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event, with the bytes to forward. `data` is None for a comment or a keep-alive."""

    raw: bytes
    name: str
    data: str | None


class EventFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of one event. A comment or a lone `retry` counts as an event without data."""

    data: bytes | None = None
    event: str = MESSAGE
    # None if the event has no id; empty if it resets the last id.
    event_id: str | None = None
    retry: int | None = None

    def encode(self) -> bytes:
        """Encode the event; the data must be a single line."""
        lines: list[bytes] = []
        if self.event != MESSAGE or self.data is not None:
            lines.append(b"event: " + self.event.encode())
        if self.event_id is not None:
            lines.append(b"id: " + self.event_id.encode())
        if self.retry is not None:
            lines.append(b"retry: %d" % self.retry)
        if self.data is not None:
            lines.append(b"data: " + self.data)
        return b"\r\n".join([*lines, b"", b""]) if lines else PING


_Found = TypeVar("_Found", Event, EventFields)


class EventReader(Generic[_Found]):
    """Assembles events from a stream's chunks, wherever the chunks begin. One reader per stream."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        # The unfinished line, and the number of bytes in earlier lines of the same event.
        self._held = bytearray()
        self._size = 0
        self._searched = 0

    def feed(self, piece: bytes) -> list[_Found]:
        """Read the next chunk of the stream; return the events that the chunk completes.

        Raises:
            BrokenStream: An event is too long, or is not UTF-8 where its fields are read; the
                reader must not be used any more.
        """
        self._held += piece
        events: list[_Found] = []
        start = 0
        # A carriage return at the very end may be half of a line end: the next byte decides.
        end = len(self._held) - (1 if self._held.endswith(b"\r") else 0)
        while found := _LINE_END.search(self._held, max(start, self._searched), end):
            event = self._line(bytes(self._held[start : found.start()]), found[0])
            if event is not None:
                events.append(event)
            start = self._searched = found.end()
        del self._held[:start]
        self._searched = max(0, len(self._held) - 1)
        if self._size + len(self._held) > self._bytes_max:
            raise BrokenStream("an event is too long")
        return events

    def _line(self, line: bytes, end: bytes) -> _Found | None:
        """Read one line; return the event that the line completes, or None."""
        raise NotImplementedError


class FieldReader(EventReader[EventFields]):
    """Reads the fields of events. The size limit covers both complete and unfinished events."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        super().__init__(bytes_max)
        # A byte order mark, which is allowed only at the beginning of the stream's first line.
        self._mark = _BOM
        self._fields: EventFields | None = None
        self._data: list[bytes] = []

    def _line(self, line: bytes, end: bytes) -> EventFields | None:
        del end  # towards the limit, each line end counts as one byte, even CR LF
        line, self._mark = line.removeprefix(self._mark), b""
        fields, data = self._fields, self._data
        if not line:
            self._fields, self._data, self._size = None, [], 0
            if fields is None or not data:
                return fields
            return msgspec.structs.replace(fields, data=b"\n".join(data))
        self._size += len(line) + 1
        if self._size > self._bytes_max:
            raise BrokenStream("an event is too long")
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        self._fields = _with_field(fields or EventFields(), name, value)
        return None


def _with_field(fields: EventFields, name: bytes, value: bytes) -> EventFields:
    if name not in (b"event", b"id", b"retry"):
        return fields
    try:
        text = value.decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise BrokenStream("an event is not UTF-8") from None
    if name == b"event":
        return msgspec.structs.replace(fields, event=text or MESSAGE)
    if name == b"id" and "\0" not in text:
        if len(text) > ID_LEN_MAX:
            raise BrokenStream("an event's id is too long")
        return msgspec.structs.replace(fields, event_id=text)
    if name == b"retry" and _RETRY.fullmatch(text):
        return msgspec.structs.replace(fields, retry=int(text))
    return fields


class RawReader(EventReader[Event]):
    """Reads events with their original bytes. The size limit covers only the unfinished event."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        super().__init__(bytes_max)
        self._raw = bytearray()

    def _line(self, line: bytes, end: bytes) -> Event | None:
        # An empty line ends the event, unless it is the event's first line.
        ended = not line and bool(self._raw)
        self._raw += line + end
        self._size = len(self._raw)
        return self._taken() if ended else None

    def last(self) -> list[Event]:
        """Return the unfinished event at the stream's end, or no event.

        The standard discards an unfinished event, but some clients read it.
        """
        self._raw += self._held
        self._held.clear()
        self._searched = 0
        return [self._taken()] if self._raw else []

    def _taken(self) -> Event:
        raw, self._raw, self._size = bytes(self._raw), bytearray(), 0
        return _event(raw)


def _event(raw: bytes) -> Event:
    name = ""
    data: list[str] = []
    # The byte order mark is removed, because a reader that does not expect the mark would not
    # recognise the field after it.
    raw = raw.removeprefix(_BOM)
    odd = False
    for line in _LINE_END.split(raw):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        # For an unknown field, the event is encoded anew: the field's name may be a known one with
        # blanks or capitals, and some readers trim names or ignore case.
        odd = odd or field not in _FIELDS
        if field == b"data":
            data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    told = "\n".join(data) if data else None
    if odd or len(data) > 1:
        # Some readers take each line of data as an event, so the lines are joined to one line.
        one = None if told is None else told.replace("\n", " ")
        raw = b":\n\n" if one is None else event_bytes(name, one)
    return Event(raw=_one_line(raw.translate(_BREAKS)), name=name, data=told)


def event_bytes(name: str, data: str) -> bytes:
    """Encode an event of this name and data; without a name if `name` is empty."""
    head = f"event: {name}\n" if name else ""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return _one_line(f"{head}{lines}\n".encode("utf-8", "surrogatepass"))


def _one_line(raw: bytes) -> bytes:
    """The event with line separators (U+2028, U+0085, ...) escaped as in JSON.

    With an unescaped separator in its text, a model could begin a new line, and so an event that
    was never judged.
    """
    for mark, escape in _MARKS.items():
        if mark in raw:
            raw = raw.replace(mark, escape)
    return raw
