"""How a feature follows what the core commits: in the same transaction, by methods of its own."""

from __future__ import annotations

import msgspec

from policy.model import Candidate, MemoryStatus, PrincipalId
from policy.verdict import Hold, Reject
from storage.audit import Culprit
from storage.tables.change import Change
from storage.tables.codec import IdRecord
from storage.values import Row


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted candidate, with everything that its row and its leaf will state."""

    candidate: Candidate
    canonical: bytes
    salt: bytes
    intercepted_index: int
    trust_level: str
    vector: bytes
    embedder_id: str
    approved_by: PrincipalId | None = None
    # The objection of an enforcing gate, where a gate that only observes (observe mode) admitted
    # the candidate.
    objection: Hold | Reject | None = None
    # Guard mode (docs/mcp.md): the row is an intent until the server behind has
    # answered.
    guarded_key: str | None = None
    sent: bool = True
    blob: bytes = b""
    # Whether the server behind had the memory before the gate was put in front of it: then nothing
    # is ever sent.
    is_there: bool = False
    culprit: Culprit | None = None
    session: str | None = None
    after_reading: bool = False
    alters_unread: bool = False
    read_origins: tuple[str, ...] = ()


class Landed(msgspec.Struct, frozen=True, kw_only=True):
    """Where an admitted candidate's memory is stored; `name` is its key in the table of ids."""

    name: bytes
    ordinal: int
    leaf_index: int
    row: Row
    status: MemoryStatus


class Follower:
    """A feature that follows what the core puts into a transaction; by default it does nothing."""

    def landed(self, change: Change, judged: Judged, landed: Landed) -> None:
        """Follow an admitted change, whose row is stored by now."""

    def ends(self, change: Change, known: IdRecord, step: int) -> None:
        """Follow a deletion or a purge at the ordinal `step`; `known` is the memory's record."""

    def erases(self, change: Change, ordinal: int, row: Row) -> None:
        """Follow the purge of one row, which is still stored."""

    def begins_anew(self, change: Change, name: bytes) -> None:
        """Follow the end of an id's earlier memory: nothing of it concerns the next one."""
