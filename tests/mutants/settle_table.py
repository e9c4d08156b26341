"""Faults in settling: what is sent twice, taken for known, or forgotten."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_FORWARDING: Final = "proxy/settle/forwarding.py"
_LEFTOVERS: Final = "proxy/settle/leftovers.py"
_KILLS: Final = at(
    "tests/fault/test_backend_kills.py",
    "test_a_sidecar_that_dies_while_it_writes_to_a_server_behind_knows_what_arrived",
)
_TEST_FORWARDING: Final = "tests/unit/proxy/settle/test_forwarding.py"
_TEST_LEFTOVERS: Final = "tests/unit/proxy/settle/test_leftovers.py"
_LOST: Final = at(
    _TEST_LEFTOVERS,
    "test_a_lost_answer_is_unknown_found_by_reading_and_nothing_is_sent_again",
)

SETTLE: Final = (
    Mutant(
        name="what is sent while a connection ends is forgotten",
        file=_FORWARDING,
        old="        while self._open:\n",
        new="        if self._open:\n",
        invariant="each write that was sent is settled, or known to be unknown",
        tests=(
            at(
                _TEST_FORWARDING,
                "test_what_is_sent_while_the_end_is_recorded_is_unknown_as_well",
            ),
        ),
    ),
    Mutant(
        name="one answer stops the clock of all that went in its call",
        file=_FORWARDING,
        old=" and late not in self._open.values():\n",
        new=":\n",
        invariant="each write that was sent is settled, or known to be unknown",
        tests=(
            at(
                _TEST_FORWARDING,
                "test_what_is_left_of_a_call_is_unknown_when_its_time_is_over",
            ),
        ),
    ),
    Mutant(
        name="what was sent and lost is sent again",
        file=_LEFTOVERS,
        old="                if one.sent:\n",
        new="                if one.sent and not one.key:\n",
        invariant="an item is sent once, and then only ever looked up",
        tests=(_LOST, at(_TEST_LEFTOVERS, "test_what_another_process_sent_is_looked_up")),
    ),
    Mutant(
        name="a lost answer counts as a failure",
        file=_LEFTOVERS,
        old="            await self._forwarding.settle(ours, Forwarded.UNKNOWN)\n",
        new="            await self._forwarding.settle(ours, Forwarded.FAILED)\n",
        invariant="without an answer nobody knows what became of a write",
        tests=(_LOST,),
    ),
    Mutant(
        name="an item is looked up while its answer may come",
        file=_LEFTOVERS,
        old="        if self._forwarding.is_open(one.candidate_id):\n",
        new="        if self._forwarding.is_open(one.tool):  # type: ignore[arg-type]\n",
        invariant="a read tells nothing of what is still on its way",
        tests=(at(_TEST_LEFTOVERS, "test_an_item_whose_answer_may_still_come_is_not_looked_up"),),
    ),
    Mutant(
        name="what is sent in our own name is not open",
        file=_LEFTOVERS,
        old="        self._forwarding.sent(ours, timed=False)\n",
        new="",
        invariant="what was sent and has no answer is unknown, and is looked up",
        tests=(
            at(
                _TEST_LEFTOVERS,
                "test_a_process_that_ends_while_it_sends_records_that_nobody_knows",
            ),
        ),
    ),
    Mutant(
        name="an answer that takes too long is waited for in silence",
        file=_FORWARDING,
        old="        self._spawn(self._record(waiting, Forwarded.UNKNOWN))\n",
        new="        self._spawn(self._record((), Forwarded.UNKNOWN))\n",
        invariant="a write without an answer is listed as unknown",
        tests=(
            at(
                _TEST_FORWARDING,
                "test_no_answer_for_long_is_unknown_and_a_late_answer_still_settles_it",
            ),
        ),
    ),
    Mutant(
        name="a result is forgotten where the gate is away",
        file=_FORWARDING,
        old="            self._spawn(self._record_later(candidate_ids, state))\n",
        new="",
        invariant="what became of a write is recorded as soon as it can be",
        tests=(
            at(_TEST_FORWARDING, "test_a_result_is_recorded_as_soon_as_the_gate_is_back"),
            at(_TEST_LEFTOVERS, "test_a_gate_that_is_away_and_comes_back_loses_nothing"),
        ),
    ),
    Mutant(
        name="what was held is sent",
        file=_FORWARDING,
        old='        if one.decision == "admit" and one.candidate_id is not None\n',
        new="        if one.candidate_id is not None\n",
        invariant="only what was admitted is sent",
        tests=(at(_TEST_FORWARDING, "test_only_what_was_admitted_may_be_sent"),),
    ),
    Mutant(
        name="what a dead process sent counts as failed",
        file=_LEFTOVERS,
        old="        state = await self._backend.look_up(one)\n",
        new="        await self._backend.look_up(one)\n        state = Forwarded.FAILED\n",
        invariant="the server alone says what became of a write whose answer is lost",
        tests=(_KILLS,),
    ),
    Mutant(
        name="a write counts as done before the server has it",
        file="proxy/fronts/backend_writes.py",
        old="                replies.append(await self._sent(forwarding, outgoing, ids))\n",
        new="                await forwarding.settle(ids, Forwarded.DONE)\n"
        "                replies.append(await self._sent(forwarding, outgoing, ids))\n",
        invariant="a write is done once the server says so",
        tests=(_KILLS,),
    ),
)
