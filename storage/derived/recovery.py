"""The start of a store: its header is made or checked, and the derived indexes are rebuilt."""

from __future__ import annotations

import secrets
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.model import MemoryStatus, Reads, SourceKind, Tenant
from storage.audit import Tree
from storage.derived.catalogue import Catalogue, Mask, Ordinals
from storage.derived.lexical.analysis import WordHashes
from storage.derived.vectors.faiss_index import VectorIndex
from storage.derived.vectors.segment_files import LoadedIndex, SegmentFiles
from storage.ground.errors import StoreCorrupt, StoreUnavailable
from storage.tables.change import Generation, load_generation
from storage.tables.codec import (
    NO_ORDINAL,
    STORE_FORMAT,
    StoreHeader,
    decode_brief,
    decode_scope,
    ordinal_key,
)
from storage.tables.lmdb_store import LmdbStore, View
from storage.tables.names import IDS, ROWS, VECTORS
from storage.tables.rows import ENDING, read_row, text_of

_INCARNATION_LEN: Final = 8
_LOOK_UP_EVERY: Final = 1_024
_TRUSTS: Final = {kind: kind.trust for kind in SourceKind}
_ENDS: Final = 127  # above every label's trust: no floor shows a memory's rows before its end


def found(embedder_id: str, dimension: int, now_ms: int) -> Generation:
    """The generation (header, tree and checkpoint) of a new and empty store."""
    header = StoreHeader(
        incarnation=secrets.token_hex(_INCARNATION_LEN),
        restores=0,
        version=0,
        epoch=0,
        ruleset_digest="",
        embedder_id=embedder_id,
        dimension=dimension,
        next_ordinal=0,
        leaf_count=0,
        live_count=0,
        held_count=0,
        created_at_ms=now_ms,
        format=STORE_FORMAT,
    )
    return Generation(header=header, tree=Tree())


def with_embedder(generation: Generation, embedder_id: str, dimension: int) -> Generation:
    """A copy of the generation with another embedder, to be stored by the next transaction."""
    header = msgspec.structs.replace(
        generation.header, embedder_id=embedder_id, dimension=dimension
    )
    return msgspec.structs.replace(generation, header=header)


def with_incarnation(generation: Generation) -> Generation:
    """A copy of the generation in a new incarnation, so that earlier nonces are refused.

    The new name is random: with a counter alone, a second restore of the same backup would begin
    the same incarnation again, and nonces spent in the first could be replayed.
    """
    header = generation.header
    renewed = msgspec.structs.replace(
        header,
        incarnation=secrets.token_hex(_INCARNATION_LEN),
        restores=header.restores + 1,
        time_ms=0,  # The time begins anew too, so that a clock that ran far ahead can be corrected.
    )
    return msgspec.structs.replace(generation, header=renewed)


def load(store: LmdbStore) -> Generation | None:
    """The committed generation, after its signed root was checked; None before any commit.

    Raises:
        StoreCorrupt: Header, leaves or tree contradict each other.
    """
    with store.reading() as view:
        header = view.header()
        return None if header is None else load_generation(view, header)


class DerivedRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that the derived indexes need, as collected from all rows.

    `searchable` are the ordinals of all vectors of the embedder in use, ascending, including those
    of past versions. `foreign` counts live memories with a vector of each other embedder.
    """

    searchable: Ordinals
    foreign: Counter[str]


def derive(
    view: View, embedder_id: str, catalogue: Catalogue, stopping: Callable[[], bool]
) -> DerivedRows:
    """Fill the catalogue from all rows, and return the ordinals that the index must contain.

    Rows and ids that do not match their digests are left out.

    Raises:
        StoreUnavailable: The store is closing.
    """
    live = _live(view)
    trusts = np.zeros(len(live), dtype=np.int8)
    next_of = np.full(len(live), NO_ORDINAL, dtype=np.int64)  # maps a row to its memory's next row
    searchable, foreign = array("q"), Counter[str]()
    # Rows of one tenant with the same ids are added in groups, not one by one.
    filed: dict[tuple[Tenant, bytes], array[int]] = defaultdict(lambda: array("q"))
    expiring: dict[int, str] = {}
    for key, payload in view.scan(ROWS, sound_only=True):
        ordinal = int.from_bytes(key, "big")
        if ordinal % _LOOK_UP_EVERY == 0 and stopping():
            raise StoreUnavailable("the store is closing")
        row = decode_brief(payload)
        if trust := _ENDS if row.change in ENDING else _TRUSTS[row.source]:
            trusts[ordinal] = trust
        if row.prev_ordinal != NO_ORDINAL:
            next_of[row.prev_ordinal] = ordinal
        if row.embedder_id == embedder_id:
            searchable.append(ordinal)
        if live[ordinal]:
            filed[row.tenant, bytes(row.scope)].append(ordinal)
            foreign.update({row.embedder_id} - {"", embedder_id})
            if row.expires_at is not None:
                expiring[ordinal] = row.expires_at
    groups = [
        (tenant, decode_scope(scope), np.frombuffer(ordinals, dtype=np.int64))
        for (tenant, scope), ordinals in filed.items()
    ]
    catalogue.begin(groups, expiring, trusts)
    _keep_earlier(view, catalogue, _earlier(trusts, next_of), live)
    return DerivedRows(searchable=np.frombuffer(searchable, dtype=np.int64), foreign=foreign)


def _live(view: View) -> Mask:
    """A mask, indexed by ordinal, of the newest rows of live memories."""
    header = view.header()
    live = np.zeros(header.next_ordinal if header else 0, dtype=np.bool_)
    for _, record in view.records(IDS, sound_only=True):
        live[record.ordinal] = record.status is MemoryStatus.LIVE
    there = int(np.count_nonzero(live))
    if header is not None and there != header.live_count:
        view.digests.note(f"{there} live memories ({header.live_count} counted)")
    return live


def _keep_earlier(
    view: View, catalogue: Catalogue, earlier: dict[int, list[int]], live: Mask
) -> None:
    for last, ordinals in earlier.items():
        newest, *rows = [(one, read_row(view, one)) for one in (last, *ordinals)]
        catalogue.keep_earlier(newest, rows, live=bool(live[last]))


def _earlier(trusts: NDArray[np.int8], next_of: Ordinals) -> dict[int, list[int]]:
    """Map the newest row of a memory to earlier rows that are more trusted than all later ones."""
    found: dict[int, list[int]] = {}
    proven = (trusts >= Reads.USER_INPUT.trust) & (trusts < _ENDS) & (next_of != NO_ORDINAL)
    for ordinal in np.flatnonzero(proven)[::-1].tolist():
        last = ordinal
        while (after := int(next_of[last])) != NO_ORDINAL and trusts[after] < trusts[ordinal]:
            last = after
        if after == NO_ORDINAL:
            found.setdefault(last, []).append(ordinal)
    return found


def load_index(
    view: View,
    files: SegmentFiles,
    searchable: Ordinals,
    index: VectorIndex,
    hashes: WordHashes,
) -> LoadedIndex:
    """Fill the empty index with vectors and words of these rows, from files as far as they fit.

    A vector that does not match its digest is left out.
    """

    def fetch(ordinal: int) -> bytes | None:
        with suppress(StoreCorrupt):
            return view.get(VECTORS, ordinal_key(ordinal))
        return None

    def words(ordinal: int) -> Sequence[int]:
        with suppress(StoreCorrupt):
            row = read_row(view, ordinal)
            return hashes.of(row.tenant, text_of(row)[0] or "")
        return ()

    return files.load(searchable, fetch, words, index)
