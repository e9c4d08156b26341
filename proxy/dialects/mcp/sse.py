"""Server-sent events as MCP uses them: bytes to events, and an event to bytes.

The grammar is the one of the HTML standard, section 9.2: a line ends with CR LF, LF or CR, an
empty line ends an event, a colon begins a comment. What comes in may be cut anywhere.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
ID_LEN_MAX: Final = 1_024
MESSAGE: Final = "message"
PING: Final = b": ping\n\n"

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_RETRY: Final = re.compile(r"[0-9]{1,9}")


class BrokenStream(Exception):  # noqa: N818 - says what came, not what we did
    """No events of ours: one too long, or not UTF-8. The text is fixed."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event. A comment or a lone `retry` is an event without data, too."""

    data: bytes | None = None
    event: str = MESSAGE
    # None: the event says nothing of its id. Empty: it resets the last one.
    event_id: str | None = None
    retry: int | None = None

    def encode(self) -> bytes:
        """The event as it is sent; its data is one line."""
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


class EventReader:
    """Gathers events out of pieces. One stream, one reader."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._searched = 0
        self._first = True
        self._data: list[bytes] = []
        self._event = MESSAGE
        self._event_id: str | None = None
        self._retry: int | None = None
        self._size = 0
        self._any = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are whole now.

        Raises:
            BrokenStream: An event is too long or is not UTF-8; the reader is of no use any more.
        """
        self._held += piece
        events: list[Event] = []
        start = 0
        while True:
            found = _LINE_END.search(self._held, max(start, self._searched))
            # A carriage return at the very end may be half of a line end.
            if found is None or (found[0] == b"\r" and found.end() == len(self._held)):
                break
            event = self._line(bytes(self._held[start : found.start()]))
            if event is not None:
                events.append(event)
            start = self._searched = found.end()
        del self._held[:start]
        self._searched = max(0, len(self._held) - 1)
        if self._size + len(self._held) > self._bytes_max:
            raise BrokenStream("an event is too long")
        return events

    def _line(self, line: bytes) -> Event | None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        self._any = True
        self._size += len(line) + 1
        if self._size > self._bytes_max:
            raise BrokenStream("an event is too long")
        name, _, value = line.partition(b":")
        self._field(name, value.removeprefix(b" "))
        return None

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._data.append(value)
            return
        if name not in (b"event", b"id", b"retry"):
            return
        try:
            text = value.decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise BrokenStream("an event is not UTF-8") from None
        if name == b"event":
            self._event = text or MESSAGE
        elif name == b"id" and "\0" not in text:
            if len(text) > ID_LEN_MAX:
                raise BrokenStream("an event's id is too long")
            self._event_id = text
        elif name == b"retry" and _RETRY.fullmatch(text):
            self._retry = int(text)

    def _dispatch(self) -> Event | None:
        if not self._any:
            return None
        event = Event(
            data=b"\n".join(self._data) if self._data else None,
            event=self._event,
            event_id=self._event_id,
            retry=self._retry,
        )
        self._data, self._event, self._event_id, self._retry = [], MESSAGE, None, None
        self._size, self._any = 0, False
        return event
