"""Decides which connection of a full listener is closed, and which requests are answered.

A connection without a credential costs a peer nothing, so such connections may never block one with
a credential, nor the first request of a new peer. A principal may use all free places, except
those that the next principal needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec

from proxy.seams.faults import Busy
from proxy.transport.auth import Peer

STRANGERS_SHARE: Final = 8
"""For each so many connections with a credential, there is one place for one without."""
BURST: Final = 4
"""One principal may have in flight at most this many times the places that are still free."""


class Guest(Protocol):
    """One connection, as the crowd (all connections of a listener) uses it."""

    @property
    def peer(self) -> Peer:
        """The peer at the other end of the connection."""
        ...

    @property
    def waits(self) -> bool:
        """Whether the connection waits for its peer, to send bytes or to read an answer."""
        ...

    @property
    def idle(self) -> bool:
        """Whether the peer has not begun to send a request."""
        ...

    @property
    def unread_bytes(self) -> int:
        """The number of bytes of answers that the peer has not read."""
        ...

    def end(self) -> None:
        """Close the connection after the bytes that are already written were sent."""
        ...

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are lost."""
        ...

    async def shutdown(self, drain_s: float) -> None:
        """Let the current answer finish within this time, then close."""
        ...


class Crowd:
    """The connections of one listener. Event loop only.

    There are `connections_max` places for connections with a credential, and an eighth as many for
    those without. When all are taken, a new connection replaces the oldest waiting one without a
    credential, of the address with the most of them. When the places with a credential are taken, a
    recognised connection replaces one of the principal with the most: an idle one if there is one,
    else one that waits for its peer.
    """

    def __init__(self, connections_max: int) -> None:
        """`connections_max` is the number of connections with a credential."""
        self._known_max = connections_max
        self._all_max = connections_max + max(1, connections_max // STRANGERS_SHARE)
        self._known_count = 0
        # Connections, oldest first: `_strangers`, without a credential, are grouped by address, and
        # `_known`, with a credential, by principal.
        self._strangers: dict[str, dict[Guest, None]] = {}
        self._known: dict[str, dict[Guest, None]] = {}
        self._groups: dict[Guest, tuple[bool, str]] = {}

    def __iter__(self) -> Iterator[Guest]:
        """Iterate over all connections."""
        return iter(tuple(self._groups))

    def __len__(self) -> int:
        """The number of connections."""
        return len(self._groups)

    def unread_of(self, principal: str | None) -> int:
        """The number of bytes of answers that the peers of this principal have not read."""
        return sum(one.unread_bytes for one in self._known.get(principal or "", ()))

    def enter(self, guest: Guest) -> bool:
        """Count a new connection without a credential; return False if no place can be freed."""
        if len(self._groups) >= self._all_max:
            leaving = _first(self._strangers, lambda one: one.waits)
            if leaving is None:
                return False
            self.leave(leaving)
            leaving.abort()
        self._put(guest, known=False, group=guest.peer.address)
        return True

    def recognise(self, guest: Guest, principal: str) -> None:
        """Count a connection for this principal, whose credential was checked.

        Raises:
            Busy: All places with a credential are taken, and none of the connections waits.
        """
        group = self._groups.get(guest)
        if group is None or group == (True, principal):
            return
        self.leave(guest)
        if self._known_count >= self._known_max:
            leaving = _first(self._known, lambda one: one.idle, lambda one: one.waits)
            if leaving is None:
                self._put(guest, known=group[0], group=group[1])
                raise Busy
            self.leave(leaving)
            leaving.end()
        self._put(guest, known=True, group=principal)

    def leave(self, guest: Guest) -> None:
        """Free the place of a connection that has ended."""
        group = self._groups.pop(guest, None)
        if group is None:
            return
        known, name = group
        groups = self._known if known else self._strangers
        self._known_count -= known
        del groups[name][guest]
        if not groups[name]:
            del groups[name]

    def _put(self, guest: Guest, *, known: bool, group: str) -> None:
        groups = self._known if known else self._strangers
        groups.setdefault(group, {})[guest] = None
        self._groups[guest] = (known, group)
        self._known_count += known


def _first(groups: dict[str, dict[Guest, None]], *may_go: Callable[[Guest], bool]) -> Guest | None:
    """The oldest connection that may be closed, of the largest group that has one.

    Within a group the conditions are tried in order; the first that a connection meets decides.
    """
    for group in sorted(groups.values(), key=len, reverse=True):
        for fits in may_go:
            for guest in group:
                if fits(guest):
                    return guest
    return None


class Turns:
    """Counts of the requests that are being answered, keyed by principal. Event loop only.

    One principal may have `BURST` times as many requests as places are still free: alone it gets
    most places, and beside others it leaves places free (dynamic thresholds, Choudhury and Hahne
    1998). Requests without a credential have their own places, so that a health probe never waits.
    """

    def __init__(self, requests_max: int) -> None:
        """`requests_max` counts the requests of all principals together."""
        self._most = requests_max
        self._known = 0
        self._strangers = 0
        self._of: dict[str, int] = {}

    def begin(self, principal: str | None) -> None:
        """Count one more request of a principal; None: of a peer without a credential.

        Raises:
            Busy: There is no place for the request.
        """
        if principal is None:
            if self._strangers >= self._most:
                raise Busy
            self._strangers += 1
            return
        own = self._of.get(principal, 0)
        if own >= BURST * (self._most - self._known):
            raise Busy
        self._of[principal] = own + 1
        self._known += 1

    def finish(self, principal: str | None) -> None:
        """Stop counting a request, which was answered."""
        if principal is None:
            self._strangers -= 1
            return
        self._known -= 1
        self._of[principal] -= 1
        if not self._of[principal]:
            del self._of[principal]


class RequestTurn(msgspec.Struct, eq=False):
    """One request's place in `Turns`, from when the request is `whole` until it is answered."""

    _turns: Turns
    _principal: str | None = None
    _counts: bool = False

    def whole(self) -> None:
        """Count the request, which has arrived completely now.

        Raises:
            Busy: There is no place for the request.
        """
        if not self._counts:
            self._turns.begin(self._principal)
            self._counts = True

    def enter(self, principal: str) -> None:
        """Count the request for this principal, whose credential was checked.

        Raises:
            Busy: There is no place for one more request of this principal.
        """
        if not self._counts:
            self._principal = principal
            return
        self.end()
        self._principal = principal
        self.whole()

    def end(self) -> None:
        """Free the place of a request that was answered."""
        if self._counts:
            self._turns.finish(self._principal)
            self._counts = False
