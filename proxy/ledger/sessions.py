"""The session ledger: what entered each agent's context, from which channel, durably.

`proxy.ledger.core` computes; this module stores the records (`SessionLog`). A
model request is forwarded only when its records are on disk.

The call id that comes with a write is only a claim. It counts if a model made a call under that id
with the candidate's text; otherwise no session explains the write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from policy.labels.derive import Seen
from policy.model import Memory, Origin, Principal, PrincipalId
from policy.text.skeleton import skeleton
from proxy.dialects.model.transcript import ModelReply, ModelRequest
from proxy.ledger.core import Core, Moment, RequestFindings
from proxy.ledger.records import (
    OTHERS_FROM,
    LossRecord,
    OriginRow,
    WriteRecord,
    decode,
    encode,
    packed,
)
from proxy.ledger.session_match import length_of
from proxy.ledger.state import LIVE_MS, Book, Session, SessionCall
from proxy.ledger.turn_reader import TurnReader
from proxy.ledger.unmapped_tools import UnmappedTools
from proxy.ledger.views import listed, read_before, shown
from proxy.ledger.wire import SessionList, SessionView
from proxy.seams.environment import Environment
from proxy.seams.guard import Join, RelayedText
from proxy.seams.operation import EarlierText
from storage.ground.errors import StorageError
from storage.values import Outcome

if TYPE_CHECKING:
    from storage.interfaces import SessionLog

CONTAINED_MAX: Final = 8


class SeenCall(Seen, frozen=True, kw_only=True):
    """The evidence about a candidate, with the ids of the model's calls that it rests on."""

    calls: tuple[int, ...] = ()


def evidence(
    core: Core,
    principal_id: PrincipalId,
    texts: tuple[str, ...],
    now_ms: int,
    join: Join | None,
) -> SeenCall:
    """The ledger's evidence about a candidate; `join` names the calls that may have made it."""
    book = core.state.books.get(principal_id)
    if book is None:
        # The book may have been dropped for room, and then what its sessions read is not known.
        lost = principal_id in core.state.lost_principals
        return SeenCall(after_reading=lost or now_ms < core.state.lost_until_ms)
    ids = () if join is None else tuple(one for one in (join.tool_use_id, join.call_id) if one)
    named = tuple(dict.fromkeys(core.reader.print(one) for one in ids))
    sessions = _explaining(book, texts, core.reader, named)
    session = sessions[0].session if sessions else None
    ring = core.ring_of(principal_id)
    found = [kept for one in texts if one for kept in ring.containing(one, session)]
    lately = book.has_read_lately(now_ms) or now_ms < core.state.lost_until_ms
    return SeenCall(
        session=session,
        called=bool(sessions),
        # Where several sessions made such a call, one of them that had read is enough.
        after_reading=any(one.has_read for one in sessions) if sessions else lately,
        contained=core.origins(found)[:CONTAINED_MAX],
        read_origins=tuple(dict.fromkeys(name for one in sessions for name in one.read_origins)),
        calls=named if sessions else (),
    )


def _explaining(
    book: Book, texts: tuple[str, ...], reader: TurnReader, named: tuple[int, ...]
) -> tuple[Session, ...]:
    """The sessions whose models made all of the named calls with the texts, the newest first.

    An id alone, without a text, explains nothing.
    """
    if not any(texts):
        return ()
    found: dict[str, int] = {}
    for key in named:
        for call in book.calls.get(key, ()):
            if _has(call, texts, reader):
                found[call.session] = found.get(call.session, 0) + 1
    newest = (book.sessions.get(one) for one, count in found.items() if count >= len(named))
    there = [one for one in newest if one is not None]
    return tuple(sorted(there, key=lambda one: -one.used_ms))


def _has(call: SessionCall, texts: tuple[str, ...], reader: TurnReader) -> bool:
    """Whether each text is a string of the call's arguments, or made of their sentences."""
    for text in texts:
        if not text or reader.print(skeleton(text)) in call.exact:
            continue
        parts = frozenset(reader.parts(text))
        if not parts or not parts <= call.parts:
            return False
    return True


__all__ = ["RequestFindings", "Sessions"]

_R = TypeVar("_R")


GROWN_BYTES: Final = 8 * 1024 * 1024
GROWN_TIMES: Final = 4
"""How many times as long as its last snapshot a log gets before a new snapshot replaces it."""
COMPACTED_EVERY_S: Final = 30.0
CULPRITS_MAX: Final = 3


class Keeps(Protocol):
    """Another component that keeps records in the same log, under tags from `OTHERS_FROM` on."""

    def restore(self, record: bytes) -> None:
        """Apply one stored record, in the order of writing."""
        ...

    def snapshot(self) -> Iterable[bytes]:
        """The records to which a compacted log is reduced, in place of all that were written."""
        ...


class Sessions:
    """The session ledger with its log. Event loop only."""

    def __init__(
        self, log: SessionLog | None, prints_key: bytes, surroundings: Environment
    ) -> None:
        self._log = log
        self._core = Core(prints_key)
        self.surroundings = surroundings
        self.unmapped, self.programs = UnmappedTools(), UnmappedTools()
        # People's principals under which models called tools: an agent uses such a person's key.
        self.people_with_agents = set[PrincipalId]()
        self._others: list[Keeps] = []
        self._unshared: list[bytes] = []
        self._taken_count = 0
        self._snapshot_bytes = 0

    @staticmethod
    def scar(now_ms: int) -> bytes:
        """The record of a loss in the log, by which this start and later ones know of the loss."""
        return encode(LossRecord(now_ms + LIVE_MS))

    @staticmethod
    def after_restore(records: Iterable[bytes], now_ms: int) -> list[bytes]:
        """The log of a restored store: the records of withholding, and a mark of lost sessions."""
        kept = [one for one in records if one[:1] >= bytes([OTHERS_FROM])]
        return [*kept, Sessions.scar(now_ms)]

    def restore(self, records: Iterable[bytes], *others: Keeps) -> None:
        """Restore the ledger from its records in a log, and give other components their records."""
        state = self._core.state
        for data in records:
            if data[:1] >= bytes([OTHERS_FROM]):
                self._unshared.append(data)
                for other in others:
                    other.restore(data)
                continue
            # Bytes that are no record are damage: a part of the history is lost.
            state.apply(decode(data) or LossRecord(self.surroundings.now_ms() + LIVE_MS))
        self._others += others

    @property
    def print_count(self) -> int:
        """The number of fingerprints that the ledger has in memory."""
        return self._core.print_count

    def listed(self, limit: int) -> SessionList:
        """The most recently active sessions, for an operator."""
        return listed(self._core.state, limit, self.surroundings.now_ms())

    def session_ids(self) -> tuple[str, ...]:
        """The ids of all known sessions."""
        return tuple(self._core.state.sessions)

    def shown(self, session: str) -> SessionView | None:
        """One session in the form for operators; None if it is not known."""
        found = self._core.state.session(session)
        if found is None:
            return None
        return shown(self._core.state, found, self.surroundings.now_ms())

    def are_kin(self, one: str, other: str) -> bool:
        """Whether two sessions belong together.

        One began under a call of the other, or both began under a third session.
        """
        return self._core.state.root(one) == self._core.state.root(other)

    async def check(self) -> str | None:
        """What is wrong with the log's file; None if it is sound."""
        return None if self._log is None else await self._log.check()

    async def compact(self, *, always: bool = False) -> bool:
        """Replace a long log, or any (`always`), by a snapshot; return whether that was done.

        Raises:
            StoreUnavailable: The log is unchanged.
        """
        log = self._log
        grown = 0 if always else max(GROWN_BYTES, GROWN_TIMES * self._snapshot_bytes)
        if log is None or log.length < grown:
            return False
        # The snapshot is of one moment; records that are made later are written after it.
        self._core.take()
        snapshot = [encode(record) for record in self._core.state.snapshot()]
        for other in self._others:
            snapshot += other.snapshot()
        if not self._others:
            snapshot += self._unshared
        await log.rewrite(snapshot)
        self._snapshot_bytes = log.length
        return True

    def of_person(self, principal: str | None, candidates: Collection[str]) -> dict[str, str]:
        """The sessions of a principal, or that wrote a candidate, each with its principal."""
        return {
            one.session: one.principal
            for one in self._core.state.sessions.values()
            if one.principal == principal
            or any(wrote.candidate_id in candidates for wrote in one.writes)
        }

    async def erase(
        self,
        principal: str | None,
        sessions: Mapping[str, str],
        memory_ids: Collection[str],
    ) -> None:
        """Drop these sessions and all else of a principal, and rewrite the log without them.

        Raises:
            StoreUnavailable: The log is unchanged.
        """
        self._core.forget(principal, sessions, memory_ids, self.surroundings.now_ms())
        await self.compact(always=True)

    async def close(self) -> None:
        """Write queued records and close the file.

        Raises:
            StoreUnavailable: Some queued records were not written.
        """
        if self._log is not None:
            self._soon()
            await self._log.close()

    async def entered(
        self, principal: Principal, request: ModelRequest, *, reads_foreign: bool = False
    ) -> RequestFindings:
        """Record what a request puts into the context; the records are durable on return.

        `reads_foreign`: a setting of the operator, by which user turns contain others' texts.

        Raises:
            StoreUnavailable: The records are not durable; the request must not be forwarded.
        """
        principal_id = principal.principal_id
        fresh_id = self.surroundings.random_hex(16)
        moment = Moment(self.surroundings.now_ms(), fresh_id, reads_foreign)
        history, taken = self._core.history(request), self._taken_count
        entered = await self._in_turn(
            principal.tenant,
            self._core.unread_len(principal_id, request, history),
            lambda: self._core.entered(principal_id, request, moment, history),
        )
        await self._durable(taken)
        return entered

    async def _in_turn(self, tenant: str, size: int, call: Callable[[], _R]) -> _R:
        """Run `call`, which records an entry of `size` characters into a context.

        Within a tenant, calls run in the order in which they came. A long entry is read in slices.
        An entry is always completed, even if its sender disconnects meanwhile.
        """

        def entering() -> _R:
            with self._core.whole():
                return call()

        return await self.surroundings.pace.in_turn(f"ledger:{tenant}", size, entering)

    async def replied(
        self,
        principal: Principal,
        session: str,
        reply: ModelReply,
        recalls: Collection[str] = (),
    ) -> None:
        """Record what the model said and called; the records are durable on return.

        Texts that the sidecar adds to a reply must be included, because the agent sends them back.
        `recalls` are the ids of calls of tools that keep memory.

        Raises:
            StoreUnavailable: The records are not durable; after a restart the reply counts as
                unseen.
        """
        now_ms, taken = self.surroundings.now_ms(), self._taken_count
        await self._in_turn(
            principal.tenant,
            sum(map(len, reply.said)) + length_of(reply.heard, reply.calls),
            lambda: self._core.replied(principal.principal_id, session, reply, now_ms, recalls),
        )
        await self._durable(taken)

    def seen(
        self,
        principal_id: PrincipalId,
        texts: tuple[str, ...],
        join: Join | None,
    ) -> Seen:
        """The ledger's evidence about a candidate."""
        return evidence(self._core, principal_id, texts, self.surroundings.now_ms(), join)

    def recalled(
        self, principal_id: PrincipalId, memories: tuple[Memory | EarlierText, ...]
    ) -> None:
        """Record memories that a front served, so that they are recognised in a context."""
        self._core.recalled(principal_id, memories, self.surroundings.now_ms())
        self._soon()

    async def saw(self, principal_id: PrincipalId, segment: RelayedText, tenant: str = "") -> None:
        """Record a server's answer that a relay saw; the relay forwards the answer after that."""
        now_ms = self.surroundings.now_ms()
        # An agent reads its memory again and again: what is indexed already is not read again.
        known = self._core.knows(principal_id, segment)
        await self._in_turn(
            tenant,
            0 if known else sum(map(len, segment.texts)),
            lambda: self._core.saw(principal_id, segment, now_ms),
        )
        self._soon()

    def culprits(self, principal_id: PrincipalId, text: str) -> tuple[Origin, ...]:
        """The origins of texts that contain this one and that relays saw outside of any session."""
        found = self._core.ring_of(principal_id).containing(text, "")
        return self._core.origins(found)[:CULPRITS_MAX]

    def read_before(self, candidate_id: str) -> tuple[tuple[str, ...], ...] | None:
        """The foreign texts that a candidate's session had read before it (`views.read_before`)."""
        return read_before(self._core.state, candidate_id)

    def wrote(self, principal_id: PrincipalId, seen: Seen, outcome: Outcome) -> None:
        """Record a candidate's verdict as a write of its session."""
        if principal_id not in self._core.state.books:
            return
        record = WriteRecord(
            principal=principal_id,
            session=seen.session or "",
            at_ms=self.surroundings.now_ms(),
            candidate_id=outcome.candidate_id,
            decision=outcome.decision.value,
            source=outcome.source,
            basis=outcome.basis,
            memory_class=outcome.memory_class,
            called=seen.called,
            after_reading=seen.after_reading,
            reason="" if outcome.reason is None else outcome.reason.value,
            origins=tuple(
                OriginRow(
                    origin.kind,
                    server=origin.server or "",
                    tool=origin.tool or "",
                    call_id=origin.call_id or "",
                    memory_id=origin.memory_id or "",
                )
                for origin in seen.contained
            ),
            calls=packed(seen.calls) if isinstance(seen, SeenCall) else b"",
        )
        self._core.do(record)
        self._soon()

    def _taken(self) -> list[bytes]:
        self._taken_count += 1
        return [encode(record) for record in self._core.take()]

    async def _durable(self, taken: int) -> None:
        """Wait until the records of one change are on disk.

        `taken` is how often records had been taken for writing before the change began, so that it
        is known whether another write has taken its records.
        """
        # If recording the change took several turns of the event loop, another request may have
        # taken its records and be writing them.
        waits = self._taken_count != taken
        records = self._taken()
        if self._log is not None and (records or waits):
            await self._log.append(records)

    def _soon(self) -> None:
        """Hand queued records to the log, without waiting for the disk.

        If the disk fails, the next request that waits for the disk fails.
        """
        records = self._taken()
        if self._log is not None and records:
            with contextlib.suppress(StorageError):
                self._log.add(records)
