"""Erases all traces of one person: in the store, in the ledgers, and on servers that can be asked.

Each step can be repeated, and the record of an open erasure is durable before the first. So an
erasure that a crash or an unreachable server interrupted is continued, by a periodic job or by the
next call. A purge is a candidate that the gate judges, as any purge; it names the version of the
memory, so that a memory that was changed meanwhile is not erased.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from policy.labels.forwarded_call import HTTP, PREFIXES, call_of
from policy.model import CandidateId, ChangeKind, Channel, Principal, PrincipalId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.erasures import (
    ERASE,
    NOT_REACHED,
    RECEIPT,
    EraseRequest,
    ErasureView,
)
from proxy.ledger.sessions import Sessions
from proxy.seams.environment import Environment
from proxy.seams.faults import Busy, MalformedRequest, NotFound, RateLimited, UpstreamError
from proxy.seams.guard import UnsettledItem
from proxy.seams.operation import Performs, Proposal, Write
from proxy.withhold.state import UndecidedRecord
from proxy.withhold.withholding import Withholding
from storage.audit import candidate_of
from storage.features.erasures import BeginErasure, DueTraces, Erasure, ErasureReach, MoveErasure
from storage.features.upstream.closed_keys import place_of
from storage.ground.errors import StorageError
from storage.interfaces import Store
from storage.values import THE_STORE, Denial, Row
from telemetry.events import TraceContext

ERASING_S: Final = 9.0
"""The pause of the job that continues open erasures."""
_BATCH_LEN: Final = 256
ErasesBehind: TypeAlias = Callable[
    [str, Principal, UnsettledItem, Callable[[], Awaitable[bool]]], Awaitable[bool]
]
_UNANSWERED: Final = (UpstreamError, MalformedRequest, Busy, StorageError)


class _Traces(NamedTuple):
    """A person's traces outside of the store's rows; `sessions` maps ids to principals."""

    held: list[CandidateId]
    withheld: list[UndecidedRecord]
    sessions: dict[str, str]
    candidates: set[str]


class ErasureRunner:
    """Begins, continues and ends erasures, one at a time. Event loop only."""

    def __init__(
        self,
        store: Store,
        operations: Performs,
        ledger: Sessions,
        withholding: Withholding | None,
        surroundings: Environment,
        *,
        servers: Iterable[str],
    ) -> None:
        """`servers` are the names of the configured memory servers that speak HTTP."""
        self._store = store
        self._operations = operations
        self._ledger = ledger
        self._withholding = withholding
        self._servers = frozenset(HTTP + one for one in servers)
        self._out = surroundings
        self._one_at_a_time = asyncio.Lock()
        # `BackendFront.erase`; None before the servers are connected.
        self.behind: ErasesBehind | None = None

    @route(ERASE)
    async def erase(self, call: OperatorCall[EraseRequest]) -> ErasureView:
        """Erase all traces of one person, or continue to; with `dry_run` only count them.

        Raises:
            MalformedRequest: The request does not name exactly one of user, principal and target.
            NotFound: No trace of the person was found, and no erasure of that person is known.
        """
        asked, erasures = call.asked, self._store.erasures
        if sum(one is not None for one in (asked.user_id, asked.principal, asked.under)) != 1:
            raise MalformedRequest("name one of user_id, principal and under")
        reach = ErasureReach(
            tenant=Tenant(asked.tenant),
            user_id=asked.user_id,
            principal_id=None if asked.principal is None else PrincipalId(asked.principal),
            under=asked.under,
        )
        async with self._one_at_a_time:
            known = await asyncio.to_thread(erasures.all)
            before = [one for one in known if one.digest == reach.digest(one.salt)]
            if before and before[-1].reach is not None and not asked.dry_run:
                return await self._continued(before[-1], reach)
            due, now_ms = await asyncio.to_thread(erasures.due, reach), self._out.now_ms()
            traces = await self._traces(reach, due, now_ms)
            recalls = await self._erase_recalls(reach, due, traces, now_ms, dry_run=True)
            found = {
                "memories": sum(map(len, due.memories.values())),
                "held": len(traces.held),
                "denials": len(due.denials),
                "places": len(due.places),
                "withheld": len(traces.withheld),
                "sessions": len(traces.sessions),
                "recalls": recalls,
            }
            if asked.dry_run or (before and not any(found.values())):
                done = before[-1] if before and not asked.dry_run else None
                return self._view(done, found)
            if not any(found.values()):
                raise NotFound("there is no trace of that person in this tenant")
            order = BeginErasure(reach, call.operator, found, _targets(due), due.denials)
            return await self._continued(await erasures.order(order), reach)

    async def resume(self) -> None:
        """Continue each erasure that is open."""
        async with self._one_at_a_time:
            for one in await asyncio.to_thread(self._store.erasures.all):
                if one.reach is not None:
                    await self._continued(one, one.reach)

    async def _continued(self, begun: Erasure, reach: ErasureReach) -> ErasureView:
        erasures = self._store.erasures
        due = await asyncio.to_thread(erasures.due, reach, begun)
        if not begun.traced:
            begun = await self._without_traces(begun, reach, due)
        waits = [keyed for keyed in due.memories if not await self._is_gone(begun, due, keyed)]
        # A deletion that was sent to a server is a memory too, with the server's key.
        due = await asyncio.to_thread(erasures.due, reach, begun)
        gone = [row for keyed, rows in due.memories.items() if keyed not in waits for row in rows]
        await self._purge(begun, reach.tenant, gone)
        left = await asyncio.to_thread(erasures.due, reach, begun)
        if not left.memories:
            # What was purged is in no file before the receipt is made; the name goes last.
            await self._store.writer.compact()
            begun = await self._ended(begun, reach, left)
            await self._store.writer.compact()
        return self._view(begun, begun.found, _targets(left))

    async def _traces(self, reach: ErasureReach, due: DueTraces, until_ms: int) -> _Traces:
        held = await asyncio.to_thread(self._held, reach, until_ms)
        withheld: list[UndecidedRecord] = []
        candidates = due.candidates | set(held)
        if self._withholding is not None:
            withheld = self._withholding.of_person(reach.tenant, reach.user_id, candidates)
            candidates |= {one.candidate_id for one in withheld}
        sessions = self._ledger.of_person(reach.principal_id, candidates)
        return _Traces(held, withheld, sessions, candidates)

    def _held(self, reach: ErasureReach, until_ms: int) -> list[CandidateId]:
        reader = self._store.reader
        waiting = (one for one in reader.held(reach.tenant) if one.held_at_ms <= until_ms)
        whole = (reader.held_candidate(one.candidate_id) for one in waiting)
        return [
            one.candidate_id
            for one in whole
            if one is not None and one.candidate is not None and reach.wrote(one.candidate)
        ]

    async def _erase_recalls(
        self,
        reach: ErasureReach,
        due: DueTraces,
        found: _Traces,
        until_ms: int,
        *,
        dry_run: bool = False,
    ) -> int:
        erase, ordinals = self._store.recalls.erase, frozenset(due.ordinals)
        whose = (reach.tenant, reach.principal_id, found.sessions, ordinals, until_ms)
        return await asyncio.to_thread(erase, *whose, dry_run=dry_run)

    async def _without_traces(self, begun: Erasure, reach: ErasureReach, due: DueTraces) -> Erasure:
        """Erase all traces but the memories, by which the other traces are found."""
        found = await self._traces(reach, due, begun.at_ms)
        held = found.held
        # The store refuses what waits: no person decided on its lines, and no trust changes.
        denial = Denial(act=begun.erasure_id, struck=frozenset(), applied=True)
        while held:
            decided = await self._store.writer.deny_many(held, THE_STORE, denial)
            held = [one for one in held if one not in decided]
        await self._erase_recalls(reach, due, found, begun.at_ms)
        if self._withholding is not None:
            self._withholding.erase(found.withheld)
            for principal in {*found.sessions.values(), reach.principal_id} - {None}:
                self._withholding.speakers.forget(principal or "")
        memory_ids = {row.memory_id for rows in due.memories.values() for row in rows}
        await self._ledger.erase(reach.principal_id, found.candidates, memory_ids)
        moved = MoveErasure(msgspec.structs.replace(begun, traced=True))
        return await self._store.erasures.order(moved)

    async def _is_gone(self, begun: Erasure, due: DueTraces, keyed: bytes) -> bool:
        """Whether no server that can be asked shows a memory any more; it is deleted if needed."""
        row = due.memories[keyed][-1]
        candidate, place = candidate_of(row), place_of(row)
        call = call_of(candidate)
        if candidate.target not in self._servers:
            return True
        if keyed in due.moving or self.behind is None:
            return False
        if call is None or place is None or row.change is ChangeKind.DELETE:
            return True
        kept = UnsettledItem(
            candidate_id=row.candidate_id,
            tool=call.tool,
            change=row.change,
            arguments=call.arguments,
            pieces=call.pieces,
            key=place.key,
            sent=True,
        )

        async def unchanged() -> bool:
            return await asyncio.to_thread(self._store.erasures.unchanged, begun, keyed)

        server = candidate.target.removeprefix(HTTP)
        try:
            return await self.behind(server, _principal(begun, row.tenant), kept, unchanged)
        except _UNANSWERED:
            return False

    async def _purge(self, begun: Erasure, tenant: Tenant, rows: list[Row]) -> None:
        proposals = [
            Proposal(
                change=ChangeKind.PURGE,
                memory_id=row.memory_id,
                approved_by=begun.by,
                approved_version=row.version,
            )
            for row in rows
        ]
        for start in range(0, len(proposals), _BATCH_LEN):
            write = Write(proposals=tuple(proposals[start : start + _BATCH_LEN]))
            trace = TraceContext(trace_id=self._out.random_hex(16), span_id=self._out.random_hex(8))
            try:
                await self._operations.perform(
                    _principal(begun, tenant), write, dialect="erasure", trace=trace
                )
            except RateLimited:
                return

    async def _ended(self, begun: Erasure, reach: ErasureReach, left: DueTraces) -> Erasure:
        leaves = await asyncio.to_thread(self._store.erasures.leaves, begun)
        servers = [one for one in begun.servers.items() if one[0].startswith(PREFIXES)]
        told = {
            "erasure_id": begun.erasure_id,
            "tenant": reach.tenant,
            "whose": begun.digest,
            "salt": begun.salt.hex(),
            "begun_at_ms": begun.at_ms,
            "begin_leaf": begun.leaf_index,
            "found": begun.found,
            "leaves": leaves,
            "shows_nothing_now": {k: n for k, n in servers if k in self._servers},
            "not_asked": {k: n for k, n in servers if k not in self._servers},
            "written_meanwhile": [*left.later],
            "not_reached": NOT_REACHED,
        }
        statement = f"{RECEIPT}\n{msgspec.json.encode(told).decode()}\n"
        moved = MoveErasure(msgspec.structs.replace(begun, statement=statement))
        return await self._store.erasures.order(moved)

    def _view(
        self, begun: Erasure | None, found: dict[str, int], waiting: dict[str, int] | None = None
    ) -> ErasureView:
        if begun is None:
            return ErasureView(erasure_id="", found=found)
        receipt = self._store.audit.signed(begun.statement) if begun.statement else ""
        return ErasureView(
            erasure_id=begun.erasure_id,
            found=begun.found,
            waiting=waiting or {},
            receipt=receipt,
        )


def _principal(begun: Erasure, tenant: Tenant) -> Principal:
    return Principal(principal_id=begun.principal_id, tenant=tenant, channel=Channel.OPERATOR)


def _targets(due: DueTraces) -> dict[str, int]:
    """How many memories there are on each server, or with what else is left of the gate's own."""
    targets = [candidate_of(rows[-1]).target for rows in due.memories.values()]
    return {one: targets.count(one) for one in targets}
