"""Guard mode: admitted changes to upstream servers, and their outcomes.

An admitted change is an intent: its row is stored with both leaves, and no read shows it. A result
leaf turns the intent into a memory or ends it. Without a result leaf the outcome is unknown, and
the intent stays listed (docs/mcp.md#one-outcome-for-each-write).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from policy.labels.forwarded_call import call_of, removes
from policy.model import CandidateId, ChangeKind, ForwardStatus, MemoryStatus, Tenant
from storage.audit import ResultLeaf, VerdictLeaf, candidate_of
from storage.features.quarantine.hiding import QUARANTINES
from storage.features.upstream.closed_keys import (
    CLOSED,
    UpstreamPlace,
    close_key,
    closed_keys,
    open_key,
    place_of,
    shut_key,
)
from storage.features.upstream.forward_snapshot import ForwardSnapshot
from storage.features.upstream.upstream_filing import FORWARDS, ForwardRecord
from storage.features.upstream.upstream_hiding import HIDDEN_THERE, put_hidden_there
from storage.ground.errors import UnknownCandidate
from storage.tables.change import Change, read_leaf
from storage.tables.codec import NO_ORDINAL, IdRecord, encode, ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.names import IDS, KEYED, ROWS
from storage.tables.rows import (
    guarded_rows,
    held_key,
    read_id,
    read_row,
)
from storage.tables.usage import recorded_usage
from storage.values import (
    NO_KEYS,
    THE_STORE,
    ClosedKey,
    GuardedServer,
    PendingForward,
    Row,
    Settled,
)
from storage.write.keyed_text import read_thing
from storage.write.line_decisions import LineDecisions, LineRecord
from storage.write.seam import Feature, Follower


class Settle(msgspec.Struct, frozen=True):
    """An order to the writer: record the outcomes of sent changes, each with a leaf.

    `keys` maps candidates to the keys that the server gave to new memories. A memory that is done
    is filed under its key, in the transaction that settles it.
    """

    behind: GuardedServer
    settled: tuple[Settled, ...]
    keys: Mapping[CandidateId, str] = NO_KEYS

    def carry_out(self, change: Change) -> frozenset[str]:
        """Settle the changes; return the ids of those that were not settled before.

        Raises:
            UnknownCandidate: A text is no candidate's id.
        """
        return frozenset(
            candidate_id
            for candidate_id, result in self.settled
            if self._settle(change, candidate_id, result, self.keys.get(candidate_id, ""))
        )

    def _settle(
        self,
        change: Change,
        candidate_id: CandidateId,
        result: ForwardStatus,
        key: str,
    ) -> bool:
        place, record = _record(change.draft, self.behind, candidate_id)
        if record is None:
            return False
        if key and result is ForwardStatus.DONE and _is_known(change, record, key):
            # A server gives a new memory a new key. An answer with a key that is in use would give
            # one tenant the memory of another, so the outcome counts as unknown.
            result = ForwardStatus.UNKNOWN
        if result is ForwardStatus.UNKNOWN:
            if record.unknown:
                return False
            lost = msgspec.structs.replace(record, sent=True, unknown=True)
            change.draft.write(FORWARDS, place, lost)
        else:
            change.draft.delete(FORWARDS, place)
            if key and result is ForwardStatus.DONE:
                _file_anew(change, record, key)
            _conclude(change, record, done=result is ForwardStatus.DONE)
            if result is not ForwardStatus.DONE:
                _give_back(change, record, candidate_id)
            elif not record.sent:
                # A person carried out the change on the server, instead of a relay or an agent.
                row = read_row(change.draft, record.ordinal)
                LineDecisions(change.names).carried_out(change, candidate_of(row))
        change.log(
            ResultLeaf(
                candidate_id=candidate_id,
                at_ms=change.now_ms,
                verdict_index=record.leaf_index,
                result=result,
                by=self.behind.by,
            )
        )
        return True


class Claim(msgspec.Struct, frozen=True):
    """An order to the writer: reserve released changes for a caller, who then has to send them.

    After a crash, reserved changes are looked up on the server, and not sent again.
    """

    behind: GuardedServer
    candidate_ids: tuple[CandidateId, ...]

    def carry_out(self, change: Change) -> frozenset[str]:
        """Reserve the changes; return the ids of those that were not reserved before."""
        claimed: list[str] = []
        lines = LineDecisions(change.names)
        for candidate_id in self.candidate_ids:
            key, record = _record(change.draft, self.behind, candidate_id)
            if record is None or record.sent:
                continue
            candidate = candidate_of(read_row(change.draft, record.ordinal))
            if not lines.is_let_in(change, candidate):
                # Another call has carried out a line of this change, so sending it would repeat
                # that line.
                overtake(change, candidate_id)
            else:
                lines.carried_out(change, candidate)
                change.draft.write(FORWARDS, key, msgspec.structs.replace(record, sent=True))
                claimed.append(candidate_id)
        return frozenset(claimed)


class CloseKeys(msgspec.Struct, frozen=True):
    """An order to the writer: close keys of a server, so that no tenant is shown their content.

    A later write under such a key through the gate, or its deletion, opens the key again.
    """

    tenant: Tenant
    target: str
    keys: tuple[str, ...]

    def carry_out(self, change: Change) -> None:
        """Close every key in `keys`."""
        for key in self.keys:
            shut_key(change, UpstreamPlace(self.tenant, self.target, key))


class Forwards(Feature):
    """Changes on their way to upstream servers. Coroutines on any loop; reads on any thread.

    Coroutines raise what `MemoryWriter.submit` raises.
    """

    async def settle(
        self,
        behind: GuardedServer,
        settled: tuple[Settled, ...],
        keys: Mapping[CandidateId, str] = NO_KEYS,
    ) -> frozenset[str]:
        """Record the outcomes of sent changes (`Settle`); return the ids not settled before.

        `keys` maps candidates to the keys that the server gave to new memories.
        """
        if not self._any_pending(behind, [candidate_id for candidate_id, _ in settled]):
            return frozenset()
        return await self._access.writer.order_together(Settle(behind, settled, keys))

    async def claim(
        self, behind: GuardedServer, candidate_ids: tuple[CandidateId, ...]
    ) -> frozenset[str]:
        """Reserve released changes for the caller, who then has to send them.

        Returns the ids of the changes that were not reserved before.
        """
        if not self._any_pending(behind, candidate_ids):
            return frozenset()
        return await self.order(Claim(behind, candidate_ids))

    def pending(
        self, tenant: Tenant | None = None, target: str | None = None
    ) -> tuple[PendingForward, ...]:
        """Admitted changes to be sent to a server, or to be looked up on it, oldest first."""
        found: list[tuple[int, PendingForward]] = []
        with self._store.reading() as view:
            for key, record in view.records(FORWARDS):
                if tenant not in {None, record.tenant} or target not in {None, record.target}:
                    continue
                row = read_row(view, record.ordinal)
                found.append((record.ordinal, _pending(key, record, row)))
        return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))

    def unsettled(self, tenant: Tenant, target: str, keys: tuple[str, ...]) -> frozenset[str]:
        """Those of a server's keys under which a change was sent whose outcome is not known yet."""
        with self._store.reading() as view:
            sent = {
                ordinal_key(one.ordinal)
                for _, one in view.records(FORWARDS)
                if one.sent and (one.tenant, one.target) == (tenant, target)
            }
            return frozenset(
                one
                for one in keys
                if sent
                and one
                and not sent.isdisjoint(self._filed(view, UpstreamPlace(tenant, target, one)))
            )

    def _filed(self, view: View, place: UpstreamPlace) -> Iterator[bytes]:
        """The ordinals of the rows under a key of a server, in the form of keys."""
        keyed = self._names.guarded(*place)
        return (found.removeprefix(keyed) for found, _ in view.under(KEYED, keyed))

    def text(self, behind: GuardedServer, key: str) -> str | None:
        """The text that a server has under a key; None if the verdicts do not determine it."""
        with self._store.reading() as view:
            return read_thing(view, self._names, behind.tenant, behind.target, key).text

    def live_strings(self, tenant: Tenant, target: str, key: str) -> frozenset[str]:
        """Every string among the arguments with which live memories under a key were written."""
        with self._store.reading() as view:
            found = guarded_rows(view, self._names, tenant, target, key)
            # Live, and with the text that was sent.
            rows = [one for one in found if one.status is MemoryStatus.LIVE and one.row is one.sent]
        calls = (call_of(candidate_of(one.sent)) for one in rows)
        return frozenset(text for call in calls if call is not None for text in call.pieces)

    def unmoved(
        self,
        behind: GuardedServer,
        candidate_ids: tuple[CandidateId, ...],
        waiting: frozenset[CandidateId],
    ) -> bool:
        """Whether the facts on which these changes were admitted still hold (`ForwardSnapshot`).

        `waiting` are the other changes that were not sent yet.
        """
        with self._store.reading() as view:
            return ForwardSnapshot(view, self._names, waiting).holds(behind, candidate_ids)

    @property
    def closings(self) -> int:
        """A counter that grows with every change that can alter an answer of `closed`."""
        return self._access.moves[CLOSED]

    def closed(self, tenant: Tenant, target: str, keys: tuple[str, ...]) -> tuple[ClosedKey, ...]:
        """For each key of a server: whether it is closed, so that its content may not be shown.

        A key is closed if the gate erased its memory or gave up a lost write, and the server may
        have the text.
        """
        with self._store.reading() as view:
            return closed_keys(view, self._names, tenant, target, keys)

    def _any_pending(self, behind: GuardedServer, candidate_ids: Sequence[CandidateId]) -> bool:
        with self._store.reading() as view:
            found = (_record(view, behind, candidate_id) for candidate_id in candidate_ids)
            return any(record is not None for _, record in found)


def _give_back(change: Change, record: ForwardRecord, candidate_id: CandidateId) -> None:
    """Restore a person's approval of the lines of a change that was not carried out."""
    row, verdict = (
        read_row(change.draft, record.ordinal),
        read_leaf(change.draft, record.leaf_index),
    )
    if isinstance(verdict, VerdictLeaf) and verdict.approved_by is not None and not row.erased:
        restores = change.header.restores
        again = LineRecord(verdict.approved_by, candidate_id, change.now_ms, restores)
        LineDecisions(change.names).let_in(change, candidate_of(row), again)


def overtake(change: Change, candidate_id: CandidateId) -> None:
    """End a released change that was not sent; do nothing if the candidate has no such change."""
    key = bytes.fromhex(candidate_id)
    record = change.draft.read(FORWARDS, key)
    if record is None or record.sent:
        return
    change.draft.delete(FORWARDS, key)
    _conclude(change, record, done=False)
    change.log(
        ResultLeaf(
            candidate_id=candidate_id,
            at_ms=change.now_ms,
            verdict_index=record.leaf_index,
            result=ForwardStatus.FAILED,
            by=THE_STORE,
        )
    )


class EndsOvertaken(Follower):
    """Ends a released change that was not sent when another call carries out one of its lines."""

    def overtaken(self, change: Change, candidate_id: CandidateId) -> None:
        """End the change of a candidate, if it waits to be sent."""
        overtake(change, candidate_id)


def _is_known(change: Change, record: ForwardRecord, key: str) -> bool:
    """Whether a memory of any tenant is under a key of the server, or the key is closed."""
    view, names = change.draft, change.names
    (closed,) = closed_keys(view, names, record.tenant, record.target, (key,))
    return any(closed) or any(
        one.status is not MemoryStatus.DELETED and one.ordinal != record.ordinal
        for tenant in recorded_usage(view)
        for one in guarded_rows(view, names, tenant, record.target, key)
    )


def _file_anew(change: Change, record: ForwardRecord, key: str) -> None:
    """File a memory under the key that the server gave it.

    Otherwise a later change of the memory would count as a change of an unknown memory.
    """
    draft, row = change.draft, read_row(change.draft, record.ordinal)
    if not row.keyed or row.erased:
        return
    keyed = change.names.guarded(record.tenant, record.target, key)
    draft.delete(KEYED, row.keyed + ordinal_key(record.ordinal))
    draft.put(KEYED, keyed + ordinal_key(record.ordinal), b"")
    filed = msgspec.structs.replace(row, keyed=keyed, assigned_key=key)
    change.charges[row.tenant] += len(encode(filed)) - len(encode(row))
    draft.put(ROWS, ordinal_key(record.ordinal), encode(filed))


def _conclude(change: Change, record: ForwardRecord, *, done: bool) -> None:
    known = read_id(change.draft, record.name)
    if known != IdRecord(record.ordinal, MemoryStatus.FORWARDING):
        # The memory was purged, or a client wrote a new memory with the same id, so the intent has
        # no effect.
        return
    row = read_row(change.draft, record.ordinal)
    removal = row.change is ChangeKind.DELETE
    shown = done and not removal
    status = MemoryStatus.LIVE if shown else MemoryStatus.DELETED
    # An incident reached this memory while it was on its way, so it becomes hidden as well.
    hidden = shown and change.draft.has(QUARANTINES, record.name)
    status = MemoryStatus.QUARANTINED if hidden else status
    _follow_key(change, record, row, shown=shown)
    # The hiding of this key that its server was asked for may have to be undone.
    if hidden or change.draft.has(HIDDEN_THERE, row.keyed):
        change.moved.add(QUARANTINES)
    change.draft.put(IDS, record.name, encode(IdRecord(record.ordinal, status)))
    if shown and not hidden:
        change.live_count += 1
        change.index.readmitted.append((record.ordinal, row))
    elif done and removal:
        _take_away(change, record, row)


def _follow_key(change: Change, record: ForwardRecord, row: Row, *, shown: bool) -> None:
    """Open the key of a memory that its server has now, or close the key of a lost one.

    Only a write whose answer was lost may arrive after it counts as failed. If the server has
    another memory of the tenant under the key, the key stays open for that memory.
    """
    place = place_of(row)
    if shown and place is not None:
        open_key(change, place, record.ordinal)
    elif record.unknown:
        close_key(change, record.ordinal, row, unless_after=NO_ORDINAL)


def _take_away(change: Change, record: ForwardRecord, row: Row) -> None:
    """End the memories that the upstream server has deleted. Their rows stay, as evidence."""
    deletion = call_of(candidate_of(row))
    if deletion is None:
        return
    key = deletion.key
    ending, hidden_later = {MemoryStatus.LIVE}, False
    whole = all(piece == key for piece in deletion.pieces)
    if whole:
        open_key(change, UpstreamPlace(record.tenant, record.target, key))
        # The end of a quarantine must not show again what the server was told to delete.
        ending.add(MemoryStatus.QUARANTINED)
    for one in list(guarded_rows(change.draft, change.names, record.tenant, record.target, key)):
        stored = call_of(candidate_of(one.sent))
        if one.status not in ending or one.row is not one.sent:
            continue
        if one.ordinal > record.ordinal:
            # The memory was judged after the deletion, so the server has it after the deletion.
            hidden_later |= one.status is MemoryStatus.QUARANTINED
            continue
        if stored is not None and removes(deletion, stored):
            gone = IdRecord(one.ordinal, MemoryStatus.DELETED)
            change.draft.put(IDS, one.name, encode(gone))
            if one.status is MemoryStatus.LIVE:
                change.index.superseded.append((one.ordinal, one.sent))
                change.live_count -= 1
    if whole and not hidden_later:
        keyed = change.names.guarded(record.tenant, record.target, key)
        put_hidden_there(change, keyed, record.tenant, None)


def _pending(key: bytes, record: ForwardRecord, row: Row) -> PendingForward:
    return PendingForward(
        candidate_id=CandidateId(key.hex()),
        candidate=candidate_of(row),
        sent=record.sent,
        unknown=record.unknown,
        blob=record.blob,
    )


def _record(
    view: View, behind: GuardedServer, candidate_id: CandidateId
) -> tuple[bytes, ForwardRecord | None]:
    """The key and record of a candidate's intent; None if it is for another tenant or server."""
    key = held_key(candidate_id)
    if key is None:
        raise UnknownCandidate("no candidate has such an id")
    record = view.read(FORWARDS, key)
    if record is None or (record.tenant, record.target) != (behind.tenant, behind.target):
        return key, None
    return key, record
