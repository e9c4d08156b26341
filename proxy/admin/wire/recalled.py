"""The operator API's answers about the recall ledger: what was served, and what a model saw."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.queries import RecallsQuery, TenantQuery
from proxy.admin.wire.route import NoQuery, get
from storage.features.recalls import RecalledMemory


class RecallView(msgspec.Struct, frozen=True, kw_only=True):
    """One read. `at_ms`: Unix milliseconds; `nearest`: rows by their ordinals.

    `replayable`: whether the vector and the filter of its question are still kept. `query`: its
    words, where `keep_queries` has them kept.
    """

    recall_id: str
    at_ms: int
    tenant: str
    principal: str
    front: str
    operation: str
    session: str
    version: int
    limit: int
    hits: tuple[RecalledMemory, ...]
    nearest: tuple[int, ...]
    replayable: bool
    query: str | None


class RecallList(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of one tenant, newest first. What is kept begins at `kept_since_ms`."""

    kept_since_ms: int
    recalls: tuple[RecallView, ...]


class SeenView(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that stood in a model's context.

    `recall_id` is "" if no record is kept of the read that brought the memory.
    """

    memory_id: str | None
    ordinal: int
    recall_id: str


class ReplyView(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a model, and the memories that stood in its request.

    `incomplete`: a record is missing, so more memories may have stood there.
    """

    reply_id: str
    at_ms: int
    tenant: str
    principal: str
    model: str
    session: str
    turn: int
    memories: tuple[SeenView, ...]
    calls: tuple[str, ...]
    incomplete: bool


# A search among all records reads every one of them.
RECALLS: Final = get(
    "/recalls",
    RecallsQuery,
    RecallList,
    "Which memories reads showed to whom, newest first.",
    slow=True,
)
RECALL: Final = get(
    "/recalls/{recall_id}", NoQuery, RecallView, "One read, and the memories that it showed."
)
REPLY: Final = get(
    "/replies/{reply_id}",
    TenantQuery,
    ReplyView,
    "The memories that stood in the request behind a reply of a model.",
)
