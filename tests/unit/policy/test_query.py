"""Filters compare like with like, and are bounded before anything walks them."""

from __future__ import annotations

import pytest

from policy.model import (
    Basis,
    CandidateId,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from policy.query import (
    EVERYTHING,
    AllOf,
    AnyOf,
    Compare,
    Field,
    Filter,
    FilterRefused,
    Not,
    Scalar,
    matches,
    validate,
)
from policy.query import Test as Comparison

TRUE = True

MEMORY = Memory(
    memory_id=MemoryId("m"),
    tenant=Tenant("default"),
    principal_id=PrincipalId("agent"),
    text="Ann likes green Tea",
    metadata_json=(
        '{"flag":true,"list":["a",1],"more":{"a":{"c":"d"}},"n":3,"none":null,"rate":2.5,'
        '"tag":"Blue"}'
    ),
    scope=Scope(user_id="ann"),
    target="memories",
    memory_class=MemoryClass.L3,
    source=SourceKind.UNKNOWN,
    basis=Basis.UNPROVEN,
    status=MemoryStatus.LIVE,
    version=1,
    created_at_ms=100,
    updated_at_ms=200,
    candidate_id=CandidateId("c"),
)


def meta(key: str, compare: Compare, *values: Scalar) -> Comparison:
    return Comparison(field=Field.METADATA, key=key, compare=compare, values=values)


def below(key: str, compare: Compare, *names: str) -> Comparison:
    """A comparison below a key; the last name is the value, unless there is none to compare."""
    values = () if compare is Compare.PRESENT else names[-1:]
    path = names[: len(names) - len(values)]
    return Comparison(field=Field.METADATA, key=key, path=path, compare=compare, values=values)


def on(field: Field, compare: Compare, *values: Scalar) -> Comparison:
    return Comparison(field=field, compare=compare, values=values)


@pytest.mark.parametrize(
    "where",
    [
        EVERYTHING,
        on(Field.USER_ID, Compare.EQ, "ann"),
        on(Field.USER_ID, Compare.NE, "bob"),
        on(Field.AGENT_ID, Compare.NE, "ann"),
        on(Field.USER_ID, Compare.PRESENT),
        on(Field.USER_ID, Compare.IN, "bob", "ann"),
        on(Field.MEMORY_CLASS, Compare.EQ, "L3"),
        on(Field.SOURCE, Compare.EQ, "unknown"),
        on(Field.TARGET, Compare.EQ, "memories"),
        on(Field.MEMORY_ID, Compare.EQ, "m"),
        on(Field.CREATED_AT_MS, Compare.GTE, 100),
        on(Field.CREATED_AT_MS, Compare.LT, 100.5),
        on(Field.UPDATED_AT_MS, Compare.GT, 199),
        on(Field.TEXT, Compare.CONTAINS, "green Tea"),
        on(Field.TEXT, Compare.ICONTAINS, "GREEN"),
        on(Field.TEXT, Compare.CONTAINS, "\uff47reen"),  # a letter of full width
        on(Field.USER_ID, Compare.UNDER, "ann"),
        on(Field.TEXT, Compare.UNDER, "Ann likes green Tea"),
        below("more", Compare.EQ, "a", "c", "d"),
        below("more", Compare.PRESENT, "a"),
        meta("flag", Compare.EQ, TRUE),
        meta("n", Compare.EQ, 3),
        meta("n", Compare.EQ, 3.0),
        meta("n", Compare.LTE, 3),
        meta("rate", Compare.GT, 2),
        meta("tag", Compare.EQ, "Blue"),
        meta("tag", Compare.IN, "Red", "Blue"),
        meta("tag", Compare.ICONTAINS, "blu"),
        meta("list", Compare.CONTAINS, "a"),
        meta("list", Compare.ICONTAINS, "A"),
        meta("list", Compare.CONTAINS, 1),
        meta("none", Compare.EQ, None),
        meta("missing", Compare.EQ, None),
        meta("missing", Compare.NE, "x"),
        Not(part=meta("missing", Compare.PRESENT)),
        AnyOf(parts=(meta("n", Compare.EQ, 4), meta("n", Compare.EQ, 3))),
        AllOf(parts=(meta("n", Compare.EQ, 3), on(Field.USER_ID, Compare.EQ, "ann"))),
    ],
)
def test_what_matches(where: Filter) -> None:
    validate(where)
    assert matches(where, MEMORY)
    assert not matches(Not(part=where), MEMORY)


@pytest.mark.parametrize(
    "where",
    [
        AnyOf(parts=()),
        on(Field.USER_ID, Compare.EQ, "Ann"),
        on(Field.AGENT_ID, Compare.PRESENT),
        meta("flag", Compare.EQ, 1),
        meta("n", Compare.EQ, "3"),
        meta("n", Compare.EQ, TRUE),
        meta("list", Compare.CONTAINS, TRUE),
        meta("n", Compare.GT, "2"),
        meta("flag", Compare.GT, 0),
        meta("none", Compare.PRESENT),
        meta("missing", Compare.LT, 9),
        meta("n", Compare.CONTAINS, 3),
        meta("tag", Compare.EQ, "blue"),
        meta("tag", Compare.IN),
        AllOf(parts=(meta("n", Compare.EQ, 3), meta("n", Compare.EQ, 4))),
        below("more", Compare.EQ, "a", "c"),
        below("more", Compare.PRESENT, "b"),
        below("n", Compare.PRESENT, "a"),
        below("list", Compare.PRESENT, "a"),
        on(Field.USER_ID, Compare.UNDER, "an"),
        on(Field.USER_ID, Compare.UNDER, "ann.b"),
        on(Field.AGENT_ID, Compare.UNDER, "ann"),
        on(Field.CREATED_AT_MS, Compare.UNDER, 100),
    ],
)
def test_what_does_not_match(where: Filter) -> None:
    assert not matches(where, MEMORY)


def nested(depth: int) -> Filter:
    where: Filter = EVERYTHING
    for _ in range(depth):
        where = Not(part=where)
    return where


@pytest.mark.parametrize(
    "where",
    [
        nested(8),
        nested(100_000),
        AllOf(parts=(EVERYTHING,) * 64),
        AllOf(parts=(AllOf(parts=(EVERYTHING,) * 40),) * 2),
        meta("n", Compare.EQ),
        meta("n", Compare.EQ, 1, 2),
        meta("n", Compare.PRESENT, 1),
        meta("n", Compare.IN, *range(1_001)),
        meta("n", Compare.EQ, "x" * 5_000),
        meta("n", Compare.EQ, float("nan")),
        Comparison(field=Field.METADATA, compare=Compare.PRESENT),
        Comparison(field=Field.TEXT, compare=Compare.PRESENT, key="n"),
        Comparison(field=Field.TEXT, compare=Compare.PRESENT, path=("n",)),
        below("n", Compare.PRESENT, *("n",) * 9),
        below("n", Compare.PRESENT, "x" * 5_000),
        on(Field.USER_ID, Compare.UNDER),
    ],
)
def test_a_filter_out_of_bounds_is_refused(where: Filter) -> None:
    with pytest.raises(FilterRefused):
        validate(where)


@pytest.mark.parametrize("where", [nested(7), AllOf(parts=(EVERYTHING,) * 63)])
def test_a_filter_at_its_bounds_is_allowed(where: Filter) -> None:
    validate(where)
    matches(where, MEMORY)
