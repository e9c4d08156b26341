"""Composition of the embedded engine: LMDB as the truth, FAISS beside it, one writer thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from storage.audit import VerifierKey
from storage.catalogue import Catalogue
from storage.checkpoint_copy import CheckpointCopy
from storage.derived import DerivedState
from storage.engine import Engine, Parts
from storage.errors import StoreUnavailable
from storage.faiss_index import SEGMENT_LEN, VectorIndex
from storage.following import Followed
from storage.formats import Upgrade
from storage.forwarding import Forwards
from storage.judging import Judge
from storage.keys import KeyedNames
from storage.lmdb_store import LmdbStore
from storage.operating import Operating
from storage.pinning import Pins
from storage.quarantine import Quarantined
from storage.reading import EmbeddedReader
from storage.recovery import (
    THE_STORE,
    found,
    load,
    with_embedder,
    with_incarnation,
)
from storage.retaining import Retained
from storage.segment_files import Identity, SegmentFiles
from storage.staging import Staging
from storage.statedir import StateDirectory
from storage.usage import Usage
from storage.writer import EmbeddedWriter, WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.gate import Gate
    from policy.model import PrincipalId
    from policy.ruleset import Ruleset
    from storage.change import Generation
    from storage.interfaces import Failpoint
    from storage.statedir import Secrets

_GIB: Final = 1024**3


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, and the name that the audit log signs under (no spaces, no plus sign)."""

    quota_bytes: int = 8 * _GIB
    staging_quota_bytes: int = _GIB // 2
    # How much of the quota one tenant may take; 1 and more: all of it.
    tenant_share: float = 1.0
    origin: str = "mnemogate"
    segment_len: int = SEGMENT_LEN
    # The directory was put back from a backup on purpose: a new incarnation begins, nonces of the
    # one before are refused, and the checkpoint outside is written anew.
    restored: bool = False
    # What the leaf of the restoring says, and who did it.
    restore_detail: str = ""
    restored_by: PrincipalId = THE_STORE
    # False for a command on a stopped state: it is no change of mode.
    adopts_mode: bool = True
    writer: WriterOptions = WriterOptions()


class _Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a store lives, and what judges it."""

    state: Path
    checkpoint: Path
    gate: Gate
    ruleset: Ruleset
    embedder_id: str
    dimension: int
    clock: Callable[[], int]
    failpoint: Failpoint
    options: EmbeddedOptions


def _no_failpoint(name: str) -> None:
    """What ships: crash points that do nothing."""
    del name


class EmbeddedStore:
    """An open store. `close` gives the directory back; nothing may be used after it."""

    def __init__(
        self,
        directory: StateDirectory,
        engine: Engine,
        writer: EmbeddedWriter,
        secrets: Secrets,
    ) -> None:
        self._directory = directory
        self._engine = engine
        self.writer = writer
        self.reader = EmbeddedReader(engine)
        self.secrets = secrets
        self.forwards = Forwards(engine, writer)
        self.followed = Followed(engine)
        self.pins = Pins(engine, writer)
        self.retained = Retained(engine.parts.store, engine.parts.names)
        self.quarantined = Quarantined(engine.parts.store, engine.parts.names)

    @property
    def staging(self) -> Staging:
        """Where candidates wait; a test alters them here (MWP 3.2, attack A5)."""
        return self._engine.parts.staging

    @property
    def ruleset(self) -> Ruleset:
        """The ruleset in force, with its epoch."""
        return self._engine.ruleset

    @property
    def time_ms(self) -> int:
        """The latest time at which anything was written; it is later now, whatever a clock says."""
        return self._engine.generation.header.time_ms

    @property
    def log_verifier(self) -> VerifierKey:
        """What checkpoints of the audit log are verified with."""
        return VerifierKey.of(self._engine.parts.origin, self._engine.parts.signer)

    @property
    def lmdb(self) -> LmdbStore:
        """The tables, for reading the audit log; what is written goes through `writer`."""
        return self._engine.parts.store

    @property
    def improving(self) -> bool:
        """Whether the index has segments that are not yet merged, or without a sketch."""
        return self._engine.parts.derived.index.improvable

    def settle(self, patience_s: float) -> None:
        """Return when every row of a large store is read. Blocks.

        Raises:
            StoreUnavailable: Not within that time.
            StoreCorrupt: They cannot be read.
        """
        self._engine.parts.derived.wait(patience_s)

    def close(self) -> None:
        """Finish what is queued, write the checkpoint copy, and give the directory back. Blocks.

        A writer that hangs keeps the directory until the process ends: it may yet write.
        """
        if not self.writer.stop():
            return
        self._engine.parts.derived.stop()
        self._engine.parts.staging.close()
        self._engine.parts.store.shut()
        self._directory.close()


def open_embedded(  # noqa: PLR0913 - the seam where all the parts come together
    *,
    state: Path,
    checkpoint: Path,
    gate: Gate,
    ruleset: Ruleset,
    embedder_id: str,
    dimension: int,
    clock: Callable[[], int],
    failpoint: Failpoint = _no_failpoint,
    options: EmbeddedOptions | None = None,
) -> EmbeddedStore:
    """Open or create a store, repair what a crash left, and start its writer. Blocks.

    `clock` gives Unix milliseconds; `checkpoint` is the file that the last signed tree head is
    copied to, outside `state`.

    Raises:
        StoreLocked: Another gate holds the directory.
        StoreCorrupt: Something on disk is damaged.
        StoreRolledBack: The checkpoint outside the store is not of this store's past.
        StoreUnavailable: The disk refused.
    """
    opening = _Opening(
        state=state,
        checkpoint=checkpoint,
        gate=gate,
        ruleset=ruleset,
        embedder_id=embedder_id,
        dimension=dimension,
        clock=clock,
        failpoint=failpoint,
        options=options or EmbeddedOptions(),
    )
    return _open(opening)


def _open(opening: _Opening) -> EmbeddedStore:
    options = opening.options
    directory = StateDirectory(opening.state)
    store = LmdbStore(directory.store, options.quota_bytes)
    staging: Staging | None = None
    complete = False
    try:
        secrets = directory.secrets()
        store.open(bootstrapped=directory.bootstrapped)
        Upgrade(store, secrets.log_signer(), options.origin, opening.clock).run()
        staging = Staging(directory.staging, directory.held_keys, options.staging_quota_bytes)
        opened = _Assembly(opening, secrets).assemble(directory, store, staging)
        complete = True
    except OSError as error:
        raise StoreUnavailable(f"the state directory cannot be used: {error.strerror}") from error
    finally:
        if not complete:
            if staging is not None:
                staging.close()
            store.close()
            directory.close()
    return opened


class _Assembly:
    """Puts one store together."""

    def __init__(self, opening: _Opening, secrets: Secrets) -> None:
        self._opening = opening
        self._secrets = secrets
        self._verifier = VerifierKey.of(opening.options.origin, secrets.log_signer())

    def assemble(
        self, directory: StateDirectory, store: LmdbStore, staging: Staging
    ) -> EmbeddedStore:
        """Load, repair, start."""
        opening = self._opening
        copy = CheckpointCopy(opening.checkpoint, self._verifier)
        known = load(store)
        with store.reading() as view:
            remark = None if opening.options.restored else copy.compare(view, view.header())
            unerased = view.unerased()
            used = view.bytes_used()
        generation = known or found(opening.embedder_id, opening.dimension, opening.clock())
        generation = with_embedder(generation, opening.embedder_id, opening.dimension)
        if opening.options.restored and known is not None:
            generation = with_incarnation(generation)
        engine = self._engine(directory, store, staging, generation)
        engine.unerased, engine.bytes_used = unerased, used
        if remark is not None:
            engine.remarks["checkpoint copy"] = remark
        operating = Operating(engine)
        self._first_transactions(engine, operating, known)
        directory.mark_bootstrapped()
        writer = EmbeddedWriter(engine, operating, copy, self._opening.options.writer)
        writer.start()
        return EmbeddedStore(directory, engine, writer, self._secrets)

    def _engine(
        self,
        directory: StateDirectory,
        store: LmdbStore,
        staging: Staging,
        generation: Generation,
    ) -> Engine:
        header, options = generation.header, self._opening.options
        names = KeyedNames(self._secrets.store_key)
        identity = Identity(
            incarnation=header.incarnation_name,
            embedder_id=header.embedder_id,
            dimension=header.dimension,
        )
        files = SegmentFiles(
            directory.segments,
            identity,
            self._opening.failpoint,
            options.segment_len,
        )
        with store.reading() as view:
            usage = Usage(names, options.quota_bytes, options.tenant_share)
            usage.load(view, header.dimension)
        index = VectorIndex(header.dimension, segment_len=options.segment_len)
        derived = DerivedState(Catalogue(), index, files, {})
        parts = Parts(
            store=store,
            staging=staging,
            names=names,
            judge=Judge(self._opening.gate, names, staging, self._opening.failpoint, usage),
            derived=derived,
            signer=self._secrets.log_signer(),
            origin=self._opening.options.origin,
            clock=self._opening.clock,
            failpoint=self._opening.failpoint,
        )
        engine = Engine(parts, generation, self._opening.ruleset)

        def failed(why: str) -> None:
            engine.broken = why

        derived.load(store, header, failed)
        return engine

    def _first_transactions(
        self, engine: Engine, operating: Operating, known: Generation | None
    ) -> None:
        header = engine.generation.header
        if known is None:
            operating.note("store.create", header.incarnation_name, "")
        elif known.header.restores != header.restores:
            options = self._opening.options
            operating.note(
                "store.restore",
                header.incarnation_name,
                options.restore_detail,
                options.restored_by,
            )
        elif known.header != header:
            operating.note("embedder.adopt", header.embedder_id, f"was {known.header.embedder_id}")
        if self._opening.options.adopts_mode:
            operating.adopt_mode(observing=self._opening.gate.observing)
        operating.adopt_ruleset(self._opening.ruleset, THE_STORE)
        for finding in operating.reconcile():
            engine.remarks["held"] = finding
        engine.erase_if_due()
