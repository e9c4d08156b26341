"""How far a request goes through our own code: its calls of Python functions, and their files.

A composed sidecar serves in this process, and each call is counted from `Listener._answers` until
that returns, in every thread. A coroutine that is resumed is called once more. Each figure is the
median of five sidecars, and of the third request of its kind in each, so that nothing is counted
that only a first request loads.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from tests.benchmarks import model
from tests.figures.counting import ROOT, SHIPPED
from tests.integration.mcp_bench import call, notification, request
from tests.integration.running import AGENT_KEY, Json, Running, running

ROUNDS: Final = 5
BARS: Final = {
    "native write": "≤ 600 (80)",
    "MCP tools/call": "≤ 2,600",
    "Mem0 search": "≤ 280",
}
"""The calls, and the files in brackets, that a path is held against."""
TURNS: Final = (5, 200)
"""Of the conversations of two requests to a model."""
_ASKED: Final = 3
_MCP_TABLE: Final = f"""
[[mcp]]
name = "memory"
command = ["{sys.executable}", "{ROOT}/tests/integration/mcp_memory_server.py"]
env = {{{{ MEMORY_FILE = "{{base}}/memory.jsonl" }}}}
map = "server-memory"
"""
_OWN: Final = tuple(f"{ROOT}/{package}/" for package in SHIPPED)


class RequestPath(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one kind of request, the distinct functions among them, and their files."""

    calls: int
    functions: int
    files: int


class _Recorder:
    """A profile function that keeps the calls of one request after another."""

    def __init__(self) -> None:
        self._done: list[RequestPath] = []
        self._calls: list[tuple[str, str]] | None = None

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Record an event of the interpreter, as `sys.setprofile` reports it."""
        code = frame.f_code
        if event not in {"call", "return"} or not code.co_filename.startswith(_OWN):
            return
        outermost = code.co_qualname == "Listener._answers"
        if event == "call":
            if outermost and self._calls is None:
                self._calls = []
            if self._calls is not None:
                self._calls.append((code.co_filename, code.co_qualname))
        # A coroutine that waits returns as well, but not whether the connection is kept.
        elif outermost and self._calls is not None and isinstance(arg, bool):
            self._done.append(_path_of(self._calls))
            self._calls = None

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record this thread, and every thread that begins meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def third(self) -> RequestPath:
        """The path of the last request. Forgets the requests so far, which must be three."""
        *_, last = done = self._done
        if len(done) != _ASKED:
            raise RuntimeError(f"{len(done)} requests were recorded, not {_ASKED}")
        self._done = []
        return last

    def forget(self) -> None:
        """Forget the requests so far."""
        self._done = []


def paths() -> dict[str, RequestPath]:
    """The figures of a write, an MCP call that lands, a search, and requests to a model."""
    rounds = [asyncio.run(one_round()) for _ in range(ROUNDS)]
    return {kind: _median([each[kind] for each in rounds]) for kind in rounds[0]}


async def one_round() -> dict[str, RequestPath]:
    """The figures of one sidecar."""
    recorder = _Recorder()
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tables = _MCP_TABLE.format(base=base) + model.table(model.upstream(stack))
        stack.enter_context(recorder.recording())
        async with running(base, tables=tables) as sidecar:
            found = {
                "native write": await _native_writes(sidecar, recorder),
                "MCP tools/call": await _mcp_calls(sidecar, recorder),
                "Mem0 search": await _mem0_searches(sidecar, recorder),
            }
            for turns in TURNS:
                path = await _model_requests(sidecar, recorder, turns)
                found[f"model request of {turns} turns"] = path
            return found


async def _native_writes(sidecar: Running, recorder: _Recorder) -> RequestPath:
    for number in range(_ASKED):
        status, body = await sidecar.write(
            AGENT_KEY, {"text": f"Guest {number} likes tea.", "user_id": "ada"}
        )
        _check(status == HTTPStatus.CREATED, body)
    return recorder.third()


async def _mcp_calls(sidecar: Running, recorder: _Recorder) -> RequestPath:
    headers = {"Accept": "application/json, text/event-stream", "X-Api-Key": AGENT_KEY}

    async def post(message: Json) -> Mapping[str, str]:
        async with sidecar.client.post(
            f"{sidecar.url}/mcp/memory", json=message, headers=headers
        ) as answer:
            body = await answer.text()
            _check(answer.ok and '"isError":true' not in body, body)
            return answer.headers

    hello = request(0, "initialize", protocolVersion="2025-11-25", capabilities={})
    headers["Mcp-Session-Id"] = (await post(hello))["Mcp-Session-Id"]
    await post(notification("notifications/initialized"))
    recorder.forget()
    for number in range(_ASKED):
        text = f"Guest {number} likes tea from garden {number}."
        entity = {"name": f"guest-{number}", "entityType": "person", "observations": [text]}
        await post(call(number + 1, "create_entities", entities=[entity]))
    return recorder.third()


async def _mem0_searches(sidecar: Running, recorder: _Recorder) -> RequestPath:
    asked = {"query": "tea", "filters": {"user_id": "ada"}}
    headers = {"Authorization": f"Token {AGENT_KEY}"}
    for _ in range(_ASKED):
        async with sidecar.client.post(
            f"{sidecar.url}/v3/memories/search/", json=asked, headers=headers
        ) as answer:
            body = await answer.json()
            _check(answer.ok and bool(body["results"]), body)
    return recorder.third()


async def _model_requests(sidecar: Running, recorder: _Recorder, turns: int) -> RequestPath:
    """A conversation of which only the last turn is new."""
    headers = {"X-Api-Key": AGENT_KEY, "Content-Type": "application/json"}
    for asked in islice(model.conversation(turns), _ASKED):
        async with sidecar.client.post(
            f"{sidecar.url}/anthropic/v1/messages", data=asked, headers=headers
        ) as answer:
            body = await answer.text()
            _check(answer.ok, body)
    return recorder.third()


def _check(true: bool, seen: object) -> None:  # noqa: FBT001 - a condition is a bool
    if not true:
        raise RuntimeError(f"a request was not answered as it should be: {seen}")


def _path_of(calls: list[tuple[str, str]]) -> RequestPath:
    return RequestPath(
        calls=len(calls), functions=len(set(calls)), files=len({file for file, _ in calls})
    )


def _median(found: list[RequestPath]) -> RequestPath:
    """The middle path by its calls."""
    return sorted(found, key=lambda path: path.calls)[len(found) // 2]
