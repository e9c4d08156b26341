"""Paroles: what an engine keeps of memories that were shown again, and the values it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from policy.model import Memory, MemoryId, PrincipalId, Tenant
from storage.cases import Case
from storage.values import Standing

PAROLE_REFUSED = "memory.parole_refused"
"""The action in the leaf of a trial that a memory did not pass."""


class ParoleRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of the paroles of one memory. Times are Unix milliseconds, 0 for never.

    `paroles` counts those after a trial. The memory is on probation from `since_ms` to `until_ms`;
    an `until_ms` of 0 says that the probation was ended.
    """

    paroles: int = 0
    since_ms: int = 0
    until_ms: int = 0


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that reads do not show, as it was at one moment, with what its trial needs.

    `memory` is the version that a parole shows again, and `newest` the ordinal of the newest row.
    `outlived` is true for a memory that an incident let expire because it was true once, `expired`
    for one that is past an expiry of its own. `cases` are the wrong answers that name the memory,
    oldest first. `structural`: a step was let in although its program broke a rule that only a
    program can break. `claimed_more`: a client claimed a more trusted source than the gate found.
    `writers` wrote any version of the memory.
    """

    memory: Memory
    newest: int
    by: frozenset[str]
    record: ParoleRecord
    cases: tuple[Case, ...]
    outlived: bool
    expired: bool
    structural: bool
    claimed_more: bool
    writers: frozenset[PrincipalId]


class OnProbation(msgspec.Struct, frozen=True, kw_only=True):
    """A memory on probation, since when and until when (Unix milliseconds).

    `writers` wrote any version of the memory.
    """

    tenant: Tenant
    memory_id: MemoryId
    since_ms: int
    until_ms: int
    writers: frozenset[PrincipalId]


class Paroles(Protocol):
    """Hidden memories and their way back. Coroutines on any loop; other calls on any thread.

    Coroutines raise as `MemoryWriter.submit`; each is one transaction with its leaf.
    """

    def hidden(self, tenant: Tenant, memory_id: MemoryId) -> Hidden | None:
        """A memory with what its trial needs; None if reads show it. Walks the memory's rows.

        A memory that is past an expiry of its own counts as shown: nobody hides it.

        Raises:
            UnknownMemory: The tenant has no such memory, or it was deleted.
        """
        ...

    async def grant(self, hidden: Hidden, said: str, by: PrincipalId) -> Standing:
        """Show a memory again, one class lower and on probation; `said` is told in the leaf.

        Raises:
            MemoryMoved: The memory is not as it was during the trial; nothing was changed.
            QuotaReached: There is no room for the new row; nothing was changed.
        """
        ...

    async def refuse(self, hidden: Hidden, said: str, by: PrincipalId) -> Standing:
        """Record that a memory did not pass its trial; reads go on not to show it."""
        ...

    def on_probation(self, tenant: Tenant | None = None) -> tuple[OnProbation, ...]:
        """The memories whose probation was not ended yet, of one tenant or of all."""
        ...

    async def end(self, ended: Sequence[OnProbation]) -> None:
        """End these probations; one that has begun anew since goes on. The log gets no leaf."""
        ...
