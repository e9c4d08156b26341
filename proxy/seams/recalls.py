"""The interface through which withholding and ledger hear which memories are about to be served."""

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
    """Hears of every read of memories, through every front. Event loop only; it never waits."""

    def served(
        self, principal: Principal, read: Read, shown: Shown, *, dialect: str, trace: TraceContext
    ) -> None:
        """`shown` is about to be served as the answer to `read`; nothing of it was sent yet."""
        ...


class UnheardRecalls:
    """For a sidecar without a model front: reads are not noted."""

    def served(
        self, principal: Principal, read: Read, shown: Shown, *, dialect: str, trace: TraceContext
    ) -> None:
        """Do nothing."""
        del principal, read, shown, dialect, trace
