"""A scripted model API, and an agent's turns to it, in the shapes of two providers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from aiohttp import web

from proxy.dialects.strict_json.strict import JsonValue
from tests.evaluate.free_port import on_free_port
from tests.evaluate.systems import Bench

TOOL: Final = "fetch_page"
ROUTES: Final = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
_CREDENTIAL: Final = "Authorization: Bearer credential-of-the-sidecar\n"
_CHAT_DONE: Final = b"data: [DONE]\n\n"


class _Asked(msgspec.Struct, frozen=True):
    """The parts of a model request that decide on the answer."""

    stream: bool = False


_ASKED: Final = msgspec.json.Decoder(_Asked)


class ScriptedModel:
    """A scripted model: it keeps every received byte, and always answers that it is done."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[bytes] = []
        # If set, the text that the model answers with in whole replies of the second provider.
        self.says = ""
        # Texts that the model repeats instead, as soon as one of them stands in a request.
        self.believes: tuple[str, ...] = ()

    def served(self) -> web.Application:
        """The web application of this model."""
        application = web.Application(client_max_size=1 << 24)
        application.router.add_post("/{any:.*}", self.answer)
        return application

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one model request."""
        raw = await request.read()
        self.received.append(raw)
        chat = request.path.endswith("completions")
        if not _ASKED.decode(raw).stream:
            read = (text for text in self.believes if text.encode() in raw)
            says = next(read, self.says or "Done.")
            said: list[JsonValue] = [{"type": "text", "text": says}]
            return web.json_response(_CHAT if chat else {**_MESSAGE, "content": said})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in _CHAT_EVENTS if chat else _MESSAGE_EVENTS:
            await response.write(event)
        await response.write_eof()
        return response


def tables(model: ScriptedModel) -> tuple[str, tuple[str, str]]:
    """The configuration of a sidecar in front of the model, and the file with its credential."""
    text = "".join(
        f'[[model]]\nname = "{name}"\napi = "{name}"\nurl = "{model.url}"\n'
        'headers_file = "{place}/provider"\n'
        for name in ROUTES
    )
    return text, ("provider", _CREDENTIAL)


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[ScriptedModel]:
    """The model on a free port of this host."""
    model = ScriptedModel()
    async with on_free_port(model.served()) as model.url:
        yield model


def turn(api: str, question: str, result: str | None, *, stream: bool) -> dict[str, JsonValue]:
    """An agent's request: a question, and with `result` a tool's result."""
    messages: list[JsonValue] = [{"role": "user", "content": question}]
    if api == "openai":
        if result is not None:
            messages += _called_openai(result)
        return {
            "model": "scripted",
            "stream": stream,
            "tools": [{"type": "function", "function": {"name": TOOL}}],
            "messages": messages,
        }
    if result is not None:
        messages += _called_anthropic(result)
    return {
        "model": "scripted",
        "stream": stream,
        "max_tokens": 64,
        "tools": [{"name": TOOL, "input_schema": {"type": "object"}}],
        "messages": messages,
    }


def _called_openai(result: str) -> list[JsonValue]:
    called: JsonValue = {"name": TOOL, "arguments": '{"page": "vendors"}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": called}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]


def _called_anthropic(result: str) -> list[JsonValue]:
    called: JsonValue = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": TOOL,
        "input": {"page": "vendors"},
    }
    done: JsonValue = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
    return [
        {"role": "assistant", "content": [called]},
        {"role": "user", "content": [done]},
    ]


def talk(*said: tuple[str, str]) -> dict[str, JsonValue]:
    """The body of a model request: a conversation of texts alone, each with its role."""
    messages: list[JsonValue] = [{"role": role, "content": text} for role, text in said]
    return {"model": "scripted", "max_tokens": 64, "messages": messages}


async def asked(bench: Bench, key: str, api: str, body: dict[str, JsonValue]) -> bytes:
    """Send one model request through the sidecar; returns every byte of the answer."""
    url = f"{bench.url}/{api}{ROUTES[api]}"
    async with bench.client.post(url, json=body, headers={"X-Api-Key": key}) as answer:
        return await answer.read()


def _event(name: str, data: dict[str, JsonValue]) -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


_USAGE: Final[dict[str, JsonValue]] = {"input_tokens": 1, "output_tokens": 1}
_MESSAGE: Final[dict[str, JsonValue]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "scripted",
    "content": [{"type": "text", "text": "Done."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": _USAGE,
}
_MESSAGE_EVENTS: Final = (
    _event("message_start", {"type": "message_start", "message": {**_MESSAGE, "content": []}}),
    _event(
        "content_block_start",
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
    ),
    _event(
        "content_block_delta",
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Done."},
        },
    ),
    _event("content_block_stop", {"type": "content_block_stop", "index": 0}),
    _event(
        "message_delta",
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _USAGE},
    ),
    _event("message_stop", {"type": "message_stop"}),
)


def _chunk(delta: dict[str, JsonValue], reason: str | None) -> dict[str, JsonValue]:
    choice: JsonValue = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
    }


_CHAT: Final[dict[str, JsonValue]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "scripted",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Done."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_CHAT_EVENTS: Final = (
    _event("", _chunk({"role": "assistant", "content": "Done."}, None)),
    _event("", _chunk({}, "stop")),
    _CHAT_DONE,
)
