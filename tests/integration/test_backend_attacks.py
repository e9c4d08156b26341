"""Attacks through a real memory server behind the gate: nothing of them is in any file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conformance.backend_attacks import CONTROLS, PAPER, measured
from tests.fault.backend_kills.__main__ import SERVERS

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
TRIALS = 30
# The server itself reads none of these bodies.
NEVER_LANDS = {"chroma": {"a body with a name given twice"}, "langgraph": set[str]()}


@pytest.mark.parametrize("adapter", [*SERVERS])
async def test_nothing_of_a_refused_attack_is_in_a_byte_of_the_server_or_of_the_sidecar(
    adapter: str, tmp_path: Path
) -> None:
    found = await asyncio.to_thread(measured, adapter, tmp_path, TRIALS)
    for row, (gate, off, plain) in found.items():
        assert (gate.refused, gate.landed) == (gate.tried, 0), row
        # Control: by the same search, it lands without the sidecar, or where the gate is off.
        landed = off.landed + plain.landed
        assert (landed > 0) is (row not in NEVER_LANDS[adapter]), row
    assert sum(found[row][0].tried for row in PAPER) == TRIALS * len(PAPER) == 150
    for row in PAPER:
        assert found[row][1].landed == CONTROLS, row
