"""The embedded engine, assembled from its parts: LMDB, FAISS and one writer thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from policy.gate import Gate
from policy.model import PrincipalId
from policy.ruleset import Ruleset
from storage.audit import VerifierKey
from storage.derived.catalogue import Catalogue
from storage.derived.keeper import DerivedState
from storage.derived.lexical.analysis import WordHashes
from storage.derived.recovery import found, load, with_embedder, with_incarnation
from storage.derived.vectors.faiss_index import SEGMENT_LEN, VectorIndex
from storage.derived.vectors.segment_files import IndexIdentity, SegmentFiles
from storage.features.incidents.batches import BATCH_LEN
from storage.features.quarantine.hiding import QUARANTINES
from storage.features.recalls import RecallOptions
from storage.features.recalls.ledger import RecallLedger
from storage.features.together import FOLLOWERS, Features
from storage.features.upstream.forgotten_texts import FORGOTTEN
from storage.ground.errors import StoreUnavailable
from storage.ground.state_directory import Secrets, StateDirectory, holds_a_store
from storage.read.audit import EmbeddedAudit
from storage.read.reader import EmbeddedReader
from storage.sealed_log.session_log import (
    DIRECTORY,
    SealedLog,
    open_session_log,
    prints_key,
    session_keys,
)
from storage.sealed_log.shared_log import SharedRecords, open_shared_log
from storage.shipped import ShippedStore, Shipping
from storage.staging.staging import Staging
from storage.tables.change import Generation
from storage.tables.codec import Digests, StoreHeader, refuse_unknown
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LmdbStore
from storage.tables.usage import Usage
from storage.values import THE_STORE, HeldCandidate, Outcome
from storage.write.checkpoint_copy import CheckpointCopy, check_new_store
from storage.write.engine import Engine, Parts
from storage.write.engine_commands import EngineCommands
from storage.write.judge import Judge
from storage.write.seam import StoreAccess
from storage.write.writer import EmbeddedWriter, WriterOptions

_GIB: Final = 1024**3
RECALLS: Final = "recalls"  # the directory of the recall ledger's files


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, and the name under which the audit log signs (no spaces, no plus sign)."""

    quota_bytes: int = 8 * _GIB
    staging_quota_bytes: int = _GIB // 2
    # The share of the quota that one tenant may take; with 1 or more, a tenant may take all of it.
    tenant_share: float = 1.0
    origin: str = "mnemogate"
    segment_len: int = SEGMENT_LEN
    # Whether the store was just restored: a new incarnation begins, earlier nonces are refused, and
    # the checkpoint outside the store is rewritten.
    restored: bool = False
    # The detail and the author of the leaf about the restore.
    restore_detail: str = ""
    restored_by: PrincipalId = THE_STORE
    # False for a command on a stopped state directory, which does not change the gate's mode.
    adopts_mode: bool = True
    # How many memories an isolation or a rewind changes in one transaction.
    incident_batch_len: int = BATCH_LEN
    writer: WriterOptions = WriterOptions()
    recalls: RecallOptions = RecallOptions()


def _no_failpoint(name: str) -> None:
    """Do nothing: the failpoint of a normal run."""
    del name


class EmbeddedStore(Features):
    """An open store: all that a running sidecar uses of it. Call nothing after `close`."""

    def __init__(
        self,
        directory: StateDirectory,
        engine: Engine,
        writer: EmbeddedWriter,
        secrets: Secrets,
        options: EmbeddedOptions,
    ) -> None:
        # The session ledger's records of a shared store; None for a file of this machine alone.
        self.shared_records: SharedRecords | None = None
        store, names = engine.parts.store, engine.parts.names
        self._directory = directory
        self._engine = engine
        self._store_key = secrets.store_key
        # The store is changed through its writer alone.
        self.writer = writer
        self.reader = EmbeddedReader(engine)
        self.audit = EmbeddedAudit(store, engine.parts.origin, engine.parts.signer)
        # Tables and staging are altered by tests (MWP 3.2, attack A5).
        self.lmdb = store
        self.staging = engine.parts.staging
        # The number of leaves that each reader of the log has read. Both block.
        self.read_cursor = directory.read_cursor
        self.write_cursor = directory.write_cursor
        access = StoreAccess(
            store=store,
            names=names,
            clock=engine.parts.clock,
            writer=writer,
            moves=engine.moves,
            leaf_count=lambda: engine.generation.header.leaf_count,
        )
        self._recalls = RecallLedger(
            directory.root / RECALLS,
            store,
            names,
            secrets.store_key,
            incarnation=engine.generation.header.incarnation_name,
            clock=engine.parts.clock,
            options=options.recalls,
        )
        super().__init__(access, self._recalls, options.incident_batch_len)
        self.token_key = secrets.token_key  # an Ed25519 seed: signs promotion tokens
        self.prints_key = prints_key(secrets.store_key)  # of the session ledger's fingerprints

    @property
    def ruleset(self) -> Ruleset:
        """The ruleset in force, with its epoch."""
        return self._engine.ruleset

    @property
    def time_ms(self) -> int:
        """The latest time of any write (Unix ms); the store's clock never goes back before it."""
        return self._engine.generation.header.time_ms

    @property
    def broken(self) -> bool:
        """Whether nothing can be written any more until the store is opened again."""
        return self._engine.broken is not None

    @property
    def expired(self) -> Callable[[HeldCandidate, Outcome], None]:
        """The function that is called for each hold that expired without a decision.

        It is called on the writer's thread, once the refusal is durable.
        """
        return self._engine.expired

    @expired.setter
    def expired(self, told: Callable[[HeldCandidate, Outcome], None]) -> None:
        self._engine.expired = told

    def open_session_log(self, scar: bytes) -> tuple[SealedLog, tuple[bytes, ...]]:
        """The session ledger's log and the records in it. Blocks; call it once for an open store.

        If a part of the log is lost, a new log is begun with the readable records and with `scar`,
        a record that marks the log as incomplete for later starts. The log of a shared store is in
        the journal, and is whole or refused.

        Raises:
            StoreCorrupt: A row of the journal is missing, was changed, or is of another history.
            StoreUnavailable: The log cannot be opened or created.
        """
        state = self._directory.root
        keys = session_keys(self._store_key, self._engine.generation.header.incarnation_name)
        if self.shared_records is not None:
            return open_shared_log(state, keys, self.shared_records)
        # If the session log's directory is missing, no model API was ever served, so no history is
        # lost.
        is_new = not (state / DIRECTORY).exists()
        opened = open_session_log(state, keys, scar, is_new=is_new)
        return opened.log, opened.records

    def close(self) -> None:
        """Finish queued work, write the checkpoint copy, and release the directory. Blocks.

        If the writer hangs, the directory stays locked until the process ends, because the writer
        may still write.
        """
        self._recalls.stop()
        if not self.writer.stop():
            return
        self._engine.parts.derived.stop()
        self._engine.parts.staging.close()
        self._engine.parts.store.shut()
        self._directory.close()


def open_embedded(
    *,
    state: Path,
    checkpoint: Path,
    gate: Gate,
    ruleset: Ruleset,
    embedder_id: str,
    dimension: int,
    clock: Callable[[], int],
    failpoint: Callable[[str], None] = _no_failpoint,
    options: EmbeddedOptions | None = None,
    shipping: Shipping | None = None,
) -> EmbeddedStore:
    """Open or create a store, repair it after a crash, and start its writer. Blocks.

    With `shipping` the state directory contains a copy of a shared store, whose lease the caller
    holds. Other parameters, and errors, are those of `storage.opening.open_store`.
    """
    options = options or EmbeddedOptions()
    if not holds_a_store(state):
        # The checkpoint is checked before any file is made, because a refused start must not leave
        # an empty store.
        check_new_store(checkpoint)
    directory = StateDirectory(state)
    store: LmdbStore | None = None
    staging: Staging | None = None
    complete = False
    try:
        secrets = directory.secrets()
        store = _tables(directory, options.quota_bytes, Digests(secrets.store_key), shipping)
        store.open(bootstrapped=directory.bootstrapped)
        with store.reading() as view:
            refuse_unknown(view.header())
        staging = Staging(directory.staging, directory.held_keys, options.staging_quota_bytes)
        assembly = _Assembly(
            directory,
            store,
            staging,
            secrets,
            gate=gate,
            ruleset=ruleset,
            clock=clock,
            failpoint=failpoint,
            options=options,
        )
        opened = assembly.assemble(checkpoint, embedder_id, dimension)
        if shipping is not None:
            opened.shared_records = SharedRecords(shipping.journal, shipping.sealing)
        complete = True
    except OSError as error:
        raise StoreUnavailable(f"the state directory cannot be used: {error.strerror}") from error
    finally:
        if not complete:
            if staging is not None:
                staging.close()
            if store is not None:
                store.close()
            directory.close()
    return opened


def _tables(
    directory: StateDirectory, quota_bytes: int, digests: Digests, shipping: Shipping | None
) -> LmdbStore:
    if shipping is None:
        return LmdbStore(directory.store, quota_bytes, digests)
    return ShippedStore(directory.store, quota_bytes, digests, shipping)


class _Assembly:
    """Assembles one store from its tables, index, staging and writer."""

    def __init__(
        self,
        directory: StateDirectory,
        store: LmdbStore,
        staging: Staging,
        secrets: Secrets,
        *,
        gate: Gate,
        ruleset: Ruleset,
        clock: Callable[[], int],
        failpoint: Callable[[str], None],
        options: EmbeddedOptions,
    ) -> None:
        self._directory = directory
        self._store = store
        self._staging = staging
        self._secrets = secrets
        self._gate = gate
        self._ruleset = ruleset
        self._clock = clock
        self._failpoint = failpoint
        self._options = options

    def assemble(self, checkpoint: Path, embedder_id: str, dimension: int) -> EmbeddedStore:
        """Load the store, repair it after a crash, and start the writer; return the open store."""
        store, options = self._store, self._options
        verifier = VerifierKey.of(options.origin, self._secrets.log_signer())
        copy = CheckpointCopy(checkpoint, verifier)
        known = load(store)
        with store.reading() as view:
            remark = None if options.restored else copy.compare(view, view.header())
            unerased = view.unerased()
        generation = known or found(embedder_id, dimension, self._clock())
        generation = with_embedder(generation, embedder_id, dimension)
        if options.restored and known is not None:
            generation = with_incarnation(generation)
        engine = self._engine(generation, None if known is None else known.header)
        engine.unerased = unerased
        if remark is not None:
            engine.parts.derived.remarks["checkpoint copy"] = remark
        operating = EngineCommands(engine)
        with store.reading() as view:
            hidden = (True for table in (QUARANTINES, FORGOTTEN) for _ in view.keys(table))
            engine.moves[QUARANTINES] = int(any(hidden))
        self._first_transactions(engine, operating, known)
        self._directory.mark_bootstrapped()
        writer = EmbeddedWriter(engine, operating, copy, options.writer)
        writer.start()
        return EmbeddedStore(self._directory, engine, writer, self._secrets, options)

    def _engine(self, generation: Generation, durable: StoreHeader | None) -> Engine:
        header, options, store = generation.header, self._options, self._store
        names = KeyedNames(self._secrets.store_key)
        identity = IndexIdentity(
            incarnation=header.incarnation_name,
            embedder_id=header.embedder_id,
            dimension=header.dimension,
        )
        files = SegmentFiles(
            self._directory.segments,
            identity,
            store.digests,
            self._failpoint,
            options.segment_len,
        )
        with store.reading() as view:
            usage = Usage(names, options.quota_bytes, options.tenant_share)
            usage.load(view)
        index = VectorIndex(header.dimension, segment_len=options.segment_len)
        derived = DerivedState(Catalogue(), index, files, {}, WordHashes(names))
        parts = Parts(
            store=store,
            staging=self._staging,
            names=names,
            judge=Judge(self._gate, names, self._staging, usage, FOLLOWERS),
            derived=derived,
            signer=self._secrets.log_signer(),
            origin=options.origin,
            clock=self._clock,
            failpoint=self._failpoint,
        )
        engine = Engine(parts, generation, self._ruleset, durable)

        def failed(why: str) -> None:
            engine.broken = why

        derived.load(store, header, failed)
        return engine

    def _first_transactions(
        self, engine: Engine, operating: EngineCommands, known: Generation | None
    ) -> None:
        header = engine.generation.header
        if known is None:
            operating.note("store.create", header.incarnation_name, "")
        elif known.header.restores != header.restores:
            options = self._options
            operating.note(
                "store.restore",
                header.incarnation_name,
                options.restore_detail,
                options.restored_by,
            )
        elif known.header != header:
            operating.note("embedder.adopt", header.embedder_id, f"was {known.header.embedder_id}")
        if self._options.adopts_mode:
            operating.adopt_mode(observing=self._gate.observing)
        operating.adopt_ruleset(self._ruleset, THE_STORE)
        for finding in operating.reconcile():
            engine.parts.derived.remarks["held"] = finding
        engine.erase_if_due()
