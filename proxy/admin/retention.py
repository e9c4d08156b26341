"""Erases memories beyond the ruleset's limits of age and number, by purges that the gate judges.

It works beside the requests: a slice of rows at a time in a thread, a bounded batch of purges per
sweep. It never shortens the audit log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from policy.after.retention import DueMemory, Pass
from policy.model import ChangeKind, Channel, Principal, PrincipalId, Tenant
from policy.ruleset import Ruleset
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.upkeep import RETENTION, RetentionRequest, RetentionView
from proxy.seams.environment import Environment
from proxy.seams.operation import Performs, Proposal, Write, WriteResult
from storage.features.retention_candidates import RetentionCandidates
from telemetry.events import TraceContext

_LOG: Final = logging.getLogger("mnemogate.retention")
BY: Final = PrincipalId("mnemogate:retention")
DIALECT: Final = "retention"
# The most memories purged per sweep. They are one batch of the writer, so that the files are
# rewritten only once.
BATCH_LEN_MAX: Final = 256
SLICE_LEN: Final = 1_000
_DUE_NAMED_MAX: Final = 1_000
_PAUSE_S: Final = 0.002


class RetentionSweeps:
    """Finds and purges memories beyond the ruleset's limits of age and number.

    One sweep at a time. Event loop only.
    """

    def __init__(
        self,
        *,
        retained: RetentionCandidates,
        operations: Performs,
        ruleset: Callable[[], Ruleset],
        surroundings: Environment,
    ) -> None:
        self._retained = retained
        self._operations = operations
        self._ruleset = ruleset
        self._out = surroundings
        self._one_at_a_time = asyncio.Lock()

    async def sweep(self, *, dry_run: bool = False, by: PrincipalId = BY) -> RetentionView:
        """Find all memories that are due for erasure, and purge the oldest batch unless `dry_run`.

        Raises:
            StorageError: The store cannot be read, or none of the purges could be judged.
        """
        async with self._one_at_a_time:
            due = await self._find()
            if dry_run or not due:
                return _view(due, 0)
            purged = await self._purge(due[:BATCH_LEN_MAX], by)
        _LOG.info("retention sweep", extra={"fields": {"due": len(due), "purged": purged}})
        return _view(due, purged)

    @route(RETENTION)
    async def sweep_asked(self, call: OperatorCall[RetentionRequest]) -> RetentionView:
        """Erase a batch of memories beyond the ruleset's limits; with `dry_run` only list them."""
        return await self.sweep(dry_run=call.asked.dry_run, by=call.operator)

    async def _find(self) -> tuple[DueMemory, ...]:
        found = Pass(self._ruleset().retention, self._out.now_ms())
        start: int | None = None if found.idle else 0
        while start is not None:
            items, start = await asyncio.to_thread(self._retained.slice, start, SLICE_LEN)
            for item in items:
                found.see(item)
            # The search for due memories pauses between slices, so that requests are answered
            # meanwhile.
            await asyncio.sleep(_PAUSE_S)
        return found.due()

    async def _purge(self, due: tuple[DueMemory, ...], by: PrincipalId) -> int:
        by_tenant: dict[Tenant, list[Proposal]] = {}
        for one in due:
            if self._retained.stands(one.item):
                proposal = Proposal(change=ChangeKind.PURGE, memory_id=one.item.memory_id)
                by_tenant.setdefault(one.item.tenant, []).append(proposal)
        purged = 0
        for tenant, proposals in by_tenant.items():
            principal = Principal(principal_id=by, tenant=tenant, channel=Channel.OPERATOR)
            trace = TraceContext(trace_id=self._out.random_hex(16), span_id=self._out.random_hex(8))
            result = await self._operations.perform(
                principal, Write(proposals=tuple(proposals)), dialect=DIALECT, trace=trace
            )
            if isinstance(result, WriteResult):
                purged += sum(item.decision == "admit" for item in result.items)
        return purged


def _view(due: tuple[DueMemory, ...], purged_count: int) -> RetentionView:
    return RetentionView(due_count=len(due), purged_count=purged_count, due=due[:_DUE_NAMED_MAX])
