"""The finite space of labels that a decision depends on, as cases with a number each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from policy.canonical import canonical_bytes, digest_of
from policy.checks import Check, Finding, aim_of
from policy.facts import (
    AnchorProbe,
    Approval,
    BudgetState,
    Facts,
    InterceptRecord,
    NonceState,
    TargetState,
    TokenState,
)
from policy.model import (
    Basis,
    Candidate,
    CandidateId,
    ChangeKind,
    Digest,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Provenance,
    Reading,
    SourceKind,
    Tenant,
)
from policy.ruleset import Ruleset, parse_ruleset
from policy.trust.score import TrustLevel, TrustState

DEFAULT_TOML = (Path(__file__).resolve().parents[2] / "policy" / "default.toml").read_text()
RULESET = parse_ruleset(DEFAULT_TOML, epoch=7)

CANDIDATE_ID = CandidateId("0" * 32)
OTHER_DIGEST = Digest(b"\x01" * 32)
PLAIN = Reading(skeleton="", directive=False, injection=False)
READINGS = (
    PLAIN,
    Reading(skeleton="", directive=True, injection=False),
    Reading(skeleton="", directive=False, injection=True),
    Reading(skeleton="", directive=False, injection=False, at_stake=True),
    Reading(skeleton="", directive=True, injection=False, at_stake=True),
)
QUIET = BudgetState(writes_in_window_count=0, text_bytes=0, metadata_bytes=0)
SHADOWS = (
    (),
    (AnchorProbe(anchor_id="a", outranks=False, contradicts=False),),
    (AnchorProbe(anchor_id="a", outranks=True, contradicts=False),),
    (AnchorProbe(anchor_id="a", outranks=True, contradicts=True),),
    None,
)
STORED = (
    None,
    *(
        TargetState(source=source, memory_class=memory_class, status=status, remains=source)
        for source in SourceKind
        for memory_class in MemoryClass
        for status in MemoryStatus
    ),
    *(
        TargetState(
            source=source,
            memory_class=MemoryClass.L3,
            remains=source,
            status=MemoryStatus.LIVE,
            expired=True,
        )
        for source in SourceKind
    ),
    # A change that alters nothing of what is there.
    *(
        TargetState(
            source=SourceKind.UNKNOWN,
            memory_class=None,
            remains=source,
            status=MemoryStatus.LIVE,
        )
        for source in SourceKind
    ),
)


class Labels(NamedTuple):
    """One case. Each field is one dimension of the space."""

    source: SourceKind | None = SourceKind.UNKNOWN
    memory_class: MemoryClass = MemoryClass.L3
    class_named: bool = False
    basis: Basis = Basis.UNPROVEN
    change: ChangeKind = ChangeKind.CREATE
    stored: TargetState | None = None
    trust: TrustLevel | None = TrustLevel.TRUSTED
    token: TokenState | None = TokenState.ABSENT
    nonce: NonceState | None = NonceState.FRESH
    digest: str | None = "same"
    intercept: str | None = "same"
    reading: Reading | None = PLAIN
    shadow: tuple[AnchorProbe, ...] | None = ()
    approval: str | None = None
    lineage: SourceKind | None = None
    guarded: bool = False
    overdue: bool = False
    repeats_hidden: bool = False
    after_reading: bool = False
    instructions: bool = False
    denied: bool = False
    denied_today: bool = False


_CANDIDATES: dict[tuple[Any, ...], tuple[Candidate, Digest]] = {}


def candidate_of(labels: Labels) -> tuple[Candidate, Digest]:
    """The candidate of a case and its digest; few differ, so they are kept."""
    derived = labels.lineage is not None
    key = (
        *(labels.change, labels.memory_class, labels.class_named, derived, labels.guarded),
        labels.instructions,
    )
    if key not in _CANDIDATES:
        candidate = Candidate(
            change=labels.change,
            principal_id=PrincipalId("agent"),
            tenant=Tenant("default"),
            nonce="n-1",
            text=None if labels.change in {ChangeKind.DELETE, ChangeKind.PURGE} else "a text",
            memory_id=None if labels.change is ChangeKind.CREATE else MemoryId("m" * 36),
            memory_class=labels.memory_class,
            class_named=labels.class_named,
            target="mcp/files" if labels.guarded else "memories",
            derived_from=() if not derived else (MemoryId("d" * 36),),
            instructions=labels.instructions,
        )
        _CANDIDATES[key] = (candidate, digest_of(canonical_bytes(candidate)))
    return _CANDIDATES[key]


def case_of(labels: Labels) -> tuple[Candidate, Facts]:
    """The candidate and the facts that a case stands for."""
    candidate, digest = candidate_of(labels)
    provenance = (
        None
        if labels.source is None
        else Provenance(
            source=labels.source, basis=labels.basis, after_reading=labels.after_reading
        )
    )
    intercept = None
    if labels.intercept is not None:
        intercept = InterceptRecord(
            candidate_id=CANDIDATE_ID,
            digest=digest if labels.intercept != "other digest" else OTHER_DIGEST,
            principal_id=PrincipalId("mallory" if labels.intercept == "other person" else "agent"),
            tenant=Tenant("default"),
            target=candidate.target,
        )
    approved = {"same": (digest, 0), "other": (OTHER_DIGEST, 0), "moved": (digest, 7)}
    facts = Facts(
        candidate_id=CANDIDATE_ID,
        now_ms=1,
        staged_digest={"same": digest, "other": OTHER_DIGEST, None: None}[labels.digest],
        intercept=intercept,
        provenance=provenance,
        reading=labels.reading,
        trust=None if labels.trust is None else TrustState(level=labels.trust),
        origin_trust=None,
        nonce=labels.nonce,
        token=labels.token,
        shadow=labels.shadow,
        budget=QUIET,
        stored=labels.stored,
        lineage=labels.lineage,
        approval=None if labels.approval is None else _approval(*approved[labels.approval]),
        guarded=labels.guarded,
        overdue=labels.overdue,
        repeats_hidden=labels.repeats_hidden,
        denied=labels.denied,
        denied_today=labels.denied_today,
    )
    return candidate, facts


def _approval(digest: Digest, target_version: int) -> Approval:
    return Approval(by=PrincipalId("olga"), digest=digest, target_version=target_version)


# Who may write which class: every source, class, language, token and approval.
AUTHORITY: dict[str, tuple[Any, ...]] = {
    "source": tuple(SourceKind),
    "memory_class": tuple(MemoryClass),
    "class_named": (False, True),
    "basis": (Basis.CHANNEL, Basis.VOUCHED, Basis.UNPROVEN, Basis.CONFIRMATION, Basis.LINEAGE),
    "change": tuple(ChangeKind),
    "stored": STORED,
    "reading": READINGS,
    "token": (TokenState.ABSENT, TokenState.VALID, TokenState.EXPIRED),
    "approval": (None, "same", "moved"),
}
# Changes of a stored text: what it would take away, and what remains of it.
REMOVALS: dict[str, tuple[Any, ...]] = {
    "source": tuple(SourceKind),
    "after_reading": (False, True),
    "instructions": (False, True),
    "class_named": (False, True),
    "memory_class": tuple(MemoryClass),
    "basis": (Basis.CHANNEL, Basis.UNPROVEN, Basis.LINEAGE),
    "change": tuple(ChangeKind),
    "stored": tuple(
        TargetState(
            source=source,
            memory_class=memory_class,
            status=MemoryStatus.LIVE,
            remains=remains,
            removes=removes,
            unread=unread,
        )
        for source in SourceKind
        for remains in dict.fromkeys((None, SourceKind.UNKNOWN, source))
        for memory_class in (MemoryClass.L2, MemoryClass.L3)
        for removes in (False, True)
        for unread in (False, True)
    ),
    "lineage": (None, *SourceKind),
    "approval": (None, "same"),
}
# How it got here, against what it is: integrity, nonce, trust, tokens, the shadow.
INTEGRITY: dict[str, tuple[Any, ...]] = {
    "source": (None, SourceKind.OPERATOR, SourceKind.USER_INPUT, SourceKind.UNKNOWN),
    "memory_class": tuple(MemoryClass),
    "class_named": (False, True),
    "trust": (None, *TrustLevel),
    "token": (None, *TokenState),
    "nonce": (None, *NonceState),
    "digest": (None, "same", "other"),
    "intercept": (None, "same", "other digest", "other person"),
    "reading": (None, *READINGS),
    "shadow": SHADOWS,
    "approval": (None, "same", "other"),
}

# Changes at a server behind the gate, of items that the store knows or does not know.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "guarded": (True,),
    "source": tuple(SourceKind),
    "memory_class": tuple(MemoryClass),
    "class_named": (False, True),
    "basis": (Basis.CHANNEL, Basis.UNPROVEN, Basis.LINEAGE),
    "change": tuple(ChangeKind),
    "stored": STORED,
    "reading": READINGS,
    "approval": (None, "same", "moved"),
}


def finding_of(check: Check, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Finding:
    """What one step alone has to object, as the gate asks it."""
    return check(candidate, facts, aim_of(candidate, facts, ruleset))


def size(space: dict[str, tuple[Any, ...]]) -> int:
    """How many cases a space has."""
    total = 1
    for values in space.values():
        total *= len(values)
    return total


def cases(space: dict[str, tuple[Any, ...]], stride: int, first: int = 0) -> Iterator[Labels]:
    """Every case from `first`, or one in `stride` (coprime to every dimension: a prime)."""
    for number in range(first, size(space), stride):
        chosen: dict[str, Any] = {}
        rest = number
        for name, values in space.items():
            rest, index = divmod(rest, len(values))
            chosen[name] = values[index]
        yield Labels(**chosen)
