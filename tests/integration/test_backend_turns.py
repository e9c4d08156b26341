"""Changes of one key of a memory server at the same time, and changes that come late."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from policy.model import Channel, Claims
from proxy.fronts.backend_writes import TEND_S
from proxy.seams.waits import ReleaseBell
from tests.integration.memory_servers.recorder import Fault, recorder
from tests.integration.test_backend_store import ALICE, Guarded, guarded, patient

ADA = "Ada keeps bees in her garden"
GRACE = "Grace collects stamps of the year nineteen twelve"
DOCTOR = "My doctor is Dr. Okafor"
OTHER_DOCTOR = "My doctor is Dr. Malory"
K1 = (tuple(ALICE), "k1")
ROUNDS = 20


async def deleted(gate: Guarded, key: str | None = None) -> int:
    body = {"namespace": ALICE, "key": "k1"}
    more = {} if key is None else {"key": key}
    status, _, _ = await gate.ask("DELETE", "/store/items", body, **more)
    return status


async def meet(
    gate: Guarded, first: Coroutine[None, None, Any], second: Coroutine[None, None, Any]
) -> tuple[Any, Any]:
    """Both answers. The second one is on its way before the server says anything to the first."""
    gate.server.asked.clear()
    gate.server.may_answer.clear()
    earlier = asyncio.create_task(first)
    await gate.server.asked.wait()
    later = asyncio.create_task(second)
    for _ in range(ROUNDS):
        # Both listeners share a loop, so the second request moves on meanwhile, if it can.
        await gate.ask("GET", "/info")
    gate.server.may_answer.set()
    return await earlier, await later


async def test_two_tenants_that_put_one_new_key_at_once_do_not_both_have_it(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        mine, theirs = await meet(gate, gate.put(ADA), gate.put(GRACE, key=other))
        assert mine == (204, None)
        assert theirs[0] == 403
        assert "target_missing" in theirs[1]["detail"]
        assert server.items[K1] == {"text": ADA}
        assert await gate.get(key=other) is None
        # Control: a key of its own is the other tenant's at once.
        assert await gate.put(GRACE, "k2", other) == (204, None)


async def test_different_keys_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        server.asked.clear()
        server.may_answer.clear()
        tasks = [asyncio.create_task(gate.put(ADA, name)) for name in ("k1", "k2")]
        while len([one for one in server.seen if one.target.startswith("/store/items?")]) < 2:
            await gate.ask("GET", "/info")
        server.may_answer.set()
        assert [(await one)[0] for one in tasks] == [204, 204]


async def test_a_put_beside_the_users_first_one_is_judged_as_a_change_of_it(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        user = await gate.sidecar.key("ada", channel=Channel.USER, claims=Claims.TRUSTED)
        users, agents = await meet(gate, gate.put(DOCTOR, key=user), gate.put(OTHER_DOCTOR))
        assert (users[0], agents[0]) == (204, 403)
        assert "source_below_stored" in agents[1]["detail"]
        assert server.items[K1] == {"text": DOCTOR}
        # Control: the user may.
        assert (await gate.put(OTHER_DOCTOR, key=user))[0] == 204


async def test_a_put_beside_a_deletion_of_its_key_belongs_to_who_put_it(tmp_path: Path) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        assert (await gate.put(ADA))[0] == 204
        gone, put = await meet(gate, deleted(gate), gate.put(GRACE))
        assert (gone, put[0]) == (204, 204)
        assert server.items[K1] == {"text": GRACE}
        assert await gate.texts() == [GRACE]
        assert await gate.texts(other) == []


async def test_a_release_over_what_another_tenant_has_by_now_is_not_sent(tmp_path: Path) -> None:
    async with patient(tmp_path) as (gate, turns, _):
        server = gate.server
        other = await gate.sidecar.key("other", tenant="other")
        server.put("k1", {"text": "the user's own words"})
        server.put("k2", {"text": "the user's own words"})
        assert (await gate.put(ADA))[0] == 403
        assert (await gate.put(ADA, "k2"))[0] == 403
        held = (await gate.sidecar.operate("GET", "/review"))["held"]
        assert len(held) == 2
        del server.items[K1]
        assert (await gate.put(GRACE, key=other))[0] == 204
        for one in held:
            await gate.sidecar.operate("POST", f"/review/{one['candidate_id']}/release", {})
        await turns.turn(TEND_S)
        assert gate.unsettled() == []
        # Control: the other release, of a key that is nobody else's, was sent.
        assert server.items == {K1: {"text": GRACE}, (tuple(ALICE), "k2"): {"text": ADA}}
        assert await gate.texts(other) == [GRACE]
        assert await gate.texts() == [ADA]


async def test_a_put_over_words_that_the_server_does_not_show_is_a_change_of_them(
    tmp_path: Path,
) -> None:
    async with recorder() as (server, url), guarded(tmp_path, server, url) as gate:
        user = await gate.sidecar.key("ada", channel=Channel.USER, claims=Claims.TRUSTED)
        assert (await gate.put(DOCTOR, key=user))[0] == 204
        server.items.clear()
        status, said = await gate.put(OTHER_DOCTOR)
        assert (status, "source_below_stored" in said["detail"]) == (403, True)
        assert server.items == {}
        # Control: the user may, and a key that nobody has is free.
        assert (await gate.put(DOCTOR, key=user))[0] == 204
        assert (await gate.put(OTHER_DOCTOR, "k2"))[0] == 204


@pytest.mark.parametrize("gone", [False, True])
async def test_while_a_lost_write_is_looked_up_its_key_takes_no_other(
    tmp_path: Path, *, gone: bool
) -> None:
    async with patient(tmp_path) as (gate, turns, _):
        server = gate.server
        assert (await gate.put(ADA))[0] == 204
        server.fault = Fault.CUT
        assert (await deleted(gate) if gone else (await gate.put(DOCTOR))[0]) == 502
        for status in ((await gate.put(GRACE))[0], (await gate.put(GRACE))[0]):
            assert status == 503
        assert len(server.writes) == 2
        # Control: other keys are free, and this one is once the lost write is settled.
        assert (await gate.put(GRACE, "k2"))[0] == 204
        await turns.turn(TEND_S)
        assert gate.unsettled() == []
        assert (await gate.put(GRACE))[0] == 204
        assert await gate.texts() == [GRACE, GRACE]


def _silent(_bell: ReleaseBell) -> None:
    """Announce a release to no one."""


async def test_a_release_is_sent_at_once_and_not_at_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with patient(tmp_path) as (gate, turns, _):
        server = gate.server
        server.put("k1", {"text": "the user's own words"})
        server.put("k2", {"text": "the user's own words"})
        assert (await gate.put(ADA))[0] == 403
        (first,) = (await gate.sidecar.operate("GET", "/review"))["held"]
        await gate.sidecar.operate("POST", f"/review/{first['candidate_id']}/release", {})
        async with asyncio.timeout(30):
            while server.items[K1] != {"text": ADA}:  # noqa: ASYNC110 - the server's own
                await asyncio.sleep(0.01)
        # Control: unannounced, a release waits for the turn.
        monkeypatch.setattr(ReleaseBell, "announce", _silent)
        assert (await gate.put(ADA, "k2"))[0] == 403
        (second,) = (await gate.sidecar.operate("GET", "/review"))["held"]
        await gate.sidecar.operate("POST", f"/review/{second['candidate_id']}/release", {})
        await turns.waits(TEND_S)
        assert server.items[tuple(ALICE), "k2"] != {"text": ADA}
        await turns.turn(TEND_S)
        assert server.items[tuple(ALICE), "k2"] == {"text": ADA}
