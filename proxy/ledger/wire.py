"""What the operator API reports about sessions: segments, and what they had read; never a text.

GET  /sessions?limit=   -> SessionList
GET  /sessions/{id}     -> SessionView
"""

from __future__ import annotations

import msgspec

from policy.model import Basis, MemoryClass, SourceKind


class SegmentView(msgspec.Struct, frozen=True, kw_only=True):
    """One text that entered a session, described without its words."""

    turn: int
    at_ms: int
    # One of: system, catalogue, user, model, call, tool, recall, sealed, unplaced, provider,
    # resource, history
    channel: str
    # Whether the segment is foreign text, which sets the session's read bit.
    reads: bool
    characters: int
    server: str = ""
    tool: str = ""
    call_id: str = ""
    memory_id: str = ""


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a model."""

    server: str
    tool: str
    call_id: str


class OriginView(msgspec.Struct, frozen=True, kw_only=True):
    """The segment that contains a write's text."""

    kind: SourceKind
    server: str = ""
    tool: str = ""
    call_id: str = ""
    memory_id: str = ""


class SessionWriteView(msgspec.Struct, frozen=True, kw_only=True):
    """A write of a session, and the outcome of the write."""

    at_ms: int
    candidate_id: str
    decision: str
    reason: str | None
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    # Whether a model of the session made the call that writes.
    called: bool
    # Whether the session had read foreign text by then.
    after_reading: bool
    derived_from: tuple[OriginView, ...]


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session in a list."""

    session: str
    principal: str
    has_read: bool
    began_at_ms: int
    used_at_ms: int
    turns: int
    segments: int
    writes: int
    open_calls: int


class UnplacedView(msgspec.Struct, frozen=True, kw_only=True):
    """A write without a known session."""

    principal: str
    write: SessionWriteView


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the most recently active first."""

    total: int
    sessions: tuple[SessionRow, ...]
    # Writes that no session explains, newest first.
    unplaced: tuple[UnplacedView, ...] = ()
    # Until when a write that no session explains counts as written after reading, because history
    # was lost; None if none was lost.
    lost_until_ms: int | None = None


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session: its segments, what it had read, and its writes."""

    session: str
    principal: str
    # The session under whose call this session began; None if it began under no call.
    began_under: str | None
    # Whether foreign text entered the session, and the tools and hosts that brought it.
    has_read: bool
    read_origins: tuple[str, ...]
    began_at_ms: int
    used_at_ms: int
    turns: int
    # The newest segments; `segments_left_out` counts older ones.
    segments: tuple[SegmentView, ...]
    segments_left_out: int
    writes: tuple[SessionWriteView, ...]
    open_calls: tuple[CallView, ...]
    lost_until_ms: int | None = None
