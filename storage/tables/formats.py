"""The upgrade of a store of an older format to this version's, in one transaction.

A store of a format that this version neither has nor upgrades is refused by its header alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import lmdb

from storage.audit import OperatorLeaf
from storage.errors import StoreCorrupt, StoreUnavailable, UnknownFormat
from storage.tables.change import Change, load_generation
from storage.tables.codec import STORE_FORMAT
from storage.values import THE_STORE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from storage.tables.codec import StoreHeader
    from storage.tables.lmdb_store import Draft, LmdbStore

Step = Callable[["Draft"], None]


def _ceilings(_draft: Draft) -> None:
    """Format 4: labels have ceilings; labels of earlier formats have none.

    The ceiling of an earlier label follows from the label (`policy.labels.ceiling.ceiling_of`), so
    no row is rewritten: a store that is more than half full has no room for all rows twice in one
    transaction.
    """


def _outcomes(_draft: Draft) -> None:
    """Format 5: what outcomes made of trust, of principals and of origins; name cells.

    A trust record has a sum of evidence, a latch and a probation. A record of an earlier format has
    none of them: its principal is unlatched, with the score that it had. The tables of
    `lmdb_store.SINCE` begin empty: trust of origins, the last outcomes of each, outcomes that count
    once, releases that are not seven days old, and the counts of names that no person said.
    """


STEPS: Final[dict[int, Step]] = {3: _ceilings, 4: _outcomes}
"""The steps of an upgrade, by the format that each starts from; it leads to the next format."""


def refuse_unknown(header: StoreHeader | None) -> None:
    """Refuse a store whose format is not this version's and cannot be upgraded to it.

    Raises:
        UnknownFormat: The store's format is newer, or older than the oldest with a step.
    """
    if header is None:
        return
    oldest = STORE_FORMAT
    while oldest - 1 in STEPS:
        oldest -= 1
    if header.format > STORE_FORMAT:
        raise UnknownFormat(
            f"the store has format {header.format}, and this version knows up to {STORE_FORMAT}: "
            "run the version that wrote it, or a later one"
        )
    if header.format < oldest:
        raise UnknownFormat(
            f"the store has format {header.format}, and this version knows none before {oldest}: "
            "run the version that wrote it, or first one that upgrades it"
        )


class Upgrade:
    """Brings one store to `STORE_FORMAT`, with a leaf, before anything else runs on the store."""

    def __init__(
        self,
        store: LmdbStore,
        signer: Ed25519PrivateKey,
        origin: str,
        clock: Callable[[], int],
        key_check: str,
    ) -> None:
        self._store = store
        self._key_check = key_check
        self._signer = signer
        self._origin = origin
        self._clock = clock

    def run(self) -> tuple[int, int] | None:
        """Upgrade the store.

        Returns the formats before and after, None where there was nothing to do.

        A copy of the file as it was is kept beside the store until the next compaction.

        Raises:
            UnknownFormat: See `refuse_unknown`; no step was taken.
            StoreUnavailable: The disk refused; the store is as it was.
        """
        with self._store.reading() as view:
            header = view.header()
        refuse_unknown(header)
        if header is None or header.format == STORE_FORMAT:
            return None
        before = header.format
        self._store.keep_before(STORE_FORMAT)
        try:
            self._commit(before)
        except lmdb.Error as error:
            raise StoreUnavailable(f"the store's format cannot be upgraded: {error}") from error
        return before, STORE_FORMAT

    def _commit(self, before: int) -> None:
        draft = self._store.begin()
        done = False
        try:
            header = draft.header()
            if header is None:
                raise StoreCorrupt("the store has lost its header")
            change = Change(draft, load_generation(draft, header), self._clock())
            for number in range(before, STORE_FORMAT):
                STEPS[number](draft)
            change.format = STORE_FORMAT
            change.key_check = self._key_check
            change.log(
                OperatorLeaf(
                    at_ms=change.now_ms,
                    action="store.upgrade",
                    subject="store",
                    by=THE_STORE,
                    detail=f"format {before} to {STORE_FORMAT}",
                )
            )
            change.finish(self._origin, self._signer)
            draft.commit()
            done = True
        finally:
            if not done:
                draft.abort()
