"""All features of an open store."""

from __future__ import annotations

from typing import Final, TypeVar

from storage.features.cases.wrong_answers import Cases
from storage.features.erasures import Erasures
from storage.features.failures import Failures
from storage.features.incidents.batches import BATCH_LEN, Incidents
from storage.features.kept_places import AdmittedWrites, KeptPlaces
from storage.features.parole import Paroles, Probations
from storage.features.pinned_tools import Pins
from storage.features.quarantine.hiding import ForgetsHands
from storage.features.quarantine.quarantined_memories import QuarantinedMemories
from storage.features.recalls.ledger import RecallLedger
from storage.features.upstream.intents import EndsOvertaken, Forwards
from storage.features.upstream.upstream_filing import UpstreamFiling
from storage.features.upstream.upstream_hiding import UpstreamHiding
from storage.features.upstream.upstream_state import UpstreamState
from storage.write.seam import Feature, StoreAccess

_Reads = TypeVar("_Reads", bound=Feature)

FOLLOWERS: Final = (
    UpstreamFiling(),
    ForgetsHands(),
    EndsOvertaken(),
    Probations(),
    AdmittedWrites(),
)
"""The followers that are called in each transaction of the core, in this order."""


class Features:
    """All features of a store; each has its own reads, and submits the orders of its changes."""

    def __init__(
        self,
        access: StoreAccess,
        recalls: RecallLedger,
        batch_len: int = BATCH_LEN,
    ) -> None:
        self._access = access
        self.quarantined = QuarantinedMemories(access)
        self.forwards = Forwards(access)
        self.followed = UpstreamState(access)
        self.pins = Pins(access)
        self.incidents = Incidents(access, batch_len)
        self.cases = Cases(access)
        self.paroles = Paroles(access)
        self.hidden_behind = UpstreamHiding(access)
        self.failures = Failures(access)
        self.places = KeptPlaces(access)
        self.erasures = Erasures(access)
        self.recalls = recalls

    def of(self, feature: type[_Reads]) -> _Reads:
        """A new instance of a feature that has no state between two reads."""
        return feature(self._access)
