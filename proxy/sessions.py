"""The session ledger: what entered each agent's context, from which channel, durably.

`proxy.session_core` knows; this keeps what it knows in a file (`storage.session_log`), and a model
request goes on only when what it says of its session is on disk.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from proxy.session_book import packed
from proxy.session_core import DISTRUST_MS, Core
from proxy.session_entering import Entered, Entering, Moment
from proxy.session_evidence import SeenCall, evidence
from proxy.session_records import (
    OTHERS_FROM,
    Distrusted,
    Row,
    Wrote,
    decode,
    encode,
)
from proxy.session_splices import shipped_rules
from proxy.session_state import unread_of
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.endorsement import Asked
    from policy.model import Memory, Origin, Principal, PrincipalId
    from policy.taint import Seen
    from proxy.dialects.model.transcript import ModelReply, ModelRequest
    from proxy.guard import Join, Segment
    from proxy.surroundings import Surroundings
    from storage.interfaces import Outcome
    from storage.session_log import SessionLog

__all__ = ["Entered", "Sessions"]


class Keeps(Protocol):
    """Somebody else whose records live in the same log, with tags of `OTHERS_FROM` and above."""

    def restore(self, record: bytes) -> None:
        """Take back one record, in the order in which they were written."""
        ...

    def snapshot(self) -> Iterable[bytes]:
        """Records that a compacted log keeps instead of all that were written."""
        ...


class Sessions:
    """Event loop only."""

    def __init__(
        self, log: SessionLog | None, prints_key: bytes, surroundings: Surroundings
    ) -> None:
        self._log = log
        self._core = Core(prints_key, shipped_rules())
        self._entering = Entering(self._core)
        self._out = surroundings
        self._others: list[Keeps] = []

    @staticmethod
    def scar(now_ms: float) -> bytes:
        """The record that says in a log that some of it was lost."""
        return encode(Distrusted(int(now_ms) + DISTRUST_MS))

    def restore(self, records: Iterable[bytes], *others: Keeps) -> None:
        """Take back what a log had in it, with those who keep something in it too."""
        self._others += others
        state = self._core.state
        for data in records:
            if data[:1] >= bytes([OTHERS_FROM]):
                for other in self._others:
                    other.restore(data)
                continue
            record = decode(data)
            if record is None:
                # Of a later version, or worse: history that cannot be read is lost.
                state.apply(Distrusted(self._out.now_ms() + DISTRUST_MS))
                continue
            state.apply(record)
        for session in state.sessions.values():
            session.unread = unread_of(session)

    async def entered(
        self, principal: Principal, request: ModelRequest, names: tuple[str, ...]
    ) -> Entered:
        """What a request puts into the context; durable when this returns.

        `names` are the client's own names of its session, each with its kind in front: claims,
        which join and never separate.

        Raises:
            StoreUnavailable: It is not durable; the request must not go on.
        """
        moment = Moment(self._out.now_ms(), self._out.random_hex(16))
        entered = self._entering.entered(principal, request, names, moment)
        await self._durable()
        return entered

    async def replied(self, principal: Principal, session: str, reply: ModelReply) -> None:
        """What the model said, and the calls it made; durable when this returns.

        What the sidecar puts into a reply is to be among it: the agent will send it back.

        Raises:
            StoreUnavailable: It is not durable; after a restart it counts as unseen.
        """
        self._core.replied(principal.principal_id, session, reply, self._out.now_ms())
        await self._durable()

    def seen(
        self,
        principal_id: PrincipalId,
        texts: tuple[str, ...],
        join: Join | None,
        asked: Asked | None = None,
    ) -> Seen:
        """What is known of a candidate that says these texts.

        `asked` is what a person must have said to endorse it; without it nothing is endorsed.
        """
        return evidence(self._core, principal_id, texts, (join, asked), self._out.now_ms())

    def recalled(self, principal_id: PrincipalId, memories: tuple[Memory, ...]) -> None:
        """A memory front served these: their texts keep their labels in a context."""
        self._core.recalled(principal_id, memories, self._out.now_ms())
        self._soon()

    def saw(self, principal_id: PrincipalId, segment: Segment) -> None:
        """A relay saw an answer of a server on its way to the agent."""
        self._core.saw(principal_id, segment, self._out.now_ms())
        self._soon()

    def culprits(self, principal_id: PrincipalId, text: str) -> tuple[Origin, ...]:
        """What relays saw, outside of any session we know, that the text is contained in."""
        found = self._core.ring_of(principal_id).containing(text, "")
        return self._core.origins(found)

    def wrote(self, principal_id: PrincipalId, seen: Seen, outcome: Outcome) -> None:
        """A candidate that `seen` was said of is decided."""
        if principal_id not in self._core.state.books or seen.session is None:
            return
        origins = tuple(
            Row(
                "origin",
                origin.kind,
                0,
                server=origin.server or "",
                tool=origin.tool or "",
                call_id=origin.call_id or "",
                memory_id=origin.memory_id or "",
            )
            for origin in seen.contained
        )
        record = Wrote(
            session=seen.session,
            at_ms=self._out.now_ms(),
            candidate_id=outcome.candidate_id,
            decision=outcome.decision.value,
            source=outcome.source,
            basis=outcome.basis,
            memory_class=outcome.memory_class,
            joined=seen.joined.value,
            endorsed=seen.endorsed,
            reason="" if outcome.reason is None else outcome.reason.value,
            origins=origins,
            calls=packed(seen.calls) if isinstance(seen, SeenCall) else b"",
        )
        self._core.do(record)
        self._soon()

    async def keep(self, record: bytes) -> None:
        """Make a record of somebody else durable, in the order of all.

        Raises:
            StoreUnavailable: It is not durable.
        """
        if self._log is not None:
            await self._log.append([*self._taken(), record])

    def _taken(self) -> list[bytes]:
        return [encode(record) for record in self._core.take()]

    async def _durable(self) -> None:
        records = self._taken()
        if self._log is not None and records:
            await self._log.append(records)

    def _soon(self) -> None:
        """Written within moments. Where the disk refuses, the next request will not go on."""
        records = self._taken()
        if self._log is not None and records:
            with contextlib.suppress(StorageError):
                self._log.add(records)
