"""Reads of the last committed generation, which check every hit against the store."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, Generic, NamedTuple, Self, TypeVar, cast

import msgspec
import numpy as np

from policy.model import (
    Entity,
    HistoryEntry,
    Hit,
    Memory,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Reads,
    SourceKind,
    Tenant,
)
from policy.query import EVERYTHING, Filter, matches
from storage.derived.catalogue import Mask, Ordinals
from storage.features.recalls import NEAREST_MAX
from storage.ground.errors import StoreCorrupt
from storage.questions import ANSWER_BYTES_MAX, AnswerRoom
from storage.read.check import check_store
from storage.read.exposure import EXAMINED_MIN, Exposure, ExposureOrigin, Origins, Placement
from storage.read.ranking import Candidates, RankedRow, candidates_len
from storage.read.word_reads import WordReads
from storage.tables.codec import (
    NO_ORDINAL,
)
from storage.tables.lmdb_store import View
from storage.tables.rows import (
    STANDING,
    chain,
    history_of,
    is_expired,
    memory_of,
    newest_above,
    read_id,
    read_row,
    was_ended,
)
from storage.values import (
    CheckReport,
    Embed,
    EntityPage,
    Page,
    Row,
    SearchAnswer,
    StoreStatus,
    Turnover,
)
from storage.write.engine import Engine
from storage.write.wellness import notice, writable

Selected = TypeVar("Selected")

LIVES_MAX: Final = 64
"""The number of hidden memories under one client's key from which on new ones are hidden too."""
HISTORY_BYTES_MAX: Final = 8 * 1024 * 1024
_HIDDEN: Final = frozenset({MemoryStatus.QUARANTINED, MemoryStatus.FORWARDING})
_BELOW: Final = "below the floor: "  # no key that a client chooses begins with these words
# The bytes of an id in an answer besides its name: two times, a count, the field names.
_ENTITY_BYTES: Final = 256
_LATEST_MS: Final = 2**63
_OVERFETCH: Final = 4
_PATIENCE: Final = 100
_PAUSE_S: Final = 0.000_5


class EmbeddedReader(WordReads):
    """Reads of the last committed generation. Quarantined, held and deleted memories are not shown.

    Any thread. Cheap calls (`get`, `keys`, `trust`) may run on the event loop; `search` and `page`
    may take milliseconds.
    """

    def __init__(
        self,
        engine: Engine,
        reads: Reads = Reads.ALL,
        origins: Origins | None = None,
        *,
        expired: bool = False,
    ) -> None:
        # At the first moment of all (Unix milliseconds) nothing has expired.
        clock = (lambda: -_LATEST_MS) if expired else engine.parts.clock
        super().__init__(engine, reads, clock)
        self._expired = expired
        self._origins = origins or Origins(engine)

    def at(self, reads: Reads, *, expired: bool = False) -> Self:
        """A reader of the rows whose label is at or above a floor; it shows no other row.

        Of each memory the reader shows the newest row at or above the floor. With `expired` it also
        shows memories past an expiry of their own, but none that an incident let expire.
        """
        if reads is self.reads and expired is self._expired:
            return self
        return type(self)(self._engine, reads, self._origins, expired=expired)

    def get(self, tenant: Tenant, memory_id: MemoryId) -> Memory | None:
        """One live memory; None if the tenant has no live memory with this id.

        Also None if a value of the memory does not match its digest, as in every other read.
        """
        with self._store.reading() as view, suppress(StoreCorrupt):
            known = read_id(view, self._names.memory(tenant, memory_id))
            if known is None or known.status is not MemoryStatus.LIVE:
                return None
            memory = self._shown(view, newest_above(view, known.ordinal, self.reads), tenant)
            return None if memory is None else self._told(view, memory)
        return None

    def stands_for(self, tenant: Tenant, memory_id: MemoryId) -> MemoryId:
        """The id by which a change names a memory to the gate; unused if it is below the floor.

        No memory has that unused id, so the change is answered as if the memory had never existed.
        """
        if self.reads is Reads.ALL:
            return memory_id
        with self._store.reading() as view:
            known = read_id(view, self._names.memory(tenant, memory_id))
            if known is None or newest_above(view, known.ordinal, self.reads) != NO_ORDINAL:
                return memory_id
        return self._names.own(tenant, f"{_BELOW}{memory_id}")

    def id_of(self, tenant: Tenant, own_key: str, by: PrincipalId | None = None) -> MemoryId:
        """The id of the memory that clients of a tenant file under a key of their own.

        A memory in quarantine keeps its id, as evidence. The next memory under its key gets another
        id, because otherwise one false memory would make the key useless to all clients. After a
        quarantine the key means the newest of these memories that reads show, so that each one can
        be read and deleted by its key. A memory below the floor counts as one in quarantine, unless
        the principal `by` wrote it.
        """
        newest, shown = self._names.own(tenant, own_key), None
        with self._store.reading() as view:
            for life in range(LIVES_MAX):
                memory_id = self._names.own(tenant, own_key, life)
                known = read_id(view, self._names.memory(tenant, memory_id))
                if known is None:
                    break
                below = newest_above(view, known.ordinal, self.reads) == NO_ORDINAL
                hidden = known.status is MemoryStatus.QUARANTINED or (
                    below and read_row(view, known.ordinal).principal_id != by
                )
                newest = self._names.own(tenant, own_key, life + 1) if hidden else memory_id
                live = known.status is MemoryStatus.LIVE and not below
                shown = memory_id if live else shown
        return shown or newest

    def source(self, tenant: Tenant, memory_id: MemoryId) -> SourceKind | None:
        """The label of one live memory, without reading its text; None if it does not exist."""
        with self._store.reading() as view, suppress(StoreCorrupt):
            known = read_id(view, self._names.memory(tenant, memory_id))
            if known is None or known.status is not MemoryStatus.LIVE:
                return None
            found = self._live(view, newest_above(view, known.ordinal, self.reads), tenant)
            return None if found is None else found[0].source
        return None

    def _shown(self, view: View, ordinal: int, tenant: Tenant) -> Memory | None:
        """The memory of a row, if a reader may be shown it, else None."""
        try:
            found = self._live(view, ordinal, tenant)
            return None if found is None else memory_of(*found, ordinal=ordinal)
        except StoreCorrupt:
            return None

    def _told(self, view: View, memory: Memory) -> Memory | None:
        """A copy of the memory with its origin; None if the leaf does not match its digest."""
        try:
            origin = self._origins.named(view, memory.ordinal)
        except StoreCorrupt:
            return None
        return msgspec.structs.replace(memory, origin=origin)

    def _live(self, view: View, ordinal: int, tenant: Tenant) -> tuple[Row, MemoryStatus] | None:
        """The row at an ordinal, with the status of its memory, if this read may show the row.

        None unless the row is the newest of a live memory at or above the floor. The catalogue and
        the index may be ahead of this view or behind it, so every hit is checked here.
        """
        row = None if ordinal == NO_ORDINAL else read_row(view, ordinal)
        if row is None or row.tenant != tenant or row.erased:
            return None
        known = read_id(view, self._names.memory(tenant, row.memory_id))
        if known is None or known.status is not MemoryStatus.LIVE:
            return None
        if newest_above(view, known.ordinal, self.reads) != ordinal:
            return None
        if row.expires_at is not None and (
            is_expired(row, self._clock()) or (self._expired and was_ended(view, row))
        ):
            return None
        return row, known.status

    def _standing(
        self, view: View, ordinal: int, tenant: Tenant
    ) -> tuple[Row, MemoryStatus] | None:
        """Like `_live`, but for an operator: also the row of a memory in quarantine."""
        row = read_row(view, ordinal)
        if row.tenant != tenant or row.erased:
            return None
        known = read_id(view, self._names.memory(tenant, row.memory_id))
        return (row, known.status) if known is not None and known.status in STANDING else None

    def page(self, tenant: Tenant, where: Filter, offset: int, limit: int) -> Page:
        """Live memories that match, newest first; fewer than `limit` if their texts are large."""
        with self._moment(tenant, where, self._catalogue.candidates) as now:
            view, newest_first = now.view, now.found[::-1]
            if now.exact and not self._expired:
                wanted = newest_first[offset : offset + limit].tolist()
                room = AnswerRoom(ANSWER_BYTES_MAX)
                memories = room.taken(self._joined(now, tenant, wanted))
                told = tuple(filter(None, (self._told(view, one) for one in memories)))
                return Page(total=len(now.found), memories=told, cut=room.full)
            total, kept, room = 0, list[Memory](), AnswerRoom(ANSWER_BYTES_MAX)
            for memory in self._joined(now, tenant, newest_first.tolist()):
                if not matches(where, memory):
                    continue
                # All matches are counted, and only those of the page are collected.
                if offset <= total < offset + limit and not room.full:
                    kept.extend(
                        filter(None, (self._told(view, one) for one in room.taken((memory,))))
                    )
                total += 1
        return Page(total=total, memories=tuple(kept), cut=room.full)

    def ids(self, tenant: Tenant, where: Filter, limit: int) -> tuple[MemoryId, ...]:
        """The ids of live memories that match, newest first."""
        with self._moment(tenant, where, self._catalogue.candidates) as now:
            matching = (
                memory.memory_id
                for memory in self._joined(now, tenant, now.found[::-1].tolist())
                if matches(where, memory)
            )
            return tuple(itertools.islice(matching, limit))

    def turnover(self, tenant: Tenant, where: Filter, seen: object, limit: int) -> Turnover | None:
        """The live memories that match `where` and came or went since an earlier call.

        `seen` is `Turnover.seen` of the earlier call, None for a first call. The cost grows with
        the number of changes. None is returned if more than `limit` memories became live.
        """
        # `seen` is the array that an earlier call of this method returned, or None.
        before = np.zeros(0, dtype=np.int64) if seen is None else cast("Ordinals", seen)
        with self._moment(tenant, EVERYTHING, self._catalogue.candidates) as now:
            found = now.found
            came, gone = _differing(before, found)
            memories: list[tuple[int, Memory]] = []
            unread: list[int] = []
            for ordinal in came.tolist():
                memory = self._shown(now.view, ordinal, tenant) if ordinal < now.end else None
                if memory is None:
                    unread.append(ordinal)
                elif matches(where, memory):
                    memories.append((ordinal, memory))
                    if len(memories) > limit:
                        return None
        # Ordinals that are newer than this view are examined in the next call.
        looked = found[~np.isin(found, unread)] if unread else found
        return Turnover(came=tuple(memories), gone=tuple(gone.tolist()), seen=looked)

    @contextmanager
    def _moment(
        self,
        tenant: Tenant,
        where: Filter,
        select: Callable[[Tenant, Filter, int, Reads], tuple[Selected, bool]],
    ) -> Generator[_Moment[Selected]]:
        """A view of the store together with the candidate rows of the same generation.

        Between a commit and the catalogue's update the two disagree, and an updated memory would be
        in neither, so this method waits until they agree. If the writer hangs in between, the hits
        that the store confirms are shown.
        """
        self._derived.wait()
        for patience in reversed(range(_PATIENCE)):
            stamp = self._catalogue.stamp
            found, exact = select(tenant, where, self._clock(), self.reads)
            with self._store.reading() as view:
                header = view.header()
                agreed = header is None or header.leaf_count == stamp == self._catalogue.stamp
                if agreed or not patience:
                    end, version = (header.next_ordinal, header.version) if header else (0, 0)
                    yield _Moment(view, end, version, found, exact)
                    return
            time.sleep(_PAUSE_S)

    def _joined(
        self, now: _Moment[Ordinals], tenant: Tenant, ordinals: Iterable[int]
    ) -> Iterator[Memory]:
        for ordinal in ordinals:
            memory = self._shown(now.view, ordinal, tenant) if ordinal < now.end else None
            if memory is not None:
                yield memory

    def history(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HistoryEntry, ...]:
        """The committed versions of one memory, oldest first; () if the tenant never had it.

        If the history is longer than `HISTORY_BYTES_MAX`, only the newest versions are returned,
        the first of them without the text before it. A memory of which a row does not match its
        digest has no history.
        """
        with self._store.reading() as view, suppress(StoreCorrupt):
            known = read_id(view, self._names.memory(tenant, memory_id))
            if known is None or known.status in _HIDDEN:
                return ()
            return history_of(chain(view, known.ordinal, HISTORY_BYTES_MAX, self.reads))
        return ()

    def search(
        self,
        tenant: Tenant,
        vector: bytes,
        where: Filter,
        limit: int,
        threshold: float,
        *,
        words: bytes = b"",
        exact: bool = False,
    ) -> tuple[Hit, ...]:
        """The live memories that match, best first: the hits of `searched` alone."""
        return self.searched(tenant, vector, where, limit, threshold, words=words, exact=exact).hits

    def searched(
        self,
        tenant: Tenant,
        vector: bytes,
        where: Filter,
        limit: int,
        threshold: float,
        *,
        words: bytes = b"",
        exact: bool = False,
        among: Sequence[int] | None = None,
        shows: Callable[[Memory], bool] | None = None,
    ) -> SearchAnswer:
        """The live memories that match, best first, with the facts for a replay.

        The score is that of docs/search.md: of the likeness, the question's hashed `words` and the
        trust in the memory's label. `threshold` is the least cosine. A memory over the cap of its
        origin (`storage.read.exposure`) comes last. Scores are exact. In a large store the choice
        of rows is approximate, and may depend on the merged segments. With `exact` every live row
        is compared, for replays and tests. `shows` returns whether a memory may be shown; the next
        ones take the places of those that may not. It is called on the calling thread, maybe twice
        for one memory. For operators: with `among` the newest rows with these ordinals are
        searched, those in quarantine too.

        Raises:
            BadVector: The vector is not a finite unit vector of the index's dimension.
            StoreUnavailable: The rows of a large store are still being read after the start.
        """
        with self._moment(tenant, where, self._catalogue.allowed) as now:
            view, live, by_ids = now.view, now.found, now.exact
            confirms, mask, counted = self._live, live, live
            if among is not None:
                mask = self._catalogue.mask(np.array(sorted(among), dtype=np.int64))
                # An operator's search of memories under quarantine finds them by words too.
                counted = self._catalogue.mask(np.union1d(*map(np.flatnonzero, (live, mask))))
                confirms = self._standing
            # Where the catalogue has tested all of the filter, no row is tested again.
            tests = None if by_ids and among is None else where
            restricted = self._origins.restricted(view)
            asked = _Searching(now, tenant, tests, limit, confirms, shows, restricted)
            candidates = Candidates(
                index=self._derived.index,
                vector=vector,
                words=self.asked_words(tenant, words, counted if where == EVERYTHING else None),
                allowed=mask,
                ranks=self._catalogue.ranks,
                trusts=partial(self._origins.trusts, view),
                threshold=threshold,
                exact=exact,
            )
            wanted = max(limit if by_ids else limit * _OVERFETCH, candidates_len(candidates.index))
            while True:
                found, rows, exhausted = candidates.found(wanted)
                placed, left = self._placed(asked, rows)
                # The search is repeated for more rows until it has as many hits as asked for, has
                # scored all allowed rows, or reaches a cosine below the threshold.
                if not placed.full and not exhausted and (not left or wanted < EXAMINED_MIN):
                    wanted = max(wanted * _OVERFETCH, EXAMINED_MIN if left else 0)
                    continue
                self._fill(placed, asked, left)
                if placed.full or exhausted:
                    room = AnswerRoom(ANSWER_BYTES_MAX)
                    fitting = room.taken([hit.memory for hit in placed.hits])
                    nearest = found if by_ids else _looked_at(found, placed, left)
                    return SearchAnswer(
                        hits=placed.hits[: len(fitting)],
                        nearest=tuple(nearest[:NEAREST_MAX]),
                        version=now.version,
                    )
                wanted *= _OVERFETCH

    def _placed(
        self, asked: _Searching, near: Iterable[RankedRow]
    ) -> tuple[Exposure, list[RankedRow]]:
        """The places of a search, filled up to the caps, and the hits over a cap, best first."""
        placed = Exposure(asked.limit, self._engine.ruleset.reads, asked.restricted)
        left: list[RankedRow] = []
        for row in near:
            if placed.full:
                break
            known, origin = self._origins.known(row.ordinal)
            if known and placed.is_over(origin):
                left.append(row)
                continue
            one = self._placing(asked, row)
            if one is not None and not placed.place(one):
                left.append(row)
        return placed, left

    def _fill(self, placed: Exposure, asked: _Searching, left: list[RankedRow]) -> None:
        """Fill the remaining places, without reading more memories than necessary."""
        for row in left:
            if placed.full:
                return
            one = self._placing(asked, row, capped=True)
            if one is not None:
                placed.fill(one)

    def _placing(
        self, asked: _Searching, ranked: RankedRow, *, capped: bool = False
    ) -> Placement | None:
        """The hit that the store confirms, with its origin and vector for the caps.

        None if it may not be shown, or a value of the memory does not match its digest.
        """
        view, ordinal, where, shows = asked.now.view, ranked.ordinal, asked.where, asked.shows
        if ordinal >= asked.now.end:
            return None
        try:
            confirmed = asked.confirms(view, ordinal, asked.tenant)
            if confirmed is None:
                return None
            memory = memory_of(*confirmed, ordinal=ordinal)
            if where is not None and not matches(where, memory):
                return None
            told = None if shows is not None and not shows(memory) else self._told(view, memory)
            if told is None:
                return None
            hit = ranked.hit(told, capped=capped)
            return self._origins.placing(view, confirmed[0], hit, asked.restricted)
        except StoreCorrupt:
            return None

    def entities(self, tenant: Tenant, offset: int = 0) -> EntityPage:
        """The ids under which live memories of a tenant are filed, by kind and name."""
        self._derived.wait()
        entities: list[Entity] = []
        # The ids are listed before the view is opened, so every listed row is in the view.
        listed = sorted(
            self._catalogue.entities(tenant, self._clock(), self.reads),
            key=lambda one: (one[0], one[1]),
        )
        left = ANSWER_BYTES_MAX
        with self._store.reading() as view:
            for kind, name, found in listed[offset:]:
                left -= _ENTITY_BYTES + len(kind) + len(name)
                if entities and left < 0:
                    break
                # Rows are read one at a time, because one id may name all memories of the tenant.
                first_at_ms, last_at_ms, count = _LATEST_MS, 0, 0
                for ordinal in found.tolist():
                    with suppress(StoreCorrupt):
                        row = read_row(view, ordinal)
                        first_at_ms = min(first_at_ms, row.created_at_ms)
                        last_at_ms = max(last_at_ms, row.at_ms)
                        count += 1
                entities.append(
                    Entity(
                        kind=kind,
                        name=name,
                        count=count,
                        first_at_ms=first_at_ms,
                        last_at_ms=last_at_ms,
                    )
                )
        cut = offset + len(entities) < len(listed)
        return EntityPage(total=len(listed), entities=tuple(entities), cut=cut)

    def status(self) -> StoreStatus:
        """A summary of the store that is cheap to make."""
        engine = self._engine
        header = engine.generation.header
        return StoreStatus(
            incarnation=header.incarnation_name,
            version=header.version,
            epoch=header.epoch,
            ruleset_digest=header.ruleset_digest,
            live_count=header.live_count,
            held_count=header.held_count,
            held_since_ms=engine.parts.judge.waiting.oldest_ms,
            leaf_count=header.leaf_count,
            bytes_used=engine.generation.bytes_used,
            bytes_quota=self._store.quota_bytes,
            writable=writable(engine),
            retrying=engine.broken is None and engine.refused is not None,
            observing=engine.parts.judge.observing,
            staged_in=engine.parts.staging.place,
            reason=notice(engine),
            mismatched=len(self._store.digests.mismatched),
        )

    def check(self, embed: Embed | None = None) -> CheckReport:
        """Read the whole store; report what the gate did not write. Takes seconds for a large one.

        `embed` makes vectors of texts, as the store's own embedder; then each stored vector of that
        embedder is compared with its text's.
        """
        return check_store(self._engine, embed)


class _Moment(NamedTuple, Generic[Selected]):
    """One generation of the store, with the rows that a read selected in the catalogue.

    `end` is the first ordinal after those of the view; an index may have rows that were committed
    later. `exact`: all selected rows are certain to match the filter.
    """

    view: View
    end: int
    version: int
    found: Selected
    exact: bool


class _Searching(NamedTuple):
    """The arguments of one search of memories.

    `where` is None if the catalogue has tested all of the filter. `confirms` returns the row of an
    ordinal and its memory's status if the row may be shown, else None. `shows` returns whether the
    caller lets a memory be shown, `restricted` whether an origin is latched or on probation.
    """

    now: _Moment[Mask]
    tenant: Tenant
    where: Filter | None
    limit: int
    confirms: Callable[[View, int, Tenant], tuple[Row, MemoryStatus] | None]
    shows: Callable[[Memory], bool] | None
    restricted: Callable[[ExposureOrigin], bool]


def _looked_at(found: list[int], placed: Exposure, left: list[RankedRow]) -> list[int]:
    """The rows that the search read and the filter accepts, best first."""
    read = {hit.memory.ordinal for hit in placed.hits} | {one.ordinal for one in left}
    return [ordinal for ordinal in found if ordinal in read]


def _differing(before: Ordinals, now: Ordinals) -> tuple[Ordinals, Ordinals]:
    """The entries of the second list alone, and those of the first alone; both lists ascend."""
    # Usually no entry was removed, and the new ones are at the end, so this case is tried first.
    if len(now) >= len(before) and np.array_equal(now[: len(before)], before):
        return now[len(before) :], before[:0]
    came = np.setdiff1d(now, before, assume_unique=True)
    return came, np.setdiff1d(before, now, assume_unique=True)
