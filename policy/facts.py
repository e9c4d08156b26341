"""The evidence for one decision: all that the gate knows about the world outside.

A fact that could not be gathered is `None`, and a check that needs the fact refuses.
"""

from __future__ import annotations

import enum

import msgspec

from policy.model import (
    CandidateId,
    Digest,
    MemoryClass,
    MemoryStatus,
    PrincipalId,
    Provenance,
    Reading,
    SourceKind,
    Tenant,
)
from policy.trust.score import TrustState


class NonceState(enum.Enum):
    """What the store knows of a candidate's nonce."""

    FRESH = "fresh"
    SPENT = "spent"  # the nonce was used before, with another digest, principal or target
    OWN = "own"  # the nonce was spent by this very candidate, when it was held
    FOREIGN_INCARNATION = "foreign_incarnation"


class TokenState(enum.Enum):
    """Outcome of verifying a promotion token outside the gate (Ed25519, MWP 3.2 check 6)."""

    ABSENT = "absent"
    # The token is signed, unexpired, unspent, and bound to this digest, these classes and this
    # nonce.
    VALID = "valid"
    INVALID = "invalid"  # the token has a bad signature, or is bound to something else
    EXPIRED = "expired"
    SPENT = "spent"


class InterceptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The interceptor's record of a candidate on its arrival, stored apart from staging."""

    candidate_id: CandidateId
    digest: Digest
    principal_id: PrincipalId
    tenant: Tenant
    target: str


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored memory that an update, delete or purge is aimed at, as the store has it now."""

    # The most trusted label, and the most powerful class, of what the change would alter. The class
    # is None where the change alters nothing, because it only adds.
    source: SourceKind
    memory_class: MemoryClass | None
    status: MemoryStatus
    version: int = 0
    # Whether the memory is past its own expiry, and the agent's API did not show it: for the agent
    # such a memory does not exist.
    expired: bool = False
    # The least trusted label of the words that remain beside those of the change; None where none
    # remain.
    remains: SourceKind | None = None
    # Whether the change takes something away: a deletion, an earlier expiry, or a change that keeps
    # fewer than half of the words.
    removes: bool = False
    # Whether a session that had read no foreign text wrote something that the change would alter.
    unread: bool = False


class AnchorProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an anchor's own question to a trial search that includes the candidate."""

    anchor_id: str
    outranks: bool
    contradicts: bool


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """How much of each budget is used, without this candidate; the units are in the names."""

    writes_in_window_count: int
    text_bytes: int
    metadata_bytes: int
    topic_writes_count: int = 0
    # Whether the tenant's share of the store is used up.
    tenant_full: bool = False


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A person's confirmation of the candidate as shown: a release from review, or a signature.

    `target_version` is the version of the memory to change when it was shown to the person; 0 where
    there was none. A change keeps the fields that it does not name, and the person confirmed these
    fields too.
    """

    by: PrincipalId
    digest: Digest
    target_version: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence for one decision, gathered in the transaction that may commit the candidate."""

    candidate_id: CandidateId
    now_ms: int
    # The digest of the staged bytes, recomputed at decision time (step 4) and never carried over
    # from interception.
    staged_digest: Digest | None
    intercept: InterceptRecord | None
    provenance: Provenance | None
    # What `policy.labels.derive.read_candidate` found in the candidate; for a change without a text
    # it read "".
    reading: Reading | None
    trust: TrustState | None
    # The trust of the tool that the text came from; None where the provenance names no tool.
    origin_trust: TrustState | None
    nonce: NonceState | None
    token: TokenState | None
    # One probe per anchor; () where the tenant has no anchors. None: the trial search failed.
    shadow: tuple[AnchorProbe, ...] | None
    budget: BudgetState | None
    # Whether the candidate reached the gate too late: the model request that waited for it was
    # forwarded without it, as if it had been refused.
    overdue: bool
    # Whether a person denied this principal an equal line for this place, and whether there were so
    # many denials today that no person is asked again (`policy.lines`).
    denied: bool
    denied_today: bool
    # Whether the candidate has a sentence because of which another memory was hidden.
    repeats_hidden: bool
    # The stored memory that an update, delete or purge is aimed at; None if this tenant has no such
    # memory.
    stored: TargetState | None = None
    # The lowest label among the stored memories that `derived_from` names; None if it names no
    # memory.
    lineage: SourceKind | None = None
    approval: Approval | None = None
    # Whether the memory is on an upstream server; `stored` is what this store knows of its key.
    guarded: bool = False
