"""The way back of hidden memories: a trial on a real store, a probation, and its end."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policy.after.closure import Act, CaseStep, Relation
from policy.after.matchers import Applies, Matcher, SignalKind
from policy.after.parole import PROBATION_RECALLS, Against, TrialStep
from policy.model import (
    ChangeKind,
    MemoryClass,
    MemoryId,
    Principal,
    PrincipalId,
    Scope,
    SourceKind,
)
from policy.query import EVERYTHING
from policy.trust.score import TrustLevel
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.judges import Judges
from proxy.aftermath.parole_trials import ParoleResult, ParoleTrials, Probations, Trials
from proxy.aftermath.replay import Replays
from proxy.aftermath.rules import OpenedSignals
from proxy.model.model_replays import ModelReplays
from proxy.seams.cases import RULES
from proxy.seams.environment import Environment
from proxy.settings.after import NO_REPLAY
from storage.audit import OperatorLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.cases import Case
from storage.features.parole import GrantParole
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.features.registered import PutAnchor
from storage.ground.errors import MemoryMoved
from storage.values import Anchor
from tests.unit.proxy.aftermath.test_blaming import (
    HIDES,
    QUESTION,
    Judge,
    lie,
    near,
    recalled,
    signal,
)
from tests.unit.storage.features.cases.test_wrong_answers import FETCHED
from tests.unit.storage.features.incidents.test_isolation import SMALL, Copies, id_of
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    write,
)

DAY_MS = 86_400_000
OLD, NEW = "The office door code is 66.", "The office door code is 11."
OTHER = Principal(principal_id=PrincipalId("agent-2"), tenant=TENANT)
POISON = "The parking lot closes at 9."


class Near:
    """An embedder for which every text is about the office."""

    embedder_id = "test"
    dimension = 8

    def embed(self, texts: list[str]) -> list[bytes]:
        return [near(text) for text in texts]


class Way:
    """Blame and parole over one store, with what the two share."""

    def __init__(self, bench: Bench, store: EmbeddedStore, judges: Judges | None = None) -> None:
        self.bench, self.store = bench, store
        numbers = iter(range(1, 1_000_000))
        surroundings = Environment(
            clock_ns=lambda: bench.clock.now_ms * 1_000_000,
            random_hex=lambda n: f"{next(numbers):0{2 * n}x}",
            record=lambda _: None,
        )
        replays, spoken = Replays(store.recalls, store.reader), OpenedSignals()
        probations = Probations(store.paroles, replays, store.recalls, surroundings.now_ms)
        self.blaming = BlameSearch(
            cases=store.cases,
            replays=replays,
            reader=store.reader,
            judges=judges or Judges(()),
            models=ModelReplays((), NO_REPLAY, surroundings.now_ms),
            surroundings=surroundings,
            on_conviction=HIDES,
            spoken=spoken,
            implicated=probations.implicated,
        )
        trials = Trials(
            replays=replays,
            reader=store.reader,
            judges=judges or Judges(()),
            spoken=spoken,
            embedder=Near(),
        )
        self.paroling = ParoleTrials(
            paroles=store.paroles,
            trials=trials,
            probations=probations,
        )

    def blame(self, **fields: object) -> Case:
        async def life() -> Case:
            async with self.blaming.working(resumes=True):
                recall_id = await recalled(self.store, 10)
                return await self.blaming.blame(signal(recall_id, **fields), whole_cause=False)

        return asyncio.run(life())

    def parole(self, memory_id: MemoryId) -> ParoleResult:
        return asyncio.run(self.paroling.parole(TENANT, memory_id, BY))

    def hide(self, memory_id: MemoryId) -> None:
        asyncio.run(self.store.writer.order(Quarantine(memory_id, TENANT, BY)))

    def turn(self) -> None:
        asyncio.run(self.paroling.end_probations())

    def later(self, days: int) -> None:
        self.bench.clock.now_ms += days * DAY_MS + 1


def rule(store: EmbeddedStore, statement: str, **fields: object) -> None:
    anchor = Anchor(
        anchor_id="code", tenant=TENANT, statement=statement, questions=(), created_at_ms=0
    )
    anchor = msgspec.structs.replace(anchor, **fields)
    asyncio.run(store.writer.order(PutAnchor(anchor, BY)))


def told(store: EmbeddedStore) -> list[tuple[str, str]]:
    """The leaves about paroles: action and detail, without the tenant."""
    every = (decode_leaf(data) for data in store.audit.leaves(0, 100_000))
    return [
        (one.action.removeprefix("memory."), one.detail.partition(": ")[2])
        for one in every
        if isinstance(one, OperatorLeaf) and "unhide" in one.action
    ]


def shown(store: EmbeddedStore) -> set[str]:
    return {one.text for one in store.reader.page(TENANT, EVERYTHING, 0, 100).memories}


def against(done: ParoleResult) -> Against | None:
    assert done.trial is not None
    assert done.trial.passed is done.standing.changed
    return done.trial.against


def class_of(store: EmbeddedStore, memory_id: MemoryId) -> MemoryClass:
    memory = store.reader.get(TENANT, memory_id)
    assert memory is not None
    return memory.memory_class


def outlived(way: Way) -> tuple[MemoryId, MemoryId, MemoryId]:
    """A memory that was true once, the newer truth, and a lie; the first and last are convicted."""
    store = way.store
    old, poison = lie(store, OLD), lie(store, POISON)
    way.bench.clock.now_ms += 1
    newer = submission_of(candidate_of(NEW, OPERATOR), OPERATOR, vector=near(NEW))
    new = id_of(write(store, newer)[0])
    rule(store, NEW)
    rule(store, "The parking lot closes at 8.", anchor_id="lot")
    case = way.blame()
    assert {one.memory: one.act for one in case.culprits} == {
        old: Act.EXPIRE,
        poison: Act.QUARANTINE,
    }
    assert shown(store) == {NEW}  # control: both are gone
    return old, new, poison


def move_back(way: Way, new: MemoryId) -> None:
    """The old code is the right one again: the operator says so in both places."""
    edit = candidate_of(OLD, OPERATOR, change=ChangeKind.UPDATE, memory_id=new, scope=Scope())
    write(way.store, submission_of(edit, OPERATOR, vector=near(OLD)))
    rule(way.store, OLD)


def test_what_was_true_once_comes_back_one_class_lower_and_a_lie_does_not(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    old, new, poison = outlived(way)
    trust = store.reader.all_trust()
    memory = store.paroles.hidden(TENANT, old)
    assert memory is not None
    assert memory.outlived
    was = memory.memory.memory_class
    assert against(way.parole(old)) in {Against.OUTDATED, Against.FAILS}  # it is still wrong
    move_back(way, new)
    origin = store.reader.origin_trust(TENANT, "web", "fetch")
    assert against(way.parole(poison)) is Against.FAILS
    assert store.reader.get(TENANT, poison) is None
    assert against(way.parole(old)) is None
    back = store.reader.get(TENANT, old)
    assert back is not None
    assert (back.text, back.memory_class.power) == (OLD, max(1, was.power - 1))
    assert back.source is memory.memory.source  # and it is trusted no more than before
    assert store.reader.origin_trust(TENANT, "web", "fetch") == origin
    assert store.reader.all_trust() == trust
    assert [action for action, _ in told(store)] == ["unhide_refused"] * 2 + ["unhide"]
    assert told(store)[-1][1].startswith("trial passed (provenance 1, failures 1, questions 0")
    assert store.reader.check().problems == ()


def test_a_third_parole_is_refused_and_an_operator_may_do_without(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    for parole in range(2):
        way.hide(memory_id)
        assert against(way.parole(memory_id)) is None, parole
    way.hide(memory_id)
    third = way.parole(memory_id)
    assert against(third) is Against.ENOUGH
    assert third.trial is not None
    assert [one.step for one in third.trial.steps] == list(TrialStep)
    assert store.reader.get(TENANT, memory_id) is None
    asyncio.run(store.writer.order(EndQuarantine(memory_id, TENANT, BY, "I read it")))
    assert store.reader.get(TENANT, memory_id) is not None
    assert told(store)[-1] == ("unhide", "without trial: I read it")
    again = way.parole(memory_id)
    assert (again.standing.changed, again.trial) == (False, None)


def test_the_lowest_class_stays_and_each_other_is_lowered(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    first = class_of(store, memory_id)
    way.hide(memory_id)
    assert against(way.parole(memory_id)) is None
    second = class_of(store, memory_id)
    way.hide(memory_id)
    assert against(way.parole(memory_id)) is None
    assert (first, second) == (MemoryClass.L3, MemoryClass.L4)
    assert class_of(store, memory_id) is MemoryClass.L4
    assert store.reader.check().problems == ()


def test_the_first_answer_that_is_wrong_hides_what_is_on_probation_at_once(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    paroled = lie(store, OLD)
    # It is no near copy of the other, so the cap of what is on probation is not the one for both.
    far = submission_of(candidate_of(POISON), vector=near(POISON, share=0.5))
    beside = id_of(write(store, far)[0])
    way.hide(paroled)
    assert against(way.parole(paroled)) is None
    # Nobody says what is wrong, so nothing can be asked: a person is needed for all others.
    case = way.blame()
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "no_judge")
    named = [(one.memory, one.relation, one.act) for one in case.culprits]
    assert named == [(paroled, Relation.PAROLED, Act.QUARANTINE)]
    assert store.reader.get(TENANT, paroled) is None
    assert store.reader.get(TENANT, beside) is not None  # control: it was never paroled
    assert store.paroles.on_probation() == ()
    assert against(way.parole(paroled)) is Against.GONE  # and nobody can judge that answer
    assert store.reader.check().problems == ()


def test_a_rule_implicates_the_memory_that_it_names_and_none_beside_it(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    paroled, beside = lie(store, OLD), id_of(write(store, submission_of(candidate_of(POISON)))[0])
    way.hide(paroled)
    assert against(way.parole(paroled)) is None
    case = way.blame(kind=SignalKind.ANCHOR, memory_id=beside)
    assert [one.memory for one in case.culprits] == []
    assert store.reader.get(TENANT, paroled) is not None
    # Control: the rule names it.
    case = Way(bench, store).blame(kind=SignalKind.ANCHOR, memory_id=paroled, signal_id="01" * 10)
    assert [(one.memory, one.relation) for one in case.culprits] == [(paroled, Relation.PAROLED)]


@pytest.mark.parametrize("ends_by", ["days", "recalls"])
def test_a_probation_ends_after_thirty_days_or_fifty_recalls(bench: Bench, ends_by: str) -> None:
    store = bench.open()
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    way.hide(memory_id)
    assert against(way.parole(memory_id)) is None
    way.turn()
    assert len(store.paroles.on_probation()) == 1  # control: it has only begun
    if ends_by == "days":
        way.later(30)
    else:

        async def recalls() -> None:
            # Control: neither its writer nor the sidecar itself reads a probation to its end.
            for by, front in ((AGENT.principal_id, "test"), (RULES, "test"), (BY, "canary")):
                for _ in range(PROBATION_RECALLS):
                    await recalled(store, 10, by=by, front=front)
            await way.paroling.end_probations()
            assert len(store.paroles.on_probation()) == 1
            for _ in range(PROBATION_RECALLS):
                await recalled(store, 10, by=PrincipalId("reader"))

        asyncio.run(recalls())
    case = way.blame()
    assert case.culprits == ()
    assert store.reader.get(TENANT, memory_id) is not None
    way.turn()
    assert store.paroles.on_probation() == ()


def test_of_what_is_on_probation_one_in_ten_places_is_filled(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    ids = [lie(store, f"The office door {number} is open.") for number in range(3)]

    def hits() -> int:
        found = store.reader.search(TENANT, QUESTION, EVERYTHING, 10, -1.0)
        return sum(hit.memory.memory_id in ids for hit in found)

    assert hits() == 3  # control
    for memory_id in ids:
        way.hide(memory_id)
        assert against(way.parole(memory_id)) is None
    assert hits() == 1
    way.later(30)
    way.turn()
    assert hits() == 3


def test_words_that_a_restart_forgot_count_as_a_failure(bench: Bench) -> None:
    store = bench.open()
    memory_id = lie(store, OLD)
    case = Way(bench, store).blame(expect=(NEW,))
    assert [one.memory for one in case.culprits] == [memory_id]
    assert against(Way(bench, store).parole(memory_id)) is Against.GONE


@pytest.mark.parametrize(
    ("fails", "why"),
    [(False, None), (True, Against.FAILS), (None, Against.GONE)],
)
def test_a_judge_that_blamed_a_memory_is_asked_again(
    bench: Bench, *, fails: bool | None, why: Against | None
) -> None:
    store = bench.open()
    memory_id = lie(store, OLD)
    judge = Judge(lambda texts: OLD in texts)
    way = Way(bench, store, judge)
    case = way.blame(judge="caller")
    assert [one.memory for one in case.culprits] == [memory_id]
    now = Way(bench, store, Judge(lambda _: fails))
    assert against(now.parole(memory_id)) is why
    if why is not None:
        assert against(Way(bench, store).parole(memory_id)) is Against.GONE  # there is no judge


def test_a_question_that_would_be_answered_differently_speaks_against_it(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    way.hide(memory_id)
    canary: dict[str, Any] = {
        "anchor_id": "canary",
        "questions": ("What is the door code?",),
        "matcher": Matcher(must_not=("66",), applies=Applies.RETRIEVAL),
    }
    rule(store, "", **canary)
    refused = way.parole(memory_id)
    assert against(refused) is Against.QUESTION
    other = Matcher(must_not=("67",), applies=Applies.RETRIEVAL)
    rule(store, "", **(canary | {"matcher": other}))
    assert against(way.parole(memory_id)) is None


def test_a_client_that_claimed_more_than_it_is_gets_nothing_back(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    claims = candidate_of(OLD, claimed_source=SourceKind.OPERATOR)
    memory_id = id_of(write(store, submission_of(claims, vector=near(OLD)))[0])
    way.hide(memory_id)
    assert against(way.parole(memory_id)) is Against.FORGED_LABEL
    other = lie(store, OLD)
    way.hide(other)
    hidden = store.paroles.hidden(TENANT, other)
    assert hidden is not None
    bad = msgspec.structs.replace(hidden, structural=True)
    trial = asyncio.run(way.paroling._trials.tried(bad))
    assert trial.against is Against.VIOLATOR


@pytest.mark.parametrize("violates", [AGENT, OTHER, None])
def test_the_least_trusted_writer_of_a_memory_counts(
    bench: Bench, violates: Principal | None
) -> None:
    store = bench.open()
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    changed = "The office door code is 68."
    edit = candidate_of(changed, OTHER, change=ChangeKind.UPDATE, memory_id=memory_id)
    [outcome] = write(store, submission_of(edit, OTHER, provenance=FETCHED, vector=near(changed)))
    assert outcome.memory is not None
    way.hide(memory_id)
    if violates is not None:
        for text in ("The cat sleeps.", "The cat is awake."):
            replayed = candidate_of(text, violates, nonce="the same")
            write(store, submission_of(replayed, violates, vector=near(text)))
        assert store.reader.trust(violates.principal_id).level is TrustLevel.DEGRADED
    expected = None if violates is None else Against.VIOLATOR
    assert against(way.parole(memory_id)) is expected


def test_a_memory_that_was_changed_during_its_trial_is_not_shown(bench: Bench) -> None:
    store = bench.open()
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    way.hide(memory_id)
    hidden = store.paroles.hidden(TENANT, memory_id)
    assert hidden is not None
    edit = candidate_of(
        POISON, OPERATOR, change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope()
    )
    write(store, submission_of(edit, OPERATOR, vector=near(POISON)))
    with pytest.raises(MemoryMoved):
        asyncio.run(store.paroles.order(GrantParole(hidden, "trial passed", BY)))
    assert store.reader.get(TENANT, memory_id) is None


def test_a_crash_leaves_a_parole_done_or_not_begun(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "live")
    copies = Copies(bench, tmp_path / "crashed")
    store = bench.open(copies, options=SMALL)
    way = Way(bench, store)
    memory_id = lie(store, OLD)
    way.hide(memory_id)
    copies.armed = True
    assert against(way.parole(memory_id)) is None
    copies.armed = False
    bench.close()
    ends: set[bool] = set()
    for crashed in copies.kept:
        again = crashed.open(options=SMALL)
        back = again.reader.get(TENANT, memory_id)
        whole = (back is not None, len(again.paroles.on_probation()), len(told(again)))
        assert whole in {(True, 1, 1), (False, 0, 0)}
        assert back is None or back.memory_class is MemoryClass.L4
        assert again.reader.check().problems == ()
        ends.add(back is not None)
        crashed.close()
    assert ends == {True, False}  # both were met
