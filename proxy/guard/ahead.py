"""Calls that a model front has admitted, until a relay takes them over or they end.

A model front judges a call when the model makes it; the same call may then reach a relay, at once
or after a person allowed it. The relay takes over the admission, so that the call is not judged a
second time. The table is in memory only: after a restart a relay has the call judged anew, and the
first intent is looked up like any other whose answer was lost.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from policy.bounded import Bounded
from policy.model import CandidateId, Principal, Tenant
from proxy.dialects.model.memory_tools import folded
from proxy.seams.guard import CallIdentity, GuardedCall, ItemVerdict

TAKEN_WITHIN_S: Final = 3_600.0
"""Seconds that an admitted call may take to reach its relay."""
OPEN_MAX: Final = 1_024
"""The most admitted calls of one principal whose end is not reported yet."""
SERVERS_MAX: Final = 4_096

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class AdmittedAhead(msgspec.Struct, kw_only=True):
    """One call that a model front admitted."""

    principal: Principal
    server: str
    call_id: str
    # What identifies the call: server, tool, and each item's arguments, canonical (RFC 8785).
    content: bytes
    # What identifies the call for a hook of the agent's host.
    digest: str
    # Whether a hook has joined a call without an id to this one.
    joined: bool
    judged: tuple[ItemVerdict, ...]
    candidate_ids: tuple[CandidateId, ...]
    until_s: float
    # True once `until_s` is over: no relay may take over the admission any more, and the call's
    # outcome is recorded as unknown.
    late: bool = False


class Ahead:
    """The table of admitted calls, and of the names that relays use for their servers.

    Event loop only.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        # Maps each principal to its admitted calls, keyed by call id; the oldest first.
        self._open: dict[Principal, OrderedDict[str, AdmittedAhead]] = {}
        self._servers = Bounded[tuple[Principal, str], str](SERVERS_MAX)

    def named(self, principal: Principal, server: str) -> None:
        """Note the name by which a relay of this principal calls a server."""
        self._servers[principal, folded(server)] = server

    def server_of(self, principal: Principal, host_name: str) -> str | None:
        """The name under which this principal's relays know a server; None if no relay serves it.

        `host_name` is the name that the agent's host gives to the server.
        """
        return self._servers.get((principal, folded(host_name))) if host_name else None

    def add(
        self,
        principal: Principal,
        made: CallIdentity,
        call: GuardedCall,
        judged: tuple[ItemVerdict, ...],
    ) -> AdmittedAhead | None:
        """Store an admitted call; return the call that it displaces, or None.

        It displaces the call of the same id, or the oldest of `OPEN_MAX` calls.
        """
        mine = self._open.setdefault(principal, OrderedDict())
        call_id = made.call_id
        before = mine.pop(call_id, None)
        if before is None and len(mine) >= OPEN_MAX:
            _, before = mine.popitem(last=False)
        mine[call_id] = AdmittedAhead(
            principal=principal,
            server=call.server,
            call_id=call_id,
            content=_content(call),
            digest=made.digest,
            joined=made.unnamed,
            judged=judged,
            candidate_ids=tuple(one.candidate_id for one in judged if one.candidate_id is not None),
            until_s=self._monotonic_s() + TAKEN_WITHIN_S,
        )
        return before

    def find(self, principal: Principal, call: GuardedCall) -> AdmittedAhead | None:
        """The oldest admission of a call with the same content and principal; None if none is.

        If `call` has an id, the id must be the same too.
        """
        mine = self._open.get(principal)
        if not mine:
            return None
        ids = {call.join.tool_use_id, call.join.call_id} - {None}
        content = _content(call)
        for call_id, one in mine.items():
            if one.content == content and not one.late and (not ids or call_id in ids):
                return one
        return None

    def joined(self, principal: Principal, made: CallIdentity) -> bool:
        """Whether a call that a hook reports is an admitted one that no relay has taken over.

        A call without an id is joined by its digest to the oldest such call that has none yet.
        """
        for call_id, one in self._open.get(principal, OrderedDict()).items():
            fits = not one.joined if made.unnamed else call_id == made.call_id
            if fits and one.digest == made.digest and not one.late:
                one.joined |= made.unnamed
                return True
        return False

    def call_ids(self, principal: Principal) -> frozenset[str]:
        """The ids of this principal's calls whose results are awaited."""
        return frozenset(self._open.get(principal, ()))

    def get(self, principal: Principal, call_id: str) -> AdmittedAhead | None:
        """The admitted call of this id; None if it is unknown or a relay has taken it over."""
        mine = self._open.get(principal)
        return None if mine is None else mine.get(call_id)

    def take(self, one: AdmittedAhead) -> bool:
        """Remove the call; return whether it was still in the table.

        The one caller that gets True has to settle the call's items.
        """
        mine = self._open.get(one.principal)
        if mine is None or mine.get(one.call_id) is not one:
            return False
        del mine[one.call_id]
        return True

    def keep(self, one: AdmittedAhead) -> None:
        """Put back a call whose outcome could not be recorded.

        Its outcome may be recorded later, but no relay can take it over any more.
        """
        one.late = True
        self._open.setdefault(one.principal, OrderedDict()).setdefault(one.call_id, one)

    def waiting(self, tenant: Tenant, server: str) -> frozenset[CandidateId]:
        """The candidates of a server's admitted calls that no relay has taken over yet."""
        return frozenset(
            candidate_id
            for principal, mine in self._open.items()
            if principal.tenant == tenant
            for one in mine.values()
            if one.server == server and not one.late
            for candidate_id in one.candidate_ids
        )

    def overdue(self) -> tuple[AdmittedAhead, ...]:
        """Mark calls as late that no relay took over in time; return those newly marked."""
        now_s = self._monotonic_s()
        found: list[AdmittedAhead] = []
        for mine in self._open.values():
            for one in mine.values():
                if one.until_s > now_s:
                    # The calls are sorted by time, so all further ones are not overdue either.
                    break
                if not one.late:
                    one.late = True
                    found.append(one)
        return tuple(found)


def _content(call: GuardedCall) -> bytes:
    return hashlib.sha256(_ENCODER.encode((call.server, call.tool, call.items))).digest()
