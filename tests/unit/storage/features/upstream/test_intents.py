"""Intents and results in the store: durable in order, counted once, checked against the log."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import CandidateId, ChangeKind, ForwardStatus, MemoryStatus, Tenant
from policy.query import EVERYTHING
from storage.audit import ResultLeaf, Verifier, decode_leaf
from storage.embedded import EmbeddedStore
from storage.features.quarantine.hiding import Quarantine
from storage.features.upstream.intents import Settle
from storage.features.upstream.upstream_filing import FORWARDS
from storage.ground.errors import UnknownCandidate
from storage.opening import offline_store
from storage.tables.change import Change
from storage.tables.codec import IdRecord, encode
from storage.tables.names import IDS, KEYED, LEAVES
from storage.values import ForwardState, GuardedServer, Outcome
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
    write,
)
from tests.unit.storage.write.test_writer import Turnstile

TARGET = target_of(MCP, "memory")
BEHIND = GuardedServer(tenant=TENANT, target=TARGET, by=BY)


def intend(store: EmbeddedStore, text: str, key: str = "Ada", tenant: Tenant = TENANT) -> Outcome:
    """One change on its way to another server."""
    call = ForwardedCall(tool="t", arguments="{}", key=key, pieces=(text,))
    pieces, metadata_json = texts_of(call)
    candidate = candidate_of(pieces, target=TARGET, metadata_json=metadata_json, tenant=tenant)
    return write(store, submission_of(candidate, guarded_key=key))[0]


def end(store: EmbeddedStore, outcome: Outcome, change: ChangeKind) -> None:
    """Purge or delete a memory here, of which its server hears nothing."""
    assert outcome.memory is not None
    candidate = candidate_of(
        None, OPERATOR, change=change, memory_id=outcome.memory.memory_id, tenant=TENANT
    )
    (done,) = write(store, submission_of(candidate, OPERATOR))
    assert done.decision.value == "admit", done.reason


def settle(store: EmbeddedStore, candidate_id: CandidateId, result: ForwardStatus) -> int:
    return len(asyncio.run(store.forwards.settle(BEHIND, ((candidate_id, result),))))


def results(store: EmbeddedStore) -> list[ResultLeaf]:
    with store.lmdb.reading() as view:
        leaves = [decode_leaf(data) for _, data in view.scan(LEAVES)]
    return [leaf for leaf in leaves if isinstance(leaf, ResultLeaf)]


def listed(store: EmbeddedStore) -> list[str]:
    return [one.text for one in store.reader.page(TENANT, EVERYTHING, 0, 100).memories]


def found(store: EmbeddedStore, text: str) -> list[str]:
    hits = store.reader.search(TENANT, vector_of(text), EVERYTHING, 10, -1.0)
    return [hit.memory.text for hit in hits]


def tamper(store: EmbeddedStore, work: Callable[[Change], Any]) -> None:
    store._engine.transact(work)


def test_an_intent_is_found_by_no_read_and_by_the_search_only_once_it_is_done(
    store: EmbeddedStore,
) -> None:
    intend(store, "something else", key="Grace")
    outcome = intend(store, "Ada sings")
    assert (listed(store), found(store, "Ada sings")) == ([], [])
    assert outcome.memory is not None
    assert store.reader.get(TENANT, outcome.memory.memory_id) is None
    assert store.reader.history(TENANT, outcome.memory.memory_id) == ()
    assert settle(store, outcome.candidate_id, ForwardStatus.DONE) == 1
    assert listed(store) == ["Ada sings"]
    assert found(store, "Ada sings") == ["Ada sings"]
    assert store.reader.check().problems == ()


def test_memories_settle_in_any_order_and_are_listed_in_that_of_their_writing(bench: Bench) -> None:
    store = bench.open()
    outcomes = [intend(store, f"fact {number}") for number in range(40)]
    for outcome in [*outcomes[::3], *outcomes[1::3], *outcomes[2::3]]:
        settle(store, outcome.candidate_id, ForwardStatus.DONE)
    newest_first = [f"fact {number}" for number in reversed(range(40))]
    assert listed(store) == newest_first
    store.close()
    store = bench.open()
    assert listed(store) == newest_first
    assert found(store, "fact 7")[0] == "fact 7"
    store.close()


@pytest.mark.parametrize("result", ForwardStatus)
def test_what_was_settled_outlives_a_restart(bench: Bench, result: ForwardStatus) -> None:
    store = bench.open()
    outcome = intend(store, "Ada sings")
    settle(store, outcome.candidate_id, result)
    store.close()
    store = bench.open()
    (leaf,) = results(store)
    assert (leaf.result, leaf.verdict_index, leaf.by) == (result, outcome.leaf_index, BY)
    assert listed(store) == (["Ada sings"] if result is ForwardStatus.DONE else [])
    pending = store.forwards.pending(TENANT, TARGET)
    assert [one.unknown for one in pending] == ([True] if result is ForwardStatus.UNKNOWN else [])
    assert settle(store, outcome.candidate_id, result) == 0
    assert store.reader.check().problems == ()
    store.close()


def test_an_intent_without_a_result_is_still_one_after_a_restart(bench: Bench) -> None:
    store = bench.open()
    outcome = intend(store, "Ada sings")
    store.close()
    store = bench.open()
    (pending,) = store.forwards.pending()
    assert (pending.candidate_id, pending.sent) == (outcome.candidate_id, True)
    assert listed(store) == []
    assert [one.stands for one in store.followed.since(-1).moved] == [ForwardState.FORWARDING]
    settle(store, outcome.candidate_id, ForwardStatus.DONE)
    assert listed(store) == ["Ada sings"]
    store.close()


def file_under(store: EmbeddedStore, behind: GuardedServer, outcome: Outcome, key: str) -> None:
    settled = ((outcome.candidate_id, ForwardStatus.DONE),)
    asyncio.run(store.forwards.settle(behind, settled, {outcome.candidate_id: key}))


@pytest.mark.parametrize("stands", ["live", "quarantined", "purged", "on its way"])
@pytest.mark.parametrize("tenant", [TENANT, Tenant("another")])
def test_a_key_that_stands_here_already_is_given_to_no_other_memory(
    store: EmbeddedStore, stands: str, tenant: Tenant
) -> None:
    first = intend(store, "Ada sings", key="" if stands != "on its way" else "id-1")
    if stands != "on its way":
        file_under(store, BEHIND, first, "id-1")
    assert first.memory is not None
    if stands == "quarantined":
        asyncio.run(store.writer.order(Quarantine(first.memory.memory_id, TENANT, BY)))
    if stands == "purged":
        end(store, first, ChangeKind.PURGE)
    theirs = GuardedServer(tenant=tenant, target=TARGET, by=BY)
    second = intend(store, "Grace sings", key="", tenant=tenant)
    file_under(store, theirs, second, "id-1")
    # Nobody knows what became of it, and it stays to be looked up.
    assert [one.unknown for one in store.forwards.pending(tenant, TARGET)][-1:] == [True]
    assert results(store)[-1].result is ForwardStatus.UNKNOWN
    if stands == "purged":
        (closed,) = store.forwards.closed(TENANT, TARGET, ("id-1",))
        assert closed.mine
    # Control: a key of its own.
    file_under(store, theirs, second, "id-2")
    assert store.forwards.live_strings(tenant, TARGET, "id-2") == {"Grace sings"}
    assert results(store)[-1].result is ForwardStatus.DONE
    assert store.reader.check().problems == ()


def test_the_strings_under_a_key_are_those_of_its_live_memories(store: EmbeddedStore) -> None:
    def texts() -> set[str]:
        return set(store.forwards.live_strings(TENANT, TARGET, "Ada"))

    outcomes = [intend(store, text) for text in ("Ada sings", "Ada paints", "Ada swims")]
    assert texts() == set()
    for outcome in outcomes:
        settle(store, outcome.candidate_id, ForwardStatus.DONE)
    assert texts() == {"Ada sings", "Ada paints", "Ada swims"}
    first, second, _ = (one.memory for one in outcomes)
    assert first is not None
    assert second is not None
    asyncio.run(store.writer.order(Quarantine(first.memory_id, TENANT, BY)))
    end(store, outcomes[1], ChangeKind.PURGE)
    assert texts() == {"Ada swims"}
    assert store.forwards.live_strings(Tenant("another"), TARGET, "Ada") == frozenset()


def test_a_memory_of_our_own_settles_nothing_and_is_no_intent(store: EmbeddedStore) -> None:
    (outcome,) = write(store, submission_of(candidate_of("plain", target=TARGET)))
    assert store.forwards.pending() == ()
    assert settle(store, outcome.candidate_id, ForwardStatus.FAILED) == 0
    assert listed(store) == ["plain"]
    with pytest.raises(UnknownCandidate):
        settle(store, CandidateId("no id"), ForwardStatus.DONE)


@pytest.mark.parametrize("wrong", [(), (CandidateId("no id"),)])
async def test_outcomes_that_wait_together_are_one_commit_and_a_wrong_one_stops_no_other(
    bench: Bench, wrong: tuple[CandidateId, ...]
) -> None:
    """Fifty clients would wait for fifty commits in a row otherwise."""
    commits: list[str] = []
    turnstile = Turnstile("before_commit")

    def point(name: str) -> None:
        commits.extend([name] if name == "before_commit" else [])
        turnstile(name)

    store = await asyncio.to_thread(bench.open, point)
    ids = [(await asyncio.to_thread(intend, store, str(n))).candidate_id for n in range(5)]
    turnstile.reached.clear()
    turnstile.open.clear()
    first = asyncio.ensure_future(store.forwards.settle(BEHIND, ((ids[0], ForwardStatus.DONE),)))
    await asyncio.to_thread(turnstile.reached.wait, 30)
    waiting = [
        asyncio.ensure_future(
            store.writer.order_together(Settle(BEHIND, ((one, ForwardStatus.DONE),)))
        )
        for one in (*ids[1:3], *wrong, *ids[3:])
    ]
    submitted = asyncio.ensure_future(store.writer.submit(submission_of(candidate_of("beside"))))
    for _ in range(3):
        await asyncio.sleep(0)
    commits.clear()
    turnstile.open.set()
    assert await first == {ids[0]}
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [one for one in told if isinstance(one, frozenset)] == [{one} for one in ids[1:]]
    refused = [one for one in told if not isinstance(one, frozenset)]
    assert [type(one) for one in refused] == [UnknownCandidate for _ in wrong]
    assert (await submitted).memory is not None
    # One commit for all outcomes and one for the candidate; with a wrong one, each by itself.
    assert len(commits) == 1 + (len(ids[1:]) if wrong else 1)
    assert listed(store) == ["beside", *map(str, reversed(range(5)))]
    await asyncio.to_thread(store.close)


def test_an_intent_can_be_changed_by_nobody_until_it_is_settled(store: EmbeddedStore) -> None:
    outcome = intend(store, "Ada sings")
    assert outcome.memory is not None
    memory_id = outcome.memory.memory_id
    change = candidate_of("other", change=ChangeKind.UPDATE, memory_id=memory_id, principal=AGENT)
    assert write(store, submission_of(change))[0].reason is not None
    settle(store, outcome.candidate_id, ForwardStatus.DONE)
    again = msgspec.structs.replace(change, nonce="another")
    assert write(store, submission_of(again))[0].reason is None
    assert store.reader.check().problems == ()


def _unfile(change: Change) -> None:
    for key in list(change.draft.keys(KEYED)):
        change.draft.delete(KEYED, key)


def _forget(change: Change) -> None:
    for key in list(change.draft.keys(FORWARDS)):
        change.draft.delete(FORWARDS, key)


def _lose(change: Change) -> None:
    for key, payload in list(change.draft.scan(FORWARDS)):
        lost = msgspec.structs.replace(FORWARDS.decoded(payload), unknown=True)
        change.draft.put(FORWARDS, key, encode(lost))


def _show(change: Change) -> None:
    for key, payload in list(change.draft.scan(IDS)):
        known = IDS.decoded(payload)
        change.draft.put(IDS, key, encode(IdRecord(known.ordinal, MemoryStatus.LIVE)))


def _log_twice(change: Change) -> None:
    for key, payload in list(change.draft.scan(FORWARDS)):
        record = FORWARDS.decoded(payload)
        for _ in range(2):
            change.log(
                ResultLeaf(
                    candidate_id=CandidateId(key.hex()),
                    at_ms=change.now_ms,
                    verdict_index=record.leaf_index,
                    result=ForwardStatus.DONE,
                    by=BY,
                )
            )


def _log_of_another(change: Change) -> None:
    change.log(
        ResultLeaf(
            candidate_id=CandidateId("0" * 32),
            at_ms=change.now_ms,
            verdict_index=change.leaf_count - 1,
            result=ForwardStatus.UNKNOWN,
            by=BY,
        )
    )


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_unfile, "not filed under its key"),
        (_forget, "nothing says what became of it"),
        (_lose, "disagree whether its answer was lost"),
        (_show, "live memories, but the header says 0"),
        (_log_twice, "ends what had ended"),
        (_log_of_another, "of another candidate than its verdict"),
    ],
)
def test_the_check_finds_what_contradicts_the_log(
    store: EmbeddedStore, damage: Callable[[Change], None], said: str
) -> None:
    intend(store, "Ada sings")
    assert store.reader.check().problems == ()
    tamper(store, damage)
    assert any(said in problem for problem in store.reader.check().problems)


@pytest.mark.parametrize(("damage", "sound"), [(None, True), (_log_twice, False)])
def test_whoever_verifies_the_files_sees_results_that_contradict_each_other(
    bench: Bench, damage: Callable[[Change], None] | None, *, sound: bool
) -> None:
    store = bench.open()
    outcome = intend(store, "Ada sings")
    settle(store, outcome.candidate_id, ForwardStatus.UNKNOWN)
    if damage is not None:
        tamper(store, damage)
    store.close()
    log_key = (bench.state / "secrets" / "log.key").read_bytes()
    copy = bench.checkpoint.read_bytes()
    with offline_store(bench.state).viewed() as view:
        verifier = Verifier(view, lambda _done, _total: None, copy=copy, vkey=None, log_key=log_key)
        found = verifier.run()
    assert found.sound is sound, found.problems
