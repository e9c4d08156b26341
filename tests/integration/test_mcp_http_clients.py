"""Unmodified MCP clients through `/mcp/<server>`: they see what they see without it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.mcp.http.child import ServerCommandLine
from tests.integration.clients.environments import node_environment
from tests.integration.clients.mcp_clients import EVERY, HANDSHAKE, McpClient
from tests.integration.clients.mcp_steps import NOTES, SERVER_MEMORY, Step
from tests.integration.clients.process import drive_client
from tests.integration.hosts.notes_http import notes_over_http
from tests.integration.mcp_bench import KEYS, bench

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
PATH = "/usr/local/bin:/usr/bin:/bin"


async def seen(
    client: McpClient, steps: Sequence[Step], target: Sequence[str], base: Path
) -> dict[str, Any]:
    """What every step gave, and the protocol's version."""
    environment = {
        **client.environment(),
        "MCP_HEADERS": json.dumps({"Authorization": f"Bearer {KEYS['ada']}"}),
        "MEMORY_FILE_PATH": str(base / "memory.jsonl"),
    }
    words = (*client.command(steps), *target)
    return await drive_client(*words, home=base, environment=environment)


def server_memory() -> tuple[str, ...]:
    package = "@modelcontextprotocol/server-memory"
    folder = node_environment(package, "2026.8.31")
    return ("node", str(folder / "node_modules" / package / "dist" / "index.js"))


@pytest.mark.parametrize("client", HANDSHAKE, ids=lambda client: client.name)
async def test_server_memory_as_a_command(client: McpClient, tmp_path: Path) -> None:
    words = server_memory()
    direct = await seen(client, SERVER_MEMORY, words, tmp_path / "direct")
    environment = {"PATH": PATH, "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    command = ServerCommandLine(words=words, environment=environment, directory=str(tmp_path))
    # A memory server behind a guard that admits all of it: every call is judged, every read sifted.
    async with bench(command, remembers=True) as front:
        through = await seen(
            client, SERVER_MEMORY, (front.url + "/mcp/small",), tmp_path / "through"
        )
    assert through == direct
    assert len(direct["seen"]) == len(SERVER_MEMORY), "control"


@pytest.mark.parametrize("client", EVERY, ids=lambda client: client.name)
async def test_a_server_behind_its_own_url(client: McpClient, tmp_path: Path) -> None:
    async with notes_over_http() as url:
        direct = await seen(client, NOTES, (url,), tmp_path / "direct")
    async with notes_over_http() as url, bench(url) as front:
        through = await seen(client, NOTES, (front.url + "/mcp/small",), tmp_path / "through")
    assert through == direct
    assert len(direct["seen"]) == len(NOTES), "control"
