"""The interfaces that are told which memories are about to be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

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

Read: TypeAlias = "Search | ListMemories | GetMemory | GetHistory | ListEntities"
Shown: TypeAlias = "Found | Listed | Got | History | Entities"


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A read and its answer, before anything of it was sent.

    `name` is the read's `gen_ai.operation.name`, `count` the number of records that it returns. A
    search also has the unit vector of its question, the ordinals nearest to that vector
    (`storage.values.Searched`), and the store's version.
    """

    read: Read
    shown: Shown
    name: str
    count: int
    vector: bytes | None = None
    nearest: tuple[int, ...] = ()
    version: int = 0


class HearsRecalls(Protocol):
    """Hears of every read of memories, through every front. Event loop only; it never waits."""

    def served(self, principal: Principal, answered: ReadAnswer, *, dialect: str) -> str:
        """Note an answer that is about to be served.

        Returns the recall's id, "" if none is kept.
        """
        ...


class EntersContexts(Protocol):
    """Is told which memories will enter an agent's context. Event loop only; it never waits."""

    def recalled(self, principal: Principal, shown: Shown, recall_id: str) -> None:
        """Note that the memories in `shown` are about to be served to an agent, by that recall."""
        ...
