"""What a client asks of each kind of memory server, in one form for tests that take them all."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, Protocol

import aiohttp

from tests.integration.memory_servers.chroma_behind import DEFAULT, TENANTS, vector

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request: method, path, and the body that is sent as JSON; None for none."""

    method: str
    path: str
    body: object = None


class Kind(Protocol):
    """The requests of one API. A place is what one client files its memories in."""

    adapter: str
    # The header of the client's key.
    credential: str

    async def place(self, client: aiohttp.ClientSession, server: str, name: str) -> str:
        """A new place of this name, made on the server itself."""
        ...

    def add(self, place: str, key: str, text: str) -> Asked:
        """Writes a memory that is not there yet."""
        ...

    def change(self, place: str, key: str, text: str) -> Asked: ...

    def remove(self, place: str, key: str) -> Asked: ...

    def everything(self, place: str) -> Asked: ...

    def texts(self, said: bytes) -> dict[str, str]:
        """The texts in the answer to that, by their keys."""
        ...


class LangGraphKind:
    """The store of LangGraph's server; a place is a namespace."""

    adapter = "langgraph"
    credential = "x-api-key"

    async def place(self, client: aiohttp.ClientSession, server: str, name: str) -> str:
        del client, server
        return name

    def add(self, place: str, key: str, text: str) -> Asked:
        return Asked("PUT", "/store/items", {**_item(place, key), "value": {"text": text}})

    change = add

    def remove(self, place: str, key: str) -> Asked:
        """A deletion, which names the item in its body."""
        return Asked("DELETE", "/store/items", _item(place, key))

    def everything(self, place: str) -> Asked:
        body = {"namespace_prefix": ["memories", place], "limit": 4_000, "offset": 0}
        return Asked("POST", "/store/items/search", body)

    def texts(self, said: bytes) -> dict[str, str]:
        return {one["key"]: one["value"]["text"] for one in json.loads(said)["items"]}


class ChromaKind:
    """A Chroma server; a place is the path of a collection."""

    adapter = "chroma"
    credential = "X-Chroma-Token"

    async def place(self, client: aiohttp.ClientSession, server: str, name: str) -> str:
        async with client.post(server + DEFAULT, json={"name": name}) as response:
            said: Json = await response.json()
            return f"{DEFAULT}/{said['id']}"

    def add(self, place: str, key: str, text: str) -> Asked:
        return Asked("POST", f"{place}/add", _record(key, text))

    def change(self, place: str, key: str, text: str) -> Asked:
        return Asked("POST", f"{place}/upsert", _record(key, text))

    def remove(self, place: str, key: str) -> Asked:
        return Asked("POST", f"{place}/delete", {"ids": [key]})

    def everything(self, place: str) -> Asked:
        return Asked("POST", f"{place}/get", {})

    def texts(self, said: bytes) -> dict[str, str]:
        found: Json = json.loads(said)
        return dict(zip(found["ids"], found["documents"], strict=True))


KINDS: Final[dict[str, Kind]] = {one.adapter: one for one in (LangGraphKind(), ChromaKind())}

__all__ = ["KINDS", "TENANTS", "Asked", "Kind"]


def is_write(method: str, path: str) -> bool:
    """Whether a request changes a memory on a server of any kind."""
    last = path.partition("?")[0].rpartition("/")[2]
    return method in {"PUT", "DELETE"} or last in {"add", "update", "upsert", "delete"}


def _item(place: str, key: str) -> Json:
    return {"namespace": ["memories", place], "key": key}


def _record(key: str, text: str) -> Json:
    # Vectors are the program's own: the tests ask for no neighbours.
    number = float(sum(key.encode()))
    return {"ids": [key], "documents": [text], "embeddings": [vector(number, 1, 0)]}
