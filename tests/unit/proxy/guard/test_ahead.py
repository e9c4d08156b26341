"""One judge per call: what a model front admitted, and the relay that gets the call afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from policy.model import ChangeKind, ForwardStatus, Principal, PrincipalId
from policy.trust.score import TrustLevel
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.model.memory_tools import OfferedTools
from proxy.dialects.model.tools import tools_of
from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json
from proxy.guard.ahead import OPEN_MAX, TAKEN_WITHIN_S
from proxy.model.call_judge import CallJudge
from proxy.seams.guard import GuardedCall, ItemVerdict, Join
from proxy.seams.operation import Proposal
from proxy.settings.tool_maps import load_map, maps_of_models
from storage.audit import ResultLeaf, VerdictLeaf, decode_leaf
from storage.features.trust import RestoreTrust
from storage.tables.names import LEAVES
from tests.evaluate.unsafe import unsafe_gate_without
from tests.unit.proxy.guarded import AGENT, BY, GOOD, OTHER, STEERING, Guarded, guarded
from tests.unit.proxy.model.asking import call, offering, result
from tests.unit.proxy.wired import TRACE

MAP = "server-memory"
SERVER = "kb"
WAIT_S = 300.0
THIRD = msgspec.structs.replace(AGENT, principal_id=PrincipalId("agent-3"))


def _declared(name: str, *arguments: str) -> Json:
    properties: dict[str, Json] = {argument: {} for argument in arguments}
    return {"name": f"mcp__{SERVER}__{name}", "input_schema": {"properties": properties}}


TOOLS = (
    _declared("create_entities", "entities"),
    _declared("add_observations", "observations"),
    _declared("delete_entities", "entityNames"),
    _declared("read_graph"),
)


class Desk:
    """A model front and a relay before one gate, and a server behind that keeps what it gets."""

    def __init__(self, seen: Guarded) -> None:
        self.seen = seen
        self.guard = seen.guard
        self.veto = CallJudge(seen.guard)
        self.server: list[str] = []

    async def asked(self, *calls: ModelCall, by: Principal = AGENT) -> list[bool]:
        """The model makes these calls in one reply; which of them its agent gets."""
        catalogue = OfferedTools(tools_of(offering(*TOOLS)), maps_of_models(None))
        return [one is None for one in await self.veto.judge(by, catalogue, calls)]

    async def unrelayed(self, one: ModelCall) -> None:
        """The model makes this call, and the agent calls the server itself where it gets it."""
        if await self.asked(one) == [True]:
            self.server.append(one.name)

    async def relayed(
        self,
        one: ModelCall,
        *,
        by: Principal = AGENT,
        server: str = SERVER,
        known: bool = True,
        **arguments: Json,
    ) -> tuple[ItemVerdict, ...]:
        """The agent's host calls; the relay sends what is admitted, and settles it.

        `known`: whether the host says which of the model's calls it is.
        """
        judged = await self.guard.judge(by, self.call_of(one, server, known=known, **arguments))
        admitted = tuple(j.candidate_id for j in judged if j.decision == "admit")
        if len(admitted) == len(judged):
            self.server.append(one.name)
            done = tuple((c, ForwardStatus.DONE) for c in admitted if c is not None)
            await self.guard.settle(by, server, done)
        return judged

    def call_of(
        self, one: ModelCall, server: str = SERVER, *, known: bool = True, **arguments: Json
    ) -> GuardedCall:
        tool = one.name.rpartition("__")[2]
        given = {**(one.arguments or {}), **arguments}
        read = read_call(load_map(MAP), {"name": tool, "arguments": given})
        join = Join(tool_use_id=one.call_id) if known else Join()
        return GuardedCall(server=server, tool=tool, items=read.items, join=join)

    def leaves(self) -> list[str]:
        """One word for each verdict and each result, in order."""
        with self.seen.store.lmdb.reading() as view:
            found = [decode_leaf(data) for _, data in view.scan(LEAVES)]
        told: list[str] = []
        for leaf in found:
            if isinstance(leaf, VerdictLeaf):
                told.append(leaf.decision.value)
            elif isinstance(leaf, ResultLeaf):
                told.append(leaf.result.value)
        return told


def entity(text: str = GOOD, name: str = "Ada") -> ModelCall:
    one: Json = {"name": name, "entityType": "person", "observations": [text]}
    return call(f"mcp__{SERVER}__create_entities", entities=[one])


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    with guarded(tmp_path) as seen:
        one = Desk(seen)
        await one.guard.pin(AGENT, SERVER, ())
        yield one
        assert seen.store.reader.check().problems == ()


@pytest.mark.parametrize("known", [True, False], ids=["by its id", "without an id"])
async def test_a_relay_takes_an_admission_over_after_a_person_s_click(
    desk: Desk, *, known: bool
) -> None:
    one = entity()
    assert await desk.asked(one) == [True]
    desk.seen.clock.now_s += WAIT_S
    (judged,) = await desk.relayed(one, known=known)
    assert judged.decision == "admit"
    # One pair of leaves, and the relay alone said what became of it.
    await desk.veto.results(AGENT, result(one, "Error: it took too long"))
    assert desk.leaves() == ["admit", "done"]


async def test_a_relay_that_is_gone_leaves_no_gap(desk: Desk) -> None:
    # The relay is used for a harmless read, and its process ends; the agent's configuration still
    # names the server itself, and a page dictates.
    assert await desk.asked(call(f"mcp__{SERVER}__read_graph", page="1")) == [True]
    await desk.unrelayed(entity(STEERING))
    assert (desk.server, desk.leaves()) == ([], ["hold"])
    # A good call goes straight to the server, and the result that the agent reports settles it.
    one = entity()
    await desk.unrelayed(one)
    await desk.veto.results(AGENT, result(one))
    assert (desk.server, desk.leaves()) == ([one.name], ["hold", "admit", "done"])


async def test_where_the_front_skips_what_a_relay_served_once_it_lands(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def skipped(*_: object) -> None:
        return None

    # What the model front did for each server that it had seen behind a relay.
    monkeypatch.setattr(desk.veto, "_one", skipped)
    one = entity(STEERING)
    await desk.unrelayed(one)
    assert (desk.server, desk.leaves()) == ([one.name], [])


async def test_a_relay_judges_what_no_front_judged(desk: Desk) -> None:
    (held,) = await desk.relayed(entity(STEERING))
    (admitted,) = await desk.relayed(entity())
    assert (held.decision, admitted.decision) == ("hold", "admit")
    assert desk.leaves() == ["hold", "admit", "done"]


async def test_what_a_hook_rewrites_in_between_is_judged_anew_and_held(desk: Desk) -> None:
    one = entity()
    assert await desk.asked(one) == [True]
    evil: Json = {"name": "Ada", "entityType": "person", "observations": [STEERING]}
    (judged,) = await desk.relayed(one, entities=[evil])
    assert (judged.decision, desk.server) == ("hold", [])
    # The agent reports that nothing was done: the first intent ends so.
    await desk.veto.results(AGENT, result(one, "Error: not stored yet"))
    assert desk.leaves() == ["admit", "hold", "failed"]


async def test_two_equal_calls_are_two_candidates_and_each_is_taken_once(desk: Desk) -> None:
    one, two = entity(), entity()
    assert await desk.asked(one, two) == [True, True]
    first, second = [await desk.relayed(one, known=False), await desk.relayed(two, known=False)]
    assert first[0].candidate_id != second[0].candidate_id
    assert desk.leaves() == ["admit", "admit", "done", "done"]
    # Once more, by the same id: nothing is left to take.
    await desk.relayed(two)
    assert desk.leaves()[4:] == ["admit", "done"]


async def test_an_id_that_no_admitted_call_has_takes_nothing(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    await desk.relayed(msgspec.structs.replace(one, call_id="toolu_of_nobody"))
    assert desk.leaves() == ["admit", "admit", "done"]


async def test_nobody_else_takes_it_nor_another_server_or_tool(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    for by in (THIRD, OTHER):
        await desk.relayed(one, by=by)
    await desk.relayed(one, server="kb2")
    assert desk.leaves() == ["admit"] + ["admit", "done"] * 3
    other = desk.call_of(one)
    await desk.guard.judge(AGENT, msgspec.structs.replace(other, tool="create_relations"))
    assert desk.leaves()[-1] == "admit"
    assert desk.guard.handed_over(AGENT) == {one.call_id}, "it waits still"
    (mine,) = await desk.relayed(one)
    assert mine.decision == "admit"
    assert desk.guard.handed_over(AGENT) == frozenset()
    assert desk.leaves()[-2:] == ["admit", "done"]


async def test_after_an_hour_nobody_knows_and_no_relay_takes_it(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    desk.seen.clock.now_s += TAKEN_WITHIN_S + 1
    await desk.relayed(one)
    assert desk.leaves() == ["admit", "unknown", "admit", "done"]
    # Its own result may still come.
    await desk.veto.results(AGENT, result(one))
    assert desk.leaves()[4:] == ["done"]


async def test_a_call_that_was_never_sent_failed(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    await desk.veto.withdrawn(AGENT, one)
    assert desk.leaves() == ["admit", "failed"]


async def test_what_makes_room_for_others_is_unknown(desk: Desk) -> None:
    for _ in range(2):
        one = msgspec.structs.replace(entity(), call_id="call_0")
        await desk.asked(one)
    assert desk.leaves() == ["admit", "admit", "unknown"]
    assert OPEN_MAX > 1


async def test_a_result_that_comes_first_ends_it_and_a_slow_relay_judges_anew(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    await desk.veto.results(AGENT, result(one, "Error: timed out"))
    await desk.relayed(one)
    assert desk.leaves() == ["admit", "failed", "admit", "done"]


async def test_what_was_handed_over_is_not_looked_up_while_it_may_still_come(desk: Desk) -> None:
    await desk.asked(entity())
    desk.seen.clock.now_s += WAIT_S
    assert await desk.guard.unsettled(AGENT, SERVER) == ()


async def test_after_a_restart_a_relay_judges_anew_and_the_first_is_looked_up(
    tmp_path: Path,
) -> None:
    one = entity()
    with guarded(tmp_path) as seen:
        before = Desk(seen)
        await before.guard.pin(AGENT, SERVER, ())
        await before.asked(one)
    with guarded(tmp_path) as seen:
        after = Desk(seen)
        # Ids are counted in a test: go on after those of the life before.
        for _ in range(100):
            seen.wired.surroundings.random_hex(16)
        (lost,) = await after.guard.unsettled(AGENT, SERVER)
        assert lost.sent
        # The server never got it, so the relay's own read tells that it failed.
        await after.guard.settle(AGENT, SERVER, ((lost.candidate_id, ForwardStatus.FAILED),))
        await after.relayed(one)
        assert after.leaves() == ["admit", "failed", "admit", "done"]


async def test_what_a_person_released_is_sent_by_its_relay_or_by_the_agent_and_once(
    desk: Desk,
) -> None:
    for sender, name in (("relay", "Ada"), ("agent", "Grace")):
        one = call(f"mcp__{SERVER}__delete_entities", entityNames=[name])
        assert await desk.asked(one) == [False]
        (held,) = desk.seen.store.reader.held(AGENT.tenant)
        await desk.seen.store.writer.release(held.candidate_id, BY)
        if sender == "relay":
            (given,) = await desk.guard.unsettled(AGENT, SERVER)
            assert (given.candidate_id, given.sent) == (held.candidate_id, False)
            # The agent that asks again asks for another one.
            assert await desk.asked(one) == [False]
            (again,) = desk.seen.store.reader.held(AGENT.tenant)
            await desk.seen.store.writer.deny(again.candidate_id, BY)
            desk.veto = CallJudge(desk.guard)
        else:
            assert await desk.asked(one) == [True]
            assert await desk.guard.unsettled(AGENT, SERVER) == ()
            (judged,) = await desk.relayed(one)
            assert judged.decision == "admit"
            assert await desk.asked(one) == [False], "once"


# What it was admitted on moves before the call comes


async def _deny(desk: Desk) -> None:
    desk.seen.store.reader.held(AGENT.tenant)
    await desk.guard.judge(THIRD, desk.call_of(entity(STEERING, "Zoe")))
    (held,) = desk.seen.store.reader.held(AGENT.tenant)
    await desk.seen.store.writer.deny(held.candidate_id, BY)


async def _restore(desk: Desk) -> None:
    await desk.seen.store.writer.order(RestoreTrust(AGENT.principal_id, BY))


async def _adopt(desk: Desk) -> None:
    rules = desk.seen.store.ruleset
    await desk.seen.store.writer.adopt_ruleset(msgspec.structs.replace(rules, digest="0" * 16), BY)


@pytest.mark.parametrize("moves", [_deny, _restore, _adopt])
async def test_where_a_person_or_an_operator_acted_it_is_judged_anew(
    desk: Desk, moves: object
) -> None:
    one = entity()
    await desk.asked(one)
    await moves(desk)  # type: ignore[operator]
    before = len(desk.leaves())
    await desk.relayed(one)
    assert desk.leaves()[before:] == ["failed", "admit", "done"]


async def test_where_the_ladder_sank_it_is_judged_anew(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    for _ in range(3):
        # The same nonce for another text, as no honest client sends it.
        for text in ("The north gate opens at nine", "The south gate opens at ten"):
            proposal = Proposal(change=ChangeKind.CREATE, text=text, nonce="again")
            await desk.seen.wired.writing.judge(AGENT, (proposal,), "native", TRACE)
    assert desk.seen.store.reader.trust(AGENT.principal_id).level is not TrustLevel.TRUSTED
    before = len(desk.leaves())
    await desk.relayed(one)
    assert desk.leaves()[before : before + 1] == ["failed"]


async def test_a_tool_list_that_is_pinned_in_between_moves_nothing(desk: Desk) -> None:
    one = entity()
    await desk.asked(one)
    await desk.guard.pin(AGENT, "another", ())
    await desk.relayed(one)
    assert desk.leaves() == ["admit", "done"]


async def test_without_the_wall_the_relay_takes_what_the_front_let_through(tmp_path: Path) -> None:
    bare = unsafe_gate_without(frozenset(range(1, 11)) - {4, 7})
    with guarded(tmp_path, bare) as seen:
        desk = Desk(seen)
        await desk.guard.pin(AGENT, SERVER, ())
        one = entity(STEERING)
        assert await desk.asked(one) == [True]
        await desk.relayed(one)
        assert (desk.server, desk.leaves()) == ([one.name], ["admit", "done"])
