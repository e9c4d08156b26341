"""The consequences for memories that caused a wrong answer, within one write transaction.

`policy.after.closure` decides on the consequences; this module reads the stored facts for it and
carries out its acts. The transaction that carries out the acts also reads the facts, so that a
memory which was derived from the wrong one a moment ago is found as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policy.after.closure import (
    BLAST_MAX,
    Act,
    Closure,
    Consequence,
    Fact,
    Relation,
    closure_of,
)
from policy.model import ChangeKind, MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.audit import expiry_at
from storage.features.cases import CaseMemory, ConvictedMemory
from storage.features.incidents.rewind_steps import put_back
from storage.features.quarantine.hiding import hidden_by, log_standing, place
from storage.tables.change import Change, read_interception, read_verdict
from storage.tables.codec import NO_ORDINAL
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import ANCHORS
from storage.tables.rows import (
    children_of,
    is_expired,
    read_id,
    read_row,
    subject_of,
    text_of,
    was_ended,
)
from storage.values import EXPIRE, REWIND, Row

_GONE = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})


class CaseFacts:
    """The facts about accused memories in one view of the store, one tenant, at one time (Unix ms).

    A `CaseFacts` may be used only while its view is open.
    """

    def __init__(self, view: View, names: KeyedNames, tenant: Tenant, now_ms: int) -> None:
        self._view = view
        self._names = names
        self._tenant = tenant
        self._now_ms = now_ms
        self._anchors: frozenset[str] | None = None

    def closure(
        self,
        accused: Sequence[ConvictedMemory],
        *,
        proposes: bool = False,
        blast_max: int = BLAST_MAX,
        before: Sequence[CaseMemory] = (),
    ) -> Closure:
        """The consequences for the accused memories, and for the memories derived from them.

        An accused memory that is deleted, or never existed, is left out. `before` are the memories
        that earlier rounds named: what those hid counts towards `blast_max`.
        """
        hidden = [one.relation for one in before if one.act is not Act.NOTHING]
        facts = (
            self._fact(
                one.memory_id, one.ordinal, outdated=one.outdated, replayed=True, fit=one.fit
            )
            for one in accused
        )
        known = [one for one in facts if one is not None]
        return closure_of(
            known,
            self._children,
            blast_max=blast_max - len(hidden),
            culprits_max=blast_max - hidden.count(Relation.CULPRIT),
            proposes=proposes,
        )

    def named(self, found: Consequence) -> CaseMemory:
        """The entry of a case for one memory: ids and labels, and never content."""
        fact = found.fact
        return named(self._view, read_row(self._view, fact.step), found.relation, found.act)

    def _children(self, parent: Fact) -> Iterator[Fact]:
        seen: set[MemoryId] = set()
        for ordinal, row in children_of(self._view, self._names, self._tenant, parent.memory_id):
            # Memories that were derived before the bad version were derived from an earlier
            # version, so they stay. Memories that were derived after the bad version was mended
            # stay too.
            if ordinal <= parent.step or row.memory_id in seen:
                continue
            if parent.mended is not None and ordinal > parent.mended:
                continue
            seen.add(row.memory_id)
            fact = self._fact(row.memory_id, ordinal)
            if fact is not None:
                yield fact

    def _fact(
        self,
        memory_id: MemoryId,
        step: int,
        *,
        outdated: bool = False,
        replayed: bool = False,
        fit: frozenset[str] | None = None,
    ) -> Fact | None:
        view = self._view
        known = read_id(view, self._names.memory(self._tenant, memory_id))
        if known is None or known.status is MemoryStatus.DELETED:
            return None
        newest = read_row(view, known.ordinal)
        step = known.ordinal if step == NO_ORDINAL else step
        bad = read_row(view, step)
        if bad.erased or newest.erased or bad.memory_id != memory_id:
            return None
        said = text_of(bad)[0]
        return Fact(
            memory_id=memory_id,
            label=bad.source,
            step=step,
            back_to=None if newest.keyed else self._back_to(bad, said, fit),
            # A derived memory keeps what it inherited, even if its text was changed since.
            mended=self._mended(known.ordinal, step) if replayed else None,
            is_anchor=self._is_anchor(said) or self._is_anchor(text_of(newest)[0]),
            outdated=outdated or (replayed and is_expired(newest, self._now_ms)),
        )

    def _mended(self, newest: int, step: int) -> int | None:
        """The ordinal of the first version that mends the bad one (`Fact.mended`); or None."""
        bad = read_row(self._view, step)
        said, since = text_of(bad)[0], None
        if text_of(read_row(self._view, newest))[0] == said:
            return None
        before, ordinal = set[bytes](), bad.prev_ordinal
        while ordinal != NO_ORDINAL:
            row = read_row(self._view, ordinal)
            before.add(row.salt)
            ordinal = row.prev_ordinal
        ordinal, on_top = newest, True
        while ordinal > step:
            row = read_row(self._view, ordinal)
            if row.salt in before:
                # An earlier step back, or a rewind, restored an old version at this point, so the
                # memory was mended.
                return ordinal
            on_top = on_top and row.source.trust > bad.source.trust and text_of(row)[0] != said
            since, ordinal = (ordinal if on_top else since), row.prev_ordinal
        return since

    def _back_to(self, bad: Row, said: str | None, fit: frozenset[str] | None) -> int | None:
        """The ordinal of the newest earlier version that may be shown instead of `bad`, or None."""
        back_to, ordinal = None, bad.prev_ordinal
        while ordinal != NO_ORDINAL:
            row = read_row(self._view, ordinal)
            if row.erased or row.change in _GONE:
                break
            if row.salt == bad.salt:
                # The bad row is a copy of this row, made by an earlier step back or rewind. That
                # step removed the rows between the two from view, and they must not return now.
                back_to = None
            elif back_to is None:
                text = text_of(row)[0]
                back_to = ordinal if text != said and (fit is None or text in fit) else None
            ordinal = row.prev_ordinal
        return back_to

    def _is_anchor(self, said: str | None) -> bool:
        if self._anchors is None:
            known = (anchor for _, anchor in self._view.records(ANCHORS))
            self._anchors = frozenset(
                one.statement.strip() for one in known if one.tenant == self._tenant
            )
        return (said or "").strip() in self._anchors


def enforce(
    change: Change, tenant: Tenant, found: Consequence, hand: str, by: PrincipalId, detail: str
) -> int | None:
    """Carry out one act of a `Closure` on a memory, with a leaf in the log.

    `hand` is the id of the case on whose behalf it is, or names an operator. Returns the leaf's
    index, or None if the memory needed no change.
    """
    fact = found.fact
    name = change.names.memory(tenant, fact.memory_id)
    known = read_id(change.draft, name)
    if known is None or found.act is Act.NOTHING:
        return None
    row = read_row(change.draft, known.ordinal)
    if found.act is Act.QUARANTINE:
        hands = hidden_by(change.draft, name, known)
        if hand in hands:
            return None
        place(change, name, known, row, hands | {hand})
        return log_standing(change, fact.memory_id, row, by, detail, hidden=True)
    expires = found.act is Act.EXPIRE
    if expires and was_ended(change.draft, row):
        # No read shows the memory, so no change is needed. One past an expiry that its writer
        # set gets an expiry all the same, because its id still reads such a memory.
        return None
    earlier = known.ordinal if expires or fact.back_to is None else fact.back_to
    _, row = put_back(
        change,
        by,
        name,
        known,
        earlier=earlier,
        status=known.status,
        expires_at=expiry_at(change.now_ms) if expires else None,
    )
    action = EXPIRE if expires else REWIND
    return change.note(action, subject_of(fact.memory_id, row.candidate_id), by, detail)


def named(view: View, row: Row, relation: Relation, act: Act) -> CaseMemory:
    """The entry of a case for the memory of a row, with origin and trace from the row's leaves."""
    verdict = read_verdict(view, row.leaf_index)
    culprit = verdict.culprit
    return CaseMemory(
        memory=subject_of(row.memory_id, row.candidate_id),
        candidate_id=row.candidate_id,
        relation=relation,
        act=act,
        memory_class=row.memory_class,
        source=row.source,
        basis=row.basis,
        leaf_index=row.leaf_index,
        server="" if culprit is None else culprit.server,
        tool="" if culprit is None else culprit.tool,
        call_id="" if culprit is None else culprit.call_id,
        trace_id=read_interception(view, verdict).trace_id,
    )
