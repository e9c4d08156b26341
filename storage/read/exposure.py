"""The cap on how much of one search one origin may fill: it reorders, and hides nothing by itself.

However many texts a web page gets in, a search shows a few of them beside the texts of others. Only
memories of sessions that had read foreign text are counted: by the key and the user or namespace
for which they were written, by each host that the session had read, and by the tool in whose result
the text was found. Hits over the cap come last, in places that no other hit can fill. The cap is
hard for a latched origin, whatever its session had read: its hits over the cap are not shown at
all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.labels.derive import HOST
from policy.model import Hit, PrincipalId, SourceKind, Tenant
from policy.ruleset import ReadRules
from policy.trust.score import known_score
from storage.audit import VerdictLeaf
from storage.derived.lexical.scoring import TRUSTS, Floats64, Ordinals, Ranks
from storage.ground.errors import StoreCorrupt
from storage.tables.change import LABELS, read_leaf
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.names import VECTORS
from storage.tables.rows import read_row
from storage.values import Row
from storage.write.engine import Engine
from storage.write.trust_intake import ORIGINS, TRUST, TrustRecord, trust_of

EXAMINED_MIN: Final = 200
"""The least number of the nearest memories that compete for the places of a search."""
NEAR_COPY: Final = 0.9
"""The least cosine at which two texts under a cap count as one, whoever wrote them."""


class ExposureOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a memory of low trust, as the caps need it.

    `server` and `tool` name the result in which its text was found. `filed` is the user or the
    namespace for which the memory was written. `after_reading` is whether its session had read
    foreign text, and `read_origins` are the tools and hosts of that text.
    """

    tenant: Tenant
    principal_id: PrincipalId
    server: str = ""
    tool: str = ""
    filed: str | None = None
    after_reading: bool = False
    read_origins: tuple[str, ...] = ()
    # Whether the memory is on probation after a trial; all such memories are counted as one group.
    on_probation: bool = False


class Placement(msgspec.Struct, frozen=True):
    """One memory that competes for a place in a search's result.

    `origin` is None if the memory is not counted, because its label is `user_input` or above;
    `vector` if no near copies of it are counted with it.
    """

    hit: Hit
    origin: ExposureOrigin | None = None
    vector: NDArray[np.float32] | None = None


class Exposure:
    """The places in the result of one search, which are filled best first."""

    def __init__(
        self, limit: int, rules: ReadRules, is_restricted: Callable[[ExposureOrigin], bool]
    ) -> None:
        """`is_restricted` returns whether an origin is latched or on probation."""
        self._limit = limit
        self._is_restricted = is_restricted
        self._shown = places(limit, rules.shown_of_ten)
        self._restricted = places(limit, rules.shown_on_probation)
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
        """Give the memory a place if its origin has one left; return whether it got a place."""
        keys = self._keys(one)
        if keys and one.origin is not None and self._has_used_up(one.origin, keys):
            return False
        self._take(one, keys)
        return True

    def fill(self, one: Placement) -> None:
        """Give a remaining place to a memory that was over a cap, unless its cap is hard."""
        keys = self._keys(one)
        hard = one.origin is not None and self._is_restricted(one.origin)
        if not (hard and one.origin is not None and self._has_used_up(one.origin, keys)):
            self._take(one, keys)

    def _groups(self, origin: ExposureOrigin) -> tuple[Hashable, ...]:
        """The groups in which a memory of an origin is counted; () if it is under no cap."""
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
        """The group of near copies of a memory; a new group if it is near to no other memory."""
        if one.vector is not None:
            for vector, copied in self._copies:
                if float(vector @ one.vector) >= NEAR_COPY:
                    return copied
        return ("copy", len(self._hits))


def places(limit: int, of_ten: int) -> int:
    """The number of places of a search that one origin may have, at `of_ten` of each ten."""
    return of_ten * -(-limit // 10)


def _groups(origin: ExposureOrigin) -> tuple[Hashable, ...]:
    hosts = tuple([one for one in origin.read_origins if one.startswith(HOST)])
    each: tuple[Hashable, ...] = tuple([("host", host) for host in hosts])
    if origin.server or origin.tool:
        # Besides the hosts, and not instead: otherwise a page had one share for memories that
        # repeat its words, and another one for memories that paraphrase it.
        each = ("tool", origin.server, origin.tool, hosts), *each
    # Not counted by session, because a page that many sessions read would have a share in each.
    # The user or namespace counts, because an application may write for many people with one key.
    return ("key", origin.principal_id, origin.filed), *each


def _latched_groups(origin: ExposureOrigin) -> tuple[Hashable, ...]:
    if origin.on_probation:
        return ("probation",)
    whose = ("latched", origin.principal_id)
    if origin.server or origin.tool:
        # Besides the principal, because a history may name as many tools as its sender likes.
        return ("latched tool", origin.server, origin.tool), whose
    return (whose,)


_KEPT_MAX: Final = 65_536


class Origins:
    """The origins of rows. An origin never changes, so a bounded number is cached. Any thread.

    A change of a label or a probation (`LABELS`) empties the cache.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: tuple[int, dict[int, ExposureOrigin | None]] = (-1, {})
        # Maps the ordinal of a row to the server and tool in its leaf.
        self._names: dict[int, str] = {}
        self._low: tuple[int, dict[Hashable, float]] = (-1, {})

    def known(self, ordinal: int) -> tuple[bool, ExposureOrigin | None]:
        """True and the origin of a row if the cache has it, else False and None."""
        kept = self._kept()
        return ordinal in kept, kept.get(ordinal)

    def of(self, view: View, ordinal: int, row: Row) -> ExposureOrigin | None:
        """The origin of a row; None if no cap counts the row (label `user_input` or above)."""
        kept = self._kept()
        if ordinal not in kept:
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            kept[ordinal] = self._origin(view, row)
        return kept.get(ordinal)

    def named(self, view: View, ordinal: int) -> str:
        """The server and tool from which a row's text came, as in its leaf; "" if there is none."""
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
        # The begin and the end of a probation change the mark `LABELS`, which empties the cache.
        name = self._engine.parts.names.memory(row.tenant, row.memory_id)
        if any(one.counts_apart(view, name) for one in self._engine.parts.judge.followers):
            return ExposureOrigin(
                tenant=row.tenant, principal_id=row.principal_id, on_probation=True
            )
        # With a label below `user_input`, no one is accountable for the text.
        return _origin(view, row) if row.source.trust < SourceKind.USER_INPUT.trust else None

    def trusts(self, view: View, ordinals: Ordinals, ranks: Ranks) -> Floats64:
        """The trust of rows in a ranking, by label; lower if little is known good of the origin."""
        trusts = TRUSTS[ranks]
        low = self._low_scores(view)
        if low:
            # Few stores have such an origin; the origin of each row is read once and then cached.
            for at in np.flatnonzero(ranks == SourceKind.UNKNOWN.trust).tolist():
                # A row that does not match its digest is left out of the answer later.
                with suppress(StoreCorrupt):
                    origin = self.of(view, int(ordinals[at]), read_row(view, int(ordinals[at])))
                    if origin is not None:
                        trusts[at] = min(trusts[at], low.get(_scored(origin), 1.0))
        return trusts

    def _low_scores(self, view: View) -> dict[Hashable, float]:
        """The known scores below the trust of an unproven label, by tool or else principal."""
        stamp, low = self._low
        if stamp != self._engine.moves[TRUST]:
            stamp = self._engine.moves[TRUST]
            known: dict[Hashable, float] = {}
            for _, one in view.records(TRUST):
                known[one.principal_id] = _known(one)
            for _, origin in view.records(ORIGINS):
                known[origin.tenant, origin.server, origin.tool] = _known(origin.trust)
            least = float(TRUSTS[SourceKind.UNKNOWN.trust])
            low = {name: score for name, score in known.items() if score < least}
            self._low = (stamp, low)
        return low

    def restricted(self, view: View) -> Callable[[ExposureOrigin], bool]:
        """A function that returns whether an origin is restricted; cached for one search."""
        intake = self._engine.parts.judge.intake

        @cache
        def is_restricted(origin: ExposureOrigin) -> bool:
            if origin.on_probation or intake.trust(view, origin.principal_id).latched:
                return True
            if not origin.server and not origin.tool:
                return False
            named = intake.origin_named(origin.tenant, origin.server, origin.tool)
            return named is not None and intake.origin_trust(view, named).latched

        return is_restricted

    def placing(
        self, view: View, row: Row, hit: Hit, is_restricted: Callable[[ExposureOrigin], bool]
    ) -> Placement:
        """A hit of the search, with its origin for the caps, and its vector if it is under one."""
        ordinal = hit.memory.ordinal
        origin = self.of(view, ordinal, row)
        if origin is None or not (origin.after_reading or is_restricted(origin)):
            return Placement(hit, origin)
        stored = view.get(VECTORS, ordinal_key(ordinal))
        vector = None if stored is None else np.frombuffer(stored, dtype="<f4")
        return Placement(hit, origin, vector)

    def _kept(self) -> dict[int, ExposureOrigin | None]:
        raised, kept = self._known
        if raised != self._engine.moves[LABELS]:
            raised, kept = self._engine.moves[LABELS], {}
            self._known = (raised, kept)
        return kept


def _known(record: TrustRecord) -> float:
    return known_score(trust_of(record))


def _scored(origin: ExposureOrigin) -> Hashable:
    """The name under which an origin has a score: its tool if it has one, else its principal."""
    if origin.server or origin.tool:
        return origin.tenant, origin.server, origin.tool
    return origin.principal_id


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
