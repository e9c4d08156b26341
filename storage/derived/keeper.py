"""The catalogue and the vector index: built from rows at start, then updated with each write.

The rows of a small store are read before it opens. A large store opens at once, because writes do
not need all rows: they are judged and durable while rows are still being read, and their changes
are queued. Reads that need all rows wait until then; no read answers from a part of the rows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import msgspec

from storage.derived.catalogue import Catalogue
from storage.derived.lexical.analysis import WordHashes
from storage.derived.recovery import derive, load_index
from storage.derived.vectors.faiss_index import VectorIndex
from storage.derived.vectors.segment_files import UNFINISHED, SegmentFiles
from storage.ground.errors import StorageError, StoreCorrupt, StoreUnavailable
from storage.tables.change import IndexChanges
from storage.tables.codec import StoreHeader
from storage.tables.lmdb_store import LmdbStore, View

LOAD_BESIDE_LEN: Final = 20_000
"""The number of rows above which a store opens before its rows are read."""
PATIENCE_S: Final = 20.0
"""The seconds that a reader waits until all rows of a large store are loaded."""
WARMING: Final = "the rows are being read; searches and listings wait for that"
_NICE: Final = 10
_SUBJECT: Final = "warming"


class DerivedState:
    """The catalogue and the index of one open store.

    Only the writer thread calls `follow` and `drop`; any other thread may call `wait`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        index: VectorIndex,
        files: SegmentFiles,
        remarks: dict[str, str],
        words: WordHashes,
    ) -> None:
        self.catalogue = catalogue
        self.index = index
        self.files = files
        self.words = words
        # Remarks for an operator, keyed by subject; the engine adds to the same mapping.
        self.remarks = remarks
        self._complete = threading.Event()
        self._failure: str | None = None
        self._lock = threading.Lock()
        self._later: list[tuple[StoreHeader, IndexChanges]] = []
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._improved: object = None
        self._saved: tuple[tuple[int, int], ...] = ()

    # ---- reading all rows at start ---------------------------------------------------------------

    def load(self, store: LmdbStore, header: StoreHeader, failed: Callable[[str], None]) -> None:
        """Read every row; for a large store on a new thread, which calls `failed` with an error.

        Raises:
            StoreCorrupt: A row, an id or a vector of a small store is missing or damaged.
            BadVector: A stored vector is not a finite unit vector.
            OSError: The directory of the index cannot be used.
        """
        if header.next_ordinal <= LOAD_BESIDE_LEN:
            with store.reading() as view:
                self._read(view, header)
            return
        self.remarks[_SUBJECT] = WARMING
        # The view is opened before the writer continues; later commits arrive through `follow`.
        with ExitStack() as stack:
            view = stack.enter_context(store.reading())
            held = stack.pop_all()
        self._start("mnemogate-load", lambda: self._load_beside(view, held, header, failed))

    def _load_beside(
        self, view: View, held: ExitStack, header: StoreHeader, failed: Callable[[str], None]
    ) -> None:
        # The rows count as unreadable before the reading starts: if this thread dies, readers must
        # get an error and no partial answer.
        self._failure = "the rows could not be read to the end"
        try:
            with held:
                self._read(view, header)
        except (StorageError, OSError, msgspec.MsgspecError) as error:
            self._failure = str(error)
        finally:
            self.remarks.pop(_SUBJECT, None)
            failure = self._why()
            if failure is not None:
                failed(f"the rows cannot be read: {failure}")
            self._complete.set()

    def _why(self) -> str | None:
        """The reason why the rows could not all be read; None if there is no error."""
        return self._failure

    def _read(self, view: View, header: StoreHeader) -> None:
        found = derive(view, header.embedder_id, self.catalogue, lambda: self._stopping)
        loaded = load_index(view, self.files, found.searchable, self.index, self.words)
        # A file that a kill left half written is no segment, and the store lost nothing with it.
        torn = [one.reason for one in loaded.rejected if one.reason != UNFINISHED]
        if torn:
            self.remarks["index"] = (
                f"files of the index that did not fit the store: {len(torn)} "
                f"({', '.join(sorted(set(torn)))}); they were made again from the store"
            )
        if found.foreign:
            self.remarks["embedder"] = (
                f"memories with vectors of another embedder ({', '.join(sorted(found.foreign))}) "
                f"than {header.embedder_id}: {found.foreign.total()}; they are listed, but no "
                "search finds them: set `embedder` as before, or write them again"
            )
        self.catalogue.stamp = header.leaf_count
        self._saved = self._shape()
        while True:
            with self._lock:
                if not self._later:
                    self._failure = None
                    self._complete.set()
                    return
                steps, self._later = self._later, []
            for step in steps:
                self._apply(*step)

    @property
    def complete(self) -> bool:
        """Whether all rows of the store were read."""
        return self._complete.is_set()

    def wait(self, patience_s: float | None = None) -> None:
        """Wait until all rows are read, for `patience_s` or `PATIENCE_S` seconds.

        Raises:
            StoreUnavailable: The rows are still being read after that time.
            StoreCorrupt: The rows cannot be read.
        """
        if not self._complete.wait(PATIENCE_S if patience_s is None else patience_s):
            raise StoreUnavailable(WARMING)
        if self._failure is not None:
            raise StoreCorrupt(self._failure)

    # ---- keeping in step with the writer ---------------------------------------------------------

    def follow(self, header: StoreHeader, changes: IndexChanges) -> None:
        """Apply a durable transaction; at once, or after the rows of the start have been read."""
        if not self._complete.is_set():
            with self._lock:
                if not self._complete.is_set():
                    self._later.append((header, changes))
                    return
        self._apply(header, changes)

    def _apply(self, header: StoreHeader, changes: IndexChanges) -> None:
        embedder_id = header.embedder_id
        searchable = [
            added
            for added in changes.added
            if added.vector and added.row.embedder_id == embedder_id
        ]
        self.index.extend(
            [(added.ordinal, added.vector) for added in searchable],
            [self.words.of(added.row.tenant, added.text) for added in searchable],
            # The writer checks vectors before it judges their candidates.
            checked=True,
        )
        catalogue = self.catalogue
        catalogue.stamp = -1
        for added in changes.added:
            if added.shown:
                catalogue.add(added.ordinal, added.row)
        # Removals come after additions, because a row of this transaction may be replaced in the
        # same transaction.
        newer = {one.row.prev_ordinal: (one.ordinal, one.row) for one in changes.added if one.shown}
        for ordinal, row in changes.superseded:
            if ordinal in newer:
                catalogue.supersede(ordinal, row, newer[ordinal])
            else:
                catalogue.retire(ordinal, row)
        for added in changes.added:
            if added.before is not None and not added.shown:
                catalogue.follow(added.row.prev_ordinal, added.before, (added.ordinal, added.row))
        for ordinal, row in changes.raised:
            catalogue.retire(ordinal, row)
        for ordinal, row in (*changes.readmitted, *changes.raised):
            catalogue.readmit(ordinal, row)
        catalogue.stamp = header.leaf_count

    def drop(self, ordinals: Sequence[int]) -> None:
        """Remove the vectors and words of purged rows from memory and from every file.

        Raises:
            OSError: A file could not be rewritten.
            StorageError: The rows are still being read, or cannot be read.
        """
        self.wait()
        self.words.forget()
        self.files.drop(self.index, ordinals)

    # ---- work beside the writing of memories -----------------------------------------------------

    def improve_beside(self) -> None:
        """Merge and sketch new segments of the index on another thread, if there are any.

        Writer thread only; cheap if no segment is new.
        """
        segments = self.index.segments
        if (
            not self.complete
            or segments is self._improved
            or any(thread.is_alive() for thread in self._threads)
        ):
            return
        self._improved = segments
        self._start("mnemogate-index", self._improve)

    def _improve(self) -> None:
        with suppress(OSError):
            # A low priority: without merging, only searches of new rows are slower, so writes come
            # first.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while not self._stopping and self.index.improve():
            pass

    def save(self) -> None:
        """Write sealed segments to disk; if that fails, only the next start takes longer."""
        if not self.complete:
            return
        try:
            self.files.save(self.index)
        except OSError as error:
            self.remarks["segments"] = f"the index cannot be saved: {error.strerror}"
        else:
            self.remarks.pop("segments", None)

    def save_beside(self) -> None:
        """Write sealed segments to disk on another thread, so that the writer does not wait."""
        shape = self._shape()
        if self.complete and shape != self._saved:
            self._saved = shape
            threading.Thread(target=self.save, name="mnemogate-snapshot", daemon=True).start()

    def _shape(self) -> tuple[tuple[int, int], ...]:
        return tuple((int(one.ordinals[0]), len(one.ordinals)) for one in self.index.segments)

    def stop(self) -> None:
        """End the background threads; blocks until each has finished its current step."""
        self._stopping = True
        for thread in self._threads:
            thread.join()

    def _start(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()
