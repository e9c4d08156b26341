"""From a signal to an end, on a real store with its ledger: rules, judges, rounds, two cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import numpy as np
import pytest

from policy.after.closure import Act, CaseStep, Relation
from policy.after.matchers import Grade, SignalKind
from policy.model import ChangeKind, MemoryId, PrincipalId, Scope, SourceKind
from policy.query import EVERYTHING
from policy.verdict import InvariantBroken
from proxy.aftermath.blame_search import ON_CONVICTION, BlameSearch
from proxy.aftermath.judges import Judges
from proxy.aftermath.replay import NothingKept, Replays
from proxy.model.model_replays import ModelReplays
from proxy.seams.cases import OnConviction, Opinion, ReplayedMemory, Signal
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest
from proxy.settings.after import NO_REPLAY
from storage.audit import IncidentLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.cases import Case
from storage.features.recalls import Recall, RecalledMemory
from storage.features.registered import PutAnchor
from storage.values import Anchor
from telemetry.events import Event, IncidentStepped
from tests.conformance.canary import new_canary
from tests.unit.storage.features.cases.test_wrong_answers import FETCHED
from tests.unit.storage.features.incidents.test_isolation import derived, id_of
from tests.unit.storage.opening import (
    AGENT,
    BY,
    DIMENSION,
    OPERATOR,
    TENANT,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)

QUESTION = vector_of("where is the office")
HIDES = OnConviction(judges_propose=False)


class Judge(Judges):
    """A caller's judge that is a function of the texts it is shown."""

    def __init__(self, fails: Callable[[frozenset[str]], bool | None], why: str = "") -> None:
        self._fails = fails
        self.why = why
        self.asked: list[frozenset[str]] = []

    def names(self) -> tuple[str, ...]:
        return ("caller",)

    def deterministic(self, name: str) -> bool:
        return name == "caller"

    async def ask(
        self, name: str, *, case: str, question: str, memories: Sequence[ReplayedMemory]
    ) -> Opinion:
        del name, case, question
        shown = frozenset(one.text for one in memories)
        self.asked.append(shown)
        return Opinion(fails=self._fails(shown))


class Told(list["Event"]):
    """Every event that was recorded."""


@asynccontextmanager
async def blaming(
    store: EmbeddedStore,
    judges: Judges | None = None,
    told: Told | None = None,
    acts: OnConviction = ON_CONVICTION,
) -> AsyncGenerator[BlameSearch]:
    numbers = iter(range(1, 1_000_000))
    made = BlameSearch(
        cases=store.cases,
        replays=Replays(store.recalls, store.reader),
        reader=store.reader,
        judges=judges or Judges(()),
        models=ModelReplays((), NO_REPLAY, lambda: 0),
        surroundings=Environment(
            clock_ns=lambda: 1_750_000_000_000_000_000,
            random_hex=lambda n: f"{next(numbers):0{2 * n}x}",
            record=Told().append if told is None else told.append,
        ),
        on_conviction=acts,
    )
    async with made.working(resumes=True):
        yield made


def signal(recall_id: str, **fields: object) -> Signal:
    values = {
        "signal_id": "00" * 10,
        "kind": SignalKind.OPERATOR,
        "grade": Grade.WRONG,
        "tenant": TENANT,
        "by": BY,
        "at_ms": 1,
        "recall_id": recall_id,
    }
    return Signal(**(values | fields))  # type: ignore[arg-type]


def near(text: str, *, like: bytes = QUESTION, share: float = 0.95) -> bytes:
    """A unit vector close to another one, which depends on the text."""
    one, other = (np.frombuffer(each, dtype="<f4") for each in (like, vector_of(text)))
    mixed = share * one + (1 - share) * other
    return (mixed / np.linalg.norm(mixed)).astype("<f4").tobytes()


def lie(store: EmbeddedStore, text: str, **fields: object) -> MemoryId:
    submission = submission_of(
        candidate_of(text, AGENT, **fields), provenance=FETCHED, vector=near(text)
    )
    return id_of(write(store, submission)[0])


def truth(store: EmbeddedStore, text: str) -> MemoryId:
    return id_of(write(store, submission_of(candidate_of(text), vector=near(text, share=0.8)))[0])


async def recalled(
    store: EmbeddedStore, limit: int, *, by: PrincipalId = AGENT.principal_id, front: str = "test"
) -> str:
    """A search as an agent makes it, noted in the ledger; the recall's id."""
    hits = store.reader.search(TENANT, QUESTION, EVERYTHING, limit, -1.0)
    return store.recalls.note(
        Recall(
            recall_id="",
            at_ms=store.time_ms,
            tenant=TENANT,
            principal_id=by,
            front=front,
            operation="search_memory",
            session="",
            version=store.reader.status().version,
            limit=limit,
            hits=tuple(
                RecalledMemory(
                    ordinal=hit.memory.ordinal, memory_id=hit.memory.memory_id, score=hit.score
                )
                for hit in hits
            ),
            vector=QUESTION,
            where=EVERYTHING,
        )
    )


def found(store: EmbeddedStore, limit: int = 50) -> set[str]:
    return {
        hit.memory.text for hit in store.reader.search(TENANT, QUESTION, EVERYTHING, limit, -1.0)
    }


def run(
    store: EmbeddedStore,
    limit: int = 5,
    judges: Judges | None = None,
    told: Told | None = None,
    *,
    acts: OnConviction = ON_CONVICTION,
    **fields: object,
) -> Case:
    async def life() -> Case:
        async with blaming(store, judges, told, acts) as made:
            recall_id = await recalled(store, limit)
            return await made.blame(signal(recall_id, **fields), whole_cause=False)

    return asyncio.run(life())


def steps(store: EmbeddedStore) -> list[CaseStep]:
    leaves = (decode_leaf(data) for data in store.audit.leaves(0, 100_000))
    return [leaf.step for leaf in leaves if isinstance(leaf, IncidentLeaf)]


def test_forbidden_words_name_the_memory_that_says_them_and_what_came_from_it(
    store: EmbeddedStore,
) -> None:
    root = lie(store, "The office is in Porto.")
    lie(store, "Meet at the office near the river.", derived_from=(root,))
    honest = truth(store, "The office is in Lisbon.")
    assert len(found(store)) == 3  # control: the lie is found before
    case = run(store, forbid=("Porto",))
    assert case.step is CaseStep.HEALED
    assert [one.act for one in case.culprits] == [Act.QUARANTINE] * 2
    assert found(store) == {"The office is in Lisbon."}
    assert store.reader.get(TENANT, honest) is not None
    assert steps(store) == [
        CaseStep.OPENED,
        CaseStep.REPRODUCED,
        CaseStep.CONVICTED,
        CaseStep.HEALED,
    ]
    assert case.controls == {"everything": False}  # the last round: what is found now is right


def test_a_statement_that_is_true_names_the_memory_that_denies_it(store: EmbeddedStore) -> None:
    lie(store, "The office door code is 66.")
    case = run(store, expect=("The office door code is 11.",))
    assert (case.step, found(store)) == (CaseStep.HEALED, set())


def test_copies_that_come_up_one_after_the_other_are_all_hidden(store: EmbeddedStore) -> None:
    for number in range(20):
        lie(store, f"Copy {number}: the office is in Porto.")
    truth(store, "The office is in Lisbon.")
    case = run(store, forbid=("Porto",))
    assert (case.step, found(store)) == (CaseStep.HEALED, {"The office is in Lisbon."})
    assert len(case.culprits) == 20
    assert case.rounds <= 6


def test_more_copies_than_five_rounds_reach_are_left_to_a_person(store: EmbeddedStore) -> None:
    for number in range(50):
        lie(store, f"Copy {number}: the office is in Porto.")
    case = run(store, forbid=("Porto",))
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "rounds")
    assert len(case.culprits) == 25  # what it convicted stays hidden, and each is a copy
    assert len(found(store)) == 25


def test_what_is_not_there_convicts_nobody(store: EmbeddedStore) -> None:
    truth(store, "The office is in Lisbon.")
    case = run(store, forbid=("Porto",))
    assert (case.step, case.culprits) == (CaseStep.NOT_REPRODUCED, ())
    case = run(store)
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "no_judge")
    assert len(found(store)) == 1


def test_a_persons_word_convicts_no_other_persons_word(store: EmbeddedStore) -> None:
    said = say(store, "The office is in Porto.", OPERATOR)
    assert said.memory is not None
    below = lie(store, "The office is in Porto, they say.")
    case = run(store, kind=SignalKind.PERSON, forbid=("Porto",))
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "trusted_memory")
    assert case.controls == {"everything": True, "no_suspect": True}
    kept = {said.memory.memory_id, below}
    assert {one for one in kept if store.reader.get(TENANT, one) is not None} == kept
    # Control: by a word that no trusted memory says the same person has the lie hidden.
    case = run(store, kind=SignalKind.PERSON, forbid=("they say",))
    assert case.step is CaseStep.HEALED
    assert {one for one in kept if store.reader.get(TENANT, one) is not None} == kept - {below}


def test_what_is_doubted_blames_nobody_and_another_rule_still_does(store: EmbeddedStore) -> None:
    said = submission_of(candidate_of("Parcels go to Porto.", OPERATOR), OPERATOR)
    write(store, msgspec.structs.replace(said, vector=near("trusted")))
    lie(store, "The office is in Porto.")
    lie(store, "The office door code is 66.")
    case = run(store, forbid=("Porto",), expect=("The office door code is 11.",))
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "trusted_memory")
    assert found(store) == {"Parcels go to Porto.", "The office is in Porto."}


def test_a_case_hides_no_more_in_all_than_its_bound(store: EmbeddedStore) -> None:
    for number in range(7):
        lie(store, f"Copy {number}: the office is in Porto.")
    case = run(store, 3, acts=OnConviction(blast_max=5), forbid=("Porto",))
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "blast")
    assert [one.act for one in case.culprits] == [Act.QUARANTINE] * 3 + [Act.NOTHING] * 3
    assert len(found(store)) == 4
    case = run(store, 3, acts=OnConviction(blast_max=4), forbid=("Porto",))
    assert (case.step, len(found(store))) == (CaseStep.HEALED, 0), "control"


@pytest.mark.parametrize("anchored", [True, False])
def test_105_notes_of_a_lie_do_not_keep_it_shown(store: EmbeddedStore, *, anchored: bool) -> None:
    lies = [lie(store, f"Copy {n}: The office door code is 66.") for n in range(4)]
    for number in range(105):
        derived(store, f"note {number}", lies[0])

    def shown() -> tuple[int, int]:
        page = store.reader.page(TENANT, EVERYTHING, 0, 200).memories
        return len(set(lies) & {one.memory_id for one in page}), len(page)

    words = () if anchored else ("66",)
    if anchored:
        anchor = Anchor(
            anchor_id="a1",
            tenant=TENANT,
            statement="The office door code is 11.",
            questions=(),
            created_at_ms=1,
        )
        asyncio.run(store.writer.order(PutAnchor(anchor, BY)))
    # Control: where the case only proposes, the lie stays shown.
    run(store, 2, acts=OnConviction(rules_propose=True), forbid=words)
    assert shown() == (4, 109)
    case = run(store, 2, forbid=words)
    # The copies that rank next are hidden too; the notes wait, and the case names them.
    assert (case.step, case.why, shown()) == (CaseStep.NEEDS_PERSON, "blast", (0, 105))
    blamed = [one.act for one in case.culprits if one.relation is Relation.CULPRIT]
    waits = [one.act for one in case.culprits if one.relation is Relation.DESCENDANT]
    assert (blamed, set(waits)) == ([Act.QUARANTINE] * 4, {Act.NOTHING})


def test_an_operator_may_have_everything_proposed(store: EmbeddedStore) -> None:
    lie(store, "The office is in Porto.")
    case = run(store, acts=OnConviction(rules_propose=True), forbid=("Porto",))
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "proposed")
    assert ([one.act for one in case.culprits], len(found(store))) == ([Act.NOTHING], 1)


def test_rot_expires_through_the_same_search_and_a_poison_does_not(store: EmbeddedStore) -> None:
    old = lie(store, "The office is in Porto.")
    newer = submission_of(
        candidate_of("The office is in Lisbon.", OPERATOR), OPERATOR, vector=near("newer")
    )
    store._engine.parts.clock.now_ms += 1_000  # type: ignore[attr-defined]
    write(store, newer)
    trust = store.reader.all_trust()
    case = run(store, forbid=("Porto",))
    assert [one.act for one in case.culprits] == [Act.EXPIRE]
    assert case.step is CaseStep.HEALED
    assert (store.reader.get(TENANT, old), store.reader.all_trust()) == (None, trust)
    poison = lie(store, "The office pays in shells.")
    case = run(store, forbid=("shells",))
    assert [one.act for one in case.culprits] == [Act.QUARANTINE]
    assert store.reader.get(TENANT, poison) is None
    assert store.reader.all_trust() != trust


def test_a_judge_that_is_asked_finds_both_copies_and_only_proposes(store: EmbeddedStore) -> None:
    judge = Judge(lambda shown: any("Porto" in one for one in shown))
    lies = {lie(store, f"Copy {number}: the office is in Porto.") for number in range(2)}
    for number in range(3):
        truth(store, f"Fact {number} about Lisbon.")
    case = run(store, judges=judge, judge="caller")
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "proposed")
    assert {one.memory for one in case.culprits} == lies
    assert len(found(store)) == 5
    assert case.asks <= 5 + 2
    assert len(set(judge.asked)) == case.asks  # no set is asked twice
    case = run(store, judges=judge, judge="caller", acts=HIDES)
    assert case.step is CaseStep.HEALED
    assert len(found(store)) == 3


def test_a_judge_that_does_not_know_convicts_nobody(store: EmbeddedStore) -> None:
    lie(store, "The office is in Porto.")
    case = run(store, judges=Judge(lambda _shown: None), judge="caller", acts=HIDES)
    assert (case.step, case.why, len(found(store))) == (CaseStep.NEEDS_PERSON, "unknown", 1)
    case = run(store, judges=Judge(lambda _shown: True), judge="caller", acts=HIDES)
    assert (case.step, len(found(store))) == (CaseStep.NOT_MEMORY_CAUSED, 1)


def test_the_second_of_two_cases_about_one_memory_finds_it_hidden(store: EmbeddedStore) -> None:
    lie(store, "The office is in Porto.")

    async def life() -> list[CaseStep]:
        async with blaming(store) as made:
            recall_id = await recalled(store, 5)
            both = [signal(recall_id, forbid=("Porto",)) for _ in range(2)]
            done = await asyncio.gather(*(made.blame(one, whole_cause=False) for one in both))
            return [one.step for one in done]

    assert asyncio.run(life()) == [CaseStep.HEALED, CaseStep.NOT_REPRODUCED]


def test_a_fault_ends_its_own_case_alone_and_is_seen(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture
) -> None:
    lie(store, "The office is in Porto.")
    told = Told()

    def fails(shown: frozenset[str]) -> bool:
        raise LookupError(str(shown))

    async def life() -> list[Case]:
        async with blaming(store, Judge(fails), told) as made:
            recall_id = await recalled(store, 5)
            both = [signal(recall_id, judge="caller"), signal(recall_id, forbid=("Porto",))]
            return [await made.blame(one, whole_cause=False) for one in both]

    broken, healed = asyncio.run(life())
    assert (broken.step, broken.why, broken.culprits) == (CaseStep.NEEDS_PERSON, "fault", ())
    assert healed.step is CaseStep.HEALED, "control: the next case goes on"
    (event,) = [one for one in told if isinstance(one, IncidentStepped) and one.error_type]
    assert (event.step, event.why, event.error_type) == ("needs_person", "fault", "LookupError")
    (said,) = [one for one in caplog.records if one.message == "a case broke off"]
    assert said.exc_info is not None
    assert said.exc_info[0] is LookupError


def test_a_broken_invariant_is_no_fault_of_a_case(store: EmbeddedStore) -> None:
    lie(store, "The office is in Porto.")

    def fails(_shown: frozenset[str]) -> bool:
        raise InvariantBroken("a promise does not hold")

    with pytest.raises(ExceptionGroup) as broken:
        run(store, judges=Judge(fails), judge="caller")
    assert broken.group_contains(InvariantBroken)


def test_a_case_that_a_restart_cut_short_is_left_to_a_person(store: EmbeddedStore) -> None:
    lie(store, "The office is in Porto.")

    async def life() -> Case:
        recall_id = await recalled(store, 5)
        made = BlameSearch(
            cases=store.cases,
            replays=Replays(store.recalls, store.reader),
            reader=store.reader,
            judges=Judges(()),
            models=ModelReplays((), NO_REPLAY, lambda: 0),
            surroundings=Environment(
                clock_ns=lambda: 1, random_hex=lambda n: "ab" * n, record=Told().append
            ),
        )
        case_id = await made.open_case(signal(recall_id, forbid=("Porto",)))
        assert case_id is not None
        assert store.cases.get(case_id).step is CaseStep.OPENED  # durable, and nothing was replayed
        async with blaming(store) as made_anew:
            # Cases are worked off in their order, so when this one ended the other one has too.
            await made_anew.blame(signal(recall_id), whole_cause=False)
        return store.cases.get(case_id)

    case = asyncio.run(life())
    assert (case.step, case.why, len(found(store))) == (CaseStep.NEEDS_PERSON, "restarted", 1)


def test_an_anchor_judges_without_a_word_from_anybody(store: EmbeddedStore) -> None:
    anchor = Anchor(
        anchor_id="a1",
        tenant=TENANT,
        statement="The office door code is 11.",
        questions=(),
        created_at_ms=1,
    )
    asyncio.run(store.writer.order(PutAnchor(anchor, BY)))
    lie(store, "The office door code is 66.")
    assert run(store).step is CaseStep.HEALED
    assert found(store) == set()


def test_a_dry_run_names_and_changes_nothing(store: EmbeddedStore) -> None:
    root = lie(store, "The office is in Porto.")
    child = lie(store, "Meet near the river.", derived_from=(root,))
    size = store.reader.status().leaf_count

    async def life() -> list[str]:
        async with blaming(store) as made:
            asked = signal(await recalled(store, 5), forbid=("Porto",))
            _, named = await made.dry_run(asked, whole_cause=False)
            return [one.memory for one in named]

    assert asyncio.run(life()) == [root, child]
    assert (store.reader.status().leaf_count, store.cases.all()) == (size, ())


def test_what_nobody_kept_and_what_cannot_be_looked_for_is_said(store: EmbeddedStore) -> None:
    async def life() -> None:
        async with blaming(store) as made:
            with pytest.raises(NothingKept):
                await made.check(signal("00" * 8))
            with pytest.raises(MalformedRequest, match="no judge"):
                await made.check(signal("00" * 8, judge="nobody"))
            with pytest.raises(MalformedRequest, match="must_not, entry 1"):
                await made.check(signal("00" * 8, forbid=("re:(a+)+$",)))

    asyncio.run(life())
    assert store.cases.all() == ()


def test_no_content_is_in_what_is_kept_or_told_of_a_case(store: EmbeddedStore) -> None:
    canary = new_canary()
    lie(store, f"The office is in {canary}.")
    told = Told()
    judge = Judge(lambda shown: any(canary in one for one in shown), why=canary)
    run(store, told=told, forbid=(canary,), expect=(f"no {canary}",))
    lie(store, f"Again {canary}.")
    run(store, judges=judge, told=told, judge="caller", acts=HIDES)
    kept = [str(store.cases.all()), *map(str, told)]
    kept += [str(data) for data in store.audit.leaves(0, 100_000)]
    assert not [one for one in kept if canary in one]
    assert any(isinstance(one, IncidentStepped) and one.culprits for one in told)
    assert {one.step for one in store.cases.all()} == {CaseStep.HEALED}


def test_a_search_is_put_together_again_as_the_index_takes_it(store: EmbeddedStore) -> None:
    lie(store, "The office is in Porto.")

    async def noted() -> Signal:
        return signal(await recalled(store, 1))

    replays = Replays(store.recalls, store.reader)
    evidence = replays.evidence(asyncio.run(noted()))
    assert [one.memory.text for one in evidence.shown] == ["The office is in Porto."]
    assert len(replays.fresh(evidence)) == 1
    assert evidence.shown[0].memory.source is SourceKind.TOOL_RESULT
    assert len(QUESTION) == 4 * DIMENSION


def test_after_five_rounds_a_silent_judge_heals_nothing(store: EmbeddedStore) -> None:
    for number in range(7):
        lie(store, f"Copy {number}: the office is in Porto.")

    def fails(shown: frozenset[str]) -> bool | None:
        # Two questions a round: with everything, and with nothing. After five rounds it is silent.
        return None if len(judge.asked) > 10 else bool(shown)

    judge = Judge(fails)
    case = run(store, 1, judge, judge="caller", acts=HIDES)
    assert (case.step, case.why) == (CaseStep.NEEDS_PERSON, "rounds")
    assert (len(case.culprits), len(found(store))) == (5, 2)


@pytest.mark.parametrize("before", ["The door code was 66 before.", "The office has a door."])
def test_a_step_back_shows_no_text_that_the_same_words_convict(
    store: EmbeddedStore, before: str
) -> None:
    memory_id = lie(store, before)
    now = "By now the door code is 66."
    edit = candidate_of(now, change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope())
    write(store, submission_of(edit, provenance=FETCHED, vector=near(now)))
    case = run(store, kind=SignalKind.PERSON, forbid=("66",))
    acts = [one.act for one in case.culprits]
    if "66" in before:
        # It is hidden at once, and the earlier lie is shown in no round.
        assert (acts, found(store)) == ([Act.QUARANTINE], set())
    else:
        assert (acts, found(store)) == ([Act.STEP_BACK], {before}), "control"
