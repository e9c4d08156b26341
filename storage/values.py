"""The values that cross the store's interface, independent of the engine."""

from __future__ import annotations

import enum
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
    Principal,
    PrincipalId,
    Provenance,
    Reading,
    Scope,
    SourceKind,
    Tenant,
)
from policy.trust.score import TrustState
from policy.verdict import Hold, Reason, Reject
from storage.ground.clock import Due

if TYPE_CHECKING:
    from policy.withheld.pieces import Piece  # its module compiles the lists of eight languages

STAGED_IN_MEMORY: Final = "memfd"
THE_STORE: Final = PrincipalId("mnemogate")
"""The name in leaves about what the store did by itself."""
ADOPTS: Final = PrincipalId("mnemogate:adopt")
"""In whose name the gate takes in what a server kept before. No key has such a name."""
MODE_OBSERVE: Final = "mode.observe"
MODE_ENFORCE: Final = "mode.enforce"
FORGIVE: Final = "withholding.forgive"
QUARANTINE: Final = "memory.quarantine"
QUARANTINE_END: Final = "memory.parole"
VOUCH: Final = "memory.vouch"
REWIND: Final = "memory.rewind"
EXPIRE: Final = "memory.expire"
QUARANTINE_REASON_LEN_MAX: Final = 160

Settled = tuple[CandidateId, ForwardStatus]
NO_KEYS: Final[Mapping[CandidateId, str]] = MappingProxyType({})
"""For a settling in which no server gave a key of its own."""
Tools = tuple[tuple[str, str], ...]


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One intercepted candidate with the evidence gathered before the writer decides.

    `canonical` are the canonical bytes of `candidate`; only `canonical` is staged, judged and
    stored. `candidate` is there so that nobody needs to decode the bytes twice.
    """

    candidate_id: CandidateId
    candidate: Candidate
    canonical: bytes
    digest: Digest
    provenance: Provenance
    intercepted_at_ms: int
    reading: Reading
    token: TokenState
    # The key under which the promotion token is spent on admission (hash of the token), or None.
    token_key: bytes | None
    shadow: tuple[AnchorProbe, ...] | None
    budget: BudgetState | None
    # The vector of the text (unit norm, float32, little-endian) and the model that it belongs to;
    # b"" for a change without a text.
    vector: bytes
    embedder_id: str
    # The W3C trace id of the request; the store only keeps it in the verdict leaf.
    trace_id: str
    # Guard mode: the key under which the server behind files the memory; None for a memory of our
    # own.
    guarded_key: str | None = None
    # Guard mode: bytes that go with the memory, whose digest is in the candidate's metadata. They
    # are kept while a person has to decide, and until the server behind has the memory.
    guarded_blob: bytes = b""
    # Guard mode: the text that the change leads to, where it was known; the reading covers it.
    text_after: str | None = None
    # Whether the candidate has a sentence for which a memory was hidden.
    repeats_hidden: bool = False
    # The version of the memory to change for which token and shadow retrieval hold; 0 if there is
    # none.
    seen_version: int = 0
    # The deadline of the decision, shared with the waiting request; None if no request waits.
    due: Due | None = None
    # A function that tells whether the request's credential is still valid; None for a credential
    # that cannot end.
    welcome: Callable[[], bool] | None = None
    # The person who was shown all of the candidate and approved it before it was judged.
    approved_by: PrincipalId | None = None


class StagedContents(msgspec.Struct, frozen=True, kw_only=True):
    """The staged content of one candidate: its canonical bytes, and further evidence."""

    canonical: bytes
    evidence: bytes


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate on its way into staging: a ciphertext, and the only key that opens it."""

    candidate_id: CandidateId
    key: bytes
    data: bytes


class Decision(enum.Enum):
    """What the gate decided on a candidate."""

    ADMIT = "admit"
    HOLD = "hold"
    REJECT = "reject"


class OutcomeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The durable answer for one candidate, as an operator is told it."""

    candidate_id: CandidateId
    decision: Decision
    reason: Reason | None
    step: int | None
    memory_class: MemoryClass
    version: int  # the store's version after this verdict
    leaf_index: int  # the index of the verdict leaf


class Outcome(OutcomeSummary, frozen=True, kw_only=True):
    """The durable answer for one candidate; only an admitted one's `memory` has content."""

    source: SourceKind
    basis: Basis
    passed: tuple[int, ...]
    structural: bool
    memory: Memory | None
    trust: TrustState
    # The objection of an enforcing gate, where a gate that only observes admitted the candidate.
    objection: Hold | Reject | None = None
    # whether this outcome repeats the first verdict of an identical request
    replayed: bool = False
    # How many microseconds the candidate waited for the writer, the gate took, and the commit took.
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
    # The origin, in the coarse form that a leaf shows: a label, a server, a tool.
    origin: str = ""
    # Whether the session that wrote it had read foreign text.
    after_reading: bool = False
    # The candidates of one group are decided together.
    group: str = ""
    # Ids of the anchors that the candidate contradicted, or would have displaced, in the trial
    # search before it was held; only given together with the content.
    anchors: tuple[str, ...] = ()


class HeldCandidate(HeldSummary, frozen=True, kw_only=True):
    """One candidate that waits for a person. `candidate` is decrypted from staging on request."""

    # The lines that it adds or takes, as keys.
    lines: tuple[bytes, ...] = ()
    candidate: Candidate | None = None
    # Our id of the session that wrote it; None if unknown. Only given together with the content.
    session: str | None = None
    # The trace of the write, to which its verdicts belong; only given together with the content.
    trace_id: str = ""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A person's act of denial; its id counts it once, however many candidates it is about.

    With `struck`, these lines alone are denied, and the others of each candidate let in; `applied`:
    a person wrote those herself, so no call may have them.
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

    A canary is an anchor without a statement: its questions are put to the search again and again,
    and `matcher` says what they may find.
    """

    anchor_id: str
    tenant: Tenant
    statement: str
    questions: tuple[str, ...]
    created_at_ms: int
    matcher: Matcher | None = None

    @property
    def is_canary(self) -> bool:
        """Whether this anchor is a canary: it has no statement, and a matcher alone."""
        return not self.statement


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of a listing; `total` counts every match.

    `cut` says that the slice was shortened, because it would be too large.
    """

    total: int
    memories: tuple[Memory, ...]
    cut: bool = False


class Turnover(msgspec.Struct, frozen=True, kw_only=True):
    """The ordinals that became live, and those that ceased to be, since an earlier call.

    An ordinal is one version of a memory: an update ends one and begins another. `seen` is passed
    to the next call; its content is the store's business.
    """

    came: tuple[tuple[int, Memory], ...]
    gone: tuple[int, ...]
    seen: object


class EntityPage(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of all ids; `total` counts every one. `cut`: shortened, as it would be too large."""

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
    # Whether writes are accepted: False above the quota, and from a write that the disk refused
    # until the disk takes writes again.
    writable: bool
    reason: str | None  # why no writes are accepted, or what a person should know or do
    retrying: bool = False  # whether the store tries again by itself after a refused write
    observing: bool = False  # whether the gate only observes (observe mode)
    # The time since which the oldest held candidate waits for a person; None if none waits.
    held_since_ms: int | None = None
    # Where candidates are kept before their verdict: "memfd", "unlinked file"; "" for nowhere yet.
    staged_in: str = STAGED_IN_MEMORY


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of walking the whole store; empty `problems` means sound."""

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

    `kind` is that of an outcome, or `RESTORED`. `cause` is the index of the leaf of what happened:
    the verdict, the denial, the quarantine. `became` says `latched` or `unlatched` where the change
    did that.
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
    """A server whose memory the gate guards, with the tenant and the principal that asks."""

    tenant: Tenant
    target: str
    by: PrincipalId


class PendingForward(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted change that the server behind may not have received."""

    candidate_id: CandidateId
    candidate: Candidate
    sent: bool
    unknown: bool  # whether the log says that the server's answer was lost
    blob: bytes = b""


class HidingActor(msgspec.Struct, frozen=True, kw_only=True):
    """Who hides a memory, as a leaf of the log says; `why` is the leaf's own words."""

    by: PrincipalId
    at_ms: int
    why: str
    # The isolation or rewind for which the memory was hidden; None for any other reason.
    incident_id: str | None


class ForwardState(enum.Enum):
    """The state of a change that is meant for another server."""

    FORWARDING = "forwarding"
    LIVE = "live"
    QUARANTINED = "quarantined"
    GONE = "gone"


class UpstreamChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a memory on a server behind, and whether it counts by now.

    `candidate` is None if its content is gone, or was not asked for. `name` is the memory's id.
    """

    name: str
    stands: ForwardState
    tenant: Tenant | None = None
    candidate: Candidate | None = None
    # The label of the memory's newest row; None without content.
    source: SourceKind | None = None
    # The key under which the server behind files it; "" if it has none.
    key: str = ""
    # The ordinal of the row that was sent.
    ordinal: int = 0
    # The rules that convicted a quarantined memory; () where somebody hides it for another reason.
    rule_ids: tuple[str, ...] = ()


class EndedText(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces of a text that ended here, and that its server may have all the same.

    Each comes with the ordinal below which another memory's row shows it all the same.
    """

    tenant: Tenant
    target: str
    pieces: dict[Piece, int]


class ClosedKey(NamedTuple):
    """Whether a key of a server behind is closed: what stands there is nobody's to be shown."""

    mine: bool  # for the tenant that asks
    others: bool  # for another tenant


class UpstreamMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that stands under one key of a server behind, by the verdicts of this gate.

    `candidate` is the newest change that the server was sent; `number` is that of its row.
    """

    number: int
    tenant: Tenant
    memory_id: MemoryId
    candidate_id: CandidateId
    key: str
    stands: ForwardState  # LIVE, QUARANTINED, or FORWARDING while a change is on its way
    candidate: Candidate


class QuarantinedText(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory under quarantine says, or said in an earlier version.

    `candidate` has the text and the metadata of that version, kept ones included.
    """

    candidate_id: CandidateId
    memory_class: MemoryClass
    candidate: Candidate
    ordinal: int
    # As in `UpstreamChange`.
    rule_ids: tuple[str, ...] = ()


class UpstreamChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes behind servers, in order, up to one leaf of the audit log.

    `whole` says that these are all changes, and that earlier knowledge is void.
    """

    leaf_count: int
    moved: tuple[UpstreamChange, ...]
    whole: bool = False
    forgotten: tuple[EndedText, ...] = ()


class PinnedTools(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The tools of one server as (name, digest), sorted. The log says when they were seen."""

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
        """The digest by which a person approves exactly this list: hex, 16 digits.

        The digest covers the sorted names and digests. A name cannot be read as the end of a
        digest: digests are hex, and come first.
        """
        joined = "\n".join(f"{digest} {name}" for name, digest in sorted(self.seen))
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class InheritedFields(msgspec.Struct, frozen=True, array_like=True):
    """The fields that an update left unchanged, with the values that the earlier row had."""

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

    `canonical` are the judged bytes themselves: with `salt` they prove the commitment in the leaf.
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
    # Guard mode: the keyed hash (8 bytes) of tenant, target and key; b"" if the change is for no
    # other server.
    keyed: bytes = b""
    # Whether the session that wrote the row had read foreign text, and from which tools and hosts.
    after_reading: bool = False
    read_origins: tuple[str, ...] = ()
    # Whether an earlier version was written by a session that had not, so that a removal after
    # reading waits: a change of one byte would make the row the reader's own.
    was_unread: bool = False
    # The key that the server behind gave the memory in its answer; "" if the request named its key.
    assigned_key: str = ""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one search of the store at `version`, and what a replay of the search needs.

    `nearest` has the ordinals of the rows nearest to the query, best first, before the caps, at
    most `NEAREST_MAX`. If a filter tests more than ids, or the index of a large store is
    approximate, it has only rows that the search read.
    """

    hits: tuple[Hit, ...]
    nearest: tuple[int, ...]
    version: int


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of, and what it contains."""

    directory: str
    incarnation: str
    version: int
    leaf_count: int
    held_count: int
    with_secrets: bool  # whether the backup can be restored without separately kept secrets
    with_held: bool  # whether held candidates are in the backup
    bytes: int
