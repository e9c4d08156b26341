"""Isolation and rewind of many memories: the values that an engine stores and returns.

Isolation hides many memories, and rewind puts many into an earlier state. Both work in batches, and
each batch is one transaction. An incident is the record of one isolation or rewind: it is durable
before the first batch and records when the last batch is done, so that an isolation or rewind that
a crash interrupted is continued under the same id.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from policy.model import (
    PRINCIPAL,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    SourceKind,
)
from storage.questions import Selection
from storage.tables.names import RecordTable


class IncidentKind(enum.Enum):
    """The two kinds of incidents: hide many memories, or put them back into an earlier state."""

    ISOLATE = "isolate"
    REWIND = "rewind"


class IncidentStage(enum.Enum):
    """The stages of an incident.

    After a crash, incidents that are `OPEN` or `UNDOING` are continued.
    """

    OPEN = "open"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One isolation or rewind; `incident_id` is 16 random hex digits."""

    incident_id: str
    kind: IncidentKind
    stage: IncidentStage
    reach: Selection
    by: PrincipalId
    at_ms: int
    reason: str
    # A rewind restores the state before the leaf `point`. It does not change memories whose newest
    # leaf is `leaf_count` or later, because they were written while the rewind ran.
    point: int = 0
    leaf_count: int = 0
    undoes: str = ""  # the id of the rewind that this rewind takes back

    @property
    def detail(self) -> str:
        """The detail of the leaf of a memory that is hidden or shown again for this incident."""
        return f"{self.reach.tenant}: incident {self.incident_id}"


INCIDENTS: Final = RecordTable(b"incidents", Incident)
"""Every incident, keyed by its id."""


class CaughtMemory(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One memory that an isolation reaches.

    `descendant`: the memory is reached only because it descends from a memory that matches.
    """

    memory_id: MemoryId
    principal_id: PrincipalId
    memory_class: MemoryClass
    source: SourceKind
    status: MemoryStatus
    descendant: bool


class IsolationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of memories that an isolation, or the undoing of an incident, changed.

    `changed` counts memories that were hidden, or shown again. `kept` counts memories that are
    hidden for another reason too, so that reads show them neither before nor after. The undoing of
    a rewind is an incident of its own: `changed` counts memories that are as they were before that
    rewind. A preview has no `incident`, and `caught` names the first memories that it reaches.
    """

    incident: Incident | None = None
    changed: int = 0
    kept: int = 0
    caught_count: int = 0
    caught: tuple[CaughtMemory, ...] = ()


class PastState(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier state to rewind to: right after the commit of a version, or at a time.

    Exactly one of the two is set; `at_ms` in Unix milliseconds.
    """

    version: int | None = None
    at_ms: int | None = None


class RewindEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of `RewindReport` in which one memory is included, by name."""

    memory_id: MemoryId
    became: tuple[str, ...]


class RewindReport(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of memories that a rewind changed, or would change (then without an incident).

    `put_back`: have their earlier text again, also if they were deleted. `hidden`: were written
    later, or were hidden at that time. `shown`: were hidden by an earlier rewind alone.
    `kept_hidden`: a person or an isolation hid them, so no read shows them, whatever the rewind
    did. `behind`: an upstream server has the text, so it is not changed. `moved`: were changed
    while the rewind ran, and are left alone. `touched` names each memory that is in one of these
    counts.
    """

    incident: Incident | None
    version: int  # the version whose state the rewind restores
    newest: int  # the store's version when the rewind was planned
    reached: int = 0  # all memories that the filter matches, also those that need no change
    put_back: int = 0
    hidden: int = 0
    shown: int = 0
    kept_hidden: int = 0
    behind: int = 0
    moved: int = 0
    touched: tuple[RewindEffect, ...] = ()
    # Memories that existed in that state and were purged since: memory ids, or candidate ids where
    # a client chose the memory's id.
    lost: tuple[str, ...] = ()
    # How many memories are lost, because only the first of them are named.
    lost_count: int = 0
