"""The memories of a selection, found by one pass over the rows, beside which other threads run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

import msgspec
import numpy as np

from policy.labels.forwarded_call import call_of
from policy.model import Candidate, MemoryStatus, Scope
from storage.audit import candidate_of
from storage.derived.vectors.segments import exact_products
from storage.ground.errors import UnknownMemory
from storage.questions import Selection
from storage.tables.change import read_verdict
from storage.tables.codec import ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import IDS, ROWS, VECTORS
from storage.tables.rows import STANDING, is_expired, read_id, read_row
from storage.values import Row

_One = TypeVar("_One")

_AT_ONCE: Final = 8
_BLOCK_LEN: Final = 1_024


class SelectedRow(msgspec.Struct, frozen=True):
    """The newest row of a memory that a selection matches; its cosine where likeness was asked."""

    ordinal: int
    row: Row
    status: MemoryStatus
    cosine: float | None = None


class Selector:
    """Compares rows with a selection, its likeness included. For one view."""

    def __init__(self, view: View, names: KeyedNames, asked: Selection) -> None:
        """Find what is like the named memory, if the selection names one.

        Raises:
            UnknownMemory: The named memory does not exist, or has no vector.
        """
        self._view = view
        self._asked = asked
        self.cosines: dict[bytes, float] | None = None
        if asked.like is not None:
            known = read_id(view, names.memory(asked.tenant, asked.like))
            if known is None or not view.has(VECTORS, ordinal_key(known.ordinal)):
                raise UnknownMemory("like: no memory of this tenant has this id and a vector")
            self.cosines = alike(view, known.ordinal, asked.above)

    def takes(self, key: bytes, row: Row) -> bool:
        """Whether the row under a key fits every field of the selection."""
        near = self.cosines is None or key in self.cosines
        return near and fits(self._view, self._asked, row)

    def memories(self, now_ms: int, *, hidden: bool = False) -> Iterator[SelectedRow]:
        """The live memories of which a version fits, each by its newest row, oldest first.

        With `hidden`, memories in quarantine as well.
        """
        statuses = STANDING if hidden else {MemoryStatus.LIVE}
        newest = {
            known.ordinal: known.status
            for _, known in paced(self._view.records(IDS), 8 * _AT_ONCE)
            if known.status in statuses
        }
        # The likeness of the rows that belong to a matching memory; a row names the one before it.
        matching: dict[int, float | None] = {}
        for key, row in paced(self._view.records(ROWS)):
            if row.prev_ordinal not in matching and not self.takes(key, row):
                continue
            ordinal = int.from_bytes(key, "big")
            matching[ordinal] = (self.cosines or {}).get(key, matching.get(row.prev_ordinal))
            status = newest.get(ordinal)
            if status is not None and not is_expired(row, now_ms):
                yield SelectedRow(ordinal, row, status, matching[ordinal])


def paced(walk: Iterable[_One], at_once: int = _AT_ONCE) -> Iterator[_One]:
    """The same values; after each `at_once` of them, about 0.1 ms, other threads may run."""
    for at, one in enumerate(walk):
        if not at % at_once:
            # The walk holds the interpreter's lock, and writes must not wait for its end.
            time.sleep(0)
        yield one


def fits(view: View, asked: Selection, row: Row) -> bool:
    """Whether a row fits the selection but for likeness, which `Selector` compares.

    Of an erased row, only the remaining fields are compared.
    """
    if row.tenant != asked.tenant or row.at_ms < (asked.since_ms or 0):
        return False
    if asked.principal_id not in {None, row.principal_id} or asked.label not in {None, row.source}:
        return False
    if asked.under is not None and not row.erased:
        candidate = candidate_of(row)
        target = row.kept.target if row.kept else candidate.target
        if not is_under(asked.under, candidate, target, row.scope):
            return False
    if asked.server is None and asked.session is None:
        return True
    leaf = read_verdict(view, row.leaf_index)
    culprit = leaf.culprit
    server, tool = (None, None) if culprit is None else (culprit.server, culprit.tool)
    of_origin = asked.server in {None, server} and asked.tool in {None, tool}
    return of_origin and asked.session in {None, leaf.session}


def is_under(path: str, candidate: Candidate, target: str, scope: Scope) -> bool:
    """Whether a candidate for this target and scope is stored at a path, or below it.

    The path of a candidate is its target, with the file or block that the call changes; the dotted
    name of an application, as of a LangGraph namespace, is a path of its own.
    """
    call = call_of(candidate)
    file = "" if call is None else call.place.strip("/")
    namespace = (scope.app_id or "").replace(".", "/")
    return f"{target}/{file}/".startswith(f"{path}/") or f"{namespace}/".startswith(f"{path}/")


def alike(view: View, ordinal: int, above: float) -> dict[bytes, float]:
    """The cosine of each row that is at least `above` like a row which has a vector, by row key.

    Every vector is compared; rows of another embedder are left out.
    """
    asked = view.get(VECTORS, ordinal_key(ordinal)) or b""
    embedder_id = read_row(view, ordinal).embedder_id
    wide = np.frombuffer(asked, "<f4").astype(np.float64)
    found: dict[bytes, float] = {}
    vectors = paced(one for one in view.scan(VECTORS) if len(one[1]) == len(asked))
    while block := tuple(islice(vectors, _BLOCK_LEN)):
        joined = np.frombuffer(b"".join(vector for _, vector in block), "<f4")
        cosines = exact_products(joined.reshape(len(block), -1), wide).clip(-1.0, 1.0)
        for at in np.flatnonzero(cosines >= above).tolist():
            key = block[at][0]
            if read_row(view, int.from_bytes(key, "big")).embedder_id == embedder_id:
                found[key] = float(cosines[at])
    return found
