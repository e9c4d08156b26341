"""The interface of a store: what the rest of the system may ask, and what each call promises.

Two engines implement these: `embedded` (LMDB + FAISS) and, later, PostgreSQL + pgvector.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, Self

from policy.model import (
    CandidateId,
    HistoryEntry,
    Hit,
    Memory,
    MemoryId,
    PrincipalId,
    Reads,
    SourceKind,
    Tenant,
)
from policy.query import Filter
from policy.ruleset import Ruleset
from policy.trust.score import TrustState
from storage.audit import InterceptedLeaf, Leaf
from storage.features.together import Features
from storage.features.trust import OriginTrust
from storage.ground.errors import StoreCorrupt
from storage.values import (
    Anchor,
    AuditHead,
    AuditProof,
    BackupSummary,
    CheckReport,
    Denial,
    EntityPage,
    HeldCandidate,
    KeyRecord,
    Outcome,
    Page,
    Row,
    Sealed,
    SearchAnswer,
    StagedContents,
    StoreStatus,
    Submission,
    TenantUsage,
    TrustEvent,
    Turnover,
)
from storage.write.seam import TakesOrders


class MemoryWriter(TakesOrders, Protocol):
    """The only way anything becomes durable. Every method may be called from the event loop."""

    async def submit(self, submission: Submission) -> Outcome:
        """Stage, judge and, if admitted, commit one candidate, exactly once.

        When this returns, nonce, both leaves, trust and (if admitted) row, vector and version are
        on disk together, and a held candidate survives a crash. Cancelling the caller cancels no
        commit.

        Raises:
            StoreUnavailable: Queue full, quota reached, not writable, the writer did not begin in
                time, or the vector is not a unit vector of its embedder; nothing was written.
            OutcomeUnknown: The disk failed mid-commit and the store could not be reopened, or does
                not answer: repeat the request with the same nonce.
        """
        ...

    async def release(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Judge a held candidate again with a person's approval. It raises what `deny` raises."""
        ...

    async def deny(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Refuse a held candidate; its staging key is destroyed.

        Raises:
            UnknownCandidate: No held candidate has that id.
        """
        ...

    async def deny_many(
        self,
        candidate_ids: Sequence[CandidateId],
        by: PrincipalId,
        denial: Denial | None = None,
    ) -> dict[CandidateId, Outcome | None]:
        """Refuse as many of these held candidates as one short transaction can, at least one.

        `denial` is by default an act of its own, that denies all of their lines.

        Returns the outcomes, None for a candidate that is not held; one that is left out is
        undecided. The staging keys of refused candidates are erased when this returns.
        """
        ...

    async def adopt_ruleset(self, ruleset: Ruleset, by: PrincipalId) -> Ruleset:
        """Put other rules in force for all candidates that are judged from now on.

        Returns them with their epoch. Rules with another digest are another epoch, with a leaf.
        """
        ...

    async def compact(self) -> int:
        """Rewrite the store's file without free pages, to erase purged bytes.

        Returns bytes saved.
        """
        ...


class MemoryReader(Protocol):
    """Reads of the last committed generation. Quarantined, held and deleted items do not exist.

    Cheap calls (`get`, `keys`, `trust`) may run on the event loop; `search` and `page` are safe to
    call from any thread and may take milliseconds.
    """

    def at(self, reads: Reads) -> Self:
        """The reader of the rows at or above a floor: for it, nothing below exists.

        Of each memory it shows the newest row at or above the floor.
        """
        ...

    def stands_for(self, tenant: Tenant, memory_id: MemoryId) -> MemoryId:
        """The id that a change of a memory names for the gate; no one's for one below the floor."""
        ...

    def get(self, tenant: Tenant, memory_id: MemoryId) -> Memory | None:
        """One live memory; None if the tenant has no live memory with this id."""
        ...

    def id_of(self, tenant: Tenant, own_key: str, by: PrincipalId | None = None) -> MemoryId:
        """The id of the memory that clients of a tenant file under a key of their own.

        There may be no such memory. The same key in another tenant has another id, and so has the
        next memory under the key of one that is under quarantine, or below the floor and not
        written by `by`.
        """
        ...

    def source(self, tenant: Tenant, memory_id: MemoryId) -> SourceKind | None:
        """The label of one live memory, without reading its text; None where there is none."""
        ...

    def page(self, tenant: Tenant, where: Filter, offset: int, limit: int) -> Page:
        """Live memories that match, newest first; fewer than asked for where they are large."""
        ...

    def ids(self, tenant: Tenant, where: Filter, limit: int) -> tuple[MemoryId, ...]:
        """The ids of live memories that match, newest first."""
        ...

    def turnover(self, tenant: Tenant, where: Filter, seen: object, limit: int) -> Turnover | None:
        """Which of the live memories that match `where` came and went since an earlier call.

        `seen` is `Turnover.seen` of that call, None for a first call. The more changes, the longer
        this takes; it returns None where more than `limit` memories became live.
        """
        ...

    def history(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HistoryEntry, ...]:
        """The newest steps of one memory, oldest first, as many as fit; () if there is none."""
        ...

    def search(
        self,
        tenant: Tenant,
        vector: bytes,
        where: Filter,
        limit: int,
        threshold: float,
        *,
        exact: bool = False,
    ) -> tuple[Hit, ...]:
        """The live memories that match, nearest to a vector first, without what a replay needs."""
        ...

    def searched(
        self,
        tenant: Tenant,
        vector: bytes,
        where: Filter,
        limit: int,
        threshold: float,
        *,
        exact: bool = False,
        without: frozenset[MemoryId] = frozenset(),
        as_of: int | None = None,
        shows: Callable[[Memory], bool] | None = None,
    ) -> SearchAnswer:
        """The live memories nearest to a vector that match, with what a replay of the search needs.

        A memory over the cap of its origin (`storage.read.exposure`) comes last. Scores are exact.
        In a large store the choice of rows is approximate, and may depend on what was merged
        meanwhile; with `exact` every live row is scored, for replays and tests.

        For replays: `without` leaves memories out, whose places others fill. `as_of` searches the
        rows that were live at that version of the store, exactly, without those that are purged,
        quarantined or expired today; the caps are those of today.

        `shows` tells which of the memories found may be shown; the places of others are filled by
        the next ones. It is called on the calling thread, and may be asked about one memory twice.

        Raises:
            StoreUnavailable: The rows of a large store are still being read.
        """
        ...

    def trust(self, principal_id: PrincipalId) -> TrustState:
        """The trust of one principal; a newcomer's if the principal never wrote."""
        ...

    def all_trust(self) -> tuple[tuple[PrincipalId, TrustState], ...]:
        """Every principal with a recorded trust."""
        ...

    def trust_history(self, principal_id: PrincipalId) -> tuple[TrustEvent, ...]:
        """The last changes of a principal's trust, oldest first; at most 64."""
        ...

    def origin_trust(self, tenant: Tenant, server: str, tool: str) -> TrustState:
        """The trust of an origin; a newcomer's if nothing came from it."""
        ...

    def all_origins(self) -> tuple[OriginTrust, ...]:
        """Every origin with a recorded trust."""
        ...

    def origin_history(self, tenant: Tenant, server: str, tool: str) -> tuple[TrustEvent, ...]:
        """The last changes of an origin's trust, oldest first; at most 64."""
        ...

    def entities(self, tenant: Tenant, offset: int = 0) -> EntityPage:
        """The ids that live memories of a tenant are filed under, by kind and name."""
        ...

    def held(self, tenant: Tenant | None = None) -> tuple[HeldCandidate, ...]:
        """Held candidates, oldest first, without their content."""
        ...

    def held_candidate(self, candidate_id: CandidateId) -> HeldCandidate | None:
        """One held candidate with its content, for a person to read."""
        ...

    def denied(self) -> frozenset[CandidateId]:
        """The candidates of which a person denied a line that is not forgiven. Any thread."""
        ...

    def keys(self) -> tuple[KeyRecord, ...]:
        """Every key record, revoked ones too."""
        ...

    def anchors(self, tenant: Tenant) -> tuple[Anchor, ...]:
        """The anchors of a tenant, without its canaries."""
        ...

    def has_anchors(self) -> bool:
        """Whether any tenant has an anchor. Any thread."""
        ...

    def canaries(self) -> tuple[Anchor, ...]:
        """The canaries of all tenants: anchors that have a matcher alone. Any thread."""
        ...

    def usage(self) -> tuple[TenantUsage, ...]:
        """How many bytes of the store each tenant takes, the largest first."""
        ...

    def status(self) -> StoreStatus:
        """A summary of the store that is cheap to make."""
        ...

    def check(self) -> CheckReport:
        """Walk the whole store and report each contradiction. Seconds on a large store."""
        ...


class AuditReader(Protocol):
    """Reads of the audit log at its last signed head. Any thread."""

    def head(self) -> AuditHead:
        """The signed head of the log.

        Raises:
            StoreCorrupt: The stored note is missing, or was not signed by this store's key.
        """
        ...

    def leaves(self, offset: int, limit: int) -> tuple[bytes, ...]:
        """The bytes of some leaves, oldest first; () for an index after the last leaf."""
        ...

    def prove(self, index: int) -> AuditProof:
        """The proof for one leaf.

        Raises:
            UnknownLeaf: The log has no leaf of that index yet.
        """
        ...


class SessionLog(Protocol):
    """The session ledger's own records, encrypted; their meaning is the ledger's business.

    One writer, on the event loop. Where a call raises StoreUnavailable, records that were to be
    added go with the next ones, and a rewriting changed nothing.
    """

    @property
    def length(self) -> int:
        """The length of the log in bytes."""
        ...

    def add(self, records: Iterable[bytes]) -> asyncio.Future[None]:
        """Have records written soon; the returned future is done when they are durable."""
        ...

    async def append(self, records: Iterable[bytes] = ()) -> None:
        """Make these records durable, and all that were queued before."""

    async def rewrite(self, records: Iterable[bytes]) -> None:
        """Replace all earlier records by these."""

    async def check(self) -> str | None:
        """What is wrong with the log; None if it is sound."""
        ...

    async def close(self) -> None:
        """Write queued records, and release the file."""


class StagedCandidates(Protocol):
    """The staged candidates. Tests alter them here (MWP 3.2, attack A5)."""

    def staged_ids(self) -> frozenset[CandidateId]:
        """The ids of the undecided candidates."""
        ...

    def read(self, candidate_ids: Sequence[CandidateId]) -> list[StagedContents | None]:
        """The staged candidates; None for one that cannot be decrypted."""
        ...

    def sealed(self, candidate_id: CandidateId, contents: StagedContents) -> Sealed:
        """A candidate, encrypted and ready to be staged."""
        ...

    def put(self, sealed: Sequence[Sealed]) -> None:
        """Stage candidates, replacing those with the same ids."""


class Store(Features, ABC):
    """An open store, with everything that a running sidecar takes from an engine.

    Nothing is used after `close`.
    """

    reader: MemoryReader
    audit: AuditReader
    token_key: bytes  # an Ed25519 seed: signs promotion tokens
    prints_key: bytes  # what the session ledger's fingerprints are made with

    # A function that is called, on the writer's thread, for each hold that ended undecided, once
    # that end is durable.
    @property
    @abstractmethod
    def expired(self) -> Callable[[HeldCandidate, Outcome], None]:
        """Who is told of each held candidate whose wait ended undecided."""

    @expired.setter
    @abstractmethod
    def expired(self, told: Callable[[HeldCandidate, Outcome], None]) -> None: ...

    @property
    @abstractmethod
    def writer(self) -> MemoryWriter:
        """The store's writer: the only way anything becomes durable."""

    @property
    @abstractmethod
    def staging(self) -> StagedCandidates:
        """Where candidates wait for a verdict."""

    @property
    @abstractmethod
    def ruleset(self) -> Ruleset:
        """The ruleset in force, with its epoch."""

    @property
    @abstractmethod
    def time_ms(self) -> int:
        """The latest time of any write; the present is never before it, whatever a clock says."""

    @abstractmethod
    def open_session_log(self, scar: bytes) -> tuple[SessionLog, tuple[bytes, ...]]:
        """The session ledger's log, and what was in it. Blocks; once for each open store.

        If anything is lost, a new log is begun with the readable records and with `scar`, a record
        that marks it as incomplete for later starts.

        Raises:
            StoreUnavailable: The log cannot be opened or made.
        """

    @abstractmethod
    def read_cursor(self, name: str) -> bytes | None:
        """How far a reader of the log has come, as a number of leaves; None if it never said.

        Blocks.
        """

    @abstractmethod
    def write_cursor(self, name: str, cursor: bytes) -> None:
        """Store how far a reader of the log has come.

        Blocks. On an OSError nothing was changed.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish queued work, and give the store back. Blocks."""


class AuditedView(Protocol):
    """A store's contents for an auditor who recomputes what the log promises.

    Values are only decoded, not checked; an unreadable one raises StoreCorrupt.
    """

    leaf_count: int
    row_count: int

    def head(self) -> tuple[int, int] | None:
        """How many leaves and which version the store says it has; None before its first commit.

        Raises:
            UnknownFormat: Another version of this program wrote the store.
        """
        ...

    def checkpoint(self) -> bytes | None:
        """The last signed checkpoint."""
        ...

    def made_with(self, store_key: bytes) -> bool:
        """Whether ids and nonces are hashed under this key; True if the store does not tell."""
        ...

    def leaf(self, index: int) -> bytes | None:
        """The bytes of one leaf."""
        ...

    def node(self, level: int, index: int) -> bytes | None:
        """The stored hash of one complete subtree."""
        ...

    def live(self) -> frozenset[int]:
        """The positions, in the order of `rows`, of those rows that reads show."""
        ...

    def rows(self) -> Iterator[Row | StoreCorrupt | None]:
        """Every admitted change, in order; for one that cannot be read, the reason."""
        ...


class OfflineStore(Protocol):
    """A store on disk, read without a gate, also while a gate runs. Blocks.

    Never to be used in the gate's own process.
    """

    def viewed(self) -> AbstractContextManager[AuditedView]:
        """One consistent view for an auditor.

        Raises:
            StoreUnavailable: The store cannot be read, now or while it is viewed.
        """
        ...

    def leaves(self, since: int, limit: int) -> list[tuple[Leaf, InterceptedLeaf | None]]:
        """Committed leaves, oldest first, each with the interception it decides; [] past the end.

        Raises:
            StoreUnavailable: The store cannot be read.
            StoreCorrupt: A leaf is missing or damaged.
        """
        ...

    def back_up(
        self, target: Path, now_ms: int, *, with_secrets: bool, with_held: bool
    ) -> BackupSummary:
        """Copy one generation of the store, with a signed list of the files.

        Raises:
            BadBackup: The target is not an empty place outside the state directory.
            StoreUnavailable: The store cannot be read, or the target cannot be written.
        """
        ...


class Backup(Protocol):
    """A backup whose files, signatures and whole log were recomputed and agree."""

    summary: BackupSummary
    taken_at_ms: int

    def restore(
        self,
        *,
        state: Path,
        checkpoint: Path,
        ruleset: Ruleset,
        quota_bytes: int,
        by: PrincipalId,
        clock: Callable[[], int],
        session_records: Callable[[tuple[bytes, ...]], list[bytes]],
        accept_rollback: bool = False,
    ) -> StoreStatus:
        """Restore the backup into a new state directory as a new incarnation, with a leaf. Blocks.

        `session_records` returns the session log's records after the restore, from those before.

        Raises:
            BadBackup: The place is taken, or the restored store contradicts itself.
            StoreRolledBack: The checkpoint outside knows more or other leaves than the backup, and
                nobody accepted that.
            StorageError: The disk refused, or the store cannot be opened.
        """
        ...
