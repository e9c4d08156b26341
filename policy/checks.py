"""The numbered steps of the gate, one small function each. Only `policy.gate` calls them.

A step returns None where it has nothing to object. Where a fact that a step needs is missing, the
step objects: a check that cannot run is a check that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from policy.canonical import canonical_bytes, digest_of
from policy.facts import Facts, NonceState, TargetState, TokenState
from policy.labels.derive import (
    effective_class,
    is_unproven,
    landing_of,
    more_powerful,
    named_class,
    with_lineage,
)
from policy.labels.floor import class_of_order
from policy.labels.forwarded_call import is_forwarded
from policy.model import (
    Basis,
    Candidate,
    ChangeKind,
    MemoryClass,
    MemoryStatus,
    Provenance,
    Reading,
    SourceKind,
)
from policy.ruleset import Cell, OverBudget, Ruleset
from policy.trust.score import TrustLevel, known_score
from policy.verdict import Reason


class StepObjection(msgspec.Struct, frozen=True):
    """Why a step does not pass a candidate.

    `holds`: the candidate waits, and a person may still release it. `structural`: only the sender's
    program, and no model, can have caused the objection.
    """

    reason: Reason
    holds: bool = False
    structural: bool = False


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate is judged as, and by which rules; the same for every step."""

    ruleset: Ruleset
    # The label that the candidate is judged by; None if it has none.
    provenance: Provenance | None
    unproven: bool
    # Whether a person confirmed the candidate (the function `confirmed`).
    confirmed: bool
    stored: MemoryClass | None
    # The class that the candidate gets if it is admitted, and the class whose rules apply to it.
    landing: MemoryClass
    judged: MemoryClass
    # The matrix's answer for the label and the class in `judged`.
    cell: Cell


Finding = StepObjection | None
Check = Callable[[Candidate, Facts, Aim], Finding]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered check.

    Numbers 1 to 8 are those of MWP 3.2; docs/architecture.md adds 9 and 10.
    """

    number: int
    name: str
    check: Check


UNAVAILABLE: Final = StepObjection(Reason.GATE_UNAVAILABLE)

_REMOVALS: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})
_FORGED: Final = frozenset({TokenState.INVALID, TokenState.SPENT})
_SHADOWED: Final = frozenset({MemoryClass.L1, MemoryClass.L2})


def confirmed(facts: Facts) -> bool:
    """Whether a person confirmed the candidate's bytes, and the memory to change is still the same.

    An approval of other bytes, or of another version of the memory, does not count.
    """
    return _approved(facts) and not _moved(facts)


def _approved(facts: Facts) -> bool:
    return facts.approval is not None and facts.approval.digest == facts.staged_digest


def _moved(facts: Facts) -> bool:
    """Whether the memory to be changed was changed again after a person looked at it."""
    version = 0 if facts.stored is None else facts.stored.version
    return facts.approval is not None and facts.approval.target_version != version


def aim_of(candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Aim:
    """What a candidate is judged as, computed once for all steps."""
    stored: MemoryClass | None = None
    # Of a deleted memory the store has no class left.
    if facts.stored is not None and facts.stored.status is not MemoryStatus.DELETED:
        stored = facts.stored.memory_class
    # The attested label, lowered to that of the least trusted memory that the candidate derives
    # from.
    provenance = facts.provenance
    if provenance is not None:
        provenance = with_lineage(provenance, candidate, facts.lineage)
    unproven = provenance is not None and is_unproven(provenance)
    landing = landing_class(candidate, facts, ruleset, provenance, stored, unproven=unproven)
    # The class whose rules apply: the landing class, or the replaced memory's if more powerful.
    judged = landing if stored is None else more_powerful(landing, stored)
    return Aim(
        ruleset=ruleset,
        provenance=provenance,
        unproven=unproven,
        confirmed=facts.approval is not None and confirmed(facts),
        stored=stored,
        landing=landing,
        judged=judged,
        cell=Cell.REFUSE if provenance is None else ruleset.cell(provenance.source, judged),
    )


def landing_class(
    candidate: Candidate,
    facts: Facts,
    ruleset: Ruleset,
    provenance: Provenance | None,
    stored: MemoryClass | None,
    *,
    unproven: bool,
) -> MemoryClass:
    """The class that a candidate gets if it is admitted.

    It is the class that the candidate asks for, raised by the class floor. An unproven text that
    the floor does not raise gets knowledge (L3) at most, unless the matrix opens a higher class.

    Only this function decides the class. Matrix, trust, trial search, verdict and the stored row
    all use its answer.
    """
    if facts.reading is None:
        return candidate.memory_class
    order, flagged = MemoryClass.L1, facts.reading.flagged
    if flagged:
        by_whom = confirmed(facts)
        order = class_of_order(candidate, facts.reading, provenance, confirmed=by_whom)
    asked = effective_class(candidate, facts.reading, stored, order)
    if flagged or provenance is None or not unproven:
        return asked
    # A text is not lowered if the operator's own matrix admits or holds unproven text of its class.
    refused = ruleset.cell(provenance.source, asked) is Cell.REFUSE
    return landing_of(asked, candidate, stored) if refused else asked


def audit_cross_check(candidate: Candidate, facts: Facts, _aim: Aim) -> Finding:
    """Pass if the interceptor recorded this candidate with the same id, principal and target."""
    # (7) A row in staging that the interceptor never saw was put there by someone else (MWP 3.2,
    #     bypass and staging injection). It is no structural violation: an attacker in staging could
    #     write any principal's name there, and would push that principal down the trust ladder.
    record = facts.intercept
    if record is None:
        return StepObjection(Reason.NOT_INTERCEPTED)
    same = (
        record.candidate_id == facts.candidate_id
        and record.principal_id == candidate.principal_id
        and record.tenant == candidate.tenant
        and record.target == candidate.target
    )
    return None if same else StepObjection(Reason.AUDIT_MISMATCH)


def digest_integrity(candidate: Candidate, facts: Facts, _aim: Aim) -> Finding:
    """Pass if the judged bytes, the staged bytes and the intercepted bytes are the same."""
    # (4) Recompute here: staging is memory that the agent's request can still influence (MWP 3.2,
    #     attack A5).
    if facts.staged_digest is None or facts.intercept is None:
        return UNAVAILABLE
    judged = digest_of(canonical_bytes(candidate))
    if judged == facts.staged_digest == facts.intercept.digest:
        return None
    return StepObjection(Reason.DIGEST_MISMATCH, structural=True)


def nonce_uniqueness(_candidate: Candidate, facts: Facts, _aim: Aim) -> Finding:
    """Pass if the nonce is new, or only this candidate used it and a person confirmed the bytes."""
    # (5) A replayed nonce with other content, principal or target is attack A4 (MWP 3.2).
    match facts.nonce:
        case None:
            return UNAVAILABLE
        case NonceState.FRESH:
            return None
        case NonceState.OWN:
            return None if _approved(facts) else StepObjection(Reason.NONCE_REPLAYED)
        case NonceState.SPENT:
            return StepObjection(Reason.NONCE_REPLAYED, structural=True)
        case NonceState.FOREIGN_INCARNATION:
            # Honest clients reuse a nonce after a restore, because a backup does not know which
            # nonces were spent after it was made. So a reused nonce is no structural violation.
            return StepObjection(Reason.NONCE_INCARNATION)


def source_class(candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if the matrix lets this source write this class, and change the stored memory."""
    # (1) Source-class compatibility (MWP 3.2; attacks A1, A2), the class floor and the update and
    #     delete rules (docs/labels.md).
    provenance = aim.provenance
    if provenance is None or facts.reading is None:
        return UNAVAILABLE
    if candidate.change is ChangeKind.PURGE and provenance.source is not SourceKind.OPERATOR:
        return StepObjection(Reason.PERSON_REQUIRED)
    unseen, stored = None, facts.stored
    if candidate.change is not ChangeKind.CREATE:
        unseen = _unseen(candidate, provenance, facts)
    if unseen is not None and not unseen.holds:
        return unseen
    # A confirmation is for one version of the memory. Otherwise a harmless change could be held,
    # the memory rewritten meanwhile, and the release would lift the new text into a class in which
    # no person saw it.
    if facts.approval is not None and _approved(facts) and _moved(facts):
        return StepObjection(Reason.PERSON_REQUIRED)
    pair = _matrix_finding(candidate, provenance, facts, aim)
    below = None if stored is None else _below_stored(provenance, stored, aim)
    for finding in (pair, below):
        if finding is not None and not finding.holds:
            return finding
    waits = _instruction_place(candidate, aim)
    if stored is not None:
        waits = waits or _removal_after_reading(provenance, stored)
    return unseen or below or waits or pair or _address_at_stake(candidate, facts.reading, aim)


def _reachable(candidate: Candidate, provenance: Provenance, facts: Facts) -> bool:
    if facts.stored is None:
        return False
    match facts.stored.status:
        case MemoryStatus.LIVE:
            # For the agent, an expired memory does not exist unless its API shows such memories by
            # their ids. Otherwise an update could bring it back.
            return not facts.stored.expired or provenance.source is SourceKind.OPERATOR
        case MemoryStatus.QUARANTINED:
            # For the agent, a quarantined memory does not exist; the operator may still delete or
            # purge it.
            return provenance.source is SourceKind.OPERATOR
        case MemoryStatus.DELETED:
            # A deleted memory still has bytes that a purge erases; no other change of it is
            # possible.
            return candidate.change is ChangeKind.PURGE
        case MemoryStatus.FORWARDING:
            # It is not known yet whether the upstream server stored this memory. Its bytes in this
            # store can be erased all the same.
            return facts.guarded or candidate.change is ChangeKind.PURGE


def _unseen(candidate: Candidate, provenance: Provenance, facts: Facts) -> Finding:
    """Object if the memory to be changed does not exist for its sender.

    An upstream server may have a memory that this store does not: one older than the gate, or
    written by another client. It may be the user's own, so an unproven change waits for a person.
    """
    if _reachable(candidate, provenance, facts):
        return None
    if not facts.guarded or candidate.change is ChangeKind.PURGE:
        return StepObjection(Reason.TARGET_MISSING)
    if provenance.source.proven:
        return None
    return StepObjection(Reason.PERSON_REQUIRED, holds=True)


def _below_stored(provenance: Provenance, stored: TargetState, aim: Aim) -> Finding:
    if aim.stored is None:
        return None
    if provenance.source.trust >= stored.source.trust:
        return None
    # Only proven memories are guarded: an unproven write may change any memory that is not proven.
    if aim.unproven and not stored.source.proven:
        return None
    return StepObjection(Reason.SOURCE_BELOW_STORED, holds=_may_wait(provenance))


def _may_wait(provenance: Provenance) -> bool:
    """Whether a person may still admit a candidate that its label does not permit.

    No, if a vouched harness named the label, or a bound key gave it: then the label is certain.
    """
    return provenance.basis not in {Basis.VOUCHED, Basis.CHANNEL}


def _instruction_place(candidate: Candidate, aim: Aim) -> Finding:
    """Hold an unproven write into a file or block that a host puts into every prompt as rules."""
    held = candidate.instructions and aim.unproven
    return StepObjection(Reason.INSTRUCTION_PLACE, holds=True) if held else None


def _address_at_stake(candidate: Candidate, reading: Reading, aim: Aim) -> Finding:
    """Hold an unproven text that says where money, credentials or contracts go.

    The text need not be an order: an agent that recalls "invoices have always gone to X" sends the
    next invoice to X too.
    """
    held = reading.at_stake and aim.unproven and candidate.change not in _REMOVALS
    return StepObjection(Reason.ADDRESS_AT_STAKE, holds=True) if held else None


def _removal_after_reading(provenance: Provenance, stored: TargetState) -> Finding:
    """Hold a removal of what a session without foreign text wrote, by a session with foreign text.

    Foreign text cannot have written such a memory, so it has no honest reason to remove it.
    """
    if provenance.source.proven or provenance.basis is Basis.VOUCHED:
        return None
    if not (stored.removes and stored.unread and provenance.after_reading):
        return None
    return StepObjection(Reason.REMOVAL_AFTER_READING, holds=True)


def _matrix_finding(
    candidate: Candidate, provenance: Provenance, facts: Facts, aim: Aim
) -> Finding:
    source = provenance.source
    if candidate.change in _REMOVALS and source is SourceKind.OPERATOR:
        return None
    reading = facts.reading
    if reading is None:
        return UNAVAILABLE
    if aim.cell is Cell.HOLD:
        return StepObjection(Reason.SOURCE_CLASS_FORBIDDEN, holds=True)
    if aim.cell is not Cell.REFUSE:
        return None
    named = None if candidate.change in _REMOVALS else named_class(candidate)
    # An unproven text that names a class above knowledge is lowered; only policy (L1) is refused.
    counts = named is MemoryClass.L1 or not aim.unproven
    if named is not None and counts and aim.ruleset.cell(source, named) is Cell.REFUSE:
        # A web page can have a model name any class, so a forbidden pair alone proves nothing about
        # the sender's program. Only a harness that names both source and class, or a program that
        # forges a token, moves down the trust ladder for it (MWP 3.4).
        done = provenance.basis is Basis.VOUCHED or facts.token in _FORGED
        return StepObjection(Reason.SOURCE_CLASS_FORBIDDEN, structural=done)
    reason = Reason.CLASS_FLOOR if reading.flagged else Reason.SOURCE_CLASS_FORBIDDEN
    return StepObjection(reason, holds=_may_wait(provenance))


def promotion(candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if no promotion token is needed, the token is valid, or a person confirmed the bytes."""
    # (6) Promotion token for class upgrades (MWP 3.2, attack A3). A forged or spent token is
    #     refused even where none was needed: an honest client does not have one.
    provenance = aim.provenance
    if provenance is None or facts.reading is None or facts.token is None:
        return UNAVAILABLE
    match facts.token:
        case TokenState.VALID:
            return None
        case TokenState.INVALID:
            return StepObjection(Reason.PROMOTION_TOKEN_INVALID, structural=True)
        case TokenState.SPENT:
            return StepObjection(Reason.PROMOTION_TOKEN_SPENT, structural=True)
        case TokenState.EXPIRED | TokenState.ABSENT:
            return _without_token(candidate, provenance, facts, aim)


def _without_token(candidate: Candidate, provenance: Provenance, facts: Facts, aim: Aim) -> Finding:
    if aim.confirmed or not _needs_token(candidate, provenance.source, facts, aim):
        return None
    if facts.token is TokenState.EXPIRED:
        return StepObjection(Reason.PROMOTION_TOKEN_EXPIRED)
    # Where only the text, or a tool map, raised the class, a person may decide: the client did not
    # name that class.
    raised = aim.landing.power > candidate.memory_class.power
    floored = facts.reading is not None and facts.reading.flagged
    unasked = not candidate.class_named or (floored and raised)
    vouched = provenance.basis is Basis.VOUCHED
    holds = unasked and (is_forwarded(candidate) or floored) and not vouched
    return StepObjection(Reason.PROMOTION_TOKEN_MISSING, holds=holds)


def _needs_token(candidate: Candidate, source: SourceKind, facts: Facts, aim: Aim) -> bool:
    if facts.reading is None or (candidate.change in _REMOVALS and source is SourceKind.OPERATOR):
        return False
    raises = aim.stored is not None and aim.landing.power > aim.stored.power
    return raises or aim.cell is Cell.TOKEN


def language(_candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if the matrix asks for no check of the text, or the text has no order and no attack."""
    # (2) Suspicious language, for pairs that the matrix marks "checked"; it is never the only
    #     protection (MWP 3.2). With the default matrix the class floor of step 1 refuses such texts
    #     earlier; this step is for matrices that let agents write L1.
    if aim.provenance is None or facts.reading is None:
        return UNAVAILABLE
    if aim.cell is not Cell.CHECKED:
        return None
    if facts.reading.injection:
        return StepObjection(Reason.INJECTION_LANGUAGE)
    # A confirmed order is the person's own wish, so it passes. An injection never does.
    if facts.reading.directive and not aim.confirmed:
        return StepObjection(Reason.DIRECTIVE_LANGUAGE)
    return None


def trust_level(_candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if the principal's trust is high enough for the class."""
    # (3) Trust verification (MWP 3.2, 3.4): an untrusted principal writes L4 and nothing else.
    if facts.trust is None or facts.reading is None:
        return UNAVAILABLE
    rules = aim.ruleset.trust
    if facts.trust.level is TrustLevel.UNTRUSTED and aim.judged is not MemoryClass.L4:
        return StepObjection(Reason.TRUST_INSUFFICIENT)
    # The ruleset has the trust score that each class needs. A class without one needs a score
    # that no principal can reach.
    least = rules.soft_score_min.get(aim.judged, 1.0)
    if known_score(facts.trust, rules.scoring) < least:
        return StepObjection(Reason.TRUST_SOFT_SCORE, holds=True)
    return None


def latches(_candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if neither the principal nor the tool that the text came from is latched."""
    # (10) Slow poisoning (docs/threat-model.md#slow): bad outcomes closed the latch, and a good
    #      score alone releases no one. Removals wait as well; episodes (L4) do not.
    if facts.trust is None or facts.reading is None:
        return UNAVAILABLE
    if aim.judged is MemoryClass.L4:
        return None
    origin = facts.origin_trust
    latched = facts.trust.latched or (origin is not None and origin.latched)
    return StepObjection(Reason.TRUST_LATCHED, holds=True) if latched else None


def contradicted_anchors(candidate: Candidate, facts: Facts, ruleset: Ruleset) -> tuple[str, ...]:
    """The ids of the anchors that a candidate contradicts; empty if step 8 does not apply to it."""
    if facts.shadow is None or not _is_shadowed(candidate, aim_of(candidate, facts, ruleset)):
        return ()
    return tuple(probe.anchor_id for probe in facts.shadow if probe.contradicts)


def _is_shadowed(candidate: Candidate, aim: Aim) -> bool:
    """Whether step 8 applies: to L1, L2 and unproven text, unless the change is a removal."""
    low = aim.provenance is None or aim.unproven
    return candidate.change not in _REMOVALS and (low or aim.judged in _SHADOWED)


def cognitive_staging(candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if the candidate repeats no hidden memory, and displaces no anchor in a trial search."""
    # (8) Cognitive staging for L1 and L2 (MWP 3.2, policy override), and for every unproven text:
    #     a note that no one vouches for may displace a registered truth too. A removal passes: it
    #     adds nothing that a retrieval could find.
    if facts.reading is None or aim.provenance is None:
        return UNAVAILABLE
    repeats = facts.repeats_hidden and candidate.change not in _REMOVALS
    if repeats and not (aim.provenance.source.proven or aim.confirmed):
        return StepObjection(Reason.REPEATS_HIDDEN)
    # A tenant without anchors has no probes.
    return None if facts.shadow == () else _displacement(candidate, facts, aim)


def _displacement(candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    if not _is_shadowed(candidate, aim):
        return None
    if facts.shadow is None:
        return UNAVAILABLE
    outranks: Finding = None
    for probe in facts.shadow:
        if probe.contradicts:
            return StepObjection(Reason.CONTRADICTS_ANCHOR, holds=True)
        if probe.outranks:
            outranks = StepObjection(Reason.OUTRANKS_ANCHOR, holds=True)
    return outranks


def budgets(candidate: Candidate, facts: Facts, aim: Aim) -> Finding:
    """Pass if the budgets for size, rate and topics leave room for this candidate."""
    # (9) Floods (docs/threat-model.md#flood). Sizes are measured here and not taken from the facts.
    state, limits = facts.budget, aim.ruleset.budgets
    if state is None:
        return UNAVAILABLE
    if _is_over(limits.text_bytes_max, state.text_bytes, candidate.text) or _is_over(
        limits.metadata_bytes_max, state.metadata_bytes, candidate.metadata_json
    ):
        return StepObjection(Reason.OVERSIZE)
    over_rate = state.writes_in_window_count >= limits.writes_per_window_max
    over_topic = state.topic_writes_count >= limits.topic_writes_max
    if over_rate and limits.over_rate is OverBudget.REJECT:
        return StepObjection(Reason.RATE_LIMITED)
    full = state.tenant_full and candidate.change not in _REMOVALS
    if full or (over_topic and limits.over_topic is OverBudget.REJECT):
        return StepObjection(Reason.QUOTA_EXCEEDED)
    if over_rate:
        return StepObjection(Reason.RATE_LIMITED, holds=True)
    return StepObjection(Reason.QUOTA_EXCEEDED, holds=True) if over_topic else None


def _is_over(limit: int, told: int, text: str | None) -> bool:
    """Whether a text has more bytes than the limit, by what the facts tell or as measured."""
    if told > limit or text is None:
        return told > limit
    return len(text) > limit or (
        not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > limit
    )


# The steps on integrity come first: a candidate that was not intercepted, or that was altered, must
# not be judged on its content, because its sender is not accountable for that content.
STEPS: Final = (
    Step(number=7, name="audit_cross_check", check=audit_cross_check),
    Step(number=4, name="digest_integrity", check=digest_integrity),
    Step(number=5, name="nonce_uniqueness", check=nonce_uniqueness),
    Step(number=1, name="source_class", check=source_class),
    Step(number=6, name="promotion", check=promotion),
    Step(number=2, name="language", check=language),
    Step(number=10, name="latches", check=latches),
    Step(number=3, name="trust_level", check=trust_level),
    Step(number=8, name="cognitive_staging", check=cognitive_staging),
    Step(number=9, name="budgets", check=budgets),
)
