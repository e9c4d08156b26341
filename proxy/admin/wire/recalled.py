"""The operator API's answers about the recall ledger: what was served, and what a model saw."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.queries import RecallsQuery, TenantQuery
from proxy.admin.wire.route import NoQuery, get
from storage.features.recalls import ReadSummary, ReplySummary, SeenMemory


class RecallView(ReadSummary, frozen=True, kw_only=True):
    """One read.

    `replayable`: whether the vector and the filter of its question are still kept.
    """

    replayable: bool


class RecallList(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of one tenant, newest first. What is kept begins at `kept_since_ms`."""

    kept_since_ms: int
    recalls: tuple[RecallView, ...]


class ReplyView(ReplySummary, frozen=True, kw_only=True):
    """One reply of a model, and the memories that stood in its request."""

    memories: tuple[SeenMemory, ...]


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
