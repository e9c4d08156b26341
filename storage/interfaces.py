"""The interface of a store: the calls of the rest of the system, and the promises of each.

One engine implements it, `embedded` (LMDB and FAISS), on files of its own or on a copy of a store
that is durable in a journal (`storage.shipped`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
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
from storage.audit import AuditedView, InterceptedLeaf, Leaf
from storage.features.together import Features
from storage.features.trust import OriginTrust
from storage.questions import AnsweredQuestion, Question, WeighedText
from storage.values import (
    THE_STORE,
    Anchor,
    AuditHead,
    AuditProof,
    BackupSummary,
    CheckReport,
    Denial,
    Embed,
    EntityPage,
    HeldCandidate,
    KeyRecord,
    Outcome,
    Page,
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
    """The only calls that change a store durably. Call every method from an event loop."""

    async def submit(self, submission: Submission) -> Outcome:
        """Stage, judge and, if admitted, commit one candidate, exactly once; return the outcome.

        When this returns, nonce, both leaves, trust and (if admitted) row, vector and version are
        on disk together, and a held candidate survives a crash. If the caller is cancelled, the
        commit is not.

        Raises:
            StoreUnavailable: Queue full, quota reached, not writable, the writer did not begin in
                time, or the vector is not a unit vector of its embedder; nothing was written.
            OutcomeUnknown: The disk failed mid-commit and the store could not be reopened, or the
                writer does not answer: repeat the request with the same nonce.
        """
        ...

    async def release(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Judge a held candidate again with a person's approval. Raises what `deny` raises."""
        ...

    async def deny(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Refuse a held candidate, and destroy its staging key; return the outcome.

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
        """Refuse as many held candidates as one short transaction can, at least one.

        `denial` is the person's decision on their lines; without it, one new act denies all lines.
        Returns a mapping of ids to outcomes, None for a candidate that is not held; an id that is
        missing was not decided. The staging keys of refused candidates are erased when this
        returns.
        """
        ...

    async def adopt_ruleset(self, ruleset: Ruleset, by: PrincipalId) -> Ruleset:
        """Put a ruleset in force for all later verdicts; return it with its epoch.

        A ruleset with another digest than the last one begins a new epoch, with a leaf.
        """
        ...

    async def compact(self, by: PrincipalId = THE_STORE) -> int:
        """Rewrite the store's file without free pages, to erase purged bytes; return the saving."""
        ...


class Contest(Protocol):
    """Registered questions with their answers, with which texts are compared. Event loop only."""

    def scores(self, text: str, vector: bytes) -> tuple[list[float], list[float]]:
        """For each question the score of its own answer, and that of the text.

        Both are scored as if a person had said them. `vector` is the text's embedding.

        Raises:
            StoreUnavailable: The rows of a large store are still being read after the start.
        """
        ...


class MemoryReader(Protocol):
    """Reads of the last committed generation. Quarantined, held and deleted memories are not shown.

    Cheap calls (`get`, `keys`, `trust`) may run on the event loop. `search` and `page` may take
    milliseconds; they may run on any thread.
    """

    def at(self, reads: Reads, *, expired: bool = False) -> Self:
        """A reader of the rows whose label is at or above a floor; it shows no other row.

        Of each memory the reader shows the newest row at or above the floor. With `expired` it also
        shows memories past an expiry of their own, but none that an incident let expire.
        """
        ...

    def stands_for(self, tenant: Tenant, memory_id: MemoryId) -> MemoryId:
        """The id by which a change names a memory to the gate; unused if it is below the floor."""
        ...

    def get(self, tenant: Tenant, memory_id: MemoryId) -> Memory | None:
        """One live memory; None if the tenant has no live memory with this id."""
        ...

    def id_of(self, tenant: Tenant, own_key: str, by: PrincipalId | None = None) -> MemoryId:
        """The id of the memory that clients of a tenant file under a key of their own.

        There may be no such memory. The same key in another tenant has another id. If the memory
        under the key is in quarantine, or below the floor and not written by `by`, the result is
        the id for the next memory under the key.
        """
        ...

    def source(self, tenant: Tenant, memory_id: MemoryId) -> SourceKind | None:
        """The label of one live memory, without reading its text; None if it does not exist."""
        ...

    def page(self, tenant: Tenant, where: Filter, offset: int, limit: int) -> Page:
        """Live memories that match, newest first; fewer than `limit` if their texts are large."""
        ...

    def ids(self, tenant: Tenant, where: Filter, limit: int) -> tuple[MemoryId, ...]:
        """The ids of live memories that match, newest first."""
        ...

    def turnover(self, tenant: Tenant, where: Filter, seen: object, limit: int) -> Turnover | None:
        """The live memories that match `where` and came or went since an earlier call.

        `seen` is `Turnover.seen` of the earlier call, None for a first call. The cost grows with
        the number of changes. None is returned if more than `limit` memories became live.
        """
        ...

    def history(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HistoryEntry, ...]:
        """The newest versions of one memory, oldest first, as many as fit; () if there is none."""
        ...

    def search(
        self,
        tenant: Tenant,
        vector: bytes,
        where: Filter,
        limit: int,
        threshold: float,
        *,
        words: bytes = b"",
        exact: bool = False,
    ) -> tuple[Hit, ...]:
        """The live memories that match, best first; the hits of `searched` alone."""
        ...

    def searched(
        self,
        tenant: Tenant,
        vector: bytes,
        where: Filter,
        limit: int,
        threshold: float,
        *,
        words: bytes = b"",
        exact: bool = False,
        among: Sequence[int] | None = None,
        shows: Callable[[Memory], bool] | None = None,
    ) -> SearchAnswer:
        """The live memories that match, best first, with the facts for a replay.

        The score is that of docs/search.md: of the likeness, the question's hashed `words`
        (`MemoryReader.words`) and the trust in the memory's label. `threshold` is the least cosine.
        A memory over the cap of its origin (`storage.read.exposure`) comes last. Scores are exact.
        In a large store the choice of rows is approximate, and may depend on which segments are
        merged. With `exact` every live row is compared, for replays and tests.
        `shows` returns whether a memory may be shown; the next memories take the places of those
        that may not. It is called on the calling thread, maybe twice for one memory.
        For operators: with `among` the newest rows with these ordinals are searched, those in
        quarantine too.

        Raises:
            StoreUnavailable: The rows of a large store are still being read after the start.
        """
        ...

    def words(self, tenant: Tenant, text: str) -> bytes:
        """The hashed words of a question, for `searched`; b"" if it has no words to search for.

        Words of another version of the analysis find nothing, so the search is by vector alone.
        """
        ...

    def scores(
        self, tenant: Tenant, question: Question, texts: Sequence[WeighedText]
    ) -> list[float]:
        """The score of each text for a question, if a live memory of the tenant had the text.

        Each word of the question counts as if a memory had it.
        """
        ...

    def contest(self, tenant: Tenant, answered: Sequence[AnsweredQuestion]) -> Contest:
        """Registered questions, at least one, to compare texts with their answers."""
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
        """The ids under which live memories of a tenant are filed, by kind and name."""
        ...

    def held(self, tenant: Tenant | None = None) -> tuple[HeldCandidate, ...]:
        """Held candidates, oldest first, without their content."""
        ...

    def held_candidate(self, candidate_id: CandidateId) -> HeldCandidate | None:
        """One held candidate with its content, for a person to read."""
        ...

    def denied(self) -> frozenset[CandidateId]:
        """The candidates of which a person denied a line, unless it was forgiven. Any thread."""
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
        """The canaries of all tenants: anchors that have only a matcher. Any thread."""
        ...

    def usage(self) -> tuple[TenantUsage, ...]:
        """The bytes of the store that each tenant uses, the largest number first."""
        ...

    def status(self) -> StoreStatus:
        """A summary of the store that is cheap to make."""
        ...

    def check(self, embed: Embed | None = None) -> CheckReport:
        """Read the whole store; report what the gate did not write. Takes seconds for a large one.

        `embed` makes vectors of texts, as the store's own embedder; then each stored vector of that
        embedder is compared with its text's.
        """
        ...


class AuditReader(Protocol):
    """Reads of the audit log at its last signed head. Any thread."""

    def head(self) -> AuditHead:
        """The signed head of the log.

        Raises:
            StoreCorrupt: The stored note is missing, or was not signed by this store's key.
        """
        ...

    def signed(self, text: str) -> str:
        """A text, which ends in a newline, as a note that the log's key signed."""
        ...

    def leaves(self, offset: int, limit: int) -> tuple[bytes, ...]:
        """The bytes of up to `limit` leaves from `offset` on; () after the last leaf."""
        ...

    def prove(self, index: int) -> AuditProof:
        """The proof that one leaf is in the log.

        Raises:
            UnknownLeaf: The log has no leaf with that index yet.
        """
        ...

    def continues(self, old: int, size: int) -> tuple[bytes, ...]:
        """The consistency proof (RFC 6962) of the heads with `old` and with `size` leaves.

        Raises:
            ValueError, StoreCorrupt: There are no such heads, or a stored node is missing.
        """
        ...


class SessionLog(Protocol):
    """The session ledger's own log of encrypted records, whose meaning only the ledger knows.

    One writer, on the event loop. If a call raises StoreUnavailable, records to be added are
    written with the next ones, and a rewriting changed nothing.
    """

    @property
    def length(self) -> int:
        """The length of the log in bytes."""
        ...

    def add(self, records: Iterable[bytes]) -> asyncio.Future[None]:
        """Queue records to be written soon; the returned future is done when they are durable."""
        ...

    async def append(self, records: Iterable[bytes] = ()) -> None:
        """Make these records, and all that were queued before, durable."""

    async def rewrite(self, records: Iterable[bytes]) -> None:
        """Replace all earlier records by these."""

    async def check(self) -> str | None:
        """The first defect of the log, in words; None if it is sound."""
        ...

    async def close(self) -> None:
        """Write queued records, and close the file."""


class StagedCandidates(Protocol):
    """The staged candidates, for tests that alter them (MWP 3.2, attack A5)."""

    def staged_ids(self) -> frozenset[CandidateId]:
        """The ids of the undecided candidates."""
        ...

    def read(self, candidate_ids: Sequence[CandidateId]) -> list[StagedContents | None]:
        """The contents of staged candidates; None for one that cannot be decrypted."""
        ...

    def sealed(self, candidate_id: CandidateId, contents: StagedContents) -> Sealed:
        """Encrypt a candidate for staging."""
        ...

    def put(self, sealed: Sequence[Sealed]) -> None:
        """Stage candidates, replacing those with the same ids."""


class Store(Features, ABC):
    """An open store: all that a running sidecar uses of an engine. Call nothing after `close`."""

    reader: MemoryReader
    audit: AuditReader
    token_key: bytes  # an Ed25519 seed: signs promotion tokens
    prints_key: bytes  # the key of the fingerprints of the session ledger

    # The function that is called on the writer's thread for each hold that expired without a
    # decision, once the refusal is durable.
    @property
    @abstractmethod
    def expired(self) -> Callable[[HeldCandidate, Outcome], None]:
        """The function that is called for each hold that expired without a decision."""

    @expired.setter
    @abstractmethod
    def expired(self, told: Callable[[HeldCandidate, Outcome], None]) -> None: ...

    @property
    @abstractmethod
    def writer(self) -> MemoryWriter:
        """The store's writer, through which alone the store is changed."""

    @property
    @abstractmethod
    def staging(self) -> StagedCandidates:
        """The staging of candidates that wait for a verdict."""

    @property
    @abstractmethod
    def ruleset(self) -> Ruleset:
        """The ruleset in force, with its epoch."""

    @property
    @abstractmethod
    def time_ms(self) -> int:
        """The latest time of any write (Unix ms); the store's clock never goes back before it."""

    @property
    @abstractmethod
    def broken(self) -> bool:
        """Whether nothing can be written any more until the store is opened again."""

    @abstractmethod
    def open_session_log(self, scar: bytes) -> tuple[SessionLog, tuple[bytes, ...]]:
        """The session ledger's log and the records in it. Blocks; call it once for an open store.

        If a part of the log is lost, a new log is begun with the readable records and with `scar`,
        a record that marks the log as incomplete for later starts. The log of a shared store is in
        the journal, and is whole or refused.

        Raises:
            StoreCorrupt: A row of the journal is missing, was changed, or is of another history.
            StoreUnavailable: The log cannot be opened or created.
        """

    @abstractmethod
    def read_cursor(self, name: str) -> bytes | None:
        """The number of leaves that a reader of the log has read; None if not stored. Blocks."""

    @abstractmethod
    def write_cursor(self, name: str, cursor: bytes) -> None:
        """Store the number of leaves that a reader of the log has read.

        Blocks. If an OSError is raised, the number is unchanged.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish queued work, and release the state directory. Blocks."""


class OfflineStore(Protocol):
    """A store on disk that is read without a gate, also while a gate is running. Blocks.

    Do not use it in the gate's own process.
    """

    def viewed(self) -> AbstractContextManager[AuditedView]:
        """One consistent view for an auditor.

        Raises:
            StoreUnavailable: The store cannot be read, now or while it is viewed.
        """
        ...

    def leaves(self, since: int, limit: int) -> list[tuple[Leaf, InterceptedLeaf | None]]:
        """Committed leaves from `since` on, each with the interception it decides; [] past the end.

        Raises:
            StoreUnavailable: The store cannot be read.
            StoreCorrupt: A leaf is missing or damaged.
        """
        ...

    def export_tiles(self, target: Path, *, entries: bool, witnessed: bool) -> AuditHead:
        """Write the log to a directory as C2SP tlog-tiles; return the head that is there then.

        The head is the newest one; with `witnessed`, the one that the configured witnesses cosigned
        last. With `entries`, the leaves themselves are written too. A complete tile is never
        rewritten.

        Raises:
            StoreRolledBack: The directory has a head that this log does not continue.
            StoreUnavailable: The store cannot be read, another user can write the directory, or it
                was begun with or without `entries`, and this is the opposite.
            OSError: The directory cannot be written.
        """
        ...

    def back_up(
        self, target: Path, now_ms: int, *, with_secrets: bool, with_held: bool
    ) -> BackupSummary:
        """Copy one generation of the store, with a signed list of the files; return a summary.

        Raises:
            BadBackup: The target is not an empty directory outside the state directory.
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

        `session_records` maps the session log's records of the backup to those after the restore.

        Raises:
            BadBackup: The state directory is not empty.
            StoreRolledBack: The checkpoint outside the store names more or other leaves than the
                backup has, and `accept_rollback` is False.
            StorageError: The disk refused, or the store cannot be opened.
        """
        ...
