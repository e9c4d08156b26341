"""Every mutant, by name."""

from __future__ import annotations

from typing import Final

from tests.mutants.after_table import AFTER
from tests.mutants.backend_hiding_table import BACKEND_HIDING
from tests.mutants.backends_table import BACKENDS
from tests.mutants.cases_table import CASES
from tests.mutants.chroma_table import CHROMA
from tests.mutants.compared_table import COMPARED
from tests.mutants.confirm_table import CONFIRM
from tests.mutants.drift_table import DRIFT
from tests.mutants.echo_table import ECHOES
from tests.mutants.edits_table import EDITS
from tests.mutants.endorsed_table import ENDORSED
from tests.mutants.evaluate_table import EVALUATE
from tests.mutants.files_table import FILES
from tests.mutants.guard_table import GUARD
from tests.mutants.heal_table import HEAL
from tests.mutants.index_table import INDEX
from tests.mutants.labels_table import LABELS
from tests.mutants.mcp_table import MCP
from tests.mutants.mem0_answers_table import MEM0_ANSWERS
from tests.mutants.mem0_server_table import MEM0_SERVER
from tests.mutants.model_table import MODEL
from tests.mutants.operate_table import OPERATE
from tests.mutants.own_keys_table import OWN_KEYS
from tests.mutants.pace_table import PACE
from tests.mutants.parole_table import PAROLE
from tests.mutants.passing_table import PASSING
from tests.mutants.policy_table import DECISION
from tests.mutants.proxy_table import PROXY
from tests.mutants.reading_table import READING
from tests.mutants.relay_table import RELAY
from tests.mutants.replay_table import REPLAY
from tests.mutants.replies_table import REPLIES
from tests.mutants.reporting_table import REPORTING
from tests.mutants.session_labels_table import SESSION_LABELS
from tests.mutants.session_table import SESSIONS
from tests.mutants.settle_table import SETTLE
from tests.mutants.storage_table import STORAGE
from tests.mutants.trust_table import TRUST
from tests.mutants.veto_table import VETO
from tests.mutants.walls_table import WALLS
from tests.mutants.withheld_table import WITHHELD

MUTANTS: Final = (
    *DECISION,
    *LABELS,
    *SESSION_LABELS,
    *SESSIONS,
    *ECHOES,
    *STORAGE,
    *INDEX,
    *PROXY,
    *RELAY,
    *READING,
    *SETTLE,
    *OPERATE,
    *MCP,
    *GUARD,
    *MODEL,
    *PASSING,
    *WITHHELD,
    *REPLAY,
    *REPLIES,
    *EVALUATE,
    *VETO,
    *CHROMA,
    *MEM0_SERVER,
    *MEM0_ANSWERS,
    *CONFIRM,
    *EDITS,
    *ENDORSED,
    *PACE,
    *OWN_KEYS,
    *WALLS,
    *TRUST,
    *REPORTING,
    *AFTER,
    *HEAL,
    *CASES,
    *PAROLE,
    *DRIFT,
    *FILES,
    *BACKEND_HIDING,
    *BACKENDS,
    *COMPARED,
)
