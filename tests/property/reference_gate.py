"""The gate again, slow and obvious: what the design says, in plain words and nested ifs.

Written from the text of the design. It shares the nouns and the reasons with the real gate, and no
logic: its own matrix, its own lattice, its own order. It collects every complaint of every step and
only then looks for the one that decides.
"""

# ruff: noqa: C901, FBT003, PLR0911, PLR0912, PLR0915 - long and flat on purpose: it must be obvious

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec
import rfc8785

from policy.facts import Facts
from policy.model import Candidate
from policy.ruleset import Ruleset
from policy.verdict import Reason

# Design section 6: y admitted, + checked, T token, n refused.
TABLE = {
    "operator": {"L1": "y", "L2": "y", "L3": "y", "L4": "y"},
    "user_input": {"L1": "T", "L2": "y", "L3": "y", "L4": "y"},
    "agent_self_edit": {"L1": "n", "L2": "+", "L3": "y", "L4": "y"},
    "model_inference": {"L1": "n", "L2": "+", "L3": "+", "L4": "y"},
    "tool_result": {"L1": "n", "L2": "n", "L3": "+", "L4": "+"},
    "unknown": {"L1": "n", "L2": "n", "L3": "+", "L4": "+"},
}
RANK = {
    "operator": 3,
    "user_input": 2,
    "agent_self_edit": 1,
    "model_inference": 1,
    "tool_result": 0,
    "unknown": 0,
}
LETTERS = {"admit": "y", "checked": "+", "token": "T", "hold": "H", "refuse": "n"}


class Expected(NamedTuple):
    decision: str
    reason: Reason | None
    step: int | None
    structural: bool
    memory_class: str
    source: str | None
    basis: str | None = None


class Complaint(NamedTuple):
    step: int
    kind: str  # "hold" or "reject"
    reason: Reason
    structural: bool = False


class View(NamedTuple):
    """The case in plain words."""

    source: str
    basis: str
    lands_in: str
    judged_as: str
    named: str | None
    stored_class: str | None
    stored_source: str | None
    stored_status: str | None
    floored: bool
    raised: bool
    approved: bool
    moved: bool
    confirmed: bool
    unproven: bool


def judge(
    candidate: Candidate, facts: Facts, ruleset: Ruleset, skipped: frozenset[int] = frozenset()
) -> Expected:
    """The verdict that the gate must return."""
    table = {
        source.value: {cls.value: LETTERS[cell.value] for cls, cell in row.items()}
        for source, row in ruleset.matrix.items()
    }
    view = look(candidate, facts, table)
    lands_in = view.lands_in
    if not ruleset.matrix or facts.overdue:
        return Expected("reject", Reason.GATE_UNAVAILABLE, 0, False, lands_in, None)
    complaints: list[Complaint] = []
    for step in (7, 4, 5, 1, 6, 2, 10, 3, 8, 9):
        if step in skipped:
            continue
        complaints.extend(complain(step, candidate, facts, ruleset, view, table))
    for complaint in complaints:
        if complaint.kind == "reject":
            return Expected(
                "reject", complaint.reason, complaint.step, complaint.structural, lands_in, None
            )
    if not view.confirmed and facts.provenance is not None:
        # A person's denial stands for what she denied, and after three on one day nobody is asked
        # for a session that had read.
        step = complaints[0].step if complaints else 1
        if facts.denied and (complaints or RANK[view.source] < RANK["user_input"]):
            return Expected("reject", Reason.DENIED_BY_PERSON, step, False, lands_in, None)
        if facts.denied_today and complaints and facts.provenance.after_reading:
            return Expected("reject", Reason.DENIED_TODAY, step, False, lands_in, None)
    if not view.confirmed:
        for complaint in complaints:
            return Expected("hold", complaint.reason, complaint.step, False, lands_in, None)
    if facts.provenance is None or facts.reading is None or facts.staged_digest is None:
        return Expected("reject", Reason.GATE_UNAVAILABLE, 0, False, lands_in, None)
    source, basis = view.source, view.basis
    if view.confirmed and RANK[source] < RANK["user_input"]:
        source, basis = "user_input", "confirmation"
    updated = facts.stored if candidate.change.value == "update" else None
    remains = None if updated is None or updated.remains is None else updated.remains.value
    if remains is not None and RANK[remains] < RANK[source]:
        source, basis = remains, "lineage"
    if updated is None and candidate.change.value == "update" and RANK[source] > 0:
        # The server keeps words that nobody here has seen; no case of the space sets the whole.
        source, basis = "unknown", "lineage"
    return Expected("admit", None, None, False, lands_in, source, basis)


def label_of(candidate: Candidate, facts: Facts) -> tuple[str, str]:
    source, basis = "", ""
    if facts.provenance is not None:
        source, basis = facts.provenance.source.value, facts.provenance.basis.value
        if candidate.derived_from or facts.lineage is not None:
            least = "unknown" if facts.lineage is None else facts.lineage.value
            if RANK[least] < RANK[source]:
                source, basis = least, "lineage"
    return source, basis


def look(candidate: Candidate, facts: Facts, table: dict[str, dict[str, str]]) -> View:
    change = candidate.change.value
    source, basis = label_of(candidate, facts)
    stored_class = stored_source = stored_status = None
    if facts.stored is not None:
        stored_status = facts.stored.status.value
        if facts.stored.expired and stored_status == "live":
            stored_status = "expired"
        if stored_status != "deleted":
            met = facts.stored.memory_class
            stored_class = None if met is None else met.value
            stored_source = None if met is None else facts.stored.source.value
    floored = facts.reading is not None and (facts.reading.directive or facts.reading.injection)
    asked = candidate.memory_class.value
    elsewhere = candidate.target.startswith("mcp/")
    if facts.reading is None or change == "create" or stored_class is None:
        lands_in = asked
    else:
        keeps = not (change == "update" and candidate.class_named)
        lands_in = stored_class if keeps else asked
        if keeps and change == "update" and elsewhere:
            lands_in = min(asked, stored_class)
    approved = (
        facts.approval is not None
        and facts.staged_digest is not None
        and facts.approval.digest == facts.staged_digest
    )
    version = 0 if facts.stored is None else facts.stored.version
    moved = facts.approval is not None and facts.approval.target_version != version
    confirmed = approved and not moved
    if floored:
        lands_in = min(lands_in, kept_as(candidate, facts, basis, confirmed=confirmed))
    raised = lands_in < asked
    named = asked if candidate.class_named and change in ("create", "update") else None
    # What nothing proves becomes knowledge, unless it names a policy or changes what is above that.
    unproven = RANK.get(source, 9) == 0 and basis != "vouched"
    if unproven and facts.reading is not None and not floored:
        shut = table.get(source, {}).get(lands_in, "n") == "n"
        above = stored_class is not None and stored_class < "L3"
        policy = candidate.class_named and asked == "L1"
        if shut and lands_in < "L3" and not above and not policy:
            lands_in = "L3"
    if unproven and named != "L1":
        named = None
    # "L1" < "L2" as text: the smaller name is the more powerful class.
    judged_as = lands_in if stored_class is None else min(lands_in, stored_class)
    return View(
        source, basis, lands_in, judged_as, named, stored_class, stored_source, stored_status,
        floored, raised, approved, moved, confirmed, unproven,
    )  # fmt: skip


def kept_as(candidate: Candidate, facts: Facts, basis: str, *, confirmed: bool) -> str:
    """An order is policy; a person's own short one, or one that she confirmed, is a preference."""
    if facts.provenance is None or facts.reading is None or facts.reading.injection:
        return "L1"
    source, _ = label_of(candidate, facts)
    if basis == "vouched" or source == "operator":
        return "L1"
    short = candidate.text is not None and len(candidate.text) <= 240
    return "L2" if confirmed or (source == "user_input" and short) else "L1"


def complain(
    step: int,
    candidate: Candidate,
    facts: Facts,
    ruleset: Ruleset,
    view: View,
    table: dict[str, dict[str, str]],
) -> list[Complaint]:
    if step == 7:
        return complain_7(candidate, facts)
    if step == 4:
        return complain_4(candidate, facts)
    if step == 5:
        return complain_5(facts, view)
    if step == 9:
        return complain_9(candidate, facts, ruleset)
    if step == 10:
        return complain_10(facts, view)
    unreadable = [Complaint(step, "reject", Reason.GATE_UNAVAILABLE)]
    if facts.reading is None or (step in (1, 2, 6) and facts.provenance is None):
        return unreadable
    if step == 1:
        forged = facts.token is not None and facts.token.value in ("invalid", "spent")
        return complain_1(candidate, facts, view, table, forged=forged)
    if step == 6:
        return complain_6(candidate, facts, view, table)
    if step == 2:
        if table.get(view.source, {}).get(view.judged_as) == "+" and view.floored:
            if facts.reading.injection:
                return [Complaint(2, "reject", Reason.INJECTION_LANGUAGE)]
            if not view.confirmed:
                return [Complaint(2, "reject", Reason.DIRECTIVE_LANGUAGE)]
        return []
    if step == 3:
        return unreadable if facts.trust is None else complain_3(facts, ruleset, view)
    return complain_8(candidate, facts, view)


def complain_7(candidate: Candidate, facts: Facts) -> list[Complaint]:
    seen = facts.intercept
    if seen is None:
        return [Complaint(7, "reject", Reason.NOT_INTERCEPTED)]
    for mine, theirs in (
        (facts.candidate_id, seen.candidate_id),
        (candidate.principal_id, seen.principal_id),
        (candidate.tenant, seen.tenant),
        (candidate.target, seen.target),
    ):
        if mine != theirs:
            return [Complaint(7, "reject", Reason.AUDIT_MISMATCH)]
    return []


def complain_4(candidate: Candidate, facts: Facts) -> list[Complaint]:
    if facts.staged_digest is None or facts.intercept is None:
        return [Complaint(4, "reject", Reason.GATE_UNAVAILABLE)]
    fresh = hashlib.sha256(rfc8785.dumps(msgspec.to_builtins(candidate))).digest()
    if facts.staged_digest != facts.intercept.digest or fresh != facts.staged_digest:
        return [Complaint(4, "reject", Reason.DIGEST_MISMATCH, structural=True)]
    return []


def complain_5(facts: Facts, view: View) -> list[Complaint]:
    state = "missing" if facts.nonce is None else facts.nonce.value
    if state == "missing":
        return [Complaint(5, "reject", Reason.GATE_UNAVAILABLE)]
    if state == "spent":
        return [Complaint(5, "reject", Reason.NONCE_REPLAYED, structural=True)]
    if state == "foreign_incarnation":
        return [Complaint(5, "reject", Reason.NONCE_INCARNATION)]
    if state == "own" and not view.approved:
        return [Complaint(5, "reject", Reason.NONCE_REPLAYED)]
    return []


def complain_1(
    candidate: Candidate,
    facts: Facts,
    view: View,
    table: dict[str, dict[str, str]],
    *,
    forged: bool,
) -> list[Complaint]:
    guarded = facts.guarded
    change = candidate.change.value
    unseen = False
    if change == "purge":
        if view.source != "operator":
            return [Complaint(1, "reject", Reason.PERSON_REQUIRED)]
        if view.stored_status is None:
            return [Complaint(1, "reject", Reason.TARGET_MISSING)]
    if change in ("update", "delete"):
        unseen = view.stored_status is None or view.stored_status == "deleted"
        if view.stored_status in ("quarantined", "expired") and view.source != "operator":
            unseen = True
        if view.stored_status == "forwarding" and not guarded:
            unseen = True
        if unseen and not guarded:
            return [Complaint(1, "reject", Reason.TARGET_MISSING)]
    if view.approved and view.moved:
        return [Complaint(1, "reject", Reason.PERSON_REQUIRED)]
    soft = view.basis not in ("channel", "vouched")
    complaints: list[Complaint] = []
    if unseen and view.source not in ("operator", "user_input"):
        complaints.append(Complaint(1, "hold", Reason.PERSON_REQUIRED))
    proven = ("operator", "user_input")
    below = view.stored_source is not None and RANK[view.source] < RANK[view.stored_source]
    if below and not (view.unproven and view.stored_source not in proven):
        kind = "hold" if soft else "reject"
        complaints.append(Complaint(1, kind, Reason.SOURCE_BELOW_STORED))
    if candidate.instructions and view.unproven:
        complaints.append(Complaint(1, "hold", Reason.INSTRUCTION_PLACE))
    had_read = facts.provenance is not None and facts.provenance.after_reading
    stored = facts.stored
    removed = stored is not None and stored.removes and stored.unread
    if removed and had_read and view.source not in proven and view.basis != "vouched":
        complaints.append(Complaint(1, "hold", Reason.REMOVAL_AFTER_READING))
    if change in ("delete", "purge") and view.source == "operator":
        return complaints
    row = table.get(view.source, {})
    letter = row.get(view.judged_as, "n")
    if letter == "H":
        complaints.append(Complaint(1, "hold", Reason.SOURCE_CLASS_FORBIDDEN))
    if letter == "n":
        if view.named is not None and row.get(view.named, "n") == "n":
            done = view.basis == "vouched" or forged
            return [Complaint(1, "reject", Reason.SOURCE_CLASS_FORBIDDEN, structural=done)]
        reason = Reason.CLASS_FLOOR if view.floored else Reason.SOURCE_CLASS_FORBIDDEN
        if not soft:
            return [Complaint(1, "reject", reason)]
        complaints.append(Complaint(1, "hold", reason))
    at_stake = facts.reading is not None and facts.reading.at_stake
    if at_stake and view.unproven and change not in ("delete", "purge"):
        complaints.append(Complaint(1, "hold", Reason.ADDRESS_AT_STAKE))
    return complaints


def complain_6(
    candidate: Candidate, facts: Facts, view: View, table: dict[str, dict[str, str]]
) -> list[Complaint]:
    if facts.token is None:
        return [Complaint(6, "reject", Reason.GATE_UNAVAILABLE)]
    token = facts.token.value
    if token == "invalid":
        return [Complaint(6, "reject", Reason.PROMOTION_TOKEN_INVALID, structural=True)]
    if token == "spent":
        return [Complaint(6, "reject", Reason.PROMOTION_TOKEN_SPENT, structural=True)]
    if token == "valid" or view.confirmed:
        return []
    removal = candidate.change.value in ("delete", "purge")
    needed = False
    if not (removal and view.source == "operator"):
        if table.get(view.source, {}).get(view.judged_as) == "T":
            needed = True
        if view.stored_class is not None and view.lands_in < view.stored_class:
            needed = True
    if not needed:
        return []
    if token == "expired":
        return [Complaint(6, "reject", Reason.PROMOTION_TOKEN_EXPIRED)]
    by_rule = view.floored or candidate.target.startswith("mcp/")
    text_alone = by_rule and (not candidate.class_named or (view.floored and view.raised))
    if text_alone and view.basis != "vouched":
        return [Complaint(6, "hold", Reason.PROMOTION_TOKEN_MISSING)]
    return [Complaint(6, "reject", Reason.PROMOTION_TOKEN_MISSING)]


def complain_3(facts: Facts, ruleset: Ruleset, view: View) -> list[Complaint]:
    assert facts.trust is not None
    if facts.trust.level.value == "untrusted" and view.judged_as != "L4":
        return [Complaint(3, "reject", Reason.TRUST_INSUFFICIENT)]
    alpha, beta = 1 + facts.trust.good, 1 + facts.trust.bad
    if facts.trust.good + facts.trust.bad / ruleset.trust.scoring.bad_weight < 5:
        alpha, beta = 1, 1
    wanted = {cls.value: share for cls, share in ruleset.trust.soft_score_min.items()}
    if alpha / (alpha + beta) < wanted.get(view.judged_as, 1):
        return [Complaint(3, "hold", Reason.TRUST_SOFT_SCORE)]
    return []


def complain_10(facts: Facts, view: View) -> list[Complaint]:
    if facts.trust is None or facts.reading is None:
        return [Complaint(10, "reject", Reason.GATE_UNAVAILABLE)]
    latched = [facts.trust.latched_at_ms is not None]
    if facts.origin_trust is not None:
        latched.append(facts.origin_trust.latched_at_ms is not None)
    if any(latched) and view.judged_as in ("L1", "L2", "L3"):
        return [Complaint(10, "hold", Reason.TRUST_LATCHED)]
    return []


def complain_8(candidate: Candidate, facts: Facts, view: View) -> list[Complaint]:
    if candidate.change.value in ("delete", "purge"):
        return []
    if facts.provenance is None:
        return [Complaint(8, "reject", Reason.GATE_UNAVAILABLE)]
    if facts.repeats_hidden and RANK[view.source] < RANK["user_input"] and not view.confirmed:
        return [Complaint(8, "reject", Reason.REPEATS_HIDDEN)]
    if view.judged_as in ("L3", "L4") and not view.unproven:
        return []
    if facts.shadow is None:
        return [Complaint(8, "reject", Reason.GATE_UNAVAILABLE)]
    contradicted = [probe for probe in facts.shadow if probe.contradicts]
    outranked = [probe for probe in facts.shadow if probe.outranks]
    if contradicted:
        return [Complaint(8, "hold", Reason.CONTRADICTS_ANCHOR)]
    if outranked:
        return [Complaint(8, "hold", Reason.OUTRANKS_ANCHOR)]
    return []


def complain_9(candidate: Candidate, facts: Facts, ruleset: Ruleset) -> list[Complaint]:
    if facts.budget is None:
        return [Complaint(9, "reject", Reason.GATE_UNAVAILABLE)]
    limits = ruleset.budgets
    text = (candidate.text or "").encode()
    metadata = (candidate.metadata_json or "").encode()
    too_large = (
        len(text) > limits.text_bytes_max
        or facts.budget.text_bytes > limits.text_bytes_max
        or len(metadata) > limits.metadata_bytes_max
        or facts.budget.metadata_bytes > limits.metadata_bytes_max
    )
    complaints: list[Complaint] = []
    if too_large:
        complaints.append(Complaint(9, "reject", Reason.OVERSIZE))
    if facts.budget.writes_in_window_count >= limits.writes_per_window_max:
        complaints.append(Complaint(9, limits.over_rate.value, Reason.RATE_LIMITED))
    if facts.budget.tenant_full and candidate.change.value not in {"delete", "purge"}:
        complaints.append(Complaint(9, "reject", Reason.QUOTA_EXCEEDED))
    if facts.budget.topic_writes_count >= limits.topic_writes_max:
        complaints.append(Complaint(9, limits.over_topic.value, Reason.QUOTA_EXCEEDED))
    return complaints
