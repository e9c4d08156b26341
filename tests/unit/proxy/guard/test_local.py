"""The guard: intents, results, and what no one may see, over a real store; other protocols too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy.labels import forwarded_call
from policy.labels.effect import Effect, EffectKind
from policy.labels.forwarded_call import MCP, PREFIXES
from policy.model import Basis, CandidateId, ChangeKind, MemoryClass, Principal, SourceKind
from policy.query import EVERYTHING
from policy.verdict import InvariantBroken, Reason
from proxy.guard import local_guard
from proxy.guard.local_guard import GONE_S, IN_FLIGHT_S
from proxy.guard.sieve import Sieve
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import (
    ForwardStatus,
    Item,
    ItemVerdict,
    PinnedTool,
    RelayedText,
    UnsettledItem,
)
from proxy.seams.operation import Proposal
from storage.audit import Culprit, VerdictLeaf, decode_leaf
from storage.features.pinned_tools import ApproveTools
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.ground.errors import UnknownCandidate, UnknownPins
from telemetry.events import VerdictRecorded
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
    deletion,
    guard_of,
    guarded,
    item,
)
from tests.unit.proxy.wired import TRACE
from tests.unit.storage.opening import OPERATOR


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path) as parts:
        yield parts
        assert parts.store.reader.check().problems == ()


def _shown(seen: Guarded) -> list[str]:
    page = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 100)
    return [memory.text.rsplit("\n", 1)[-1] for memory in page.memories]


async def _judge(seen: Guarded, one: Item, principal: Principal = AGENT) -> ItemVerdict:
    (judged,) = await seen.guard.judge(principal, call(one))
    return judged


async def _lands(seen: Guarded, one: Item, principal: Principal = AGENT) -> CandidateId:
    judged = await _judge(seen, one, principal)
    assert judged.candidate_id is not None, judged
    await seen.guard.settle(principal, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    return judged.candidate_id


async def _refused(seen: Guarded, strings: tuple[str, ...]) -> tuple[bool, ...]:
    return await seen.guard.sift(AGENT, SERVER, strings)


async def test_an_admitted_item_is_an_intent_that_no_read_shows(seen: Guarded) -> None:
    before = seen.store.reader.status()
    judged = await _judge(seen, item(GOOD))
    assert (judged.decision, judged.memory_class) == ("admit", MemoryClass.L3)
    status = seen.store.reader.status()
    assert (status.version - before.version, status.live_count) == (1, 0)
    assert seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 9).total == 0
    assert _shown(seen) == []
    (pending,) = seen.store.forwards.pending()
    assert (pending.candidate_id, pending.sent) == (judged.candidate_id, True)
    assert await _refused(seen, (GOOD, "something else")) == (True, False)


@pytest.mark.parametrize(
    ("result", "shown", "left"),
    [(ForwardStatus.DONE, 1, 0), (ForwardStatus.FAILED, 0, 0), (ForwardStatus.UNKNOWN, 0, 1)],
)
async def test_what_the_server_said_decides_whether_a_memory_is_shown(
    seen: Guarded, result: ForwardStatus, shown: int, left: int
) -> None:
    judged = await _judge(seen, item(GOOD))
    assert judged.candidate_id is not None
    leaves = seen.store.reader.status().leaf_count
    for _ in range(3):
        await seen.guard.settle(AGENT, SERVER, ((judged.candidate_id, result),))
    status = seen.store.reader.status()
    assert status.leaf_count == leaves + 1, "the same answer is one leaf, however often it comes"
    assert (status.live_count, len(_shown(seen))) == (shown, shown)
    assert len(seen.store.forwards.pending()) == left
    assert await _refused(seen, (GOOD,)) == (result is ForwardStatus.UNKNOWN,)


async def test_a_lost_answer_is_listed_and_then_known(seen: Guarded) -> None:
    judged = await _judge(seen, item(GOOD))
    assert judged.candidate_id is not None
    assert await seen.guard.unsettled(AGENT, SERVER) == (), "its relay is still sending it"
    await seen.guard.settle(AGENT, SERVER, ((judged.candidate_id, ForwardStatus.UNKNOWN),))
    (lost,) = await seen.guard.unsettled(AGENT, SERVER)
    assert (lost.sent, lost.key, lost.pieces) == (True, "Ada", ("Ada", "person", GOOD))
    assert lost.arguments == item(GOOD).arguments
    await seen.guard.settle(AGENT, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    assert await seen.guard.unsettled(AGENT, SERVER) == ()
    assert _shown(seen) == [GOOD]


async def test_a_relay_that_is_gone_leaves_its_items_to_be_looked_up(seen: Guarded) -> None:
    judged = await _judge(seen, item(GOOD))
    assert judged.candidate_id is not None
    seen.clock.now_s += IN_FLIGHT_S
    (overdue,) = await seen.guard.unsettled(AGENT, SERVER)
    assert overdue.sent
    again = guard_of(seen.wired, seen.clock)
    (after_a_restart,) = await again.unsettled(AGENT, SERVER)
    assert after_a_restart == overdue


async def test_a_released_item_is_given_to_one_relay_once(seen: Guarded) -> None:
    judged = await _judge(seen, item(STEERING))
    assert (judged.decision, judged.reason) == ("hold", Reason.CLASS_FLOOR)
    assert judged.candidate_id is not None
    assert (await seen.guard.decided(AGENT, judged.candidate_id)).decision == "hold"
    await seen.store.writer.release(judged.candidate_id, BY)
    assert (await seen.guard.decided(AGENT, judged.candidate_id)).decision == "admit"
    assert _shown(seen) == []
    (first,) = await seen.guard.unsettled(AGENT, SERVER)
    assert (first.sent, first.pieces[-1]) == (False, STEERING)
    assert await seen.guard.unsettled(AGENT, SERVER) == ()
    (after_a_crash,) = await guard_of(seen.wired, seen.clock).unsettled(AGENT, SERVER)
    assert after_a_crash.sent, "nobody knows whether it was sent, so nobody sends it again"
    await seen.guard.settle(AGENT, SERVER, ((first.candidate_id, ForwardStatus.DONE),))
    assert _shown(seen) == [STEERING]


async def test_what_is_held_or_denied_hides_nothing(seen: Guarded) -> None:
    judged = await _judge(seen, item(STEERING))
    assert (judged.decision, judged.candidate_id is None) == ("hold", False)
    assert judged.candidate_id is not None
    assert await _refused(seen, (STEERING, "Ada", "person")) == (False, False, False)
    await seen.store.writer.deny(judged.candidate_id, BY)
    assert (await seen.guard.decided(AGENT, judged.candidate_id)).decision == "reject"
    assert await _refused(seen, (STEERING, "Ada", "person")) == (False, False, False)


async def test_another_guard_of_the_store_learns_from_the_log(seen: Guarded) -> None:
    other = guard_of(seen.wired, seen.clock)
    assert await other.sift(AGENT, SERVER, (GOOD,)) == (False,)
    judged = await _judge(seen, item(GOOD))
    assert await other.sift(AGENT, SERVER, (GOOD,)) == (True,), "it is not settled"
    assert judged.candidate_id is not None
    await seen.guard.settle(AGENT, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    assert await other.sift(AGENT, SERVER, (GOOD,)) == (False,)


async def test_quarantine_hides_what_the_server_has_and_parole_shows_it(seen: Guarded) -> None:
    await _lands(seen, item(GOOD))
    (memory,) = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 9).memories
    assert await _refused(seen, (GOOD,)) == (False,)
    await seen.store.writer.order(Quarantine(memory.memory_id, AGENT.tenant, BY))
    assert await _refused(seen, (GOOD, f"- {GOOD}.")) == (True, True)
    await seen.store.writer.order(EndQuarantine(memory.memory_id, AGENT.tenant, BY))
    assert await _refused(seen, (GOOD,)) == (False,)


async def test_what_an_answer_shows_of_live_memories_is_in_the_recall_ledger(seen: Guarded) -> None:
    told = f"Notes of the week: {GOOD.upper()}!"
    recalls = seen.store.recalls
    assert await _refused(seen, (told,)) == (False,)
    await _lands(seen, item(GOOD))
    await _judge(seen, item(STEERING))
    assert await seen.guard.sift(OTHER, SERVER, (told,)) == (False,)
    assert await seen.guard.sift(AGENT, "another", (told,)) == (False,)
    assert await _refused(seen, ("The kitchen is closed.",)) == (False,)
    assert recalls.recalls(AGENT.tenant) == (), "controls: none of these showed a live memory"
    assert recalls.recalls(OTHER.tenant) == ()
    assert await _refused(seen, (told, STEERING)) == (False, False)
    (recall,) = recalls.recalls(AGENT.tenant)
    (hit,) = recall.hits
    assert (recall.front, recall.principal_id) == ("mcp/memory", AGENT.principal_id)
    (memory,) = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 9).memories
    assert (hit.memory_id, hit.ordinal) == (memory.memory_id, memory.ordinal)


async def test_proposing_a_shown_memory_again_does_not_hide_it(seen: Guarded) -> None:
    await _lands(seen, item(GOOD))
    arguments = '{"entities":[{"entityType":1,"name":0,"observations":[2,3]}]}'
    held = item("", pieces=("Ada", "person", GOOD, STEERING), arguments=arguments)
    assert (await _judge(seen, held)).decision == "hold"
    assert await _refused(seen, (GOOD,)) == (False,)


async def test_what_nobody_saw_being_written_is_changed_by_a_person_only(seen: Guarded) -> None:
    judged = await _judge(seen, deletion("Grace"))
    assert (judged.decision, judged.reason, judged.step) == ("hold", Reason.PERSON_REQUIRED, 1)
    assert (await _judge(seen, deletion("Grace"), PERSON)).decision == "admit"
    changed = item(GOOD, key="Grace", change=ChangeKind.UPDATE)
    assert (await _judge(seen, changed)).reason is Reason.PERSON_REQUIRED
    await _lands(seen, item(GOOD, key="Grace"))
    assert (await _judge(seen, changed)).decision == "admit"
    assert (await _judge(seen, deletion("Grace"))).decision == "admit"


@pytest.mark.parametrize(
    ("change", "effect", "label"),
    [
        (ChangeKind.UPDATE, None, SourceKind.UNKNOWN),
        (ChangeKind.UPDATE, Effect(EffectKind.APPEND, 2), SourceKind.UNKNOWN),
        # Controls: nothing is left of what stood there, or nothing stood there.
        (ChangeKind.UPDATE, Effect(EffectKind.SET, 2), SourceKind.USER_INPUT),
        (ChangeKind.CREATE, None, SourceKind.USER_INPUT),
    ],
)
async def test_a_persons_words_beside_words_that_nobody_judged_have_the_lowest_label(
    seen: Guarded, change: ChangeKind, effect: Effect | None, label: SourceKind
) -> None:
    await _lands(seen, item(GOOD, change=change, effect=effect), PERSON)
    (kept,) = seen.store.reader.page(PERSON.tenant, EVERYTHING, 0, 9).memories
    assert kept.source is label


async def test_a_deletion_ends_what_it_takes_away(seen: Guarded) -> None:
    await _lands(seen, item(GOOD))
    await _lands(seen, item("Ada plays the cello", pieces=("Ada", "Ada plays the cello")))
    await _lands(seen, deletion("Ada", "Ada plays the cello"))
    assert _shown(seen) == [GOOD]
    failed = await _judge(seen, deletion("Ada"))
    assert failed.candidate_id is not None
    await seen.guard.settle(AGENT, SERVER, ((failed.candidate_id, ForwardStatus.FAILED),))
    assert _shown(seen) == [GOOD]
    await _lands(seen, deletion("Ada"))
    assert _shown(seen) == []


async def test_a_bad_item_stops_no_other(seen: Guarded) -> None:
    long = item("x" * 65_530, key="Grace")
    first, second, third = await seen.guard.judge(
        AGENT, call(item(GOOD), long, item(STEERING, memory_class=MemoryClass.L1, class_named=True))
    )
    assert (first.decision, second.reason, third.decision) == ("admit", Reason.OVERSIZE, "reject")
    assert second.candidate_id is None
    assert STEERING not in third.observation


async def test_a_character_that_may_not_be_stored_refuses_its_item_alone(seen: Guarded) -> None:
    odd = f"{GOOD}\x1b[0m"
    first, second, third = await seen.guard.judge(
        AGENT, call(item(GOOD), item(odd, key="Grace"), item(f"\u2068{GOOD}\u2069", key="Bob"))
    )
    assert [one.decision for one in (first, second, third)] == ["admit", "reject", "admit"]
    assert (second.reason, second.candidate_id) == (Reason.CHARACTER_REFUSED, None)
    assert f"U+001B (a control character) at offset {len(GOOD)}." in second.observation
    assert GOOD not in second.observation
    # A deletion adds nothing, and an edit nothing of what it takes away.
    mended = item(GOOD, change=ChangeKind.UPDATE, pieces=("Ada", odd, GOOD))
    for one in (
        deletion("\x1b", odd),
        msgspec.structs.replace(mended, effect=Effect(EffectKind.REPLACE, 2, old=1)),
        msgspec.structs.replace(item(GOOD, pieces=(GOOD, odd)), place="/n.md", came=1),
    ):
        assert (await _judge(seen, one)).candidate_id is not None
    # Control: where nothing says that the text goes, it comes.
    for one in (mended, item(GOOD, pieces=(GOOD, odd)), item(GOOD, key="\x1b")):
        assert (await _judge(seen, one)).reason is Reason.CHARACTER_REFUSED


@pytest.mark.parametrize(
    "bad",
    [
        item(GOOD, arguments='{"b": 1}'),
        item(GOOD, arguments="{"),
        item(GOOD, change=ChangeKind.PURGE),
    ],
)
async def test_a_call_that_cannot_be_kept_is_refused_whole(seen: Guarded, bad: Item) -> None:
    before = seen.store.reader.status()
    with pytest.raises(MalformedRequest):
        await seen.guard.judge(AGENT, call(item(GOOD), bad))
    assert seen.store.reader.status() == before


async def test_another_tenant_neither_settles_nor_learns(seen: Guarded) -> None:
    judged = await _judge(seen, item(GOOD))
    assert judged.candidate_id is not None
    await seen.guard.settle(OTHER, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    await seen.guard.settle(AGENT, "another", ((judged.candidate_id, ForwardStatus.DONE),))
    assert _shown(seen) == []
    with pytest.raises(UnknownCandidate):
        await seen.guard.decided(OTHER, judged.candidate_id)
    seen.guard.abandon((judged.candidate_id,))
    assert await seen.guard.unsettled(AGENT, SERVER) == (), "its relay may come back"
    seen.clock.now_s += GONE_S
    assert await seen.guard.unsettled(OTHER, SERVER) == ()
    assert len(await seen.guard.unsettled(AGENT, SERVER)) == 1


async def test_a_purge_ends_an_intent_and_leaves_nothing_to_send(seen: Guarded) -> None:
    await _judge(seen, item(GOOD))
    # Its id was told to nobody; an operator reads it in the log.
    verdict = [decode_leaf(data) for data in seen.store.audit.leaves(0, 10_000)][-1]
    assert isinstance(verdict, VerdictLeaf)
    purge = Proposal(change=ChangeKind.PURGE, memory_id=verdict.memory_id)
    (purged,) = await seen.wired.writing.judge(OPERATOR, (purge,), "admin", TRACE)
    assert purged.decision == "admit"
    assert seen.store.forwards.pending() == ()
    # Its server may have it all the same.
    assert await _refused(seen, (GOOD,)) == (True,)


def _tools(**digests: str) -> tuple[PinnedTool, ...]:
    return tuple(PinnedTool(name=name, digest=digest * 64) for name, digest in digests.items())


async def test_the_first_tools_are_approved_and_others_wait(seen: Guarded) -> None:
    first = _tools(read="0", write="1")
    assert (await seen.guard.pin(AGENT, SERVER, first)).approved
    leaves = seen.store.reader.status().leaf_count
    assert (await seen.guard.pin(AGENT, SERVER, first[::-1])).approved
    assert seen.store.reader.status().leaf_count == leaves, "what is known is not written again"
    changed = await seen.guard.pin(AGENT, SERVER, _tools(read="0", write="2", drop="3"))
    assert (changed.approved, changed.changed) == (False, ("drop", "write"))
    assert (await seen.guard.pin(OTHER, SERVER, _tools(write="2"))).approved
    with pytest.raises(UnknownPins):
        await seen.store.pins.order(ApproveTools(AGENT.tenant, SERVER, BY, "0" * 16))
    await seen.store.pins.order(ApproveTools(AGENT.tenant, SERVER, BY))
    assert (await seen.guard.pin(AGENT, SERVER, _tools(drop="3", read="0", write="2"))).approved
    assert not (await seen.guard.pin(AGENT, SERVER, first)).approved
    assert (await seen.guard.pin(AGENT, SERVER, _tools(drop="3", read="0", write="2"))).approved
    with pytest.raises(MalformedRequest):
        await seen.guard.pin(AGENT, SERVER, first + first)


async def test_a_candidate_found_in_a_result_names_it_in_leaf_and_trace(seen: Guarded) -> None:
    segment = RelayedText(
        server="web", tool="search", call_id="toolu_01", texts=(f"News: {GOOD}.",)
    )
    await seen.guard.saw(AGENT, segment)
    await _lands(seen, item(GOOD))
    leaves = [decode_leaf(data) for data in seen.store.audit.leaves(0, 10_000)]
    (leaf,) = [one for one in leaves if isinstance(one, VerdictLeaf)]
    assert leaf.culprit == Culprit(SourceKind.TOOL_RESULT, "web", "search", "toolu_01")
    assert (leaf.source, leaf.basis) == (SourceKind.UNKNOWN, Basis.UNPROVEN), "the label stays low"
    (event,) = [one for one in seen.wired.events if isinstance(one, VerdictRecorded)]
    assert (event.culprit_server, event.culprit_call_id) == ("web", "toolu_01")


@pytest.mark.parametrize("withheld", [False, True], ids=["shown", "withheld"])
async def test_an_answer_is_noted_where_it_is_sifted_unless_something_is_withheld(
    seen: Guarded, *, withheld: bool
) -> None:
    segment = RelayedText(server="web", tool="search", call_id="1", texts=(f"News: {GOOD}.",))
    strings: tuple[str, ...] = segment.texts
    if withheld:
        (intent,) = await seen.guard.judge(AGENT, call(item("Ben sails on Mondays", "Ben")))
        assert intent.decision == "admit"
        strings += ("Ben sails on Mondays",)
    flags = await seen.guard.sift(AGENT, SERVER, strings, segment)
    assert flags == ((False, True) if withheld else (False,))
    await _lands(seen, item(GOOD))
    leaves = [decode_leaf(data) for data in seen.store.audit.leaves(0, 10_000)]
    *_, leaf = [one for one in leaves if isinstance(one, VerdictLeaf)]
    assert (leaf.culprit == Culprit(SourceKind.TOOL_RESULT, "web", "search", "1")) is not withheld


async def test_a_person_s_own_words_are_hers_wherever_else_they_were_found(seen: Guarded) -> None:
    segment = RelayedText(server="web", tool="search", call_id="1", texts=(GOOD,))
    await seen.guard.saw(PERSON, segment)
    await seen.guard.saw(AGENT, segment)
    await _judge(seen, item(GOOD), PERSON)
    await _judge(seen, item(GOOD, "Ben"))
    leaves = [decode_leaf(data) for data in seen.store.audit.leaves(0, 10_000)]
    hers, other = [one for one in leaves if isinstance(one, VerdictLeaf)]
    assert (hers.source, hers.basis) == (SourceKind.USER_INPUT, Basis.CHANNEL)
    assert (other.source, other.basis) == (SourceKind.UNKNOWN, Basis.UNPROVEN)


@pytest.mark.parametrize(
    ("names", "decision"),
    [
        (("Ada sails",), "admit"),
        ((GOOD,), "hold"),
        (("Ada sails", GOOD), "hold"),
        # Of an observation that no verdict let in, no one knows whose it is.
        (("Ada has a boat",), "hold"),
        ((), "hold"),
    ],
)
async def test_of_an_entity_with_observations_of_both_only_a_person_s_wait(
    seen: Guarded, names: tuple[str, ...], decision: str
) -> None:
    await _lands(seen, item(GOOD), PERSON)
    await _lands(seen, item("Ada sails"))
    assert (await _judge(seen, deletion("Ada", *names))).decision == decision
    # The control: she may remove all of it herself.
    assert (await _judge(seen, deletion("Ada"), PERSON)).decision == "admit"


async def test_what_names_a_document_names_the_whole_of_it(seen: Guarded) -> None:
    """A deletion by a name that is filed with others under one key."""
    hers = item(GOOD, "notes\n7")
    await _lands(seen, hers, PERSON)
    named = msgspec.structs.replace(deletion("notes\n7"), pieces=("7",))
    for one in (named, msgspec.structs.replace(named, labels=(0,))):
        assert (await _judge(seen, one)).decision == "hold"
    low = msgspec.structs.replace(named, key="notes\n8", pieces=("8",), labels=(0,))
    await _lands(seen, item(GOOD, "notes\n8"))
    assert (await _judge(seen, low)).decision == "admit"


RACK = "rack/"


@pytest.fixture
def rack_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy knows one protocol more."""
    for module in (forwarded_call, local_guard):
        monkeypatch.setattr(module, "PREFIXES", (*PREFIXES, RACK))


@pytest.mark.usefixtures("rack_is_known")
async def test_servers_of_one_name_and_two_protocols_are_two(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        sieve = Sieve(seen.store.followed.since)
        of_mcp = guard_of(seen.wired, seen.clock, sieve=sieve)
        of_rack = guard_of(seen.wired, seen.clock, dialect="rack", target_prefix=RACK, sieve=sieve)
        (mine,) = await of_rack.judge(AGENT, call(item(GOOD)))
        (theirs,) = await of_mcp.judge(AGENT, call(item(GOOD)))
        assert mine.candidate_id is not None
        assert theirs.candidate_id is not None
        assert {one.candidate.target for one in seen.store.forwards.pending()} == {
            "rack/memory",
            "mcp/memory",
        }
        told = {one.dialect for one in seen.wired.events if isinstance(one, VerdictRecorded)}
        assert told == {"rack", "mcp"}
        # A relay of one protocol cannot settle what a relay of another one sent.
        await of_mcp.settle(AGENT, SERVER, ((mine.candidate_id, ForwardStatus.DONE),))
        assert len(seen.store.forwards.pending()) == 2
        await of_rack.settle(AGENT, SERVER, ((mine.candidate_id, ForwardStatus.DONE),))
        (left,) = seen.store.forwards.pending()
        assert left.candidate_id == theirs.candidate_id
        # Not settled, so withheld; and behind its own server alone.
        assert await of_mcp.sift(AGENT, SERVER, (GOOD,)) == (True,)
        assert await of_rack.sift(AGENT, SERVER, (GOOD,)) == (False,)
        of_mcp.abandon((theirs.candidate_id,))
        seen.clock.now_s += local_guard.GONE_S + 1
        assert await of_rack.unsettled(AGENT, SERVER) == ()
        given: tuple[UnsettledItem, ...] = await of_mcp.unsettled(AGENT, SERVER)
        assert [one.candidate_id for one in given] == [theirs.candidate_id]
        assert seen.store.reader.check().problems == ()


@pytest.mark.usefixtures("rack_is_known")
@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (item(GOOD), None),
        (item(STEERING), Reason.CLASS_FLOOR),
        (
            item(STEERING, memory_class=MemoryClass.L1, class_named=True),
            Reason.SOURCE_CLASS_FORBIDDEN,
        ),
        # What it replaces may be the user's own.
        (item(GOOD, change=ChangeKind.UPDATE), Reason.PERSON_REQUIRED),
    ],
)
async def test_a_call_is_judged_alike_behind_either(
    tmp_path: Path, one: Item, reason: Reason | None
) -> None:
    judged: list[ItemVerdict] = []
    for dialect, prefix in (("mcp", MCP), ("rack", RACK)):
        with guarded(tmp_path / dialect) as seen:
            guard = guard_of(seen.wired, seen.clock, dialect=dialect, target_prefix=prefix)
            judged += await guard.judge(AGENT, call(one))
            assert await guard.sift(AGENT, SERVER, one.pieces[-1:]) == (reason is None,)
    assert judged[0] == judged[1]
    assert judged[0].reason == reason


def test_a_protocol_that_the_policy_does_not_know_gets_no_guard(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        with pytest.raises(InvariantBroken):
            guard_of(seen.wired, seen.clock, dialect="rack", target_prefix=RACK)
        guard_of(seen.wired, seen.clock, dialect="rack", target_prefix=MCP)  # control
