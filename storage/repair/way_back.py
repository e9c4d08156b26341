"""Implements `Paroles` on the embedded engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy.after.closure import Act
from policy.model import MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.audit import InterceptedLeaf, VerdictLeaf
from storage.cases import Case
from storage.errors import StoreCorrupt, UnknownMemory
from storage.paroles import Hidden, OnProbation
from storage.tables.change import read_leaf
from storage.tables.codec import NO_ORDINAL, IdRecord, decode_case, decode_parole
from storage.tables.lmdb_store import CASES, PAROLES, View
from storage.tables.rows import chain, is_expired, memory_of, read_id, read_row
from storage.values import Row, Standing
from storage.write.engine import Engine
from storage.write.hands import hidden_by
from storage.write.paroling import Paroling, parole_record
from storage.write.quarantine import subject_of
from storage.write.writer import EmbeddedWriter

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED})


class EmbeddedParoles:
    """Looks at hidden memories on the caller's thread, and has the writer show them again."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._store = engine.parts.store
        self._names = engine.parts.names
        self._clock = engine.parts.clock
        self._writer = writer
        self._paroling = Paroling(engine)

    def hidden(self, tenant: Tenant, memory_id: MemoryId) -> Hidden | None:
        """A memory with what its trial needs; None if reads show it."""
        name = self._names.memory(tenant, memory_id)
        with self._store.reading() as view:
            known = read_id(view, name)
            if known is None or known.status not in _STANDING:
                raise UnknownMemory("there is no such memory")
            rows = chain(view, known.ordinal)
            cases = _naming(view, tenant, rows)
            back = _outlived(known, rows, cases)
            by = hidden_by(view, name, known)
            if back == known.ordinal and not by:
                return None
            row = read_row(view, back)
            return Hidden(
                memory=memory_of(row, known.status, ordinal=back),
                newest=known.ordinal,
                by=by,
                record=parole_record(view, name),
                cases=cases,
                outlived=back != known.ordinal,
                expired=is_expired(row, self._clock()),
                structural=any(_verdict(view, one).structural for one in rows),
                claimed_more=any(_claims_more(view, one) for one in rows),
                writers=_writers(rows),
            )

    async def grant(self, hidden: Hidden, said: str, by: PrincipalId) -> Standing:
        """Show a memory again, one class lower and on probation."""
        return await self._writer.run(lambda: self._paroling.grant(hidden, said, by))

    async def refuse(self, hidden: Hidden, said: str, by: PrincipalId) -> Standing:
        """Record that a memory did not pass its trial."""
        return await self._writer.run(lambda: self._paroling.refuse(hidden, said, by))

    def on_probation(self, tenant: Tenant | None = None) -> tuple[OnProbation, ...]:
        """The memories whose probation was not ended, of one tenant or of all."""
        found: list[OnProbation] = []
        with self._store.reading() as view:
            for name, payload in view.scan(PAROLES):
                record = decode_parole(payload)
                known = read_id(view, name) if record.until_ms else None
                if known is None or known.status is not MemoryStatus.LIVE:
                    continue
                row = read_row(view, known.ordinal)
                if tenant in {None, row.tenant}:
                    found.append(
                        OnProbation(
                            tenant=row.tenant,
                            memory_id=row.memory_id,
                            since_ms=record.since_ms,
                            until_ms=record.until_ms,
                            writers=_writers(chain(view, known.ordinal)),
                        )
                    )
        return tuple(found)

    async def end(self, ended: Sequence[OnProbation]) -> None:
        """End these probations."""
        await self._writer.run(lambda: self._paroling.end(ended))


def _naming(view: View, tenant: Tenant, rows: Sequence[Row]) -> tuple[Case, ...]:
    """The wrong answers that name a memory, given by all of its rows, as one to act on."""
    subjects = {subject_of(one.memory_id, one.candidate_id) for one in rows}
    named = [
        case
        for case in (decode_case(payload) for _, payload in view.scan(CASES))
        if case.tenant == tenant and any(one.memory in subjects for one in case.culprits)
    ]
    return tuple(sorted(named, key=lambda one: (one.opened_at_ms, one.case_id)))


def _outlived(known: IdRecord, rows: Sequence[Row], cases: Sequence[Case]) -> int:
    """The ordinal of the version that a parole shows: before an incident let the memory expire."""
    newest = rows[-1]
    subjects = {subject_of(one.memory_id, one.candidate_id) for one in rows}
    expired = any(
        one.memory in subjects and one.act is Act.EXPIRE for case in cases for one in case.culprits
    )
    if not expired or newest.prev_ordinal == NO_ORDINAL:
        return known.ordinal
    before = rows[-2]
    # What an incident lets expire is a copy of the row before, which differs in the expiry alone.
    is_copy = before.salt == newest.salt and before.expires_at != newest.expires_at
    return newest.prev_ordinal if is_copy else known.ordinal


def _writers(rows: Sequence[Row]) -> frozenset[PrincipalId]:
    return frozenset(one.principal_id for one in rows)


def _verdict(view: View, row: Row) -> VerdictLeaf:
    leaf = read_leaf(view, row.leaf_index)
    if not isinstance(leaf, VerdictLeaf):
        raise StoreCorrupt(f"leaf {row.leaf_index} is no verdict")
    return leaf


def _claims_more(view: View, row: Row) -> bool:
    """Whether the client of one step claimed a more trusted source than the gate found."""
    seen = read_leaf(view, _verdict(view, row).intercepted_index)
    if not isinstance(seen, InterceptedLeaf):
        raise StoreCorrupt("a verdict's leaf names no interception")
    claimed = seen.claimed_source
    # The row's label counts, because a person may have vouched for the text since.
    return claimed is not None and claimed.trust > row.source.trust
