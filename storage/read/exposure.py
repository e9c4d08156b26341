"""How much of one search one origin may fill: a cap that reorders, and hides nothing by itself.

However many texts an origin gets in, a reader is shown a few of them beside what others say. Hits
over the cap go to the end, into places that no other hit can fill. The cap is hard for a latched
origin: its hits over the cap are not shown at all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy as np
    from numpy.typing import NDArray

    from policy.model import Hit, PrincipalId, Tenant

EXAMINED_MIN: Final = 200
"""At least so many of the nearest memories compete for the places of a search."""
NEAR_COPY: Final = 0.9
"""The cosine from which on two texts of low trust count as one, whoever brought them."""


class Origin(msgspec.Struct, frozen=True):
    """The origin of a memory of low trust, as the cap counts it.

    `group` is server, tool and session; without a server the session; without a session the
    principal. How many of its memories are shown depends on the trust in the principal, and in
    server and tool where they are known.
    """

    group: Hashable
    tenant: Tenant
    principal_id: PrincipalId
    server: str = ""
    tool: str = ""
    # Whether the memory came back after a trial and is watched: all of these are one group.
    on_probation: bool = False


class Placing(msgspec.Struct, frozen=True):
    """One memory that competes for a place in a search's result.

    `origin` is None if the memory's label is `user_input` or above.
    """

    hit: Hit
    origin: Origin | None = None
    vector: NDArray[np.float32] | None = None


class Exposure:
    """The places in the result of one search; they are filled best first."""

    def __init__(
        self,
        limit: int,
        shown_of_ten: int,
        restricted_of_ten: int,
        is_restricted: Callable[[Origin], bool],
    ) -> None:
        """`is_restricted` tells whether an origin is latched or on probation."""
        self._limit = limit
        self._is_restricted = is_restricted
        self._shown = places(limit, shown_of_ten)
        self._restricted = places(limit, restricted_of_ten)
        self._hits: list[Hit] = []
        self._counts: Counter[Hashable] = Counter()
        self._copies: list[tuple[NDArray[np.float32], Hashable]] = []

    @property
    def full(self) -> bool:
        """Whether every place is taken."""
        return len(self._hits) >= self._limit

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits to be shown, in their order."""
        return tuple(self._hits)

    def is_over(self, origin: Origin | None) -> bool:
        """Whether the origin has used up its share, so that the memory need not be read."""
        return origin is not None and self._counts[origin.group] >= self._share(origin)

    def place(self, one: Placing) -> bool:
        """Give the memory a place, or leave it for the end; returns whether it got a place."""
        copied = self._copied(one)
        keys = _keys(one, copied)
        if one.origin is not None and self._is_over(keys, one.origin):
            return False
        self._take(one, keys, copied)
        return True

    def fill(self, one: Placing) -> None:
        """Give a place that is left to a memory that was over a cap, unless its cap is hard."""
        copied = self._copied(one)
        keys = _keys(one, copied)
        hard = one.origin is not None and self._is_restricted(one.origin)
        if not (hard and one.origin is not None and self._is_over(keys, one.origin)):
            self._take(one, keys, copied)

    def _share(self, origin: Origin) -> int:
        return self._restricted if self._is_restricted(origin) else self._shown

    def _is_over(self, keys: list[Hashable], origin: Origin) -> bool:
        return any(self._counts[key] >= self._share(origin) for key in keys)

    def _take(self, one: Placing, keys: list[Hashable], copied: Hashable) -> None:
        self._hits.append(one.hit)
        self._counts.update(keys)
        if one.origin is not None and one.vector is not None:
            self._copies.append((one.vector, copied))

    def _copied(self, one: Placing) -> Hashable:
        """The group of near copies that the memory belongs to.

        A memory that is near no other gets a new group.
        """
        if one.vector is not None:
            for vector, copied in self._copies:
                if float(vector @ one.vector) >= NEAR_COPY:
                    return copied
        return ("copy", len(self._hits))


def places(limit: int, of_ten: int) -> int:
    """How many places of a search one origin may have, if `of_ten` are its share of each ten."""
    return of_ten * -(-limit // 10)


def _keys(one: Placing, copied: Hashable) -> list[Hashable]:
    if one.origin is None:
        return []
    return [one.origin.group, copied]
