"""kill -9 at each commit of an erasure: the next start goes on where it was, and ends it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.conformance.canary import traces
from tests.integration.test_erasing import ANA, BOB, CEM, PEOPLE, in_front, servers

LIVES_MAX = 60


async def life(root: Path, number: int) -> tuple[int, str]:
    """Run a sidecar that erases; return how it ended, and what it printed."""
    words = ("-P", "-m", "tests.fault.erasing_process")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        str(root),
        str(root / "tables.toml"),
        ANA,
        str(number),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


@pytest.mark.whole
@pytest.mark.timeout(1_800)
async def test_an_erasure_that_is_killed_after_each_of_its_commits_is_ended(tmp_path: Path) -> None:
    async with servers() as behind:
        async with in_front(behind, tmp_path) as home:
            for who in PEOPLE:
                await home.fill(who)
        (tmp_path / "tables.toml").write_text(behind.tables)
        # Not always after the first commit: a look-up may record once more what is known.
        kills = 0
        while True:
            code, out = await life(tmp_path, 1 + kills % 3)
            if code != -signal.SIGKILL:
                break
            kills += 1
            if kills == 1:
                # The control: a life alone does not erase.
                assert traces(tmp_path, home.canaries[ANA])
                assert home.on_servers(ANA) == [1, 1, 1]
            assert kills < LIVES_MAX
        assert code == 0
        # Of the beginning, the other traces, an intent and its outcome for each server, the purges
        # and the end, each third is the last commit of a life.
        assert kills >= 6
        assert json.loads(out.splitlines()[1])["found"]["memories"] == 4
        assert traces(tmp_path, home.canaries[ANA]) == []
        assert home.on_servers(ANA) == [0, 0, 0]
        for who in (BOB, CEM):
            assert traces(tmp_path, home.canaries[who])
            assert home.on_servers(who) == [1, 1, 1]
