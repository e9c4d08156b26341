"""The rules of single steps that the label space does not spell out; the order of labels."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from policy.checks import budgets, latches, trust_level
from policy.facts import BudgetState, TargetState, TokenState
from policy.gate import GATE
from policy.labels.derive import is_lowered
from policy.model import Basis, ChangeKind, MemoryClass, MemoryStatus, Reading, SourceKind, meet
from policy.ruleset import Cell, OverBudget
from policy.trust.score import TrustLevel, TrustState
from policy.verdict import Admit, Hold, Reason, Reject
from tests.property.gate_cases import READINGS, RULESET, Labels, case_of, finding_of

OWN = TargetState(
    source=SourceKind.UNKNOWN,
    memory_class=MemoryClass.L3,
    status=MemoryStatus.LIVE,
    remains=SourceKind.UNKNOWN,
)


@pytest.mark.parametrize("change", [ChangeKind.UPDATE, ChangeKind.DELETE])
def test_an_agent_waits_for_a_person_to_change_what_is_above_it(change: ChangeKind) -> None:
    stored = msgspec.structs.replace(OWN, source=SourceKind.USER_INPUT)
    verdict = GATE.decide(*case_of(Labels(change=change, stored=stored)), RULESET)
    assert isinstance(verdict, Hold)
    assert verdict.reason is Reason.SOURCE_BELOW_STORED
    vouched = Labels(change=change, stored=stored, basis=Basis.VOUCHED)
    refused = GATE.decide(*case_of(vouched), RULESET)
    assert isinstance(refused, Reject)
    assert not refused.structural


def test_an_updated_memory_keeps_the_lower_label() -> None:
    update = Labels(
        change=ChangeKind.UPDATE,
        source=SourceKind.USER_INPUT,
        basis=Basis.CHANNEL,
        stored=OWN,
    )
    verdict = GATE.decide(*case_of(update), RULESET)
    assert isinstance(verdict, Admit)
    assert verdict.permit.source is SourceKind.UNKNOWN


@pytest.mark.parametrize("approval", [None, "same"])
def test_a_memory_that_is_changed_whole_has_the_label_of_the_change(approval: str | None) -> None:
    update = Labels(
        change=ChangeKind.UPDATE,
        source=SourceKind.MODEL_INFERENCE,
        basis=Basis.VOUCHED,
        stored=msgspec.structs.replace(OWN, remains=None),
        approval=approval,
    )
    verdict = GATE.decide(*case_of(update), RULESET)
    assert isinstance(verdict, Admit)
    expected = SourceKind.USER_INPUT if approval else SourceKind.MODEL_INFERENCE
    assert verdict.permit.source is expected
    part = GATE.decide(*case_of(update._replace(stored=OWN)), RULESET)
    assert isinstance(part, Admit)
    assert part.permit.source is SourceKind.UNKNOWN


@pytest.mark.parametrize("change", [ChangeKind.DELETE, ChangeKind.UPDATE, ChangeKind.CREATE])
def test_a_removal_after_reading_waits_where_what_it_removes_was_written_without(
    change: ChangeKind,
) -> None:
    clean = msgspec.structs.replace(OWN, removes=True, unread=True)
    removal = Labels(change=change, stored=clean, after_reading=True)
    held = GATE.decide(*case_of(removal), RULESET)
    assert isinstance(held, Hold)
    assert held.reason is Reason.REMOVAL_AFTER_READING
    # The controls: nothing read, something written after reading, nothing taken away.
    for other in (
        removal._replace(after_reading=False),
        removal._replace(stored=msgspec.structs.replace(clean, unread=False)),
        removal._replace(stored=msgspec.structs.replace(clean, removes=False)),
    ):
        assert isinstance(GATE.decide(*case_of(other), RULESET), Admit)
    hers = removal._replace(source=SourceKind.USER_INPUT, basis=Basis.CHANNEL)
    assert isinstance(GATE.decide(*case_of(hers), RULESET), Admit)
    assert isinstance(GATE.decide(*case_of(removal._replace(approval="same")), RULESET), Admit)


def test_an_unproven_write_into_a_place_of_instructions_waits() -> None:
    written = Labels(instructions=True)
    held = GATE.decide(*case_of(written), RULESET)
    assert isinstance(held, Hold)
    assert held.reason is Reason.INSTRUCTION_PLACE
    for other in (
        written._replace(instructions=False),
        written._replace(source=SourceKind.USER_INPUT, basis=Basis.CHANNEL),
        written._replace(source=SourceKind.OPERATOR, basis=Basis.CHANNEL),
    ):
        assert isinstance(GATE.decide(*case_of(other), RULESET), Admit)


def test_unproven_labels_have_one_rank() -> None:
    for stored, source in (
        (SourceKind.TOOL_RESULT, SourceKind.UNKNOWN),
        (SourceKind.UNKNOWN, SourceKind.TOOL_RESULT),
        (SourceKind.MODEL_INFERENCE, SourceKind.UNKNOWN),
    ):
        there = msgspec.structs.replace(OWN, source=stored)
        for change in (ChangeKind.UPDATE, ChangeKind.DELETE):
            verdict = GATE.decide(
                *case_of(Labels(change=change, source=source, stored=there)), RULESET
            )
            assert isinstance(verdict, Admit)


@pytest.mark.parametrize("source", [kind for kind in SourceKind if kind is not SourceKind.OPERATOR])
def test_only_an_operator_purges(source: SourceKind) -> None:
    purge = Labels(change=ChangeKind.PURGE, source=source, basis=Basis.CHANNEL, stored=OWN)
    verdict = GATE.decide(*case_of(purge), RULESET)
    assert isinstance(verdict, Reject)
    assert verdict.reason is Reason.PERSON_REQUIRED


def test_a_raise_of_a_stored_class_needs_a_token_even_from_an_operator() -> None:
    update = Labels(
        change=ChangeKind.UPDATE,
        source=SourceKind.OPERATOR,
        basis=Basis.CHANNEL,
        stored=OWN,
        memory_class=MemoryClass.L1,
        class_named=True,
    )
    verdict = GATE.decide(*case_of(update), RULESET)
    assert isinstance(verdict, Reject)
    assert (verdict.reason, verdict.step) == (Reason.PROMOTION_TOKEN_MISSING, 6)


@pytest.mark.parametrize(
    ("state", "answers", "reason", "holds"),
    [
        ({"text_bytes": 65_536}, {}, None, False),
        ({"text_bytes": 65_537}, {}, Reason.OVERSIZE, False),
        ({"metadata_bytes": 32_769}, {}, Reason.OVERSIZE, False),
        ({"writes_in_window_count": 99_999}, {}, None, False),
        ({"writes_in_window_count": 100_000}, {}, Reason.RATE_LIMITED, False),
        ({"writes_in_window_count": 100_000}, {"over_rate": "hold"}, Reason.RATE_LIMITED, True),
        ({"topic_writes_count": 10_000}, {}, Reason.QUOTA_EXCEEDED, True),
        ({"topic_writes_count": 10_000}, {"over_topic": "reject"}, Reason.QUOTA_EXCEEDED, False),
        (
            {"writes_in_window_count": 100_000, "topic_writes_count": 10_000},
            {"over_rate": "hold", "over_topic": "reject"},
            Reason.QUOTA_EXCEEDED,
            False,
        ),
    ],
)
def test_budgets_answer_as_the_ruleset_says(
    state: dict[str, int],
    answers: dict[str, str],
    reason: Reason | None,
    holds: bool,  # noqa: FBT001
) -> None:
    quiet = BudgetState(writes_in_window_count=0, text_bytes=0, metadata_bytes=0)
    candidate, facts = case_of(Labels())
    facts = msgspec.structs.replace(facts, budget=msgspec.structs.replace(quiet, **state))
    limits = {name: OverBudget(word) for name, word in answers.items()}
    ruleset = msgspec.structs.replace(
        RULESET, budgets=msgspec.structs.replace(RULESET.budgets, **limits)
    )
    finding = finding_of(budgets, candidate, facts, ruleset)
    assert (finding and finding.reason) is reason
    assert finding is None or finding.holds is holds


def test_size_is_measured_in_bytes_on_the_candidate_itself() -> None:
    candidate, facts = case_of(Labels())
    large = msgspec.structs.replace(candidate, text="\u20ac" * 30_000)
    finding = finding_of(budgets, large, facts, RULESET)
    assert finding is not None
    assert finding.reason is Reason.OVERSIZE


@pytest.mark.parametrize("memory_class", MemoryClass)
def test_an_untrusted_principal_writes_scratch_and_nothing_else(memory_class: MemoryClass) -> None:
    labels = Labels(
        source=SourceKind.OPERATOR,
        basis=Basis.CHANNEL,
        memory_class=memory_class,
        trust=TrustLevel.UNTRUSTED,
    )
    verdict = GATE.decide(*case_of(labels), RULESET)
    assert isinstance(verdict, Admit) is (memory_class is MemoryClass.L4)


@pytest.mark.parametrize("whose", ["trust", "origin_trust"])
@pytest.mark.parametrize("memory_class", MemoryClass)
@pytest.mark.parametrize("change", [ChangeKind.CREATE, ChangeKind.DELETE])
def test_a_latch_holds_changes_of_any_kind_but_scratch(
    whose: str, memory_class: MemoryClass, change: ChangeKind
) -> None:
    labels = Labels(
        source=SourceKind.OPERATOR,
        basis=Basis.CHANNEL,
        memory_class=memory_class,
        change=change,
        stored=msgspec.structs.replace(OWN, memory_class=memory_class),
    )
    candidate, facts = case_of(labels)
    assert finding_of(latches, candidate, facts, RULESET) is None
    known = TrustState(good=1_000.0, latched_at_ms=0)
    found = finding_of(
        latches, candidate, msgspec.structs.replace(facts, **{whose: known}), RULESET
    )
    if memory_class is MemoryClass.L4:
        assert found is None
    else:
        assert found is not None
        assert (found.reason, found.holds) == (Reason.TRUST_LATCHED, True)


def test_a_bad_soft_score_holds_and_a_good_one_opens_nothing() -> None:
    candidate, facts = case_of(Labels())
    good = TrustState(level=TrustLevel.UNTRUSTED, good=20.0)
    few, bad = TrustState(good=1.0, bad=19.0), TrustState(good=1.0, bad=20.0)
    known = msgspec.structs.replace(facts, trust=few)
    assert finding_of(trust_level, candidate, known, RULESET) is None, (
        "four bad outcomes are no rate"
    )
    held = finding_of(trust_level, candidate, msgspec.structs.replace(facts, trust=bad), RULESET)
    assert held is not None
    assert (held.reason, held.holds) == (Reason.TRUST_SOFT_SCORE, True)
    refused = finding_of(
        trust_level, candidate, msgspec.structs.replace(facts, trust=good), RULESET
    )
    assert refused is not None
    assert refused.reason is Reason.TRUST_INSUFFICIENT


NAMED = Labels(
    source=SourceKind.TOOL_RESULT,
    memory_class=MemoryClass.L2,
    class_named=True,
    basis=Basis.UNPROVEN,
)
SOFT = [basis for basis in Basis if basis is not Basis.VOUCHED]


@pytest.mark.parametrize("basis", SOFT)
@pytest.mark.parametrize("source", [SourceKind.TOOL_RESULT, SourceKind.UNKNOWN])
def test_a_named_preference_of_a_label_that_may_write_none_becomes_knowledge(
    basis: Basis, source: SourceKind
) -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(basis=basis, source=source)), RULESET)
    assert isinstance(verdict, Admit)
    assert verdict.permit.memory_class is MemoryClass.L3
    assert verdict.permit.source is source


@pytest.mark.parametrize("basis", Basis)
def test_named_policy_is_refused_and_never_lowered(basis: Basis) -> None:
    verdict = GATE.decide(
        *case_of(NAMED._replace(memory_class=MemoryClass.L1, basis=basis)), RULESET
    )
    assert isinstance(verdict, Reject)
    assert verdict.memory_class is MemoryClass.L1


@pytest.mark.parametrize("reading", READINGS[1:3])
def test_what_reads_as_an_order_waits_whatever_class_it_names(reading: Reading) -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(reading=reading)), RULESET)
    assert isinstance(verdict, Hold)
    assert (verdict.reason, verdict.memory_class) == (Reason.CLASS_FLOOR, MemoryClass.L1)


@pytest.mark.parametrize("change", [ChangeKind.CREATE, ChangeKind.UPDATE])
@pytest.mark.parametrize("stored_class", MemoryClass)
def test_a_change_lands_low_unless_what_it_changes_is_above(
    change: ChangeKind, stored_class: MemoryClass
) -> None:
    stored = TargetState(
        source=SourceKind.UNKNOWN, memory_class=stored_class, status=MemoryStatus.LIVE
    )
    # A rise of an episode needs a token, so one comes along.
    named = NAMED._replace(change=change, stored=stored, token=TokenState.VALID)
    verdict = GATE.decide(*case_of(named), RULESET)
    above = stored_class.power > MemoryClass.L3.power
    assert isinstance(verdict, Hold if above else Admit)
    if isinstance(verdict, Admit):
        assert verdict.permit.memory_class is MemoryClass.L3


def test_a_pair_that_the_operator_wants_held_is_held() -> None:
    matrix = {source: dict(row) for source, row in RULESET.matrix.items()}
    matrix[SourceKind.TOOL_RESULT][MemoryClass.L2] = Cell.HOLD
    verdict = GATE.decide(*case_of(NAMED), msgspec.structs.replace(RULESET, matrix=matrix))
    assert isinstance(verdict, Hold)
    assert verdict.memory_class is MemoryClass.L2


def test_a_lowered_class_is_judged_by_the_rules_of_knowledge() -> None:
    # The anchors are asked about every unproven text, and trust counts.
    unasked = GATE.decide(*case_of(NAMED._replace(shadow=None)), RULESET)
    assert isinstance(unasked, Reject)
    assert unasked.reason is Reason.GATE_UNAVAILABLE
    refused = GATE.decide(*case_of(NAMED._replace(trust=TrustLevel.UNTRUSTED)), RULESET)
    assert isinstance(refused, Reject)
    assert refused.reason is Reason.TRUST_INSUFFICIENT


@pytest.mark.parametrize("basis", Basis)
@pytest.mark.parametrize("memory_class", [MemoryClass.L1, MemoryClass.L2])
def test_a_forbidden_pair_moves_the_ladder_only_where_the_label_is_vouched_for(
    basis: Basis, memory_class: MemoryClass
) -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(memory_class=memory_class, basis=basis)), RULESET)
    structural = isinstance(verdict, Reject) and verdict.structural
    assert structural == (basis is Basis.VOUCHED)


@pytest.mark.parametrize(
    ("change", "named", "landed", "said"),
    [
        (ChangeKind.CREATE, MemoryClass.L2, MemoryClass.L3, True),
        (ChangeKind.CREATE, MemoryClass.L2, MemoryClass.L2, False),
        (ChangeKind.CREATE, MemoryClass.L4, MemoryClass.L1, False),
        (ChangeKind.CREATE, None, MemoryClass.L3, False),
        (ChangeKind.UPDATE, MemoryClass.L2, MemoryClass.L3, True),
        (ChangeKind.DELETE, MemoryClass.L2, MemoryClass.L3, False),
    ],
)
def test_both_classes_say_whether_one_was_lowered(
    change: ChangeKind, named: MemoryClass | None, landed: MemoryClass, *, said: bool
) -> None:
    assert is_lowered(change, named, landed) is said


def test_the_meet_is_the_less_trusted_in_any_order_and_never_more_than_either() -> None:
    for one, other in itertools.product(SourceKind, repeat=2):
        least = meet(one, other)
        assert least in {one, other}
        assert least.trust == meet(other, one).trust == min(one.trust, other.trust)


def test_the_lattice_is_that_of_the_design() -> None:
    ranks = [kind.trust for kind in SourceKind]
    assert ranks == [3, 2, 1, 1, 0, 0]
    assert [memory_class.power for memory_class in MemoryClass] == [4, 3, 2, 1]
