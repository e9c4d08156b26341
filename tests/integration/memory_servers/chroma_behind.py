"""A sidecar with a Chroma server behind it, and raw requests to both."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from proxy.compose.app import Composition
from tests.integration.running import AGENT_KEY, Running, running

TENANTS = "/api/v2/tenants"
DEFAULT = f"{TENANTS}/default_tenant/databases/default_database/collections"
Json = dict[str, Any]


class Behind(NamedTuple):
    sidecar: Running
    server: str

    async def ask(
        self, path: str, body: object = None, *, key: str | None = AGENT_KEY, method: str = "POST"
    ) -> tuple[int, bytes]:
        """Status and bytes of one request to the sidecar; without a key, to the server itself."""
        url = self.server if key is None else self.sidecar.url
        headers = {} if key is None else {"X-Chroma-Token": key}
        async with self.sidecar.client.request(
            method, url + path, json=body, headers=headers
        ) as response:
            return response.status, await response.read()

    async def made(self, name: str, collections: str = DEFAULT) -> str:
        """The path of a new collection, which an operator makes on the server itself."""
        status, said = await self.ask(collections, {"name": name}, key=None)
        assert status == 200, said
        return f"{collections}/{json.loads(said)['id']}"

    async def documents(self, path: str, *, key: str | None = AGENT_KEY) -> list[str | None]:
        status, said = await self.ask(f"{path}/get", {}, key=key)
        assert status == 200, said
        found: list[str | None] = json.loads(said)["documents"]
        return found


@asynccontextmanager
async def behind(
    root: Path, server: str, composition: Composition | None = None, *, more: str = ""
) -> AsyncGenerator[Behind]:
    """The sidecar, with the server at this URL behind it; `more` is the rest of its table."""
    table = f'[[backend]]\nname = "notes"\nadapter = "chroma"\nurl = "{server}"\n{more}'
    async with running(root, composition, tables=table) as sidecar:
        yield Behind(sidecar, server)


def vector(*numbers: float) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def records(first: int, count: int, text: str, near: float) -> Json:
    """The body of an `add`: records whose vectors lie one after the other, away from zero."""
    numbers = range(first, first + count)
    return {
        "ids": [f"r{number}" for number in numbers],
        "embeddings": [vector(near + number / 1_000, 1, 0) for number in numbers],
        "documents": [f"{text} {number}" for number in numbers],
    }
