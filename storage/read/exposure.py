"""How much of one search one origin may fill: a cap that reorders, and hides nothing by itself.

However many texts a page gets in, a reader is shown a few of them beside what others say. Counted
is what sessions wrote that had read foreign text: by the key and the user or namespace that it was
written for, by each host that the session had read, and by the tool that a text was found in a
result of. What was written by a session that had read none is not counted. Hits over the cap go to
the end, into places that no other hit can fill. The cap is hard for a latched origin, whatever its
session had read: its hits over the cap are not shown at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.labels.derive import HOST
from policy.model import Hit, Memory, PrincipalId, SourceKind, Tenant
from storage.audit import VerdictLeaf
from storage.tables.change import LABELS, read_leaf
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import VECTORS, View
from storage.tables.rows import read_row
from storage.values import Row
from storage.write.engine import Engine

EXAMINED_MIN: Final = 200
"""At least so many of the nearest memories compete for the places of a search."""
NEAR_COPY: Final = 0.9
"""The cosine from which on two texts under a cap count as one, whoever brought them."""


class ExposureOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a memory of low trust came from, as far as the cap needs it.

    `server` and `tool` name the result that its text was found in. `filed` is the user or the
    namespace that it was written for. `read_origins` are the tools and hosts that its session had
    read; `after_reading` is whether it had read foreign text at all.
    """

    tenant: Tenant
    principal_id: PrincipalId
    server: str = ""
    tool: str = ""
    filed: str | None = None
    after_reading: bool = False
    read_origins: tuple[str, ...] = ()
    # Whether the memory came back after a trial and is watched: all of these are one group.
    on_probation: bool = False


class Placement(msgspec.Struct, frozen=True):
    """One memory that competes for a place in a search's result.

    `origin` is None if the memory's label is `user_input` or above.
    """

    hit: Hit
    origin: ExposureOrigin | None = None
    vector: NDArray[np.float32] | None = None


class Exposure:
    """The places in the result of one search; they are filled best first."""

    def __init__(
        self,
        limit: int,
        shown_of_ten: int,
        restricted_of_ten: int,
        is_restricted: Callable[[ExposureOrigin], bool],
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

    def is_over(self, origin: ExposureOrigin | None) -> bool:
        """Whether the origin has used up its share, so that the memory need not be read."""
        return origin is not None and self._has_used_up(origin, self._groups(origin))

    def place(self, one: Placement) -> bool:
        """Give the memory a place, or leave it for the end; returns whether it got a place."""
        keys = self._keys(one)
        if one.origin is not None and self._has_used_up(one.origin, keys):
            return False
        self._take(one, keys)
        return True

    def fill(self, one: Placement) -> None:
        """Give a place that is left to a memory that was over a cap, unless its cap is hard."""
        keys = self._keys(one)
        hard = one.origin is not None and self._is_restricted(one.origin)
        if not (hard and one.origin is not None and self._has_used_up(one.origin, keys)):
            self._take(one, keys)

    def _groups(self, origin: ExposureOrigin) -> tuple[Hashable, ...]:
        """What a memory of an origin is counted under; () where it is under no cap."""
        if self._is_restricted(origin):
            return _latched_groups(origin)
        return _groups(origin) if origin.after_reading else ()

    def _keys(self, one: Placement) -> tuple[Hashable, ...]:
        groups = () if one.origin is None else self._groups(one.origin)
        return (*groups, self._copied(one)) if groups else ()

    def _has_used_up(self, origin: ExposureOrigin, keys: tuple[Hashable, ...]) -> bool:
        share = self._restricted if self._is_restricted(origin) else self._shown
        return max(map(self._counts.__getitem__, keys), default=-1) >= share

    def _take(self, one: Placement, keys: tuple[Hashable, ...]) -> None:
        self._hits.append(one.hit)
        self._counts.update(keys)
        if keys and one.vector is not None:
            self._copies.append((one.vector, keys[-1]))

    def _copied(self, one: Placement) -> Hashable:
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


def _groups(origin: ExposureOrigin) -> tuple[Hashable, ...]:
    hosts = tuple([one for one in origin.read_origins if one.startswith(HOST)])
    each: tuple[Hashable, ...] = tuple([("host", host) for host in hosts])
    if origin.server or origin.tool:
        # Besides, and not instead: else a page had a share for what repeats its words and another
        # one for what says them otherwise.
        each = ("tool", origin.server, origin.tool, hosts), *each
    # Not by the session: a page that many sessions read had a share in each. An application may
    # write for many people with one key.
    return ("key", origin.principal_id, origin.filed), *each


def _latched_groups(origin: ExposureOrigin) -> tuple[Hashable, ...]:
    if origin.on_probation:
        return ("probation",)
    whose = ("latched", origin.principal_id)
    if origin.server or origin.tool:
        # Besides, as above: a history may name as many tools as its sender likes.
        return ("latched tool", origin.server, origin.tool), whose
    return (whose,)


_MEMORY_BYTES: Final = 512  # the bytes of a memory in an answer besides its text


class AnswerRoom:
    """How much room is left in an answer. The first memory always fits, however large it is."""

    __slots__ = ("_bytes_max", "_left", "full")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = self._left = bytes_max
        self.full = False

    def taken(self, memories: Iterable[Memory]) -> list[Memory]:
        """As many of the given memories as fit into the answer, from the first on."""
        taken: list[Memory] = []
        for memory in memories:
            size = _MEMORY_BYTES + len(memory.text) + len(memory.metadata_json or "")
            self.full = self._left < size and self._left != self._bytes_max
            if self.full:
                break
            self._left -= size
            taken.append(memory)
        return taken


_KEPT_MAX: Final = 65_536


class Origins:
    """The origins of rows. An origin never changes, so a bounded number is cached. Any thread.

    A label can rise (`LABELS`); then all origins are read anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: tuple[int, dict[int, ExposureOrigin | None]] = (-1, {})
        # What the leaves of rows name, by the rows' ordinals.
        self._names: dict[int, str] = {}

    def known(self, ordinal: int) -> tuple[bool, ExposureOrigin | None]:
        """A truth (the origin of a row was read before) and, if so, that origin."""
        kept = self._kept()
        return ordinal in kept, kept.get(ordinal)

    def of(self, view: View, ordinal: int, row: Row) -> ExposureOrigin | None:
        """The origin of a row; None for a label of `user_input` or above off probation."""
        kept = self._kept()
        if ordinal not in kept:
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            kept[ordinal] = self._origin(view, row)
        return kept.get(ordinal)

    def named(self, view: View, ordinal: int) -> str:
        """Server and tool that a row's text came from, as its leaf names them; "" for none."""
        known = self._names.get(ordinal)
        if known is None:
            leaf = read_leaf(view, read_row(view, ordinal).leaf_index)
            culprit = leaf.culprit if isinstance(leaf, VerdictLeaf) else None
            parts = () if culprit is None else (culprit.server, culprit.tool)
            known = " ".join(filter(None, parts))
            if len(self._names) >= _KEPT_MAX:
                self._names.clear()
            self._names[ordinal] = known
        return known

    def _origin(self, view: View, row: Row) -> ExposureOrigin | None:
        # What begins or ends this has the origins read anew (`LABELS`).
        name = self._engine.parts.names.memory(row.tenant, row.memory_id)
        if any(one.counts_apart(view, name) for one in self._engine.parts.judge.followers):
            return ExposureOrigin(
                tenant=row.tenant, principal_id=row.principal_id, on_probation=True
            )
        # Below `user_input`, no one who is accountable said the text.
        return _origin(view, row) if row.source.trust < SourceKind.USER_INPUT.trust else None

    def restricted(self, view: View) -> Callable[[ExposureOrigin], bool]:
        """A predicate: an origin or its principal is latched; read once for each in one search."""
        intake = self._engine.parts.judge.intake

        @cache
        def is_restricted(origin: ExposureOrigin) -> bool:
            if origin.on_probation or intake.trust(view, origin.principal_id).latched:
                return True
            if not origin.server and not origin.tool:
                return False
            named = intake.origin_named(origin.tenant, origin.server, origin.tool)
            trust = intake.origin_trust(view, named)
            return trust is not None and trust.latched

        return is_restricted

    def placing(self, view: View, ordinal: int, row: Row, hit: Hit) -> Placement:
        """A hit of the search, with everything that the caps need to know about it."""
        origin = self.of(view, ordinal, row)
        if origin is None:
            return Placement(hit)
        stored = view.get(VECTORS, ordinal_key(ordinal))
        vector = None if stored is None else np.frombuffer(stored, dtype="<f4")
        return Placement(hit, origin, vector)

    def _kept(self) -> dict[int, ExposureOrigin | None]:
        raised, kept = self._known
        if raised != self._engine.moves[LABELS]:
            raised, kept = self._engine.moves[LABELS], {}
            self._known = (raised, kept)
        return kept


def _origin(view: View, row: Row) -> ExposureOrigin:
    leaf = read_leaf(view, row.leaf_index)
    judged = leaf if isinstance(leaf, VerdictLeaf) else None
    culprit = None if judged is None else judged.culprit
    return ExposureOrigin(
        tenant=row.tenant,
        principal_id=row.principal_id,
        server="" if culprit is None else culprit.server,
        tool="" if culprit is None else culprit.tool,
        filed=row.scope.user_id or row.scope.app_id,
        after_reading=row.after_reading,
        read_origins=row.read_origins,
    )
