"""Runs in an environment of mem0ai, with agmi on its path, where this project is not installed.

    python drive.py sidecar URL AGENT_KEY PERSON_KEY READER_KEY WAY
    python drive.py bare EMBED_URL

Prints one JSON object: for each of agmi's six attacks what its own runner found, and how many
writes the memory answered with a refusal or let wait.

WAY is `direct`, or `front`: then the text of each write is first in a conversation with the model,
as the person's turn or as what a tool returned. Each `reset` gives the users new names, so that
nothing of the attack before is theirs.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["MEM0_TELEMETRY"] = "false"

import httpx
from agmi.adapters.mem0_semantic import Mem0SemanticAdapter
from agmi.adapters.semantic_base import MemoryItem, Retrieved, SemanticMemoryAdapter
from agmi.attacks import memory_specific
from agmi.measure import run_memory_attacks
from mem0 import MemoryClient
from mem0.exceptions import MemoryError as Mem0Error

_GENUINE = memory_specific.genuine
_ATTACKER_WRITE = memory_specific.attacker_write
_TOOL = {"name": "fetch", "input_schema": {"type": "object"}}


class Person(str):
    """A source label of a write that the person makes; the label itself is the same text."""

    __slots__ = ()


def written_by_the_person(text: str, user_id: str) -> MemoryItem:
    """Agmi's genuine memory, marked so that it is sent with the person's key."""
    item = _GENUINE(text, user_id)
    item.source = Person(item.source)
    return item


def _sent(url: str, key: str, *turns: tuple[str, Any]) -> None:
    messages = [{"role": role, "content": content} for role, content in turns]
    asked = {"model": "scripted", "max_tokens": 64, "tools": [_TOOL], "messages": messages}
    answer = httpx.post(
        f"{url}/anthropic/v1/messages", json=asked, headers={"X-Api-Key": key}, timeout=60
    )
    answer.raise_for_status()


class SidecarAdapter(SemanticMemoryAdapter):
    """Agmi's memory interface over an unmodified `MemoryClient` whose host is a sidecar.

    Agmi's third channel, `agent-laundered`, is a signature by the writer's own key, which an agent
    holds. Here the agent has a key of its own, and no agent holds the person's.
    """

    name = "mnemogate"

    def __init__(self, url: str, agent: str, person: str, reader: str, way: str) -> None:
        self._url = url
        self._agent_key = agent
        self._front = way == "front"
        self._agent = MemoryClient(api_key=agent, host=url)
        self._person = MemoryClient(api_key=person, host=url)
        self._reader = MemoryClient(api_key=reader, host=url)
        self._life = 0
        self.not_stored: dict[str, int] = {"person": 0, "attacker": 0}

    def reset(self) -> None:
        self._life += 1

    def _user(self, user_id: str) -> str:
        return f"{user_id}-of-{self._life}"

    def add_memory(self, item: MemoryItem) -> None:
        hers = isinstance(item.source, Person)
        if self._front:
            self._converse(item.text, hers=hers)
        metadata = {"source": str(item.source), **item.metadata}
        client = self._person if hers else self._agent
        try:
            answer = client.add(
                item.text, user_id=self._user(item.user_id), infer=False, metadata=metadata
            )
            stored = answer["status"] == "SUCCEEDED"
        except Mem0Error:
            stored = False
        if not stored:
            self.not_stored["person" if hers else "attacker"] += 1

    def _converse(self, text: str, *, hers: bool) -> None:
        if hers:
            _sent(self._url, self._agent_key, ("user", text))
            return
        use = {"type": "tool_use", "id": "call_1", "name": "fetch", "input": {"url": "x"}}
        got = {"type": "tool_result", "tool_use_id": "call_1", "content": text}
        turns = (("user", "Read the page."), ("assistant", [use]), ("user", [got]))
        _sent(self._url, self._agent_key, *turns)

    def retrieve(self, query: str, user_id: str, k: int = 5) -> list[Retrieved]:
        return self._found(query, {"user_id": self._user(user_id)}, k)

    def retrieve_where(
        self, query: str, user_id: str, where: dict[str, Any], k: int = 5
    ) -> list[Retrieved]:
        parts = [{"user_id": self._user(user_id)}, {"metadata": where}]
        return self._found(query, {"AND": parts}, k)

    def _found(self, query: str, filters: dict[str, Any], k: int) -> list[Retrieved]:
        hits = self._reader.search(query, filters=filters, top_k=k)["results"]
        return [
            Retrieved(
                text=hit["memory"],
                user_id=str(hit.get("user_id") or "").split("-of-")[0],
                score=float(hit.get("score") or 0.0),
            )
            for hit in hits
        ]


class SameVectors:
    """The vectors of the sidecar's own embedder, in the place of Mem0's."""

    name = "static"

    def __init__(self, url: str) -> None:
        self._url = url
        self.dims = len(self.embed("a"))

    def embed(self, text: str, *_: object, **__: object) -> list[float]:
        answer = httpx.post(self._url, json={"text": text}, timeout=60)
        vector: list[float] = answer.raise_for_status().json()
        return vector

    def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
        return [self.embed(text) for text in texts]

    def describe(self) -> str:
        return "the sidecar's static vectors"


def _told(adapter: SemanticMemoryAdapter) -> dict[str, Any]:
    memory_specific.genuine = written_by_the_person
    results = run_memory_attacks(adapter)
    return {
        "cells": [
            {
                "attack": one.attack,
                "status": one.status,
                "detail": one.detail or one.error,
                "channels": one.channels,
            }
            for one in results
        ],
        "not_stored": getattr(adapter, "not_stored", {}),
    }


def main() -> None:
    """Measure one row, and print it."""
    if sys.argv[1] == "bare":
        with Mem0SemanticAdapter(SameVectors(sys.argv[2])) as adapter:
            told = _told(adapter)
    else:
        told = _told(SidecarAdapter(*sys.argv[2:7]))
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
