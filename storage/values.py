"""The values that cross the store's interface, independent of the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policy.after.matchers import Matcher
from policy.facts import AnchorProbe, BudgetState, TokenState
from policy.model import (
    PRINCIPAL,
    Basis,
    Candidate,
    CandidateId,
    ChangeKind,
    Digest,
    Entity,
    ForwardStatus,
    Hit,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    Origin,
    Principal,
    PrincipalId,
    Provenance,
    Reading,
    Scope,
    SourceKind,
    Tenant,
    Word,
)
from policy.trust.score import TrustState
from policy.verdict import Hold, Reason, Reject
from storage.ground.clock import Due

if TYPE_CHECKING:
    from policy.withheld.pieces import Piece  # its module compiles the lists of eight languages

STAGED_IN_MEMORY: Final = "memfd"
THE_STORE: Final = PrincipalId("mnemogate")
"""The principal in leaves about acts of the store itself."""
ADOPTS: Final = PrincipalId("mnemogate:import")
"""The principal of memories that the gate adopts from a server. No key has this name."""
MODE_OBSERVE: Final = "mode.observe"
MODE_ENFORCE: Final = "mode.enforce"
FORGIVE: Final = "withholding.forgive"
QUARANTINE: Final = "memory.quarantine"
QUARANTINE_END: Final = "memory.unhide"
CONFIRM: Final = "memory.confirm"
REWIND: Final = "memory.rewind"
EXPIRE: Final = "memory.expire"
QUARANTINE_REASON_LEN_MAX: Final = 160

Settled = tuple[CandidateId, ForwardStatus]
NO_KEYS: Final[Mapping[CandidateId, str]] = MappingProxyType({})
"""The argument for a settling in which no server gave a memory a new key."""
Tools = tuple[tuple[str, str], ...]


class GatheredEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that is gathered about a candidate before the writer decides."""

    provenance: Provenance
    intercepted_at_ms: int
    token: TokenState
    # The hash of the promotion token, under which its use is recorded on admission; or None.
    token_key: bytes | None
    shadow: tuple[AnchorProbe, ...] | None
    budget: BudgetState | None
    # The vector of the text (unit norm, float32, little-endian), and below it the name of its
    # embedding model; b"" for a change without a text.
    vector: bytes
    embedder_id: str
    # The W3C trace id of the request, which the store copies into the interception leaf.
    trace_id: str
    # Guard mode: the key under which the upstream server files the memory; else None.
    guarded_key: str | None = None
    # Guard mode: bytes that are sent with the memory, whose digest is in the candidate's metadata;
    # they are stored until a person has decided and the upstream server has the memory.
    guarded_blob: bytes = b""


class Submission(GatheredEvidence, frozen=True, kw_only=True):
    """One intercepted candidate with the evidence gathered before the writer decides.

    `canonical` are the canonical bytes of `candidate`; only `canonical` is staged, judged and
    stored. `candidate` is the same in decoded form, so that the bytes need not be decoded again.
    """

    candidate_id: CandidateId
    candidate: Candidate
    canonical: bytes
    digest: Digest
    reading: Reading
    # Guard mode: the text after the change, if it is known; `reading` then covers it.
    text_after: str | None = None
    # Whether the candidate repeats a sentence of a hidden memory.
    repeats_hidden: bool = False
    # The version of the changed memory for which token and shadow are valid; 0 if there is none.
    seen_version: int = 0
    # The deadline of the decision, shared with the waiting request; None if no request waits.
    due: Due | None = None
    # Returns whether the request's credential is still valid; None for one that cannot end.
    welcome: Callable[[], bool] | None = None
    # The person who was shown all of the candidate and approved it before it was judged.
    approved_by: PrincipalId | None = None


class StagedContents(msgspec.Struct, frozen=True, kw_only=True):
    """The staged content of one candidate: its canonical bytes, and further evidence."""

    canonical: bytes
    evidence: bytes


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate on its way into staging: a ciphertext, and the only key that decrypts it."""

    candidate_id: CandidateId
    key: bytes
    data: bytes


class Decision(Word):
    """What the gate decided on a candidate."""

    ADMIT = "admit"
    HOLD = "hold"
    REJECT = "reject"


class OutcomeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The durable outcome of one candidate, in the fields that an operator is shown."""

    candidate_id: CandidateId
    decision: Decision
    reason: Reason | None
    step: int | None
    memory_class: MemoryClass
    version: int  # the store's version after this verdict
    leaf_index: int  # the index of the verdict leaf


class Outcome(OutcomeSummary, frozen=True, kw_only=True):
    """The durable outcome of one candidate; `memory` is None unless the candidate was admitted."""

    source: SourceKind
    basis: Basis
    passed: tuple[int, ...]
    structural: bool
    memory: Memory | None
    trust: TrustState
    # The objection that an enforcing gate would have made, if the gate only observes.
    objection: Hold | Reject | None = None
    # Whether this outcome repeats the first verdict of an identical request.
    replayed: bool = False
    # Microseconds: waiting for the writer, deciding, and the whole batch with its commit.
    queued_us: int = 0
    gate_us: int = 0
    commit_us: int = 0


class HeldSummary(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One candidate that waits for a person, without its content."""

    candidate_id: CandidateId
    principal_id: PrincipalId
    tenant: Tenant
    reason: Reason
    step: int
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    held_at_ms: int
    # The origin, in the coarse form that a leaf has: a label, or server and tool.
    origin: str = ""
    # Whether the session that wrote the candidate had read foreign text.
    after_reading: bool = False
    # The id of the group of the candidate; all candidates of a group are decided together.
    group: str = ""
    # Ids of the anchors that the candidate contradicts or would have displaced in the trial search;
    # only set together with the content.
    anchors: tuple[str, ...] = ()


class HeldCandidate(HeldSummary, frozen=True, kw_only=True):
    """One candidate that waits for a person. `candidate` is decrypted from staging on request."""

    # The keys of the lines that the candidate adds or removes.
    lines: tuple[bytes, ...] = ()
    candidate: Candidate | None = None
    # The sidecar's id of the session that wrote it; None if unknown. Set with the content alone.
    session: str | None = None
    # The trace of the write and of its verdicts; only set together with the content.
    trace_id: str = ""
    # The segments that contain the text; only set together with the content.
    culprits: tuple[Origin, ...] = ()


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A person's act of denial; its id `act` counts once, however many candidates it denies.

    With `struck`, only these lines are denied, and the other lines of each candidate are released.
    `applied`: the person wrote the other lines herself, so no call may carry them out.
    """

    act: str
    struck: frozenset[bytes] | None = None
    applied: bool = False


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One API key. Only the SHA-256 of the key is stored; the id is a handle that may be shown."""

    key_id: str
    key_sha256: bytes
    principal: Principal
    created_at_ms: int
    revoked_at_ms: int | None = None


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that an operator registered as a source of truth, with its own questions.

    A canary is an anchor without a statement: its questions are searched for at intervals, and
    `matcher` determines what the answers may contain.
    """

    anchor_id: str
    tenant: Tenant
    statement: str
    questions: tuple[str, ...]
    created_at_ms: int
    matcher: Matcher | None = None

    @property
    def is_canary(self) -> bool:
        """Whether this anchor is a canary, which has no statement but only a matcher."""
        return not self.statement


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of a listing; `total` counts every match.

    `cut`: the slice was shortened, because it would have been too large.
    """

    total: int
    memories: tuple[Memory, ...]
    cut: bool = False


class Turnover(msgspec.Struct, frozen=True, kw_only=True):
    """The ordinals that became live, and those that are no longer live, since an earlier call.

    An ordinal is one version of a memory: an update ends one ordinal and begins another. `seen` is
    passed to the next call; only the store reads its content.
    """

    came: tuple[tuple[int, Memory], ...]
    gone: tuple[int, ...]
    seen: object


class EntityPage(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of all ids; `total` counts all. `cut`: the slice was shortened to fit."""

    total: int
    entities: tuple[Entity, ...]
    cut: bool = False


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a store for `/readyz`, `doctor` and `metrics`."""

    incarnation: str
    version: int
    epoch: int
    ruleset_digest: str
    live_count: int
    held_count: int
    leaf_count: int
    bytes_used: int
    bytes_quota: int
    # Whether writes are accepted: False above the quota, and after a write that the disk refused
    # until the disk accepts writes again.
    writable: bool
    reason: str | None  # why no writes are accepted, or what an operator should know or do
    retrying: bool = False  # whether the store tries again by itself after a refused write
    observing: bool = False  # whether the gate only observes (observe mode)
    # The time since which the oldest held candidate waits for a person; None if none waits.
    held_since_ms: int | None = None
    # Where undecided candidates are stored: "memfd", "unlinked file"; "" for nowhere yet.
    staged_in: str = STAGED_IN_MEMORY
    # How many stored values a read found not to match their digests; `reason` names them.
    mismatched: int = 0


Embed = Callable[[list[str]], list[bytes]]
"""Makes a vector of each text, at unit norm, float32 little-endian."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading the whole store; empty `problems` means that it is sound."""

    rows: int
    vectors: int
    leaves: int
    version: int
    problems: tuple[str, ...]


class AuditHead(msgspec.Struct, frozen=True, kw_only=True, rename={"note": "checkpoint"}):
    """The signed head of the log: the C2SP note, and the key that opens it."""

    size: int
    note: str
    verifier_key: str


class AuditProof(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that a leaf is in the log that `head` signs (RFC 6962 inclusion)."""

    leaf_index: int
    leaf: bytes
    root: bytes
    hashes: tuple[bytes, ...]
    head: AuditHead


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """Whether reads may show a memory.

    `leaf_index` names the leaf of the change, if there was one.
    """

    memory_id: MemoryId
    tenant: Tenant
    status: MemoryStatus
    changed: bool = False
    leaf_index: int | None = None
    # How many memories that were derived from this one are hidden with it, and were shown before.
    descendants: int = 0


class TrustEvent(msgspec.Struct, frozen=True, array_like=True):
    """One of the last changes of a trust, and the leaf that records the change.

    `kind` is the kind of an outcome, or `RESTORED`. `cause` is the index of the leaf of the act:
    the verdict, the denial, the quarantine. `became` is "latched" or "unlatched" if the latch
    changed.
    """

    at_ms: int
    kind: str
    leaf_index: int
    cause: int | None = None
    became: str = ""


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes that one tenant uses, and may use."""

    tenant: Tenant
    bytes_used: int
    bytes_quota: int


class AdmittedObjection(msgspec.Struct, frozen=True, kw_only=True):
    """A stored memory, with the first step of its history that was admitted over an objection."""

    memory: Memory
    decision: str  # what an enforcing gate would have answered: "hold" or "reject"
    reason: Reason | None
    step: int | None
    leaf_index: int


class GuardedServer(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream server whose memory the gate guards, with the tenant and principal that ask."""

    tenant: Tenant
    target: str
    by: PrincipalId


class PendingForward(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted change that the upstream server may not have received."""

    candidate_id: CandidateId
    candidate: Candidate
    sent: bool
    unknown: bool  # whether, according to the log, the server's answer was lost
    blob: bytes = b""


class HidingActor(msgspec.Struct, frozen=True, kw_only=True):
    """Who hides a memory, as a leaf of the log says; `why` is the leaf's own words."""

    by: PrincipalId
    at_ms: int
    why: str
    # The isolation or rewind for which the memory was hidden; None for any other reason.
    incident_id: str | None


class ForwardState(Word):
    """The state of a memory on an upstream server."""

    FORWARDING = "forwarding"
    LIVE = "live"
    QUARANTINED = "quarantined"
    GONE = "gone"


class UpstreamChange(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a memory on an upstream server after one change.

    `candidate` is None if its content is erased, or was not asked for. `name` is the memory's id.
    """

    name: str
    stands: ForwardState
    tenant: Tenant | None = None
    candidate: Candidate | None = None
    # The label of the memory's newest row; None without content.
    source: SourceKind | None = None
    # The key under which the upstream server files the memory; "" if it has none.
    key: str = ""
    # The ordinal of the row that was sent.
    ordinal: int = 0
    # The rules for which a memory is in quarantine; () if it is hidden for another reason too.
    rule_ids: tuple[str, ...] = ()


class EndedText(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces of a text that was erased in the store, while its server may still have it.

    `pieces` maps each piece to an ordinal. The piece is withheld unless another memory contains it
    whose ordinal is lower.
    """

    tenant: Tenant
    target: str
    pieces: dict[Piece, int]


class ClosedKey(NamedTuple):
    """Whether a key of an upstream server is closed, so that no reader is shown its content."""

    mine: bool  # for the tenant that asks
    others: bool  # for another tenant


class UpstreamMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory under one key of an upstream server, according to the verdicts of this gate.

    `candidate` is the newest change that was admitted, and `number` is the ordinal of its row.
    """

    number: int
    tenant: Tenant
    memory_id: MemoryId
    candidate_id: CandidateId
    key: str
    stands: ForwardState  # LIVE, QUARANTINED, or FORWARDING while a change is on its way
    candidate: Candidate


class QuarantinedText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of one version of a memory in quarantine.

    `candidate` has the text and the metadata of that version, including inherited ones.
    """

    candidate_id: CandidateId
    memory_class: MemoryClass
    candidate: Candidate
    ordinal: int
    # The same as `UpstreamChange.rule_ids`.
    rule_ids: tuple[str, ...] = ()


class UpstreamChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of memories on upstream servers, in order, up to one leaf of the audit log.

    `whole`: these are the states of all memories, and earlier knowledge is void.
    """

    leaf_count: int
    moved: tuple[UpstreamChange, ...]
    whole: bool = False
    forgotten: tuple[EndedText, ...] = ()


class PinnedTools(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The tools of one server as (name, digest), sorted. The log records when they were seen."""

    tenant: Tenant
    server: str
    approved: Tools
    seen: Tools

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of tools that are new, gone, or changed since the list was approved."""
        return tuple(sorted({name for name, _ in set(self.approved) ^ set(self.seen)}))

    @property
    def digest(self) -> str:
        """The digest with which a person approves exactly this list: hex, 16 digits.

        The digest covers the sorted names and digests. No name can pass for the end of a digest,
        because digests are hex and come first.
        """
        joined = "\n".join(f"{digest} {name}" for name, digest in sorted(self.seen))
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class InheritedFields(msgspec.Struct, frozen=True, array_like=True):
    """The fields that an update left unchanged, with the values of the earlier row."""

    text: str | None
    metadata_json: str | None
    scope: Scope
    target: str
    role: str | None
    actor: str | None
    expires_at: str | None
    derived_from: tuple[MemoryId, ...]


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One admitted change. Immutable, except that a purge replaces the row by an `erased` one.

    `canonical` are the judged bytes: with `salt` they prove the commitment in the leaf.
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
    embedder_id: str  # the name of the embedding model; "" if the row has no vector
    scope: Scope
    expires_at: str | None
    kept: InheritedFields | None
    canonical: bytes
    erased: bool = False
    # Guard mode: the keyed hash (8 bytes) of tenant, target and key; b"" if the memory is in this
    # store alone.
    keyed: bytes = b""
    # Whether the session that wrote the row had read foreign text, and from which tools and hosts.
    after_reading: bool = False
    read_origins: tuple[str, ...] = ()
    # Whether an earlier version is of a session without foreign text, as if it were of the row:
    # otherwise a change of one byte would make the row its own.
    was_unread: bool = False
    # The key that the upstream server gave the memory in its answer; "" if the request named it.
    assigned_key: str = ""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one search of the store at `version`.

    `nearest` are the ordinals of at most `NEAREST_MAX` rows with the best scores, in order, before
    the caps; of an approximate or a filtered search those that it read.
    """

    hits: tuple[Hit, ...]
    nearest: tuple[int, ...]
    version: int


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The store of which a backup is a copy, and the parts that the backup contains."""

    directory: str
    incarnation: str
    version: int
    leaf_count: int
    held_count: int
    with_secrets: bool  # whether the backup can be restored without separately kept secrets
    with_held: bool
    bytes: int
