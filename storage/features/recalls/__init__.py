"""The recall ledger: which memories were served to whom, and which a model saw before a reply.

The ledger is evidence for a person who asks why an answer was wrong; no decision depends on it. A
recall names memories by the *ordinal* of their row, and no ordinal is used twice. A recall that is
read has the id of a memory only while the memory's row still has content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policy.model import PRINCIPAL, MemoryId, PrincipalId, Tenant
from policy.model import Memory as Memory

if TYPE_CHECKING:
    from policy.query import Filter

NEAREST_MAX: Final = 50
"""How many of the rows nearest to a query a recall names, whether the answer had them or not."""

Where = tuple[str | int, ...]
"""The path of one string in the JSON body of a model request."""


class RecalledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of an answer, in the version whose row is `ordinal`.

    `memory_id` is None if that row was purged since. `score` is that of a search, None if the
    read did not rank. In a record to be noted, an `ordinal` of -1 means the newest row of the
    memory.
    """

    ordinal: int
    memory_id: MemoryId | None
    score: float | None = None


class ReadSummary(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One read that served memories, in the fields that an operator is shown. `at_ms`: Unix ms.

    `hits` are in the order of the answer, so that their index is their rank. `nearest` are the
    ordinals of at most `NEAREST_MAX` live rows nearest to the query, best first, before the cap on
    one origin; () for a listing. `query`: the words of the query; None if they are not stored, or a
    hit was purged.
    """

    recall_id: str  # the recall's id, 16 hex digits
    at_ms: int
    tenant: Tenant
    principal_id: PrincipalId
    # The dialect of the read's request; for an answer of an upstream server the target.
    front: str
    # `gen_ai.operation.name`: search_memory, list_memories, get_memory, get_history; execute_tool
    # for an answer of an upstream server.
    operation: str
    session: str  # the sidecar's own id of the session; "" if no conversation is known
    version: int  # the store's version at the read
    limit: int
    hits: tuple[RecalledMemory, ...]
    nearest: tuple[int, ...] = ()
    query: str | None = None


class Recall(ReadSummary, frozen=True, kw_only=True):
    """One read that served memories, with the fields that a replay needs.

    `vector` (float16, little-endian) and `where` are None for a listing, and if a hit was purged.
    `words` are the question's hashed words (`MemoryReader.words`); b"" in the same cases.
    `by_vector`: another version hashed the words, so that the search is repeated without them.
    """

    # A hash of the search's filter, 16 hex digits: equal filters have equal hashes.
    filter_digest: str = ""
    vector: bytes | None = None
    where: Filter | None = None
    words: bytes = b""
    by_vector: bool = False


class LaterHits(NamedTuple):
    """The hits of a recall that still have to be searched for in texts.

    `find` is called at most once, on the ledger's thread; if it returns no hit, no record is
    stored. `char_count` is the length of the texts that wait for the search.
    """

    find: Callable[[], tuple[RecalledMemory, ...]]
    char_count: int


class ContextSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A part of one string of a request's body: characters `start` to `end` at `where`."""

    where: Where
    start: int
    end: int


class SeenMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that was in a model request.

    `recall_id` is the last read that served the memory, "" if that read is not stored. `memory_id`
    is None if the row was purged since.
    """

    ordinal: int
    memory_id: MemoryId | None
    recall_id: str = ""


class InContext(SeenMemory, frozen=True, kw_only=True):
    """One memory that was in a model request, with the places of its text."""

    spans: tuple[ContextSpan, ...] = ()


class ReplySummary(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One reply of a model, in the fields that an operator is shown.

    `incomplete`: a record was lost, so more memories may have been in the context.
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
    """How long the ledger stores records, and how many.

    With a `count_max` of 0 the ledger is off. `keep_queries`: the words of queries are stored too.
    """

    keep_days: int = 30
    count_max: int = 1_000_000
    keep_queries: bool = False
