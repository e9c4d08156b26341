"""The first answer to a request: for its retries, and for finding out whether a commit failed."""

from __future__ import annotations

import msgspec

from policy.model import ChangeKind, MemoryStatus, PrincipalId
from storage.tables.codec import NO_ORDINAL, FirstOutcome
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import NONCES, View
from storage.tables.rows import is_expired, memory_of, read_id, read_row
from storage.values import Outcome
from storage.write.candidate_case import ArrivedCandidate, outcome_of
from storage.write.trust_intake import TrustIntake


class FirstOutcomes:
    """Reads the records of spent nonces. Any thread."""

    def __init__(self, names: KeyedNames, intake: TrustIntake) -> None:
        self._names = names
        self._intake = intake

    def replayed(
        self, view: View, first: FirstOutcome, principal_id: PrincipalId, now_ms: int = 0
    ) -> Outcome:
        """The first verdict of an equal request, given again, with the memory as it was then."""
        outcome = outcome_of(first, self._intake.trust(view, principal_id), replayed=True)
        if first.ordinal == NO_ORDINAL:
            return outcome
        row = read_row(view, first.ordinal)
        if row.erased or row.change is ChangeKind.DELETE:
            return outcome
        known = read_id(view, self._names.memory(row.tenant, row.memory_id))
        if known is None or known.status is not MemoryStatus.LIVE or is_expired(row, now_ms):
            # The memory of that verdict is not returned if it was deleted, quarantined or expired
            # since: for the agent it does not exist any more.
            return outcome
        return msgspec.structs.replace(
            outcome, memory=memory_of(row, known.status, ordinal=first.ordinal)
        )

    @staticmethod
    def recorded(view: View, arrived: ArrivedCandidate) -> FirstOutcome | None:
        """The store's record of this very request; None if the request was never committed."""
        record = view.read(NONCES, arrived.nonce_key)
        return None if record is None or record.binding != arrived.binding else record.outcome
