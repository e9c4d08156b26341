"""What an operator may ask and say about names under a drift alarm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from policy.model import Tenant
from policy.text.names import COVERED, MIXED_ONLY, NOT_COVERED, mentioned_in
from policy.trust.drift import ALARM_COUNT
from proxy.admin.wire.alarms import AcceptedView, AlarmList, AlarmView, DriftView
from proxy.seams.faults import MalformedRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.model import Principal
    from policy.ruleset import Ruleset
    from proxy.admin.wire.alarms import AcceptRequest
    from storage.drift import Drift


class NamesWatched:
    """One method for each command about names under alarm; event loop only."""

    def __init__(self, drift: Drift, ruleset: Callable[[], Ruleset]) -> None:
        self._drift = drift
        self._ruleset = ruleset

    async def alarms(self, tenant: Tenant) -> AlarmList:
        """Every name under a drift alarm, with a few of the memories that mention it."""
        found = await asyncio.to_thread(self._drift.alarms, tenant)
        return AlarmList(
            alarms=tuple(msgspec.convert(msgspec.structs.asdict(one), AlarmView) for one in found)
        )

    async def status(self, tenant: Tenant) -> DriftView:
        """What the rules do about drift, and how many names, in which scripts, are watched."""
        rules = self._ruleset().drift
        watched = await asyncio.to_thread(self._drift.watched, tenant)
        return DriftView(
            names=rules.names.value,
            alarm_count=ALARM_COUNT,
            shown_of_ten=rules.shown_of_ten,
            shown_on_probation=rules.shown_on_probation,
            alarms=watched.alarms,
            names_watched=watched.names,
            names_max=watched.names_max,
            names_floor=watched.floor,
            said_words=watched.words,
            covered=COVERED,
            mixed_case_only=MIXED_ONLY,
            not_covered=NOT_COVERED,
        )

    async def accept(self, by: Principal, asked: AcceptRequest) -> AcceptedView:
        """Exempt a name from holds, and leave a leaf.

        Raises:
            MalformedRequest: No word of the text could be a name.
            NotFound: No memory of low trust mentioned the name, or the name is accepted already.
        """
        cells = await self._drift.accept(_tenant(asked), asked.name, by.principal_id)
        if not cells:
            raise NotFound("no memory below user_input mentioned that name, or it is accepted")
        return AcceptedView(cells=cells)

    async def revoke(self, by: Principal, asked: AcceptRequest) -> AcceptedView:
        """Take an acceptance back, with a leaf.

        Raises:
            MalformedRequest: No word of the text could be a name.
            NotFound: The name was not accepted.
        """
        cells = await self._drift.revoke(_tenant(asked), asked.name, by.principal_id)
        if not cells:
            raise NotFound("that name is not accepted")
        return AcceptedView(cells=cells)


def _tenant(asked: AcceptRequest) -> Tenant:
    """The tenant that a request names, after a check that it is a valid name."""
    if not mentioned_in(asked.name).every:
        raise MalformedRequest("name: no word of three letters or more that could be a name")
    return Tenant(asked.tenant)
