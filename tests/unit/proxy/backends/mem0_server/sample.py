"""Requests and answers in the shapes of Mem0's self-hosted server.

The exchanges were captured from the server itself, at commit 8d5b7865 of Mem0's repository.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from policy.model import CandidateId, MemoryClass
from policy.verdict import Reason
from proxy.backends.mem0_server.mem0_server import Mem0Server
from proxy.seams.guard import ItemVerdict, UnsettledItem
from proxy.seams.http_backend import SentMemory
from proxy.seams.operation import HttpReply, HttpRequest

ADAPTER = Mem0Server()
ID = "ed3074d1-bb8b-43b1-9519-2bfe3d0dbc96"
OTHER = "a8528e5a-ae38-4484-aa85-7b88750ed74c"
CANDIDATE = CandidateId("5" * 32)
Json = dict[str, Any]


class Exchange(NamedTuple):
    """A request, and the server's answer to it."""

    request: HttpRequest
    reply: HttpReply


def ask(method: str, target: str, body: object = None) -> HttpRequest:
    """A request as a client sends it."""
    split = urlsplit(target)
    return HttpRequest(
        method=method,
        path=split.path,
        query=tuple(parse_qsl(split.query, keep_blank_values=True)),
        headers={"x-api-key": "key"},
        body=b"" if body is None else json.dumps(body).encode(),
    )


def answer(body: object, status: int = 200) -> HttpReply:
    """An answer, written as the server writes it."""
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return HttpReply(status=status, body=raw)


def captured() -> list[Exchange]:
    """The captured exchanges, in their order."""
    found = json.loads(Path(__file__).with_name("captured_8d5b7865.json").read_text())
    return [
        Exchange(
            ask(one["method"], one["target"], one["body"]), answer(one["answer"], one["status"])
        )
        for one in found
    ]


def memory(memory_id: str = ID, text: str = "likes tea", **members: object) -> Json:
    """A memory as a read shows it."""
    return {
        "id": memory_id,
        "memory": text,
        "hash": "0",
        "metadata": None,
        "created_at": "2026-11-20T15:55:06.192058+00:00",
        "updated_at": "2026-11-20T15:55:06.192058+00:00",
        "user_id": "bob",
        "role": "user",
        **members,
    }


def adding(*texts: str, **members: object) -> HttpRequest:
    """An add of one message for each text."""
    messages = [{"role": "user", "content": text} for text in texts]
    body = {"messages": messages, "user_id": "bob", "infer": False, **members}
    return ask("POST", "/memories", body)


def body_of(request: HttpRequest | None) -> Json:
    """The body of a request that goes on."""
    assert request is not None
    return msgspec.json.decode(request.body, type=Json)


def unsettled(one: SentMemory, *, sent: bool = True) -> UnsettledItem:
    """The item of a write, as it is kept for a release or a look-up."""
    item = one.item
    return UnsettledItem(
        candidate_id=CANDIDATE,
        tool="add",
        change=item.change,
        arguments=item.arguments,
        pieces=item.pieces,
        key=item.key,
        sent=sent,
    )


def judged(decision: str, reason: Reason | None = None) -> ItemVerdict:
    """The verdict on one item."""
    return ItemVerdict(
        decision=decision,
        candidate_id=CANDIDATE,
        memory_class=MemoryClass.L3,
        observation="Not stored.",
        reason=Reason.DIRECTIVE_LANGUAGE if reason is None else reason,
    )
