"""Whether an admission still rests on the same facts, checked at the moment when its call is sent.

Minutes may pass between a verdict and the call, because a host asks its user first. The verdict
stores no copy of its facts: its leaf names trust level and ruleset, and every later change of the
facts has a leaf or a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.labels.forwarded_call import call_of
from policy.model import CandidateId, ChangeKind, ForwardStatus, MemoryStatus, PrincipalId
from policy.trust.score import NEWCOMER, TrustLevel
from policy.verdict import Reason
from storage.audit import OperatorLeaf, ResultLeaf, VerdictLeaf, candidate_of
from storage.features.upstream.upstream_filing import FORWARDS, ForwardRecord
from storage.tables.change import read_leaf, read_verdict
from storage.tables.codec import IdRecord
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.rows import (
    GuardedRow,
    filed_rows,
    held_key,
    read_id,
    read_row,
)
from storage.values import GuardedServer, Row
from storage.write.trust_intake import LATCHED, TRUST, TRUST_OUTCOME, trust_of

LOOKED_BACK_MAX: Final = 8_192
# A relay has the tools of its server recorded just before its first call, so a leaf about tools
# does not count as a change of the facts.
_OF_TOOLS: Final = "tools."


class ForwardSnapshot:
    """One snapshot of the store, in which admitted changes are examined before they are sent."""

    def __init__(self, view: View, names: KeyedNames, waiting: frozenset[CandidateId]) -> None:
        """`waiting` are the other intents that were admitted and not sent yet."""
        self._view = view
        self._names = names
        self._waiting = waiting

    def holds(self, behind: GuardedServer, candidate_ids: tuple[CandidateId, ...]) -> bool:
        """Whether each of these changes is still unsent, and would be judged on the same facts.

        The facts are the trust level, the ruleset, the acts of people and operators, and the other
        changes of the memory under the same key.
        """
        return all(self._one(behind, one, frozenset(candidate_ids)) for one in candidate_ids)

    def _one(
        self, behind: GuardedServer, candidate_id: CandidateId, together: frozenset[CandidateId]
    ) -> bool:
        record = self._record(behind, candidate_id)
        if record is None:
            return False
        row = read_row(self._view, record.ordinal)
        verdict = read_verdict(self._view, record.leaf_index)
        level = self._level(row.principal_id).value
        header = self._view.header()
        epoch = None if header is None else header.epoch
        if (verdict.ruleset_epoch, verdict.trust_level) != (epoch, level):
            return False
        ended = self._since(record)
        if ended is None:
            return False
        return all(self._counted(one, row, ended) for one in self._beside(record, row, together))

    def _record(self, behind: GuardedServer, candidate_id: CandidateId) -> ForwardRecord | None:
        """The record of an intent; None if it was settled, lost, erased or changed since."""
        key = held_key(candidate_id)
        record = None if key is None else self._view.read(FORWARDS, key)
        if record is None:
            return None
        if (record.tenant, record.target) != (behind.tenant, behind.target) or record.unknown:
            return None
        known = read_id(self._view, record.name)
        return record if known == IdRecord(record.ordinal, MemoryStatus.FORWARDING) else None

    def _level(self, principal_id: PrincipalId) -> TrustLevel:
        record = self._view.read(TRUST, self._names.principal(principal_id))
        return (NEWCOMER if record is None else trust_of(record)).level

    def _since(self, record: ForwardRecord) -> dict[CandidateId, ForwardStatus] | None:
        """The calls that ended since the verdict; None if a person or an operator acted since then.

        The leaf of an act does not always name the principal that the act concerns, so each act
        counts for all.
        """
        header = self._view.header()
        now = 0 if header is None else header.leaf_count
        if now - record.leaf_index > LOOKED_BACK_MAX:
            return None
        ended: dict[CandidateId, ForwardStatus] = {}
        for index in range(record.leaf_index + 1, now):
            leaf = read_leaf(self._view, index)
            match leaf:
                case OperatorLeaf() if not _is_nobodys_act(leaf):
                    return None
                case VerdictLeaf(reason=Reason.DENIED_BY_PERSON):
                    return None
                case ResultLeaf():
                    ended[leaf.candidate_id] = leaf.result
                case _:
                    continue
        return ended

    def _beside(
        self, record: ForwardRecord, row: Row, together: frozenset[CandidateId]
    ) -> Iterator[GuardedRow]:
        """The rows of other changes under the same key, which the verdict took into account."""
        call = call_of(candidate_of(row))
        made_new = row.change is ChangeKind.CREATE and (call is None or call.effect is None)
        if made_new or call is None or not call.key:
            return
        for one in filed_rows(self._view, self._names, row.keyed):
            if one.ordinal != record.ordinal and one.sent.candidate_id not in together:
                yield one

    def _counted(self, one: GuardedRow, row: Row, ended: dict[CandidateId, ForwardStatus]) -> bool:
        """Whether another change has the state that the verdict on `row` assumed."""
        waits = one.sent.candidate_id in self._waiting
        if one.sent.version > row.version:
            # The other change was judged later, on the assumption that the change of `row` is done
            # first. If the server did the other change already, the assumption is wrong.
            failed = one.status is MemoryStatus.DELETED and one.sent.change is not ChangeKind.DELETE
            return waits or (failed and one.row is one.sent)
        if waits or one.row.version > row.version:
            # The other change was judged earlier, and is not done yet or was changed here since.
            return False
        how = ended.get(one.sent.candidate_id)
        if one.sent.change is ChangeKind.DELETE:
            return how is not ForwardStatus.DONE
        return how not in {ForwardStatus.FAILED, ForwardStatus.NO_EFFECT}


def _is_nobodys_act(leaf: OperatorLeaf) -> bool:
    """Whether an operator's leaf is about an act that changes no verdict.

    Such acts are the recording of a server's tools, and an outcome that latched no principal.
    """
    if leaf.action == TRUST_OUTCOME:
        return not leaf.detail.endswith(LATCHED)
    return leaf.action.startswith(_OF_TOOLS)
