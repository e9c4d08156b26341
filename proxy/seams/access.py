"""The access that a credential gives; the requests open on it end with the credential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from policy.model import Principal, Reads
from proxy.seams.faults import MalformedRequest

NO_FLOOR: Final = (
    "a floor is not kept at a server that ranks, counts and lists its memories itself: what is "
    "below the floor would take the places of what is above, and be counted"
)


class Access:
    """One credential while it is valid: a key, a bound user id, a bound certificate.

    `key_id` is the id of a key; "" for another credential.

    Event loop only, except `stands`, which the writer thread calls inside the transaction that
    would commit.
    """

    __slots__ = ("_ended", "_told", "key_id")

    def __init__(self, key_id: str = "") -> None:
        self.key_id = key_id
        self._ended = False
        # Callbacks of open requests, in a dict, which keeps their order and removes without
        # searching.
        self._told: dict[Callable[[], None], None] = {}

    def stands(self) -> bool:
        """Whether the credential is still valid. Any thread."""
        return not self._ended

    def tell(self, told: Callable[[], None]) -> None:
        """Register `told`, to be called when the credential ends, or at once if it has ended.

        `told` must not raise.
        """
        if self._ended:
            told()
        else:
            self._told[told] = None

    def forget(self, told: Callable[[], None]) -> None:
        """Remove a function that `tell` registered, so that it is not called any more."""
        self._told.pop(told, None)

    def end(self) -> None:
        """End the credential, and call every registered function, which ends its open request."""
        self._ended = True
        told, self._told = self._told, {}
        for one in told:
            one()


# The access of principals without a credential, as the operator's own uid or a command has.
_OWN = Access()


class Authenticated(Principal, frozen=True, kw_only=True, eq=False):
    """A principal with the credential that it came in on. Equality ignores the credential."""

    access: Access

    def __eq__(self, other: object) -> bool:
        """Whether the other is the same principal, whatever the credential of each."""
        return isinstance(other, Principal) and _fields(self) == _fields(other)

    def __ne__(self, other: object) -> bool:
        """The opposite of `__eq__`; a struct's inherited `__ne__` would compare credentials too."""
        return not self == other

    def __hash__(self) -> int:
        """The hash of the principal's fields, which ignores the credential as `__eq__` does."""
        return hash(_fields(self))


def access_of(principal: Principal) -> Access:
    """The access that a principal authenticated with; without a credential, one that never ends."""
    return principal.access if isinstance(principal, Authenticated) else _OWN


def plain(principal: Principal) -> Principal:
    """Return the principal without its access, so that it can be encoded."""
    return Principal(
        principal_id=principal.principal_id,
        tenant=principal.tenant,
        channel=principal.channel,
        claims=principal.claims,
        reads=principal.reads,
        may=principal.may,
    )


def at_least(principal: Principal, reads: Reads) -> Principal:
    """The principal with its own floor for reads or the floor `reads`, whichever is stricter."""
    return replace(principal, reads=max(principal.reads, reads, key=lambda one: one.trust))


def check_no_floor(principal: Principal) -> None:
    """Refuse a principal with a floor for reads at a server that ranks and lists memories itself.

    Raises:
        MalformedRequest: The principal has a floor.
    """
    if principal.reads is not Reads.ALL:
        raise MalformedRequest(f"reads: {NO_FLOOR}", status=403)


def _fields(principal: Principal) -> tuple[object, ...]:
    named = (principal.principal_id, principal.tenant)
    return *named, principal.channel, principal.claims, principal.reads, principal.may
