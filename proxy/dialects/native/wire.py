"""The bodies of the native memory API, `/v1`: requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from policy.after.matchers import Entry, Grade
from policy.model import (
    LINEAGE_LEN_MAX,
    NAME_LEN_MAX,
    NONCE_LEN_MAX,
    TEXT_LEN_MAX,
    MemoryClass,
    SourceKind,
)
from policy.tokens import TOKEN_LEN_MAX
from proxy.dialects.expiry import EXPIRY_LEN_MAX, RFC3339_PATTERN
from proxy.seams.operation import BATCH_LEN_MAX, PAGE_LEN_MAX, SEARCH_LIMIT_MAX

VECTOR_LEN_MAX = 8_192
UUID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

Id = Annotated[str, Meta(pattern=UUID_PATTERN)]
Wide = Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]
Body = Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)]
Nonce = Annotated[str, Meta(min_length=1, max_length=NONCE_LEN_MAX)]
Token = Annotated[str, Meta(min_length=1, max_length=TOKEN_LEN_MAX)]
Vector = Annotated[list[float], Meta(min_length=1, max_length=VECTOR_LEN_MAX)]
Lineage = Annotated[tuple[Id, ...], Meta(max_length=LINEAGE_LEN_MAX)]
Moment = Annotated[str, Meta(pattern=RFC3339_PATTERN, max_length=EXPIRY_LEN_MAX)]


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a create and an update have in common."""

    metadata: dict[str, Any] | None = None
    memory_class: MemoryClass | None = msgspec.field(default=None, name="class")
    source: SourceKind | None = None
    target: Wide = "memories"
    role: Wide | None = None
    actor: Wide | None = None
    derived_from: Lineage = ()
    expires_at: Moment | None = None
    nonce: Nonce | None = None
    promotion_token: Token | None = None
    vector: Vector | None = None


class Create(
    Change, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="create"
):
    """A new memory, in the client's words."""

    text: Body
    user_id: Wide | None = None
    agent_id: Wide | None = None
    run_id: Wide | None = None
    app_id: Wide | None = None


class Update(
    Change, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="update"
):
    """A change of a stored memory; fields that are left out stay as they are."""

    id: Id
    text: Body | None = None


class Delete(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="op",
    tag="delete",
):
    """The deletion of a stored memory."""

    id: Id
    target: Wide = "memories"
    nonce: Nonce | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several changes, each judged by itself, in order."""

    operations: Annotated[
        tuple[Create | Update | Delete, ...], Meta(min_length=1, max_length=BATCH_LEN_MAX)
    ]


class FiledUnder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects memories: all fields that are given must match. Null is refused, not ignored."""

    user_id: Wide | UnsetType = UNSET
    agent_id: Wide | UnsetType = UNSET
    run_id: Wide | UnsetType = UNSET
    app_id: Wide | UnsetType = UNSET
    target: Wide | UnsetType = UNSET
    memory_class: MemoryClass | UnsetType = msgspec.field(default=UNSET, name="class")
    source: SourceKind | UnsetType = UNSET


class PageQuery(FiledUnder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects memories, and which page of them."""

    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_LEN_MAX)] = 100


class OffsetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of a listing to return: the index of its first entry."""

    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0


class Filters(FiledUnder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of a search: all fields must match; metadata by equality of a top-level key."""

    metadata: Annotated[dict[Wide, str | int | float | bool], Meta(max_length=16)] = {}


class SearchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search by a text, or by the client's own vector; `threshold` is the least cosine.

    With `explain` each result has the parts of its score.
    """

    query: Body | None = None
    vector: Vector | None = None
    filters: Filters = Filters()
    limit: Annotated[int, Meta(ge=1, le=SEARCH_LIMIT_MAX)] = 10
    threshold: Annotated[float, Meta(ge=-1, le=1)] = -1.0
    explain: bool = False


class ScoreOut(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a result's score (docs/search.md); `capped` results come after the others."""

    cosine: float
    words: float
    trust: float
    capped: bool


class MemoryOut(msgspec.Struct, frozen=True, kw_only=True):
    """One memory. Times are RFC 3339 in UTC."""

    id: str
    text: str
    metadata: msgspec.Raw | None
    memory_class: MemoryClass = msgspec.field(name="class")
    source: SourceKind
    basis: str
    origin: str | UnsetType = UNSET
    target: str
    created_at: str
    updated_at: str
    candidate_id: str
    user_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    app_id: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    actor: str | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    derived_from: tuple[str, ...] | UnsetType = UNSET
    score: float | UnsetType = UNSET
    explained: ScoreOut | UnsetType = UNSET


class ItemOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one change; for a refusal, with RFC 9457 problem details."""

    decision: str
    status: int
    id: str | None = None
    memory_class: MemoryClass
    class_lowered: bool = False  # whether the memory's class is below the one that the client named
    source: SourceKind | None = None
    candidate_id: str | None = None
    type: str | None = None
    title: str | None = None
    detail: str | None = None
    reason: str | None = None
    step: int | None = None
    observation: str | None = None
    trace_id: str | None = None


class BatchOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result per change, in order."""

    results: tuple[ItemOut, ...]
    admitted: int
    # The number of changes that wait for a person: neither stored nor refused.
    held: int
    refused: int
    trace_id: str


class PageOut(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a listing; `total` counts every match."""

    total: int
    offset: int
    memories: tuple[MemoryOut, ...]


class FoundOut(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a search, best first.

    `recall_id` names the search in feedback; null where the recall ledger kept no record of it.
    """

    results: tuple[MemoryOut, ...]
    recall_id: str | None


class StepOut(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the life of a memory."""

    change: str
    at: str
    candidate_id: str
    source: SourceKind
    memory_class: MemoryClass = msgspec.field(name="class")
    old_text: str | None
    new_text: str | None


class HistoryOut(msgspec.Struct, frozen=True, kw_only=True):
    """The committed steps, oldest first; of a very long history the newest."""

    id: str
    history: tuple[StepOut, ...]


class EntityOut(msgspec.Struct, frozen=True, kw_only=True):
    """One id that memories are filed under."""

    kind: str
    name: str
    count: int
    first_at: str
    last_at: str


class EntitiesOut(msgspec.Struct, frozen=True, kw_only=True):
    """The ids that memories are filed under, as many as fit; `total` counts all of them."""

    total: int
    entities: tuple[EntityOut, ...]


class Feedback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the caller says of one answer, or of one memory.

    Exactly one id is given. Without a verdict it is `wrong`, and then `expect` (words that belong
    in the answer) or `forbid` (words that do not) is needed.
    """

    verdict: Grade | None = None
    reply_id: Wide | None = None
    recall_id: Wide | None = None
    memory_id: Id | None = None
    expect: Entry | None = None
    forbid: Entry | None = None


class NotedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a feedback. `incident` is null if the feedback opened no incident.

    Only the `wrong` of a person or an operator opens one: for an agent's key it is null.
    """

    id: str
    kind: str
    verdict: str
    incident: str | None


class WhoOut(msgspec.Struct, frozen=True, kw_only=True):
    """The principal for which the sidecar takes the caller."""

    principal: str
    tenant: str
    channel: str
    claims: str
    reads: str
    incarnation: str


class AnyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    security: list[Any]
    paths: dict[str, Any]
    components: dict[str, Any]
