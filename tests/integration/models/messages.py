"""Anthropic's Messages API as a scripted model speaks it."""

from __future__ import annotations

from typing import Any

from tests.integration.models.events import event, halves
from tests.integration.models.script import Context, Move

Json = dict[str, Any]


def read(body: Json) -> Context:
    texts: list[str] = []
    results: list[str] = []
    made = 0
    for message in body["messages"]:
        for block in _blocks(message["content"]):
            if block["type"] == "tool_use":
                made += 1
            elif message["role"] == "user" and block["type"] == "text":
                texts.append(block["text"])
            elif block["type"] == "tool_result":
                results.append(_text(block.get("content", "")))
                texts.append(results[-1])
    offered = frozenset(tool["name"] for tool in body.get("tools", ()))
    return Context(read=tuple(texts), results=tuple(results), made=made, offered=offered)


def whole(move: Move, body: Json, reply_id: str) -> Json:
    return {**_head(body, reply_id), "content": _content(move), "stop_reason": _reason(move)}


def stream(move: Move, body: Json, reply_id: str) -> bytes:
    head: Json = {**_head(body, reply_id), "content": [], "stop_reason": None}
    out = [event("message_start", {"type": "message_start", "message": head})]
    out.append(event("ping", {"type": "ping"}))
    for index, block in enumerate(_content(move)):
        if block["type"] == "text":
            empty: Json = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in halves(block["text"])]
        else:
            empty = {**block, "input": {}}
            given = next(call.text for call in move.calls if call.call_id == block["id"])
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in halves(given)]
        start = {"type": "content_block_start", "index": index, "content_block": empty}
        out.append(event("content_block_start", start))
        for delta in deltas:
            piece = {"type": "content_block_delta", "index": index, "delta": delta}
            out.append(event("content_block_delta", piece))
        out.append(event("content_block_stop", {"type": "content_block_stop", "index": index}))
    ended = {"stop_reason": _reason(move), "stop_sequence": None}
    end = {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}}
    out += [event("message_delta", end), event("message_stop", {"type": "message_stop"})]
    return b"".join(out)


def _head(body: Json, reply_id: str) -> Json:
    return {
        "id": f"msg_{reply_id}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }


def _content(move: Move) -> list[Json]:
    uses = [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}
        for call in move.calls
    ]
    return [{"type": "text", "text": move.text}, *uses]


def _reason(move: Move) -> str:
    return "tool_use" if move.calls else "end_turn"


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: str | list[Json]) -> str:
    return "\n".join(block.get("text", "") for block in _blocks(content))
