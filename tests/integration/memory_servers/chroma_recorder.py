"""A Chroma server in the test's own loop: it merges as the real one does, and records requests.

Like the real one, it looks at tenant and database of a path where a collection is asked for by its
uuid, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import struct
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.evaluate.free_port import on_free_port
from tests.integration.memory_servers.chroma_behind import DEFAULT

UUID = "0b5e1c6a-3f0e-4f2b-9b53-2b1d6f6f1a11"
PATH = f"{DEFAULT}/{UUID}"
ROUTES = Path(__file__).parents[2] / "unit/proxy/backends/chroma/routes_1.5.9.json"
# How long a write waits for another read before it is done, where a test asks for that.
PATIENCE_S = 0.3
Json = dict[str, Any]


class ChromaRecorder:
    """One collection. `seen` has the last word of every request's path, in order."""

    def __init__(self) -> None:
        self.records: dict[str, Json] = {}
        self.seen: list[str] = []
        # Whether a write waits a moment for another read of what stands there.
        self.waits = False
        # Operations that the server fails at, and those after which it answers nothing any more.
        self.away: set[str] = set()
        self.dies_at: set[str] = set()
        self._is_dead = False
        # Operations for which something in front of the server answers, with this status.
        self.in_front: dict[str, int] = {}
        # A read of records sets the first, and is answered once the second is set.
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._read = asyncio.Event()

    def begins_anew(self) -> None:
        """The server answers again, and has what it had."""
        self.dies_at, self._is_dead = set(), False

    def columns(self, ids: list[str], include: list[str]) -> Json:
        """The records with these ids as an answer to `get`."""
        found: Json = {"ids": ids, "embeddings": None, "uris": None}
        for part in ("documents", "metadatas"):
            rows = [self.records[one].get(part) for one in ids]
            found[part] = rows if part in include else None
        if "embeddings" in include:
            vectors = (b64decode(self.records[one]["vector"]) for one in ids)
            found["embeddings"] = [struct.unpack(f"<{len(one) // 4}f", one) for one in vectors]
            found["uris"] = [None] * len(ids)
        return {**found, "include": include}

    async def answer(self, request: web.Request) -> web.Response:
        operation = request.path.rpartition("/")[2]
        self.seen.append("by-id" if "/by-id/" in request.path else operation)
        said: Json = json.loads(await request.read() or b"{}")
        if "/by-id/" in request.path:
            known = request.path == f"{DEFAULT}/by-id/{UUID}"
            missing = {"error": "NotFoundError", "message": "Collection does not exist"}
            return web.json_response(
                {"id": UUID} if known else missing, status=200 if known else 404
            )
        if operation in self.away or self._is_dead:
            return web.json_response({"error": "InternalError", "message": ""}, status=500)
        if operation in self.in_front:
            return web.json_response({}, status=self.in_front[operation])
        answer = await self._done(operation, said)
        if operation in self.dies_at:
            self._is_dead = True
            return web.json_response({"error": "InternalError", "message": ""}, status=500)
        return answer

    async def _done(self, operation: str, said: Json) -> web.Response:
        match operation:
            case "openapi.json":
                paths: dict[str, Json] = {}
                for method, path in json.loads(ROUTES.read_text()):
                    paths.setdefault(path, {})[method.lower()] = {}
                return web.json_response({"paths": paths})
            case "get":
                self._read.set()
                self.asked.set()
                await self.may_answer.wait()
                wanted = said.get("ids")
                ids = [
                    one
                    for one, record in self.records.items()
                    if (wanted is None or one in wanted) and _fits(record, said)
                ][said.get("offset") or 0 :]
                ids = ids if said.get("limit") is None else ids[: said["limit"]]
                return web.json_response(self.columns(ids, said["include"]))
            case "query":
                fitting = [one for one, record in self.records.items() if _fits(record, said)]
                ids = fitting[: said["n_results"]]
                found = self.columns(ids, said["include"])
                parts = ("ids", "documents", "metadatas")
                nested = {name: None if found[name] is None else [found[name]] for name in parts}
                return web.json_response({**found, **nested})
            case "delete":
                gone = [self.records.pop(one) for one in said["ids"] if one in self.records]
                return web.json_response({"deleted": len(gone)})
            case _:
                await self._write(said, operation)
                return web.json_response({}, status=201 if operation == "add" else 200)

    async def _write(self, said: Json, operation: str) -> None:
        if self.waits:
            self._read.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._read.wait(), PATIENCE_S)
        for at, one in enumerate(said["ids"]):
            if operation in {"add", "update"} and (one in self.records) == (operation == "add"):
                continue
            record = self.records.setdefault(one, {})
            if said.get("documents") and said["documents"][at] is not None:
                record["documents"] = said["documents"][at]
            if said.get("metadatas") and said["metadatas"][at]:
                merged: Json = {**(record.get("metadatas") or {}), **said["metadatas"][at]}
                left = {name: value for name, value in merged.items() if value is not None}
                record["metadatas"] = left or None
            if said.get("embeddings"):
                record["vector"] = said["embeddings"][at]


def _fits(record: Json, said: Json) -> bool:
    """Whether a record fits filters by `$lte`, by `$eq` or `$ne` of true, and by `$contains`."""
    metadata: Json = record.get("metadatas") or {}
    document: str = record.get("documents") or ""
    where: Json = said.get("where") or {}
    words: Json = said.get("where_document") or {}
    conditions: list[Json] = where.get("$and") or [where]
    return words.get("$contains", "") in document and all(
        (metadata.get(name) == one.get("$eq", True)) is ("$eq" in one)
        if "$ne" in one or "$eq" in one
        else name in metadata and metadata[name] <= one["$lte"]
        for condition in conditions
        for name, one in condition.items()
    )


@asynccontextmanager
async def chroma_recorder() -> AsyncGenerator[tuple[ChromaRecorder, str]]:
    """The server on a free port, and its URL."""
    server = ChromaRecorder()
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", server.answer)
    async with on_free_port(application) as url:
        yield server, url
