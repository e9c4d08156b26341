"""What an MCP server has of a memory that was purged here: no answer shows it again."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.labels.forwarded_call import HTTP
from policy.model import ChangeKind, Memory, MemoryId, Principal
from policy.query import EVERYTHING
from policy.verdict import Reason
from policy.withheld.pieces import pieces_of
from proxy.guard.local_guard import LocalGuard
from proxy.seams.guard import Forwarded
from proxy.seams.operation import Proposal
from storage.features.quarantine.hiding import Quarantine
from storage.features.upstream.forgotten_texts import FORGOTTEN, forgotten_texts
from storage.ground.errors import StoreCorrupt
from storage.tables.change import Change
from storage.tables.keys import KeyedNames
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
    await by.settle(principal, SERVER, ((judged.candidate_id, Forwarded.DONE),))
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
