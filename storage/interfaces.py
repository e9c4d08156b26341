# ruff: noqa: TC001 - msgspec reads these annotations when it builds the decoders
"""What the rest of the system may ask of a store, with the promises each call makes.

Two engines implement these: `embedded` (LMDB + FAISS) and, later, PostgreSQL + pgvector.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from policy.editing import Edit
from policy.model import (
    Basis,
    Candidate,
    CandidateId,
    Digest,
    Entity,
    HistoryEntry,
    Hit,
    Memory,
    MemoryClass,
    MemoryId,
    Principal,
    PrincipalId,
    Provenance,
    SourceKind,
    Tenant,
)
from policy.verdict import Hold, Reason, Reject

if TYPE_CHECKING:
    from policy.facts import AnchorProbe, BudgetState, TokenState
    from policy.labels import Reading
    from policy.query import Filter
    from policy.ruleset import Ruleset
    from policy.trust import TrustState
    from storage.due import Due
    from storage.quarantine import Standing
    from storage.usage import TenantUsage


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One intercepted candidate with the evidence gathered before the writer's turn.

    `canonical` are the canonical bytes of `candidate`; what is staged, judged and stored is
    `canonical` alone, `candidate` is there so that nobody needs to decode it twice.
    """

    candidate_id: CandidateId
    candidate: Candidate
    canonical: bytes
    digest: Digest
    provenance: Provenance
    intercepted_at_ms: int
    reading: Reading
    token: TokenState
    # Key under which the promotion token is spent on admission (hash of the token), or None.
    token_key: bytes | None
    shadow: tuple[AnchorProbe, ...] | None
    budget: BudgetState | None
    # Unit-norm float32 little-endian vector of the text, and the model it belongs to; b"" for a
    # change without text.
    vector: bytes
    embedder_id: str
    trace_id: str  # W3C, of the request; opaque to the store, written into the verdict leaf
    # Guard mode: what the server behind files the memory under; None for a memory of our own.
    guarded_key: str | None = None
    # Where `provenance` rests on containment: the label under taint, and the text it was given for.
    tainted: Provenance | None = None
    edit: Edit | None = None
    seen_version: int = 0  # of the memory to change, for token and shadow; 0: there was none
    due: Due | None = None  # whether somebody still waits for the verdict


class Decision(enum.Enum):
    """What became of a candidate."""

    ADMIT = "admit"
    HOLD = "hold"
    REJECT = "reject"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The durable answer for one candidate, without content but for an admitted one's `memory`."""

    candidate_id: CandidateId
    decision: Decision
    reason: Reason | None
    step: int | None
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    passed: tuple[int, ...]
    structural: bool
    version: int  # the store's version after this outcome
    leaf_index: int  # of the verdict leaf
    memory: Memory | None
    trust: TrustState
    # What an enforcing gate would have answered, where an observing one admitted over it.
    objection: Hold | Reject | None = None
    replayed: bool = False  # the first verdict of an earlier identical request, given again
    # Monotonic durations in microseconds.
    queued_us: int = 0
    gate_us: int = 0
    commit_us: int = 0


class HeldCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate that waits for a person. `candidate` is decrypted from staging on request."""

    candidate_id: CandidateId
    principal_id: PrincipalId
    tenant: Tenant
    reason: Reason
    step: int
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    held_at_ms: int
    candidate: Candidate | None = None


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One API key. Only the SHA-256 of the key is stored; the id is its public handle."""

    key_id: str
    key_sha256: bytes
    principal: Principal
    created_at_ms: int
    revoked_at_ms: int | None = None


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that an operator registered as a source of truth, with its own questions."""

    anchor_id: str
    tenant: Tenant
    statement: str
    questions: tuple[str, ...]
    created_at_ms: int


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of a listing; `total` counts every match. `cut`: too large, so it ends early."""

    total: int
    memories: tuple[Memory, ...]
    cut: bool = False


class EntityPage(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of all ids; `total` counts every one. `cut`: too large, so it ends early."""

    total: int
    entities: tuple[Entity, ...]
    cut: bool = False


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `/readyz`, `doctor` and `metrics` show of a store."""

    incarnation: str
    version: int
    epoch: int
    ruleset_digest: str
    live_count: int
    held_count: int
    leaf_count: int
    bytes_used: int
    bytes_quota: int
    # False above the quota too, and from a write that the disk refused until it takes writes again.
    writable: bool
    reason: str | None  # why not writable; or what a person should know or do
    retrying: bool = False  # whether what the disk refused is tried again, without a new start
    observing: bool = False  # whether the gate admits what it objects to (observe mode)


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of walking the whole store; empty `problems` means sound."""

    rows: int
    vectors: int
    leaves: int
    version: int
    problems: tuple[str, ...]


class Failpoint(Protocol):
    """Called by name at each crash point of the write path; the shipped one does nothing."""

    def __call__(self, name: str, /) -> None:
        """Return, raise, or kill the process."""


class MemoryWriter(Protocol):
    """The only way anything becomes durable. Every method may be called from the event loop."""

    async def submit(self, submission: Submission) -> Outcome:
        """Stage, judge and, if admitted, commit one candidate, exactly once.

        When this returns, nonce, both audit leaves, trust and (if admitted) row, vector and
        version are on disk together, and a held candidate survives a crash. Cancelling the caller
        does not cancel the commit.

        Raises:
            StoreUnavailable: Queue full, quota reached, or not writable; nothing was written.
            OutcomeUnknown: The disk failed mid-commit and the store could not be reopened.
        """
        ...

    async def release(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Judge a held candidate again with a person's approval; raises as `deny` does."""
        ...

    async def deny(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Refuse a held candidate; its staging key is destroyed.

        Raises:
            UnknownCandidate: Nothing of that id is held.
        """
        ...

    async def quarantine(
        self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, reason: str = ""
    ) -> Standing:
        """Take a memory out of every read at once, with a leaf; again changes nothing.

        Raises:
            UnknownMemory: There is none of that id in the tenant.
        """
        ...

    async def parole(
        self, memory_id: MemoryId, tenant: Tenant, by: PrincipalId, reason: str = ""
    ) -> Standing:
        """Show a quarantined memory again; like `quarantine` in all else."""
        ...

    async def restore_trust(self, principal_id: PrincipalId, by: PrincipalId) -> TrustState:
        """The operator's way back up the trust ladder; leaves a leaf of its own."""
        ...

    async def put_key(self, record: KeyRecord, by: PrincipalId) -> None:
        """Add a key, or replace the record of the same key id (revocation); leaves a leaf."""
        ...

    async def put_anchor(self, anchor: Anchor, by: PrincipalId) -> None:
        """Register or replace an anchor; leaves a leaf."""
        ...

    async def record_outcome(self, principal_id: PrincipalId, *, good: bool) -> TrustState:
        """Feed a principal's soft score with what a memory of it turned out to be worth."""
        ...

    async def adopt_ruleset(self, ruleset: Ruleset, by: PrincipalId) -> Ruleset:
        """Put other rules in force for everything judged from here on; returned with their epoch.

        Another digest is another epoch, with a leaf; the same digest changes nothing.
        """
        ...

    async def compact(self) -> int:
        """Rewrite the store without its free pages, so that purged bytes are gone; bytes saved."""
        ...


class MemoryReader(Protocol):
    """Reads of the last committed generation. Quarantined, held and deleted items do not exist.

    Cheap calls (`get`, `keys`, `trust`) may run on the event loop; `search` and `page` are safe to
    call from any thread and may take milliseconds.
    """

    def get(self, tenant: Tenant, memory_id: MemoryId) -> Memory | None:
        """One live memory of a tenant."""
        ...

    def page(self, tenant: Tenant, where: Filter, offset: int, limit: int) -> Page:
        """Live memories that match, newest first; fewer than asked where they are large."""
        ...

    def ids(self, tenant: Tenant, where: Filter, limit: int) -> tuple[MemoryId, ...]:
        """The ids of live memories that match, newest first."""
        ...

    def history(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HistoryEntry, ...]:
        """The steps of one memory, oldest first, of a long history the newest; () if none."""
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
        """The `limit` nearest live memories that match, best first; older first on a tie.

        Scores are exact. In a large store the choice of rows is approximate, and may depend on
        what was merged meanwhile; with `exact` every live row is scored, for replays and tests.

        Raises:
            StoreUnavailable: The rows of a large store are still being read.
        """
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

    def keys(self) -> tuple[KeyRecord, ...]:
        """Every key record, revoked ones too."""
        ...

    def anchors(self, tenant: Tenant) -> tuple[Anchor, ...]:
        """The anchors of a tenant."""
        ...

    def trust(self, principal_id: PrincipalId) -> TrustState:
        """The trust of one principal; that of a newcomer where it never wrote."""
        ...

    def all_trust(self) -> tuple[tuple[PrincipalId, TrustState], ...]:
        """Every principal with a recorded trust."""
        ...

    def usage(self) -> tuple[TenantUsage, ...]:
        """What each tenant takes of the store, the largest first."""
        ...

    def status(self) -> StoreStatus:
        """A cheap summary."""
        ...

    def check(self) -> CheckReport:
        """Walk everything and report each contradiction. Seconds on a large store."""
        ...


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """The signed head of the log: the C2SP note, and the key that opens it."""

    size: int
    note: str
    verifier_key: str


class AuditProof(msgspec.Struct, frozen=True, kw_only=True):
    """That one leaf is in the log which `head` signs (RFC 6962 inclusion)."""

    leaf_index: int
    leaf: bytes
    root: bytes
    hashes: tuple[bytes, ...]
    head: AuditHead


class AuditReader(Protocol):
    """Reads of the audit log at its last signed head. Any thread."""

    def head(self) -> AuditHead:
        """The signed head."""
        ...

    def leaves(self, offset: int, limit: int) -> tuple[bytes, ...]:
        """Leaves as they are hashed, oldest first; () past the end."""
        ...

    def prove(self, index: int) -> AuditProof:
        """The proof for one leaf.

        Raises:
            UnknownLeaf: The log has no leaf of that index yet.
        """
        ...


class Embedder(Protocol):
    """Turns text into a vector. Two embedders' vectors never mix in one search."""

    embedder_id: str
    dimension: int

    def embed(self, texts: list[str]) -> list[bytes]:
        """Unit-norm float32 little-endian vectors, one per text; safe from any thread."""
        ...
