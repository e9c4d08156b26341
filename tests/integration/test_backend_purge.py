"""What stands on a memory server after the gate has forgotten it: nobody is shown it again."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from pathlib import Path

from proxy.fronts.backend_writes import LATE_S, TEND_S
from storage.embedded import EmbeddedStore
from storage.features.upstream.closed_keys import CLOSED
from storage.tables.change import Change
from tests.integration.memory_servers.recorder import Fault, recorder
from tests.integration.running import AGENT_KEY
from tests.integration.test_backend_store import ALICE, Guarded, guarded, patient
from tests.integration.turns import Clock, Turns

BANK = "Ada's bank is Zebrafinch Analytics"
K1 = (tuple(ALICE), "k1")


async def forget_closed_keys(gate: Guarded) -> None:
    """Do as if the store had no table of closed keys."""

    def work(change: Change) -> None:
        for key in list(change.draft.keys(CLOSED)):
            change.draft.delete(CLOSED, key)
        change.moved.add(CLOSED)

    store: EmbeddedStore = gate.sidecar.sidecar.store
    await store.writer.run(lambda: store._engine.transact(work))


async def given_up(turns: Turns, clock: Clock) -> None:
    """Let so much time pass that a write which is not there counts as failed."""
    await turns.turn(TEND_S)
    clock.pass_s(LATE_S)
    for _ in range(2):
        # A look-up that told nothing is repeated in the round after the next.
        await turns.turn(TEND_S)


async def test_a_purged_memory_is_shown_to_nobody_again(tmp_path: Path) -> None:
    async with recorder() as (server, url):
        async with guarded(tmp_path, server, url) as gate:
            other = await gate.sidecar.key("other", tenant="other")
            assert (await gate.put(BANK))[0] == 204
            (found,) = (await gate.sidecar.operate("GET", "/memories"))["memories"]
            place = f"/memories/{found['memory_id']}"
            await gate.sidecar.operate("POST", f"{place}/quarantine", {"reason": "a lie"})
            assert await gate.texts() == []
            await gate.sidecar.operate("POST", f"{place}/purge", {})
            assert server.items == {K1: {"text": BANK}}, "nothing is sent"
            assert len(server.writes) == 1
        # A restart forgets nothing of it.
        async with guarded(tmp_path, server, url) as gate:
            for key in (AGENT_KEY, other):
                assert await gate.texts(key) == []
                assert await gate.get(key=key) is None
            status, said = await gate.put("Ada has no bank", key=other)
            assert (status, "target_missing" in said["detail"]) == (403, True)
            # Control: without the table the server's copy counts as one of before the gate.
            await forget_closed_keys(gate)
            assert await gate.texts() == [BANK]
            assert await gate.texts(other) == [BANK]


async def test_a_lost_write_that_arrives_after_it_counts_as_failed_is_shown_to_nobody(
    tmp_path: Path,
) -> None:
    async with patient(tmp_path) as (gate, turns, clock):
        server = gate.server
        other = await gate.sidecar.key("other", tenant="other")
        server.fault = Fault.NOT_DONE
        assert (await gate.put(BANK))[0] == 502
        await given_up(turns, clock)
        assert gate.unsettled() == []
        server.put("k1", {"text": BANK})
        assert await gate.texts() == []
        assert await gate.texts(other) == []
        await forget_closed_keys(gate)
        assert await gate.texts(other) == [BANK], "the control"


async def deleted(gate: Guarded, key: str = AGENT_KEY) -> tuple[int, str]:
    """Status and detail of the answer to a deletion of the item."""
    body = {"namespace": ALICE, "key": "k1"}
    status, said, _ = await gate.ask("DELETE", "/store/items", body, key)
    return status, "" if said is None else said["detail"]


async def test_an_item_that_expired_on_its_server_is_its_tenants_until_that_deletes_it(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        assert (await gate.put(BANK))[0] == 204
        server.items.clear()
        # To the other tenant it is as a key that nobody has, and stays another's.
        assert await deleted(gate, other) == (204, "")
        assert len(server.writes) == 1
        assert (await gate.put("Grace keeps bees", key=other))[0] == 403
        assert await deleted(gate) == (204, "")
        assert [one.method for one in server.writes] == ["PUT", "DELETE"]
        assert gate.unsettled() == []
        # Control: now it is free.
        assert (await gate.put("Grace keeps bees", key=other))[0] == 204
        assert await gate.texts(other) == ["Grace keeps bees"]
        # Of a key that was never there nothing is sent.
        assert await deleted(gate) == (204, "")
        assert len(server.writes) == 3


async def test_the_deletion_of_what_is_hidden_from_its_own_tenant_waits_for_a_person(
    tmp_path: Path,
) -> None:
    async with patient(tmp_path) as (gate, turns, _):
        server = gate.server
        other = await gate.sidecar.key("other", tenant="other")
        assert (await gate.put(BANK))[0] == 204
        (found,) = (await gate.sidecar.operate("GET", "/memories"))["memories"]
        place = f"/memories/{found['memory_id']}"
        await gate.sidecar.operate("POST", f"{place}/quarantine", {"reason": "a lie"})
        for purged in (False, True):
            if purged:
                await gate.sidecar.operate("POST", f"{place}/purge", {})
            assert await deleted(gate, other) == (204, "")
            status, said = await deleted(gate)
            assert (status, "person_required" in said) == (403, True)
        assert len(server.writes) == 1
        one = (await gate.sidecar.operate("GET", "/review"))["held"][0]
        await gate.sidecar.operate("POST", f"/review/{one['candidate_id']}/release", {})
        await turns.turn(TEND_S)
        assert server.items == {}
        # Control: the deletion has opened the key.
        assert (await gate.put("Grace keeps bees", key=other))[0] == 204


async def test_a_deletion_of_what_is_looked_up_is_told_to_wait(tmp_path: Path) -> None:
    async with patient(tmp_path) as (gate, _, _):
        server = gate.server
        other = await gate.sidecar.key("other", tenant="other")
        server.fault = Fault.CUT
        assert (await gate.put(BANK))[0] == 502
        assert (await deleted(gate))[0] == 503
        assert (await deleted(gate, other))[0] == 204
        assert len(server.writes) == 1
