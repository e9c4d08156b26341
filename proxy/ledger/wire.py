"""What the operator API says of sessions: segments, labels and why; never a text.

GET  /sessions?limit=   -> SessionList
GET  /sessions/{id}     -> SessionView
GET  /tools?tenant=     -> ToolList
POST /tools/{tool}/approve   ToolRequest -> ToolList
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import Basis, MemoryClass, SourceKind  # noqa: TC001 - msgspec reads them
from proxy.ledger.unmapped_tools import UnmappedTool  # noqa: TC001 - msgspec reads it
from proxy.seams.tenants import DEFAULT_TENANT, TenantName


class SegmentView(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of text that entered a session, without the text."""

    turn: int
    at_ms: int
    # system, catalogue, user, host, spliced, recall, tool, model, call, history, unplaced
    channel: str
    label: SourceKind
    characters: int
    # Why it has that label, where its channel alone does not say so; a code and its words.
    why: str = ""
    why_text: str = ""
    server: str = ""
    tool: str = ""
    call_id: str = ""
    memory_id: str = ""


class OriginView(msgspec.Struct, frozen=True, kw_only=True):
    """What a write was found in."""

    kind: SourceKind
    server: str = ""
    tool: str = ""
    call_id: str = ""
    memory_id: str = ""


class SessionWriteView(msgspec.Struct, frozen=True, kw_only=True):
    """A write of a session, and what became of it."""

    at_ms: int
    candidate_id: str
    decision: str
    reason: str | None
    memory_class: MemoryClass
    source: SourceKind
    ceiling: SourceKind
    basis: Basis
    # How it was known to be of this session: by the id of its call, or by its text.
    joined: str
    endorsed: bool
    derived_from: tuple[OriginView, ...]


class FallView(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that lowered the taint, and to what."""

    taint: SourceKind
    segment: SegmentView


class UnknownView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session first became unknown, and what would have kept it from that."""

    segment: SegmentView
    # setting, map, splice, person, history, or none: what kind of rule it would be.
    rule: str
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
    """A write that no session is known to have made."""

    principal: str
    write: SessionWriteView


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the one heard of last first."""

    total: int
    sessions: tuple[SessionRow, ...]
    # Newest first: labelled by the lowest taint of their principal's live sessions.
    unplaced: tuple[UnplacedView, ...] = ()
    # Principals that heard more in a day than their tenant can be expected to remember.
    flooding: tuple[str, ...] = ()
    # Until when nothing is believed because history was lost; None where nothing was.
    distrusted_until_ms: int | None = None


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session: what entered it, what that made of its taint, and what was written."""

    session: str
    principal: str
    taint: SourceKind
    began_at_ms: int
    used_at_ms: int
    turns: int
    fell: tuple[FallView, ...]
    # The first place, where its taint is unknown.
    unknown: UnknownView | None
    # The newest segments; `segments_left_out` counts older ones, which count for the taint still.
    segments: tuple[SegmentView, ...]
    segments_left_out: int
    writes: tuple[SessionWriteView, ...]
    open_calls: tuple[OriginView, ...]
    # The session's texts can be searched: else a write is taken to be of the lowest of them.
    searchable: bool
    distrusted_until_ms: int | None = None
    # Tools that speak of memory, and that no map takes.
    unmapped_tools: tuple[str, ...] = ()


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Approve a tool's description as it was sent last; `digest` is what it must be."""

    tenant: TenantName = DEFAULT_TENANT
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")] | None = None


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool whose description is not one that was approved."""

    tenant: str
    tool: str
    # Of the description that was sent last, to approve that one and no other.
    digest: str
    approved_count: int


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    """Tools of a tenant with changed descriptions, the one seen last first."""

    changed: tuple[ToolView, ...]
    # Of all tenants: tools that speak of memory, and that no map takes.
    unmapped: tuple[UnmappedTool, ...] = ()
