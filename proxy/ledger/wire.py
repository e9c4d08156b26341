"""What the operator API tells about sessions: segments, labels and reasons; never a text.

GET  /sessions?limit=   -> SessionList
GET  /sessions/{id}     -> SessionView
"""

from __future__ import annotations

import msgspec

from policy.model import Basis, MemoryClass, SourceKind  # noqa: TC001 - msgspec reads them


class SegmentView(msgspec.Struct, frozen=True, kw_only=True):
    """One text that entered a session, described without its words."""

    turn: int
    at_ms: int
    # One of: system, catalogue, user, host, spliced, recall, tool, model, call, history, unplaced
    channel: str
    label: SourceKind
    characters: int
    # Why the segment has its label, where its channel alone does not say so: a code, and words for
    # it.
    why: str = ""
    why_text: str = ""
    server: str = ""
    tool: str = ""
    call_id: str = ""
    memory_id: str = ""


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


class FallView(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that lowered the session's taint, and the label that the taint fell to."""

    taint: SourceKind
    segment: SegmentView


class UnknownView(msgspec.Struct, frozen=True, kw_only=True):
    """The segment that made a session unknown, and the kind of rule that would prevent it."""

    segment: SegmentView
    # One of: setting, map, splice, person, history, or none
    rule: str
    needs: str


class BeganUnderView(msgspec.Struct, frozen=True, kw_only=True):
    """The unanswered call during which a session began, and what would end its effect."""

    call: OriginView
    needs: str


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session in a list."""

    session: str
    principal: str
    taint: SourceKind
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
    # Writes without a known session, newest first; their label is the lowest taint of their
    # principal's live sessions.
    unplaced: tuple[UnplacedView, ...] = ()
    # Principals that heard more in a day than their tenant's sentence filter can hold.
    flooding: tuple[str, ...] = ()
    # The time until which nothing is trusted, because history was lost; None if none was lost.
    distrusted_until_ms: int | None = None


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session: its segments, its taint, and its writes."""

    session: str
    principal: str
    taint: SourceKind
    began_at_ms: int
    used_at_ms: int
    turns: int
    fell: tuple[FallView, ...]
    # The place at which the session first became unknown, if it is.
    unknown: UnknownView | None
    # The newest segments; `segments_left_out` counts older ones, which still lower the taint.
    segments: tuple[SegmentView, ...]
    segments_left_out: int
    writes: tuple[SessionWriteView, ...]
    open_calls: tuple[OriginView, ...]
    # Whether the session's texts can be searched; if not, a write gets their lowest label.
    searchable: bool
    distrusted_until_ms: int | None = None
    # The call without a result during which the session began: no turn of the session is a
    # person's.
    began_under: BeganUnderView | msgspec.UnsetType = msgspec.UNSET
