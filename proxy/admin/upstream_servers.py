"""Upstream servers, for an operator: their tools, unsettled changes, and earlier memories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from policy.labels.forwarded_call import HTTP, MCP, call_of, target_of
from policy.model import CandidateId, ChangeKind, ForwardStatus, Memory, PrincipalId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import server_view, unsettled_view
from proxy.admin.wire.route import AnyTenantQuery, NoQuery, TenantQuery
from proxy.admin.wire.upkeep import (
    APPROVE_TOOLS,
    COMPARE,
    IMPORT,
    IMPORT_FOUND,
    KEPT,
    RESOLVE,
    SERVERS,
    TABLE,
    UNSETTLED,
    ApproveRequest,
    ComparedView,
    CompareRequest,
    CompareView,
    ImportedView,
    ImportRequest,
    ImportView,
    KeptList,
    KeptQuery,
    KeptView,
    ResolveRequest,
    ServerList,
    ServerView,
    TableView,
    UnsettledList,
)
from proxy.backends.http_backend import ServerWrites
from proxy.dialects.mcp.kept_before import text_digests
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.guard import Item, UnsettledItem
from proxy.seams.operation import WrittenItem
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.settings.backend import BackendServer
from storage.features.confirm_memory import ConfirmMemory
from storage.features.pinned_tools import ApproveTools, Pins
from storage.features.upstream.intents import CloseKeys, Forwards
from storage.features.upstream.upstream_memories import UpstreamMemories
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import ClosedKey, Decision, ForwardState, GuardedServer, UpstreamMemory


class UpstreamServers:
    """Answers operators' calls about MCP servers and unsettled changes. Event loop only."""

    def __init__(self, pins: Pins, forwards: Forwards) -> None:
        self._pins = pins
        self._forwards = forwards

    @route(SERVERS)
    async def servers(self, call: OperatorCall[TenantQuery]) -> ServerList:
        """Every MCP server of a tenant whose tools were listed at least once."""
        pinned = self._pins.all(Tenant(call.asked.tenant))
        return ServerList(servers=tuple(map(server_view, pinned)))

    @route(APPROVE_TOOLS)
    async def approve(self, call: OperatorCall[ApproveRequest]) -> ServerView:
        """Approve a server's tools as they were listed last; this adds an audit leaf.

        Raises:
            UnknownPins: There is no such server, or the digest is not that of its present list of
                tools.
        """
        tenant, digest = Tenant(call.asked.tenant), call.asked.digest
        done = await self._pins.order(ApproveTools(tenant, call.argument, call.operator, digest))
        return server_view(done)

    @route(UNSETTLED)
    async def unsettled(self, call: OperatorCall[AnyTenantQuery]) -> UnsettledList:
        """Admitted changes that may be missing on their servers, oldest first."""
        tenant = call.asked.tenant
        return self._unsettled(None if tenant is None else Tenant(tenant))

    def _unsettled(self, tenant: Tenant | None) -> UnsettledList:
        pending = self._forwards.pending(tenant)
        return UnsettledList(unsettled=tuple(map(unsettled_view, pending)))

    @route(RESOLVE)
    async def settle_asked(self, call: OperatorCall[ResolveRequest]) -> UnsettledList:
        """Record an operator's finding whether the server has a change; see `settle`."""
        return await self.settle(call.operator, call.candidate_id, done=call.asked.done)

    async def settle(
        self, by: PrincipalId, candidate_id: CandidateId, *, done: bool
    ) -> UnsettledList:
        """Record a person's finding whether the server has a change; this adds an audit leaf.

        Returns the changes that are still unsettled.

        Raises:
            NotFound: No unsettled change has this id.
        """
        found = [one for one in self._forwards.pending() if one.candidate_id == candidate_id]
        if not found:
            raise NotFound("no change of that id is on its way")
        candidate = found[0].candidate
        behind = GuardedServer(tenant=candidate.tenant, target=candidate.target, by=by)
        result = ForwardStatus.DONE if done else ForwardStatus.FAILED
        await self._forwards.settle(behind, ((candidate_id, result),))
        return self._unsettled(None)


_ADMIT: Final = Decision.ADMIT.value
FLAGGED: Final = "flagged"
_STATES: Final = {Decision.REJECT.value: FLAGGED, Decision.HOLD.value: "held"}


class AdoptsItems(Protocol):
    """The part of a guard of upstream servers that judges items stored before the gate existed."""

    async def adopt(
        self,
        tenant: Tenant,
        server: str,
        tool: str,
        items: tuple[Item, ...],
        approved_by: PrincipalId | None = None,
    ) -> tuple[WrittenItem, ...]:
        """Judge items that the server already stores; return the verdict on each, in order.

        An item that was adopted before gets its first verdict again. If `approved_by` is given,
        that person was shown the whole text of each item.
        """
        ...


class Adoption:
    """Adopts memories that upstream servers stored before the gate existed. Event loop only."""

    def __init__(self, guard: AdoptsItems, reader: MemoryReader, writer: MemoryWriter) -> None:
        self._guard = guard
        self._reader = reader
        self._writer = writer

    @route(IMPORT)
    async def adopt(self, call: OperatorCall[ImportRequest]) -> ImportView:
        """Adopt the items: the gate judges each one, and each change adds an audit leaf.

        Adopting the same items again changes nothing, so repeating an interrupted call completes
        it.

        Raises:
            MalformedRequest: An item is too large or is no new memory, or several items are
                confirmed at once; no item was imported.
            StorageError: Not every item is recorded.
        """
        asked, server, tenant = call.asked, call.argument, Tenant(call.asked.tenant)
        if asked.confirm:
            return await self._vouched(call.operator, tenant, server, asked)
        written = await self._guard.adopt(tenant, server, asked.tool, asked.items)
        taken = [one.memory_id if one.decision == _ADMIT else None for one in written]
        found = await asyncio.to_thread(
            lambda: [None if one is None else self._reader.get(tenant, one) for one in taken]
        )
        return ImportView(
            imported=tuple(_view(one, memory) for one, memory in zip(written, found, strict=True))
        )

    async def _vouched(
        self, by: PrincipalId, tenant: Tenant, server: str, asked: ImportRequest
    ) -> ImportView:
        """Adopt one item as the words of a person who was shown the whole item."""
        if len(asked.items) != 1:
            raise MalformedRequest("items: a person confirms one at a time, after reading it")
        (one,) = await self._guard.adopt(tenant, server, asked.tool, asked.items)
        # A held item waits for a person's review; only the review decides on it.
        if one.decision == Decision.REJECT.value:
            (one,) = await self._guard.adopt(tenant, server, asked.tool, asked.items, by)
        memory = None
        if one.decision == _ADMIT and one.memory_id is not None:
            memory = await asyncio.to_thread(self._reader.get, tenant, one.memory_id)
        if memory is not None and memory.candidate_id == one.candidate_id:
            await self._writer.order(ConfirmMemory(memory.memory_id, tenant, by, memory.version))
            memory = await asyncio.to_thread(self._reader.get, tenant, memory.memory_id)
        return ImportView(imported=(_view(one, memory),))


def _view(one: WrittenItem, memory: Memory | None) -> ImportedView:
    if one.decision != _ADMIT:
        state = _STATES.get(one.decision, "undecided")
    elif memory is None:
        state = "gone"
    else:
        state = memory.source.value
    return ImportedView(
        state=state,
        memory_id=one.memory_id,
        leaf_index=one.leaf_index,
        reason=None if one.reason is None else one.reason.value,
    )


_ROWS_AT_ONCE: Final = 1_000
# The tenant named in look-ups of closed keys. A look-up also reports a key that is closed for
# another tenant, so any tenant can be named.
_ANYBODY: Final = Tenant(DEFAULT_TENANT)
# A memory that was erased here, or that arrived after its key was closed, is shown to no one.
_CLOSED: Final = ComparedView(state="hidden")
_MARKED: Final = ComparedView(state="marked")
_FOREIGN: Final = ComparedView(state="foreign")
_UNSETTLED: Final = ComparedView(state="unsettled")
_SENT: Final = (
    "items: one bears the gate's mark, so it was sent for one tenant, and no record here says which"
)
_TAKEN: Final = "items: one is another tenant's memory by now; compare them again"
_FORWARD_STATES: Final = {ForwardState.QUARANTINED: "hidden", ForwardState.FORWARDING: "unsettled"}


class BackendsCompared:
    """Compares a server's memories, which the caller has read, with the store. Event loop only."""

    def __init__(
        self,
        kept: UpstreamMemories,
        reader: MemoryReader,
        adopting: Adoption,
        forwards: Forwards,
        adapters: Mapping[str, ServerWrites],
        tables: tuple[BackendServer, ...],
    ) -> None:
        """`adapters` is a mapping of the name of each `[[backend]]` table to its adapter."""
        self._kept = kept
        self._reader = reader
        self._adopting = adopting
        self._forwards = forwards
        self._adapters = adapters
        self._tables = tables

    @route(TABLE)
    async def table(self, call: OperatorCall[NoQuery]) -> TableView:
        """The `[[backend]]` table of a server, for a command that reads the server itself.

        Raises:
            NotFound: No server of that name is configured.
        """
        self._adapter(call.argument)
        found = next(one for one in self._tables if one.name == call.argument)
        return TableView(table=msgspec.to_builtins(found))

    @route(COMPARE)
    async def compare(self, call: OperatorCall[CompareRequest]) -> CompareView:
        """Compare memories that a server has with the records here, of whichever tenant.

        Raises:
            NotFound: No server of that name is configured.
            MalformedRequest: An item is not in the form that the server's adapter makes.
        """
        views = await self._compare(call.argument, call.asked.items)
        target, keys = target_of(HTTP, call.argument), _keys(call.asked.unnamed)
        closed = await asyncio.to_thread(self._forwards.closed, _ANYBODY, target, keys)
        return CompareView(
            compared=(*views, *(_CLOSED if any(one) else _FOREIGN for one in closed))
        )

    async def _compare(self, backend: str, items: tuple[Item, ...]) -> tuple[ComparedView, ...]:
        adapter = self._adapter(backend)
        keys = tuple(one.key for one in items)
        target = target_of(HTTP, backend)
        # The intents are read before the rows, so that an intent that is settled meanwhile is found
        # among the intents or among the rows.
        on_their_way: set[str] = {one.candidate_id for one in self._forwards.pending(None, target)}
        found, closed = await asyncio.to_thread(self._known, target, keys)
        views: list[ComparedView] = []
        for item, kept, hidden in zip(items, found, closed, strict=True):
            mark = adapter.mark_of(item) if kept is None else None
            if kept is None and any(hidden):
                views.append(_CLOSED)
            elif mark is not None:
                views.append(_UNSETTLED if mark in on_their_way else _MARKED)
            else:
                views.append(_compared(adapter, item, kept))
        return tuple(views)

    @route(KEPT)
    async def kept(self, call: OperatorCall[KeptQuery]) -> KeptList:
        """A page of the live memories that the server should have, in the order of their rows.

        Of an MCP server, whose list shows texts alone, hidden and unsettled memories as well.

        Raises:
            NotFound: No server of that name is configured.
        """
        asked, of_mcp = call.asked, call.asked.through == "mcp"
        if not of_mcp:
            self._adapter(call.argument)
        target = target_of(MCP if of_mcp else HTTP, call.argument)
        found, following = await asyncio.to_thread(
            self._kept.after, target, asked.after, _ROWS_AT_ONCE, every=of_mcp
        )
        live = (one for one in found if of_mcp or one.stands is ForwardState.LIVE)
        views = (_kept_view(one) for one in live)
        return KeptList(kept=tuple(one for one in views if one is not None), next=following)

    @route(IMPORT_FOUND)
    async def adopt(self, call: OperatorCall[ImportRequest]) -> ImportView:
        """Adopt memories that the server has without a verdict of the gate; see `Adoption.adopt`.

        A flagged memory is hidden from every reader until a later admitted change writes or deletes
        its key.

        Raises:
            NotFound: No server of that name is configured.
            MalformedRequest: An item is too large, is no new memory, or has become another
                tenant's; no item was imported.
            StorageError: Not every item is recorded.
        """
        asked, backend = call.asked, call.argument
        adapter = self._adapter(backend)
        if asked.confirm:
            raise MalformedRequest("confirm: no one can confirm what was found on a server")
        if any(adapter.mark_of(one) is not None for one in asked.items):
            raise MalformedRequest(_SENT)
        # An agent may have written since the caller compared the items.
        views = await self._compare(backend, asked.items)
        if any(one.tenant not in {None, asked.tenant} for one in views):
            raise MalformedRequest(_TAKEN, status=409)
        done = await self._adopting.adopt(call)
        # A flagged item becomes no memory here, so only the closing of its key hides it from
        # readers.
        flagged = tuple(
            item.key
            for item, one in zip(asked.items, done.imported, strict=True)
            if one.state == FLAGGED and item.key
        )
        closing = (*flagged, *_keys(asked.unnamed))
        if closing:
            await self._forwards.order(
                CloseKeys(Tenant(asked.tenant), target_of(HTTP, backend), closing)
            )
        return done

    def _adapter(self, backend: str) -> ServerWrites:
        found = self._adapters.get(backend)
        if found is None:
            known = ", ".join(self._adapters) or "none"
            raise NotFound(f"no [[backend]] table has that name; configured: {known}")
        return found

    def _known(
        self, target: str, keys: tuple[str, ...]
    ) -> tuple[tuple[UpstreamMemory | None, ...], tuple[ClosedKey, ...]]:
        """The memory under each key of a server, and whether the key is closed for any tenant."""
        tenants = tuple(one.tenant for one in self._reader.usage())
        # The closed keys are read after the rows, so that a memory that is erased meanwhile is
        # found among the rows or among the closed keys.
        found = self._kept.under(target, keys, tenants)
        return found, self._forwards.closed(_ANYBODY, target, keys)


def _keys(unnamed: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(str(one, "utf-8", "replace") for one in unnamed)


def _compared(adapter: ServerWrites, item: Item, kept: UpstreamMemory | None) -> ComparedView:
    if kept is None:
        return ComparedView(state="foreign")
    state = _FORWARD_STATES.get(kept.stands)
    if state is None:
        known = _unsettled(kept)
        same = known is not None and adapter.says_same(known, item)
        state = "same" if same else "different"
    return ComparedView(
        state=state, tenant=kept.tenant, memory_id=kept.memory_id, number=kept.number
    )


def _unsettled(kept: UpstreamMemory) -> UnsettledItem | None:
    """The sent change in the form that adapters read; None if it no longer contains a tool call."""
    call = call_of(kept.candidate)
    if call is None:
        return None
    return UnsettledItem(
        candidate_id=kept.candidate_id,
        tool=call.tool,
        change=kept.candidate.change,
        arguments=call.arguments,
        pieces=call.pieces,
        key=kept.key,
        sent=True,
    )


def _kept_view(kept: UpstreamMemory) -> KeptView | None:
    known, call = _unsettled(kept), call_of(kept.candidate)
    if known is None or call is None or known.change is ChangeKind.DELETE:
        return None
    return KeptView(
        number=kept.number,
        tenant=kept.tenant,
        memory_id=kept.memory_id,
        candidate_id=known.candidate_id,
        tool=known.tool,
        key=known.key,
        arguments=known.arguments,
        piece_count=len(known.pieces),
        state=_FORWARD_STATES.get(kept.stands, "same"),
        texts=text_digests(known.key, call.pieces, call.labels),
    )
