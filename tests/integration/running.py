"""A real sidecar in the test's own event loop: real sockets, LMDB, FAISS and embedder."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from policy.model import Channel, Claims, Principal, PrincipalId
from proxy.compose.app import Composition, Sidecar, compose
from proxy.settings.load import load_settings
from proxy.settings.values import Raw
from proxy.transport.auth import mint_key
from storage.features.registered import PutKey
from tests.bound import bound
from tests.embedder import share_embedder

share_embedder()

AGENT_KEY = "agent-key-for-tests-0123456789"
OPERATOR_KEY = "operator-key-for-tests-0123456789"
BY = "operator:operator"
"""Who acts with that key, as leaves name it: the principal, and the key's id."""

Json = dict[str, Any]


def acting(principal: str, key: str) -> str:
    """Who acts with a key of ours, as leaves name it."""
    return f"{principal}:{key.split('_')[1]}"


class Running:
    def __init__(self, sidecar: Sidecar, client: aiohttp.ClientSession, state: Path) -> None:
        self.sidecar = sidecar
        self.client = client
        self.state = state

    @property
    def url(self) -> str:
        address = self.sidecar.data
        assert address is not None
        return f"http://{address.host}:{address.port}"

    @property
    def admin_url(self) -> str:
        address = self.sidecar.admin
        assert address is not None
        return f"http://{address.host}:{address.port}"

    async def key(
        self,
        name: str,
        *,
        tenant: str = "default",
        channel: Channel = Channel.AGENT,
        claims: Claims = Claims.IGNORED,
    ) -> str:
        return await self.key_for(bound(name, tenant, channel, claims))

    async def key_for(self, principal: Principal) -> str:
        made = mint_key(principal, 0)
        await self.sidecar.store.writer.order(PutKey(made.record, PrincipalId("test")))
        self.sidecar.keys_changed()
        return made.plain

    async def call(
        self, method: str, path: str, key: str, body: Json | None = None
    ) -> tuple[int, Json]:
        """Status and decoded body of one request on the data listener."""
        headers = {"Authorization": f"Bearer {key}"}
        async with self.client.request(
            method, self.url + path, json=body, headers=headers
        ) as response:
            return response.status, await response.json(content_type=None)

    async def write(self, key: str, body: Json) -> tuple[int, Json]:
        return await self.call("POST", "/v1/memories", key, body)

    async def operated(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        key: str = OPERATOR_KEY,
    ) -> tuple[int, Json]:
        """Status and decoded answer of the operator API below `/api/v1`."""
        headers = {"Authorization": f"Bearer {key}"}
        url = f"{self.admin_url}/api/v1{path}"
        async with self.client.request(method, url, json=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)

    async def operate(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        key: str = OPERATOR_KEY,
        status: int = 200,
    ) -> Json:
        """The answer of the operator API, which must have this status."""
        answered, answer = await self.operated(method, path, body, key)
        assert answered == status, answer
        return answer

    async def texts(self, key: str) -> list[str]:
        status, page = await self.call("GET", "/v1/memories?limit=1000", key)
        assert status == 200, page
        return [item["text"] for item in page["memories"]]

    def version(self) -> int:
        return self.sidecar.store.reader.status().version


@asynccontextmanager
async def running(
    base: Path,
    composition: Composition | None = None,
    flags: Mapping[str, Raw] | None = None,
    tables: str = "",
) -> AsyncGenerator[Running]:
    """Compose and serve on free ports, with the state below `base`.

    `tables` is the text of a settings file: `[[mcp]]`, `[[model]]`, `[[principals]]`.
    """
    state = base / "state"
    config = base / "mnemogate.toml"
    config.write_text(tables)
    environment = {
        "HOME": str(base),
        "MNEMOGATE_AGENT_KEY": AGENT_KEY,
        "MNEMOGATE_OPERATOR_KEY": OPERATOR_KEY,
        # A test that has one sets it; no other name of the environment is handed on.
        **{name: os.environ[name] for name in ("SENTRY_DSN",) if name in os.environ},
    }
    given: dict[str, Raw] = {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "state": str(state),
        "checkpoint": str(base / "checkpoint.txt"),
        **(flags or {}),
    }
    settings = load_settings(given, environment=environment, config=config)
    async with (
        compose(settings, composition or Composition()) as sidecar,
        aiohttp.ClientSession() as client,
    ):
        yield Running(sidecar, client, state)
