"""The table of failures, in order of time. Writes happen on the writer's thread."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from policy.model import Tenant
from storage.failures import FAILURES_MAX, Failure
from storage.tables.change import Change
from storage.tables.codec import decode_failure, encode
from storage.tables.lmdb_store import FAILURES
from storage.write.engine import Engine
from storage.write.writer import EmbeddedWriter

_DAY_MS: Final = 86_400_000
_TIME_BYTES: Final = 6
_ID_LEN: Final = 10


class EmbeddedFailures:
    """Implements `Failures` (reports of wrong answers) on the embedded engine."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._engine = engine
        self._writer = writer

    async def record(self, failure: Failure, *, of_principal_max: int | None) -> bool:
        """Store a failure, unless its principal reported too many in a day (`Failures.record`)."""

        def work(change: Change) -> None:
            change.draft.put(FAILURES, _key(failure.failure_id), encode(failure))
            excess = change.draft.count(FAILURES) - FAILURES_MAX
            if excess > 0:
                for key in list(itertools.islice(change.draft.keys(FAILURES), excess)):
                    change.draft.delete(FAILURES, key)

        def recorded() -> bool:
            # Failures are counted before a transaction begins: one that is refused costs no flush.
            # Only this thread writes, so none is stored in between.
            if of_principal_max is not None and self._of_day(failure) >= of_principal_max:
                return False
            self._engine.transact(work)
            return True

        return await self._writer.run(recorded)

    def _of_day(self, failure: Failure) -> int:
        since = max(0, failure.at_ms - _DAY_MS).to_bytes(_TIME_BYTES, "big")
        with self._engine.parts.store.reading() as view:
            found = (decode_failure(payload) for _, payload in view.scan(FAILURES, since))
            said_by = (failure.tenant, failure.by)
            return sum((one.tenant, one.by) == said_by for one in found)

    async def join(self, failure_id: str, case_id: str) -> None:
        """Note the case to which a stored failure led."""

        def work(change: Change) -> None:
            payload = change.draft.get(FAILURES, _key(failure_id))
            if payload is not None:
                joined = msgspec.structs.replace(decode_failure(payload), case_id=case_id)
                change.draft.put(FAILURES, _key(failure_id), encode(joined))

        await self._writer.run(lambda: self._engine.transact(work))

    def get(self, failure_id: str) -> Failure | None:
        """One failure; None for an unknown or malformed id."""
        key = _key(failure_id)
        if len(key) != _ID_LEN:
            return None
        with self._engine.parts.store.reading() as view:
            payload = view.get(FAILURES, key)
        return None if payload is None else decode_failure(payload)

    def newest(self, tenant: Tenant, limit: int) -> tuple[Failure, ...]:
        """Failures of a tenant, newest first."""
        with self._engine.parts.store.reading() as view:
            found = [decode_failure(payload) for _, payload in view.scan(FAILURES)]
        of_tenant = [one for one in reversed(found) if one.tenant == tenant]
        return tuple(of_tenant[:limit])


def _key(failure_id: str) -> bytes:
    try:
        return bytes.fromhex(failure_id)
    except ValueError:
        return b""
