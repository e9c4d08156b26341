"""A1 to A5, 150 trials: each refused at the step that is its wall, and not a byte of it formed."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.compose.app import Composition
from tests.conformance.attacks import ATTACKS, TRIALS, WALLS, Tamperer, attempt
from tests.conformance.canary import traces
from tests.evaluate.unsafe import unsafe_gate_without
from tests.integration.running import OPERATOR_KEY, running


@pytest.mark.parametrize("attack", ATTACKS)
async def test_every_trial_is_refused_at_its_wall_and_leaves_nothing(
    attack: str, tmp_path: Path
) -> None:
    tamperer = Tamperer()
    canaries: list[str] = []
    async with running(tmp_path, Composition(failpoint=tamperer)) as live:
        tamperer.sidecar = live.sidecar
        for number in range(TRIALS):
            before = live.sidecar.store.reader.check()
            trial, status, body, key = await attempt(live, attack, number, tamperer)
            landed = 0 if trial.before is None else 1
            assert (status, body["step"], body["reason"]) == (
                trial.status,
                trial.step,
                trial.reason,
            )
            assert trial.canary not in str(body)
            after = live.sidecar.store.reader.check()
            assert after.problems == ()
            grown = (after.rows, after.vectors, after.version)
            assert grown == tuple(n + landed for n in (before.rows, before.vectors, before.version))
            assert all(trial.canary not in text for text in await live.texts(key))
            assert traces(tmp_path, trial.canary) == []
            canaries.append(trial.canary)
    async with running(tmp_path) as again:
        assert again.sidecar.store.reader.check().problems == ()
        texts = await again.texts(OPERATOR_KEY)
        assert all(canary not in text for canary in canaries for text in texts)
    assert [found for canary in canaries for found in traces(tmp_path, canary)] == []


@pytest.mark.parametrize("attack", ATTACKS)
async def test_control_the_same_requests_land_where_the_wall_is_missing(
    attack: str, tmp_path: Path
) -> None:
    tamperer = Tamperer()
    gate = unsafe_gate_without(WALLS[attack])
    async with running(tmp_path, Composition(gate=gate, failpoint=tamperer)) as live:
        tamperer.sidecar = live.sidecar
        for number in range(TRIALS):
            trial, status, body, key = await attempt(live, attack, number, tamperer)
            assert status == 201, body
            assert any(trial.canary in text for text in await live.texts(key))
            # A5's vector is that of the innocent text, so its hit need not be the first.
            asked = {"query": trial.canary, "limit": 100}
            _, found = await live.call("POST", "/v1/search", key, asked)
            assert any(trial.canary in hit["text"] for hit in found["results"])
            assert traces(tmp_path, trial.canary) != []
