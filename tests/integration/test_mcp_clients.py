"""Clients of every kind see what they would see without us, byte for byte, but for a short list."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from yarl import URL

from proxy.dialects.mcp.members import v2025_11_25, v2026_07_28
from proxy.mcp.http.child import ServerCommandLine
from tests.integration.clients.environments import node_environment, python_environment
from tests.integration.clients.mcp_clients import EVERY, HANDSHAKE, MCP2, McpClient
from tests.integration.clients.mcp_steps import NOTES, SERVER_MEMORY, Step
from tests.integration.clients.process import drive_client
from tests.integration.gates import bring_up
from tests.integration.hosts.bridge import bridge
from tests.integration.hosts.guarded import (
    NOTES_MAP,
    Table,
    agent_headers,
    command_table,
    open_ruleset,
    sidecar,
    wrapped,
    wrapper_environment,
)
from tests.integration.hosts.http_tee import http_tee
from tests.integration.hosts.notes_http import notes_over_http
from tests.integration.hosts.scene import HERE, Scene
from tests.integration.hosts.views import View, differences, http_view, messages_of, stdio_view
from tests.integration.mcp_bench import KEYS, bench

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
CASES: Final = [
    *(pytest.param(client, "memory", id=f"{client.name}-memory") for client in HANDSHAKE),
    *(pytest.param(client, "notes", id=f"{client.name}-notes") for client in EVERY),
]
STEPS: Final[dict[str, tuple[Step, ...]]] = {"memory": SERVER_MEMORY, "notes": NOTES}
# What differs and why. Between two direct connections as well: `DIFFERS_ANYWAY`.
DIFFERS_ANYWAY: Final = {
    "result.requestState": "signed by the server under a key of its own process",
}
# Quarantine acts at once only if no client reads from what it kept (stateless era alone).
MUST_DIFFER: Final = {
    "result.ttlMs": "0: a client asks again each time",
    "result.cacheScope": "private: nobody else's answer is used",
}
# A server that refuses a request before there is a session may leave out which one it was. A relay
# cannot: the answer goes to whom it was meant for.
NAMED_BY_US: Final = {"id": "that of the request, where the server said null"}


def expected(client: McpClient, server: str) -> set[str]:
    """The paths that differ; between handshakes none does."""
    if server == "memory" or client.mode == "legacy":
        return set()
    return {*DIFFERS_ANYWAY, *MUST_DIFFER}


def words(scene: Scene, server: str) -> tuple[str, ...]:
    if server == "memory":
        return scene.memory_words()
    interpreter = python_environment("mcp", MCP2)
    return (str(interpreter), str(HERE / "notes_server.py"), "stdio")


async def drive(client: McpClient, server: str, base: Path, *target: str) -> None:
    command = client.command(STEPS[server])
    environment = {**client.environment(), "MCP_HEADERS": json.dumps(agent_headers())}
    await drive_client(*command, *target, home=base / "home", environment=environment)


async def direct_over_stdio(client: McpClient, server: str, base: Path) -> View:
    scene = Scene(base, "nothing")
    await drive(client, server, base, *scene.recorded("client", words(scene, server)))
    return stdio_view(scene.said("client"))


async def guarded_over_stdio(client: McpClient, server: str, base: Path) -> View:
    scene = Scene(base, "nothing")
    environment = wrapper_environment(scene, MNEMOGATE_RULESET=str(open_ruleset(base)))
    await asyncio.to_thread(bring_up, environment)
    options = () if server == "memory" else ("--map", str(NOTES_MAP))
    command = wrapped(server, words(scene, server), *options)
    given = [f"{name}={value}" for name, value in environment.items()]
    await drive(client, server, base, *scene.recorded("client", ("env", *given, *command)))
    return stdio_view(scene.said("client"))


async def direct_over_http(client: McpClient, server: str, base: Path) -> View:
    async with upstream(server, base) as url:
        at = URL(url)
        async with http_tee(str(at.origin())) as tee:
            await drive(client, server, base, tee.url + at.path)
            return http_view(tee.exchanges)


async def guarded_over_http(client: McpClient, server: str, base: Path, table: Table) -> View:
    scene = Scene(base / "guarded", "nothing")
    named = {} if server == "memory" else {"map": str(NOTES_MAP)}
    tables = {server: {**table, **named}}
    async with sidecar(scene, tables, open_ruleset(base)) as (_, tee):
        await drive(client, server, base, f"{tee.url}/mcp/{server}")
        return http_view(tee.exchanges)


@asynccontextmanager
async def upstream(server: str, base: Path) -> AsyncGenerator[str]:
    if server == "notes":
        async with notes_over_http() as url:
            yield url
    else:
        async with bridge(Scene(base, "nothing").memory_words()) as url:
            yield url


@pytest.mark.share(of=3)
@pytest.mark.parametrize(("client", "server"), CASES)
async def test_over_stdio(client: McpClient, server: str, tmp_path: Path) -> None:
    direct = await direct_over_stdio(client, server, tmp_path / "direct")
    guarded = await guarded_over_stdio(client, server, tmp_path / "guarded")
    assert differences(direct, guarded) == expected(client, server)


@pytest.mark.share(of=3)
@pytest.mark.parametrize(("client", "server"), CASES)
async def test_over_http(client: McpClient, server: str, tmp_path: Path) -> None:
    direct = await direct_over_http(client, server, tmp_path / "direct")
    async with upstream(server, tmp_path / "upstream") as url:
        guarded = await guarded_over_http(client, server, tmp_path, {"url": url})
    probed = client.mode == "auto" and server == "memory"
    differ = {*expected(client, server), *(NAMED_BY_US if probed else ())}
    assert differences(direct, guarded) == differ


@pytest.mark.share(of=3)
@pytest.mark.parametrize(("client", "server"), CASES)
async def test_over_http_with_a_server_that_the_sidecar_runs(
    client: McpClient, server: str, tmp_path: Path
) -> None:
    """Its pipe does not say to which call a message belongs, so only the messages are compared."""
    direct = await direct_over_stdio(client, server, tmp_path / "direct")
    table = command_table(words(Scene(tmp_path / "behind", "nothing"), server))
    guarded = await guarded_over_http(client, server, tmp_path, table)
    assert differences(messages_of(direct), messages_of(guarded)) == expected(client, server)


PATH = "/usr/local/bin:/usr/bin:/bin"


async def seen(
    client: McpClient, steps: Sequence[Step], target: Sequence[str], base: Path
) -> dict[str, Any]:
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


@pytest.mark.share(of=3)
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


@pytest.mark.share(of=3)
@pytest.mark.parametrize("client", EVERY, ids=lambda client: client.name)
async def test_a_server_behind_its_own_url(client: McpClient, tmp_path: Path) -> None:
    async with notes_over_http() as url:
        direct = await seen(client, NOTES, (url,), tmp_path / "direct")
    async with notes_over_http() as url, bench(url) as front:
        through = await seen(client, NOTES, (front.url + "/mcp/small",), tmp_path / "through")
    assert through == direct
    assert len(direct["seen"]) == len(NOTES), "control"


SCRIPT = Path(__file__).parent / "clients" / "mcp_members.py"
TABLES = {"2025-11-25": v2025_11_25.TABLE, "2026-07-28": v2026_07_28.TABLE}


@pytest.mark.parametrize("version", TABLES)
def test_the_table_is_what_the_types_say(version: str) -> None:
    interpreter = python_environment("mcp", MCP2)
    done = subprocess.run(
        [interpreter, SCRIPT, version], capture_output=True, text=True, check=True, timeout=120
    )
    assert TABLES[version].strip() == done.stdout.strip()
