"""Memories of the more trusted, and those of other tenants, by every route."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from policy.model import Channel
from tests.integration.running import AGENT_KEY, Running, running

Way = tuple[str, str, str, Any]  # scheme, method, path, body; ID in them stands for the memory's

HERS: Final = "The cellar door sticks in winter."
NATIVE, PLATFORM, SERVER = "Bearer", "Token", "X-API-Key"
CHANGES: Final[dict[str, Way]] = {
    "text": (NATIVE, "PATCH", "/v1/memories/ID", {"text": "changed"}),
    "metadata": (NATIVE, "PATCH", "/v1/memories/ID", {"metadata": {"a": 1}}),
    "class": (NATIVE, "PATCH", "/v1/memories/ID", {"class": "L4"}),
    "its end": (
        NATIVE,
        "PATCH",
        "/v1/memories/ID",
        {"text": "x", "expires_at": "2000-01-01T00:00:00Z"},
    ),
    "put": (NATIVE, "PUT", "/v1/memories/ID", {"text": "changed"}),
    "with a nonce": (
        NATIVE,
        "PATCH",
        "/v1/memories/ID",
        {"text": "changed", "nonce": "nonce of ID"},
    ),
    "delete": (NATIVE, "DELETE", "/v1/memories/ID", None),
    "delete where": (NATIVE, "DELETE", "/v1/memories?target=memories", None),
    "batch delete": (
        *(NATIVE, "POST", "/v1/memories/batch"),
        {"operations": [{"op": "delete", "id": "ID"}]},
    ),
    "batch update": (
        *(NATIVE, "POST", "/v1/memories/batch"),
        {"operations": [{"op": "update", "id": "ID", "text": "changed"}]},
    ),
    "under its id": (NATIVE, "POST", "/v1/memories", {"text": "changed", "id": "ID"}),
    "platform put": (PLATFORM, "PUT", "/v1/memories/ID/", {"text": "changed"}),
    "platform delete": (PLATFORM, "DELETE", "/v1/memories/ID/", None),
    "platform batch update": (
        *(PLATFORM, "PUT", "/v1/batch/"),
        {"memories": [{"memory_id": "ID", "text": "changed"}]},
    ),
    "platform batch delete": (
        *(PLATFORM, "DELETE", "/v1/batch/"),
        {"memories": [{"memory_id": "ID"}]},
    ),
    "platform delete where": (PLATFORM, "DELETE", "/v1/memories/?user_id=ada", None),
    "platform delete entity": (PLATFORM, "DELETE", "/v2/entities/user/ada/", None),
    "server put": (SERVER, "PUT", "/memories/ID", {"text": "changed"}),
    "server delete": (SERVER, "DELETE", "/memories/ID", None),
    "server delete where": (SERVER, "DELETE", "/memories?user_id=ada", None),
    "server reset": (SERVER, "POST", "/reset", {}),
}
READS: Final[dict[str, Way]] = {
    "get": (NATIVE, "GET", "/v1/memories/ID", None),
    "history": (NATIVE, "GET", "/v1/memories/ID/history", None),
    "list": (NATIVE, "GET", "/v1/memories?user_id=ada", None),
    "entities": (NATIVE, "GET", "/v1/entities", None),
    "search": (NATIVE, "POST", "/v1/search", {"query": HERS}),
    "search by metadata": (
        *(NATIVE, "POST", "/v1/search"),
        {"query": HERS, "filters": {"metadata": {"floor": 1}}},
    ),
    "made of it": (NATIVE, "POST", "/v1/memories", {"text": "It does.", "derived_from": ["ID"]}),
    "platform get": (PLATFORM, "GET", "/v1/memories/ID/", None),
    "platform history": (PLATFORM, "GET", "/v1/memories/ID/history/", None),
    "platform search": (
        *(PLATFORM, "POST", "/v2/memories/search/"),
        {"query": HERS, "filters": {"user_id": "ada"}, "org_id": "hers", "project_id": "ada"},
    ),
    "platform list of others": (
        *(PLATFORM, "POST", "/v2/memories/"),
        {"filters": {"NOT": [{"user_id": "nobody"}]}},
    ),
    "platform list by id": (
        PLATFORM,
        "POST",
        "/v2/memories/",
        {"filters": {"AND": [{"user_id": "ada"}, {"memory_ids": ["ID"]}]}},
    ),
    "server get": (SERVER, "GET", "/memories/ID", None),
    "server list": (SERVER, "GET", "/memories?user_id=ada", None),
}
SHOW_NO_TEXT: Final = {"entities", "made of it"}
_OURS: Final = re.compile(
    rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|(?<=\"recall_id\":\")[0-9a-f]{16}"
)


async def ask(on: Running, way: Way, memory_id: str, key: str) -> tuple[int, bytes]:
    """Status and body of one request, with this memory's id in its place."""
    scheme, method, path, body = way
    headers = {"Content-Type": "application/json", "Mem0-User-ID": "ada"}
    credential = key if scheme == SERVER else f"{scheme} {key}"
    headers["X-API-Key" if scheme == SERVER else "Authorization"] = credential
    data = None if body is None else msgspec.json.encode(body).replace(b"ID", memory_id.encode())
    url = on.url + path.replace("ID", memory_id)
    async with on.client.request(method, url, data=data, headers=headers) as answer:
        return answer.status, await answer.read()


@asynccontextmanager
async def hers(base: Path, channel: Channel, tenant: str) -> AsyncGenerator[tuple[Running, str]]:
    """A sidecar with a memory of somebody more trusted than an agent: her key's, and its id."""
    async with running(base) as on:
        key = await on.key("ada", tenant=tenant, channel=channel)
        said = {"text": HERS, "user_id": "ada", "metadata": {"floor": 1}}
        status, made = await on.write(key, said)
        assert status == 201, made
        yield on, key
        status, now = await on.call("GET", f"/v1/memories/{made['id']}", key)
        assert (status, now["text"], now["metadata"]) == (200, HERS, {"floor": 1})
        assert (now["candidate_id"], now["class"]) == (made["candidate_id"], made["memory_class"])
        changed, told = await ask(on, CHANGES["text"], made["id"], key)
        assert changed == 200, (told, "control: she may")


async def memory_of(on: Running, key: str) -> str:
    _, page = await on.call("GET", "/v1/memories", key)
    return str(page["memories"][0]["id"])


@pytest.mark.parametrize("channel", [Channel.USER, Channel.OPERATOR])
async def test_an_agent_changes_no_memory_of_who_is_more_trusted_by_any_route(
    tmp_path: Path, channel: Channel
) -> None:
    async with hers(tmp_path, channel, "default") as (on, key):
        memory_id = await memory_of(on, key)
        for name, way in CHANGES.items():
            status, body = await ask(on, way, memory_id, AGENT_KEY)
            assert status < 500, name
            assert b'"decision":"admit"' not in body, name
            _, now = await on.call("GET", f"/v1/memories/{memory_id}", key)
            assert now["text"] == HERS, name


async def test_an_agent_changes_its_own_by_those_routes(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        for name, way in CHANGES.items():
            if name in {"under its id", "server reset"}:
                continue
            body = {"text": HERS, "user_id": "ada", "metadata": {"floor": 1}}
            status, made = await on.write(AGENT_KEY, body)
            assert status == 201, made
            status, told = await ask(on, way, made["id"], AGENT_KEY)
            assert status == 200, (name, told)
            _, now = await on.call("GET", f"/v1/memories/{made['id']}", AGENT_KEY)
            assert now.get("candidate_id") != made["candidate_id"], name


async def test_a_memory_of_another_tenant_is_as_one_that_never_was(tmp_path: Path) -> None:
    async with hers(tmp_path, Channel.USER, "hers") as (on, key):
        memory_id = await memory_of(on, key)
        for name, way in {**READS, **CHANGES}.items():
            there = await ask(on, way, memory_id, AGENT_KEY)
            nowhere = await ask(on, way, str(uuid.uuid4()), AGENT_KEY)
            assert _plain(there) == _plain(nowhere), name
            assert HERS.encode() not in there[1], name
        for name, way in READS.items():
            _, told = await ask(on, way, memory_id, key)
            assert (HERS.encode() in told) is (name not in SHOW_NO_TEXT), (name, "control")


def _plain(answer: tuple[int, bytes]) -> tuple[int, bytes]:
    return answer[0], _OURS.sub(b"<id>", answer[1])
