"""Converts the store's values to views of the operator API, by pure functions."""

from __future__ import annotations

import base64
from typing import TypeVar

import msgspec
from msgspec import UNSET

from policy.labels.floor import class_once_confirmed
from policy.labels.forwarded_call import call_of, place_of
from policy.model import Candidate, PrincipalId
from policy.trust.score import TrustState, soft_score
from policy.verdict import Reason
from proxy.admin.review_decider import ReviewVerdict
from proxy.admin.wire.provenance import (
    LeafView,
    ProofView,
)
from proxy.admin.wire.store import (
    HeldView,
    KeyView,
    OriginTrustView,
    OutcomeView,
    TrustEventView,
    TrustView,
)
from proxy.admin.wire.upkeep import ServerView, UnsettledView
from storage.audit import decode_leaf, fields_of, leaf_hash
from storage.features.trust import OriginTrust
from storage.values import (
    AuditProof,
    HeldCandidate,
    KeyRecord,
    PendingForward,
    PinnedTools,
    TrustEvent,
)

_View = TypeVar("_View", bound=msgspec.Struct)


def extended(form: type[_View], base: msgspec.Struct, **more: object) -> _View:
    """A `form` filled with the fields of `base` that `form` has too, and with `more`."""
    shared: dict[str, object] = {name: getattr(base, name) for name in base.__struct_fields__}
    fields = shared | more
    return form(**{name: fields[name] for name in form.__struct_fields__ if name in fields})


def filed_under(candidate: Candidate) -> str:
    """The ids (user, agent, run, app) that the client filed the memory under; empty if none."""
    scope = candidate.scope
    ids = (("user", scope.user_id), ("agent", scope.agent_id), ("run", scope.run_id))
    told = (*ids, ("app", scope.app_id))
    return ", ".join(f"{kind}={name}" for kind, name in told if name is not None)


def held_view(held: HeldCandidate) -> HeldView:
    """A held candidate in the form of the operator API, with its content if `held` contains it."""
    candidate = held.candidate
    if candidate is None:
        return extended(HeldView, held)
    call = call_of(candidate)
    told: dict[str, object] = {}
    if call is not None:
        told = {"tool": call.tool, "pieces": call.pieces}
        told |= {"about": call.key, "arguments": call.arguments}
    return extended(
        HeldView,
        held,
        **told,
        change=candidate.change,
        target=candidate.target,
        memory_id=candidate.memory_id,
        text=candidate.text,
        metadata_json=candidate.metadata_json,
        claimed_source=candidate.claimed_source,
        place=place_of(candidate),
        becomes=class_once_confirmed(candidate, held.memory_class, held.basis),
        filed_under=filed_under(candidate) or UNSET,
    )


def outcome_view(ruled: ReviewVerdict) -> OutcomeView:
    """The effect of a person's decision in the form of the operator API."""
    outcome = ruled.outcome
    return extended(
        OutcomeView,
        outcome,
        memory_id=outcome.memory.memory_id if outcome.memory else None,
        lifted=ruled.lifted,
        withheld=ruled.withheld,
        way=ruled.way,
        counts_against=ruled.principal_id if outcome.reason is Reason.DENIED_BY_PERSON else "",
    )


def trust_view(
    principal_id: PrincipalId,
    state: TrustState,
    history: tuple[TrustEvent, ...] | None = None,
) -> TrustView:
    """The trust in one principal, with the events that changed it if they are given."""
    return extended(
        TrustView, state, principal=principal_id, score=soft_score(state), history=_events(history)
    )


def origin_view(
    origin: OriginTrust, history: tuple[TrustEvent, ...] | None = None
) -> OriginTrustView:
    """The trust in one origin, with the events that changed it if they are given."""
    return extended(
        OriginTrustView,
        origin.state,
        tenant=origin.tenant,
        server=origin.server,
        tool=origin.tool,
        score=soft_score(origin.state),
        history=_events(history),
    )


def _events(history: tuple[TrustEvent, ...] | None) -> tuple[TrustEventView, ...] | None:
    if history is None:
        return None
    return tuple(extended(TrustEventView, one) for one in history)


def key_view(record: KeyRecord) -> KeyView:
    """A key's record, without the key itself."""
    return extended(
        KeyView,
        record.principal,
        key_id=record.key_id,
        created_at_ms=record.created_at_ms,
        revoked_at_ms=record.revoked_at_ms,
    )


def leaf_view(index: int, data: bytes) -> LeafView:
    """A leaf in the form of the operator API: its bytes as they are hashed, and its fields."""
    leaf = decode_leaf(data)
    return LeafView(
        index=index,
        data_base64=base64.b64encode(data).decode(),
        leaf_hash=leaf_hash(data).hex(),
        fields={"kind": type(leaf).__name__, **fields_of(leaf)},
    )


def proof_view(proof: AuditProof) -> ProofView:
    """An RFC 6962 inclusion proof in hex, with the signed checkpoint that contains its root."""
    return ProofView(
        leaf_index=proof.leaf_index,
        tree_size=proof.head.size,
        leaf_hash=leaf_hash(proof.leaf).hex(),
        root_hash=proof.root.hex(),
        hashes=tuple(node.hex() for node in proof.hashes),
        checkpoint=proof.head.note,
    )


def server_view(pinned: PinnedTools) -> ServerView:
    """One MCP server, with the names of the tools that changed since their approval."""
    return ServerView(
        server=pinned.server,
        tenant=pinned.tenant,
        digest=pinned.digest,
        tool_count=len(pinned.seen),
        changed=pinned.changed,
    )


def unsettled_view(pending: PendingForward) -> UnsettledView:
    """One admitted change of which it is unknown whether its server has it."""
    state = "to send" if not pending.sent else "lost" if pending.unknown else "sent"
    return UnsettledView(
        candidate_id=pending.candidate_id,
        tenant=pending.candidate.tenant,
        target=pending.candidate.target,
        change=pending.candidate.change.value,
        state=state,
    )
