"""What contradicts an anchor is in no read; a wrong reply hides its memory and no other."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from policy.after.closure import CaseSignal, CaseStep
from policy.after.matchers import Matcher
from policy.model import Channel, MemoryId, Principal, PrincipalId, Scope, SourceKind, Tenant
from policy.query import EVERYTHING
from proxy.aftermath.blame_search import ON_CONVICTION, BlameSearch
from proxy.aftermath.reply_checks import REPLIES_OF_ONE_MAX, ReplyChecks
from proxy.aftermath.rule_signals import RULE_DAY_MAX, RuleSignals
from proxy.seams.cases import OnConviction, WrongReply
from proxy.seams.environment import Environment
from proxy.withhold.screens import KnownRules, Screen, ScreenMaker
from storage.embedded import EmbeddedStore
from storage.features.cases import Opening
from storage.features.cases.case_records import MoveCase, OpenCase
from storage.features.recalls import InContext, ReplyRecord
from storage.features.registered import PutAnchor
from storage.ground.errors import StoreUnavailable
from storage.values import Anchor
from tests.unit.proxy.aftermath.test_blaming import QUESTION, blaming, found, lie, truth
from tests.unit.storage.opening import BY, OPERATOR, TENANT, say

READER = Principal(principal_id=PrincipalId("reader"), tenant=TENANT)
LIE = "The office door code is 66."


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine a case may take longer than a request waits."""
    monkeypatch.setattr("proxy.aftermath.reply_checks.SETTLED_S", 600.0)


@asynccontextmanager
async def checking(
    store: EmbeddedStore, *, acts: OnConviction = ON_CONVICTION, ends: asyncio.Event | None = None
) -> AsyncGenerator[ReplyChecks]:
    """`ends`: until it is set, cases of the anchor `code` seem to go on."""
    numbers = iter(range(1, 1_000))
    out = Environment(
        clock_ns=lambda: 1_750_000_000_000_000_000,
        random_hex=lambda n: f"{next(numbers):0{2 * n}x}",
        record=lambda _event: None,
    )
    async with blaming(store, acts=acts) as cases:
        checks = ReplyChecks(
            reader=store.reader,
            rules=KnownRules(store.reader.anchors),
            signals=RuleSignals(
                failures=store.failures, open_case=cases.open_case, surroundings=out
            ),
            cases=cases if ends is None else _Slow(store, cases, ends),
        )
        async with checks.checking():
            yield checks


def day_of_reads(checks: ReplyChecks) -> int:
    """How many cases about memories of two keys reads may open for the anchor `code` today."""
    signals = checks._signals
    rooms = (signals.may_open(TENANT, "code", f"key {number % 2}") for number in range(100))
    return sum(rooms)


class _Slow(BlameSearch):
    """Cases of which some seem to take long."""

    def __init__(self, store: EmbeddedStore, cases: BlameSearch, ends: asyncio.Event) -> None:
        self._store = store
        self._real = cases
        self._ends = ends

    async def over(self, case_id: str) -> None:
        await self._real.over(case_id)
        if self._store.cases.get(case_id).anchor_id == "code":
            await self._ends.wait()

    async def still_wrong(self, case_id: str) -> None:
        await self._real.still_wrong(case_id)

    async def unfinished(self, case_id: str) -> bool:
        return await self._real.unfinished(case_id)


def noted(store: EmbeddedStore, reply_id: str, memory_id: MemoryId) -> None:
    """A reply in the ledger whose request had one memory."""
    memory = store.reader.get(TENANT, memory_id)
    assert memory is not None
    stands = InContext(ordinal=memory.ordinal, memory_id=memory_id, recall_id="", spans=())
    store.recalls.note(
        ReplyRecord(
            reply_id=reply_id,
            at_ms=store.time_ms,
            tenant=TENANT,
            principal_id=READER.principal_id,
            model="model",
            session="",
            turn=1,
            memories=(stands,),
            calls=(),
            incomplete=False,
        )
    )


async def test_a_wrong_reply_hides_the_memory_that_says_so(store: EmbeddedStore) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    true = await asyncio.to_thread(truth, store, "The kitchen opens at nine.")
    async with checking(store) as checks:
        noted(store, "r1", false)
        checks.replied(READER, "r1", (LIE,), (false,))
        await checks.settled(READER)
        assert store.cases.all() == (), "control: there is no anchor yet"
        await store.writer.order(PutAnchor(anchor(), BY))
        noted(store, "r2", true)
        checks.replied(READER, "r2", (LIE,), (true,))
        noted(store, "r3", false)
        checks.replied(READER, "r3", ("The kitchen opens at nine.",), (false,))
        await checks.settled(READER)
        assert store.cases.all() == (), "no memory of a wrong reply, and no wrong reply"
        noted(store, "r4", false)
        checks.replied(READER, "r4", (LIE,), (false, true))
        # The case has ended when the next request may go on.
        await checks.settled(READER)
        (case,) = store.cases.all()
    assert (case.step, case.anchor_id) == (CaseStep.HEALED, "code")
    assert found(store) == {"The kitchen opens at nine."}


async def wrong(
    checks: ReplyChecks, store: EmbeddedStore, memory_id: MemoryId, said: str = LIE
) -> WrongReply | None:
    """A reply that is looked at before it is shown."""
    return await checks.wrong(
        READER, "r1", (said,), (memory_id,), lambda: noted(store, "r1", memory_id)
    )


async def test_what_made_a_reply_wrong_is_hidden_before_it_is_shown(store: EmbeddedStore) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    true = await asyncio.to_thread(truth, store, "The kitchen opens at nine.")
    async with checking(store) as checks:
        assert await wrong(checks, store, false) is None, "control: there is no anchor yet"
        assert not await checks.has_suspects(READER, (false, true))
        await store.writer.order(PutAnchor(anchor(), BY))
        assert await checks.has_suspects(READER, (true, false))
        assert not await checks.has_suspects(READER, (true,))
        assert await wrong(checks, store, false, "The kitchen opens at nine.") is None
        assert await wrong(checks, store, true) == WrongReply(why="no_memory")
        told = await wrong(checks, store, false)
        (case,) = store.cases.all()
        assert told == WrongReply(case_id=case.case_id, mended=True)
        assert found(store) == {"The kitchen opens at nine."}
        # The same reply, told of at its end, is not looked at again.
        checks.replied(READER, "r1", (LIE,), (false,))
        await checks.settled(READER)
    assert len(store.cases.all()) == 1


async def test_a_repeated_request_uses_up_no_more_of_an_anchors_day(store: EmbeddedStore) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    await store.writer.order(PutAnchor(anchor(), BY))
    async with checking(store, acts=OnConviction(rules_propose=True)) as checks:

        async def asked(reply_id: str) -> WrongReply | None:
            noted(store, reply_id, false)
            return await checks.wrong(READER, reply_id, (LIE,), (false,), lambda: None)

        told = [await asked(f"r{number}") for number in range(12)]
        (case,) = store.cases.all()
        assert told == [WrongReply(case_id=case.case_id, why="needs_person")] * 12
        await store.cases.order(MoveCase(case.case_id, CaseStep.CLOSED, BY))
        await asked("later")
    assert len(store.cases.all()) == 2, "control: an ended case stops no other"


async def test_lies_that_are_read_use_up_no_day_of_the_replies(store: EmbeddedStore) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    await store.writer.order(PutAnchor(anchor(), BY))
    async with checking(store) as checks:
        assert day_of_reads(checks) == RULE_DAY_MAX, "control: both keys' lies use up that day"
        told = await wrong(checks, store, false)
        (case,) = store.cases.all()
        assert told == WrongReply(case_id=case.case_id, mended=True)


async def test_a_reply_whose_check_failed_is_looked_at_when_it_was_shown(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> None:
        raise StoreUnavailable("closed")

    false = await asyncio.to_thread(lie, store, LIE)
    await store.writer.order(PutAnchor(anchor(), BY))
    async with checking(store) as checks:
        noted(store, "r1", false)
        with monkeypatch.context() as away:
            away.setattr(checks, "_failing", closed)
            with pytest.raises(StoreUnavailable):
                await wrong(checks, store, false)
        assert store.cases.all() == (), "control: nothing was found"
        checks.replied(READER, "r1", (LIE,), (false,))
        await checks.settled(READER)
    assert len(store.cases.all()) == 1


async def test_an_id_that_is_given_twice_covers_no_second_reply(store: EmbeddedStore) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    await store.writer.order(PutAnchor(anchor(), BY))
    async with checking(store) as checks:
        assert await wrong(checks, store, false, "The kitchen opens at nine.") is None
        checks.replied(READER, "r1", ("The kitchen opens at nine.",), (false,))
        await checks.settled(READER)
        assert store.cases.all() == (), "control: the first reply is right"
        noted(store, "r1", false)
        checks.replied(READER, "r1", (LIE,), (false,))
        await checks.settled(READER)
    (case,) = store.cases.all()
    assert (case.step, case.anchor_id) == (CaseStep.HEALED, "code")


async def test_a_search_that_goes_on_is_not_left_to_a_person(store: EmbeddedStore) -> None:
    async with checking(store) as checks:
        opening = Opening(tenant=TENANT, signal=CaseSignal.ANCHOR, by=BY, anchor_id="code")
        case = await store.cases.order(OpenCase(opening))
        await checks.still_wrong(case.case_id)
        assert store.cases.get(case.case_id).step is CaseStep.OPENED
        for step in (CaseStep.REPRODUCED, CaseStep.CONVICTED, CaseStep.HEALED):
            await store.cases.order(MoveCase(case.case_id, step, BY))
        await checks.still_wrong(case.case_id)
        assert store.cases.get(case.case_id).step is CaseStep.NEEDS_PERSON, "control"


async def test_a_reply_waits_for_its_cases_for_a_bounded_time(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.aftermath.reply_checks.HEALED_S", 0.01)
    false = await asyncio.to_thread(lie, store, LIE)
    await store.writer.order(PutAnchor(anchor(), BY))
    async with checking(store, ends=asyncio.Event()) as checks:
        told = await wrong(checks, store, false)
    (case,) = store.cases.all()
    assert told == WrongReply(case_id=case.case_id, why="too_late")


async def test_a_slow_search_holds_up_one_request_and_no_other_principal(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = await asyncio.to_thread(lie, store, LIE)
    other = await asyncio.to_thread(lie, store, "The kitchen of the office opens at 10.")
    await store.writer.order(PutAnchor(anchor(), BY))
    kitchen = anchor("kitchen", "The kitchen of the office opens at 9.")
    await store.writer.order(PutAnchor(kitchen, BY))
    beside = Principal(principal_id=PrincipalId("beside"), tenant=TENANT)
    ends = asyncio.Event()
    async with checking(store, ends=ends) as checks:
        noted(store, "r1", false)
        checks.replied(READER, "r1", (LIE,), (false,))
        noted(store, "r2", other)
        checks.replied(beside, "r2", ("The kitchen of the office opens at 10.",), (other,))
        # Without a bound of its own, this would wait until the first case ends.
        await checks.settled(beside)
        assert found(store) == set()
        monkeypatch.setattr("proxy.aftermath.reply_checks.SETTLED_S", 0.01)
        await checks.settled(READER)
        monkeypatch.setattr("proxy.aftermath.reply_checks.SETTLED_S", 600.0)
        async with asyncio.timeout(60.0):
            await checks.settled(READER)


async def test_one_principal_has_a_share_of_the_queue_and_drops_are_counted(
    store: EmbeddedStore,
) -> None:
    true = await asyncio.to_thread(truth, store, "The kitchen opens at nine.")
    await store.writer.order(PutAnchor(anchor(), BY))
    async with checking(store) as checks:
        for number in range(REPLIES_OF_ONE_MAX):
            checks.replied(READER, f"r{number}", ("Nine.",), (true,))
        assert checks.dropped_count == 0, "control"
        checks.replied(READER, "more", ("Nine.",), (true,))
        assert checks.dropped_count == 1
        checks.replied(Principal(principal_id=BY, tenant=TENANT), "r", ("Nine.",), (true,))
        assert checks.dropped_count == 1, "others have room"
        await checks.settled(READER)
        checks.replied(READER, "later", ("Nine.",), (true,))
        assert checks.dropped_count == 1


STATEMENT = "The office door code is 11."


def anchor(anchor_id: str = "code", statement: str = STATEMENT, *must_not: str) -> Anchor:
    return Anchor(
        anchor_id=anchor_id,
        tenant=TENANT,
        statement=statement,
        questions=("Which code?",),
        created_at_ms=1,
        matcher=Matcher(must_not=must_not) if must_not else None,
    )


def put(store: EmbeddedStore, one: Anchor) -> None:
    asyncio.run(store.writer.order(PutAnchor(one, BY)))


def screen_of(store: EmbeddedStore, reader: Principal = READER) -> Screen | None:
    return ScreenMaker(KnownRules(store.reader.anchors)).screen(reader)


def searched(store: EmbeddedStore, screen: Screen | None, limit: int) -> list[str]:
    shows = None if screen is None else screen.shows
    found = store.reader.searched(TENANT, QUESTION, EVERYTHING, limit, -1.0, shows=shows)
    return [hit.memory.text for hit in found.hits]


def test_the_places_of_what_is_left_out_are_filled_by_the_next_ones(store: EmbeddedStore) -> None:
    truths = [f"The kitchen opens at {number + 1}." for number in range(3)]
    lies = [f"Note {number}: the office door code is 66." for number in range(6)]
    for text in lies:
        lie(store, text)
    for text in truths:
        truth(store, text)
    assert screen_of(store) is None, "without an anchor nothing is compared"
    assert set(searched(store, None, 3)) <= set(lies), "control: the lies are nearer"
    put(store, anchor())
    screen = screen_of(store)
    assert screen is not None
    assert set(searched(store, screen, 3)) == set(truths)
    assert {one.text for one in screen.left_out} == set(lies)


def test_what_is_as_trusted_as_the_anchor_is_shown(store: EmbeddedStore) -> None:
    said = say(store, "The office door code is 66.", OPERATOR)
    lie(store, "The office door code is 99.")
    put(store, anchor())
    assert said.memory is not None
    assert said.memory.source is SourceKind.OPERATOR
    assert searched(store, screen_of(store), 5) == ["The office door code is 66."]
    operator = Principal(principal_id=PrincipalId("ops"), tenant=TENANT, channel=Channel.OPERATOR)
    assert screen_of(store, operator) is None


def test_a_raised_label_and_another_anchor_are_seen_at_once(store: EmbeddedStore) -> None:
    memory_id = lie(store, "The office door code is 66.")
    known = ScreenMaker(KnownRules(store.reader.anchors))

    def shown() -> bool:
        screen = known.screen(READER)
        memory = store.reader.get(TENANT, memory_id)
        assert memory is not None
        return screen is None or screen.shows(memory)

    assert shown()
    put(store, anchor())
    assert not shown()
    assert not shown(), "the verdict that is kept is the same one"
    screen = known.screen(READER)
    memory = store.reader.get(TENANT, memory_id)
    assert screen is not None
    assert memory is not None
    by_operator = replace(memory, source=SourceKind.OPERATOR)
    assert screen.shows(by_operator)
    put(store, anchor("code", "The office door code is 66."))
    assert shown()


def test_a_history_does_not_tell_a_step_that_a_read_may_not_show(store: EmbeddedStore) -> None:
    memory_id = lie(store, "The office door code is 66.")
    put(store, anchor())
    screen = screen_of(store)
    assert screen is not None
    entries = store.reader.history(TENANT, MemoryId(memory_id))
    assert len(entries) == 1
    assert screen.history(entries) == ()
    other = truth(store, "The kitchen opens at nine.")
    entries = store.reader.history(TENANT, other)
    assert screen.history(entries) == entries, "control"


def test_words_that_no_memory_may_say_are_left_out_as_well(store: EmbeddedStore) -> None:
    lie(store, "Bread comes from Marlow.")
    truth(store, "Bread comes on Mondays.")
    put(store, anchor("bread", "Bread comes from the bakery Hill.", "Marlow"))
    assert searched(store, screen_of(store), 5) == ["Bread comes on Mondays."]


@pytest.mark.parametrize("place", ["role", "actor", "scope"])
def test_a_lie_beside_the_text_is_left_out_as_well(store: EmbeddedStore, place: str) -> None:
    said = "the-office-door-code-is-66"
    given: dict[str, object] = {place: Scope(app_id=said) if place == "scope" else said}
    false = lie(store, "See my name.", **given)
    true = lie(store, "The kitchen opens at nine.", actor="ada", scope=Scope(user_id="ada"))
    put(store, anchor())
    screen = screen_of(store)
    assert screen is not None
    assert searched(store, screen, 5) == ["The kitchen opens at nine."]
    if place != "scope":
        assert screen.history(store.reader.history(TENANT, false)) == ()
    assert len(screen.history(store.reader.history(TENANT, true))) == 1, "control"
    assert not screen.shows_name(said)
    assert screen.shows_name("ada"), "control"


def test_a_deleted_step_does_not_tell_a_lie_in_its_names(store: EmbeddedStore) -> None:
    false = lie(store, "See my name.", actor="the office door code is 66")
    put(store, anchor())
    screen = screen_of(store)
    assert screen is not None
    [step] = store.reader.history(TENANT, false)
    gone = replace(step, new_text=None, old_text=None, version=9)
    assert screen.history((gone,)) == ()
    assert screen.history((replace(gone, actor="ada"),)) != (), "control"


def test_the_rules_of_many_tenants_stay_until_their_own_anchors_change() -> None:
    tenants = [Tenant(f"t{number}") for number in range(100)]
    statement = dict.fromkeys(tenants, STATEMENT)

    def anchors(tenant: Tenant) -> tuple[Anchor, ...]:
        # The store reads the anchors of all tenants again after each change of one.
        return (replace(anchor(statement=statement[tenant]), tenant=tenant),)

    known = KnownRules(anchors)
    first = {one: known.of(one) for one in tenants}
    assert all(known.of(one) is first[one] for one in tenants)
    statement[tenants[7]] = "The office door code is 66."
    assert [one for one in tenants if known.of(one) is not first[one]] == [tenants[7]]


def test_two_tenants_share_no_verdict(store: EmbeddedStore) -> None:
    memory_id = lie(store, "The office door code is 66.")
    memory = store.reader.get(TENANT, memory_id)
    assert memory is not None
    statement = {Tenant("a"): STATEMENT, Tenant("b"): "The office door code is 66."}
    known = KnownRules(lambda tenant: (anchor(statement=statement[tenant]),))
    denied, allowed = (known.of(one) for one in statement)
    assert denied is not None
    assert allowed is not None
    assert denied.failed_by(memory) == ("code",)
    assert allowed.failed_by(memory) == ()
