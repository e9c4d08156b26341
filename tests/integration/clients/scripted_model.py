"""A model server that speaks OpenAI's Chat Completions and follows a script.

For each prompt of a person the script says which tools are called, batch after batch, and what is
said at the end. All requests of the agent are kept: they are what a model would have read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from tests.evaluate.free_port import on_free_port

Message = dict[str, Any]


class Call(msgspec.Struct, frozen=True):
    """One tool call."""

    name: str
    arguments: dict[str, Any]


class Turn(msgspec.Struct, frozen=True):
    """What the model does with one prompt."""

    batches: tuple[tuple[Call, ...], ...] = ()
    final: str = "Done."


class ScriptedModel:
    """The script, and the messages of every request that came."""

    def __init__(self, script: Mapping[str, Turn]) -> None:
        self.script = script
        self.requests: list[list[Message]] = []
        self.url = ""

    def tool_results(self) -> list[str]:
        """What the tools told the model, in order, of the longest conversation seen."""
        if not self.requests:
            return []
        longest = max(self.requests, key=len)
        return [str(message["content"]) for message in longest if message["role"] == "tool"]

    def user_texts(self) -> list[str]:
        """Every user message of every request, as the model got it."""
        return [
            str(message["content"])
            for messages in self.requests
            for message in messages
            if message["role"] == "user"
        ]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages: list[Message] = body["messages"]
        self.requests.append(messages)
        message, reason = self._next(messages)
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return web.json_response(_completion([choice], "chat.completion"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for call_index, call in enumerate(message.get("tool_calls", ())):
            call["index"] = call_index
        for delta, finish in ((message, None), ({}, reason)):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = json.dumps(_completion([choice], "chat.completion.chunk"))
            await response.write(f"data: {chunk}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def _next(self, messages: list[Message]) -> tuple[Message, str]:
        """The next batch of calls for the last prompt, or the final words."""
        last = max(at for at, message in enumerate(messages) if message["role"] == "user")
        prompt = str(messages[last]["content"]).partition("\n\n<memory-context>")[0]
        turn = self.script.get(prompt, Turn())
        done = sum("tool_calls" in message for message in messages[last:])
        if done >= len(turn.batches):
            return {"role": "assistant", "content": turn.final}, "stop"
        calls = [
            {
                "id": f"call_{len(messages)}_{at}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for at, call in enumerate(turn.batches[done])
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


async def _models(_: web.Request) -> web.Response:
    model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "test"}
    return web.json_response({"object": "list", "data": [{**model, "context_length": 128_000}]})


@asynccontextmanager
async def scripted_model(script: Mapping[str, Turn]) -> AsyncGenerator[ScriptedModel]:
    """A model on a free port; its `url` ends in `/v1`."""
    model = ScriptedModel(script)
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/chat/completions", model.answer)
    application.router.add_get("/v1/models", _models)
    async with on_free_port(application) as url:
        model.url = f"{url}/v1"
        yield model


def _completion(choices: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    base = {"id": "chatcmpl-1", "object": kind, "created": 0, "model": "scripted"}
    return {**base, "choices": choices, "usage": usage}
