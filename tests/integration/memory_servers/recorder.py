"""A store as LangGraph's server has one, in the test's own loop: it records, and loses answers.

It answers the routes of the store as the captures of `langgraph-api` 0.16.7 do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

AT = "2026-11-20T16:07:38.271781+00:00"
# How long a write waits for another read before it is done, where a test asks for that.
PATIENCE_S = 0.3
Json = dict[str, Any]
_T = TypeVar("_T")


class Fault(Enum):
    NONE = "none"
    NOT_DONE = "not done"  # the connection breaks before it is done
    CUT = "cut"  # it is done, and the connection breaks before the answer
    STUCK = "stuck"  # it is done, and no answer comes


class Recorded(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Recorder:
    """The server; every request that reached it is in `seen`."""

    def __init__(self) -> None:
        self.items: dict[tuple[tuple[str, ...], str], Json] = {}
        self.seen: list[Recorded] = []
        self.fault = Fault.NONE
        self.version: str | None = "0.16.7"
        # The one `x-api-key` that the server takes; None: it asks for none.
        self.takes: str | None = None
        # Whether answers to reads show the request's headers, as pages for debugging do.
        self.echoes = False
        # What the server says of each change, and of what concerns no item, if it refuses them.
        self.refuses: Json | None = None
        self.stuck = asyncio.Event()
        # What asks for an item, or changes one, is answered once this is set.
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        # Whether the next write waits a moment for another read of what stands there.
        self.waits = False
        self._read_again = asyncio.Event()
        # Whether every page of a search is the first one.
        self.repeats = False
        # Keys of items that stay where they are, although their deletion is answered.
        self.keeps: set[str] = set()

    @property
    def writes(self) -> list[Recorded]:
        return [
            one
            for one in self.seen
            if one.method in {"PUT", "DELETE", "PATCH"} or one.target == "/threads"
        ]

    def put(
        self, key: str, value: Json, namespace: tuple[str, ...] = ("memories", "alice")
    ) -> None:
        """File an item as if it had been there before."""
        self.items[namespace, key] = value

    def shown(self, place: tuple[tuple[str, ...], str]) -> Json:
        namespace, key = place
        return {
            "namespace": [*namespace],
            "key": key,
            "value": self.items[place],
            "created_at": AT,
            "updated_at": AT,
        }

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Recorded(request.method, request.path_qs, headers, body))
        if failure := self._failure(headers):
            return failure
        if request.path == "/info":
            return web.json_response({"version": self.version, "flags": {}})
        if request.path == "/store/items":
            self.asked.set()
            await self.may_answer.wait()
        said: Json = await request.json() if body else {}
        if self.refuses is not None and (request.method == "PUT" or request.path == "/ok"):
            return web.json_response(self.refuses, status=422)
        if request.method in {"PUT", "DELETE"}:
            return await self._change(request, said)
        found = self._read(request, said)
        if found is ...:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response(found)

    def _failure(self, headers: Json) -> web.Response | None:
        if self.takes not in {None, headers.get("x-api-key")}:
            return web.json_response({"detail": "Not authenticated"}, status=401)
        if self.echoes:
            return web.json_response({"detail": f"failed with {headers}"}, status=500)
        return None

    def _read(self, request: web.BaseRequest, said: Json) -> object:
        """The answer to a read; `...` for a route that is not here."""
        match request.method, request.path:
            case "GET", "/store/items":
                self._read_again.set()
                place = (tuple(request.query["namespace"].split(".")), request.query["key"])
                return self.shown(place) if place in self.items else None
            case "POST", "/store/items/search":
                return {"items": self._found(said)}
            case "POST", "/store/namespaces":
                names = dict.fromkeys(namespace for namespace, _ in self.items)
                return {"namespaces": _page([[*one] for one in names], said, 100)}
            case "POST", "/runs/wait":
                return {"out": [self.items[place] for place in self.items]}
            case _:
                return ...

    def _found(self, said: Json) -> list[Json]:
        prefix = tuple(said.get("namespace_prefix", ()))
        found = [
            place
            for place, value in self.items.items()
            if place[0][: len(prefix)] == prefix and _fits(value, said.get("filter") or {})
        ]
        asked = {**said, "offset": 0} if self.repeats else said
        return [{**self.shown(place), "score": None} for place in _page(found, asked, 10)]

    async def _change(self, request: web.BaseRequest, said: Json) -> web.StreamResponse:
        if "namespace" not in said or "key" not in said:
            return web.json_response({"detail": "Validation failed"}, status=422)
        place = (tuple(said["namespace"]), said["key"])
        fault, self.fault = self.fault, Fault.NONE
        if self.waits:
            self.waits = False
            self._read_again.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._read_again.wait(), PATIENCE_S)
        if fault is not Fault.NOT_DONE:
            if request.method == "PUT":
                self.items[place] = said["value"]
            elif place[1] not in self.keeps:
                self.items.pop(place, None)
        if fault is Fault.STUCK:
            await self.stuck.wait()
        if fault is not Fault.NONE and request.transport is not None:
            request.transport.abort()
        return web.Response(status=204)


def _fits(value: Json, wanted: Json) -> bool:
    """Whether a value fits a filter whose only operator is `$lte`."""
    return all(name in value and value[name] <= one["$lte"] for name, one in wanted.items())


def _page(found: list[_T], said: Json, limit: int) -> list[_T]:
    start = said.get("offset") or 0
    return found[start : start + (said.get("limit") or limit)]


@asynccontextmanager
async def recorder() -> AsyncGenerator[tuple[Recorder, str]]:
    """The server on a free port, and its URL."""
    server = Recorder()
    runner = web.ServerRunner(web.Server(server.answer), handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield server, f"http://{host}:{port}"
    finally:
        server.stuck.set()
        await runner.cleanup()
