"""Mem0's self-hosted server in the test's own loop: it records, merges, and loses answers.

It answers as the captures of the server at commit 8d5b7865 do, and has no model: a search finds
what is under the ids, in the order of its making.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.evaluate.free_port import on_free_port
from tests.integration.memory_servers.recorder import Fault, Recorded

ROUTES = Path(__file__).parents[2] / "unit/proxy/backends/mem0_server/routes_8d5b7865.json"
AT = "2026-11-20T15:55:06.192058+00:00"
_SHOWN = 20
_IDS = ("user_id", "agent_id", "run_id")
Json = dict[str, Any]


class Mem0Recorder:
    """The server; every request that reached it is in `seen`."""

    def __init__(self) -> None:
        self.memories: dict[str, Json] = {}
        self.changes: dict[str, list[Json]] = {}
        self.seen: list[Recorded] = []
        self.fault = Fault.NONE
        # What it says instead of an answer; as it is, the answer itself.
        self.said_instead: Callable[[Any], object] = lambda told: told
        self.more_routes: list[tuple[str, str]] = []

    @property
    def writes(self) -> list[Recorded]:
        return [
            one
            for one in self.seen
            if one.method in {"PUT", "DELETE"} or (one.method, one.target) == ("POST", "/memories")
        ]

    def put(self, text: str, **members: object) -> str:
        """File a memory as if it had been there before; its id."""
        memory_id = str(uuid.uuid4())
        self.memories[memory_id] = {
            "id": memory_id,
            "memory": text,
            "hash": "0",
            "metadata": None,
            "created_at": AT,
            "updated_at": AT,
            "user_id": "bob",
            **members,
        }
        self._note(memory_id, None, text)
        return memory_id

    def change(self, memory_id: str, text: str) -> None:
        """Replace the text of a memory past the gate."""
        self._updated(memory_id, {"text": text})

    def texts(self) -> list[str]:
        return [one["memory"] for one in self.memories.values()]

    def _note(self, memory_id: str, old: str | None, new: str | None) -> None:
        change = {"memory_id": memory_id, "old_memory": old, "new_memory": new}
        self.changes.setdefault(memory_id, []).append(change)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Recorded(request.method, request.path_qs, headers, body))
        said: Json = json.loads(body or b"{}")
        writes = request.method in {"PUT", "DELETE"} or request.path == "/memories"
        fault = self.fault if writes and request.method != "GET" else Fault.NONE
        if fault is not Fault.NONE:
            self.fault = Fault.NONE
        told = ... if fault is Fault.NOT_DONE else self._done(request, said)
        if fault is not Fault.NONE and request.transport is not None:
            request.transport.abort()
        if told is ...:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response(self.said_instead(told), dumps=_written)

    def _done(self, request: web.Request, said: Json) -> object:
        """What a request is answered; `...` for what is not there."""
        match request.method, request.path[1:].split("/"):
            case "POST", ["memories"]:
                return {"results": [self._added(one, said) for one in said["messages"]]}
            case "PUT", ["memories", memory_id] if memory_id in self.memories:
                return self._updated(memory_id, said)
            case "DELETE", ["memories", memory_id] if memory_id in self.memories:
                self._note(memory_id, self.memories.pop(memory_id)["memory"], None)
                return {"message": "Memory deleted successfully"}
            case _:
                return self._read(request, said)

    def _read(self, request: web.Request, said: Json) -> object:
        match request.method, request.path[1:].split("/"):
            case "GET", ["openapi.json"]:
                return {"paths": self._paths()}
            case "POST", ["search"]:
                return {"results": self._found(said["filters"], said.get("top_k") or _SHOWN)}
            case "GET", ["memories"]:
                filters = {name: request.query[name] for name in _IDS if name in request.query}
                return {"results": self._found(filters, int(request.query.get("top_k", _SHOWN)))}
            case "GET", ["memories", memory_id]:
                return self.memories.get(memory_id)
            case "GET", ["memories", memory_id, "history"]:
                return self.changes.get(memory_id, [])
            case _:
                return ...

    def _added(self, message: Json, said: Json) -> Json:
        ids = {name: said[name] for name in _IDS if said.get(name)}
        metadata = said.get("metadata")
        memory_id = self.put(message["content"], metadata=metadata, role=message["role"], **ids)
        text, role = message["content"], message["role"]
        return {"id": memory_id, "memory": text, "event": "ADD", "actor_id": None, "role": role}

    def _updated(self, memory_id: str, said: Json) -> Json:
        found = self.memories[memory_id]
        old = found["memory"]
        found["memory"] = said.get("text") or old
        found["metadata"] = {**(found["metadata"] or {}), **(said.get("metadata") or {})}
        self._note(memory_id, old, found["memory"])
        return {"message": "Memory updated successfully!"}

    def _found(self, filters: Mapping[str, object], count: int) -> list[Json]:
        fitting = [one for one in self.memories.values() if _fits(one, filters)]
        return fitting[:count]

    def _paths(self) -> dict[str, Json]:
        paths: dict[str, Json] = {}
        for method, path in [*json.loads(ROUTES.read_text()), *self.more_routes]:
            paths.setdefault(path, {})[method.lower()] = {}
        return paths


def _fits(memory: Json, filters: Mapping[str, object]) -> bool:
    """Whether a memory has these values, among its own members or in its metadata."""
    members: Json = {**(memory["metadata"] or {}), **memory}
    return all(members.get(name) == value for name, value in filters.items())


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@asynccontextmanager
async def mem0_recorder() -> AsyncGenerator[tuple[Mem0Recorder, str]]:
    """The server on a free port, and its URL."""
    server = Mem0Recorder()
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", server.answer)
    async with on_free_port(application) as url:
        yield server, url
