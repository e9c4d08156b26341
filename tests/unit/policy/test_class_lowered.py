"""A class that its client names and its label may not write: knowledge, a hold, or a refusal."""

from __future__ import annotations

import msgspec
import pytest

from policy.facts import TargetState, TokenState
from policy.gate import GATE
from policy.labels.derive import is_lowered
from policy.model import Basis, ChangeKind, MemoryClass, MemoryStatus, Reading, SourceKind
from policy.ruleset import Cell
from policy.trust.ladder import TrustLevel
from policy.verdict import Admit, Hold, Reason, Reject
from tests.property.gate_cases import READINGS, RULESET, Labels, case_of

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


@pytest.mark.parametrize("basis", SOFT)
def test_who_names_the_class_gets_what_who_names_none_gets(basis: Basis) -> None:
    named = GATE.decide(*case_of(NAMED._replace(basis=basis)), RULESET)
    plain = NAMED._replace(basis=basis, memory_class=MemoryClass.L3, class_named=False)
    unnamed = GATE.decide(*case_of(plain), RULESET)
    assert isinstance(named, Admit)
    assert isinstance(unnamed, Admit)
    assert named.permit.memory_class is unnamed.permit.memory_class
    assert named.permit.passed == unnamed.permit.passed


def test_a_label_that_may_write_the_class_keeps_it() -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(source=SourceKind.MODEL_INFERENCE)), RULESET)
    assert isinstance(verdict, Admit)
    assert verdict.permit.memory_class is MemoryClass.L2


@pytest.mark.parametrize("basis", Basis)
def test_named_policy_is_refused_and_never_lowered(basis: Basis) -> None:
    verdict = GATE.decide(
        *case_of(NAMED._replace(memory_class=MemoryClass.L1, basis=basis)), RULESET
    )
    assert isinstance(verdict, Reject)
    assert verdict.memory_class is MemoryClass.L1


def test_a_label_that_came_with_its_class_is_never_lowered() -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(basis=Basis.VOUCHED)), RULESET)
    assert isinstance(verdict, Reject)
    assert (verdict.reason, verdict.memory_class) == (
        Reason.SOURCE_CLASS_FORBIDDEN,
        MemoryClass.L2,
    )


@pytest.mark.parametrize("reading", READINGS[1:])
def test_what_reads_as_an_order_waits_whatever_class_it_names(reading: Reading) -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(reading=reading)), RULESET)
    assert isinstance(verdict, Hold)
    assert (verdict.reason, verdict.memory_class) == (Reason.CLASS_FLOOR, MemoryClass.L1)


def test_a_class_that_comes_from_a_rule_lands_as_knowledge_too() -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(class_named=False)), RULESET)
    assert isinstance(verdict, Admit)
    assert verdict.permit.memory_class is MemoryClass.L3


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


def test_where_knowledge_is_closed_too_it_waits_as_knowledge() -> None:
    matrix = {source: dict(row) for source, row in RULESET.matrix.items()}
    matrix[SourceKind.TOOL_RESULT][MemoryClass.L3] = Cell.REFUSE
    verdict = GATE.decide(*case_of(NAMED), msgspec.structs.replace(RULESET, matrix=matrix))
    assert isinstance(verdict, Hold)
    assert verdict.memory_class is MemoryClass.L3


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


@pytest.mark.parametrize("token", [TokenState.INVALID, TokenState.SPENT])
@pytest.mark.parametrize("memory_class", MemoryClass)
def test_a_forged_token_moves_the_ladder_whatever_pair_it_was_forged_for(
    token: TokenState, memory_class: MemoryClass
) -> None:
    verdict = GATE.decide(*case_of(NAMED._replace(memory_class=memory_class, token=token)), RULESET)
    assert isinstance(verdict, Reject)
    assert verdict.structural


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
