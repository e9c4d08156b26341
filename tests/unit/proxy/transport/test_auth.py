"""Principals: by key, by uid, by certificate; nothing else counts."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from policy.model import Channel, PrincipalId
from proxy.seams.faults import NotOperator, Unauthenticated
from proxy.settings.binding import Binding
from proxy.settings.values import Secret
from proxy.transport.auth import (
    Authenticator,
    Peer,
    first_keys,
    hash_key,
    mint_key,
    operator_of,
)
from storage.ground.errors import StoreUnavailable
from storage.values import KeyRecord
from tests.bound import bound
from tests.integration.mcp_bench import until
from tests.unit.proxy.transport.visitor import Visitor

TCP = Peer(address="127.0.0.1")
AGENT = bound("ada", "ada")


class Keys:
    def __init__(self, *records: KeyRecord) -> None:
        self.records = records
        self.reads = 0

    def __call__(self) -> tuple[KeyRecord, ...]:
        self.reads += 1
        return self.records


def authenticator(keys: Keys, *bindings: Binding, now_ms: int = 1_000) -> Authenticator:
    return Authenticator(keys, bindings, lambda: now_ms)


def test_minted_key_authenticates_and_has_the_documented_form() -> None:
    made = mint_key(AGENT, 0)
    assert re.fullmatch(r"mg_[a-z2-7]{8}_[A-Za-z0-9_-]{43}", made.plain)
    assert made.plain.split("_")[1] == made.record.key_id
    assert authenticator(Keys(made.record)).authenticate(made.plain, TCP) == AGENT


def test_key_is_stored_as_its_hash_alone() -> None:
    made = mint_key(AGENT, 0)
    assert made.record.key_sha256 == hash_key(made.plain)
    assert made.plain not in repr(made)
    assert made.plain.encode() not in msgspec.msgpack.encode(made.record)


def test_two_keys_are_never_alike() -> None:
    assert len({mint_key(AGENT, 0).plain for _ in range(100)}) == 100


@pytest.mark.parametrize("credential", ["", "x", "mg_" + "x" * 300, "mg_abc_", "\ud800", "é"])
def test_what_is_no_key_is_nobody(credential: str) -> None:
    assert authenticator(Keys(mint_key(AGENT, 0).record)).authenticate(credential, TCP) is None


def test_stored_hash_is_not_a_credential() -> None:
    made = mint_key(AGENT, 0)
    assert authenticator(Keys(made.record)).authenticate(made.record.key_sha256.hex(), TCP) is None


def test_revoked_key_is_nobody_from_that_moment_on() -> None:
    made = mint_key(AGENT, 0)
    ended = msgspec.structs.replace(made.record, revoked_at_ms=1_000)
    assert authenticator(Keys(ended), now_ms=999).authenticate(made.plain, TCP) == AGENT
    assert authenticator(Keys(ended), now_ms=1_000).authenticate(made.plain, TCP) is None


def test_records_are_read_once_until_they_change() -> None:
    first, second = mint_key(AGENT, 0), mint_key(bound("bob", "bob"), 0)
    keys = Keys(first.record)
    who = authenticator(keys)
    who.authenticate(first.plain, TCP)
    keys.records = (first.record, second.record)
    assert who.authenticate(second.plain, TCP) is None
    assert keys.reads == 1
    who.invalidate()
    assert who.authenticate(second.plain, TCP) is not None


def test_a_stored_key_counts_without_another_read_unless_storing_failed() -> None:
    first, second = mint_key(AGENT, 0), mint_key(bound("bob", "bob"), 0)
    keys = Keys(first.record)
    who = authenticator(keys)
    assert who.authenticate(second.plain, TCP) is None, "control"
    with who.storing(second.record):
        pass
    assert who.authenticate(second.plain, TCP) is not None
    assert (list(who.keys.by_id), keys.reads) == ([first.record.key_id, second.record.key_id], 1)

    with pytest.raises(StoreUnavailable), who.storing(mint_key(AGENT, 0).record):
        raise StoreUnavailable("no room")
    assert who.authenticate(second.plain, TCP) is None, "the store is read again, and lacks it"
    assert keys.reads == 2


def test_a_replaced_key_is_nobody_from_the_moment_that_its_record_is_stored() -> None:
    given, later = mint_key(AGENT, 0), mint_key(AGENT, 0)
    who = authenticator(Keys(given.record))
    assert who.authenticate(given.plain, TCP) == AGENT, "control"
    with who.storing(msgspec.structs.replace(later.record, key_id=given.record.key_id)):
        pass
    assert who.authenticate(given.plain, TCP) is None
    assert who.authenticate(later.plain, TCP) == AGENT


def test_uid_and_certificate_count_only_where_they_are_bound() -> None:
    people = Binding(id="people", tenant="home", channel=Channel.USER, uid=1000)
    robot = Binding(id="robot", tenant="home", mtls="URI:spiffe://example.org/robot")
    who = authenticator(Keys(), people, robot)
    assert who.authenticate(None, Peer(address="uid:1000", uid=1000)) == people.principal
    assert who.authenticate(None, Peer(address="uid:0", uid=0)) is None
    named = Peer(address="::1", subjects=("CN:x", "URI:spiffe://example.org/robot"))
    assert who.authenticate(None, named) == robot.principal
    forged = Peer(address="::1", subjects=("CN:spiffe://example.org/robot",))
    assert who.authenticate(None, forged) is None
    assert who.authenticate("wrong", Peer(address="uid:1000", uid=1000)) is None


def test_failures_are_throttled_per_peer_and_forgotten_after_a_minute() -> None:
    made = mint_key(AGENT, 0)
    now = [0]
    who = Authenticator(Keys(made.record), (), lambda: now[0])

    def fails(peer: Peer) -> bool:
        with pytest.raises(Unauthenticated) as caught:
            who.require("wrong", Visitor(peer))
        return caught.value.throttled

    assert [fails(TCP) for _ in range(21)] == [False] * 20 + [True]
    assert not fails(Peer(address="10.0.0.1"))
    # A neighbour's failures never lock the right key out.
    assert who.require(made.plain, Visitor(TCP)) == AGENT
    now[0] = 61_000
    assert not fails(TCP)


def test_number_of_remembered_peers_is_bounded() -> None:
    who = authenticator(Keys())

    def fails(address: str) -> bool:
        with pytest.raises(Unauthenticated) as caught:
            who.require(None, Visitor(Peer(address=address)))
        return caught.value.throttled

    assert any(fails("10.0.0.1") for _ in range(30))
    for number in range(2_000):
        fails(f"10.1.{number}")
    # Forgotten: a peer per request cannot make us remember them all.
    assert not fails("10.0.0.1")


def test_first_start_makes_one_key_per_role_and_later_ones_none() -> None:
    made = first_keys((), None, None, 5)
    assert [record.principal.principal_id for record in made.records] == ["agent", "operator"]
    assert [record.principal.channel for record in made.records] == [
        Channel.AGENT,
        Channel.OPERATOR,
    ]
    assert {record.principal.tenant for record in made.records} == {"default"}
    assert len(made.shown) == 2
    assert first_keys(made.records, None, None, 6).records == ()


def test_given_key_is_used_stored_hashed_and_not_shown() -> None:
    given = Secret("a-key-of-the-operators-choice")
    made = first_keys((), given, None, 5)
    assert made.records[0].key_sha256 == hash_key(given.reveal())
    assert [key.record.principal.principal_id for key in made.shown] == ["operator"]
    assert first_keys(made.records, given, None, 6).records == ()
    other = first_keys(made.records, Secret("another-key-of-his-choice"), None, 6)
    assert [record.key_id for record in other.records] == [made.records[0].key_id]


def test_operator_is_who_is_bound_as_one() -> None:
    operator = bound("olga", "default", Channel.OPERATOR)
    assert operator_of(operator) is operator
    for channel in (Channel.AGENT, Channel.USER):
        with pytest.raises(NotOperator):
            operator_of(bound("operator", "default", channel))
    assert PrincipalId("olga") == operator.principal_id


def test_a_revoked_key_does_not_come_back_because_the_environment_still_has_it() -> None:
    given = Secret("a-key-that-leaked-from-an-agent")
    (record, _) = first_keys((), given, None, 5).records
    ended = msgspec.structs.replace(record, revoked_at_ms=6)
    assert (
        first_keys((ended,), given, Secret("an-operator-key-of-his-choice"), 7).records[0].key_id
        == "operator"
    )
    # The control: a new text under the same role is a new key.
    renewed = first_keys((ended,), Secret("another-key-for-the-same-agent"), None, 8)
    assert [made.key_id for made in renewed.records if made.principal.principal_id == "agent"]


def test_a_certificate_with_the_names_of_two_principals_names_nobody() -> None:
    one = Binding(id="one", tenant="a", mtls="DNS:one")
    again = Binding(id="one", tenant="a", mtls="CN:one")
    two = Binding(id="two", tenant="b", mtls="URI:two")
    who = authenticator(Keys(), one, again, two)
    for subjects in (("DNS:one", "URI:two"), ("URI:two", "DNS:one"), ("CN:one", "URI:two")):
        assert who.authenticate(None, Peer(address="::1", subjects=subjects)) is None
    for subjects in (("DNS:one", "CN:one"), ("DNS:one", "URI:unbound")):
        assert who.authenticate(None, Peer(address="::1", subjects=subjects)) == one.principal


def test_what_is_open_on_a_key_ends_with_it_and_nothing_else_does() -> None:
    mine, others = mint_key(AGENT, 0), mint_key(AGENT, 0)
    who = authenticator(Keys(mine.record, others.record))
    ends, stays = Visitor(TCP), Visitor(TCP)
    assert who.require(mine.plain, ends) == who.require(others.plain, stays) == AGENT
    with who.ending(mine.record):
        assert not ends.welcome, "before its end is on disk"
        assert who.authenticate(mine.plain, TCP) is None
    assert stays.welcome
    assert who.authenticate(mine.plain, TCP) is None, "whatever the record says"
    assert who.authenticate(others.plain, TCP) == AGENT


def test_a_key_whose_end_the_disk_refused_is_good_for_whoever_comes_again() -> None:
    made = mint_key(AGENT, 0)
    who = authenticator(Keys(made.record))
    before, after = Visitor(TCP), Visitor(TCP)
    who.require(made.plain, before)
    with pytest.raises(StoreUnavailable), who.ending(made.record):
        raise StoreUnavailable("no room")
    who.require(made.plain, after)
    assert (before.welcome, after.welcome) == (False, True)


@pytest.mark.parametrize("knows", ["before", "at once"])
async def test_a_key_with_an_end_to_come_ends_what_is_open_when_it_comes(knows: str) -> None:
    made = mint_key(AGENT, 0)
    now_ms = 1_000
    keys = Keys(made.record)
    who = Authenticator(keys, (), lambda: now_ms)
    visit = Visitor(TCP)
    ending = msgspec.structs.replace(made.record, revoked_at_ms=1_001)
    if knows == "before":
        who.require(made.plain, visit)
        with who.storing(ending):
            keys.records = (ending,)
    else:
        keys.records = (ending,)
        who.require(made.plain, visit)
    await asyncio.sleep(0.01)
    assert visit.welcome, "by the clock that decides who comes in it is still good"
    now_ms = 1_001
    await until(lambda: not visit.welcome)
