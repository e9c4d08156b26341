"""A scripted model behind OpenAI's Chat Completions, streamed or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from tests.integration.hosts.script import OPENAI, HostModel, ToolResult

Json = dict[str, Any]
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class ChatModel(HostModel):
    api = OPENAI

    def routes(self, application: web.Application) -> None:
        application.router.add_post("/v1/chat/completions", self._chat)
        application.router.add_get("/v1/models", _models)
        application.router.add_route("*", "/{path:.*}", _nothing)

    def results(self) -> list[ToolResult]:
        """What the tools told the model, in order, of the longest conversation."""
        if not self.requests:
            return []
        return _results(max(self.requests, key=lambda body: len(body["messages"]))["messages"])

    def user_texts(self) -> list[str]:
        """What stood in a person's name in the last request that had tools."""
        with_tools = [body for body in self.requests if body.get("tools")]
        return _user_texts(with_tools[-1]["messages"])

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self.requests.append(body)
        message, reason = self.reply(body)
        whole: Json = {"id": f"chatcmpl-{len(self.requests)}", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            kind = {"object": "chat.completion", "choices": [choice], "usage": _USAGE}
            return web.json_response({**whole, **kind})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta, finish in _deltas(message, reason):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {**whole, "object": "chat.completion.chunk", "choices": [choice]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def reply(self, body: Json) -> tuple[Json, str]:
        messages: list[Json] = body["messages"]
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        if not offered:
            return {"role": "assistant", "content": "A title"}, "stop"
        begun = any(message["role"] == "assistant" for message in messages)
        move = self._script.next(_user_texts(messages), _results(messages), begun=begun)
        if move.call is None:
            return {"role": "assistant", "content": move.text}, "stop"
        if move.call.tool not in offered:
            text = f"NO TOOL {move.call.tool} among {sorted(offered)}"
            return {"role": "assistant", "content": text}, "stop"
        call = {
            "id": f"call_{self._script.made():020d}",
            "type": "function",
            "function": {"name": move.call.tool, "arguments": move.arguments},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def _deltas(message: Json, reason: str) -> Iterator[tuple[Json, str | None]]:
    yield {"role": "assistant", "content": "" if message["content"] else None}, None
    text = message["content"] or ""
    for at in range(0, len(text), 20):
        yield {"content": text[at : at + 20]}, None
    for index, call in enumerate(message.get("tool_calls", ())):
        whole = call["function"]["arguments"]
        begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [begun]}, None
        for at in range(0, len(whole), 40):
            piece = {"index": index, "function": {"arguments": whole[at : at + 40]}}
            yield {"tool_calls": [piece]}, None
    yield {}, reason


def _user_texts(messages: list[Json]) -> list[str]:
    return [_text(message["content"]) for message in messages if message["role"] == "user"]


def _results(messages: list[Json]) -> list[ToolResult]:
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    return [
        ToolResult(names[message["tool_call_id"]], _text(message["content"]), None)
        for message in messages
        if message["role"] == "tool"
    ]


def _text(content: str | list[Json] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", json.dumps(part)) for part in content)
    return content or ""


async def _models(_: web.Request) -> web.Response:
    model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "test"}
    return web.json_response({"object": "list", "data": [{**model, "context_length": 128_000}]})


async def _nothing(_: web.Request) -> web.Response:
    error = {"message": "There is nothing here.", "type": "invalid_request_error", "code": None}
    return web.json_response({"error": error}, status=404)
