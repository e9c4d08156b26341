"""The tables of members are those of the types that the `mcp` package installs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from proxy.dialects.mcp.members import v2025_11_25, v2026_07_28
from tests.integration.clients.environments import python_environment
from tests.integration.clients.mcp_clients import MCP2

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
SCRIPT = Path(__file__).parent / "clients" / "mcp_members.py"
TABLES = {"2025-11-25": v2025_11_25.TABLE, "2026-07-28": v2026_07_28.TABLE}


@pytest.mark.parametrize("version", TABLES)
def test_the_table_is_what_the_types_say(version: str) -> None:
    interpreter = python_environment("mcp", MCP2)
    done = subprocess.run(
        [interpreter, SCRIPT, version], capture_output=True, text=True, check=True, timeout=120
    )
    assert TABLES[version].strip() == done.stdout.strip()
