"""Ids by their beginnings: what a person typed, and the whole ids that begin so."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from policy.model import Tenant
from policy.query import EVERYTHING
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.ids import IDS, IDS_SHOWN, IdKind, IdList, IdsQuery
from proxy.ledger.sessions import Sessions
from proxy.withhold.withholding import Withholding
from storage.features.cases.wrong_answers import Cases
from storage.features.incidents.batches import Incidents
from storage.features.quarantine.quarantined_memories import QuarantinedMemories
from storage.features.recalls import Recalls
from storage.features.upstream.intents import Forwards
from storage.interfaces import MemoryReader

RECALLS_MAX: Final = 10_000
"""How many of a tenant's newest recalls are looked through."""


class IdSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Finds whole ids. Event loop only."""

    reader: MemoryReader
    under_quarantine: QuarantinedMemories
    incidents: Incidents
    cases: Cases
    recalls: Recalls
    forwards: Forwards
    ledger: Sessions
    # None if no model front is configured: then no text is withheld from model requests.
    withholding: Withholding | None

    @route(IDS)
    async def all(self, call: OperatorCall[IdsQuery]) -> IdList:
        """The whole ids that begin with the characters that a person typed.

        A whole id gives only itself.
        """
        asked = call.asked
        found: Iterable[str]
        match asked.kind:
            case IdKind.HELD:
                found = [one.candidate_id for one in self.reader.held()]
            case IdKind.REFUSED:
                withheld = () if self.withholding is None else self.withholding.refused()
                found = {*withheld, *await asyncio.to_thread(self.reader.denied)}
            case IdKind.SESSION:
                found = self.ledger.session_ids()
            case IdKind.MEMORY:
                found = await asyncio.to_thread(self._memory_ids, Tenant(asked.tenant))
            case IdKind.KEY:
                found = [key.key_id for key in self.reader.keys()]  # noqa: SIM118 - no dict
            case IdKind.INCIDENT:
                cases = await asyncio.to_thread(self.cases.all)
                found = [one.case_id for one in cases]
                found += [one.incident_id for one in self.incidents.all()]
            case IdKind.RECALL:
                found = await asyncio.to_thread(self._recall_ids, Tenant(asked.tenant))
            case IdKind.UNSETTLED:
                found = [one.candidate_id for one in self.forwards.pending()]
        known = sorted(one for one in found if one.startswith(asked.begins))
        if asked.begins in known:
            known = [asked.begins]
        return IdList(ids=tuple(known[:IDS_SHOWN]), total=len(known))

    def _recall_ids(self, tenant: Tenant) -> list[str]:
        return [one.recall_id for one in self.recalls.recalls(tenant, limit=RECALLS_MAX)]

    def _memory_ids(self, tenant: Tenant) -> tuple[str, ...]:
        hidden = self.under_quarantine.find(tenant)
        live = self.reader.ids(tenant, EVERYTHING, sys.maxsize)
        return (*live, *(one.memory_id for one in hidden))
