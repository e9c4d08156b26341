"""The recall ledger: which memories were served to whom, and which a model saw before a reply.

It is evidence for a person who asks why an answer was wrong; no decision depends on it. Recalls
name memories by the *ordinal* of their row, which no purge reuses: a recall that is read back has
the memory's id only while the row still has content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from policy.model import PRINCIPAL, Memory, MemoryId, PrincipalId, Tenant
from policy.query import Filter

NEAREST_MAX: Final = 50
"""How many of the rows nearest to a query a recall names, whether they were shown or not."""

Where = tuple[str | int, ...]
"""The path of one string in the JSON body of a model request."""


class RecalledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of an answer, in the state that its row `ordinal` has.

    `memory_id` is None where that row was purged since. `score` is the cosine of a search, None
    where nothing was ranked. A caller that notes a memory without an ordinal (-1) means its newest
    row.
    """

    ordinal: int
    memory_id: MemoryId | None
    score: float | None = None


class ReadSummary(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One read that served memories, as an operator is shown it. `at_ms`: Unix milliseconds.

    `hits` stand in the order of the answer, so their place is their rank. `nearest` are the
    ordinals of at most `NEAREST_MAX` live rows nearest to the query, best first, before the cap on
    one origin; () for a listing. `query`: its words; None where they were not kept, and where a hit
    was purged.
    """

    recall_id: str  # the recall's id, 16 hex digits
    at_ms: int
    tenant: Tenant
    principal_id: PrincipalId
    # The dialect of the request that read; for an answer of a server behind the gate its target.
    front: str
    # `gen_ai.operation.name`: search_memory, list_memories, get_memory, get_history; execute_tool
    # for an answer of a server behind the gate.
    operation: str
    session: str  # our own id of the session; "" where no conversation is known
    version: int  # the store's version at the read
    limit: int
    hits: tuple[RecalledMemory, ...]
    nearest: tuple[int, ...] = ()
    query: str | None = None


class Recall(ReadSummary, frozen=True, kw_only=True):
    """One read that served memories, with what its replay needs.

    `vector` (float16, little-endian) and `where` are None where `query` may not be kept either.
    """

    # A hash of the search's filter, 16 hex digits: equal filters have equal hashes.
    filter_digest: str = ""
    vector: bytes | None = None
    where: Filter | None = None


class LaterHits(NamedTuple):
    """The hits of a recall where they still have to be found in texts.

    `find` is called once at most, on the ledger's thread; with no hit there is no record.
    `char_count` is the length of the texts that wait for it.
    """

    find: Callable[[], tuple[RecalledMemory, ...]]
    char_count: int


class ContextSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A part of one string of a request's body: characters `start` to `end` at `where`."""

    where: Where
    start: int
    end: int


class SeenMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that stood in a model request.

    `recall_id` is the read that served it last, "" where that is not kept. `memory_id` is None
    where the row was purged since.
    """

    ordinal: int
    memory_id: MemoryId | None
    recall_id: str = ""


class InContext(SeenMemory, frozen=True, kw_only=True):
    """One memory that stood in a model request, with the places where it stood."""

    spans: tuple[ContextSpan, ...] = ()


class ReplySummary(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One reply of a model.

    `incomplete`: a record was lost on the way, so more memories may have been in the context.
    """

    reply_id: str  # the API's own id of the reply
    at_ms: int
    tenant: Tenant
    principal_id: PrincipalId
    model: str  # the [[model]] table of the settings through which the model was asked
    session: str
    turn: int  # how many turns of the conversation the request had
    calls: tuple[str, ...] = ()  # names of the tools that the model called
    incomplete: bool = False


class ReplyRecord(ReplySummary, frozen=True, kw_only=True):
    """One reply of a model, with the memories in the request that produced the reply."""

    memories: tuple[InContext, ...]


class RecallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How long records are kept, and how many.

    With a `count_max` of 0 the ledger is off.
    """

    keep_days: int = 30
    count_max: int = 1_000_000
    keep_queries: bool = False


class Recalls(Protocol):
    """The recall ledger. Reads on any thread but the event loop's: each may read files.

    A read waits a second at most for records that were noted before it.
    """

    def note(self, record: Recall | ReplyRecord, later: LaterHits | None = None) -> str:
        """Queue a record to be kept; never waits and never raises. Event loop only.

        `later` finds the hits of a recall that has none yet. Returns the id of a recall, whose own
        id field is ignored; "" for a record that is dropped, because too much waits or the ledger
        is off.
        """
        ...

    @property
    def kept_since_ms(self) -> int:
        """The time of the oldest stored record; the present time if there is none."""
        ...

    @property
    def dropped_count(self) -> int:
        """How many records were dropped since the start: no room in the queue, or on the disk."""
        ...

    def recall(self, recall_id: str) -> Recall | None:
        """One recall by its id; None if it is not stored."""
        ...

    def reply(self, tenant: Tenant, reply_id: str) -> ReplyRecord | None:
        """One reply of the tenant, by the id that the model API gave it.

        None if it is not stored.
        """
        ...

    def recalls(
        self,
        tenant: Tenant,
        *,
        session: str | None = None,
        memory_id: MemoryId | None = None,
        since_ms: int = 0,
        limit: int = 100,
    ) -> tuple[Recall, ...]:
        """Recalls of a tenant, newest first: of a session, or those that served a memory."""
        ...

    def replies(
        self,
        tenant: Tenant,
        *,
        session: str | None = None,
        memory_id: MemoryId | None = None,
        since_ms: int = 0,
        limit: int = 100,
    ) -> tuple[ReplyRecord, ...]:
        """Replies of a tenant, newest first: of a session, or with a memory in their context."""
        ...

    def memories(self, tenant: Tenant, ordinals: Sequence[int]) -> dict[int, Memory]:
        """By ordinal, the memory in the state that the row records, to replay what a reader saw.

        Quarantined and deleted memories are included, so only an operator may see them; purged
        rows, and those of other tenants, are left out.
        """
        ...
