"""Failures: reports by a person or a rule that an answer was wrong. They have no content."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from policy.after.matchers import Grade, SignalKind
from policy.model import PrincipalId, Tenant
from storage.tables.change import Change
from storage.tables.lmdb_store import View
from storage.tables.names import RecordTable
from storage.tables.rows import id_key
from storage.write.seam import Feature

FAILURES_MAX: Final = 10_000
"""How many failures the store keeps, of all tenants together; the oldest are deleted first."""


class Failure(
    msgspec.Struct, frozen=True, kw_only=True, rename={"grade": "verdict", "case_id": "incident"}
):
    """One report about one answer. `at_ms`: Unix milliseconds.

    `failure_id`: 20 hex digits; the first 12 are the time, so that ids sort by time. `case_id` is
    the case that the report opened or joined; "" if there was none. No field contains the words
    that the answer should, or should not, have had.
    """

    failure_id: str
    kind: SignalKind
    grade: Grade
    tenant: Tenant
    by: PrincipalId
    at_ms: int
    reply_id: str = ""
    recall_id: str = ""
    memory_id: str = ""
    rule_id: str = ""
    judge: str = ""
    case_id: str = ""


FAILURES: Final = RecordTable(b"failures", Failure)
_DAY_MS: Final = 86_400_000
_TIME_BYTES: Final = 6
_ID_LEN: Final = 10


class RecordFailure(msgspec.Struct, frozen=True):
    """An order to the writer: store a failure. The log gets no leaf.

    The failure is not stored if its principal reported `of_principal_max` failures in its tenant
    in the last 24 hours.
    """

    failure: Failure
    of_principal_max: int | None

    def is_too_many(self, view: View) -> bool:
        """Whether the principal has already reported as many failures as it may."""
        if self.of_principal_max is None:
            return False
        failure = self.failure
        since = max(0, failure.at_ms - _DAY_MS).to_bytes(_TIME_BYTES, "big")
        said_by = (failure.tenant, failure.by)
        found = (one for _, one in view.records(FAILURES, since))
        return sum((one.tenant, one.by) == said_by for one in found) >= self.of_principal_max

    def carry_out(self, change: Change) -> bool:
        """Store the failure and delete the oldest above `FAILURES_MAX`; True if it was stored."""
        if self.is_too_many(change.draft):
            return False
        change.draft.write(FAILURES, bytes.fromhex(self.failure.failure_id), self.failure)
        excess = change.draft.count(FAILURES) - FAILURES_MAX
        if excess > 0:
            for key in list(itertools.islice(change.draft.keys(FAILURES), excess)):
                change.draft.delete(FAILURES, key)
        return True


class JoinCase(msgspec.Struct, frozen=True):
    """An order to the writer: note the case to which a stored failure led."""

    failure_id: str
    case_id: str

    def carry_out(self, change: Change) -> None:
        """Note the case, unless the failure was deleted meanwhile."""
        key = bytes.fromhex(self.failure_id)
        failure = change.draft.read(FAILURES, key)
        if failure is not None:
            joined = msgspec.structs.replace(failure, case_id=self.case_id)
            change.draft.write(FAILURES, key, joined)


class Failures(Feature):
    """The failures that a store keeps. Reads run on any thread; each may read files."""

    async def record(self, failure: Failure, *, of_principal_max: int | None) -> bool:
        """Store a failure durably; return whether it was stored (`RecordFailure`).

        Raises:
            StorageError: Nothing was stored.
        """
        order = RecordFailure(failure, of_principal_max)
        # A failure over the limit is refused before it reaches the writer, so it costs no flush.
        with self._store.reading() as view:
            if order.is_too_many(view):
                return False
        return await self.order(order)

    def get(self, failure_id: str) -> Failure | None:
        """The failure with this id, or None."""
        key = id_key(failure_id, _ID_LEN)
        if key is None:
            return None
        with self._store.reading() as view:
            return view.read(FAILURES, key)

    def newest(self, tenant: Tenant, limit: int) -> tuple[Failure, ...]:
        """The newest failures of a tenant, at most `limit`, newest first."""
        with self._store.reading() as view:
            found = [one for _, one in view.records(FAILURES, sound_only=True)]
        of_tenant = [one for one in reversed(found) if one.tenant == tenant]
        return tuple(of_tenant[:limit])
