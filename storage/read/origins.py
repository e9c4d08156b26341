"""The origins of the memories in a search, as the exposure cap counts them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from policy.model import Hit, SourceKind
from storage.audit import VerdictLeaf
from storage.read.exposure import ExposureOrigin, Placement
from storage.tables.change import LABELS, read_leaf
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import VECTORS, View
from storage.tables.rows import read_row
from storage.values import Row
from storage.write.engine import Engine

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
        # A parole has the origins read anew, and so has the end of a probation.
        name = self._engine.parts.names.memory(row.tenant, row.memory_id)
        if any(one.counts_apart(view, name) for one in self._engine.parts.judge.followers):
            return ExposureOrigin(
                tenant=row.tenant, principal_id=row.principal_id, on_probation=True
            )
        return _origin(view, row) if _is_low(row) else None

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


def _is_low(row: Row) -> bool:
    """Whether a row has a label below `user_input`, so that nobody accountable said its text."""
    return row.source.trust < SourceKind.USER_INPUT.trust


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
