"""Submissions as the proxy makes them, for benches that begin behind HTTP."""

from __future__ import annotations

import secrets
import time

from policy.canonical import canonical_bytes, digest_of
from policy.facts import BudgetState, TokenState
from policy.labels.derive import derive_provenance, read_text
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    Principal,
    PrincipalId,
    Scope,
    Tenant,
)
from storage.values import Submission

PRINCIPAL = Principal(principal_id=PrincipalId("agent"), tenant=Tenant("default"))


def submission(text: str, vector: bytes, embedder_id: str, incarnation: str) -> Submission:
    """One memory to create, with all its evidence."""
    candidate = Candidate(
        change=ChangeKind.CREATE,
        principal_id=PRINCIPAL.principal_id,
        tenant=PRINCIPAL.tenant,
        nonce=f"{incarnation}:{secrets.token_hex(16)}",
        text=text,
        scope=Scope(user_id="alice"),
    )
    canonical = canonical_bytes(candidate)
    return Submission(
        candidate_id=CandidateId(secrets.token_hex(16)),
        candidate=candidate,
        canonical=canonical,
        digest=digest_of(canonical),
        provenance=derive_provenance(PRINCIPAL, candidate, None),
        intercepted_at_ms=time.time_ns() // 1_000_000,
        reading=read_text(text, None),
        token=TokenState.ABSENT,
        token_key=None,
        shadow=(),
        budget=BudgetState(writes_in_window_count=0, text_bytes=len(text), metadata_bytes=0),
        vector=vector,
        embedder_id=embedder_id,
        trace_id=secrets.token_hex(16),
    )
