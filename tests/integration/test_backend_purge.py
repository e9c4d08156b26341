"""What stands on a memory server after the gate has forgotten it: nobody is shown it again."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.compose.app import Composition
from proxy.fronts.backend_writes import LATE_S, TEND_S
from storage.tables.lmdb_store import CLOSED
from tests.integration.memory_servers.recorder import Fault, recorder
from tests.integration.running import AGENT_KEY
from tests.integration.test_backend_store import ALICE, guarded
from tests.integration.turns import Clock, Turns

if TYPE_CHECKING:
    from pathlib import Path

    from storage.embedded import EmbeddedStore
    from storage.tables.change import Change
    from tests.integration.test_backend_store import Guarded

BANK = "Ada's bank is Zebrafinch Analytics"
K1 = (tuple(ALICE), "k1")


async def forget_closed_keys(gate: Guarded) -> None:
    """Do as if the store had no table of closed keys."""

    def work(change: Change) -> None:
        for key in list(change.draft.keys(CLOSED)):
            change.draft.delete(CLOSED, key)

    store: EmbeddedStore = gate.sidecar.sidecar.store  # type: ignore[assignment]
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
            (found,) = (await gate.operate("GET", "/memories"))["memories"]
            place = f"/memories/{found['memory_id']}"
            await gate.operate("POST", f"{place}/quarantine", {"reason": "a lie"})
            assert await gate.texts() == []
            await gate.operate("POST", f"{place}/purge", {})
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
    turns, clock = Turns(), Clock()
    composition = Composition(wait=turns, clock_ns=clock)
    async with (
        recorder() as (server, url),
        guarded(tmp_path, server, url, composition=composition) as gate,
    ):
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
