"""Requests and answers of the operator API about isolation and rewind."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import (
    MemoryClass,
    SourceKind,
)
from proxy.admin.wire.route import Empty, NoQuery, get, post
from proxy.admin.wire.store import Wide
from proxy.admin.wire.wrong_answers import CaseView
from proxy.seams.tenants import DEFAULT_TENANT, TenantName
from storage.features.incidents import RewindEffect
from storage.values import QUARANTINE_REASON_LEN_MAX

Moment = Annotated[int, Meta(ge=0, le=10**15 - 1)]
"""Unix milliseconds."""
CAUGHT_NAMED_MAX = 1_000


class _ReachRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: TenantName = DEFAULT_TENANT
    principal: Wide | None = None
    # SERVER or SERVER/TOOL, as the verdict's leaf names where the text came from.
    origin: Wide | None = None
    session: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | None = None
    # A target such as `notes`: targets that continue it after a slash fit too.
    under: Wide | None = None
    dry_run: bool = False
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""


class IsolateRequest(_ReachRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hide every memory that has a step which fits all given fields; at least one must be given."""

    since_ms: Moment | None = None
    with_descendants: bool = False


class RewindRequest(_ReachRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put memories into the state of a version or of a time; exactly one of the two is given."""

    to_version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    to_ms: Moment | None = None


class CaughtView(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that fits the request.

    `descendant`: it fits only because it derives from one that does.
    """

    memory_id: str
    principal: str
    memory_class: MemoryClass
    source: SourceKind
    status: str
    descendant: bool


class IncidentView(msgspec.Struct, frozen=True, kw_only=True):
    """One isolation or rewind.

    In the states `open` and `undoing` a crash interrupted it, and it can be resumed.
    """

    incident_id: str
    kind: str  # "isolate" | "rewind"
    stage: str  # "open" | "done" | "undoing" | "undone"
    tenant: str
    by: str
    at_ms: int
    reason: str
    principal: str | None
    origin: str | None
    session: str | None
    under: str | None
    since_ms: int | None
    with_descendants: bool


class RewindView(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind did, or with `dry_run` would do; counts of memories.

    `version` is the one whose state it is, `newest` the store's before. `POST
    /incidents/{incident_id}/undo` takes the rewind back. `reached` are meant, also those about
    which there was nothing to do.

    `put_back`: got their earlier text again, deleted ones too. `hidden`: were written later, or
    were hidden at that earlier time. `shown`: only an earlier rewind had hidden them.
    `kept_hidden`: a person or an isolation hides them, so no read shows them. `behind`: their text
    is on another server. `moved`: changed during the rewind. The last two kinds are left as they
    are. `touched` names the first 1000 memories that these counts have.
    """

    incident: IncidentView | None
    version: int
    newest: int
    reached: int
    put_back: int
    hidden: int
    shown: int
    kept_hidden: int
    behind: int
    moved: int
    touched: tuple[RewindEffect, ...]
    # Memories that existed at that earlier time and were purged since; the first 1000 by name.
    lost_count: int
    lost: tuple[str, ...]


class IncidentList(msgspec.Struct, frozen=True, kw_only=True):
    """Isolations and rewinds, and the incidents of wrong answers, each oldest first."""

    incidents: tuple[IncidentView, ...]
    wrong_answers: tuple[CaseView, ...] = ()


class IsolationView(msgspec.Struct, frozen=True, kw_only=True):
    """What an isolation, or the undoing of an incident, did; or with `dry_run` would do.

    `changed` counts memories hidden, or shown again; `kept` those that stay hidden for another
    reason. The undoing of a rewind is an incident of its own, which `incident` names: `changed`
    counts memories that are as they were before that rewind. `caught` names the first 1000 memories
    of a dry run.
    """

    incident: IncidentView | None
    changed: int
    kept: int
    caught_count: int = 0
    caught: tuple[CaughtView, ...] = ()


ISOLATE: Final = post(
    "/isolate",
    IsolateRequest,
    IsolationView,
    "Hide all memories that came from one place; `dry_run` only names them.",
    slow=True,
)
REWIND: Final = post(
    "/rewind",
    RewindRequest,
    RewindView,
    "Put memories into an earlier state, by new commits; `dry_run` only counts them.",
    slow=True,
)
INCIDENTS: Final = get(
    "/incidents",
    NoQuery,
    IncidentList,
    "Isolations and rewinds, and the incidents of wrong answers, oldest first.",
    slow=True,
)
UNDO: Final = post(
    "/incidents/{incident_id}/undo",
    Empty,
    IsolationView,
    "Undo an isolation or a rewind; what is hidden for another reason as well stays hidden.",
    slow=True,
)
RESUME: Final = post(
    "/incidents/{incident_id}/resume",
    Empty,
    IsolationView,
    "Finish an isolation or a rewind that was cut short.",
    slow=True,
)
