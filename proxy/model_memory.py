"""What the model front knows of each agent: the session ledger and withholding, on one log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from policy.model import CandidateId
from policy.verdict import Reason
from proxy.model.coupled import Coupled
from proxy.sessions import Sessions
from proxy.withholding import Withholding
from proxy.withholding_state import Told
from storage.session_log import DIRECTORY, Belonging, open_session_log, prints_key

if TYPE_CHECKING:
    from pathlib import Path

    from policy.model import Memory, PrincipalId, Tenant
    from proxy.model.coupling import Coupling
    from proxy.surroundings import Surroundings
    from storage.embedded import EmbeddedStore
    from storage.session_log import SessionLog


class ModelMemory:
    """One for all model fronts of a store. Event loop only, where nothing else is said."""

    def __init__(self, log: SessionLog, sessions: Sessions, withholding: Withholding) -> None:
        self._log = log
        self.sessions = sessions
        self.withholding = withholding

    @classmethod
    async def opened(cls, store: EmbeddedStore, state: Path, surroundings: Surroundings) -> Self:
        """With what was known before the last stop.

        Raises:
            StoreUnavailable: The ledger's file cannot be opened or made.
        """
        belonging = Belonging(
            store.secrets.store_key,
            store.reader.status().incarnation,
            # Without that directory no model front was ever served here: nothing was lost.
            is_new=not (state / DIRECTORY).exists(),
        )
        scar = Sessions.scar(surroundings.now_ms())
        opened = await asyncio.to_thread(open_session_log, state, belonging, scar)
        key = prints_key(store.secrets.store_key)
        sessions = Sessions(opened.log, key, surroundings)
        withholding = Withholding(key, opened.log, StoreVerdicts(store))
        sessions.restore(opened.records, withholding)
        await asyncio.to_thread(withholding.resolve)
        return cls(opened.log, sessions, withholding)

    async def close(self) -> None:
        """Write what waits, and give the file back."""
        await self.sessions.close()

    def coupled(self, inner: Coupling) -> Coupling:
        """Ledger and withholding around whatever judges calls."""
        return Coupled(inner, self.sessions, self.withholding)

    def recalled(self, principal_id: PrincipalId, memories: tuple[Memory, ...]) -> None:
        """A memory front is about to serve these."""
        if memories:
            self.sessions.recalled(principal_id, memories)
            self.withholding.shown(principal_id, memories)


class StoreVerdicts:
    """What an open store knows of candidates; see `proxy.withholding.Verdicts`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def leaf_count(self) -> int:
        """Moves with every verdict."""
        return self._store.reader.status().leaf_count

    def held(self, tenant: Tenant) -> frozenset[str]:
        """The candidates of a tenant that wait for a person. Any thread."""
        return frozenset(one.candidate_id for one in self._store.reader.held(tenant))

    def decided(self, candidate_id: str) -> Told | None:
        """The last verdict on a candidate; None where there is none. Any thread."""
        found = self._store.followed.decided(CandidateId(candidate_id))
        if found is None:
            return None
        leaf = found.verdict
        reason = leaf.reason or Reason.GATE_UNAVAILABLE
        return Told(leaf.decision.value, reason, leaf.memory_class)
