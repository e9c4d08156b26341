"""Who goes first where a listener is full, and who gets a turn."""

from __future__ import annotations

import contextlib

import pytest

from proxy.seams.faults import Busy
from proxy.transport.auth import Peer
from proxy.transport.crowd import BURST, Crowd, RequestTurn, Turns


class One:
    """A connection; `idle` and `waits` are as a test says."""

    def __init__(self, address: str, *, idle: bool = True, waits: bool = True) -> None:
        self.peer = Peer(address=address)
        self.idle = idle
        self.waits = waits
        self.unread_bytes = 0
        self.gone = False

    def end(self) -> None:
        self.gone = True

    def abort(self) -> None:
        self.gone = True

    async def shutdown(self, drain_s: float) -> None:
        del drain_s


def full(crowd: Crowd, *guests: One) -> None:
    for guest in guests:
        assert crowd.enter(guest)


def test_the_oldest_stranger_of_the_peer_with_most_of_them_goes_first() -> None:
    crowd = Crowd(8)
    few, many = One("b"), [One("a") for _ in range(8)]
    full(crowd, few, *many)
    newcomer = One("c")
    assert crowd.enter(newcomer)
    assert [one.gone for one in (few, *many)] == [False, True] + [False] * 7
    assert len(crowd) == 9


def test_strangers_never_take_the_place_of_who_has_shown_a_credential() -> None:
    crowd = Crowd(8)
    known = [One("a") for _ in range(8)]
    for one in known:
        full(crowd, one)
        crowd.recognise(one, "agent")
    for _ in range(100):
        assert crowd.enter(One("a"))
    assert not any(one.gone for one in known)
    assert len(crowd) == 9


def test_who_is_being_answered_stays_and_the_next_one_is_turned_away() -> None:
    crowd = Crowd(1)
    full(crowd, One("a", waits=False), One("a", waits=False))
    assert not crowd.enter(One("b"))


def test_an_idle_connection_of_the_principal_with_most_makes_room_for_another() -> None:
    crowd = Crowd(4)
    greedy = [One("a", idle=at == 1) for at in range(4)]
    for one in greedy:
        full(crowd, one)
        crowd.recognise(one, "greedy")
    modest = One("a")
    full(crowd, modest)
    crowd.recognise(modest, "modest")
    assert [one.gone for one in greedy] == [False, True, False, False]
    # None of them is idle now: one whose body is still arriving goes.
    another = One("a")
    full(crowd, another)
    crowd.recognise(another, "another")
    assert [one.gone for one in greedy] == [True, True, False, False]


def test_where_all_are_at_work_the_next_is_told_so_and_stays_a_stranger() -> None:
    crowd = Crowd(1)
    works, comes = One("a", idle=False, waits=False), One("a")
    full(crowd, works)
    crowd.recognise(works, "greedy")
    full(crowd, comes)
    with pytest.raises(Busy):
        crowd.recognise(comes, "modest")
    crowd.leave(works)
    crowd.recognise(comes, "modest")
    assert not works.gone


def filled(turns: Turns, name: str) -> int:
    """How many turns it gets before there are none for it."""
    taken = 0
    with contextlib.suppress(Busy):
        while True:
            turns.begin(name)
            taken += 1
    return taken


def test_one_principal_gets_most_and_leaves_some_for_each_next_one() -> None:
    turns = Turns(100)
    taken = {name: filled(turns, name) for name in ("first", "second", "third")}
    assert taken["first"] == 100 * BURST // (BURST + 1)
    assert taken["second"] > 0
    assert taken["third"] > 0
    for _ in range(10):
        turns.finish("first")
    with pytest.raises(Busy):
        turns.begin("first")
    turns.begin("fourth")


def test_requests_without_a_credential_wait_behind_nobody() -> None:
    turns = Turns(4)
    assert filled(turns, "agent")
    for _ in range(4):
        turns.begin(None)
    with pytest.raises(Busy):
        turns.begin(None)
    turns.finish(None)
    turns.begin(None)


def test_a_turn_counts_from_when_it_is_whole_for_whom_it_is() -> None:
    turns = Turns(1)
    arriving, other = RequestTurn(turns), RequestTurn(turns)
    arriving.enter("agent")
    other.enter("agent")
    other.whole()
    with pytest.raises(Busy):
        arriving.whole()
    other.end()
    arriving.whole()
    arriving.end()
    arriving.end()
    other.whole()


def test_what_one_principal_left_unread_is_counted_over_all_of_its_connections() -> None:
    crowd = Crowd(8)
    hers, others = [One("a"), One("b")], One("a")
    full(crowd, *hers, others)
    for one in hers:
        crowd.recognise(one, "greedy")
        one.unread_bytes = 3
    crowd.recognise(others, "modest")
    others.unread_bytes = 5
    assert [crowd.unread_of(name) for name in ("greedy", "modest", "nobody", None)] == [6, 5, 0, 0]
