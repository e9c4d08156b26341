"""Who is to blame, what a signal may set off, and what follows a conviction, by tables."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.after.attribution import (
    BISECT_ABOVE,
    Ask,
    Control,
    Done,
    Ending,
    OpenCause,
    Plan,
    ReplayLimits,
    Suspect,
    believed_first,
)
from policy.after.closure import (
    BLAST_MAX,
    Act,
    Closure,
    Fact,
    ForPerson,
    Relation,
    closure_of,
)
from policy.after.matchers import Grade, SignalKind, kind_of, opens_case
from policy.model import Channel, MemoryId, SourceKind
from policy.verdict import InvariantBroken
from tests.evaluate.questions import questions_max

Fails = Callable[[frozenset[str]], bool]

ONCE = ReplayLimits(deterministic=True)


def suspects(number: int) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(memory_id=f"s{at}", trust=0.5, at_ms=at, score=0.5) for at in range(number)
    )


def blame(
    number: int,
    fails: Fails,
    *,
    trusted: frozenset[str] = frozenset(),
    limits: ReplayLimits = ONCE,
    whole_cause: bool = False,
) -> Done:
    plan = Plan(suspects(number), trusted, limits, whole_cause=whole_cause)
    while isinstance(ask := plan.next(), Ask):
        plan.tell(ask, fails=fails(ask.present))
    return ask


def any_of(*bad: str) -> Fails:
    return lambda present: bool(present.intersection(bad))


def test_a_lie_that_stands_three_times_is_found_three_times() -> None:
    done = blame(10, any_of("s2", "s5", "s9"))
    assert done.ending is Ending.CONVICTED
    assert set(done.culprits) == {"s2", "s5", "s9"}
    assert done.questions == done.asks == 12


def test_leaving_out_one_at_a_time_finds_none_of_three() -> None:
    """The control: the usual way is blind to copies, on the same table."""
    fails = any_of("s2", "s5", "s9")
    everything = frozenset(f"s{at}" for at in range(10))
    assert not [each for each in everything if not fails(everything - {each})]


@pytest.mark.parametrize("number", [1, 2, BISECT_ABOVE, BISECT_ABOVE + 1, 20, 50])
def test_one_culprit_is_found_wherever_it_stands(number: int) -> None:
    for at in range(number):
        done = blame(number, any_of(f"s{at}"))
        assert done.culprits == (f"s{at}",)
        assert done.questions <= questions_max(number)


@given(st.data())
def test_without_the_culprits_the_answer_is_right_and_each_one_was_needed(
    data: st.DataObject,
) -> None:
    number = data.draw(st.integers(1, 30))
    causes = data.draw(
        st.lists(st.frozensets(st.integers(0, number - 1), min_size=1, max_size=3), max_size=6)
    )

    def fails(present: frozenset[str]) -> bool:
        return any(present.issuperset(f"s{at}" for at in cause) for cause in causes)

    done = blame(number, fails)
    assert done.questions <= questions_max(number)
    if not causes:
        assert done.ending is Ending.NOT_REPRODUCED
        return
    everything = frozenset(f"s{at}" for at in range(number))
    culprits = frozenset(done.culprits)
    assert done.ending is Ending.CONVICTED
    assert not fails(everything - culprits), "repaired"
    assert all(fails(everything - culprits | {each}) for each in culprits), "none of them in vain"
    assert all(any(f"s{at}" == each for cause in causes for at in cause) for each in culprits)


def test_who_is_believed_first_is_blamed_last() -> None:
    """Two memories that fail only together: the less trusted, the newer, the nearer one is it."""
    plain = Suspect(memory_id="a", trust=0.5, at_ms=5, score=0.5)
    assert [
        each.memory_id
        for each in believed_first(
            [
                Suspect(memory_id="newer", trust=0.5, at_ms=6, score=0.5),
                Suspect(memory_id="nearer", trust=0.5, at_ms=5, score=0.9),
                Suspect(memory_id="trusted", trust=0.7, at_ms=9, score=0.9),
                plain,
            ]
        )
    ] == ["trusted", "a", "nearer", "newer"]
    done = blame(4, lambda present: present >= {"s1", "s3"})
    assert done.culprits == ("s3",)


def test_a_failure_that_does_not_come_back_convicts_nobody() -> None:
    done = blame(5, lambda _present: False)
    assert (done.ending, done.culprits, done.asks) == (Ending.NOT_REPRODUCED, (), 1)


def test_a_question_that_fails_without_any_memory_is_not_the_memories_fault() -> None:
    done = blame(5, lambda _present: True, trusted=frozenset({"t"}))
    assert (done.ending, done.culprits) == (Ending.NOT_MEMORY_CAUSED, ())
    assert done.controls == {"everything": True, "no_suspect": True, "nothing": True}


def test_a_trusted_memory_that_is_wrong_is_for_a_person() -> None:
    done = blame(5, any_of("t", "s1"), trusted=frozenset({"t"}))
    assert (done.ending, done.open) == (Ending.NEEDS_PERSON, OpenCause.TRUSTED_MEMORY)
    assert done.culprits == ()


def test_trusted_memories_are_present_in_every_question_but_the_last_control() -> None:
    plan = Plan(suspects(3), frozenset({"t"}), ONCE)
    while isinstance(ask := plan.next(), Ask):
        assert ("t" in ask.present) == (ask.control is not Control.NOTHING)
        plan.tell(ask, fails="s1" in ask.present)


def test_a_judge_that_says_nothing_convicts_nobody_more() -> None:
    plan = Plan(suspects(4), frozenset(), ONCE)
    while isinstance(ask := plan.next(), Ask):
        silent = "s3" in ask.present and ask.control is None
        plan.tell(ask, fails=None if silent else "s1" in ask.present)
    assert (ask.ending, ask.open, ask.culprits) == (Ending.NEEDS_PERSON, OpenCause.UNKNOWN, ("s1",))


def test_the_budget_ends_a_plan_with_what_is_known() -> None:
    done = blame(10, any_of("s0", "s9"), limits=ReplayLimits(deterministic=True, asks_max=5))
    assert (done.ending, done.open) == (Ending.NEEDS_PERSON, OpenCause.BUDGET)
    assert (done.culprits, done.asks) == (("s0",), 5)


def test_a_judge_of_two_minds_is_undecided() -> None:
    turns = iter(range(1_000))
    done = blame(3, lambda _present: next(turns) % 2 == 0, limits=ReplayLimits())
    assert (done.ending, done.open, done.asks) == (Ending.NEEDS_PERSON, OpenCause.UNDECIDED, 21)


def test_a_noisy_judge_is_asked_until_one_answer_leads_by_four() -> None:
    draw = random.Random(5)  # noqa: S311 - noise
    bad = frozenset({"s3", "s6", "s7"})
    exact = innocents = asks = 0
    for _ in range(200):
        done = blame(
            10,
            lambda present: bool(present & bad) is (draw.random() > 0.1),
            limits=ReplayLimits(),
        )
        exact += frozenset(done.culprits) == bad
        innocents += bool(set(done.culprits) - bad)
        asks += done.asks
    assert exact >= 197
    assert innocents <= 1
    assert asks / 200 <= 5.2 * 12


def test_the_whole_cause_names_what_was_enough_alone_and_no_innocent() -> None:
    """Lies that outvote truths: one less and the answer is right, so add-back names only some."""

    def outvoted(present: frozenset[str]) -> bool:
        return len(present & {"s4", "s5", "s6", "s7", "s8"}) > len(present & {"s0", "s1"})

    done = blame(10, outvoted, whole_cause=True)
    assert set(done.culprits) | set(done.accomplices) == {"s4", "s5", "s6", "s7", "s8"}


def test_equal_sets_are_asked_once() -> None:
    done = blame(1, any_of("s0"))
    assert (done.questions, done.culprits) == (2, ("s0",)), "its own question was the first control"


def test_without_a_suspect_there_is_nobody_to_blame() -> None:
    assert blame(0, lambda _present: False).ending is Ending.NOT_REPRODUCED
    done = blame(0, any_of("t"), trusted=frozenset({"t"}))
    assert done.open is OpenCause.TRUSTED_MEMORY


def test_an_outcome_of_another_question_is_a_fault_of_ours() -> None:
    plan = Plan(suspects(2), frozenset(), ONCE)
    ask = plan.next()
    assert isinstance(ask, Ask)
    assert plan.next() == ask, "the same one until it is told"
    plan.tell(ask, fails=True)
    with pytest.raises(InvariantBroken, match="not asked"):
        plan.tell(ask, fails=True)


def test_a_memory_stands_once_and_on_one_side() -> None:
    with pytest.raises(ValueError, match="named twice"):
        Plan((*suspects(2), *suspects(1)), frozenset(), ONCE)
    with pytest.raises(ValueError, match="named twice"):
        Plan(suspects(2), frozenset({"s1"}), ONCE)


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


def test_more_than_a_hundred_descendants_wait_and_their_lie_is_hidden() -> None:
    names = [f"m{number}" for number in range(BLAST_MAX + 5)]
    most = follow(fact("root"), root=names[: BLAST_MAX - 1])
    assert (len(most.consequences), most.for_person) == (BLAST_MAX, None)
    found = follow(fact("root"), root=names)
    assert found.for_person is ForPerson.BLAST
    assert len(found.consequences) == BLAST_MAX + 1  # the walk ends there
    decided = acts(found)
    assert decided.pop(MemoryId("root")) is Act.QUARANTINE
    assert set(decided.values()) == {Act.NOTHING}
    # Control: were the culprit bounded by its descendants, the lie would stay as well.
    bounded = closure_of([fact("root")], lambda _: map(fact, names), culprits_max=0)
    assert set(acts(bounded).values()) == {Act.NOTHING}


@pytest.mark.parametrize(
    ("child", "why"),
    [
        (fact("child", SourceKind.USER_INPUT), ForPerson.LABEL),
        (msgspec.structs.replace(fact("child"), is_anchor=True), ForPerson.ANCHOR),
    ],
)
def test_a_descendant_that_nothing_may_hide_keeps_no_lie_shown(child: Fact, why: ForPerson) -> None:
    found = closure_of([fact("lie")], lambda one: [child] if one.memory_id == "lie" else [])
    assert (found.for_person, acts(found)) == (why, {"lie": Act.QUARANTINE, "child": Act.NOTHING})
    # Control: as the culprit, such a memory is not hidden, and nothing that it is blamed with.
    accused = closure_of([fact("lie"), child], lambda _: [])
    assert (accused.for_person, set(acts(accused).values())) == (why, {Act.NOTHING})


def test_more_culprits_than_the_bound_are_for_a_person() -> None:
    accused = [fact(f"m{number}") for number in range(6)]
    found = closure_of(accused, lambda _: [], culprits_max=5)
    assert (found.for_person, set(acts(found).values())) == (ForPerson.BLAST, {Act.NOTHING})
    assert closure_of(accused, lambda _: [], culprits_max=6).for_person is None, "control"


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
