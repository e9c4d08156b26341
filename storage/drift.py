"""Drift alarms about names, as an operator asks about them; independent of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import MemoryId, PrincipalId, Tenant

DRIFT_ACCEPT: Final = "drift.accept"
DRIFT_REVOKE: Final = "drift.revoke"


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """One name under a drift alarm.

    `cell` is the name's keyed hash (16 hex digits), which leaves, logs and spans have in its place.
    `name` is read from a live memory that mentions it, in lower case; None where none is found any
    more. `count` is the number of live memories of low trust that mention the name; `memory_ids`
    are the newest of them.
    """

    cell: str
    name: str | None
    count: int
    accepted: bool
    memory_ids: tuple[MemoryId, ...]


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """How many names are counted in one tenant.

    `words` counts the words that persons said, as far as they are kept. `floor` is the count with
    which a new name begins, because names were evicted for lack of room in the last days.
    """

    names: int
    words: int
    floor: int
    alarms: int
    names_max: int


class Drift(Protocol):
    """Names under a drift alarm. Reads on any thread, the coroutine on any loop."""

    def alarms(self, tenant: Tenant) -> tuple[Alarm, ...]:
        """Every name under alarm, the most mentioned first. Reads memories: seconds on many."""
        ...

    def watched(self, tenant: Tenant) -> Watched:
        """How many names are counted in one tenant."""
        ...

    def raised(self, tenant: Tenant, text: str) -> tuple[str, ...]:
        """The names in a text for which step 10 of the gate would hold it, as keys of cells."""
        ...

    async def said(self, tenant: Tenant, texts: Iterable[str]) -> None:
        """Exempt from alarms the names in what persons of a tenant said.

        Only keyed hashes are stored.

        This counts from the next verdict on, and is durable with the next write, a minute later, or
        when the store is closed.
        """
        ...

    async def accept(self, tenant: Tenant, name: str, by: PrincipalId) -> tuple[str, ...]:
        """Exempt the words of a name from holds, with a leaf for each; searches still cap them.

        Returns their cells; () where no memory of low trust mentioned the name, or it is accepted
        already.
        """
        ...

    async def revoke(self, tenant: Tenant, name: str, by: PrincipalId) -> tuple[str, ...]:
        """Take acceptances of names back, a leaf each.

        Returns the names' cells; () where none of the names was accepted.
        """
        ...
