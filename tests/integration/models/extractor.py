"""The model of a memory backend, scripted: it extracts known facts wherever it reads them.

It answers in the form that it is asked for: Mem0 1's facts and changes, Mem0 2's memories,
Graphiti's entities and edges (of either OpenAI API). Embeddings are made from a text's words.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from tests.evaluate.free_port import on_free_port

Json = dict[str, Any]
DIMENSION: Final = 1_536


class Extractor:
    """Knows some facts by heart; keeps what it was sent and what it answered."""

    def __init__(self, facts: tuple[str, ...]) -> None:
        self.url = ""
        self.requests: list[bytes] = []
        self.answers: list[str] = []
        self._facts = facts

    async def serve(self, request: web.Request) -> web.Response:
        raw = await request.read()
        body: Json = json.loads(raw) if raw else {}
        if request.path.endswith("/embeddings"):
            given: str | list[str] = body["input"]
            texts = [given] if isinstance(given, str) else given
            data = [
                {"object": "embedding", "index": at, "embedding": _vector(text)}
                for at, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return web.json_response({"object": "list", "data": data, "model": "e", "usage": usage})
        self.requests.append(raw)
        prompt = json.dumps(body.get("messages") or body.get("input"), ensure_ascii=False)
        answer = json.dumps(self._answer(prompt, json.dumps(body.get("text") or {})))
        self.answers.append(answer)
        if request.path.endswith("/responses"):
            return web.json_response(_responses(answer))
        return web.json_response(_chat(answer))

    def _answer(self, prompt: str, wanted: str) -> Json:
        found = [fact for fact in self._facts if fact in prompt]
        if "ExtractedEntities" in wanted:
            names = ["Ada", "Bo"] if found else []
            return {"extracted_entities": [{"name": n, "entity_type_id": 0} for n in names]}
        if "ExtractedEdges" in wanted:
            return {"edges": [_edge(fact) for fact in found]}
        if "smart memory manager" in prompt:
            changes = [
                {"id": str(at), "text": fact, "event": "ADD"} for at, fact in enumerate(found)
            ]
            return {"memory": changes}
        if "facts" in prompt and "Personal Information Organizer" in prompt:
            return {"facts": found}
        return {
            "memory": [
                {"id": str(at), "text": fact, "attributed_to": "user", "linked_memory_ids": []}
                for at, fact in enumerate(found)
            ]
        }


def _edge(fact: str) -> Json:
    return {
        "source_entity_name": "Ada",
        "target_entity_name": "Bo",
        "relation_type": "TELLS",
        "fact": fact,
        "valid_at": None,
        "invalid_at": None,
        "episode_indices": [0],
    }


def _vector(text: str) -> list[float]:
    vector = [0.0] * DIMENSION
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.sha256(word.encode()).digest()
        vector[int.from_bytes(digest[:4], "big") % DIMENSION] += 1.0
    length = math.sqrt(sum(one * one for one in vector)) or 1.0
    return [one / length for one in vector]


def _chat(text: str) -> Json:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


def _responses(text: str) -> Json:
    part: Json = {"type": "output_text", "text": text, "annotations": []}
    item: Json = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    more: Json = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, **more, "status": "completed", "output": [item]}


@asynccontextmanager
async def extractor(*facts: str) -> AsyncGenerator[Extractor]:
    model = Extractor(facts)
    application = web.Application(client_max_size=64 * 1024**2)
    application.router.add_route("POST", "/{path:.*}", model.serve)
    async with on_free_port(application, shutdown_timeout=1.0) as model.url:
        yield model
