"""What a signal may set off, and what follows a conviction, by tables of facts."""

from __future__ import annotations

import msgspec
import pytest

from policy.after.closure import (
    BLAST_MAX,
    Act,
    Closure,
    Fact,
    ForPerson,
    Relation,
    closure_of,
)
from policy.after.signals import Grade, SignalKind, kind_of, opens_case
from policy.model import Channel, MemoryId, SourceKind


def fact(name: str, label: SourceKind = SourceKind.TOOL_RESULT) -> Fact:
    return Fact(memory_id=MemoryId(name), label=label, step=0)


def acts(closure: Closure) -> dict[str, Act]:
    return {one.fact.memory_id: one.act for one in closure.consequences}


def follow(*culprits: Fact, **children: list[str]) -> Closure:
    return closure_of(culprits, lambda one: map(fact, children.get(one.memory_id, ())))


def test_all_that_was_derived_goes_with_the_root_and_each_once() -> None:
    found = follow(fact("root"), root=["a", "b"], a=["c"], b=["c", "root"])
    assert acts(found) == dict.fromkeys(("root", "a", "b", "c"), Act.QUARANTINE)
    assert found.for_person is None
    assert [one.relation for one in found.consequences].count(Relation.DESCENDANT) == 3


def test_a_convicted_update_is_taken_back_and_the_memory_stays() -> None:
    updated = msgspec.structs.replace(fact("root"), step=4, back_to=2)
    assert acts(follow(updated, root=["a"])) == {"root": Act.STEP_BACK, "a": Act.QUARANTINE}


def test_what_is_outdated_expires_and_nothing_follows_it() -> None:
    old = msgspec.structs.replace(fact("root"), outdated=True)
    assert acts(follow(old, root=["a"])) == {"root": Act.EXPIRE}
    mended = msgspec.structs.replace(old, mended=3)
    assert acts(follow(mended, root=["a"])) == {"root": Act.NOTHING}


def test_a_memory_that_was_mended_is_left_alone_and_what_came_of_the_lie_is_not() -> None:
    mended = msgspec.structs.replace(fact("root"), mended=3)
    assert acts(follow(mended, root=["a"])) == {"root": Act.NOTHING, "a": Act.QUARANTINE}


@pytest.mark.parametrize("label", [SourceKind.USER_INPUT, SourceKind.OPERATOR])
def test_what_a_person_said_is_for_a_person(label: SourceKind) -> None:
    found = follow(fact("lie"), fact("word", label))
    assert (found.for_person, set(acts(found).values())) == (ForPerson.LABEL, {Act.NOTHING})
    # Control: the same without a person's words.
    assert follow(fact("lie"), fact("other")).for_person is None


def test_an_anchor_is_for_a_person() -> None:
    anchor = msgspec.structs.replace(fact("a"), is_anchor=True)
    assert follow(anchor).for_person is ForPerson.ANCHOR


def test_more_than_a_hundred_at_once_are_for_a_person() -> None:
    names = [f"m{number}" for number in range(BLAST_MAX + 5)]
    most = follow(fact("root"), root=names[: BLAST_MAX - 1])
    assert (len(most.consequences), most.for_person) == (BLAST_MAX, None)
    found = follow(fact("root"), root=names)
    assert found.for_person is ForPerson.BLAST
    assert len(found.consequences) == BLAST_MAX + 1  # the walk ends there


def test_an_agents_word_opens_nothing_and_only_wrong_opens() -> None:
    opened = {kind for kind in SignalKind if opens_case(kind, Grade.WRONG)}
    assert opened == set(SignalKind) - {SignalKind.AGENT}
    assert not any(
        opens_case(kind, grade) for kind in SignalKind for grade in (Grade.GOOD, Grade.IRRELEVANT)
    )


def test_a_word_is_of_the_kind_of_its_key() -> None:
    assert {channel: kind_of(channel) for channel in Channel} == {
        Channel.AGENT: SignalKind.AGENT,
        Channel.USER: SignalKind.PERSON,
        Channel.OPERATOR: SignalKind.OPERATOR,
    }
