"""How a sidecar serves: the body of `/readyz`, which needs no key, and the state of its servers."""

from __future__ import annotations

import msgspec

from storage.values import STAGED_IN_MEMORY


class Readiness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of `/readyz`: counts and names of tools, and no content.

    Reads work while the process lives; writes only while "ready".
    """

    status: str  # One of "ready" and "degraded".
    reason: str | None
    mode: str  # One of "enforce" and "observe".
    # The names of tools that seem to be about memory, but are in no tool map.
    unmapped_tools: tuple[str, ...] = ()
    # The number of files that newest model requests had between no known marks, so that only orders
    # in them wait.
    unread_places: int = 0
    # Uids of relays that are bound to no principal, so that calls which a model front admitted are
    # judged a second time at the relay.
    unbound_uids: tuple[int, ...] = ()
    # The number of principals that stand for people and whose keys agents use.
    people_with_agents: int = 0
    # The names of incident receivers for which too many steps wait to be sent.
    receivers_behind: tuple[str, ...] = ()
    # The settings and rules that admit more than the shipped ones.
    wider: tuple[str, ...] = ()
    # The number of candidates that wait for a person, and since when the oldest one waits. Neither
    # makes the sidecar degraded.
    held: int = 0
    held_since_ms: int | None = None
    # The kind of storage in which undecided candidates are staged.
    staging: str = STAGED_IN_MEMORY
    # The number of stored values that were changed without the gate; no answer has them.
    mismatched: int = 0


class UpstreamState(msgspec.Struct, kw_only=True):
    """The server of a table; `cause`: why it did not serve when it was asked last, or ""."""

    table: str
    url: str
    cause: str = ""
