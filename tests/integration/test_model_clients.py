"""Unmodified SDKs of the model APIs: with the sidecar they do what they do without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.environments import python_environment
from tests.integration.clients.process import drive_client
from tests.integration.model_bench import call, fronted
from tests.integration.running import AGENT_KEY

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=0), pytest.mark.timeout(900)]
HERE = Path(__file__).parent / "clients"
OPENAI = "3.52.0"
ANTHROPIC = "2.11.0"
GOOD = "The person likes the library in the evening."
PROMPT = f"{call('lookup', about='library')} THEN {call('save_note', text=GOOD)}"


async def driven(driver: str, home: Path, environment: dict[str, str]) -> dict[str, Any]:
    package, version = {"openai_tasks_drive.py": ("openai", OPENAI)}.get(
        driver, ("anthropic", ANTHROPIC)
    )
    interpreter = python_environment(package, version)
    return await drive_client(
        str(interpreter), str(HERE / driver), PROMPT, home=home, environment=environment
    )


async def test_openai_completes_its_tasks_identically(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        direct = {"OPENAI_BASE_URL": f"{bench.model.url}/v1", "OPENAI_API_KEY": "sk-direct"}
        through = {"OPENAI_BASE_URL": f"{bench.front.url}/openai/v1", "OPENAI_API_KEY": AGENT_KEY}
        seen = await driven("openai_tasks_drive.py", tmp_path / "through", through)
        count = len(bench.model.requests)
        alone = await driven("openai_tasks_drive.py", tmp_path / "direct", direct)
        assert len(bench.model.requests) == 2 * count, "control"
    assert seen == alone
    said = json.dumps(seen)
    assert said.count("Done. I read: Saved.") == 4, "each of its ways"
    assert all(len(seen[name]) >= 3 for name in seen if name != "models")
    assert AGENT_KEY.encode() not in bench.model.sent_upstream()


async def test_anthropic_completes_its_tasks_identically(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        direct = {"ANTHROPIC_BASE_URL": bench.model.url, "ANTHROPIC_API_KEY": "sk-direct"}
        front = f"{bench.front.url}/anthropic"
        through = {"ANTHROPIC_BASE_URL": front, "ANTHROPIC_API_KEY": AGENT_KEY}
        seen = await driven("anthropic_tasks_drive.py", tmp_path / "through", through)
        alone = await driven("anthropic_tasks_drive.py", tmp_path / "direct", direct)
    assert seen == alone
    assert seen["saved"] == [GOOD, GOOD], "control"
    assert AGENT_KEY.encode() not in bench.model.sent_upstream()
