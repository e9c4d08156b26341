"""A disk without room, or a quota that is reached, is told to whoever watches; so is its end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from storage.write.writer import EmbeddedWriter
from tests.fault.other_processes import holding
from tests.fault.test_full_disk import fill, small_disk
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, Running, running

LONG = "many words " * 500
DEADLINE_S = 60
WRITES_MAX = 5_000
# Only the disk and the quota refuse here.
FLAGS = {"tenant_share": "1", "retention_seconds": "0"}


async def _told(sidecar: Running) -> tuple[int, Any, str]:
    """Status and body of the strict question, and the line of the metric."""
    async with sidecar.client.get(sidecar.admin_url + "/readyz?strict=true") as answer:
        status, body = answer.status, await answer.json()
    async with sidecar.client.get(sidecar.admin_url + "/readyz") as answer:
        assert (answer.status, await answer.json()) == (200, body), "in service all the same"
    async with sidecar.client.get(sidecar.admin_url + "/metrics") as answer:
        lines = (await answer.text()).splitlines()
    (metric,) = [line for line in lines if line.startswith("mnemogate_store_writable ")]
    return status, body, metric.split()[1]


async def _until_refused(sidecar: Running, code: int) -> list[str]:
    """Ids of everything that landed before the first refusal, by an operator: no class floor."""
    landed: list[str] = []
    for number in range(WRITES_MAX):
        body = {"text": f"{number} {LONG}", "class": "L3"}
        status, answer = await sidecar.write(OPERATOR_KEY, body)
        if status != 201:
            assert status == code, answer
            return landed
        landed.append(answer["id"])
    raise AssertionError("it was never full")


async def _purge(sidecar: Running, memory_id: str) -> None:
    await sidecar.operate("POST", f"/memories/{memory_id}/purge", {"tenant": "default"})


async def _turn(sidecar: Running) -> None:
    """One turn of the writer that writes nothing for anybody."""
    writer = sidecar.sidecar.store.writer
    assert isinstance(writer, EmbeddedWriter)
    await writer.run(lambda: None)


async def _until_ready(sidecar: Running) -> None:
    """Turns of the writer, none of which writes anything for anybody.

    One question a turn: the sidecar's own turns go on, and may end it between two of them.
    """
    async with asyncio.timeout(DEADLINE_S):
        while not await _is_ready(sidecar):
            await _turn(sidecar)


async def _is_ready(sidecar: Running) -> bool:
    async with sidecar.client.get(sidecar.admin_url + "/readyz?strict=true") as answer:
        return answer.status == 200


async def test_a_full_disk_below_the_quota_is_degraded_and_ready_again_by_itself(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", "32m") as disk:
        ballast = disk / "ballast"
        async with running(disk, flags=FLAGS) as sidecar:
            assert await _told(sidecar) == (
                200,
                {"status": "ready", "reason": None, "mode": "enforce"},
                "1.0",
            )
            fill(ballast)
            landed = await _until_refused(sidecar, 503)
            status = sidecar.sidecar.store.reader.status()
            assert status.bytes_used * 10 < status.bytes_quota, "control: not the quota"
            code, body, metric = await _told(sidecar)
            assert (code, body["status"], metric) == (503, "degraded", "0.0")
            assert "No space left on device" in body["reason"]
            assert str(disk) not in body["reason"], "no place of this machine"
            read, page = await sidecar.call("GET", "/v1/memories?limit=1000", AGENT_KEY)
            assert (read, len(page["memories"])) == (200, len(landed)), "reads go on"
            # Control: time alone heals nothing.
            for _ in range(20):
                await _turn(sidecar)
            assert (await _told(sidecar))[0] == 503
            ballast.unlink()
            await _until_ready(sidecar)
            assert (await _told(sidecar))[1:] == (
                {"status": "ready", "reason": None, "mode": "enforce"},
                "1.0",
            )
            assert (await sidecar.write(AGENT_KEY, {"text": "There is room again."}))[0] == 201
            # Full again, and the first write that lands is as good a proof.
            fill(ballast)
            await _until_refused(sidecar, 503)
            assert (await _told(sidecar))[0] == 503
            ballast.unlink()
            assert (await sidecar.write(AGENT_KEY, {"text": "And once more."}))[0] == 201
            assert (await _told(sidecar))[0] == 200
            assert sidecar.sidecar.store.reader.check().problems == ()


async def test_a_quota_that_is_reached_is_degraded_until_memories_are_purged(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, flags=FLAGS | {"quota_bytes": str(16 << 20)}) as sidecar:
        assert (await _told(sidecar))[2] == "1.0"
        landed = await _until_refused(sidecar, 507)
        code, body, metric = await _told(sidecar)
        assert (code, body["status"], metric) == (503, "degraded", "0.0")
        assert body["reason"] == "the store has reached its quota"
        for memory_id in landed[:8]:
            await _purge(sidecar, memory_id)
        code, body, metric = await _told(sidecar)
        assert (code, body["reason"], metric) == (200, None, "1.0")
        assert (await sidecar.write(AGENT_KEY, {"text": "There is room again."}))[0] == 201


@pytest.mark.heavy
async def test_a_sidecar_that_hangs_says_503_in_time_and_a_retry_learns_the_outcome(
    tmp_path: Path,
) -> None:
    body: Json = {"text": "The kiosk opens at nine.", "nonce": "n-1"}
    async with running(tmp_path) as sidecar:
        with holding(sidecar.state / "store", "write"):
            started = time.monotonic()
            status, answer = await sidecar.write(AGENT_KEY, body)
            waited_s = time.monotonic() - started
            assert status == 503
            assert "outcome_unknown" in answer["detail"]
            assert 5 < waited_s < 15
            started = time.monotonic()
            status, answer = await sidecar.write(AGENT_KEY, body | {"nonce": "n-2"})
            assert (status, time.monotonic() - started < 4.5) == (503, True)
            assert "nothing was written" in answer["detail"]
            assert await sidecar.texts(AGENT_KEY) == []
            assert await _readiness(sidecar) == "degraded"
        for _ in range(100):
            status, answer = await sidecar.write(AGENT_KEY, body)
            if status == 201:
                break
            await asyncio.sleep(0.05)
        assert status == 201
        assert await sidecar.texts(AGENT_KEY) == [body["text"]]
        assert sidecar.version() == 1


async def _readiness(sidecar: Running) -> str:
    async with sidecar.client.get(f"{sidecar.admin_url}/readyz") as response:
        answer: Json = await response.json()
    return str(answer["status"])
