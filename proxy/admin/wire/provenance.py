"""The operator API's answers about origins, sessions and audit leaves; none contains a text."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import (
    Basis,
    ChangeKind,
    MemoryClass,
    OperatorScope,
    SourceKind,
)
from policy.verdict import Reason
from proxy.admin.wire.route import (
    INDEX_MAX,
    LeafQuery,
    LeavesQuery,
    NoQuery,
    RecallsQuery,
    SessionsQuery,
    TenantQuery,
    get,
)
from proxy.ledger.wire import OriginView, SessionList, SessionView
from storage.features.lineage import LineageNode
from storage.features.recalls import ReadSummary, ReplySummary, SeenMemory
from storage.values import AuditHead, Decision

VERDICTS_MAX = 500

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class LeafView(msgspec.Struct, frozen=True, kw_only=True):
    """One audit leaf: its exact bytes (base64) and their RFC 6962 leaf hash (hex)."""

    index: int
    data_base64: str
    leaf_hash: str
    fields: dict[str, str | int | float | bool | None]


class LeafPage(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of the log, oldest first."""

    size: int
    offset: int
    leaves: tuple[LeafView, ...]


class ProofView(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 6962 inclusion proof of one leaf in the tree of the named checkpoint."""

    leaf_index: Annotated[int, Meta(ge=0)]
    tree_size: Annotated[int, Meta(ge=1)]
    leaf_hash: Sha256
    root_hash: Sha256
    hashes: Annotated[tuple[Sha256, ...], Meta(max_length=64)]
    checkpoint: Annotated[str, Meta(max_length=65_536)]


class Proof(ProofView, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proof that anyone can check: with the leaf's exact bytes, and the key of the log."""

    leaf_base64: Annotated[str, Meta(max_length=8192)]
    verifier_key: Annotated[str, Meta(max_length=512)]


class ProvenanceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a memory.

    It has the candidate, the leaves of its interception and of its verdict, and
    what its session had read.

    `trust` is the writer's trust at the verdict. `session` is None where the write was joined to no
    session. `known` is False where the ledger has lost the session, and with it what was read.
    """

    change: ChangeKind
    version: int
    at_ms: int
    candidate_id: str
    principal: str
    trust: str
    target: str
    approved_by: str | None
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    intercepted: ProofView
    verdict: ProofView
    culprit: OriginView | None
    session: str | None
    known: bool
    # `segments`: the distinct origins of the session's segments; `segments_left_out`: how many
    # older segments are not among them.
    segments: tuple[OriginView, ...]
    segments_left_out: int
    # Ids of memories that the session had recalled before the write.
    recalled: tuple[str, ...]


class ProvenanceNode(msgspec.Struct, frozen=True, kw_only=True):
    """One memory; `status`: "live", "quarantined", "gone" (deleted) or "lost" (purged, or no such).

    `parents` are the memories that it names as `derived_from`. `steps` are its newest steps, oldest
    first; a lost memory has none.
    """

    memory_id: str
    status: str
    parents: tuple[str, ...]
    steps: tuple[ProvenanceStep, ...]


class ProvenanceView(msgspec.Struct, frozen=True, kw_only=True):
    """A memory's provenance: the memory itself, and then all memories that it came from.

    `cut` is true if some memories are left out, because there are too many.
    """

    memories: tuple[ProvenanceNode, ...]
    cut: bool


PROVENANCE: Final = get(
    "/memories/{memory_id}/provenance",
    TenantQuery,
    ProvenanceView,
    "Where a memory came from: steps, leaves with proofs, sessions and recalled memories.",
    slow=True,
)


LINEAGE_SHOWN: Final = 500
"""How many memories of a lineage one answer contains."""


class LineageQuery(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a lineage to list."""

    offset: Annotated[int, Meta(ge=0, le=100_000)] = 0


class LineageView(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, the memories that it was derived from, and those derived from it, nearest first.

    `next`: the `offset` of the request for what follows; None where nothing does.
    """

    memories: tuple[LineageNode, ...]
    next: int | None


LINEAGE: Final = get(
    "/memories/{memory_id}/lineage",
    LineageQuery,
    LineageView,
    "What a memory was derived from, and what was derived from it: labels and leaves.",
    slow=True,
    least=OperatorScope.VIEW,
)
SESSIONS: Final = get(
    "/sessions",
    SessionsQuery,
    SessionList,
    "Sessions of agents, most recently active first.",
    least=OperatorScope.VIEW,
)
SESSION: Final = get(
    "/sessions/{session}",
    NoQuery,
    SessionView,
    "What entered a session, and what followed from it.",
    least=OperatorScope.VIEW,
)


class RecallView(ReadSummary, frozen=True, kw_only=True):
    """One read.

    `replayable`: whether the vector and the filter of its question are still kept.
    """

    replayable: bool


class RecallList(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of one tenant, newest first. What is kept begins at `kept_since_ms`."""

    kept_since_ms: int
    recalls: tuple[RecallView, ...]


class ReplyView(ReplySummary, frozen=True, kw_only=True):
    """One reply of a model, and the memories that stood in its request."""

    memories: tuple[SeenMemory, ...]


# Slow, because a search reads every record.
RECALLS: Final = get(
    "/recalls",
    RecallsQuery,
    RecallList,
    "Which memories reads showed to whom, newest first.",
    slow=True,
)
RECALL: Final = get(
    "/recalls/{recall_id}", NoQuery, RecallView, "One read, and the memories that it showed."
)
REPLY: Final = get(
    "/replies/{reply_id}",
    TenantQuery,
    ReplyView,
    "The memories that stood in the request behind a reply of a model.",
)


class VerdictsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which verdicts: the newest, of leaves from the index `since` on, and before `until`."""

    since: Annotated[int, Meta(ge=0, le=INDEX_MAX)] = 0
    until: Annotated[int, Meta(ge=0, le=INDEX_MAX)] | None = None
    limit: Annotated[int, Meta(ge=1, le=VERDICTS_MAX)] = 20


class VerdictRow(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict of the gate, without content; `leaf` is its index in the audit log."""

    leaf: int
    at_ms: int
    candidate_id: str
    decision: Decision
    reason: Reason | None
    memory_class: MemoryClass
    principal: str
    server: str = ""
    tool: str = ""
    approved_by: str | None = None
    change: ChangeKind = ChangeKind.CREATE
    memory_id: str | None = None


class VerdictList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest verdicts, newest first, and how many of each decision there were since the start.

    `leaf_count` is the `since` of the next request for what comes after these, and `begin` the
    `until` of the next request for what comes before them.
    """

    verdicts: tuple[VerdictRow, ...]
    begin: int
    decisions: dict[str, int]
    leaf_count: int


VERDICTS: Final = get(
    "/verdicts",
    VerdictsQuery,
    VerdictList,
    "The newest verdicts, newest first, without content.",
    least=OperatorScope.VIEW,
)
LEAVES: Final = get(
    "/audit/leaves", LeavesQuery, LeafPage, "Leaves of the audit log, oldest first."
)
PROOF: Final = get("/audit/proof", LeafQuery, Proof, "The proof that one leaf is in the log.")
CHECKPOINT: Final = get(
    "/audit/checkpoint",
    NoQuery,
    AuditHead,
    "The last signed head of the log (checkpoint), and the key to verify it with.",
    least=OperatorScope.VIEW,
)
