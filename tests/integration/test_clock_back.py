"""A clock that is turned back revives neither revoked keys nor expired tokens nor old memories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy.model import Claims
from proxy.compose.app import Composition
from tests.integration.running import AGENT_KEY, Running, running

NOW_NS = 1_750_000_000 * 10**9
HOUR_NS = 3_600 * 10**9


class Hands:
    """The clocks of one machine. The monotonic one stands still unless it is moved."""

    def __init__(self) -> None:
        self.wall_ns = NOW_NS
        self.monotonic_ns = 1

    def composition(self) -> Composition:
        return Composition(clock_ns=lambda: self.wall_ns, monotonic_ns=lambda: self.monotonic_ns)


async def _seen(live: Running, old_key: str) -> tuple[int, list[str]]:
    """How the rotated key is answered, and which memories are shown."""
    status, _ = await live.call("GET", "/v1/memories", old_key)
    return status, await live.texts(AGENT_KEY)


async def _prepare(live: Running, hands: Hands) -> str:
    """A key that works for an hour yet, and a memory that is shown as long; both end."""
    made = await live.operate("POST", "/keys", {"name": "scout"})
    old = str(made["plain"])
    key_id = made["key"]["key_id"]
    await live.operate("POST", f"/keys/{key_id}/rotate", {"grace_seconds": 3600})
    until = {"text": "until four", "expires_at": "2025-06-15T16:00:00Z"}
    assert (await live.write(AGENT_KEY, until))[0] == 201
    assert await _seen(live, old) == (200, ["until four"])  # control: both stand
    hands.wall_ns += 30 * HOUR_NS
    assert await _seen(live, old) == (401, [])
    return old


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_ended_stays_ended_when_the_clock_is_set_back(
    tmp_path: Path, *, restarted: bool
) -> None:
    hands = Hands()
    async with running(tmp_path, hands.composition()) as live:
        old = await _prepare(live, hands)
        if not restarted:
            hands.wall_ns = NOW_NS
            assert await _seen(live, old) == (401, [])
            async with live.client.get(live.admin_url + "/readyz") as answer:
                assert "behind what was written" in (await answer.json())["reason"]
    if restarted:
        hands.wall_ns = NOW_NS
        async with running(tmp_path, hands.composition()) as live:
            assert await _seen(live, old) == (401, [])
            async with live.client.get(live.admin_url + "/readyz") as answer:
                assert "behind what was written" in (await answer.json())["reason"]


async def _redeemed(live: Running, key: str, grant: dict[str, Any], text: str) -> tuple[int, Any]:
    body = {"text": text, "class": "L1", "source": "user_input"}
    return await live.write(
        key, body | {"nonce": grant["nonce"], "promotion_token": grant["token"]}
    )


async def test_a_token_that_expired_is_not_valid_again(tmp_path: Path) -> None:
    hands = Hands()
    async with running(tmp_path, hands.composition()) as live:
        key = await live.key("harness", claims=Claims.TRUSTED)
        grants = [
            await live.operate(
                "POST",
                "/tokens",
                {
                    "principal": "harness",
                    "tenant": "default",
                    "text": text,
                    "to_class": "L1",
                    "source": "user_input",
                    "expires_in_seconds": 60,
                },
            )
            for text in ("Invoices go to Acme.", "Refunds go to Zenith.")
        ]
        status, answer = await _redeemed(live, key, grants[0], "Invoices go to Acme.")
        assert status == 201, answer  # control: in time it lands
        hands.wall_ns += HOUR_NS
        assert (await live.write(AGENT_KEY, {"text": "Time passes."}))[0] == 201
        hands.wall_ns = NOW_NS
        status, answer = await _redeemed(live, key, grants[1], "Refunds go to Zenith.")
        assert (status, answer["reason"]) == (403, "promotion_token_expired"), answer
