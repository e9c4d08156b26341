"""The operator API's calls about the sessions of agents."""

from __future__ import annotations

from typing import Final

from proxy.admin.wire.queries import SessionsQuery
from proxy.admin.wire.route import NoQuery, get
from proxy.ledger.wire import SessionList, SessionView

SESSIONS: Final = get(
    "/sessions", SessionsQuery, SessionList, "Sessions of agents, most recently active first."
)
SESSION: Final = get(
    "/sessions/{session}",
    NoQuery,
    SessionView,
    "What entered a session, and what followed from it.",
)
