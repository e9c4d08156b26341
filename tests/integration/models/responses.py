"""OpenAI's Responses API as a scripted model speaks it."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.integration.models.events import event, halves
from tests.integration.models.script import Context, Move

Json = dict[str, Any]


def read(body: Json) -> Context:
    texts: list[str] = []
    results: list[str] = []
    made = 0
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            made += 1
        elif kind.endswith("_output"):
            results.append(_text(item["output"]))
            texts.append(results[-1])
        elif kind == "message" and item["role"] == "user":
            texts.append(_text(item["content"]))
    offered = frozenset(tool["name"] for tool in body.get("tools", ()) if "name" in tool)
    return Context(read=tuple(texts), results=tuple(results), made=made, offered=offered)


def whole(move: Move, body: Json, reply_id: str) -> Json:
    return {**_head(body, reply_id), "status": "completed", "output": _items(move, reply_id)}


def stream(move: Move, body: Json, reply_id: str) -> bytes:
    number = count()
    out: list[bytes] = []

    def say(kind: str, **more: object) -> None:
        out.append(event(kind, {"type": kind, "sequence_number": next(number), **more}))

    head: Json = {**_head(body, reply_id), "status": "in_progress", "output": [], "usage": None}
    say("response.created", response=head)
    say("response.in_progress", response=head)
    for index, item in enumerate(_items(move, reply_id)):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            part = item["content"][0]
            inside = {**place, "content_index": 0}
            begun: Json = {**item, "status": "in_progress", "content": []}
            say("response.output_item.added", output_index=index, item=begun)
            say("response.content_part.added", **inside, part={**part, "text": ""})
            for piece in halves(part["text"]):
                say("response.output_text.delta", **inside, delta=piece, logprobs=[])
            say("response.output_text.done", **inside, text=part["text"], logprobs=[])
            say("response.content_part.done", **inside, part=part)
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            say("response.output_item.added", output_index=index, item=begun)
            for piece in halves(item["arguments"]):
                say("response.function_call_arguments.delta", **place, delta=piece)
            say(
                "response.function_call_arguments.done",
                **place,
                arguments=item["arguments"],
                name=item["name"],
            )
        say("response.output_item.done", output_index=index, item=item)
    say("response.completed", response=whole(move, body, reply_id))
    return b"".join(out)


def _head(body: Json, reply_id: str) -> Json:
    return {
        "id": f"resp_{reply_id}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        },
    }


def _items(move: Move, reply_id: str) -> list[Json]:
    part: Json = {"type": "output_text", "text": move.text, "annotations": [], "logprobs": []}
    message: Json = {
        "id": f"msg_{reply_id}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    calls = [
        {
            "id": f"fc_{reply_id}_{index}",
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.text,
            "status": "completed",
        }
        for index, call in enumerate(move.calls)
    ]
    return [message, *calls]


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
