"""A store of an older format becomes one of this version's, in one transaction, or stays as it is.

A store of a newer format is refused before any other value of it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import lmdb

from storage.audit import OperatorLeaf
from storage.change import Change, load_generation
from storage.codec import STORE_FORMAT
from storage.errors import StoreCorrupt, StoreTooNew, StoreUnavailable
from storage.recovery import THE_STORE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from storage.lmdb_store import Draft, LmdbStore, View

Step = Callable[["Draft"], None]


def _from_0(draft: Draft) -> None:
    """The number itself is all that format 1 adds, and the header is written with every commit."""
    del draft


def _from_1(draft: Draft) -> None:
    """The tables of guard mode are made when the store is opened, and begin empty.

    The number keeps a version away that would not know a memory on its way to another server.
    """
    del draft


def _from_2(draft: Draft) -> None:
    """Leaves stay as they are; from now on one may name a session.

    The number keeps a version away that would take such a leaf for a damaged one.
    """
    del draft


STEPS: Final[dict[int, Step]] = {0: _from_0, 1: _from_1, 2: _from_2}
"""By the format each one starts from; it leads to the next one."""


def format_of(view: View) -> int | None:
    """The format that a store says it has; None before its first commit.

    Raises:
        StoreTooNew: It is of a later version than this one.
    """
    header = view.header()
    if header is None:
        return None
    if header.format > STORE_FORMAT:
        raise StoreTooNew(
            f"the store has format {header.format}, and this version knows up to {STORE_FORMAT}: "
            "run the version that wrote it, or a later one"
        )
    return header.format


class Upgrade:
    """Brings one store to `STORE_FORMAT`, with a leaf. Before anything else runs on it."""

    def __init__(
        self,
        store: LmdbStore,
        signer: Ed25519PrivateKey,
        origin: str,
        clock: Callable[[], int],
        steps: dict[int, Step] = STEPS,
    ) -> None:
        self._store = store
        self._signer = signer
        self._origin = origin
        self._clock = clock
        self._steps = steps

    def run(self) -> tuple[int, int] | None:
        """The formats before and after; None where there was nothing to do.

        A copy of the file as it was is kept beside the store until the next compaction.

        Raises:
            StoreTooNew: See `format_of`.
            StoreCorrupt: No step leads on from the store's format.
            StoreUnavailable: The disk refused; the store is as it was.
        """
        with self._store.reading() as view:
            before = format_of(view)
        if before is None or before == STORE_FORMAT:
            return None
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
                if number not in self._steps:
                    raise StoreCorrupt(f"nothing is known that leads on from format {number}")
                self._steps[number](draft)
            change.format = STORE_FORMAT
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
