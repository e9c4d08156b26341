"""The seam between reading and what keeps account of it: which memories are about to be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from policy.model import Principal
    from proxy.seams.operation import (
        Entities,
        Found,
        GetHistory,
        GetMemory,
        Got,
        History,
        Listed,
        ListEntities,
        ListMemories,
        Search,
    )
    from telemetry.events import TraceContext

Read: TypeAlias = "Search | ListMemories | GetMemory | GetHistory | ListEntities"
Shown: TypeAlias = "Found | Listed | Got | History | Entities"


class HearsRecalls(Protocol):
    """Hears of every read, whatever front it came through. Event loop only; it never waits."""

    def served(
        self, principal: Principal, read: Read, shown: Shown, *, dialect: str, trace: TraceContext
    ) -> None:
        """`shown` is about to be served as the answer to `read`; nothing of it was sent yet."""
        ...


class UnheardRecalls:
    """The reads of a sidecar that has no model front: nobody keeps account of them."""

    def served(
        self, principal: Principal, read: Read, shown: Shown, *, dialect: str, trace: TraceContext
    ) -> None:
        """Nothing is noted."""
        del principal, read, shown, dialect, trace
