# ruff: noqa: TC001 - msgspec reads these annotations when it builds the decoders
"""Values that cross the seam of a store, whatever engine stands behind it."""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from policy.labels.editing import Edit
from policy.model import (
    Basis,
    Candidate,
    CandidateId,
    ChangeKind,
    Digest,
    Entity,
    Forwarded,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    Principal,
    PrincipalId,
    Provenance,
    Scope,
    SourceKind,
    Tenant,
)
from policy.verdict import Hold, Reason, Reject

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.facts import AnchorProbe, BudgetState, TokenState
    from policy.labels.derive import Reading
    from policy.trust.ladder import TrustState
    from storage.deadline import Due

STAGED_IN_MEMORY: Final = "memfd"
THE_STORE: Final = PrincipalId("mnemogate")
"""Signs leaves about what the store did by itself."""
MODE_OBSERVE: Final = "mode.observe"
MODE_ENFORCE: Final = "mode.enforce"
FORGIVE: Final = "withholding.forgive"
QUARANTINE: Final = "memory.quarantine"
PAROLE: Final = "memory.parole"
VOUCH: Final = "memory.vouch"
QUARANTINE_REASON_LEN_MAX: Final = 160

Settled = tuple[CandidateId, Forwarded]
Tools = tuple[tuple[str, str], ...]


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
    # Whether the credential that it came in on is still good; None: nothing that could end.
    welcome: Callable[[], bool] | None = None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What staging holds of one candidate: its canonical bytes, and what else was gathered."""

    canonical: bytes
    evidence: bytes


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate on its way into staging: a ciphertext, and the only key that opens it."""

    candidate_id: CandidateId
    key: bytes
    data: bytes


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
    ceiling: SourceKind
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
    ceiling: SourceKind
    basis: Basis
    held_at_ms: int
    # Where it comes from, as coarsely as a leaf may say it: a label, a server, a tool.
    origin: str = ""
    candidate: Candidate | None = None
    # With the content only: the trace of the write, which its verdicts belong to.
    trace_id: str = ""


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


class Turnover(msgspec.Struct, frozen=True, kw_only=True):
    """What became live, and what no longer is, since an earlier look; by the store's own numbers.

    A number is that of one state of a memory: an update ends one and begins another. `seen` is for
    the next look, and means nothing to anybody else.
    """

    came: tuple[tuple[int, Memory], ...]
    gone: tuple[int, ...]
    seen: object


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
    held_since_ms: int | None = None  # since when the oldest waits for a person
    # Where candidates are before their verdict: "memfd", "unlinked file", or "" for nowhere yet.
    staged_in: str = STAGED_IN_MEMORY


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of walking the whole store; empty `problems` means sound."""

    rows: int
    vectors: int
    leaves: int
    version: int
    problems: tuple[str, ...]


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


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Whether reads may show a memory; `leaf_index` is of the change, where there was one."""

    memory_id: MemoryId
    tenant: Tenant
    status: MemoryStatus
    changed: bool = False
    leaf_index: int | None = None


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one tenant takes of the store, and how much it may take."""

    tenant: Tenant
    bytes_used: int
    bytes_quota: int


class Objection(msgspec.Struct, frozen=True, kw_only=True):
    """A stored memory, and the first step in its life that was objected to."""

    memory: Memory
    decision: str  # "hold" | "reject"
    reason: Reason | None
    step: int | None
    leaf_index: int


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """The server that is meant, as the tenant whose memory is behind it knows it; and who asks."""

    tenant: Tenant
    target: str
    by: PrincipalId


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted change that the server behind does not have for sure."""

    candidate_id: CandidateId
    candidate: Candidate
    sent: bool
    unknown: bool  # the log says that the answer was lost


class Stands(enum.Enum):
    """How a change that was to reach another server stands now."""

    HELD = "held"
    DENIED = "denied"
    FORWARDING = "forwarding"
    LIVE = "live"
    QUARANTINED = "quarantined"
    GONE = "gone"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """One change and how it stands; `candidate` None where its content is gone, or not asked for.

    `name` is the candidate's id while it waits for a person, else the memory's.
    """

    name: str
    stands: Stands
    tenant: Tenant | None = None
    candidate: Candidate | None = None


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What moved up to a leaf, in order. `whole`: nothing that was known before counts any more."""

    leaf_count: int
    moved: tuple[Moved, ...]
    whole: bool = False


class Pinned(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The tools of one server as (name, digest), sorted. Times in the log, not here."""

    tenant: Tenant
    server: str
    approved: Tools
    seen: Tools

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of tools that are new, gone, or another than was approved."""
        return tuple(sorted({name for name, _ in set(self.approved) ^ set(self.seen)}))

    @property
    def digest(self) -> str:
        """What a person names to approve the list that was seen: hex, 16 digits.

        It covers the sorted names and digests. A name cannot hold the separator: digests are hex,
        and come first.
        """
        joined = "\n".join(f"{digest} {name}" for name, digest in sorted(self.seen))
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What an update left as it was: the values of the row before it."""

    text: str | None
    metadata_json: str | None
    scope: Scope
    target: str
    role: str | None
    actor: str | None
    expires_at: str | None
    derived_from: tuple[MemoryId, ...]


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One admitted change. Immutable, except that a purge replaces it by an `erased` one.

    `canonical` are the judged bytes themselves: with `salt` they open the commitment in the leaf.
    """

    change: ChangeKind
    tenant: Tenant
    principal_id: PrincipalId
    memory_id: MemoryId
    candidate_id: CandidateId
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    version: int
    at_ms: int
    created_at_ms: int
    prev_ordinal: int
    leaf_index: int
    salt: bytes
    embedder_id: str  # "" where the row has no vector
    scope: Scope
    expires_at: str | None
    kept: Kept | None
    canonical: bytes
    erased: bool = False
    # Guard mode: keyed name (8 bytes) of tenant, target and key; b"" where nothing is forwarded.
    keyed: bytes = b""
    # None in a row of format 3: `policy.labels.ceiling.ceiling_of` says what it counts as.
    ceiling: SourceKind | None = None


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of, and what is in it."""

    directory: str
    incarnation: str
    version: int
    leaf_count: int
    held_count: int
    with_secrets: bool  # whether it can be restored by itself
    with_held: bool  # whether held candidates came along
    bytes: int
