"""`mnemogate mcp --store`, run as a host runs it: the sidecar's own store as the memory server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.dialects.mcp.store.tools import GRAPH_TOOLS, PLAIN_TOOLS
from tests.integration.cli_process import ROOT, Place
from tests.integration.clients.environments import node_environment
from tests.integration.clients.mcp_clients import EVERY, HANDSHAKE, McpClient
from tests.integration.clients.mcp_steps import SERVER_MEMORY
from tests.integration.clients.process import drive_client
from tests.integration.test_mcp_command import CANARY, POISON, files_with, host

Json = dict[str, Any]
STORE = (sys.executable, "-P", "-m", "proxy", "mcp", "--store")
PACKAGE = "@modelcontextprotocol/server-memory"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return Place(root=tmp_path)


def test_a_good_memory_is_kept_and_a_poisoned_one_is_in_no_file(place: Place) -> None:
    with host(place, "--store", behind=()) as one, host(place, "--store", behind=()) as other:
        assert "isError" not in one.create(1, "Ann", "likes green tea")
        refused = one.create(2, "Bad", POISON)
        poisoned = one.call(3, "create_memory", text=POISON)
        # Another client of the same person has the same memory, through the same gate.
        graph = other.call(1, "read_graph")
        assert [one.leave(), other.leave()] == [0, 0]
    assert "likes green tea" in json.dumps(graph)
    assert CANARY not in json.dumps([refused, poisoned, graph])
    assert poisoned["isError"] is True
    assert files_with(place, CANARY) == []
    assert files_with(place, "likes green tea")  # the control of the search
    with host(place, "--store", behind=()) as again:
        assert "likes green tea" in json.dumps(again.call(1, "read_graph"))


def test_it_is_a_server_itself_and_takes_no_other(place: Place) -> None:
    for words in (("--store", "--", "cat"), ("--store", "--map", "mem0"), ()):
        done = place.command("mcp", *words)
        assert (done.code, done.out) == (2, "")


def server_memory() -> tuple[str, ...]:
    folder = node_environment(PACKAGE, "2026.8.31")
    return ("node", str(folder / "node_modules" / PACKAGE / "dist" / "index.js"))


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_tools_are_those_of_the_original_to_the_last_key(tmp_path: Path) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    ]
    done = subprocess.run(
        server_memory(),
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "MEMORY_FILE_PATH": str(tmp_path / "m.jsonl")},
        input="".join(json.dumps(body) + "\n" for body in asked),
        text=True,
        timeout=60,
        check=True,
    )
    listed = next(
        body["result"]["tools"]
        for body in map(json.loads, done.stdout.splitlines())
        if body.get("id") == 1
    )
    assert listed == list(GRAPH_TOOLS)


HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}
SHOWN = frozenset({"content", "structuredcontent", "iserror", "contents", "text"})


def essence(seen: Any) -> Any:  # noqa: ANN401 - a list, or an object
    """What a step gave, however the client's version spells its members."""
    if isinstance(seen, list):
        return cast("list[str]", seen)
    given: Json = seen
    plain = {name.replace("_", "").lower(): value for name, value in given.items()}
    shown = {name: plain[name] for name in SHOWN & set(plain)}
    shown["iserror"] = bool(shown.get("iserror"))
    return shown


async def seen(client: McpClient, words: tuple[str, ...], base: Path) -> list[Any]:
    environment = {
        **client.environment(),
        "MEMORY_FILE_PATH": str(base / "memory.jsonl"),
        "PYTHONPATH": str(ROOT) if words == STORE else "",
        # Not where the client works.
        "MNEMOGATE_STATE": str(base.parent / "state"),
        "MNEMOGATE_CHECKPOINT": str(base.parent / "checkpoint.txt"),
    }
    given = await drive_client(
        *client.command(SERVER_MEMORY), *words, home=base, environment=environment
    )
    return [essence(one) for one in given["seen"]]


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", EVERY, ids=lambda client: client.name)
async def test_an_unmodified_client_sees_what_the_original_shows(
    client: McpClient, tmp_path: Path
) -> None:
    plain = client if client in HANDSHAKE else HANDSHAKE[1]
    original = await seen(plain, server_memory(), tmp_path / "original")
    own = await seen(client, STORE, tmp_path / "own")
    assert own[0] == [*original[0], *(tool["name"] for tool in PLAIN_TOOLS)]
    unknown = next(
        index for index, step in enumerate(SERVER_MEMORY) if "Nobody" in json.dumps(step)
    )
    # What does not exist is refused by both, by ours without its name.
    assert original[unknown]["iserror"]
    assert own[unknown]["iserror"]
    rest = [index for index in range(1, len(SERVER_MEMORY)) if index != unknown]
    if client is plain or client.package == plain.package:
        assert [own[index] for index in rest] == [original[index] for index in rest]
    else:
        assert [_texts(own[index]) for index in rest] == [_texts(original[index]) for index in rest]


def _texts(shown: Any) -> list[str]:  # noqa: ANN401
    if isinstance(shown, list):
        return cast("list[str]", shown)
    given: Json = shown
    blocks: list[Json] = given.get("content") or given.get("contents") or []
    return [block["text"] for block in blocks]
