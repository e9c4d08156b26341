# ruff: noqa: TC001 - msgspec reads these annotations when it builds the decoders
"""Isolation and rewind: what an engine promises of them, and the values that cross.

Both hide many memories, or put them back, in batches that are one transaction each. An incident is
the record of one such act: it is durable before the first batch and says when the last one is
done, so that what a crash cut short is taken up again under the same id.
"""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

from policy.model import MemoryClass, MemoryId, MemoryStatus, PrincipalId, SourceKind, Tenant


class Reach(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Which memories are meant: those of which one step fits everything that is given.

    `server` and `tool` are those that the verdict's leaf names as the origin. `under`: a target,
    and all that continues it after a slash. `since_ms`: steps from then on, Unix milliseconds.
    """

    tenant: Tenant
    principal_id: PrincipalId | None = None
    server: str | None = None
    tool: str | None = None
    session: str | None = None
    under: str | None = None
    since_ms: int | None = None
    # Also what names one of them as a parent (`derived_from`), and what names that, to the end.
    with_descendants: bool = False

    @property
    def whole_tenant(self) -> bool:
        """Whether it reaches every memory of the tenant, because no filter is set."""
        asked = (self.principal_id, self.server, self.session, self.under, self.since_ms)
        return all(one is None for one in asked)


class Kind(enum.Enum):
    """Why many memories change together."""

    ISOLATE = "isolate"
    REWIND = "rewind"


class Stage(enum.Enum):
    """How far an incident is. `OPEN` and `UNDOING` are taken up again after a crash."""

    OPEN = "open"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class Incident(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One isolation or rewind; `incident_id` is 16 random hex digits."""

    incident_id: str
    kind: Kind
    stage: Stage
    reach: Reach
    by: PrincipalId
    at_ms: int
    reason: str
    # A rewind leads to the state before this leaf. It leaves alone what is newer than `leaf_count`:
    # that was written while it ran.
    point: int = 0
    leaf_count: int = 0


class Caught(msgspec.Struct, frozen=True, kw_only=True):
    """One memory in reach. `descendant`: only because of what it names as a parent."""

    memory_id: MemoryId
    principal_id: PrincipalId
    memory_class: MemoryClass
    source: SourceKind
    status: MemoryStatus
    descendant: bool


class Contained(msgspec.Struct, frozen=True, kw_only=True):
    """What an isolation, or the undoing of one, did to memories; counts of memories.

    `changed` were hidden, or shown again. `kept` were hidden by somebody else as well, so reads
    did not show them before and do not show them now.
    """

    incident: Incident
    changed: int
    kept: int


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A state to go back to: right after the commit of a version, or what stood at a time.

    Exactly one of them; `at_ms` in Unix milliseconds.
    """

    version: int | None = None
    at_ms: int | None = None


class Rewound(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind did, or would do where it has no incident; counts of memories.

    `put_back`: have the text again that they had, deleted ones too. `hidden`: written later, or
    hidden then. `shown`: hidden by an earlier rewind alone. `behind`: another server has the text,
    so it stays as it is. `moved`: changed while the rewind ran, and left alone.
    """

    incident: Incident | None
    version: int  # the version whose state it is
    put_back: int = 0
    hidden: int = 0
    shown: int = 0
    behind: int = 0
    moved: int = 0
    # What was there then and is purged: memory ids, or candidate ids where a client chose the id.
    lost: tuple[str, ...] = ()


class Incidents(Protocol):
    """Isolation and rewind. Coroutines on any loop; the other calls on any thread, blocking.

    Coroutines raise as `MemoryWriter.submit`; batches before a failure stay done.
    """

    def all(self) -> tuple[Incident, ...]:
        """Every incident, oldest first."""
        ...

    def reached(self, reach: Reach) -> tuple[Caught, ...]:
        """The stored memories in reach, quarantined ones too. Walks every row of the store."""
        ...

    async def isolate(self, reach: Reach, by: PrincipalId, reason: str = "") -> Contained:
        """Take all that is in reach out of every read, a leaf for each memory."""
        ...

    async def undo(self, incident_id: str, by: PrincipalId) -> Contained:
        """Show again what an isolation hid and nobody else hides.

        Raises:
            UnknownIncident: There is none of that id, or it is no isolation.
        """
        ...

    def planned(self, reach: Reach, to: Past) -> Rewound:
        """What a rewind would do. Walks every row and every leaf.

        Raises:
            NoSuchPast: See `rewind`.
        """
        ...

    async def rewind(self, reach: Reach, to: Past, by: PrincipalId, reason: str = "") -> Rewound:
        """Put each memory in reach into the state that it had, by new commits.

        What was written later is hidden, and what was deleted later is there again. Trust, nonces,
        keys, anchors, held candidates and the log stay as they are. What a person or an isolation
        hid since then stays hidden.

        Raises:
            NoSuchPast: The version or the time is in the future, before this life of the store, or
                all that was there is purged; nothing was changed.
            QuotaReached: No room for the texts; the batches before stay done.
        """
        ...

    async def resume(self, incident_id: str, by: PrincipalId) -> Contained:
        """Finish what was cut short; an incident that is done changes nothing.

        A memory that a person paroled since an isolation began stays shown.

        Raises:
            UnknownIncident: There is none of that id.
        """
        ...
