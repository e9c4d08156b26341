"""A scripted model behind Anthropic's Messages API, streamed, as Claude Code asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from tests.integration.hosts.script import (
    ANTHROPIC,
    CallGiven,
    HostModel,
    Reply,
    ToolResult,
    send_events,
)

Json = dict[str, Any]
_WAIT = "WaitForMcpServers"
_USAGE = {"input_tokens": 1, "output_tokens": 1}


class MessagesModel(HostModel):
    """Keeps each request as a whole history."""

    api = ANTHROPIC

    def __init__(self, told: Mapping[str, Sequence[CallGiven]] | None = None) -> None:
        super().__init__(told)
        self._threads: dict[str, Json] = {}

    def routes(self, application: web.Application) -> None:
        application.router.add_post("/v1/messages", self._messages)
        application.router.add_post("/v1/messages/count_tokens", _count)
        application.router.add_route("*", "/{path:.*}", _nothing)

    def results(self) -> list[ToolResult]:
        """What the tools told the model, in order, of the longest conversation."""
        with_tools = [body for body in self.requests if body.get("tools")]
        if not with_tools:
            return []
        return _results(max(with_tools, key=lambda body: len(body["messages"])))

    def catalogue(self) -> list[str]:
        return sorted({tool["name"] for body in self.requests for tool in body.get("tools", ())})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body: Json = self._whole(await request.json())
        self.requests.append(body)
        content, stop = self._content(body)
        said = {"role": "assistant", "content": content}
        self._threads[f"msg_{len(self.requests)}"] = {
            **body,
            "messages": [*body["messages"], said],
        }
        message: Json = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
            "usage": _USAGE,
        }
        if not body.get("stream"):
            return web.json_response({**message, "content": content, "stop_reason": stop})
        start: Json = {"message": {**message, "content": [], "stop_reason": None}}
        return await send_events(request, [("message_start", start), *_streamed(content, stop)])

    def _whole(self, body: Json) -> Json:
        """A request that goes on from an earlier message, as if it had said all of it."""
        thread = body.pop("thread", {"type": "create"})
        if thread["type"] == "create":
            return body
        before = self._threads[thread["previous_message_id"]]
        return {**before, **body, "messages": [*before["messages"], *body["messages"]]}

    def _content(self, body: Json) -> tuple[list[Json], str]:
        """The blocks of the answer and why it stops. Requests without tools are about titles."""
        offered = {tool["name"] for tool in body.get("tools", ())}
        if not offered:
            return [{"type": "text", "text": "A title"}], "end_turn"
        results = _results(body)
        begun = any(message["role"] == "assistant" for message in body["messages"])
        move: Reply = self._script.next(_user_texts(body), results, begun=begun)
        if move.call is None:
            return [{"type": "text", "text": move.text}], "end_turn"
        server, tool = move.call.server, move.call.tool
        name = f"mcp__{server}__{tool}" if server else tool
        if name not in offered and _WAIT in offered:
            # A server that is slow to start is not there yet at the first request.
            use = {"type": "tool_use", "id": f"toolu_wait_{len(body['messages'])}", "name": _WAIT}
            return [{"type": "text", "text": "Waiting."}, {**use, "input": {}}], "tool_use"
        if name not in offered:
            text = f"NO TOOL {name} among {sorted(offered)}"
            return [{"type": "text", "text": text}], "end_turn"
        given = json.loads(move.arguments)
        use = {"type": "tool_use", "id": f"toolu_{self._script.made():024d}", "name": name}
        return [{"type": "text", "text": move.text}, {**use, "input": given}], "tool_use"


def _streamed(content: list[Json], stop: str) -> Iterator[tuple[str, Json]]:
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty: Json = {"type": "text", "text": ""}
            whole = block["text"]
            kind, field = "text_delta", "text"
        else:
            empty = {**block, "input": {}}
            whole = json.dumps(block["input"])
            kind, field = "input_json_delta", "partial_json"
        yield "content_block_start", {"index": index, "content_block": empty}
        for at in range(0, len(whole), 40):
            delta = {"type": kind, field: whole[at : at + 40]}
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    ended = {"stop_reason": stop, "stop_sequence": None}
    yield "message_delta", {"delta": ended, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _user_texts(body: Json) -> list[str]:
    return [
        block["text"]
        for message in body["messages"]
        if message["role"] == "user"
        for block in _blocks(message)
        if block["type"] == "text"
    ]


def _results(body: Json) -> list[ToolResult]:
    blocks = [block for message in body["messages"] for block in _blocks(message)]
    names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
    return [
        ToolResult(
            names[block["tool_use_id"]],
            _text(block.get("content", "")),
            bool(block.get("is_error")),
        )
        for block in blocks
        if block["type"] == "tool_result" and names[block["tool_use_id"]] != _WAIT
    ]


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", json.dumps(block)) for block in content)


async def _count(_: web.Request) -> web.Response:
    return web.json_response({"input_tokens": 1})


async def _nothing(_: web.Request) -> web.Response:
    error = {"type": "not_found_error", "message": "There is nothing here."}
    return web.json_response({"type": "error", "error": error}, status=404)
