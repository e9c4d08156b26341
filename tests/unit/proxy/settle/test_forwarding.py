"""What was sent is settled once by its answer; without one it is unknown."""

from __future__ import annotations

import pytest

from policy.model import CandidateId, Principal
from policy.verdict import InvariantBroken
from proxy.seams.guard import ITEMS_MAX, ForwardStatus, GuardedCall, ItemVerdict
from proxy.settle.forwarder import SETTLE_TRIES, admitted_of, judge, record
from tests.unit.proxy.mcp.guarding import ASK, EVIL
from tests.unit.proxy.settle.rack import AGENT, SERVER, Desk, Gate, Rack, call, change_of, verdict

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


async def test_what_is_left_of_a_call_is_unknown_when_its_time_is_over() -> None:
    desk = Desk(Gate(), Rack(), answer_seconds=0.01)
    desk.forwarding.sent((ONE, TWO))
    await desk.forwarding.settle((ONE,), ForwardStatus.DONE)
    await desk.gate.has_settled(2)
    assert desk.gate.settled == [(ONE, ForwardStatus.DONE), (TWO, ForwardStatus.UNKNOWN)]


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
