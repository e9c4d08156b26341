"""What was sent is settled once by its answer, or looked up, and never sent again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from policy.model import CandidateId, Principal
from policy.verdict import InvariantBroken
from proxy.seams.guard import ITEMS_MAX, ForwardStatus, GuardedCall, ItemVerdict
from proxy.seams.waits import ReleaseBell
from proxy.settle.forwarder import SETTLE_TRIES, admitted_of, judge, record
from tests.unit.proxy.mcp.guarding import ASK, EVIL
from tests.unit.proxy.settle.rack import AGENT, SERVER, Desk, Gate, Rack, call, change_of, verdict


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
    sending = asyncio.create_task(first.leftovers.run(0.001, ReleaseBell()))
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


ONE = CandidateId("1" * 32)
TWO = CandidateId("2" * 32)


async def test_only_what_was_admitted_may_be_sent() -> None:
    items = (change_of("1", "tea"), change_of("2", EVIL), change_of("3", ASK), change_of("4", "x"))
    judged = await judge(Gate().judge, AGENT, call(*items))
    assert [one.decision for one in judged] == ["admit", "reject", "hold", "admit"]
    assert admitted_of(judged) == (judged[0].candidate_id, judged[3].candidate_id)
    # An admission without an id could never be settled.
    assert admitted_of((verdict("admit", None), verdict("error", 7))) == ()


async def test_a_guard_with_fewer_verdicts_than_items_stops_everything() -> None:
    class Short(Gate):
        async def judge(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
            return (await super().judge(principal, call))[1:]

    with pytest.raises(InvariantBroken):
        await judge(Short().judge, AGENT, call(change_of("1", "tea"), change_of("2", EVIL)))


async def test_an_answer_settles_what_went_with_it_and_closes_it() -> None:
    desk = Desk(Gate(), Rack())
    desk.forwarding.sent((ONE, TWO))
    assert desk.forwarding.is_open(ONE)
    await desk.forwarding.settle((ONE,), ForwardStatus.DONE)
    await desk.forwarding.settle((TWO,), ForwardStatus.FAILED)
    assert not desk.forwarding.is_open(ONE)
    assert not desk.forwarding.is_open(TWO)
    await desk.forwarding.close()
    assert desk.gate.settled == [(ONE, ForwardStatus.DONE), (TWO, ForwardStatus.FAILED)]


async def test_no_answer_for_long_is_unknown_and_a_late_answer_still_settles_it() -> None:
    desk = Desk(Gate(), Rack(), answer_seconds=0.01)
    desk.forwarding.sent((ONE, TWO))
    await desk.gate.has_settled(2)
    assert desk.forwarding.is_open(ONE), "one may still come"
    await desk.forwarding.settle((ONE, TWO), ForwardStatus.DONE)
    states = [ForwardStatus.UNKNOWN] * 2 + [ForwardStatus.DONE] * 2
    assert desk.gate.settled == list(zip((ONE, TWO) * 2, states, strict=True))


async def test_an_answer_in_time_is_never_taken_for_a_lost_one() -> None:
    desk = Desk(Gate(), Rack(), answer_seconds=0.01)
    desk.forwarding.sent((ONE,))
    await desk.forwarding.settle((ONE,), ForwardStatus.DONE)
    desk.forwarding.sent((TWO,))  # control: this one is
    await desk.gate.has_settled(2)
    assert desk.gate.settled == [(ONE, ForwardStatus.DONE), (TWO, ForwardStatus.UNKNOWN)]


async def test_what_is_open_at_the_end_is_unknown_once_and_no_timer_outlives_it() -> None:
    desk = Desk(Gate(), Rack(), answer_seconds=0.01)
    many = tuple(CandidateId(f"{number:032x}") for number in range(ITEMS_MAX + 1))
    desk.forwarding.sent(many)
    await desk.forwarding.close()
    assert desk.gate.settled == [(one, ForwardStatus.UNKNOWN) for one in many]
    assert desk.gate.asked == 2, "in requests that the gate takes"
    later = Desk(Gate(), Rack(), answer_seconds=0.01)
    later.forwarding.sent((ONE,))
    await later.gate.has_settled(1)  # control: its timer, begun after theirs, has rung
    assert len(desk.gate.settled) == len(many)
    assert desk.jobs == []


async def test_what_is_sent_while_the_end_is_recorded_is_unknown_as_well() -> None:
    class Slow(Gate):
        async def settle(
            self,
            principal: Principal,
            server: str,
            settled: tuple[tuple[CandidateId, ForwardStatus], ...],
        ) -> None:
            if not self.settled:
                desk.forwarding.sent((TWO,))  # its verdict came just now
            await super().settle(principal, server, settled)

    desk = Desk(Slow(), Rack(), answer_seconds=0.01)
    desk.forwarding.sent((ONE,))
    await desk.forwarding.close()
    assert desk.gate.settled == [(ONE, ForwardStatus.UNKNOWN), (TWO, ForwardStatus.UNKNOWN)]
    later = Desk(Gate(), Rack(), answer_seconds=0.01)
    later.forwarding.sent((ONE,))
    await later.gate.has_settled(1)  # control: a timer that was begun after theirs has rung
    assert desk.jobs == [], "no timer outlives the end"


async def test_a_result_is_recorded_as_soon_as_the_gate_is_back() -> None:
    desk = Desk(Gate(), Rack())
    desk.gate.away = True
    desk.forwarding.sent((ONE,))
    await desk.forwarding.settle((ONE,), ForwardStatus.DONE)
    assert desk.gate.settled == []
    assert not desk.forwarding.is_open(ONE)
    desk.gate.away = False
    await desk.gate.has_settled(1)
    await desk.finished()
    assert desk.gate.settled == [(ONE, ForwardStatus.DONE)]


async def test_a_gate_that_stays_away_is_not_asked_for_ever() -> None:
    desk = Desk(Gate(), Rack())
    desk.gate.away = True
    await desk.forwarding.settle((ONE,), ForwardStatus.DONE)
    await desk.finished()
    assert desk.gate.asked == 1 + SETTLE_TRIES
    assert await desk.forwarding.unsettled() == ()


async def test_nothing_to_record_asks_nobody() -> None:
    gate = Gate()
    gate.away = True
    assert await record(gate, AGENT, SERVER, (), ForwardStatus.DONE)
    assert not await record(gate, AGENT, SERVER, (ONE,), ForwardStatus.DONE)
    assert gate.asked == 1


@pytest.mark.parametrize("announced", [True, False])
async def test_a_release_wakes_what_sends_it_and_no_clock_does(*, announced: bool) -> None:
    gate, rack, releases = Gate(), Rack(), ReleaseBell()
    desk = Desk(gate, rack)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(desk.leftovers.run(3_600, releases))
        await _idle()
        gate.released(1, "3")
        if announced:
            releases.announce()
        await _idle()
        # Control: without the announcement the item waits for the end of the pause.
        assert rack.lines == (["put 3 tea"] if announced else [])
        running.cancel()


async def test_a_release_during_a_round_begins_another_one() -> None:
    gate, rack, releases = Gate(), Rack(), ReleaseBell()
    desk = Desk(gate, rack)
    gate.released(1, "3")
    rack.may_answer.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(desk.leftovers.run(3_600, releases))
        await _idle()
        assert rack.lines == ["put 3 tea"], "control: the round is under way"
        gate.released(2, "4")
        releases.announce()
        rack.may_answer.set()
        await _idle()
        assert rack.lines == ["put 3 tea", "put 4 tea"]
        running.cancel()


async def _idle() -> None:
    """Return when no task of the loop can proceed by itself."""
    for _ in range(50):
        await asyncio.sleep(0)
