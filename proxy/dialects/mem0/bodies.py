"""Structs for the bodies that Mem0 clients send, and lists of fields that have no effect.

`MemoryClient` sends any keyword argument, so the fields of the 0.1, 1.0 and 2.x clients are listed
here, and any other field is refused with an error that names it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from policy.model import NAME_LEN_MAX, TEXT_LEN_MAX
from proxy.seams.operation import BATCH_LEN_MAX

_Name = Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]
_Text = Annotated[str, Meta(max_length=TEXT_LEN_MAX)]
_Object = dict[str, Any]
_Words = Annotated[list[Annotated[str, Meta(max_length=NAME_LEN_MAX)]], Meta(max_length=64)]

IGNORED_EVERYWHERE: Final = frozenset({"org_id", "project_id", "output_format", "version"})
"""Fields that the 0.1 and 1.0 clients send in every request; the key or the route decides them."""

IGNORED_ADD: Final = IGNORED_EVERYWHERE | {
    # These fields are instructions for a model that extracts memories. The sidecar has no such
    # model, so it ignores them.
    "agent_custom_instructions",
    "custom_categories",
    "custom_fact_extraction_prompt",
    "custom_instructions",
    "custom_update_memory_prompt",
    "excludes",
    "includes",
    "prompt",
    "structured_data_schema",
    # These fields ask for Mem0's graph, or for an answer before the write is done. The sidecar has
    # neither, so it ignores them.
    "async_mode",
    "enable_graph",
    # A time stamp of the client is ignored, so that it cannot backdate a memory.
    "timestamp",
    # Mem0's type of a memory is ignored: it does not decide the memory's class.
    "memory_type",
}
"""Fields that an add accepts and ignores."""

IGNORED_READ: Final = IGNORED_EVERYWHERE | {
    "enable_graph",
    "explain",
    "filter_memories",
    "keyword_search",
    "latest_only",
    "reference_date",
    "rerank",
}
"""Fields that search, list and export accept and ignore."""

IGNORED_QUERY: Final = IGNORED_EVERYWHERE | {"enable_graph", "delete_linked"}


class Part(msgspec.Struct, frozen=True):
    """One part of a message; unknown fields are ignored, because only text parts are read."""

    type: str
    text: _Text | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    """One chat message; unknown fields are ignored, because clients send whole SDK objects."""

    role: _Name = "user"
    content: _Text | Part | Annotated[list[Part | str], Meta(max_length=256)] | None = None
    name: _Name | None = None


class Ids(msgspec.Struct, frozen=True, kw_only=True):
    """The ids that a memory is filed under, as fields at the top level of a body."""

    user_id: _Name | None = None
    agent_id: _Name | None = None
    run_id: _Name | None = None
    app_id: _Name | None = None


class AddBody(Ids, frozen=True, kw_only=True):
    """Body of `POST /v3/memories/add/`, `POST /v1/memories/` and `POST /memories`."""

    messages: (
        _Text | ChatMessage | Annotated[list[ChatMessage | str], Meta(max_length=BATCH_LEN_MAX)]
    )
    filters: _Object | None = None
    metadata: _Object | None = None
    infer: bool | None = None
    expiration_date: str | None = None


class SearchBody(Ids, frozen=True, kw_only=True):
    """Body of `POST /v1|v2|v3/memories/search/` and `POST /search`."""

    query: Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)]
    filters: _Object | None = None
    metadata: _Object | None = None
    categories: _Words | None = None
    fields: _Words | None = None
    top_k: int | None = None
    limit: int | None = None
    threshold: float | None = None
    show_expired: bool | None = None


class ListBody(Ids, frozen=True, kw_only=True):
    """Body of `POST /v2|v3/memories/`, and query of `GET /v1/memories/` and `GET /memories`."""

    filters: _Object | None = None
    metadata: _Object | None = None
    categories: _Words | None = None
    fields: _Words | None = None
    start_date: str | None = None
    end_date: str | None = None
    page: int | str | None = None
    page_size: int | str | None = None
    top_k: int | str | None = None
    limit: int | str | None = None
    show_expired: bool | str | None = None


class ExportBody(Ids, frozen=True, kw_only=True):
    """Body of `POST /v1/exports/` and `POST /v1/exports/get/`."""

    filters: _Object | None = None
    memory_export_id: Annotated[str, Meta(max_length=16_384)] | None = None
    page: int | str | None = None
    page_size: int | str | None = None


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /v1/feedback/`. Mem0's `feedback_reason` is free text, which is ignored."""

    memory_id: _Name
    feedback: Literal["POSITIVE", "NEGATIVE", "VERY_NEGATIVE"]


class UpdateBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `PUT /v1/memories/{id}/` and `PUT /memories/{id}`; a null date removes the expiry."""

    text: _Text | None = None
    metadata: _Object | None = None
    expiration_date: str | UnsetType | None = UNSET


class BatchItem(UpdateBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of a batch: a memory's id, and the change to the memory."""

    memory_id: _Name


class BatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `PUT /v1/batch/` and `DELETE /v1/batch/`."""

    memories: Annotated[list[BatchItem], Meta(min_length=1, max_length=BATCH_LEN_MAX)]
