"""Quarantined memories whose own server is told to hide them as well, or gets them back.

What is to be done is no queue. It is the difference between how the newest memory under a key
stands and what was recorded as done on the server, so nothing that a crash leaves undone is lost.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from policy.model import Candidate, CandidateId, Hiding, Tenant


class HiddenThere(msgspec.Struct, frozen=True, array_like=True):
    """What was done on a server behind about the memory under one key.

    It is recorded before the server is asked (`done` False), and again when a read of the server
    shows that it is done. `kept` is the removed item in the adapter's own words; b"" for a tag, and
    for a memory that was purged since.
    """

    tenant: Tenant
    target: str
    hiding: Hiding
    done: bool
    kept: bytes = b""


class HidingDue(msgspec.Struct, frozen=True, kw_only=True):
    """One act that a server behind has not confirmed yet.

    `keyed` names the record of the server's `key`, `candidate` is the newest memory under that key.
    `hides` False undoes what `hiding` did. `kept` is what was recorded last.
    """

    keyed: bytes
    key: str
    candidate_id: CandidateId
    candidate: Candidate
    hiding: Hiding
    hides: bool
    kept: bytes = b""


class HiddenBehind(Protocol):
    """What servers behind were told of quarantined memories. Reads on any thread."""

    @property
    def changes(self) -> int:
        """A counter that moves with whatever can make something due."""
        ...

    def due(
        self, target: str, hiding: Hiding, only: frozenset[bytes] | None = None
    ) -> tuple[HidingDue, ...]:
        """What is to be done on a server, of all tenants, or of these keys only.

        Nothing is due of a key while a change of it is on its way, nor of one under which nothing
        is left, such as that of a purged memory: what was done about it stays.

        Raises:
            StorageError: The answer is unknown.
        """
        ...

    async def record(self, done: tuple[tuple[bytes, Tenant, HiddenThere | None], ...]) -> None:
        """Record what is asked of a server, or what it confirmed; None: nothing is done any more.

        One transaction, without a leaf. What was kept of a memory that is purged by now is dropped.
        Any loop; raises as `MemoryWriter.submit`.
        """
        ...
