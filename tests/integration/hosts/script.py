"""What a scripted model does: it follows the directives that stand in the person's prompt.

`CALL server/tool {json} ENDCALL` is one tool call; several are made one after the other. `<<memo>>`
inside the JSON becomes what a tool result said last after `MEMO:`, up to the end of that line: a
model that obeys what it read. A tool of the host's own is written `/tool`. Where the words of the
prompt matter, a script has the calls beside it: which of them follow which words.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from tests.evaluate.free_port import on_free_port

CallGiven = tuple[str, dict[str, Any]]
"""`server/tool` and arguments."""
_CALL = re.compile(r"CALL (\S*)/(\S+) (\{.*?\}) ENDCALL", re.DOTALL)
_MEMO = re.compile(r"MEMO: ([^\n\"\\]+)")
MEMO = "<<memo>>"
ANTHROPIC = "anthropic"
OPENAI = "openai"
GEMINI = "gemini"


class Directive(msgspec.Struct, frozen=True):
    server: str
    tool: str
    arguments: str

    def filled(self, results: Sequence[ToolResult]) -> str:
        """The arguments, with what a result said to keep."""
        said = [found for result in results for found in _MEMO.findall(result.text)]
        return self.arguments.replace(MEMO, said[-1].strip()) if said else self.arguments


class ToolResult(msgspec.Struct, frozen=True):
    """What the host showed its model of one call."""

    tool: str
    text: str
    is_error: bool | None  # None where the protocol has no such field


class Reply(msgspec.Struct, frozen=True):
    """The next move of the model: a call, or its last words."""

    text: str
    call: Directive | None = None
    arguments: str = "{}"


def calling(*calls: CallGiven) -> str:
    """A prompt that has the model make these calls, `server/tool` and arguments each."""
    return "\n".join(f"CALL {name} {json.dumps(given)} ENDCALL" for name, given in calls)


def directives(texts: Iterable[str]) -> tuple[Directive, ...]:
    found = [_CALL.findall(text) for text in texts]
    return tuple(Directive(*match) for matches in found for match in matches)


class Script:
    """The moves of one model: calls that follow a person's words, or those in her prompt."""

    def __init__(self, told: Mapping[str, Sequence[CallGiven]] | None = None) -> None:
        self._told = {words: directives([calling(*calls)]) for words, calls in (told or {}).items()}
        self._made = 0
        self._ids = 0

    def next(self, texts: Sequence[str], results: Sequence[ToolResult], *, begun: bool) -> Reply:
        """What follows after these results. `begun`: the model has said something already."""
        calls = (*directives(texts), *self._told_to(texts))
        # A call that somebody took out on its way has no result, and was made all the same.
        self._made = max(self._made, len(results)) if begun else len(results)
        if self._made >= len(calls):
            return Reply(f"FINAL: {len(results)} calls made.")
        call = calls[self._made]
        return Reply("Calling.", call, call.filled(results))

    def made(self) -> int:
        """The call that `next` gave is made; its number among all that this model made."""
        self._made += 1
        self._ids += 1
        return self._ids

    def _told_to(self, texts: Sequence[str]) -> tuple[Directive, ...]:
        found = [calls for text in texts for words, calls in self._told.items() if words in text]
        return tuple(call for calls in found for call in calls)


class HostModel:
    """Follows the prompt or a script, and keeps the body of every request."""

    def __init__(self, told: Mapping[str, Sequence[CallGiven]] | None = None) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self._script = Script(told)


class ModelServer(Protocol):
    """A wire that a scripted model speaks, and whose API it is."""

    url: str
    api: str
    requests: list[dict[str, Any]]

    def routes(self, application: web.Application) -> None: ...
    def results(self) -> list[ToolResult]: ...


@asynccontextmanager
async def serving(
    model: ModelServer, before: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[ModelServer]:
    """The model on a free port; its `url` has no path. `before` is awaited ere it answers."""

    @web.middleware
    async def waiting(request: web.Request, handler: Handler) -> web.StreamResponse:
        if before is not None and request.method == "POST":
            await before()
        return await handler(request)

    application = web.Application(client_max_size=1 << 26, middlewares=[waiting])
    model.routes(application)
    async with on_free_port(application) as model.url:
        yield model


async def send_events(
    request: web.Request, events: Iterable[tuple[str, dict[str, Any]]]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for name, data in events:
        body = json.dumps({"type": name, **data})
        await response.write(f"event: {name}\ndata: {body}\n\n".encode())
    await response.write_eof()
    return response
