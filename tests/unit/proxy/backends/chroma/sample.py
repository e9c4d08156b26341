"""Requests and answers in the shapes of the `chromadb` client and server 1.5.9."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any

import msgspec

from policy.model import CandidateId
from proxy.backends.chroma.chroma import Chroma
from proxy.seams.guard import UnsettledItem
from proxy.seams.http_backend import SentMemory
from proxy.seams.operation import HttpReply, HttpRequest

ADAPTER = Chroma()
UUID = "0b5e1c6a-3f0e-4f2b-9b53-2b1d6f6f1a11"
COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
Json = dict[str, Any]


def vector(*numbers: float) -> str:
    """A vector as the client sends it."""
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def to(operation: str, body: Json | None = None, *, method: str = "POST") -> HttpRequest:
    """A request for the sample collection."""
    return HttpRequest(
        method=method,
        path=f"{COLLECTIONS}/{UUID}/{operation}",
        headers={"x-chroma-token": "key"},
        body=b"" if body is None else msgspec.json.encode(body),
    )


def adding(*ids: str, **columns: object) -> Json:
    """The body of a write, with a vector for each id."""
    return {"ids": ids, "embeddings": [vector(1, 0, 0)] * len(ids)} | columns


def standing(**records: Json) -> HttpReply:
    """The answer to the read of what stands there: each record by its id."""
    columns = {
        f"{part}s": [one.get(part) for one in records.values()]
        for part in ("document", "metadata", "uri")
    }
    return answer({"ids": list(records), "embeddings": None, **columns, "include": []})


def answer(body: object, status: int = 200) -> HttpReply:
    """An answer of the server."""
    return HttpReply(status=status, body=msgspec.json.encode(body))


def body_of(request: HttpRequest | None) -> Json:
    """The body of a request that goes on."""
    assert request is not None
    return msgspec.json.decode(request.body, type=Json)


def admitted(*places: int) -> dict[int, CandidateId]:
    """The admitted ones of a request's records, by their places."""
    return {at: CandidateId(f"{at:032x}") for at in places}


def unsettled(one: SentMemory) -> UnsettledItem:
    """The item of a write, as it is kept for a release or a look-up."""
    return UnsettledItem(
        candidate_id=CandidateId("0" * 32),
        tool="upsert",
        change=one.item.change,
        arguments=one.item.arguments,
        pieces=one.item.pieces,
        key=one.item.key,
        sent=True,
    )
