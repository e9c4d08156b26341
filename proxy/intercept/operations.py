"""Carries out one operation of one principal; no write has an effect before its verdict.

Writes become candidates here and wait for the writer; reads pass the store's filters. Nothing in
this file decides: the gate decides, on the writer's thread, inside the transaction that commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar, TypeVarTuple, assert_never

from msgspec.structs import replace

from policy.model import (
    NONCE_LEN_MAX,
    ChangeKind,
    Channel,
    Entity,
    MemoryId,
    Principal,
    PrincipalId,
    Tenant,
)
from policy.ruleset import Ruleset
from proxy.dialects.mcp.store.graph import WHOLE_GRAPH
from proxy.embed.embedding import takes_client_vectors, unit_vector
from proxy.intercept.budgets import WriteCounts
from proxy.intercept.graphs import Graphs
from proxy.intercept.interceptor import Interceptor
from proxy.intercept.recall_notes import RecallNotes
from proxy.seams.access import plain
from proxy.seams.environment import Embedder, Environment
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    DeleteWhere,
    EntitiesResult,
    FeedbackResult,
    FindInGraph,
    GetHistory,
    GetMemory,
    GetResult,
    GiveFeedback,
    GraphOperation,
    GraphResult,
    HistoryResult,
    Identify,
    IdentityResult,
    ListEntities,
    ListMemories,
    ListResult,
    Operation,
    Proposal,
    Result,
    Search,
    SearchResult,
    Write,
    WriteResult,
    WrittenItem,
    without_store_numbers,
)
from proxy.seams.recalls import Read, ReadAnswer, Shown
from proxy.withhold.screens import Screen
from storage.interfaces import MemoryReader
from telemetry.events import ReadServed, TraceContext

DELETE_WHERE_MAX = 100_000
SHOWN_PER_UNIT = 100
"""The number of a graph's memories in an answer that counts as one write in the window."""
# Leaves room for "/" and a memory id, which are added to make one nonce per deleted memory.
BULK_NONCE_LEN_MAX = NONCE_LEN_MAX - 37

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class Window:
    """Counts expensive reads in the window in which a principal's writes are counted.

    Event loop only.
    """

    def __init__(
        self, budgets: WriteCounts, ruleset: Callable[[], Ruleset], now_ms: Callable[[], int]
    ) -> None:
        self._budgets = budgets
        self._ruleset = ruleset
        self._now_ms = now_ms

    def take(self, principal_id: PrincipalId) -> None:
        """Count one read in the principal's window.

        Raises:
            RateLimited: The window has no room for it.
        """
        limits = self._ruleset().budgets
        self._budgets.require_room(principal_id, 1, limits, self._now_ms())
        self.spend(principal_id, 1)

    def spend(self, principal_id: PrincipalId, count: int) -> None:
        """Count a read as `count` more writes, once its size is known."""
        self._budgets.spend(principal_id, count, self._now_ms())


class Operations:
    """Carries out operations: one per call, any number of calls at once. Event loop only."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        writing: Interceptor,
        embedder: Embedder,
        surroundings: Environment,
        executor: Executor,
        recalls: RecallNotes,
        graphs: Graphs,
        window: Window,
        feedback: Callable[[Principal, GiveFeedback], Awaitable[FeedbackResult]],
        screen: Callable[[Principal], Screen | None] | None,
    ) -> None:
        """`screen` makes the filter of one read's memories; None: every memory may be shown.

        `feedback` is `proxy.aftermath.feedback.FeedbackIntake.take`.
        """
        self._feedback = feedback
        self._screen = screen
        self._reader = reader
        self._writing = writing
        self._embedder = embedder
        self._out = surroundings
        self._executor = executor
        self._recalls = recalls
        self._graphs = graphs
        self._window = window

    async def perform(
        self, principal: Principal, operation: Operation, *, dialect: str, trace: TraceContext
    ) -> Result:
        """Carry out one decoded operation on the principal's tenant; return its result.

        Only an operator's result contains leaf indexes and versions, because they reveal the number
        of writes of all tenants.

        Raises:
            MalformedRequest: The operation cannot be carried out as asked; nothing was staged.
            RateLimited: The principal's window has no room for it.
            StorageError: The store could not answer; for a write, no item of it was judged.
        """
        result: Result
        if isinstance(operation, Write):
            settled = partial(self._settled, principal)
            proposals = tuple(map(settled, operation.proposals))
            items = await self._writing.judge(principal, proposals, dialect, trace)
            result = WriteResult(items=await self._told(principal, proposals, items))
        elif isinstance(operation, DeleteWhere):
            proposals = await self._matching(principal, operation)
            items = await self._writing.judge(principal, proposals, dialect, trace)
            result = WriteResult(items=items)
        elif isinstance(operation, Identify):
            result = self._identity(principal)
        elif isinstance(operation, GiveFeedback):
            result = await self._feedback(principal, operation)
        else:
            result = await self._shown(principal, operation, dialect, trace)
        return result if principal.channel is Channel.OPERATOR else without_store_numbers(result)

    async def _shown(
        self, principal: Principal, operation: Read, dialect: str, trace: TraceContext
    ) -> Result:
        started_ns = self._out.clock_ns()
        screen = self._screen(principal) if self._screen else None
        answered = _without(await self._read(principal, operation, screen), screen)
        recall_id = self._serve(principal, answered, dialect, trace, started_ns)
        if isinstance(answered.shown, SearchResult):
            return replace(answered.shown, recall_id=recall_id)
        return answered.shown

    async def graph(
        self, principal: Principal, operation: GraphOperation, *, dialect: str, trace: TraceContext
    ) -> GraphResult:
        """Carry out a store mode operation on the tenant's graph; return its result.

        The operation counts in the principal's window.

        Raises:
            MalformedRequest: The graph is larger than anything that could be shown.
            RateLimited: The principal's window has no room for it.
            StorageError: The store could not answer.
        """
        self._window.take(principal.principal_id)
        if isinstance(operation, FindInGraph):
            # The answer reports only which parts exist and contains no text, so it is not noted as
            # a recall.
            find = self._graphs.find
            return await self._in_thread(find, principal.tenant, operation, principal.reads)
        started_ns = self._out.clock_ns()
        screen = self._screen(principal) if self._screen else None
        shown = await self._in_thread(
            self._graphs.read, principal.tenant, operation, screen, principal.reads
        )
        count = len(shown.memories)
        # A tenant can make its graph as large as it likes, so a large answer counts for more.
        self._window.spend(principal.principal_id, count // SHOWN_PER_UNIT)
        answered = ReadAnswer(
            read=ListMemories(where=WHOLE_GRAPH),
            shown=ListResult(total=count, memories=shown.memories),
            name="list_memories",
            count=count,
        )
        self._serve(principal, _without(answered, screen), dialect, trace, started_ns)
        return shown.answer

    def _serve(
        self,
        principal: Principal,
        answered: ReadAnswer,
        dialect: str,
        trace: TraceContext,
        started_ns: int,
    ) -> str:
        """Report a read to recall ledger and telemetry before it is answered; return the recall id.

        The id is "" if no recall is recorded.
        """
        recall_id = self._recalls.served(principal, answered, dialect=dialect)
        self._out.record(
            ReadServed(
                context=trace,
                operation=answered.name,
                dialect=dialect,
                started_ns=started_ns,
                ended_ns=self._out.clock_ns(),
                principal=principal.principal_id,
                tenant=principal.tenant,
                record_count=answered.count,
                recall_id=recall_id,
            )
        )
        return recall_id

    async def _told(
        self,
        principal: Principal,
        proposals: tuple[Proposal, ...],
        items: tuple[WrittenItem, ...],
    ) -> tuple[WrittenItem, ...]:
        """The items of a write's answer, without memories that a read may not show.

        A change without a text is answered with the stored text, which the principal may not be
        allowed to read.
        """
        if None not in [one.text for one in proposals]:
            return items
        screen = self._screen(principal) if self._screen else None
        told: list[WrittenItem] = []
        for one, item in zip(proposals, items, strict=True):
            before = None if one.text is not None else item.memory
            shows = before is None or principal.reads.shows(before.source)
            if shows and before is not None and screen is not None:
                shows = await self._in_thread(screen.shows, before)
            told.append(item if shows else replace(item, memory=None))
        return tuple(told)

    def _settled(self, principal: Principal, proposal: Proposal) -> Proposal:
        """The proposal with the gate's memory ids, and with its expiry computed from `ttl_ms`.

        The id of a client's own key is computed from the key alone, so no other write can change it
        before the verdict: of two creations under one key the second replaces the first.
        """
        memory_id, own_key = proposal.memory_id, proposal.own_key
        named = memory_id is not None or own_key is not None or proposal.derived_from
        if not named and proposal.ttl_ms is None:
            return proposal
        tenant, reader = principal.tenant, self._reader.at(principal.reads)
        if own_key is not None:
            creates = proposal.change is ChangeKind.CREATE
            by = principal.principal_id if creates else None
            memory_id = reader.id_of(tenant, own_key, by)
        elif memory_id is not None:
            memory_id = reader.stands_for(tenant, memory_id)
        parents = tuple(reader.stands_for(tenant, one) for one in proposal.derived_from)
        proposal = replace(proposal, memory_id=memory_id, derived_from=parents)
        if proposal.ttl_ms is None:
            return proposal
        ends = datetime.fromtimestamp((self._out.now_ms() + proposal.ttl_ms) / 1_000, UTC)
        return replace(proposal, expires_at=ends.isoformat(timespec="milliseconds"))

    async def _matching(self, principal: Principal, operation: DeleteWhere) -> tuple[Proposal, ...]:
        """One delete for each live memory that matches; each of them is judged by itself."""
        if operation.nonce is not None and len(operation.nonce) > BULK_NONCE_LEN_MAX:
            raise MalformedRequest(f"nonce: at most {BULK_NONCE_LEN_MAX} characters for a bulk")
        # Only ids are read: the texts of up to `DELETE_WHERE_MAX` memories would need too much
        # memory.
        reader = self._reader.at(principal.reads, expired=operation.expired)
        found = await self._in_thread(
            reader.ids, principal.tenant, operation.where, DELETE_WHERE_MAX
        )
        return tuple(
            Proposal(
                change=ChangeKind.DELETE,
                memory_id=memory_id,
                expired=operation.expired,
                target=operation.target,
                # A nonce can be spent by one candidate only, so each has its memory's id as suffix.
                nonce=f"{operation.nonce}/{memory_id}" if operation.nonce else None,
            )
            for memory_id in found
        )

    async def _read(
        self, principal: Principal, operation: Read, screen: Screen | None
    ) -> ReadAnswer:
        expired = isinstance(operation, Search | ListMemories | GetMemory) and operation.expired
        tenant, reader = principal.tenant, self._reader.at(principal.reads, expired=expired)
        match operation:
            case Search():
                return await self._searched(reader, tenant, operation, screen)
            case ListMemories():
                found = await self._in_thread(_listed, reader, tenant, operation, screen)
                return _answered(operation, found, "list_memories", len(found.memories))
            case GetMemory():
                memory_id = operation.memory_id
                if operation.own_key is not None:
                    memory_id = reader.id_of(tenant, operation.own_key)
                memory = None if memory_id is None else reader.get(tenant, memory_id)
                if memory is not None and screen is not None:
                    memory = memory if await self._in_thread(screen.shows, memory) else None
                got = GetResult(memory=memory)
                return _answered(operation, got, "get_memory", int(memory is not None))
            case GetHistory():
                entries = await self._in_thread(reader.history, tenant, operation.memory_id)
                if screen is not None:
                    entries = await self._in_thread(screen.history, entries)
                told = HistoryResult(memory_id=MemoryId(operation.memory_id), entries=entries)
                return _answered(operation, told, "get_history", len(entries))
            case ListEntities():
                return await self._entities(reader, tenant, operation, screen)
            case _:
                assert_never(operation)

    async def _entities(
        self,
        reader: MemoryReader,
        tenant: Tenant,
        operation: ListEntities,
        screen: Screen | None,
    ) -> ReadAnswer:
        ids = await self._in_thread(reader.entities, tenant, operation.offset)
        if ids.cut and not operation.by_offset:
            # The client's protocol has no way to ask for the rest of a list, and an incomplete list
            # would look complete.
            raise MalformedRequest("entities: too many for one answer of this protocol")
        named = ids.entities
        if screen is not None:
            named = await self._in_thread(_named, named, screen)
        listed = EntitiesResult(total=ids.total, entities=named)
        return _answered(operation, listed, "list_entities", len(named))

    async def _searched(
        self,
        reader: MemoryReader,
        tenant: Tenant,
        operation: Search,
        screen: Screen | None,
    ) -> ReadAnswer:
        vector = self._query_vector(operation)
        words = reader.words(tenant, operation.query) if operation.query else b""
        searched = await self._in_thread(
            partial(
                reader.searched,
                tenant,
                vector,
                operation.where,
                operation.limit,
                operation.threshold,
                words=words,
                shows=None if screen is None else screen.shows,
            )
        )
        return ReadAnswer(
            read=operation,
            shown=SearchResult(hits=searched.hits),
            name="search_memory",
            count=len(searched.hits),
            vector=vector,
            words=words,
            nearest=searched.nearest,
            version=searched.version,
        )

    def _identity(self, principal: Principal) -> IdentityResult:
        status = self._reader.status()
        return IdentityResult(principal=plain(principal), incarnation=status.incarnation)

    def _query_vector(self, operation: Search) -> bytes:
        if operation.vector is not None:
            return unit_vector(operation.vector, self._embedder.dimension)
        if operation.query is None:
            raise MalformedRequest("query: a search needs a text or a vector")
        if takes_client_vectors(self._embedder):
            raise MalformedRequest("vector: this store embeds no text; send the query's vector")
        return self._embedder.embed([operation.query])[0]

    async def _in_thread(self, call: Callable[[*_Args], _T], *args: *_Args) -> _T:
        # On the event loop a scan of a large store would make every write wait. On a thread it does
        # not, because FAISS and LMDB release the interpreter lock.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, call, *args)


def _listed(
    reader: MemoryReader, tenant: Tenant, operation: ListMemories, screen: Screen | None
) -> ListResult:
    page = reader.page(tenant, operation.where, operation.offset, operation.limit)
    if page.cut and not operation.by_offset:
        raise MalformedRequest("page_size: the page is too large; ask for fewer")
    if screen is None:
        return ListResult(total=page.total, memories=page.memories)
    memories = tuple(filter(screen.shows, page.memories))
    # A client asks for the next page because of the total, so memories that the screen left out are
    # subtracted only if this page is the whole list.
    whole = len(page.memories) == page.total
    return ListResult(total=len(memories) if whole else page.total, memories=memories)


def _named(entities: tuple[Entity, ...], screen: Screen) -> tuple[Entity, ...]:
    return tuple(one for one in entities if screen.shows_name(one.name))


def _without(answered: ReadAnswer, screen: Screen | None) -> ReadAnswer:
    """The answer with `left_out` set: the memories that the screen removed from it."""
    return answered if screen is None else replace(answered, left_out=screen.left_out)


def _answered(read: Read, shown: Shown, name: str, count: int) -> ReadAnswer:
    return ReadAnswer(read=read, shown=shown, name=name, count=count)
