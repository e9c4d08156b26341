"""Whose the memories of a server are, by its keys; a purged one is in no answer of a server."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy.labels.forwarded_call import HTTP
from policy.model import CandidateId, ChangeKind, Memory, MemoryId, Principal, Reads
from policy.query import EVERYTHING
from policy.verdict import Reason
from policy.withheld.pieces import pieces_of
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.guard.sieve import Sieve
from proxy.seams.guard import ForwardStatus
from proxy.seams.http_backend import ShownMemory
from proxy.seams.operation import Proposal
from storage.features.pinned_tools import ApproveTools
from storage.features.quarantine.hiding import Quarantine
from storage.features.upstream.forgotten_texts import FORGOTTEN, forgotten_texts
from storage.ground.errors import StoreCorrupt
from storage.tables.change import Change
from storage.tables.keys import KeyedNames
from storage.values import GuardedServer, PendingForward
from tests.evaluate.canary import files_below
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
from tests.unit.proxy.wired import TRACE
from tests.unit.storage.opening import OPERATOR

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
        await guard.settle(AGENT, SERVER, ((candidate_id, ForwardStatus.DONE),))
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
        await guard.settle(AGENT, SERVER, ((candidate_id, ForwardStatus.DONE),))
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
        await guard.settle(AGENT, SERVER, ((candidate_id, ForwardStatus.DONE),))
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
            await guard.settle(who, SERVER, ((candidate_id, ForwardStatus.DONE),))

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
            await guard.settle(AGENT, SERVER, ((sent, ForwardStatus.UNKNOWN),))
        assert await keys.unsettled_keys(AGENT, SERVER, ("", "id-2", "id-3")) == {"id-2"}


async def test_a_memory_is_hidden_by_its_key_and_never_for_its_words(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, keys = http(seen)
        first = await admitted(guard, AGENT, "k1")
        copy = await admitted(guard, AGENT, "k2")
        await guard.settle(AGENT, SERVER, ((first, ForwardStatus.DONE), (copy, ForwardStatus.DONE)))
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
        await guard.settle(AGENT, SERVER, ((candidate_id, ForwardStatus.DONE),))
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
        await guard.settle(AGENT, SERVER, ((candidate_id, ForwardStatus.FAILED),))
        assert await keys.belongs_to_others(OTHER, SERVER, (shown("id-1"),)) == (False,)


async def test_a_released_item_has_its_blob_and_an_admitted_one_leaves_none(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard, _ = http(seen)
        blob = bytes(range(256)) * 16
        held = msgspec.structs.replace(item(STEERING), blob=blob)
        (judged,) = await guard.judge(AGENT, call(held))
        assert judged.candidate_id is not None
        await seen.store.writer.release(judged.candidate_id, BY)
        (given,) = await guard.unsettled(AGENT, SERVER)
        assert given.blob == blob
        await guard.settle(AGENT, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
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
        await guard.settle(AGENT, SERVER, ((before, ForwardStatus.DONE),))
        gone = msgspec.structs.replace(
            item(KEY, key=KEY), change=ChangeKind.DELETE, pieces=(KEY,), arguments="{}"
        )
        (deletion,) = await guard.judge(AGENT, call(gone))
        assert deletion.candidate_id is not None
        after = await admitted(guard, AGENT, KEY, "Ada has moved to Lisbon")
        await guard.settle(AGENT, SERVER, ((after, ForwardStatus.DONE),))
        await guard.settle(AGENT, SERVER, ((deletion.candidate_id, ForwardStatus.DONE),))
        assert not await hides(keys, AGENT, shown(KEY))
        assert await hides(keys, OTHER, shown(KEY))
        # Control: what was there before the deletion is gone.
        page = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 9)
        assert ["Lisbon" in one.text for one in page.memories] == [True]


PURGE = ChangeKind.PURGE
LIE = "Zebra Analytics keeps the accounts of Ada since April"
TOLD = (LIE, f"     1\tTea.\n     2\t{LIE.upper()}.", "Ada", "person", GOOD)
ALL_SHOWN = (False,) * 5
LIE_HIDDEN = (True, True, False, False, False)


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path) as parts:
        yield parts
        assert parts.store.reader.check().problems == ()


async def says(
    seen: Guarded,
    text: str,
    key: str,
    principal: Principal = AGENT,
    guard: LocalGuard | None = None,
    *,
    pieces: tuple[str, ...] = (),
    arguments: str = "",
) -> MemoryId:
    """A memory that the server has."""
    by = guard or seen.guard
    before = {one.memory_id for one in listed(seen)}
    said = item(text, key, pieces=pieces, arguments=arguments) if pieces else item(text, key)
    (judged,) = await by.judge(principal, call(said))
    assert judged.candidate_id is not None, judged
    if judged.decision == "hold":
        await seen.store.writer.release(judged.candidate_id, BY)
        assert [one.sent for one in await by.unsettled(principal, SERVER)] == [False]
    await by.settle(principal, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    (new,) = [one.memory_id for one in listed(seen) if one.memory_id not in before]
    return new


def listed(seen: Guarded) -> tuple[Memory, ...]:
    return seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 99).memories


async def ended(
    seen: Guarded, memory_id: MemoryId, *, hidden: bool = True, change: ChangeKind = PURGE
) -> None:
    if hidden:
        await seen.store.writer.order(Quarantine(memory_id, AGENT.tenant, BY))
        assert any(await sifted(seen, *TOLD, STEERING)), "control: the quarantine hides it"
    one = Proposal(change=change, memory_id=memory_id)
    (done,) = await seen.wired.writing.judge(OPERATOR, (one,), "admin", TRACE)
    assert done.decision == "admit", done


async def sifted(
    seen: Guarded, *strings: str, by: Principal = AGENT, server: str = SERVER
) -> tuple[bool, ...]:
    """What an agent is not shown, the same by this gate and by one that was started anew."""
    told = strings or TOLD
    now = await seen.guard.sift(by, server, told)
    assert await guard_of(seen.wired, seen.clock).sift(by, server, told) == now
    return now


@pytest.mark.parametrize(
    ("change", "hidden"),
    [(PURGE, True), (PURGE, False), (ChangeKind.DELETE, False)],
)
async def test_what_ends_here_and_not_on_its_server_is_in_no_answer_again(
    seen: Guarded, change: ChangeKind, *, hidden: bool
) -> None:
    memory_id = await says(seen, LIE, "Ada")
    assert await sifted(seen) == ALL_SHOWN, "control"
    await ended(seen, memory_id, hidden=hidden, change=change)
    assert await sifted(seen) == LIE_HIDDEN
    # Another tenant and another server never had it.
    assert await sifted(seen, by=OTHER) == ALL_SHOWN
    assert await sifted(seen, server="another") == ALL_SHOWN

    def without(change: Change) -> None:
        for key in list(change.draft.keys(FORGOTTEN)):
            change.draft.delete(FORGOTTEN, key)

    await seen.store.writer.run(lambda: seen.store._engine.transact(without))
    again = guard_of(seen.wired, seen.clock)
    assert await again.sift(AGENT, SERVER, TOLD) == ALL_SHOWN, "control: the records hide it"


async def test_what_is_deleted_and_purged_before_anybody_reads_is_in_no_answer_again(
    seen: Guarded,
) -> None:
    memory_id = await says(seen, LIE, "Ada")
    assert await sifted(seen) == ALL_SHOWN, "control"
    for change in (ChangeKind.DELETE, PURGE):
        one = Proposal(change=change, memory_id=memory_id)
        (done,) = await seen.wired.writing.judge(OPERATOR, (one,), "admin", TRACE)
        assert done.decision == "admit", done
    assert await sifted(seen) == LIE_HIDDEN


async def test_what_was_hidden_is_opened_by_a_person_alone(seen: Guarded) -> None:
    await ended(seen, await says(seen, LIE, "Ada"))
    (again,) = await seen.guard.judge(AGENT, call(item(LIE, key="Grace")))
    assert again.reason is Reason.REPEATS_HIDDEN
    assert await sifted(seen) == LIE_HIDDEN, "an agent that says the lie again opens nothing"
    hers = await says(seen, f"{LIE}.", "Joan", PERSON)
    assert await sifted(seen) == ALL_SHOWN
    await ended(seen, hers, hidden=False)
    assert await sifted(seen) == LIE_HIDDEN


async def test_what_a_person_lets_in_opens_what_was_hidden(seen: Guarded) -> None:
    await ended(seen, await says(seen, STEERING, "Ada"))
    assert await sifted(seen, STEERING) == (True,)
    (refused,) = await seen.guard.judge(AGENT, call(item(STEERING, "Grace")))
    assert refused.reason is Reason.REPEATS_HIDDEN, "no agent says it again"
    assert await sifted(seen, STEERING) == (True,)
    await says(seen, STEERING, "Joan", PERSON)
    assert await sifted(seen, STEERING) == (False,)


async def test_a_copy_goes_with_its_original_and_not_the_other_way_round(seen: Guarded) -> None:
    first = await says(seen, LIE, "Ada")
    copy = await says(seen, LIE, "Grace")
    await seen.store.writer.order(Quarantine(copy, AGENT.tenant, BY))
    assert await sifted(seen) == ALL_SHOWN, "a memory that was there before says it"
    purge = Proposal(change=PURGE, memory_id=copy)
    await seen.wired.writing.judge(OPERATOR, (purge,), "admin", TRACE)
    assert await sifted(seen) == ALL_SHOWN
    await says(seen, LIE, "Joan")
    await ended(seen, first)
    assert await sifted(seen) == LIE_HIDDEN, "a later copy shows it no more"


async def test_what_was_shown_is_opened_by_whoever_says_it_again(seen: Guarded) -> None:
    await ended(seen, await says(seen, LIE, "Ada"), hidden=False)
    assert await sifted(seen) == LIE_HIDDEN
    later = await says(seen, LIE, "Grace")
    assert await sifted(seen) == ALL_SHOWN
    await seen.store.writer.order(Quarantine(later, AGENT.tenant, BY))
    assert await sifted(seen) == LIE_HIDDEN


async def test_a_name_is_opened_by_any_memory_of_that_name(seen: Guarded) -> None:
    name = "Ada of Graz"
    pieces = (name, "person")
    arguments = '{"entities":[{"entityType":1,"name":0,"observations":[]}]}'
    first = await says(seen, "", name, pieces=pieces, arguments=arguments)
    await seen.store.writer.order(Quarantine(first, AGENT.tenant, BY))
    purge = Proposal(change=PURGE, memory_id=first)
    await seen.wired.writing.judge(OPERATOR, (purge,), "admin", TRACE)
    told = (name, "person", f"{name} is a person")
    assert await sifted(seen, *told) == (True, False, False)
    await says(seen, "", name, pieces=pieces, arguments=arguments)
    assert await sifted(seen, *told) == (False, False, False)


async def test_a_server_whose_answers_have_keys_needs_no_prints(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        guard = guard_of(seen.wired, seen.clock, dialect="mem0_server", target_prefix=HTTP)
        memory_id = await says(seen, LIE, "Ada", guard=guard)
        purge = Proposal(change=PURGE, memory_id=memory_id)
        await seen.wired.writing.judge(OPERATOR, (purge,), "admin", TRACE)
        with seen.store._engine.parts.store.reading() as view:
            assert view.count(FORGOTTEN) == 0


async def test_a_record_tells_nothing_without_the_stores_secret(tmp_path: Path) -> None:
    """A short text of few words is guessed by trying all; without the secret no guess is told."""
    short = "PIN 4711"
    sealed: list[bytes] = []
    with guarded(tmp_path) as seen:
        parts = seen.store._engine.parts
        for key in ("Ada", "Grace"):
            await ended(seen, await says(seen, short, key), hidden=False)
        with parts.store.reading() as view:
            sealed = [value for _, value in view.scan(FORGOTTEN)]
            found = list(forgotten_texts(view, parts.names))
            assert [len(one.pieces) for one in found] == [1, 1]
            assert found[0].pieces == found[1].pieces, "control: both are of one text"
            with pytest.raises(StoreCorrupt):
                list(forgotten_texts(view, KeyedNames(b"x" * 32)))
        assert await sifted(seen, short) == (True,)
    assert sealed[0] != sealed[1]
    record = bytes(*found[0].pieces)
    assert pieces_of((short,)) == {record}, "control: who has the secret can test a guess"
    for value in sealed:
        assert record not in value
        assert short.encode() not in value
        assert AGENT.tenant.encode() not in value
    raw = b"".join(one.read_bytes() for one in files_below(tmp_path))
    assert sealed[0] in raw, "control: the file was read"
    assert record not in raw


async def test_a_record_takes_no_more_than_its_purge_freed_and_its_tenant_pays(
    seen: Guarded,
) -> None:
    words = [f"w{number:05d}" for number in range(300)]
    many = tuple(f"{one} {two}" for one, two in zip(words, reversed(words), strict=True))
    arguments = f'{{"o":[{",".join(map(str, range(len(many))))}]}}'
    memory_id = await says(seen, "", "Ada", pieces=many, arguments=arguments)
    usage = seen.store._engine.parts
    used = seen.store.reader.status().bytes_used
    await ended(seen, memory_id, hidden=False)
    with usage.store.reading() as view:
        ((_, sealed),) = view.scan(FORGOTTEN)
    assert len(sealed) < sum(len(one) + len(", 12") for one in many) * 2
    assert seen.store.reader.status().bytes_used <= used + 64 * 1024
    assert await sifted(seen, *many[:3]) == (True, True, True)
