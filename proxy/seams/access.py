"""What a credential lets in, and what is open on it: both end with the credential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable


class Access:
    """One credential for as long as it is good: a key, a bound user id, a bound certificate.

    Event loop only, but for `stands`: the writer asks it inside the transaction that would commit.
    """

    __slots__ = ("_ended", "_told")

    def __init__(self) -> None:
        self._ended = False
        # What is open on it. A dict keeps the order, and forgets without searching.
        self._told: dict[Callable[[], None], None] = {}

    def stands(self) -> bool:
        """Whether it still lets in what came in on it. Any thread."""
        return not self._ended

    def tell(self, told: Callable[[], None]) -> None:
        """Call `told` when it ends, at once if it did; it must not raise."""
        if self._ended:
            told()
        else:
            self._told[told] = None

    def forget(self, told: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._told.pop(told, None)

    def end(self) -> None:
        """End all that is open on it, now."""
        self._ended = True
        told, self._told = self._told, {}
        for one in told:
            one()


# Of principals that no credential names: the operator's own uid, a command, the evaluation.
_OWN = Access()


class Authenticated(Principal, frozen=True, kw_only=True, eq=False):
    """A principal, and the credential that it came in on. It equals the same principal's others."""

    access: Access

    def __eq__(self, other: object) -> bool:
        """Whether it is the same principal, by any credential."""
        return isinstance(other, Principal) and _fields(self) == _fields(other)

    def __ne__(self, other: object) -> bool:
        """The opposite: a struct has its own."""
        return not self == other

    def __hash__(self) -> int:
        """As equality has it."""
        return hash(_fields(self))


def access_of(principal: Principal) -> Access:
    """What a principal came in on; for one of our own, an access that never ends."""
    return principal.access if isinstance(principal, Authenticated) else _OWN


def plain(principal: Principal) -> Principal:
    """The same principal without what it came in on: for what is encoded."""
    return Principal(
        principal_id=principal.principal_id,
        tenant=principal.tenant,
        channel=principal.channel,
        claims=principal.claims,
    )


def _fields(principal: Principal) -> tuple[object, ...]:
    return principal.principal_id, principal.tenant, principal.channel, principal.claims
