"""Turns the store's values into the operator API's views. Pure."""

from __future__ import annotations

import base64

from msgspec import UNSET

from policy.after.retention import Due
from policy.labels.floor import class_once_confirmed
from policy.lines import place_of
from policy.model import Candidate, Memory, PrincipalId
from policy.trust.ladder import TrustState
from policy.trust.score import soft_score
from policy.verdict import Reason
from proxy.admin.review_decider import ReviewVerdict
from proxy.admin.wire.store import (
    CheckpointView,
    HeldView,
    KeyView,
    LeafView,
    MemoryView,
    OriginTrustView,
    OutcomeView,
    ProofView,
    TrustEventView,
    TrustView,
)
from proxy.admin.wire.upkeep import DueView, ServerView, UnsettledView
from storage.audit import decode_leaf, leaf_hash
from storage.values import (
    AuditHead,
    AuditProof,
    HeldCandidate,
    KeyRecord,
    OriginTrust,
    PendingForward,
    PinnedTools,
    TrustEvent,
)


def memory_view(memory: Memory) -> MemoryView:
    """One memory, as the operator API shows it."""
    return MemoryView(
        memory_id=memory.memory_id,
        tenant=memory.tenant,
        principal=memory.principal_id,
        text=memory.text,
        metadata_json=memory.metadata_json,
        user_id=memory.scope.user_id,
        agent_id=memory.scope.agent_id,
        run_id=memory.scope.run_id,
        app_id=memory.scope.app_id,
        role=memory.role,
        actor=memory.actor,
        target=memory.target,
        memory_class=memory.memory_class,
        source=memory.source,
        basis=memory.basis,
        status=memory.status.value,
        version=memory.version,
        created_at_ms=memory.created_at_ms,
        updated_at_ms=memory.updated_at_ms,
        candidate_id=memory.candidate_id,
        expires_at=memory.expires_at,
    )


def filed_under(candidate: Candidate) -> str:
    """The ids (user, agent, run, app) that the client filed the memory under; empty if none."""
    scope = candidate.scope
    ids = (("user", scope.user_id), ("agent", scope.agent_id), ("run", scope.run_id))
    told = (*ids, ("app", scope.app_id))
    return ", ".join(f"{kind}={name}" for kind, name in told if name is not None)


def held_view(held: HeldCandidate) -> HeldView:
    """A held candidate in the form of the operator API, with its content if the store gave it."""
    candidate = held.candidate
    becomes = None
    if candidate is not None:
        becomes = class_once_confirmed(candidate, held.memory_class, held.basis)
    return HeldView(
        candidate_id=held.candidate_id,
        principal=held.principal_id,
        tenant=held.tenant,
        reason=held.reason.value,
        step=held.step,
        memory_class=held.memory_class,
        source=held.source,
        basis=held.basis,
        held_at_ms=held.held_at_ms,
        change=candidate.change if candidate else None,
        target=candidate.target if candidate else None,
        memory_id=candidate.memory_id if candidate else None,
        text=candidate.text if candidate else None,
        metadata_json=candidate.metadata_json if candidate else None,
        claimed_source=candidate.claimed_source if candidate else None,
        origin=held.origin,
        group=held.group,
        place=None if candidate is None else place_of(candidate),
        after_reading=held.after_reading,
        becomes=becomes,
        filed_under=UNSET if candidate is None else filed_under(candidate) or UNSET,
        anchors=held.anchors or UNSET,
    )


def due_view(due: Due) -> DueView:
    """One memory that the ruleset keeps no longer."""
    return DueView(
        tenant=due.item.tenant,
        memory_id=due.item.memory_id,
        memory_class=due.item.memory_class,
        updated_at_ms=due.item.at_ms,
        why=due.why.value,
    )


def outcome_view(ruled: ReviewVerdict) -> OutcomeView:
    """The effect of a person's decision."""
    outcome = ruled.outcome
    return OutcomeView(
        candidate_id=outcome.candidate_id,
        decision=outcome.decision.value,
        reason=outcome.reason.value if outcome.reason else None,
        step=outcome.step,
        memory_class=outcome.memory_class,
        memory_id=outcome.memory.memory_id if outcome.memory else None,
        version=outcome.version,
        leaf_index=outcome.leaf_index,
        lifted=ruled.lifted,
        withheld=ruled.withheld,
        way=ruled.way.value,
        counts_against=ruled.principal_id if outcome.reason is Reason.DENIED_BY_PERSON else "",
    )


def trust_view(
    principal_id: PrincipalId,
    state: TrustState,
    history: tuple[TrustEvent, ...] | None = None,
) -> TrustView:
    """The trust in one principal, with the events behind it if they are given."""
    return TrustView(
        principal=principal_id,
        level=state.level.value,
        violations_count=state.violations_count,
        good=state.good,
        bad=state.bad,
        score=soft_score(state),
        cusum=state.cusum,
        latched_at_ms=state.latched_at_ms,
        probation_left=state.probation_left,
        restores_count=state.restores_count,
        history=_events(history),
    )


def origin_view(
    origin: OriginTrust, history: tuple[TrustEvent, ...] | None = None
) -> OriginTrustView:
    """The trust in one origin, with the events behind it if they are given."""
    state = origin.state
    return OriginTrustView(
        tenant=origin.tenant,
        server=origin.server,
        tool=origin.tool,
        good=state.good,
        bad=state.bad,
        score=soft_score(state),
        cusum=state.cusum,
        latched_at_ms=state.latched_at_ms,
        probation_left=state.probation_left,
        restores_count=state.restores_count,
        history=_events(history),
    )


def _events(history: tuple[TrustEvent, ...] | None) -> tuple[TrustEventView, ...] | None:
    if history is None:
        return None
    return tuple(
        TrustEventView(
            at_ms=one.at_ms,
            kind=one.kind,
            leaf_index=one.leaf_index,
            cause=one.cause,
            became=one.became,
        )
        for one in history
    )


def key_view(record: KeyRecord) -> KeyView:
    """A key's record, without the key itself."""
    return KeyView(
        key_id=record.key_id,
        principal=record.principal.principal_id,
        tenant=record.principal.tenant,
        channel=record.principal.channel,
        claims=record.principal.claims,
        reads=record.principal.reads,
        created_at_ms=record.created_at_ms,
        revoked_at_ms=record.revoked_at_ms,
    )


def leaf_view(index: int, data: bytes) -> LeafView:
    """A leaf: its bytes as they are hashed, and its fields for people."""
    leaf = decode_leaf(data)
    fields: dict[str, str | int | float | bool | None] = {"kind": type(leaf).__name__}
    for name in leaf.__struct_fields__:
        value: object = getattr(leaf, name)
        # The value of a member of an enum, which is what JSON shows.
        plain: object = getattr(value, "value", value)
        if isinstance(plain, bytes):
            fields[name] = plain.hex()
        elif plain is None or isinstance(plain, str | int | float | bool):
            fields[name] = plain
        else:
            fields[name] = str(plain)
    return LeafView(
        index=index,
        data_base64=base64.b64encode(data).decode(),
        leaf_hash=leaf_hash(data).hex(),
        fields=fields,
    )


def proof_view(proof: AuditProof) -> ProofView:
    """An inclusion proof in hex, with the note that signs its root."""
    return ProofView(
        leaf_index=proof.leaf_index,
        tree_size=proof.head.size,
        leaf_hash=leaf_hash(proof.leaf).hex(),
        root_hash=proof.root.hex(),
        hashes=tuple(node.hex() for node in proof.hashes),
        checkpoint=proof.head.note,
    )


def checkpoint_view(head: AuditHead) -> CheckpointView:
    """The signed head of the log in the form of the operator API."""
    return CheckpointView(checkpoint=head.note, verifier_key=head.verifier_key, size=head.size)


def server_view(pinned: PinnedTools) -> ServerView:
    """One MCP server, with the tools that need approval."""
    return ServerView(
        server=pinned.server,
        tenant=pinned.tenant,
        digest=pinned.digest,
        tool_count=len(pinned.seen),
        changed=pinned.changed,
    )


def unsettled_view(pending: PendingForward) -> UnsettledView:
    """One admitted change of which nobody knows whether its server has it."""
    state = "to send" if not pending.sent else "lost" if pending.unknown else "sent"
    return UnsettledView(
        candidate_id=pending.candidate_id,
        tenant=pending.candidate.tenant,
        target=pending.candidate.target,
        change=pending.candidate.change.value,
        state=state,
    )
