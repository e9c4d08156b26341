"""Google's Gemini API as a scripted model speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.models.events import halves
from tests.integration.models.script import Context, Move

Json = dict[str, Any]
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="


def read(body: Json) -> Context:
    texts: list[str] = []
    results: list[str] = []
    made = 0
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionCall" in part:
                made += 1
            elif "functionResponse" in part:
                results.append("\n".join(map(str, part["functionResponse"]["response"].values())))
                texts.append(results[-1])
            elif content["role"] == "user" and "text" in part:
                texts.append(part["text"])
    declared = (one for tool in body.get("tools", ()) for one in tool["functionDeclarations"])
    offered = frozenset(one["name"] for one in declared)
    return Context(read=tuple(texts), results=tuple(results), made=made, offered=offered)


def whole(move: Move, body: Json, reply_id: str) -> Json:
    del body
    return _chunk(reply_id, [{"text": move.text}, *_calls(move)], "STOP")


def stream(move: Move, body: Json, reply_id: str) -> bytes:
    del body
    chunks = [_chunk(reply_id, [{"text": part}]) for part in halves(move.text)]
    chunks += [_chunk(reply_id, [part]) for part in _calls(move)]
    chunks.append(_chunk(reply_id, [{"text": ""}], "STOP"))
    return b"".join(f"data: {json.dumps(one)}\r\n\r\n".encode() for one in chunks)


def _calls(move: Move) -> list[Json]:
    return [
        {
            "functionCall": {
                # Some versions of the API give calls no ids.
                **({"id": call.call_id} if call.call_id else {}),
                "name": call.name,
                "args": call.arguments,
            },
            "thoughtSignature": SIGNATURE,
        }
        for call in move.calls
    ]


def _chunk(reply_id: str, parts: list[Json], reason: str = "") -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return {
        "candidates": [{**candidate, "finishReason": reason} if reason else candidate],
        "usageMetadata": usage,
        "modelVersion": "scripted",
        "responseId": f"g{reply_id}",
    }
