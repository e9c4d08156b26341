"""What in the tables of a store contradicts another table: no edit of the file, but a bug of ours.

Digests and the total of all values detect every edit. What the writer itself stored wrongly has
right digests, so the tests of crashes compare the tables with each other.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

import msgspec
import numpy as np

from policy.model import ChangeKind, MemoryStatus
from storage.audit import VerdictLeaf, Verifier, VerifierKey, candidate_of, decode_leaf
from storage.features.quarantine.hiding import QUARANTINES
from storage.features.upstream.upstream_filing import FORWARDS
from storage.ground.errors import StoreCorrupt
from storage.read import reader
from storage.read.audit import EmbeddedView
from storage.read.check import check_store
from storage.tables.codec import StoreHeader, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import CHILDREN, HELD, IDS, KEYED, LEAVES, NONCES, ROWS, VECTORS
from storage.values import CheckReport, Embed
from storage.write.engine import Engine

_NORM_TOLERANCE: Final = 1e-3
_PARENTS: Final = b"derived_from"


def compare_tables_too() -> None:
    """Let `check` in this process report contradictions between tables as well."""
    patch.object(reader, "check_store", _check_with_tables).start()


def _check_with_tables(engine: Engine, embed: Embed | None) -> CheckReport:
    report = check_store(engine, embed)
    return msgspec.structs.replace(report, problems=(*report.problems, *contradictions(engine)))


def contradictions(engine: Engine) -> tuple[str, ...]:
    parts = engine.parts
    with parts.store.reading() as view:
        header = view.header()
        if header is None:
            return ()
        vkey = VerifierKey.of(parts.origin, parts.signer)
        shown = EmbeddedView(view)
        verifier = Verifier(
            shown, lambda _done, _total: None, copy=None, vkey=vkey, log_key=None, copied=False
        )
        verifier.run()
        return _Walk(view, header, verifier, parts.names).found()


class _Walk:
    """Reads the tables of one generation, and collects the contradictions."""

    def __init__(
        self, view: View, header: StoreHeader, verifier: Verifier, names: KeyedNames
    ) -> None:
        self._view = view
        self._header = header
        self._verifier = verifier
        self._names = names
        self._problems: list[str] = []

    def _problem(self, text: str) -> None:
        self._problems.append(text)

    def found(self) -> tuple[str, ...]:
        steps = (
            self._check_ids,
            self._check_vectors,
            self._check_nonces,
            self._check_held,
            self._check_forwards,
            self._check_hidden,
            self._check_lineage,
        )
        for step in steps:
            try:
                step()
            except (StoreCorrupt, msgspec.MsgspecError) as error:
                self._problem(str(error))
        return tuple(self._problems)

    def _check_ids(self) -> None:
        live = 0
        for key, record in self._view.records(IDS):
            row = self._view.read(ROWS, ordinal_key(record.ordinal))
            if row is None:
                continue
            live += record.status is MemoryStatus.LIVE
            if not row.erased and key != self._names.memory(row.tenant, row.memory_id):
                self._problem(f"an id points at row {record.ordinal}, which is of another memory")
            gone = row.erased or row.change in {ChangeKind.DELETE, ChangeKind.PURGE}
            if gone and record.status not in {MemoryStatus.DELETED, MemoryStatus.FORWARDING}:
                self._problem(f"row {record.ordinal} is a tombstone, and shown")
        if live != self._header.live_count:
            self._problem(f"{live} live memories, but the header says {self._header.live_count}")

    def _check_vectors(self) -> None:
        for key, vector in self._view.scan(VECTORS):
            ordinal = int.from_bytes(key, "big")
            row = self._view.read(ROWS, key)
            if row is None or not row.embedder_id:
                self._problem(f"the vector of row {ordinal} has no row")
            values = np.frombuffer(vector, dtype="<f4").astype(np.float64)
            if not np.isfinite(values).all() or abs(np.linalg.norm(values) - 1) > _NORM_TOLERANCE:
                self._problem(f"the vector of row {ordinal} is not a finite unit vector")
        for key, row in self._view.records(ROWS):
            if row.embedder_id and not self._view.has(VECTORS, key):
                self._problem(f"row {int.from_bytes(key, 'big')} has lost its vector")

    def _check_nonces(self) -> None:
        for _, spent in self._view.records(NONCES):
            outcome = spent.outcome
            stored = self._view.get(LEAVES, ordinal_key(outcome.leaf_index))
            leaf = None if stored is None else decode_leaf(stored)
            if not isinstance(leaf, VerdictLeaf) or leaf.candidate_id != outcome.candidate_id:
                self._problem(f"a nonce names leaf {outcome.leaf_index}, which is not its verdict")
            elif leaf.decision is not outcome.decision:
                self._problem(f"a nonce and its leaf {outcome.leaf_index} disagree")

    def _check_forwards(self) -> None:
        """Compare intents, results, and rows of upstream memories with each other."""
        waiting = self._check_intents()
        for key, known in self._view.records(IDS):
            if known.status is MemoryStatus.FORWARDING and key not in waiting:
                self._problem("a memory is on its way to another server, and no intent says so")
        self._check_keyed()

    def _check_intents(self) -> set[bytes]:
        waiting: set[bytes] = set()
        for key, record in self._view.records(FORWARDS):
            row = self._view.read(ROWS, ordinal_key(record.ordinal))
            if row is None or row.candidate_id != key.hex() or row.leaf_index != record.leaf_index:
                self._problem(f"intent {key.hex()} has no row of its own")
            if record.leaf_index in self._verifier.results.ended:
                self._problem(f"intent {key.hex()} is open, and the log says how it ended")
            if record.unknown != (record.leaf_index in self._verifier.results.lost):
                self._problem(
                    f"intent {key.hex()} and the log disagree whether its answer was lost"
                )
            waiting.add(record.name)
        return waiting

    def _check_keyed(self) -> None:
        filed = set(self._view.keys(KEYED))
        for key, row in self._view.records(ROWS):
            if not row.keyed:
                continue
            ordinal = int.from_bytes(key, "big")
            if row.keyed + key not in filed:
                self._problem(f"row {ordinal} is not filed under its key")
            filed.discard(row.keyed + key)
            open_still = self._view.has(FORWARDS, bytes.fromhex(row.candidate_id))
            if row.leaf_index not in self._verifier.results.ended and not open_still:
                self._problem(f"row {ordinal} was sent, and nothing says what became of it")
        if filed:
            self._problem(f"{len(filed)} keys name rows that are not filed under them")

    def _check_hidden(self) -> None:
        for key, hidden in self._view.records(QUARANTINES):
            known = self._view.read(IDS, key)
            status = None if known is None else known.status
            if not hidden.by or status in {None, MemoryStatus.LIVE}:
                self._problem(f"memory {key.hex()} is shown, and somebody hides it")

    def _check_lineage(self) -> None:
        filed = set(self._view.keys(CHILDREN))
        for key, row in self._view.records(ROWS):
            if row.erased or _PARENTS not in row.canonical:
                continue
            for parent in candidate_of(row).derived_from:
                under = self._names.children(row.tenant, parent) + key
                if under not in filed:
                    self._problem(f"row {int.from_bytes(key, 'big')} is not filed as a child")
                filed.discard(under)
        if filed:
            self._problem(f"{len(filed)} entries of children name rows that name no such parent")

    def _check_held(self) -> None:
        held = {key.hex() for key, _ in self._view.records(HELD)}
        if len(held) != self._header.held_count:
            self._problem(f"{len(held)} held, but the header says {self._header.held_count}")
