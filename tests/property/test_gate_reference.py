"""The gate against a slow, obvious gate, and canonical bytes against RFC 8785."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.canonical import canonical_bytes, decode_canonical, digest_of
from policy.facts import BudgetState, Facts
from policy.gate import GATE
from policy.model import (
    Basis,
    Candidate,
    ChangeKind,
    MemoryClass,
    MemoryId,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from policy.ruleset import Cell, Matrix, OverBudget, Ruleset
from policy.trust.score import TrustLevel, TrustState
from policy.verdict import Admit, Hold, Reject, Verdict
from tests.evaluate.unsafe import unsafe_gate_without
from tests.property import gate_cases, reference_gate
from tests.property.gate_cases import (
    AUTHORITY,
    ELSEWHERE,
    INTEGRITY,
    REMOVALS,
    RULESET,
    Labels,
    case_of,
    cases,
)

# Primes, so that the share of the quick suite walks through every value of every dimension.
FULL_STRIDE = 29
QUICK_STRIDES = {"authority": 101, "integrity": 383, "elsewhere": 103, "removals": 101}
NOT_STRUCTURAL = False
SPACES = {
    "authority": AUTHORITY,
    "integrity": INTEGRITY,
    "elsewhere": ELSEWHERE,
    "removals": REMOVALS,
}


def answered(verdict: Verdict) -> reference_gate.Expected:
    match verdict:
        case Admit(permit=permit):
            return reference_gate.Expected(
                *("admit", None, None, NOT_STRUCTURAL, permit.memory_class.value),
                *(permit.source.value, permit.basis.value),
            )
        case Hold(reason=reason, step=step, memory_class=memory_class):
            return reference_gate.Expected(
                "hold", reason, step, NOT_STRUCTURAL, memory_class.value, None
            )
        case Reject(reason=reason, step=step, memory_class=memory_class, structural=structural):
            return reference_gate.Expected(
                "reject", reason, step, structural, memory_class.value, None
            )


def assert_agree(
    candidate: Candidate,
    facts: Facts,
    ruleset: Ruleset = RULESET,
    skipped: frozenset[int] = frozenset(),
) -> Verdict:
    gate = unsafe_gate_without(skipped) if skipped else GATE
    verdict = gate.decide(candidate, facts, ruleset)
    expected = reference_gate.judge(candidate, facts, ruleset, skipped)
    assert answered(verdict) == expected, (candidate, facts)
    return verdict


@pytest.mark.parametrize("name", SPACES)
def test_gate_agrees_with_the_reference_on_a_share_of_the_label_space(name: str) -> None:
    decisions = {
        answered(assert_agree(*case_of(labels))).decision
        for labels in cases(SPACES[name], QUICK_STRIDES[name])
    }
    assert decisions == {"admit", "hold", "reject"}


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SPACES)
def test_gate_agrees_with_the_reference_on_a_larger_share_and_another_one_each_time(
    name: str,
) -> None:
    first = secrets.randbelow(FULL_STRIDE)  # a case that fails is in the message
    for labels in cases(SPACES[name], FULL_STRIDE, first):
        assert_agree(*case_of(labels))


@pytest.mark.whole
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SPACES)
def test_gate_agrees_with_the_reference_on_the_whole_label_space(name: str) -> None:
    for labels in cases(SPACES[name], 1):
        assert_agree(*case_of(labels))


def test_the_reference_knows_the_matrix_of_the_design_and_the_default_ruleset_is_it() -> None:
    letters = {
        source.value: {
            memory_class.value: reference_gate.LETTERS[cell.value]
            for memory_class, cell in row.items()
        }
        for source, row in RULESET.matrix.items()
    }
    assert letters == reference_gate.TABLE


def labels() -> st.SearchStrategy[Labels]:
    fields: dict[str, st.SearchStrategy[Any]] = {
        name: st.sampled_from(values) for name, values in (INTEGRITY | AUTHORITY).items()
    }
    fields["source"] = st.sampled_from((None, *SourceKind))
    fields["basis"] = st.sampled_from(tuple(Basis))
    fields["guarded"] = st.booleans()
    fields["after_reading"] = st.booleans()
    fields["instructions"] = st.booleans()
    fields["denied"] = st.sampled_from((False, False, False, True))
    fields["denied_today"] = st.sampled_from((False, False, False, True))
    fields["overdue"] = st.sampled_from((*(False,) * 7, True))
    fields["repeats_hidden"] = st.sampled_from((*(False,) * 7, True))
    fields["lineage"] = st.sampled_from((None, *SourceKind))
    return st.builds(Labels, **fields)


def rulesets() -> st.SearchStrategy[Ruleset]:
    row = st.dictionaries(st.sampled_from(tuple(MemoryClass)), st.sampled_from(tuple(Cell)))
    matrix = st.dictionaries(st.sampled_from(tuple(SourceKind)), row)
    scores = st.dictionaries(st.sampled_from(tuple(MemoryClass)), st.floats(0, 1))
    answer = st.sampled_from(tuple(OverBudget))
    return st.builds(
        ruleset_of,
        st.one_of(st.just(RULESET.matrix), matrix),
        st.one_of(st.just(RULESET.trust.soft_score_min), scores),
        answer,
        answer,
        st.integers(0, 12),
    )


def ruleset_of(
    matrix: Matrix,
    scores: dict[MemoryClass, float],
    rate: OverBudget,
    topic: OverBudget,
    limit: int,
) -> Ruleset:
    budgets = msgspec.structs.replace(
        RULESET.budgets,
        over_rate=rate,
        over_topic=topic,
        text_bytes_max=limit,
        metadata_bytes_max=limit,
        writes_per_window_max=limit,
        topic_writes_max=limit,
    )
    trust = msgspec.structs.replace(RULESET.trust, soft_score_min=scores)
    return msgspec.structs.replace(RULESET, matrix=matrix, trust=trust, budgets=budgets)


@settings(max_examples=300)
@given(
    case=labels(),
    ruleset=rulesets(),
    budget=st.one_of(
        st.none(),
        st.builds(
            BudgetState,
            writes_in_window_count=st.integers(0, 12),
            text_bytes=st.integers(0, 12),
            metadata_bytes=st.integers(0, 12),
            topic_writes_count=st.integers(0, 12),
        ),
    ),
    trust=st.builds(
        TrustState,
        level=st.sampled_from(tuple(TrustLevel)),
        violations_count=st.integers(0, 9),
        good=st.floats(0, 100),
        bad=st.floats(0, 100),
        latched_at_ms=st.sampled_from((None, 0)),
    ),
    origin=st.sampled_from((None, TrustState(), TrustState(latched_at_ms=0))),
    skipped=st.frozensets(st.integers(1, 10)),
)
def test_gate_agrees_with_the_reference_under_any_ruleset_and_with_any_step_left_out(
    case: Labels,
    ruleset: Ruleset,
    budget: BudgetState | None,
    trust: TrustState,
    skipped: frozenset[int],
    *,
    origin: TrustState | None,
) -> None:
    candidate, facts = case_of(case)
    changed = msgspec.structs.replace(
        facts,
        budget=budget,
        trust=trust if case.trust else None,
        origin_trust=origin,
    )
    if len(skipped) < len(GATE.required):
        assert_agree(candidate, changed, ruleset, skipped)


def test_the_quick_strides_reach_every_value_of_every_dimension() -> None:
    for name, space in SPACES.items():
        seen: dict[str, set[Any]] = {dimension: set() for dimension in space}
        for case in cases(space, QUICK_STRIDES[name]):
            for dimension, values in seen.items():
                values.add(getattr(case, dimension))
        assert {dimension: len(values) for dimension, values in seen.items()} == {
            dimension: len(values) for dimension, values in space.items()
        }
        assert gate_cases.size(space) > 500_000


def test_changes_of_missing_memories_never_land() -> None:
    for change in (ChangeKind.UPDATE, ChangeKind.DELETE, ChangeKind.PURGE):
        for source in SourceKind:
            verdict = assert_agree(*case_of(Labels(source=source, change=change)))
            assert isinstance(verdict, Reject)


# Everything that JSON may carry; lone surrogates are no text and are refused at the edge.
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
DEFAULTS: list[tuple[str, object]] = [("scope", {}), ("target", "memories")]
AWKWARD = "".join(map(chr, range(0x20))) + '\x7f\x80\x9f\u2028\u2029\ufeff\uffff"\\/<>&\U0001f600'


def candidates() -> st.SearchStrategy[Candidate]:
    name = st.one_of(st.none(), NAME)
    text = st.one_of(st.none(), TEXT)
    return st.builds(
        Candidate,
        change=st.sampled_from(ChangeKind),
        principal_id=TEXT.map(PrincipalId),
        tenant=TEXT.map(Tenant),
        nonce=NAME,
        target=NAME,
        memory_id=st.one_of(st.none(), TEXT.map(MemoryId)),
        text=text,
        metadata_json=text,
        scope=st.builds(Scope, user_id=name, agent_id=name, run_id=name, app_id=name),
        memory_class=st.sampled_from(MemoryClass),
        class_named=st.booleans(),
        claimed_source=st.one_of(st.none(), st.sampled_from(SourceKind)),
        role=name,
        actor=name,
        derived_from=st.lists(TEXT.map(MemoryId), max_size=3).map(tuple),
        expires_at=text,
        vector_sha256=text,
    )


@settings(max_examples=300)
@given(candidates())
def test_canonical_bytes_are_rfc_8785(candidate: Candidate) -> None:
    data = canonical_bytes(candidate)
    assert data == rfc8785.dumps(msgspec.json.decode(data))


def test_every_awkward_code_point_is_escaped_as_rfc_8785_says() -> None:
    for char in AWKWARD:
        candidate = Candidate(
            change=ChangeKind.CREATE,
            principal_id=PrincipalId("p"),
            tenant=Tenant("t"),
            nonce="n",
            text=char,
        )
        assert canonical_bytes(candidate) == rfc8785.dumps(msgspec.to_builtins(candidate))


@given(candidates())
def test_what_was_staged_reads_back_as_it_was(candidate: Candidate) -> None:
    data = canonical_bytes(candidate)
    assert decode_canonical(data) == candidate
    assert canonical_bytes(decode_canonical(data)) == data


@given(candidates(), candidates())
def test_different_candidates_have_different_bytes(one: Candidate, other: Candidate) -> None:
    assert (canonical_bytes(one) == canonical_bytes(other)) == (one == other)


@given(candidates())
def test_every_field_is_under_the_digest(candidate: Candidate) -> None:
    digest = digest_of(canonical_bytes(candidate))
    changes: dict[str, object] = {
        "change": next(kind for kind in ChangeKind if kind is not candidate.change),
        "memory_class": next(kind for kind in MemoryClass if kind is not candidate.memory_class),
        "class_named": not candidate.class_named,
        "claimed_source": next(kind for kind in SourceKind if kind is not candidate.claimed_source),
        "scope": msgspec.structs.replace(candidate.scope, user_id=f"{candidate.scope.user_id}x"),
        "derived_from": (*candidate.derived_from, MemoryId("one more")),
    }
    fields = msgspec.structs.fields(Candidate)
    for field in fields:
        before = getattr(candidate, field.name)
        altered = changes.get(field.name, f"{before}x")
        changed = msgspec.structs.replace(candidate, **{field.name: altered})
        assert digest_of(canonical_bytes(changed)) != digest, field.name


@given(st.binary(max_size=60))
def test_bytes_that_are_no_candidate_are_refused_in_one_way(data: bytes) -> None:
    for altered in (data, b'{"change":"create"' + data, b'{"' + data + b'":1}'):
        with pytest.raises(msgspec.DecodeError):
            decode_canonical(altered)
