"""Whose the memories of a server are, by its keys; and what goes with a memory beside its text."""

from __future__ import annotations

from pathlib import Path

import msgspec

from policy.labels.forwarded_call import HTTP
from policy.model import CandidateId, ChangeKind, Principal, Reads
from policy.query import EVERYTHING
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.guard.sieve import Sieve
from proxy.seams.guard import Forwarded
from proxy.seams.http_backend import ShownMemory
from storage.features.pinned_tools import ApproveTools
from storage.features.quarantine.hiding import Quarantine
from storage.values import GuardedServer, PendingForward
from tests.unit.proxy.guarded import (
    AGENT,
    BY,
    GOOD,
    OTHER,
    PERSON,
    SERVER,
    STEERING,
    Guarded,
    call,
    guard_of,
    guarded,
    item,
)

KEY = '["memories","alice","k1"]'
FOLDER = '["memories",'


def http(seen: Guarded) -> tuple[LocalGuard, KeyOwners]:
    """The guard of HTTP servers on the store, and what it tells of keys."""
    sieve, store = Sieve(seen.store.followed.since), seen.store
    guard = guard_of(seen.wired, seen.clock, dialect="http", target_prefix=HTTP, sieve=sieve)
    keys = KeyOwners(
        guard,
        HTTP,
        sieve=sieve,
        forwards=store.forwards,
        pins=store.pins,
        hidden_behind=store.hidden_behind,
    )
    return guard, keys


def shown(key: str, *strings: str, is_prefix: bool = False) -> ShownMemory:
    return ShownMemory(key=key, strings=strings, place=0, is_prefix=is_prefix)


async def admitted(guard: LocalGuard, who: Principal, key: str, text: str = GOOD) -> CandidateId:
    (judged,) = await guard.judge(who, call(item(text, key=key)))
    assert judged.candidate_id is not None
    return judged.candidate_id


async def hides(keys: KeyOwners, who: Principal, one: ShownMemory) -> bool:
    (hidden,) = await keys.hides(who, SERVER, (one,), hides_unknown=False)
    return hidden


async def test_a_memory_is_hidden_until_it_is_settled_and_from_other_tenants_after(
    tmp_path: Path,
) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        candidate_id = await admitted(guard, AGENT, KEY)
        for one in (shown(KEY), shown(FOLDER, is_prefix=True)):
            assert await hides(keys, AGENT, one)
        assert keys.tenants_waiting(SERVER) == {AGENT.tenant}
        await guard.settle(AGENT, SERVER, ((candidate_id, Forwarded.DONE),))
        assert keys.tenants_waiting(SERVER) == frozenset()
        for one in (shown(KEY), shown(FOLDER, is_prefix=True)):
            assert not await hides(keys, AGENT, one)
            assert await hides(keys, OTHER, one)
            assert await keys.belongs_to_others(OTHER, SERVER, (one,)) == (True,)
            assert await keys.belongs_to_others(AGENT, SERVER, (one,)) == (False,)
        # Control: another folder, another key and no key at all are nobody's.
        for one in (shown('["other",', is_prefix=True), shown("k2"), shown("")):
            assert not await hides(keys, OTHER, one)


async def test_what_nobody_let_in_is_hidden_where_that_is_asked_for(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        _, keys = http(seen)
        for hidden in (True, False):
            found = await keys.hides(AGENT, SERVER, (shown(KEY, "old"),), hides_unknown=hidden)
            assert found == (hidden,)


async def test_a_marked_memory_is_shown_only_where_the_gate_knows_it(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        marked = msgspec.structs.replace(shown("id-1", GOOD), is_marked=True)
        candidate_id = await admitted(guard, AGENT, "")
        # It stands on the server, whose answer is still under way, or was lost.
        assert await hides(keys, AGENT, marked)
        assert await hides(keys, OTHER, marked)
        # Control: an unmarked one was there before the gate.
        assert not await hides(keys, AGENT, shown("id-2", "old"))
        guard.has_key(candidate_id, "id-1")
        await guard.settle(AGENT, SERVER, ((candidate_id, Forwarded.DONE),))
        assert not await hides(keys, AGENT, marked)
        assert await hides(keys, OTHER, marked)


async def test_of_the_past_only_what_is_live_under_the_key_is_shown(tmp_path: Path) -> None:
    def past(*strings: str, key: str = "id-1") -> ShownMemory:
        return msgspec.structs.replace(shown(key, *strings), is_past=True)

    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        # What was before the gate has a past that nobody judged.
        assert await hides(keys, AGENT, past(GOOD))
        candidate_id = await admitted(guard, AGENT, "")
        guard.has_key(candidate_id, "id-1")
        await guard.settle(AGENT, SERVER, ((candidate_id, Forwarded.DONE),))
        for one in (past(GOOD), past(GOOD, GOOD), past()):
            assert not await hides(keys, AGENT, one)
            assert await hides(keys, OTHER, one)
        for one in (past("old"), past(GOOD, "old"), past(GOOD, key="id-2")):
            assert await hides(keys, AGENT, one)


async def test_a_floor_shows_a_key_by_the_label_of_its_newest_live_memory(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        floored = msgspec.structs.replace(AGENT, reads=Reads.USER_INPUT)
        folder = shown(FOLDER, is_prefix=True)

        async def settled(who: Principal, text: str) -> None:
            candidate_id = await admitted(guard, who, KEY, text)
            await guard.settle(who, SERVER, ((candidate_id, Forwarded.DONE),))

        for who, text, hidden in ((AGENT, GOOD, True), (PERSON, "Hers.", False)):
            await settled(who, text)
            for one in (shown(KEY, text), folder):
                assert await hides(keys, floored, one) is hidden
                assert not await hides(keys, AGENT, one), "control"
            assert await keys.belongs_to(floored, SERVER, (shown(KEY),)) == (not hidden,)
        strict = msgspec.structs.replace(AGENT, reads=Reads.OPERATOR)
        assert await hides(keys, strict, shown(KEY, "Hers."))
        # What no verdict let in has no label, and neither has what is filed under no key.
        for one in (shown("past", "old"), shown("", "said")):
            assert await hides(keys, floored, one)
            assert not await hides(keys, AGENT, one), "control"


async def test_what_is_withheld_is_shown_to_nobody(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        _, keys = http(seen)
        for withheld in (True, False):
            one = msgspec.structs.replace(shown("", "fine"), is_withheld=withheld)
            assert await hides(keys, AGENT, one) is withheld


async def test_what_has_no_key_yet_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        for key in ("", "id-2"):
            sent = await admitted(guard, AGENT, key)
            await guard.settle(AGENT, SERVER, ((sent, Forwarded.UNKNOWN),))
        assert await keys.unsettled_keys(AGENT, SERVER) == {"id-2"}


async def test_a_memory_is_hidden_by_its_key_and_never_for_its_words(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        first = await admitted(guard, AGENT, "k1")
        copy = await admitted(guard, AGENT, "k2")
        await guard.settle(AGENT, SERVER, ((first, Forwarded.DONE), (copy, Forwarded.DONE)))
        (held,) = await guard.judge(AGENT, call(item(STEERING, key="k3")))
        assert held.decision == "hold"
        answer = (shown("k1", GOOD), shown("k2", GOOD), shown("old", STEERING), shown("", GOOD))
        assert not any(await keys.hides(AGENT, SERVER, answer, hides_unknown=False)), "control"
        there = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 9).memories
        memory = min(there, key=lambda one: one.ordinal)
        await seen.store.writer.order(Quarantine(memory.memory_id, AGENT.tenant, BY))
        found = await keys.hides(AGENT, SERVER, answer, hides_unknown=False)
        # What has no key, as the end of a run of an agent, is known by its words.
        assert found == (True, False, False, True)


async def test_a_memory_is_filed_under_the_key_that_its_server_gave_it(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        candidate_id = await admitted(guard, AGENT, "")
        guard.has_key(candidate_id, "id-1")
        await guard.settle(AGENT, SERVER, ((candidate_id, Forwarded.DONE),))
        assert await keys.belongs_to_others(OTHER, SERVER, (shown("id-1"),)) == (True,)
        # A change of it is one of a memory that is known, and no person is asked.
        (judged,) = await guard.judge(AGENT, call(item(GOOD, key="id-1", change=ChangeKind.UPDATE)))
        assert judged.decision == "admit"
        assert seen.store.reader.check().problems == ()
    # So it stays, once the store is opened again.
    with guarded(tmp_path) as seen:
        _, keys = http(seen)
        assert await keys.belongs_to_others(OTHER, SERVER, (shown("id-1"),)) == (True,)


async def test_a_key_of_what_failed_is_not_kept(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        candidate_id = await admitted(guard, AGENT, "")
        guard.has_key(candidate_id, "id-1")
        await guard.settle(AGENT, SERVER, ((candidate_id, Forwarded.FAILED),))
        assert await keys.belongs_to_others(OTHER, SERVER, (shown("id-1"),)) == (False,)


async def test_a_released_item_has_its_blob_and_an_admitted_one_leaves_none(
    tmp_path: Path,
) -> None:
    with guarded(tmp_path) as seen:
        guard, _ = http(seen)
        blob = bytes(range(256)) * 16
        held = msgspec.structs.replace(item(STEERING), blob=blob)
        (judged,) = await guard.judge(AGENT, call(held))
        assert judged.candidate_id is not None
        await seen.store.writer.release(judged.candidate_id, BY)
        (given,) = await guard.unsettled(AGENT, SERVER)
        assert given.blob == blob
        await guard.settle(AGENT, SERVER, ((judged.candidate_id, Forwarded.DONE),))
        await guard.judge(AGENT, call(msgspec.structs.replace(item(GOOD), blob=blob)))
        (pending,) = seen.store.forwards.pending()
        assert pending.blob == b""


class Altered:
    """The forwards of a store in which somebody changed the blobs."""

    def __init__(self, seen: Guarded) -> None:
        self._forwards = seen.store.forwards

    def pending(self, *asked: object) -> tuple[PendingForward, ...]:
        del asked
        found = self._forwards.pending()
        return tuple(msgspec.structs.replace(one, blob=b"another vector") for one in found)

    async def claim(self, behind: GuardedServer, ids: tuple[CandidateId, ...]) -> frozenset[str]:
        return await self._forwards.claim(behind, ids)


async def test_a_blob_that_is_not_the_judged_one_does_not_go_on(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, _ = http(seen)
        held = msgspec.structs.replace(item(STEERING), blob=b"a vector")
        (judged,) = await guard.judge(AGENT, call(held))
        assert judged.candidate_id is not None
        await seen.store.writer.release(judged.candidate_id, BY)
        guard._forwards = Altered(seen)  # type: ignore[assignment]
        (given,) = await guard.unsettled(AGENT, SERVER)
        assert given.blob == b""


async def test_a_version_is_known_once_an_operator_approved_it(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        _, keys = http(seen)
        assert not await keys.knows_version(AGENT, SERVER, "2.0")
        await seen.store.pins.order(ApproveTools(AGENT.tenant, "http:memory", BY))
        assert await keys.knows_version(AGENT, SERVER, "2.0")
        assert not await keys.knows_version(AGENT, SERVER, "2.1")
        assert not await keys.knows_version(OTHER, SERVER, "2.0")


async def test_a_deletion_that_is_settled_late_ends_nothing_that_came_after_it(
    tmp_path: Path,
) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        before = await admitted(guard, AGENT, KEY)
        await guard.settle(AGENT, SERVER, ((before, Forwarded.DONE),))
        gone = msgspec.structs.replace(
            item(KEY, key=KEY), change=ChangeKind.DELETE, pieces=(KEY,), arguments="{}"
        )
        (deletion,) = await guard.judge(AGENT, call(gone))
        assert deletion.candidate_id is not None
        after = await admitted(guard, AGENT, KEY, "Ada has moved to Lisbon")
        await guard.settle(AGENT, SERVER, ((after, Forwarded.DONE),))
        await guard.settle(AGENT, SERVER, ((deletion.candidate_id, Forwarded.DONE),))
        assert not await hides(keys, AGENT, shown(KEY))
        assert await hides(keys, OTHER, shown(KEY))
        # Control: what was there before the deletion is gone.
        page = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 9)
        assert ["Lisbon" in one.text for one in page.memories] == [True]
