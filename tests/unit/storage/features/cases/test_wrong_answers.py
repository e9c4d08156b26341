"""Cases: each step durable with its leaf, and a conviction that is done whole or not at all."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy.after.closure import Act, CaseMode, CaseSignal, CaseStep, Relation
from policy.model import (
    Basis,
    ChangeKind,
    MemoryId,
    Origin,
    PrincipalId,
    Provenance,
    Reads,
    Scope,
    SourceKind,
)
from policy.query import EVERYTHING
from storage.audit import IncidentLeaf, OperatorLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.cases import Case, ConvictedMemory, Opening, Progress
from storage.features.cases.case_records import AcceptCase, Convict, MoveCase, NameRelated, OpenCase
from storage.features.quarantine.hiding import Quarantine
from storage.features.registered import PutAnchor
from storage.ground.errors import TransactionFailed, UnknownIncident
from storage.tables.rows import read_id
from storage.values import Anchor, Outcome
from tests.unit.storage.features.incidents.test_isolation import (
    SMALL,
    Copies,
    derived,
    id_of,
    shown,
)
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

OPENING = Opening(tenant=TENANT, signal=CaseSignal.PERSON, by=BY, recall_id="00ff" * 4)
ASKED = Progress(mode=CaseMode.RETRIEVAL, suspects=3, asks=5, rounds=1)
FETCHED = Provenance(
    source=SourceKind.TOOL_RESULT,
    basis=Basis.UNPROVEN,
    culprits=(Origin(kind=SourceKind.TOOL_RESULT, server="web", tool="fetch", call_id="t1"),),
)


def opened(store: EmbeddedStore) -> Case:
    case = asyncio.run(store.cases.order(OpenCase(OPENING)))
    return asyncio.run(store.cases.order(MoveCase(case.case_id, CaseStep.REPRODUCED, BY, ASKED)))


def ordinal_of(store: EmbeddedStore, memory_id: MemoryId) -> int:
    """The ordinal of the newest row, as a recall would name it."""
    with store.lmdb.reading() as view:
        known = read_id(view, store._engine.parts.names.memory(TENANT, memory_id))
    assert known is not None
    return known.ordinal


def accused(
    store: EmbeddedStore, *memory_ids: MemoryId, outdated: bool = False
) -> list[ConvictedMemory]:
    return [
        ConvictedMemory(memory_id=one, ordinal=ordinal_of(store, one), outdated=outdated)
        for one in memory_ids
    ]


def convict(
    store: EmbeddedStore, case: Case, *memory_ids: MemoryId, outdated: bool = False
) -> Case:
    who = accused(store, *memory_ids, outdated=outdated)
    return asyncio.run(store.cases.order(Convict(case.case_id, who, BY, ASKED)))


def fetched(store: EmbeddedStore, text: str) -> Outcome:
    return write(store, submission_of(candidate_of(text), provenance=FETCHED))[0]


def incident_leaves(store: EmbeddedStore) -> list[CaseStep]:
    leaves = (decode_leaf(data) for data in store.audit.leaves(0, 10_000))
    return [leaf.step for leaf in leaves if isinstance(leaf, IncidentLeaf)]


def chain_of_five(store: EmbeddedStore) -> list[MemoryId]:
    """A lie, and five memories of which each was derived from the one before."""
    chain = [id_of(fetched(store, "the lie"))]
    for number in range(5):
        chain.append(derived(store, f"derived {number}", chain[-1]))
    return chain


def test_a_conviction_hides_the_whole_chain_in_one_transaction(bench: Bench) -> None:
    store = bench.open()
    chain, honest = chain_of_five(store), id_of(say(store, "honest"))
    assert set(shown(store)) == {*chain, honest}  # control: without it all of it is read
    done = convict(store, opened(store), chain[0])
    assert (done.step, len(done.culprits)) == (CaseStep.CONVICTED, 6)
    assert set(shown(store)) == {honest}
    assert [one.relation for one in done.culprits[:2]] == [Relation.CULPRIT, Relation.DESCENDANT]
    assert (done.culprits[0].server, done.culprits[0].tool) == ("web", "fetch")
    assert done.asks == 10
    assert incident_leaves(store) == [CaseStep.OPENED, CaseStep.REPRODUCED, CaseStep.CONVICTED]
    named = [
        leaf.subject
        for leaf in (decode_leaf(data) for data in store.audit.leaves(0, 10_000))
        if isinstance(leaf, OperatorLeaf) and leaf.detail == f"default: incident {done.case_id}"
    ]
    assert named[0] == chain[0]
    assert set(named) == set(chain)
    store.close()
    store = bench.open()
    assert set(shown(store)) == {honest}
    assert store.cases.get(done.case_id) == done
    store.close()


def test_a_crash_leaves_the_whole_conviction_or_nothing_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "live")
    copies = Copies(bench, tmp_path / "crashed")
    store = bench.open(copies, options=SMALL)
    chain, honest = chain_of_five(store), id_of(say(store, "honest"))
    case = opened(store)
    copies.armed = True
    convict(store, case, chain[0])
    copies.armed = False
    store.close()
    seen: set[int] = set()
    for crashed in copies.kept:
        again = crashed.open(options=SMALL)
        there = set(shown(again))
        assert there in ({*chain, honest}, {honest})
        hidden = there == {honest}
        step = CaseStep.CONVICTED if hidden else CaseStep.REPRODUCED
        assert again.cases.get(case.case_id).step is step
        told = [one for _, one in again.reader.all_trust() if one.bad > 1]
        assert bool(told) is hidden
        seen.add(len(there))
        # What was cut short is done again, and once.
        convict(again, case, chain[0])
        assert set(shown(again)) == {honest}
        again.close()
    assert seen == {7, 1}  # both were met


def test_a_disk_that_refuses_leaves_everything_as_it_was(bench: Bench) -> None:
    armed: list[str] = []

    def fail(name: str) -> None:
        if name in armed:
            armed.remove(name)
            raise TransactionFailed("made up")

    store = bench.open(fail)
    chain = chain_of_five(store)
    case, before = opened(store), shown(store)
    armed.append("before_commit")
    with pytest.raises(Exception, match="nothing was written"):
        convict(store, case, chain[0])
    assert shown(store) == before
    assert store.cases.get(case.case_id) == case
    store.close()


def test_of_an_update_the_step_is_taken_back_and_the_memory_stays(bench: Bench) -> None:
    store = bench.open()
    memory_id = id_of(say(store, "the door code is 11"))
    early = derived(store, "derived from the truth", memory_id)
    edit = candidate_of(
        "the door code is 66", change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope()
    )
    write(store, submission_of(edit, provenance=FETCHED))
    late = derived(store, "derived from the lie", memory_id)
    assert shown(store)[memory_id] == "the door code is 66"
    done = convict(store, opened(store), memory_id)
    assert [one.act for one in done.culprits] == [Act.STEP_BACK, Act.QUARANTINE]
    assert shown(store) == {memory_id: "the door code is 11", early: "derived from the truth"}
    assert late not in shown(store)
    # The text that came back is convicted in its turn if it was a lie as well.
    again = convict(store, opened(store), memory_id)
    assert again.culprits[0].act is Act.QUARANTINE
    assert memory_id not in shown(store)
    store.close()


@pytest.mark.parametrize("edit", ["the lie.", "the lie ", "something else"])
def test_another_edit_of_no_more_trusted_source_saves_nothing(bench: Bench, edit: str) -> None:
    store = bench.open()
    chain, honest = chain_of_five(store), id_of(say(store, "honest"))
    blamed = accused(store, chain[0])
    change = candidate_of(edit, change=ChangeKind.UPDATE, memory_id=chain[0], scope=Scope())
    write(store, submission_of(change, provenance=FETCHED))
    assert shown(store)[chain[0]] == edit  # control: the edit is what reads show
    done = asyncio.run(store.cases.order(Convict(opened(store).case_id, blamed, BY, ASKED)))
    assert {one.act for one in done.culprits} == {Act.QUARANTINE}
    assert set(shown(store)) == {honest}
    store.close()


def test_what_a_more_trusted_source_mended_stays_and_what_came_of_the_lie_goes(
    bench: Bench,
) -> None:
    store = bench.open()
    lie = id_of(fetched(store, "the lie"))
    of_lie, blamed = derived(store, "derived from the lie", lie), accused(store, lie)
    mend = candidate_of(
        "the truth", OPERATOR, change=ChangeKind.UPDATE, memory_id=lie, scope=Scope()
    )
    write(store, submission_of(mend, OPERATOR))
    of_truth = derived(store, "derived from the truth", lie)
    done = asyncio.run(store.cases.order(Convict(opened(store).case_id, blamed, BY, ASKED)))
    assert {one.memory: one.act for one in done.culprits} == {
        lie: Act.NOTHING,
        of_lie: Act.QUARANTINE,
    }
    assert shown(store) == {lie: "the truth", of_truth: "derived from the truth"}
    store.close()


def test_a_step_that_was_taken_back_is_not_taken_back_again(bench: Bench) -> None:
    store = bench.open()
    memory_id = id_of(say(store, "the door code is 11"))
    for lie in ("the door code is 66", "the door code is 77"):
        edit = candidate_of(lie, change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope())
        write(store, submission_of(edit, provenance=FETCHED))
    blamed = accused(store, memory_id)
    for _ in range(2):
        convict(store, opened(store), memory_id)
    assert shown(store) == {memory_id: "the door code is 11"}
    done = asyncio.run(store.cases.order(Convict(opened(store).case_id, blamed, BY, ASKED)))
    assert [one.act for one in done.culprits] == [Act.NOTHING]
    assert shown(store) == {memory_id: "the door code is 11"}
    store.close()


def test_what_is_outdated_expires_without_moving_trust(bench: Bench) -> None:
    store = bench.open()
    rot, lie = id_of(fetched(store, "the office is in Porto")), id_of(fetched(store, "the lie"))
    trust = store.reader.all_trust()
    done = convict(store, opened(store), rot, outdated=True)
    assert [one.act for one in done.culprits] == [Act.EXPIRE]
    page = store.reader.page(TENANT, EVERYTHING, 0, 9)
    assert [one.memory_id for one in page.memories] == [lie]
    # Nor does a reader show it that shows what its own writer let expire.
    lenient = store.reader.at(Reads.ALL, expired=True)
    assert [one.memory_id for one in lenient.page(TENANT, EVERYTHING, 0, 9).memories] == [lie]
    assert lenient.get(TENANT, rot) is None
    assert store.reader.all_trust() == trust
    assert store.reader.check().problems == ()
    # Control: a lie of the same origin does count, once for each case and origin.
    convict(store, opened(store), lie)
    assert store.reader.origin_trust(TENANT, "web", "fetch").bad > 1
    store.close()


def test_what_its_writer_let_expire_is_ended_too(bench: Bench) -> None:
    store = bench.open()
    over = candidate_of("the office is in Porto", expires_at="2000-01-01T00:00:00Z")
    past = submission_of(over, provenance=FETCHED)
    rot = id_of(write(store, past)[0])
    lenient = store.reader.at(Reads.ALL, expired=True)
    assert store.reader.get(TENANT, rot) is None
    assert lenient.get(TENANT, rot) is not None  # control: by its id such a memory is read
    done = convict(store, opened(store), rot, outdated=True)
    assert [one.act for one in done.culprits] == [Act.EXPIRE]
    assert lenient.get(TENANT, rot) is None
    assert store.reader.check().problems == ()
    store.close()


def test_one_case_counts_once_for_one_origin(bench: Bench) -> None:
    store = bench.open()
    lies = [id_of(fetched(store, f"the lie {number}")) for number in range(3)]
    convict(store, opened(store), *lies[:2])
    once = store.reader.origin_trust(TENANT, "web", "fetch").bad
    convict(store, opened(store), lies[2])
    assert store.reader.origin_trust(TENANT, "web", "fetch").bad > once
    store.close()


def test_a_persons_words_and_anchors_are_left_to_a_person(bench: Bench) -> None:
    store = bench.open()
    word = id_of(say(store, "I said so", OPERATOR))
    lie = id_of(fetched(store, "the lie"))
    before = shown(store)
    done = convict(store, opened(store), lie, word)
    assert (done.step, done.why) == (CaseStep.NEEDS_PERSON, "label")
    assert {one.act for one in done.culprits} == {Act.NOTHING}
    assert shown(store) == before
    anchor = Anchor(
        anchor_id="a1", tenant=TENANT, statement="the lie", questions=(), created_at_ms=1
    )
    asyncio.run(store.writer.order(PutAnchor(anchor, BY)))
    done = convict(store, opened(store), lie)
    assert (done.step, done.why) == (CaseStep.NEEDS_PERSON, "anchor")
    assert shown(store) == before
    store.close()


def test_a_step_that_cannot_follow_changes_nothing(bench: Bench) -> None:
    store = bench.open()
    lie = id_of(fetched(store, "the lie"))
    case = opened(store)
    closed = asyncio.run(store.cases.order(MoveCase(case.case_id, CaseStep.CLOSED, BY)))
    assert closed.step is CaseStep.CLOSED
    size = store.reader.status().leaf_count
    assert convict(store, case, lie) == closed
    assert asyncio.run(store.cases.order(MoveCase(case.case_id, CaseStep.HEALED, BY))) == closed
    assert store.reader.status().leaf_count == size
    assert store.reader.get(TENANT, lie) is not None
    for nothing in ("", "zz", "0" * 16, "ab"):
        with pytest.raises(UnknownIncident):
            store.cases.get(nothing)
    store.close()


def test_what_was_of_the_same_origin_or_says_the_same_is_listed_and_left(bench: Bench) -> None:
    store = bench.open()
    lie, other = id_of(fetched(store, "the lie")), id_of(fetched(store, "another page"))
    copy, honest = id_of(say(store, "the lie")), id_of(say(store, "honest"))
    listed = store.cases.related(TENANT, accused(store, lie))
    assert {one.memory: one.relation for one in listed} == {
        other: Relation.ORIGIN,
        copy: Relation.ALIKE,
    }
    done = convict(store, opened(store), lie)
    kept = asyncio.run(store.cases.order(NameRelated(done.case_id, listed)))
    assert (kept.listed, kept.listed_count) == (listed, 2)
    assert {other, copy, honest} == set(shown(store))
    store.close()


def test_what_would_follow_is_named_without_doing_it(bench: Bench) -> None:
    store = bench.open()
    chain = chain_of_five(store)
    before, size = shown(store), store.reader.status().leaf_count
    named = store.cases.preview(TENANT, accused(store, chain[0]))
    assert [one.memory for one in named] == chain
    assert (shown(store), store.reader.status().leaf_count) == (before, size)
    store.close()


def test_an_operator_hides_a_memory_with_all_that_was_derived_from_it(bench: Bench) -> None:
    store = bench.open()
    chain, honest = chain_of_five(store), id_of(say(store, "honest"))
    alone = asyncio.run(store.writer.order(Quarantine(chain[3], TENANT, BY)))
    assert (alone.changed, alone.descendants) == (True, 0)
    assert set(shown(store)) == {*chain, honest} - {chain[3]}  # control: without it they stay
    done = asyncio.run(store.writer.order(Quarantine(chain[0], TENANT, BY, with_descendants=True)))
    assert (done.changed, done.descendants) == (True, 4)
    assert set(shown(store)) == {honest}
    again = asyncio.run(store.writer.order(Quarantine(chain[0], TENANT, BY, with_descendants=True)))
    assert (again.changed, again.descendants) == (False, 0)
    told = store.reader.trust_history(PrincipalId("agent-1"))
    # Those that the operator named count, and what was derived from them does not.
    assert [one.kind for one in told] == ["quarantined_by_hand"] * 2
    store.close()


def test_a_proposal_changes_nothing_until_a_person_accepts_it_and_then_once(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    lie, gone, bystander = (id_of(say(store, text)) for text in ("a lie", "gone", "another"))
    child = derived(store, "made of the lie", lie)
    case = opened(store)
    order = Convict(case.case_id, accused(store, lie, gone), BY, ASKED, proposes=True)
    case = asyncio.run(store.cases.order(order))
    assert case.step is CaseStep.NEEDS_PERSON
    assert set(shown(store)) == {lie, gone, bystander, child}
    deletion = candidate_of(None, OPERATOR, change=ChangeKind.DELETE, memory_id=gone, scope=Scope())
    write(store, submission_of(deletion, OPERATOR))
    before = store.audit.head().size
    person = PrincipalId("a person")
    done = asyncio.run(store.cases.order(AcceptCase(case.case_id, person)))
    assert done.step is CaseStep.CLOSED
    assert set(shown(store)) == {bystander}
    leaves = [decode_leaf(data) for data in store.audit.leaves(before, 100)]
    acts = [one for one in leaves if isinstance(one, OperatorLeaf) and one.by == person]
    hidden = [one for one in acts if one.action == "memory.quarantine"]
    assert {one.subject for one in hidden} == {lie, child}
    assert all(case.case_id in (one.detail or "") for one in hidden)
    size = store.audit.head().size
    with pytest.raises(UnknownIncident):
        asyncio.run(store.cases.order(AcceptCase(case.case_id, person)))
    assert store.audit.head().size == size


def test_a_refused_proposal_hides_nothing_and_cannot_be_accepted_later(bench: Bench) -> None:
    store = bench.open(options=SMALL)
    lie = id_of(say(store, "a lie"))
    case = opened(store)
    order = Convict(case.case_id, accused(store, lie), BY, ASKED, proposes=True)
    asyncio.run(store.cases.order(order))
    done = asyncio.run(store.cases.order(MoveCase(case.case_id, CaseStep.CLOSED, BY)))
    assert done.step is CaseStep.CLOSED
    with pytest.raises(UnknownIncident):
        asyncio.run(store.cases.order(AcceptCase(case.case_id, BY)))
    assert set(shown(store)) == {lie}
