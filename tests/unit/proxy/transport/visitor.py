"""One request, as the authenticator sees it."""

from __future__ import annotations

from proxy.seams.access import Access
from proxy.transport.auth import Peer


class Visitor:
    """A peer, and what its request was let in on."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.accesses: list[Access] = []

    def stands_on(self, access: Access) -> None:
        self.accesses.append(access)

    @property
    def welcome(self) -> bool:
        return all(one.stands() for one in self.accesses)
