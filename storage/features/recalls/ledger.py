"""The recall ledger of an open store: a bounded queue, a thread that writes, and readers.

No request waits for this evidence, so a record that the disk refuses is counted and dropped.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from policy.model import Memory, MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.derived.lexical.analysis import unpacked
from storage.features.recalls import (
    NEAREST_MAX,
    ContextSpan,
    InContext,
    LaterHits,
    Recall,
    RecalledMemory,
    RecallOptions,
    ReplyRecord,
)
from storage.features.recalls.packed import (
    PackedInContext,
    PackedRecall,
    PackedReply,
    Private,
    decode_private,
    decode_recall,
    decode_reply,
    encode,
    pack_ordinals,
    pack_scores,
    pack_vector,
    unpack_ordinals,
    unpack_scores,
)
from storage.ground.errors import StorageError, StoreCorrupt
from storage.ground.randomness import random_bytes
from storage.sealed_log.sealed_file import FileKey, Frame, Record
from storage.sealed_log.sealed_segments import Segments
from storage.tables.codec import NO_ORDINAL, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LmdbStore, View
from storage.tables.names import ROWS
from storage.tables.rows import memory_of, read_id, read_row
from storage.values import Row

_ID: Final = re.compile(r"[0-9a-f]{16}")
_HALF_LEN: Final = 4
_RANDOM_LEN: Final = 3
_NUMBER_LEN: Final = 2 * _HALF_LEN - _RANDOM_LEN
_ROUNDS: Final = range(4)


class RecallIds:
    """Encrypts record numbers into ids, and decrypts the ids again. Any thread."""

    def __init__(self, store_key: bytes) -> None:
        self._key = blake2b(b"recall ids", digest_size=32, key=store_key).digest()

    def of(self, number: int) -> bytes:
        """A new id of 8 bytes for the number of a record, which is less than 2**40."""
        block = random_bytes(_RANDOM_LEN) + number.to_bytes(_NUMBER_LEN, "big")
        left, right = block[:_HALF_LEN], block[_HALF_LEN:]
        for turn in _ROUNDS:
            left, right = right, self._mixed(turn, left, right)
        return left + right

    def number(self, recall_id: str) -> int | None:
        """The number in an id, even if no record has it; None for a string that is no id."""
        if _ID.fullmatch(recall_id) is None:
            return None
        block = bytes.fromhex(recall_id)
        left, right = block[:_HALF_LEN], block[_HALF_LEN:]
        for turn in reversed(_ROUNDS):
            left, right = self._mixed(turn, right, left), left
        return int.from_bytes((left + right)[_RANDOM_LEN:], "big")

    def _mixed(self, turn: int, half: bytes, by: bytes) -> bytes:
        pad = blake2b(bytes((turn,)) + by, digest_size=_HALF_LEN, key=self._key).digest()
        mixed = int.from_bytes(half, "big") ^ int.from_bytes(pad, "big")
        return mixed.to_bytes(_HALF_LEN, "big")


QUEUE_MAX: Final = 10_000
TEXTS_MAX: Final = 4 * 1024 * 1024
"""The most characters of texts that may wait for a search for hits, of all queued records."""
LINGER_S: Final = 0.1
"""How long the thread waits for more records, so that a busy store writes few batches.

A batch costs as much processor time as two records, and slows requests down at that moment."""
_BATCH_LEN: Final = 256
_PATIENCE_S: Final = 1.0
_STOP_S: Final = 5.0
REFUSED_MS: Final = 60_000
"""How long the ledger writes nothing after the disk refused a record."""
_FORGET_EVERY_MS: Final = 3_600_000
_DAY_MS: Final = 24 * 3_600_000
_RECALL, _REPLY = 1, 3
_NO_TAG: Final = bytes(8)

Noted = Recall | ReplyRecord
_Waiting = tuple[int, bytes, Noted, "LaterHits | None"]


class RecallLedger:
    """Writes records on a thread of its own, and reads them back.

    The thread starts with the first record; call `stop` after the last one.
    """

    def __init__(
        self,
        directory: Path,
        store: LmdbStore,
        names: KeyedNames,
        store_key: bytes,
        *,
        incarnation: str,
        clock: Callable[[], int],
        options: RecallOptions,
    ) -> None:
        """`clock` returns Unix milliseconds. No file is created before the first record."""
        self._store = store
        self._names = names
        self._tags = blake2b(b"reply ids", digest_size=32, key=store_key).digest()
        self._ids = RecallIds(store_key)
        self._clock = clock
        self._options = options
        self._segments = Segments(directory, store_key, incarnation, options.count_max)
        self._queue: deque[_Waiting] = deque()
        # Characters of texts ever queued, and ever taken out; one thread alone changes each number.
        self._texts_came = self._texts_went = 0
        self._next = self._segments.next_number
        self._written = self._next
        self._progress = threading.Condition()
        self._wake = threading.Event()
        # Set when a reader waits for the records that were noted.
        self._hurry = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        # How many records were dropped since the start, because the queue or the disk was full.
        self.dropped_count = 0
        self._forgotten_ms = 0
        self._refused_ms: int | None = None
        self._writing = threading.Lock()  # of segments

    # ---- adding records to the ledger ------------------------------------------------------------

    def stop(self) -> None:
        """Write the queued records and end the thread. Blocks."""
        self._stopping = True
        self._hurry.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._segments.close()

    def note(self, record: Noted, later: LaterHits | None = None) -> str:
        """Queue a record; return its id, or "" if it is dropped. Never waits. Event loop only.

        `later` finds the hits of a recall that has none yet. The id field of a recall is ignored.
        """
        if not self._options.count_max:
            return ""
        length = 0 if later is None else later.char_count
        no_room = self._texts_came - self._texts_went + length > TEXTS_MAX
        if len(self._queue) >= QUEUE_MAX or no_room or self._stopping:
            self.dropped_count += 1
            return ""
        self._texts_came += length
        number, self._next = self._next, self._next + 1
        name = self._ids.of(number)
        self._queue.append((number, name, record, later))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mnemogate-recalls", daemon=True)
            self._thread.start()
        if not self._wake.is_set():
            self._wake.set()
        return name.hex()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._hurry.wait(LINGER_S)
            self._hurry.clear()
            self._wake.clear()
            while self._queue:
                self._write(
                    [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH_LEN))]
                )
            if self._stopping:
                return

    def _write(self, batch: list[_Waiting]) -> None:
        now_ms = self._clock()
        found = [(*one[:2], record) for one in batch if (record := self._found(one)) is not None]
        try:
            with self._writing:
                if found:
                    self._append(found, now_ms)
        except OSError:
            self.dropped_count += len(found)
            self._refused_ms = self._refused_ms or now_ms
        except StorageError:
            self.dropped_count += len(found)
        self._forget(now_ms)
        with self._progress:
            self._written = batch[-1][0] + 1
            self._progress.notify_all()

    def _found(self, waiting: _Waiting) -> Noted | None:
        """The record with the hits that `later` found; None if it found none."""
        _, _, record, later = waiting
        if later is None or isinstance(record, ReplyRecord):
            return record
        hits = later.find()
        self._texts_went += later.char_count
        time.sleep(0)
        return msgspec.structs.replace(record, hits=hits) if hits else None

    def erase(
        self,
        tenant: Tenant,
        person: PrincipalId | None,
        sessions: Collection[str],
        until_ms: int,
        *,
        dry_run: bool = False,
    ) -> int:
        """Erase the records of a person's reads and replies up to a time; return how many.

        With `dry_run` they are only counted. Blocks; OSError is raised if the disk refuses.
        """
        self._caught_up()

        def drops(frame: Frame, plain: bytes) -> bool:
            packed = decode_recall(plain) if frame.kind == _RECALL else decode_reply(plain)
            of_person = packed.principal_id == person or packed.session in sessions
            return of_person and packed.tenant == tenant and frame.at_ms <= until_ms

        with self._writing:
            return self._segments.drop(drops, dry_run=dry_run)

    def _append(self, batch: list[tuple[int, bytes, Noted]], now_ms: int) -> None:
        self._require_disk(now_ms)
        key = self._segments.key(batch[0][0], now_ms)
        entries: list[Record] = []
        with self._store.reading() as view:
            rows = _NewestRows(view, self._names)
            for number, name, record in batch:
                entries.append(self._packed(rows, key, number, name, record))
                # Packing holds the interpreter's lock; the event loop may run after each record.
                time.sleep(0)
        self._segments.append(entries)
        self._refused_ms = None

    def _require_disk(self, now_ms: int) -> None:
        """Raise OSError if the disk refused a record less than `REFUSED_MS` ago.

        Each attempt to write would create and remove two files.
        """
        since = self._refused_ms
        if since is not None and 0 <= now_ms - since < REFUSED_MS:
            raise OSError(errno.ENOSPC, "the disk refused a record a moment ago")
        self._refused_ms = None

    def _forget(self, now_ms: int) -> None:
        if 0 <= now_ms - self._forgotten_ms < _FORGET_EVERY_MS:
            return
        try:
            self._segments.forget(now_ms - self._options.keep_days * _DAY_MS, self._next)
        except OSError:
            # The next batch tries again; reads leave out records that are too old.
            return
        self._forgotten_ms = now_ms

    def _packed(
        self, rows: _NewestRows, key: FileKey, number: int, name: bytes, record: Noted
    ) -> Record:
        if isinstance(record, Recall):
            sealed = self._recall(rows, key, number, name, record)
            return Record(_RECALL, number, record.at_ms, _NO_TAG, sealed)
        tag = self._tag(record.tenant, record.reply_id)
        return Record(_REPLY, number, record.at_ms, tag, self._reply(rows, record))

    def _recall(
        self, rows: _NewestRows, key: FileKey, number: int, name: bytes, record: Recall
    ) -> bytes:
        ordinals = [rows.ordinal(record.tenant, one) for one in record.hits]
        private = b""
        if record.vector is not None and record.where is not None:
            query = record.query if self._options.keep_queries else None
            told = encode(Private(pack_vector(record.vector), record.where, query, record.words))
            salts = _salts(rows.view, ordinals)
            private = b"" if salts is None else key.seal_inner(number, salts, told)
        return encode(
            PackedRecall(
                name,
                record.tenant,
                record.principal_id,
                record.front,
                record.operation,
                record.session,
                record.version,
                blake2b(encode(record.where), digest_size=8, key=self._tags).digest(),
                record.limit,
                pack_ordinals(ordinals),
                pack_scores([one.score for one in record.hits]),
                pack_ordinals(record.nearest[:NEAREST_MAX]),
                private,
            )
        )

    def _reply(self, rows: _NewestRows, record: ReplyRecord) -> bytes:
        memories = tuple(
            PackedInContext(
                rows.ordinal(record.tenant, one),
                bytes.fromhex(one.recall_id),
                tuple((span.where, span.start, span.end) for span in one.spans),
            )
            for one in record.memories
        )
        return encode(
            PackedReply(
                reply_id=record.reply_id,
                at_ms=record.at_ms,
                tenant=record.tenant,
                principal_id=record.principal_id,
                model=record.model,
                session=record.session,
                turn=record.turn,
                memories=memories,
                calls=record.calls,
                incomplete=record.incomplete,
            )
        )

    def _tag(self, tenant: Tenant, reply_id: str) -> bytes:
        told = f"{tenant}\0{reply_id}".encode("utf-8", "surrogatepass")
        return blake2b(told, digest_size=8, key=self._tags).digest()

    # ---- reading records of the ledger -----------------------------------------------------------

    @property
    def kept_since_ms(self) -> int:
        """The time of the oldest stored record; the present time if there is none."""
        self._caught_up()
        now_ms = self._clock()
        oldest = self._segments.oldest_ms()
        return now_ms if oldest is None else max(oldest, self._cutoff_ms())

    def recall(self, recall_id: str) -> Recall | None:
        """One recall by its id; None if it is not stored."""
        self._caught_up()
        return next(iter(self._by_id({recall_id})), None)

    def reply(self, tenant: Tenant, reply_id: str) -> ReplyRecord | None:
        """One reply of the tenant, by the API's own id; None if it is not stored."""
        self._caught_up()
        tag = self._tag(tenant, reply_id)
        for frame in self._segments.tagged(tag, self._cutoff_ms()):
            if frame.kind == _REPLY:
                found = self._read_reply(frame)
                if found is not None and (found.tenant, found.reply_id) == (tenant, reply_id):
                    return self._complete(found)
        return None

    def recalls(
        self,
        tenant: Tenant,
        *,
        session: str | None = None,
        memory_id: MemoryId | None = None,
        since_ms: int = 0,
        limit: int = 100,
    ) -> tuple[Recall, ...]:
        """Recalls of a tenant, newest first: of a session, or with a memory among the hits."""
        self._caught_up()
        ordinals = self._rows_of(tenant, memory_id)
        found: list[Recall] = []
        named: set[str] = set()
        for frame in self._segments.newest_first(max(since_ms, self._cutoff_ms())):
            if len(found) >= limit:
                break
            if frame.kind == _REPLY and session is not None:
                # A reply's record is newer than the records of the reads that served its memories.
                reply = self._read_reply(frame)
                if reply is not None and (reply.tenant, reply.session) == (tenant, session):
                    named.update(one.recall_id for one in reply.memories)
            elif frame.kind == _RECALL:
                one = self._read_recall(frame, ordinals)
                if one is None or one.tenant != tenant:
                    continue
                if session is None or one.session == session or one.recall_id in named:
                    found.append(one)
        return tuple(found)

    def memories(self, tenant: Tenant, ordinals: Sequence[int]) -> dict[int, Memory]:
        """Map each ordinal to its row's memory, also a hidden or deleted one; for operators."""
        found: dict[int, Memory] = {}
        with self._store.reading() as view:
            for ordinal in ordinals:
                row = _row(view, ordinal)
                if row is not None and row.tenant == tenant:
                    known = read_id(view, self._names.memory(tenant, row.memory_id))
                    status = MemoryStatus.DELETED if known is None else known.status
                    found[ordinal] = memory_of(row, status, ordinal=ordinal)
        return found

    def _caught_up(self) -> None:
        due = self._next
        with self._progress:
            if self._written < due:
                self._hurry.set()
            self._progress.wait_for(lambda: self._written >= due, _PATIENCE_S)

    def _cutoff_ms(self) -> int:
        return self._clock() - self._options.keep_days * _DAY_MS

    def _rows_of(self, tenant: Tenant, memory_id: MemoryId | None) -> frozenset[int] | None:
        """The ordinals of all rows of a memory; None if `memory_id` is None."""
        if memory_id is None:
            return None
        ordinals: set[int] = set()
        with self._store.reading() as view, suppress(StoreCorrupt):
            known = read_id(view, self._names.memory(tenant, memory_id))
            ordinal = NO_ORDINAL if known is None else known.ordinal
            while ordinal != NO_ORDINAL:
                ordinals.add(ordinal)
                ordinal = read_row(view, ordinal).prev_ordinal
        return frozenset(ordinals)

    def _by_id(self, recall_ids: set[str]) -> Iterator[Recall]:
        """The recalls with the given ids that are still stored."""
        found_numbers = map(self._ids.number, recall_ids)
        numbers = {number for number in found_numbers if number is not None}
        for frame in self._segments.of(numbers):
            found = self._read_recall(frame) if frame.kind == _RECALL else None
            if found is not None and found.recall_id in recall_ids:
                yield found

    def _complete(self, reply: ReplyRecord) -> ReplyRecord:
        """The reply, marked incomplete if a recall that it names is not stored any more."""
        asked = {one.recall_id for one in reply.memories if one.recall_id}
        kept = {one.recall_id for one in self._by_id(asked)}
        if asked <= kept:
            return reply
        memories = tuple(
            one if one.recall_id in kept else msgspec.structs.replace(one, recall_id="")
            for one in reply.memories
        )
        return msgspec.structs.replace(reply, memories=memories, incomplete=True)

    def _read_recall(self, frame: Frame, among: frozenset[int] | None = None) -> Recall | None:
        """Decode a recall; None if it is too old, or (with `among`) served none of those rows."""
        plain = frame.plain()
        if plain is None or frame.at_ms < self._cutoff_ms():
            return None
        packed = decode_recall(plain)
        ordinals = unpack_ordinals(packed.ordinals)
        if among is not None and among.isdisjoint(ordinals):
            return None
        scores = unpack_scores(packed.scores, len(ordinals))
        private: Private | None = None
        with self._store.reading() as view:
            names = [_name(view, packed.tenant, one) for one in ordinals]
            salts = _salts(view, ordinals)
        if packed.private and salts is not None:
            told = frame.key.unseal_inner(frame.number, salts, packed.private)
            private = None if told is None else decode_private(told)
        return Recall(
            recall_id=packed.recall_id.hex(),
            at_ms=frame.at_ms,
            tenant=packed.tenant,
            principal_id=packed.principal_id,
            front=packed.front,
            operation=packed.operation,
            session=packed.session,
            version=packed.version,
            filter_digest=packed.filter_digest.hex(),
            limit=packed.limit,
            hits=tuple(
                RecalledMemory(ordinal=ordinal, memory_id=name, score=score)
                for ordinal, name, score in zip(ordinals, names, scores, strict=True)
            ),
            nearest=unpack_ordinals(packed.nearest),
            vector=None if private is None else private.vector,
            where=None if private is None else private.where,
            query=None if private is None else private.query,
            words=b"" if private is None else private.words,
            by_vector=private is not None and unpacked(private.words) is None,
        )

    def _read_reply(self, frame: Frame) -> ReplyRecord | None:
        plain = frame.plain()
        if plain is None or frame.at_ms < self._cutoff_ms():
            return None
        packed = decode_reply(plain)
        with self._store.reading() as view:
            names = [_name(view, packed.tenant, one.ordinal) for one in packed.memories]
        return ReplyRecord(
            reply_id=packed.reply_id,
            at_ms=frame.at_ms,
            tenant=packed.tenant,
            principal_id=packed.principal_id,
            model=packed.model,
            session=packed.session,
            turn=packed.turn,
            memories=tuple(
                InContext(
                    ordinal=one.ordinal,
                    memory_id=name,
                    recall_id=one.recall_id.hex(),
                    spans=tuple(
                        ContextSpan(where=at, start=start, end=end) for at, start, end in one.spans
                    ),
                )
                for one, name in zip(packed.memories, names, strict=True)
            ),
            calls=packed.calls,
            incomplete=packed.incomplete,
        )


class _NewestRows:
    """The ordinals of the newest rows of memories, in one snapshot of the store."""

    def __init__(self, view: View, names: KeyedNames) -> None:
        self.view = view
        self._names = names
        self._found: dict[tuple[Tenant, MemoryId], int] = {}  # a cache: answers repeat memories

    def ordinal(self, tenant: Tenant, one: RecalledMemory | InContext) -> int:
        """The ordinal that was noted, or else the ordinal of the memory's newest row."""
        if one.ordinal != NO_ORDINAL or one.memory_id is None:
            return one.ordinal
        found = self._found.get((tenant, one.memory_id))
        if found is None:
            known = read_id(self.view, self._names.memory(tenant, one.memory_id))
            found = NO_ORDINAL if known is None else known.ordinal
            self._found[tenant, one.memory_id] = found
        return found


def _row(view: View, ordinal: int) -> Row | None:
    """The row with this ordinal, if it still has content; otherwise None."""
    with suppress(StoreCorrupt):
        row = None if ordinal < 0 else view.read(ROWS, ordinal_key(ordinal))
        return None if row is None or row.erased else row
    return None


def _name(view: View, tenant: Tenant, ordinal: int) -> MemoryId | None:
    row = _row(view, ordinal)
    return row.memory_id if row is not None and row.tenant == tenant else None


def _salts(view: View, ordinals: Iterable[int]) -> list[bytes] | None:
    """The salts of the rows with these ordinals, in order; None if one of them was purged."""
    rows = [_row(view, one) for one in ordinals]
    return None if None in rows else [row.salt for row in rows if row is not None]
