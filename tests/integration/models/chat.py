"""OpenAI's Chat Completions API as a scripted model speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.models.events import halves
from tests.integration.models.script import Context, Move

Json = dict[str, Any]


def read(body: Json) -> Context:
    texts: list[str] = []
    results: list[str] = []
    made = 0
    for message in body["messages"]:
        text = _text(message.get("content") or "")
        made += len(message.get("tool_calls") or ())
        if message["role"] == "tool":
            results.append(text)
        if message["role"] in ("user", "tool"):
            texts.append(text)
    offered = frozenset(tool["function"]["name"] for tool in body.get("tools", ()))
    return Context(read=tuple(texts), results=tuple(results), made=made, offered=offered)


def whole(move: Move, body: Json, reply_id: str) -> Json:
    message: Json = {"role": "assistant", "content": move.text, "refusal": None}
    if move.calls:
        message["tool_calls"] = _calls(move)
    choice = {"index": 0, "message": message, "finish_reason": _reason(move), "logprobs": None}
    return {**_head(body, reply_id, "chat.completion"), "choices": [choice], "usage": _USAGE}


def stream(move: Move, body: Json, reply_id: str) -> bytes:
    head = _head(body, reply_id, "chat.completion.chunk")
    out: list[bytes] = []

    def chunk(delta: Json, reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        out.append(_data({**head, "choices": [choice]}))

    chunk({"role": "assistant", "content": ""})
    for part in halves(move.text):
        chunk({"content": part})
    for index, call in enumerate(_calls(move)):
        given = call["function"]["arguments"]
        begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        chunk({"tool_calls": [begun]})
        for part in halves(given):
            chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    chunk({}, _reason(move))
    options: Json = body.get("stream_options") or {}
    if options.get("include_usage"):
        out.append(_data({**head, "choices": [], "usage": _USAGE}))
    return b"".join([*out, b"data: [DONE]\n\n"])


_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def _data(body: Json) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def _head(body: Json, reply_id: str, kind: str) -> Json:
    return {"id": f"chatcmpl-{reply_id}", "object": kind, "created": 1, "model": body["model"]}


def _calls(move: Move) -> list[Json]:
    return [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.text},
        }
        for call in move.calls
    ]


def _reason(move: Move) -> str:
    return "tool_calls" if move.calls else "stop"


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
