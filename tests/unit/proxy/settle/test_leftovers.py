"""A released item is sent once; one whose answer was lost is looked up, and never sent again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from policy.model import CandidateId
from proxy.seams.guard import ForwardStatus
from tests.unit.proxy.settle.rack import Desk, Gate, Rack


async def test_a_released_item_is_sent_once_and_its_answer_is_there_for_who_asked() -> None:
    gate, rack = Gate(), Rack()
    desk = Desk(gate, rack)
    released = gate.released(1, "3")
    assert await desk.leftovers.send_released(released) == "ok"
    assert await desk.leftovers.send_released(released) is None
    await desk.rounds(20)
    assert rack.lines == ["put 3 tea"]
    assert rack.reads == 0
    assert gate.settled == [(released, ForwardStatus.DONE)]


async def test_two_connections_send_a_released_item_once_together() -> None:
    gate, rack, turn = Gate(), Rack(), asyncio.Lock()
    released = gate.released(1, "3")
    first, second = Desk(gate, rack, turn), Desk(gate, rack, turn)
    answers = await asyncio.gather(
        first.leftovers.send_released(released), second.leftovers.send_released(released)
    )
    assert sorted(map(str, answers)) == ["None", "ok"]
    assert rack.lines == ["put 3 tea"]


async def test_a_gate_that_gives_an_item_out_twice_has_it_sent_twice() -> None:
    """Control: without the claim of the gate nothing here keeps two processes apart."""
    gate, rack = Gate(claims=False), Rack()
    released = gate.released(1, "3")
    rack.may_answer.clear()
    desks = [Desk(gate, rack), Desk(gate, rack)]
    tasks = [asyncio.create_task(desk.leftovers.send_released(released)) for desk in desks]
    await asyncio.sleep(0)
    rack.may_answer.set()
    await asyncio.gather(*tasks)
    assert rack.lines == ["put 3 tea", "put 3 tea"]


@pytest.mark.parametrize(
    ("deaf", "found"), [(False, ForwardStatus.DONE), (True, ForwardStatus.FAILED)]
)
async def test_a_lost_answer_is_unknown_found_by_reading_and_nothing_is_sent_again(
    *, deaf: bool, found: ForwardStatus
) -> None:
    gate, rack = Gate(), Rack()
    rack.silent, rack.deaf = True, deaf
    desk = Desk(gate, rack)
    released = gate.released(1, "3")
    assert await desk.leftovers.send_released(released) is None
    assert gate.settled == [(released, ForwardStatus.UNKNOWN)]
    rack.silent = rack.deaf = False
    await desk.rounds(20)
    assert gate.settled == [(released, ForwardStatus.UNKNOWN), (released, found)]
    assert rack.lines == ([] if deaf else ["put 3 tea"])
    assert rack.reads == 1


async def test_the_server_s_no_is_a_failure_and_ends_it() -> None:
    gate, rack = Gate(), Rack()
    rack.slots["3"] = "coffee"
    released = gate.released(1, "3")
    assert await Desk(gate, rack).leftovers.send_released(released) == "no room"
    assert gate.settled == [(released, ForwardStatus.FAILED)]
    assert gate.intents == {}


async def test_an_item_that_cannot_be_sent_fails_and_those_behind_it_are_sent() -> None:
    gate, rack = Gate(), Rack()
    broken, good = gate.released(1, "three"), gate.released(2, "4")
    await Desk(gate, rack).rounds(2)
    assert gate.settled == [(broken, ForwardStatus.FAILED), (good, ForwardStatus.DONE)]
    assert rack.lines == ["put 4 tea"]


@pytest.mark.parametrize(
    ("stored", "text", "found"),
    [
        ({"3": "tea"}, "tea", ForwardStatus.DONE),
        ({}, "tea", ForwardStatus.FAILED),
        ({}, None, ForwardStatus.DONE),
        ({"3": "tea"}, None, ForwardStatus.FAILED),
    ],
)
async def test_what_another_process_sent_is_looked_up(
    stored: dict[str, str], text: str | None, found: ForwardStatus
) -> None:
    gate, rack = Gate(), Rack()
    rack.slots = stored
    lost = gate.lost(1, "3", text)
    await Desk(gate, rack).rounds(3)
    assert gate.settled == [(lost, found)]
    assert rack.lines == []


async def test_an_item_whose_answer_may_still_come_is_not_looked_up() -> None:
    gate, rack = Gate(), Rack()
    desk = Desk(gate, rack)
    lost = gate.lost(1, "3")
    desk.forwarding.sent((lost,))
    await desk.rounds(5)
    assert rack.reads == 0
    assert gate.settled == []
    await desk.forwarding.settle((lost,), ForwardStatus.UNKNOWN)
    await desk.rounds(1)
    assert rack.reads == 1, "control"


async def test_what_no_read_tells_is_asked_again_at_growing_distances() -> None:
    gate, rack = Gate(), Rack()
    rack.unreadable = True
    desk = Desk(gate, rack)
    lost = gate.lost(1, "3")
    read_in: list[int] = []
    for number in range(1, 64):
        before = rack.reads
        await desk.rounds(1)
        read_in += [number] * (rack.reads - before)
    assert read_in == [1, 3, 7, 15, 31, 63]
    rack.unreadable, rack.slots["3"] = False, "tea"
    await desk.rounds(63)
    assert gate.settled == []
    await desk.rounds(1)
    assert gate.settled == [(lost, ForwardStatus.DONE)]


async def test_a_server_that_is_not_ready_is_left_alone_and_keeps_its_items() -> None:
    gate, rack = Gate(), Rack()
    rack.ready = False
    released = gate.released(1, "3")
    desk = Desk(gate, rack)
    await desk.rounds(3)
    assert not gate.intents[released].sent, "nobody took it"
    rack.ready = True
    await desk.rounds(1)
    assert gate.settled == [(released, ForwardStatus.DONE)]


async def test_a_gate_that_is_away_and_comes_back_loses_nothing() -> None:
    gate, rack = Gate(), Rack()
    released = gate.released(1, "3")
    desk = Desk(gate, rack)
    gate.away = True
    await desk.rounds(3)
    assert rack.lines == []
    gate.away = False
    rack.may_answer.clear()
    sending = asyncio.create_task(desk.leftovers.round())
    await rack.reached.wait()
    gate.away = True  # between what the server did and its answer
    rack.may_answer.set()
    await sending
    assert gate.settled == []
    gate.away = False
    await gate.has_settled(1)
    await desk.finished()
    await desk.rounds(5)
    assert gate.settled == [(released, ForwardStatus.DONE)]
    assert rack.lines == ["put 3 tea"]


async def test_a_process_that_ends_while_it_sends_records_that_nobody_knows() -> None:
    gate, rack = Gate(), Rack()
    rack.may_answer.clear()
    released = gate.released(1, "3")
    first = Desk(gate, rack)
    sending = asyncio.create_task(first.leftovers.run(0.001))
    await rack.reached.wait()
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    await first.forwarding.close()
    rack.may_answer.set()
    await Desk(gate, rack).rounds(1)
    assert gate.settled == [(released, ForwardStatus.UNKNOWN), (released, ForwardStatus.DONE)]
    assert rack.lines == ["put 3 tea"]


async def test_of_answers_that_nobody_fetched_only_the_latest_are_kept() -> None:
    gate, rack = Gate(), Rack()
    desk = Desk(gate, rack)
    released = [gate.released(number, str(number)) for number in range(1, 21)]
    await desk.rounds(1)
    kept = [one for one in released if await desk.leftovers.send_released(one) is not None]
    assert kept == released[-16:]
    assert await desk.leftovers.send_released(CandidateId("f" * 32)) is None
