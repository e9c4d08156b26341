"""The five attacks of the evaluation, thirty trials each, put to a sidecar of a test's own."""

from __future__ import annotations

from random import SystemRandom
from typing import Any

import msgspec

from tests.evaluate.attacks import ATTACKS, WALLS, Tamperer, Trial, directive, statement
from tests.evaluate.wire import Write
from tests.integration.running import Json, Running

__all__ = ["ATTACKS", "TRIALS", "WALLS", "Tamperer", "attempt", "directive", "statement"]

TRIALS = 30


def _sent(body: Write) -> Json:
    sent: dict[str, Any] = msgspec.to_builtins(body)
    return sent


async def attempt(
    live: Running, attack: str, number: int, tamperer: Tamperer
) -> tuple[Trial, int, Json, str]:
    """Run one trial: what was tried, the status and body of the answer, and the key used."""
    trial = ATTACKS[attack](number, SystemRandom())
    key = await live.key(f"{attack.lower()}-{number}", claims=trial.claims)
    if trial.before is not None:
        status, _ = await live.write(key, _sent(trial.before))
        assert status == 201
    tamperer.canary = trial.canary if trial.tampers else None
    status, body = await live.write(key, _sent(trial.body))
    tamperer.canary = None
    return trial, status, body, key
