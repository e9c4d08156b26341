"""A real sidecar whose writer is kept waiting: answered within the deadline, and truthfully."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.fault.other_processes import holding
from tests.integration.running import AGENT_KEY, Json, Running, running


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
