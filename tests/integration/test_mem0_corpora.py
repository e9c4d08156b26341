"""Real conversations through an unmodified `mem0ai`: every one stored, each found again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.integration.mem0_environment import mem0_python
from tests.integration.running import AGENT_KEY, running

DRIVER = "tests/integration/clients/mem0_corpora.py"


@pytest.mark.heavy
@pytest.mark.corpora
@pytest.mark.timeout(900)
async def test_every_benign_text_is_stored_and_each_observation_found_at_rank_one(
    corpora: Path, tmp_path: Path
) -> None:
    python = await asyncio.to_thread(mem0_python)
    async with running(tmp_path) as live:
        process = await asyncio.create_subprocess_exec(
            str(python),
            DRIVER,
            live.url,
            AGENT_KEY,
            str(corpora),
            stdout=asyncio.subprocess.PIPE,
            env={"HOME": str(tmp_path), "MEM0_TELEMETRY": "false", "PATH": "/usr/bin:/bin"},
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        report = json.loads(output)
        assert (report["observations"], report["turns"]) == (1_210, 2_760)
        assert report["observations_refused"] == []
        assert report["turns_refused"] == []
        assert report["observations_lost"] == []
        status = live.sidecar.store.reader.status()
        assert (status.version, status.held_count) == (1_210 + 2_760, 0)
        assert live.sidecar.store.reader.check().problems == ()
