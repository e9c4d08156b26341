"""Every named mutant: one for each wall of the threat model, and for each promise."""

from __future__ import annotations

from typing import Final

from tests.mutants.decision_table import DECISION
from tests.mutants.identity_table import IDENTITY
from tests.mutants.mcp_table import MCP
from tests.mutants.model_table import MODEL
from tests.mutants.places_table import PLACES
from tests.mutants.servers_table import SERVERS
from tests.mutants.store_table import STORE
from tests.mutants.traces_table import TRACES
from tests.mutants.writes_table import WRITES

MUTANTS: Final = (
    *DECISION,
    *WRITES,
    *TRACES,
    *IDENTITY,
    *MCP,
    *SERVERS,
    *MODEL,
    *PLACES,
    *STORE,
)
