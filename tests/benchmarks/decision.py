"""The gate's decision alone; canonical bytes and the reading of the text are timed apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import resources

from policy.canonical import canonical_bytes, digest_of
from policy.facts import BudgetState, Facts, InterceptRecord, NonceState, TokenState
from policy.gate import GATE
from policy.labels.derive import derive_provenance, read_text
from policy.model import Candidate, CandidateId, ChangeKind, Principal, PrincipalId, Scope, Tenant
from policy.ruleset import parse_ruleset
from policy.trust.score import NEWCOMER
from policy.verdict import Admit, InvariantBroken

TEXT = (
    "Caroline went to the pottery class on Tuesday with Melanie, and they both liked the blue "
    "glaze so much that they signed up for another course, which starts on the fourth of March "
    "in the old mill."
)[:200]
SAMPLES = 20_000


def _facts(candidate: Candidate, canonical: bytes) -> Facts:
    digest = digest_of(canonical)
    candidate_id = CandidateId("0" * 32)
    principal = Principal(principal_id=candidate.principal_id, tenant=candidate.tenant)
    return Facts(
        candidate_id=candidate_id,
        now_ms=0,
        staged_digest=digest,
        intercept=InterceptRecord(
            candidate_id=candidate_id,
            digest=digest,
            principal_id=candidate.principal_id,
            tenant=candidate.tenant,
            target=candidate.target,
        ),
        provenance=derive_provenance(principal, candidate, None),
        reading=read_text(candidate.text, None),
        trust=NEWCOMER,
        origin_trust=None,
        nonce=NonceState.FRESH,
        token=TokenState.ABSENT,
        shadow=(),
        budget=BudgetState(writes_in_window_count=0, text_bytes=len(TEXT), metadata_bytes=0),
        overdue=False,
        denied=False,
        denied_today=False,
        repeats_hidden=False,
    )


def _timed(name: str, work: Callable[[], object]) -> str:
    for _ in range(1_000):
        work()
    samples: list[int] = []
    for _ in range(SAMPLES):
        started = time.perf_counter_ns()
        work()
        samples.append(time.perf_counter_ns() - started)
    samples.sort()
    p50, p99 = samples[SAMPLES // 2] / 1e3, samples[SAMPLES * 99 // 100] / 1e3
    return f"{name:34s} | p50 {p50:6.2f} us | p99 {p99:6.2f} us"


def run() -> list[str]:
    """One line per part of the decision path."""
    rules = parse_ruleset(resources.files("policy").joinpath("default.toml").read_text("utf-8"))
    candidate = Candidate(
        change=ChangeKind.CREATE,
        principal_id=PrincipalId("agent"),
        tenant=Tenant("default"),
        nonce="0123456789abcdef:0123456789abcdef0123456789abcdef",
        text=TEXT,
        scope=Scope(user_id="alice"),
    )
    canonical = canonical_bytes(candidate)
    facts = _facts(candidate, canonical)
    if not isinstance(GATE.decide(candidate, facts, rules), Admit):
        raise InvariantBroken("the benchmark's candidate must be admitted")
    return [
        _timed("gate decision, admit", lambda: GATE.decide(candidate, facts, rules)),
        _timed("canonical bytes (RFC 8785)", lambda: canonical_bytes(candidate)),
        _timed("digest (SHA-256)", lambda: digest_of(canonical)),
        _timed("reading of 200 characters", lambda: read_text(TEXT, None)),
    ]
