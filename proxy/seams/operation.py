"""The operations into which every dialect decodes requests, and from which it encodes answers.

A dialect decides nothing and sends nothing: it turns `HttpRequest` into an `Operation` and a
`Result` into an `HttpReply`.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from policy.after.matchers import (
    Grade,
    SignalKind,
)
from policy.model import (
    CandidateId,
    ChangeKind,
    Entity,
    HistoryEntry,
    Hit,
    Memory,
    MemoryClass,
    MemoryId,
    Origin,
    Principal,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from policy.query import EVERYTHING, Filter
from policy.verdict import Reason
from proxy.seams.guard import Join
from telemetry.events import TraceContext

BATCH_LEN_MAX = 1_000
PAGE_LEN_MAX = 1_000
SEARCH_LIMIT_MAX = 1_000

SLASH: Final = "\x1f"
"""A percent-encoded slash in `HttpRequest.path`: a part of a segment, which divides no path."""

DOTS: Final = frozenset({".", ".."})
"""Segments that every HTTP client removes from a path, so that no id may be one."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, framing removed. Header names are lower-case; values are stripped."""

    method: str
    # Percent-decoded once; never contains "..", "//", or control characters besides `SLASH`.
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = {}
    body: bytes = b""

    def key(self, header: str) -> str | None:
        """The key in this header, or that of `Authorization: Bearer`; None where there is none.

        Two different keys give an empty one, which no principal has, and not None: with None the
        peer's uid or certificate would give the principal.
        """
        scheme, _, rest = self.headers.get("authorization", "").partition(" ")
        bearer = (rest.strip() or None) if scheme.lower() == "bearer" else None
        given = self.headers.get(header) or None
        if bearer is not None and given is not None and bearer != given:
            return ""
        return given or bearer


def segment_of(text: str) -> str:
    """The id or name in a segment of a path, with the slashes that were percent-encoded."""
    return text.replace(SLASH, "/")


class HttpReply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `phrase` replaces the standard reason phrase where a client shows only that."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    phrase: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One proposed change, in the client's terms. The interceptor makes a `Candidate` of it."""

    change: ChangeKind
    memory_id: MemoryId | None = None
    # The key that the client itself chose for the memory, in a dialect where clients do. The store
    # derives the memory's id from it, and a creation replaces the memory under the key.
    own_key: str | None = None
    text: str | None = None
    # Canonical JSON of the metadata object (`canonical_json`); None where the client sent none.
    metadata_json: str | None = None
    scope: Scope = Scope()
    target: str = "memories"
    memory_class: MemoryClass = MemoryClass.L3
    class_named: bool = False
    claimed_source: SourceKind | None = None
    role: str | None = None
    actor: str | None = None
    derived_from: tuple[MemoryId, ...] = ()
    expires_at: str | None = None
    # How long the memory lasts from the moment when it is committed; instead of `expires_at`.
    ttl_ms: int | None = None
    nonce: str | None = None
    promotion_token: str | None = None
    # The client's own vector, float32 little-endian, checked for length by the interceptor.
    vector: bytes | None = None
    # Guard mode: the key under which the server files the memory. No dialect sets it.
    guarded_key: str | None = None
    # Guard mode: bytes that are sent with the memory, such as a vector. Only the guard sets them.
    guarded_blob: bytes = b""
    # Guard mode: the text as it would be after the change, if known. Only the guard sets it.
    text_after: str | None = None
    # Whether a model extracted the text from a conversation, so that no key vouches for it.
    extracted: bool = False
    # The origins of the segments in which the guard found the text; no dialect sets them.
    culprits: tuple[Origin, ...] = ()
    # The person who was shown the whole proposal and approved it. No dialect sets it.
    approved_by: PrincipalId | None = None
    # The version of the memory that this person approved the change of; 0 for the one that is read.
    approved_version: int = 0
    # Guard mode: indexes of the pieces that only name something shared (`Item.labels`).
    labels: tuple[int, ...] = ()
    # Ids by which the session ledger may recognise the tool call; unproven claims until it does.
    join: Join | None = None
    # Whether the change goes into a place that a host reads as instructions. No client sets it.
    instructions: bool = False
    # Whether the id also names a memory past its expiry, as in Mem0's API.
    expired: bool = False
    # Guard mode: a character of the call that may not be stored, in words. Only the guard sets it.
    odd: str = ""


class Write(msgspec.Struct, frozen=True, kw_only=True, tag="write"):
    """Proposals, each judged by itself, in order.

    A dialect's `note` is passed to its encoder unchanged.
    """

    proposals: tuple[Proposal, ...]
    note: str = ""


class DeleteWhere(msgspec.Struct, frozen=True, kw_only=True, tag="delete_where"):
    """Delete every live memory that matches.

    Each deletion is a candidate of its own.
    """

    where: Filter
    target: str = "memories"
    nonce: str | None = None
    note: str = ""
    expired: bool = False  # whether memories past their expiry match too


class Search(msgspec.Struct, frozen=True, kw_only=True, tag="search"):
    """Search the live memories nearest to a text or to the client's own vector."""

    query: str | None = None
    vector: bytes | None = None
    where: Filter = EVERYTHING
    limit: int = 10
    threshold: float = -1.0
    note: str = ""
    expired: bool = False  # whether memories past their expiry match too


class ListMemories(msgspec.Struct, frozen=True, kw_only=True, tag="list"):
    """List live memories that match, newest first."""

    where: Filter = EVERYTHING
    offset: int = 0
    limit: int = 100
    note: str = ""
    # Whether the client continues from the number of the last entry that it got, so that a page may
    # be shorter than asked for.
    by_offset: bool = False
    expired: bool = False  # whether memories past their expiry match too


class GetMemory(msgspec.Struct, frozen=True, kw_only=True, tag="get"):
    """Read one live memory, by its id or by the client's own key (`Proposal.own_key`)."""

    memory_id: MemoryId | None = None
    own_key: str | None = None
    note: str = ""
    expired: bool = False  # whether the id also names a memory past its expiry


class GetHistory(msgspec.Struct, frozen=True, kw_only=True, tag="history"):
    """Read every committed step of one memory."""

    memory_id: MemoryId
    note: str = ""


class ListEntities(msgspec.Struct, frozen=True, kw_only=True, tag="entities"):
    """List the ids (users, agents, runs, apps) that live memories are filed under."""

    offset: int = 0
    note: str = ""
    # Whether the client continues from the number of the last entry that it got, as in
    # `ListMemories`.
    by_offset: bool = False


Relation: TypeAlias = tuple[str, str, str]
"""One relation of the graph: where it starts, where it ends, and its type."""


class ReadGraph(msgspec.Struct, frozen=True, kw_only=True, tag="read_graph"):
    """Store mode: read the whole graph, the entities of given names, or those matching a query."""

    names: tuple[str, ...] | None = None
    query: str | None = None


class FindInGraph(msgspec.Struct, frozen=True, kw_only=True, tag="find_in_graph"):
    """Store mode: ask which parts of the graph exist, before a call changes it. No text is shown.

    `texts` are observations, each with the name of its entity. `memory_ids` are looked up among the
    memories of entities. `hanging` asks also for the observations and relations of each entity.
    """

    names: tuple[str, ...] = ()
    memory_ids: tuple[MemoryId, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    relations: tuple[Relation, ...] = ()
    hanging: bool = False


class Identify(msgspec.Struct, frozen=True, kw_only=True, tag="identify"):
    """Ask who the principal is: pings, and `GET /v1/whoami`."""

    note: str = ""


class GiveFeedback(msgspec.Struct, frozen=True, kw_only=True, tag="feedback"):
    """Report how a reply, a recall or a memory was; this changes no memory and no rank.

    `expect` and `forbid`, checked as entries of a matcher, are what the answer should have said
    and should not have.
    """

    grade: Grade
    reply_id: str | None = None
    recall_id: str | None = None
    memory_id: str | None = None
    expect: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    note: str = ""


Operation = (
    Write
    | DeleteWhere
    | Search
    | ListMemories
    | GetMemory
    | GetHistory
    | ListEntities
    | Identify
    | GiveFeedback
)
GraphOperation = ReadGraph | FindInGraph


class WrittenItem(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one proposal. `memory` only for an admitted create or update.

    decision: "admit", "hold", "reject", "missing" (the memory to change is not there) or "error"
    (the gate could not decide; nothing was written).
    """

    decision: str
    change: ChangeKind
    memory_id: MemoryId | None
    candidate_id: CandidateId | None
    reason: Reason | None
    step: int | None
    memory_class: MemoryClass
    source: SourceKind | None
    observation: str  # what the agent is shown: reason, class, what it may do next; no content
    # Version and leaf number in the store, for an operator only; anyone else gets 0.
    version: int = 0
    leaf_index: int = 0
    replayed: bool = False
    memory: Memory | None = None
    # Whether the memory's class is below the one that the client named.
    class_lowered: bool = False


class WriteResult(msgspec.Struct, frozen=True, kw_only=True, tag="written"):
    """Answer to `Write` and `DeleteWhere`, in the order of the proposals."""

    items: tuple[WrittenItem, ...]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True, tag="found"):
    """Answer to `Search`. `recall_id` names the answer in the recall ledger; "" if not recorded."""

    hits: tuple[Hit, ...]
    recall_id: str = ""


class ListResult(msgspec.Struct, frozen=True, kw_only=True, tag="listed"):
    """Answer to `ListMemories`."""

    total: int
    memories: tuple[Memory, ...]


class GetResult(msgspec.Struct, frozen=True, kw_only=True, tag="got"):
    """Answer to `GetMemory`."""

    memory: Memory | None


class HistoryResult(msgspec.Struct, frozen=True, kw_only=True, tag="told"):
    """Answer to `GetHistory`; empty if the memory never existed in this tenant."""

    memory_id: MemoryId
    entries: tuple[HistoryEntry, ...]


class EntitiesResult(msgspec.Struct, frozen=True, kw_only=True, tag="entities"):
    """Answer to `ListEntities`; `total` counts all of them."""

    entities: tuple[Entity, ...]
    total: int = 0


class GraphEntity(msgspec.Struct, frozen=True, kw_only=True):
    """One entity as it is shown, with its observations in the order of their creation."""

    name: str
    entity_type: str
    observations: tuple[str, ...]


class ShownGraph(msgspec.Struct, frozen=True, kw_only=True, tag="graph"):
    """Answer to `ReadGraph`; entities and relations are in the order of their creation."""

    entities: tuple[GraphEntity, ...]
    relations: tuple[Relation, ...]


class KnownEntity(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the graph that exist under one name.

    A name that only orphaned observations or relations use has no memory.

    `hanging` are the memories of the entity's observations and relations, whoever wrote them; those
    that are hardest to delete come first.
    """

    name: str
    memory_ids: tuple[MemoryId, ...]
    hanging: tuple[MemoryId, ...]


class GraphLookupResult(msgspec.Struct, frozen=True, kw_only=True, tag="in_graph"):
    """Answer to `FindInGraph`: the names that exist, and the memories of the texts asked for.

    Texts and relations are in the order of the question; one without memories does not exist.
    """

    entities: tuple[KnownEntity, ...]
    texts: tuple[tuple[MemoryId, ...], ...]
    relations: tuple[tuple[MemoryId, ...], ...]


class IdentityResult(msgspec.Struct, frozen=True, kw_only=True, tag="identity"):
    """Answer to `Identify`."""

    principal: Principal
    incarnation: str


class FeedbackResult(msgspec.Struct, frozen=True, kw_only=True, tag="noted"):
    """Answer to `GiveFeedback`. `case_id`: the case that it opened or joined, "" for none."""

    failure_id: str
    kind: SignalKind
    grade: Grade
    case_id: str = ""


Result = (
    WriteResult
    | SearchResult
    | ListResult
    | GetResult
    | HistoryResult
    | EntitiesResult
    | IdentityResult
    | FeedbackResult
)
GraphResult = ShownGraph | GraphLookupResult


def memories_of(result: Result) -> tuple[Memory, ...]:
    """Every live memory that an answer shows.

    A history shows none, because its texts are earlier ones.
    """
    match result:
        case SearchResult():
            return tuple([hit.memory for hit in result.hits])
        case ListResult():
            return result.memories
        case GetResult() if result.memory is not None:
            return (result.memory,)
        case _:
            return ()


def without_store_numbers(result: Result) -> Result:
    """The same result without versions and leaf numbers, 0 in their place.

    These numbers count the writes of all tenants: from two of them a client could learn how much
    others wrote in between. No request takes such a number.
    """
    match result:
        case WriteResult():
            items = [
                replace(one, version=0, leaf_index=0, memory=one.memory and _unnumbered(one.memory))
                for one in result.items
            ]
            return WriteResult(items=tuple(items))
        case SearchResult():
            hits = [replace(hit, memory=_unnumbered(hit.memory)) for hit in result.hits]
            return replace(result, hits=tuple(hits))
        case ListResult():
            return replace(result, memories=tuple(map(_unnumbered, result.memories)))
        case GetResult():
            return GetResult(memory=result.memory and _unnumbered(result.memory))
        case HistoryResult():
            entries = tuple(replace(entry, version=0, leaf_index=-1) for entry in result.entries)
            return replace(result, entries=entries)
        case EntitiesResult() | IdentityResult() | FeedbackResult():
            return result


def _unnumbered(memory: Memory) -> Memory:
    return replace(memory, version=0, ordinal=-1)


class EarlierText(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier text of a memory that a history shows, with the label that it had then."""

    memory_id: MemoryId
    tenant: Tenant
    source: SourceKind
    text: str | None
    metadata_json: str | None
    role: str | None
    actor: str | None


def earlier_texts_of(result: Result, tenant: Tenant) -> tuple[EarlierText, ...]:
    """The texts that a history brings into a context; () for any other answer."""
    if not isinstance(result, HistoryResult):
        return ()
    # A step's new text suffices: the text that it replaced is the new text of an earlier step.
    return tuple(
        EarlierText(
            memory_id=result.memory_id,
            tenant=tenant,
            source=one.source,
            text=one.new_text,
            metadata_json=one.metadata_json,
            role=one.role,
            actor=one.actor,
        )
        for one in result.entries
    )


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """A failure that is not a verdict; a dialect encodes it in its client's own error shape.

    `title` is a fixed text per status; `detail` never contains anything that the client sent.
    """

    status: int
    title: str
    detail: str
    retry_after_s: int | None = None
    # the methods that the route takes, if the request used a method that it does not take
    allowed: tuple[str, ...] = ()


class EncodingContext(msgspec.Struct, frozen=True, kw_only=True):
    """What an encoder may add to a result: ids for correlation, and the time."""

    trace_id: str
    now_ms: int
    request_id: str


class Dialect(Protocol):
    """One wire language. Pure; one instance serves every request."""

    name: str
    # The first segments of the paths that the dialect may claim; no model API may use them.
    segments: frozenset[str]

    def claims(self, request: HttpRequest) -> bool:
        """Whether this request belongs to this dialect, by its path and its credential's scheme."""
        ...

    def credential(self, request: HttpRequest) -> str | None:
        """The API key in this dialect's own header; None if there is none."""
        ...

    def decode(self, request: HttpRequest) -> Operation:
        """Decode a request; return the operation that it asks for.

        Raises:
            MalformedRequest: The request does not have this dialect's form.
            UnknownWrite: The request is for a mutating route that this dialect does not have.
        """
        ...

    def encode(
        self, request: HttpRequest, operation: Operation, result: Result, answering: EncodingContext
    ) -> HttpReply:
        """Encode a result as an answer in the shape that this dialect's clients expect."""
        ...

    def refuse(
        self, request: HttpRequest, refusal: Refusal, answering: EncodingContext
    ) -> HttpReply:
        """Encode a failure as an answer in the shape that this dialect's clients expect."""
        ...


class Performs(Protocol):
    """Carries out decoded operations; `proxy.intercept.operations.Operations` implements it."""

    async def perform(
        self, principal: Principal, operation: Operation, *, dialect: str, trace: TraceContext
    ) -> Result:
        """Carry out one decoded operation and return its result."""
        ...
