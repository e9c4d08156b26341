"""The state of all memories on upstream servers, read from the audit log as the log grows.

Every change that a read may show has a leaf. So a cache asks for the changes since the last leaf
that the cache has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from policy.labels.forwarded_call import call_of
from policy.model import CandidateId, ChangeKind, MemoryId, MemoryStatus
from storage.audit import (
    LastVerdict,
    Leaf,
    OperatorLeaf,
    ResultLeaf,
    VerdictLeaf,
    candidate_of,
)
from storage.features.cases.case_records import convicted_by
from storage.features.upstream.forgotten_texts import FORGOTTEN, forgotten_texts
from storage.tables.change import read_interception, read_leaf
from storage.tables.codec import NO_ORDINAL
from storage.tables.lmdb_store import View
from storage.tables.names import KEYED
from storage.tables.rows import (
    GuardedRow,
    filed_rows,
    guarded_row,
    read_id,
    read_row,
)
from storage.values import (
    CONFIRM,
    QUARANTINE,
    QUARANTINE_END,
    Decision,
    EndedText,
    ForwardState,
    UpstreamChange,
    UpstreamChanges,
)
from storage.write.seam import Feature

FOLLOWED_MAX: Final = 20_000
_LOOKED_BACK_MAX: Final = 100_000
_ORDINAL_LEN: Final = 8
_WHOLE: Final = frozenset({QUARANTINE, QUARANTINE_END, CONFIRM})
"""Acts of operators that may change many memories, so that all states are reported anew."""
_ENDINGS: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})

_OF_STATUS: Final = {
    MemoryStatus.LIVE: ForwardState.LIVE,
    MemoryStatus.QUARANTINED: ForwardState.QUARANTINED,
    MemoryStatus.FORWARDING: ForwardState.FORWARDING,
    MemoryStatus.DELETED: ForwardState.GONE,
}


class UpstreamState(Feature):
    """The state of all memories on upstream servers, as the log grows. Any thread."""

    def since(self, leaf_count: int) -> UpstreamChanges:
        """The changes after the first `leaf_count` leaves of the log; for -1 the state of all."""
        # Leaf counts are compared first, which is cheap, because usually the log has not grown.
        if self._access.leaf_count() == leaf_count:
            return UpstreamChanges(leaf_count=leaf_count, moved=())
        with self._store.reading() as view:
            header = view.header()
            now = 0 if header is None else header.leaf_count
            if leaf_count < 0 or now - leaf_count > FOLLOWED_MAX or now < leaf_count:
                return self._whole(view, now)
            # Of each memory once: its state is the present one, however many leaves tell of it.
            admitted: dict[MemoryId | None, VerdictLeaf] = {}
            forgotten: list[EndedText] = []
            for index in range(leaf_count, now):
                leaf = read_leaf(view, index)
                if isinstance(leaf, OperatorLeaf) and leaf.action in _WHOLE:
                    return self._whole(view, now)
                verdict = _admitting(view, leaf)
                if verdict is not None:
                    admitted[verdict.memory_id] = verdict
                found = self._forgotten(view, index, leaf)
                if found is None:
                    return self._whole(view, now)
                forgotten.extend(found)
            moved = tuple(
                chain.from_iterable(self._admitted(view, one) for one in admitted.values())
            )
        return UpstreamChanges(leaf_count=now, moved=moved, forgotten=tuple(forgotten))

    def _whole(self, view: View, leaf_count: int) -> UpstreamChanges:
        return UpstreamChanges(
            leaf_count=leaf_count,
            moved=tuple(self._everything(view)),
            whole=True,
            forgotten=tuple(forgotten_texts(view, self._names)),
        )

    def decided(self, candidate_id: CandidateId) -> LastVerdict | None:
        """The newest verdict on a candidate among the last `_LOOKED_BACK_MAX` leaves, or None."""
        with self._store.reading() as view:
            header = view.header()
            now = 0 if header is None else header.leaf_count
            for index in range(now - 1, max(-1, now - 1 - _LOOKED_BACK_MAX), -1):
                leaf = read_leaf(view, index)
                if isinstance(leaf, VerdictLeaf) and leaf.candidate_id == candidate_id:
                    return LastVerdict(verdict=leaf, intercepted=read_interception(view, leaf))
        return None

    def _everything(self, view: View) -> Iterator[UpstreamChange]:
        for key in view.keys(KEYED):
            row = guarded_row(view, self._names, int.from_bytes(key[-_ORDINAL_LEN:], "big"))
            if not row.sent.erased:
                yield _of_row(view, row)

    def _forgotten(self, view: View, index: int, leaf: Leaf) -> Iterable[EndedText] | None:
        """The texts that a deletion or purge erased here and that their server may still have.

        None if a later purge erased the row of this leaf, so that the ordinal is not known.
        """
        if not isinstance(leaf, VerdictLeaf) or leaf.memory_id is None or not view.count(FORGOTTEN):
            return ()
        asked = read_interception(view, leaf)
        if asked.change not in _ENDINGS:
            return ()
        known = read_id(view, self._names.memory(asked.tenant, leaf.memory_id))
        ordinal = NO_ORDINAL if known is None else known.ordinal
        while ordinal != NO_ORDINAL:
            row = read_row(view, ordinal)
            if row.leaf_index == index:
                return forgotten_texts(view, self._names, ordinal)
            ordinal = row.prev_ordinal
        return None

    def _admitted(self, view: View, leaf: VerdictLeaf) -> Iterator[UpstreamChange]:
        """The state of the memory that an admitted change wrote.

        For an admitted deletion: the states of all memories that the deletion may have ended.
        """
        if leaf.memory_id is None:
            # A client chose the memory's id, so the memory is on no upstream server: the sidecar
            # makes the ids of such memories itself.
            return
        tenant = read_interception(view, leaf).tenant
        known = read_id(view, self._names.memory(tenant, leaf.memory_id))
        if known is None:
            return
        row = read_row(view, known.ordinal)
        if row.erased or not row.keyed:
            yield UpstreamChange(name=leaf.memory_id, stands=_OF_STATUS[known.status])
            return
        if row.change is not ChangeKind.DELETE:
            yield _of_row(view, guarded_row(view, self._names, known.ordinal))
            return
        for one in filed_rows(view, self._names, row.keyed):
            yield _of_row(view, one)


def _admitting(view: View, leaf: Leaf) -> VerdictLeaf | None:
    """The verdict that admitted a change, of its own leaf or of that of its result; else None."""
    if isinstance(leaf, ResultLeaf):
        leaf = read_leaf(view, leaf.verdict_index)
    elif isinstance(leaf, VerdictLeaf) and leaf.decision is not Decision.ADMIT:
        return None
    return leaf if isinstance(leaf, VerdictLeaf) else None


def _of_row(view: View, row: GuardedRow) -> UpstreamChange:
    # A deletion's row has no text that a read could show, so its memory counts as gone.
    removal = row.sent.change is ChangeKind.DELETE
    candidate = candidate_of(row.sent)
    call = call_of(candidate)
    stands = ForwardState.GONE if removal else _OF_STATUS[row.status]
    hidden = stands is ForwardState.QUARANTINED
    return UpstreamChange(
        name=row.sent.memory_id,
        stands=stands,
        tenant=row.sent.tenant,
        candidate=candidate,
        key=row.sent.assigned_key or ("" if call is None else call.key),
        source=row.row.source,
        ordinal=row.ordinal,
        rule_ids=convicted_by(view, row.name, row.known) if hidden else (),
    )
