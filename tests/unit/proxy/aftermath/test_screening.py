"""What contradicts an anchor is in no read, and the next memory stands in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from policy.after.matchers import Matcher
from policy.model import Channel, MemoryId, Principal, PrincipalId, Scope, SourceKind, Tenant
from policy.query import EVERYTHING
from proxy.aftermath.screens import KnownRules, Screen, ScreenMaker
from storage.embedded import EmbeddedStore
from storage.features.registered import PutAnchor
from storage.values import Anchor
from tests.unit.proxy.aftermath.test_blaming import QUESTION, lie, truth
from tests.unit.storage.opening import BY, OPERATOR, TENANT, Bench, say

STATEMENT = "The office door code is 11."
READER = Principal(principal_id=PrincipalId("reader"), tenant=TENANT)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    bench = Bench(tmp_path)
    opened = bench.open()
    yield opened
    bench.close()


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


def test_the_places_of_what_is_left_out_are_filled_by_the_next_ones(
    store: EmbeddedStore,
) -> None:
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


def test_a_raised_label_and_another_anchor_are_seen_at_once(
    store: EmbeddedStore,
) -> None:
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


def test_a_history_does_not_tell_a_step_that_a_read_may_not_show(
    store: EmbeddedStore,
) -> None:
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
