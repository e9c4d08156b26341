"""Erases the traces of one person: in the store, in the ledgers, and on servers that can be asked.

Each step can be repeated, and the record of an open erasure is durable before the first. So an
erasure that a crash or an unreachable server interrupted is continued, by a periodic job or by the
next call. A purge is a candidate that the gate judges, as any purge; it names the version of the
memory, so that a memory that was changed meanwhile is not erased.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from policy.labels.forwarded_call import HTTP, PREFIXES, call_of
from policy.model import CandidateId, ChangeKind, Channel, Principal, PrincipalId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.upkeep import (
    ERASE,
    NOT_REACHED,
    RECEIPT,
    EraseRequest,
    ErasureView,
)
from proxy.ledger.sessions import Sessions
from proxy.seams.environment import Environment
from proxy.seams.faults import Busy, MalformedRequest, NotFound, UpstreamError
from proxy.seams.guard import DeletesUpstream, UnsettledItem
from proxy.seams.operation import Performs, Proposal, Write
from proxy.withhold.withholding import Withholding
from storage.audit import candidate_of
from storage.features.erasures import DueTraces, Erasure, ErasureReach, StoreErasure
from storage.features.upstream.closed_keys import place_of
from storage.ground.errors import StorageError
from storage.interfaces import Store
from storage.values import THE_STORE, Denial, Row
from telemetry.events import TraceContext

ERASING_S: Final = 9.0
"""The pause of the job that continues open erasures."""
_BATCH_LEN: Final = 256
_UNANSWERED: Final = (UpstreamError, MalformedRequest, Busy, StorageError)


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
        # The deletions on each server, by target; None before the servers are connected.
        self.upstream: dict[str, DeletesUpstream | None] = {HTTP + one: None for one in servers}
        self._out = surroundings
        self._one_at_a_time = asyncio.Lock()

    @route(ERASE)
    async def erase(self, call: OperatorCall[EraseRequest]) -> ErasureView:
        """Erase the traces of one person, or continue to; with `dry_run` only count them.

        Raises:
            MalformedRequest: The request does not name exactly one of user, principal and target.
            NotFound: No trace of the person was found, and no erasure of that person is known.
        """
        asked, erasures, nameless = call.asked, self._store.erasures, dict[str, int]()
        if sum(one is not None for one in (asked.user_id, asked.principal, asked.under)) != 1:
            raise MalformedRequest("name one of user_id, principal and under")
        reach = ErasureReach(
            tenant=Tenant(asked.tenant),
            user_id=asked.user_id,
            principal_id=None if asked.principal is None else PrincipalId(asked.principal),
            under=asked.under,
        )
        async with self._one_at_a_time:
            known = reversed(await asyncio.to_thread(erasures.all))
            begun = next((one for one in known if one.digest == reach.digest(one.erasure_id)), None)
            if asked.dry_run or begun is None or begun.reach is None:
                due = await asyncio.to_thread(erasures.due, reach)
                memories = sum(map(len, due.memories.values()))
                found = {"memories": memories, "places": due.place_count}
                found |= {"denials": due.denial_count} | await self._others(reach, due)
                nameless = _nameless(due)
                if asked.dry_run:
                    return ErasureView(erasure_id="", found=found, nameless=nameless)
                if any(found.values()):
                    erasure_id = self._out.random_hex(8)
                    begun = Erasure(
                        erasure_id=erasure_id,
                        by=call.operator,
                        digest=reach.digest(erasure_id),
                        found=found,
                        servers=_targets(due),
                        reach=reach,
                    )
                    begun = await erasures.order(StoreErasure(begun))
            if begun is None:
                others = "".join(f"; {n} in {one} name no user" for one, n in nameless.items())
                raise NotFound(f"there is no trace of that person in this tenant{others}")
            return await self._continued(begun)

    async def resume(self) -> None:
        """Continue each erasure that is open."""
        async with self._one_at_a_time:
            for one in await asyncio.to_thread(self._store.erasures.all):
                await self._continued(one)

    async def _continued(self, begun: Erasure) -> ErasureView:
        erasures, reach = self._store.erasures, begun.reach
        waiting, nameless = dict[str, int](), dict[str, int]()
        if reach is not None:
            due = await asyncio.to_thread(erasures.due, reach, begun)
            if not begun.traced:
                # The memories go last, because the other traces are found by them.
                now = Counter(await self._others(reach, due, begun))
                now["memories"] = sum(map(len, due.memories.values()))
                # An agent may have written between the count and the beginning.
                found = begun.found | dict(now | Counter(begun.found))
                traced = replace(begun, traced=True, found=found, servers=_targets(due))
                begun = await erasures.order(StoreErasure(traced))
            gone = [keyed for keyed in due.memories if await self._is_gone(begun, due, keyed)]
            # A deletion that was sent to a server is a memory too, with the server's key.
            due = await asyncio.to_thread(erasures.due, reach, begun)
            rows = [row for keyed in gone for row in due.memories.get(keyed, ())]
            await self._purge(begun, reach.tenant, rows)
            due = await asyncio.to_thread(erasures.due, reach, begun)
            waiting, nameless = _targets(due), _nameless(due)
            if not waiting:
                # What was purged is in no file before the receipt is made; the name goes last.
                await self._store.writer.compact()
                statement = self._statement(begun, reach, due)
                begun = await erasures.order(StoreErasure(replace(begun, statement=statement)))
                await self._store.writer.compact()
        receipt = self._store.audit.signed(begun.statement) if begun.statement else ""
        return ErasureView(
            erasure_id=begun.erasure_id,
            found=begun.found,
            waiting=waiting,
            receipt=receipt,
            nameless=nameless,
        )

    async def _others(
        self, reach: ErasureReach, due: DueTraces, begun: Erasure | None = None
    ) -> dict[str, int]:
        """Count a person's traces outside of the store's records; for an erasure, erase them."""
        until_ms = self._out.now_ms() if begun is None else begun.at_ms
        tenant, person = reach.tenant, reach.principal_id
        held = await asyncio.to_thread(self._held, reach, until_ms)
        candidates = due.candidates | set(held)
        withheld = (
            ()
            if self._withholding is None
            else self._withholding.of_person(tenant, person, reach.user_id, candidates)
        )
        candidates |= {one.candidate_id for one in withheld}
        sessions = self._ledger.of_person(person, candidates)
        erase, dry_run = self._store.recalls.erase, begun is None
        recalls = await asyncio.to_thread(
            erase, tenant, person, sessions, until_ms, dry_run=dry_run
        )
        found = {
            "held": len(held),
            "withheld": len(withheld),
            "sessions": len(sessions),
            "recalls": recalls,
        }
        if begun is not None:
            # The store refuses what waits: no person decided on its lines, and no trust changes.
            denial = Denial(act=begun.erasure_id, struck=frozenset(), applied=True)
            while held:
                decided = await self._store.writer.deny_many(held, THE_STORE, denial)
                held = [one for one in held if one not in decided]
            if self._withholding is not None:
                self._withholding.erase(withheld)
                for principal in filter(None, {*sessions.values(), person}):
                    self._withholding.speakers.forget(principal)
            memory_ids = {row.memory_id for rows in due.memories.values() for row in rows}
            await self._ledger.erase(person, sessions, memory_ids)
        return found

    def _held(self, reach: ErasureReach, until_ms: int) -> list[CandidateId]:
        reader = self._store.reader
        waiting = (one for one in reader.held(reach.tenant) if one.held_at_ms <= until_ms)
        whole = (reader.held_candidate(one.candidate_id) for one in waiting)
        return [
            one.candidate_id
            for one in whole
            if one is not None and one.candidate is not None and reach.wrote(one.candidate)
        ]

    async def _is_gone(self, begun: Erasure, due: DueTraces, keyed: bytes) -> bool:
        """Whether no server that can be asked shows a memory any more; it is deleted if needed."""
        row = due.memories[keyed][-1]
        candidate, place = candidate_of(row), place_of(row)
        call, deletes = call_of(candidate), self.upstream.get(candidate.target)
        if candidate.target not in self.upstream:
            return True
        if keyed in due.moving or deletes is None:
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
        unchanged = self._store.erasures.unchanged
        try:
            return await deletes(
                _principal(begun, row.tenant),
                kept,
                lambda: asyncio.to_thread(unchanged, begun, keyed),
            )
        except _UNANSWERED:
            return False

    async def _purge(self, begun: Erasure, tenant: Tenant, rows: list[Row]) -> None:
        trace = TraceContext(trace_id=self._out.random_hex(16), span_id=self._out.random_hex(8))
        for start in range(0, len(rows), _BATCH_LEN):
            proposals = (
                Proposal(
                    change=ChangeKind.PURGE,
                    memory_id=row.memory_id,
                    approved_by=begun.by,
                    approved_version=row.version,
                )
                for row in rows[start : start + _BATCH_LEN]
            )
            write = Write(proposals=tuple(proposals))
            await self._operations.perform(
                _principal(begun, tenant), write, dialect="erasure", trace=trace
            )

    def _statement(self, begun: Erasure, reach: ErasureReach, left: DueTraces) -> str:
        servers = [one for one in begun.servers.items() if one[0].startswith(PREFIXES)]
        told = {
            "erasure_id": begun.erasure_id,
            "tenant": reach.tenant,
            "whose": begun.digest,
            "begun_at_ms": begun.at_ms,
            "begin_leaf": begun.leaf_index,
            "found": begun.found,
            "leaves": left.leaves,
            "shows_nothing_now": {k: n for k, n in servers if k in self.upstream},
            "not_asked": {k: n for k, n in servers if k not in self.upstream},
            "written_meanwhile": sorted(left.later.values()),
            "name_no_user": _nameless(left),
            "not_reached": NOT_REACHED,
        }
        return f"{RECEIPT}\n{msgspec.json.encode(told).decode()}\n"


def _principal(begun: Erasure, tenant: Tenant) -> Principal:
    return Principal(principal_id=begun.principal_id, tenant=tenant, channel=Channel.OPERATOR)


def _nameless(due: DueTraces) -> dict[str, int]:
    """How many memories of the tenant name no user: on each server, and in the store itself."""
    targets = due.nameless.values()
    return dict(Counter(one if one.startswith(PREFIXES) else "the store" for one in targets))


def _targets(due: DueTraces) -> dict[str, int]:
    """How many memories there are on each server, or with what else is left of the gate's own."""
    return dict(Counter(candidate_of(rows[-1]).target for rows in due.memories.values()))
