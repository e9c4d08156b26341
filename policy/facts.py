"""Everything the gate must be told about the outside, gathered before it is asked.

A fact that could not be gathered is `None`, and a check that needs it refuses.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from policy.labels.derive import Reading
    from policy.model import (
        CandidateId,
        Digest,
        MemoryClass,
        MemoryStatus,
        PrincipalId,
        Provenance,
        SourceKind,
        Tenant,
    )
    from policy.trust.ladder import TrustState


class NonceState(enum.Enum):
    """What the store knows of a candidate's nonce."""

    FRESH = "fresh"
    SPENT = "spent"  # used before, with another digest, principal or target
    OWN = "own"  # spent by this very candidate, when it was held
    FOREIGN_INCARNATION = "foreign_incarnation"


class TokenState(enum.Enum):
    """Outcome of verifying a promotion token outside the gate (Ed25519, MWP 3.2 check 6)."""

    ABSENT = "absent"
    VALID = "valid"  # signed, unexpired, unspent, and bound to this digest, classes, nonce
    INVALID = "invalid"  # bad signature, or bound to something else
    EXPIRED = "expired"
    SPENT = "spent"


class InterceptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the interceptor wrote down when it first saw the candidate, kept apart from staging."""

    candidate_id: CandidateId
    digest: Digest
    principal_id: PrincipalId
    tenant: Tenant
    target: str


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored memory that an update, delete or purge is aimed at, as the store has it now."""

    source: SourceKind
    ceiling: SourceKind
    memory_class: MemoryClass
    status: MemoryStatus
    version: int = 0
    # Past its own expiry: for the agent it does not exist any more.
    expired: bool = False
    # Whether some words of the stored memory remain beside those that the update brings.
    stays: bool = True


class AnchorProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The anchor's own question, asked of a shadow retrieval that contains the candidate."""

    anchor_id: str
    outranks: bool
    contradicts: bool


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets as they stand without this candidate; units in the names."""

    writes_in_window_count: int
    text_bytes: int
    metadata_bytes: int
    topic_writes_count: int = 0
    # Whether the tenant's share of the store is used up.
    tenant_full: bool = False


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A person confirmed the rendered candidate: released from review, or a signed confirmation.

    `target_version` is that of the memory it changes, as it stood when it was shown to the person;
    0 where there was none. A change keeps what it does not name, and the person confirmed that too.
    """

    by: PrincipalId
    digest: Digest
    target_version: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence for one decision. Gathered inside the write transaction that would commit it."""

    candidate_id: CandidateId
    now_ms: int
    # Recomputed from staging at decision time (step 4), never carried over from interception.
    staged_digest: Digest | None
    intercept: InterceptRecord | None
    provenance: Provenance | None
    # What `policy.labels.derive.read_candidate` found; for a change without text, of "".
    reading: Reading | None
    trust: TrustState | None
    # Trust of the tool that the text came from; None where no tool is named.
    origin_trust: TrustState | None
    nonce: NonceState | None
    token: TokenState | None
    # One probe per anchor; () where the tenant has no anchors. None: the shadow retrieval failed.
    shadow: tuple[AnchorProbe, ...] | None
    budget: BudgetState | None
    # Names under a drift alarm that the text mentions and nobody accepted: the hex of their cells
    # (step 10).
    drift_alarms: tuple[str, ...] | None
    # Whether it reached the gate too late: the model request that waited for it has gone on and
    # treated it as refused.
    overdue: bool
    # The stored memory for update, delete, purge; None where there is none in this tenant.
    stored: TargetState | None = None
    # Lowest ceiling among the stored memories named in derived_from; None where none is named.
    lineage: SourceKind | None = None
    approval: Approval | None = None
    # Whether the memory lives behind another server; then `stored` is what is known of its key.
    guarded: bool = False
