"""The way back of hidden memories: a trial, a probation, and what ends the probation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from policy.after.parole import PROBATION_RECALLS, Trial
from policy.after.signals import SignalKind
from policy.model import MemoryId, MemoryStatus, PrincipalId, Tenant
from proxy.aftermath.canaries import CANARY_FRONT
from proxy.aftermath.replay import NothingKept, Replays
from proxy.aftermath.trial import Trials
from proxy.seams.cases import Signal
from storage.features.parole import EndProbations, GrantParole, OnProbation, Paroles, RefuseParole
from storage.features.recalls import Recall, Recalls
from storage.values import Visibility

_OF_RULES: Final = frozenset({SignalKind.ANCHOR, SignalKind.CANARY})
PROBATIONS_EVERY_S: Final = 3_600.0
OWN_PRINCIPALS: Final = "mnemogate:"
"""The names of the sidecar's own principals begin so, and those of no key."""
RECALLS_LOOKED_AT: Final = 1_000
"""How many of the newest recalls of a memory are looked at, to count those that end a probation."""


class Probations:
    """The memories on probation. Any thread but the event loop's: each call may read files."""

    def __init__(
        self, paroles: Paroles, replays: Replays, recalls: Recalls, now_ms: Callable[[], int]
    ) -> None:
        self._paroles = paroles
        self._replays = replays
        self._recalls = recalls
        self._now_ms = now_ms

    def implicated(self, signal: Signal) -> tuple[MemoryId, ...]:
        """The memories on probation that stood in the answer that a signal is about.

        A rule speaks of single memories, so by its signal only the one that it names is implicated:
        whoever has a lie left out of a read could choose what stands beside it there.
        """
        watched = self._paroles.on_probation(signal.tenant)
        if not watched:
            return ()
        try:
            evidence = self._replays.evidence(signal)
        except NothingKept:
            return ()
        shown = {one.memory.memory_id for one in evidence.shown}
        if signal.kind in _OF_RULES:
            shown = {one for one in shown if one == signal.memory_id}
        return tuple(
            one.memory_id for one in watched if one.memory_id in shown and not self._is_over(one)
        )

    def over(self) -> tuple[OnProbation, ...]:
        """The probations of all tenants that are over: in time, or after enough recalls."""
        return tuple(one for one in self._paroles.on_probation() if self._is_over(one))

    def _is_over(self, one: OnProbation) -> bool:
        if one.until_ms <= self._now_ms():
            return True
        shown = self._recalls.recalls(
            one.tenant, memory_id=one.memory_id, since_ms=one.since_ms, limit=RECALLS_LOOKED_AT
        )
        return sum(_counts(recall, one) for recall in shown) >= PROBATION_RECALLS


def _counts(recall: Recall, one: OnProbation) -> bool:
    """Whether a recall is one in which somebody could have met the memory, and complained.

    Who wrote the memory could read it fifty times in a minute, and the sidecar's own searches are
    read by nobody.
    """
    if recall.front == CANARY_FRONT or recall.principal_id.startswith(OWN_PRINCIPALS):
        return False
    return recall.principal_id not in one.writers


class ParoleResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a memory that was to be paroled; no trial for one that reads show already."""

    standing: Visibility
    trial: Trial | None = None


class ParoleTrials:
    """Tries hidden memories, and shows those again that pass. Event loop only."""

    def __init__(
        self,
        *,
        paroles: Paroles,
        trials: Trials,
        probations: Probations,
    ) -> None:
        self._paroles = paroles
        self._trials = trials
        self._probations = probations

    async def parole(self, tenant: Tenant, memory_id: MemoryId, by: PrincipalId) -> ParoleResult:
        """Try a hidden memory, and show it again if it passes; either leaves a leaf.

        Raises:
            UnknownMemory: The tenant has no such memory, or it was deleted.
            MemoryMoved: The memory was changed during its trial; nothing was done.
            StorageError: The store could not be read or written; nothing was changed.
        """
        hidden = await asyncio.to_thread(self._paroles.hidden, tenant, memory_id)
        if hidden is None:
            status = MemoryStatus.LIVE
            return ParoleResult(
                standing=Visibility(memory_id=memory_id, tenant=tenant, status=status)
            )
        trial = await self._trials.tried(hidden)
        order = GrantParole if trial.passed else RefuseParole
        standing = await self._paroles.order(order(hidden, trial.said, by))
        return ParoleResult(standing=standing, trial=trial)

    async def end_probations(self) -> None:
        """End the probations that are over.

        Raises:
            StorageError: The store could not be read or written.
        """
        over = await asyncio.to_thread(self._probations.over)
        if over:
            await self._paroles.order(EndProbations(over))
