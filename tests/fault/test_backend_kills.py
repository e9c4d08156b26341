"""kill -9 between intent and result: no outcome is wrong, and nothing is sent a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import HEAVY
from tests.fault.backend_kills.__main__ import SERVERS
from tests.fault.backend_kills.lives import Counts, kill_in_front
from tests.integration.memory_servers.kinds import KINDS
from tests.integration.memory_servers.recorder import recorder


def _held(counts: Counts, kills: int) -> None:
    assert counts.wrong == []
    assert counts.listed == 0
    assert counts.kills.total() == kills
    # The kills hit something: writes were under way, and the server had done some of them.
    assert counts.in_flight > counts.done_in_flight > 0


@pytest.mark.timeout(300)
async def test_a_sidecar_that_dies_while_it_writes_to_a_server_behind_knows_what_arrived(
    tmp_path: Path,
) -> None:
    kills = 18 if HEAVY else 6
    async with recorder() as (_, url):
        _held(await kill_in_front(KINDS["langgraph"], url, tmp_path, kills, 1), kills)


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("adapter", [*SERVERS])
async def test_a_sidecar_that_dies_in_front_of_the_real_server_knows_what_arrived(
    adapter: str, tmp_path: Path
) -> None:
    (tmp_path / "gate").mkdir()
    with SERVERS[adapter](tmp_path / "server") as url:
        _held(await kill_in_front(KINDS[adapter], url, tmp_path / "gate", 6, 1), 6)
