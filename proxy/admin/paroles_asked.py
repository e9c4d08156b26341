"""What an operator may do about one hidden memory: try it, or show it without a trial."""

from __future__ import annotations

import msgspec

from policy.model import Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended
from proxy.admin.wire.upkeep import PAROLE, ParoleRequest, ParoleView, TrialView
from proxy.aftermath.parole_trials import ParoleResult, ParoleTrials
from proxy.seams.faults import MalformedRequest
from storage.features.quarantine.hiding import EndQuarantine
from storage.interfaces import MemoryWriter


class ParolesAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The paroles that operators ask for. Event loop only."""

    paroling: ParoleTrials
    writer: MemoryWriter

    @route(PAROLE)
    async def parole(self, call: OperatorCall[ParoleRequest]) -> ParoleView:
        """Show a hidden memory again if it passes its trial, or without one.

        Raises:
            MalformedRequest: No trial is to be made, and no reason was given, or the other way
                round.
            UnknownMemory: The tenant has no such memory, or it was deleted.
            MemoryMoved: The memory was changed during its trial; nothing was done.
        """
        asked, memory_id, tenant = call.asked, call.memory_id, Tenant(call.asked.tenant)
        if asked.without_trial is not bool(asked.reason):
            raise MalformedRequest("a parole without a trial, and no other, needs a reason")
        if asked.without_trial:
            standing = await self.writer.order(
                EndQuarantine(memory_id, tenant, call.operator, asked.reason)
            )
            return _view(ParoleResult(standing=standing))
        return _view(await self.paroling.parole(tenant, memory_id, call.operator))


def _view(done: ParoleResult) -> ParoleView:
    trial = done.trial
    told = (
        None
        if trial is None
        else TrialView(passed=trial.passed, against=trial.against, steps=trial.steps)
    )
    return extended(ParoleView, done.standing, trial=told)
