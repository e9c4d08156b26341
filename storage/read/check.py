"""The check of a whole store, which reports every contradiction between the tables."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from policy.model import ChangeKind, MemoryStatus
from storage.audit import (
    BadCheckpoint,
    InterceptedLeaf,
    Labels,
    ResultLeaf,
    Results,
    Tree,
    VerdictLeaf,
    VerifierKey,
    candidate_of,
    contradiction,
    decode_leaf,
    open_checkpoint,
    wrongly_lowered,
)
from storage.features.quarantine.hiding import QUARANTINES
from storage.features.upstream.upstream_filing import FORWARDS
from storage.ground.errors import StoreCorrupt
from storage.tables.change import Nodes, leaf_source
from storage.tables.codec import (
    NO_ORDINAL,
    StoreHeader,
    ordinal_key,
)
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import (
    CHILDREN,
    HELD,
    IDS,
    KEYED,
    LEAVES,
    NONCES,
    ROWS,
    TABLES,
    VECTORS,
    View,
)
from storage.tables.rows import earlier_rows
from storage.values import CheckReport, Decision, Row
from storage.write.engine import Engine

_NORM_TOLERANCE: Final = 1e-3
_PARENTS: Final = b"derived_from"
_PROBLEMS_MAX: Final = 1_000


def check_store(engine: Engine) -> CheckReport:
    """Check the whole store, while a writer may run, because the check reads one generation."""
    parts = engine.parts
    with parts.store.reading() as view:
        header = view.header()
        if header is None:
            return CheckReport(rows=0, vectors=0, leaves=0, version=0, problems=())
        verifier = VerifierKey.of(parts.origin, parts.signer)
        walk = _Walk(view, header, verifier, parts.names, parts.staging.held_ids())
        return walk.report()


class _Walk:
    """Reads every table of one generation, and collects the contradictions."""

    def __init__(
        self,
        view: View,
        header: StoreHeader,
        verifier: VerifierKey,
        names: KeyedNames,
        held_keys: frozenset[str],
    ) -> None:
        self._view = view
        self._header = header
        self._verifier = verifier
        self._names = names
        self._held_keys = held_keys
        self._problems: list[str] = []
        self._admitted: dict[int, VerdictLeaf] = {}
        self._intercepted: dict[int, InterceptedLeaf] = {}
        self._newest: dict[bytes, int] = {}
        self._results = Results(self._problem)
        self._labels = Labels()
        self._rows = 0
        self._vectors = 0

    def _problem(self, text: str) -> None:
        if len(self._problems) < _PROBLEMS_MAX:
            self._problems.append(text)

    def report(self) -> CheckReport:
        steps = (
            self._check_values,
            self._check_leaves,
            self._check_tree,
            self._check_rows,
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
        return CheckReport(
            rows=self._rows,
            vectors=self._vectors,
            leaves=self._header.leaf_count,
            version=self._header.version,
            problems=tuple(self._problems),
        )

    def _check_values(self) -> None:
        """Check each value against its digest, and continue after one that does not match."""
        for table in TABLES:
            for key in self._view.keys(table):
                try:
                    self._view.get(table, key)
                except StoreCorrupt as error:
                    self._problem(f"{error}: {key.hex()}")

    def _check_leaves(self) -> None:
        expected = 0
        versions = 0
        for key, data in self._view.scan(LEAVES):
            index = int.from_bytes(key, "big")
            if index != expected:
                self._problem(f"leaf {expected} is missing")
            expected = index + 1
            leaf = decode_leaf(data)
            self._labels.take(leaf)
            if isinstance(leaf, InterceptedLeaf):
                self._intercepted[index] = leaf
            elif isinstance(leaf, VerdictLeaf):
                self._check_verdict(index, leaf)
                if leaf.decision is Decision.ADMIT:
                    self._admitted[index] = leaf
                    versions += 1
                if leaf.version != versions:
                    self._problem(f"leaf {index} says version {leaf.version}, not {versions}")
            elif isinstance(leaf, ResultLeaf):
                self._results.take(index, leaf, self._admitted.get(leaf.verdict_index))
        if expected != self._header.leaf_count:
            self._problem(f"{expected} leaves, but the header says {self._header.leaf_count}")
        if versions != self._header.version:
            self._problem(f"{versions} admissions, but version {self._header.version}")

    def _check_verdict(self, index: int, leaf: VerdictLeaf) -> None:
        seen = self._intercepted.get(leaf.intercepted_index)
        if seen is None or seen.candidate_id != leaf.candidate_id:
            self._problem(f"verdict leaf {index} has no intercepted leaf of its candidate")
        elif wrongly_lowered(seen, leaf):
            self._problem(f"verdict leaf {index} admits below the class that was named")

    def _check_tree(self) -> None:
        note = self._view.checkpoint()
        if note is None:
            self._problem("there is no signed checkpoint")
            return
        try:
            signed = open_checkpoint(note, self._verifier)
        except BadCheckpoint as error:
            self._problem(f"the checkpoint does not open: {error}")
            return
        # The tree is rebuilt from the leaves alone, so that a wrong inner node is detected too.
        whole, kept = Tree(), _Kept()
        for _, data in self._view.scan(LEAVES):
            whole.append(data, kept)
        if (signed.size, signed.root) != (whole.size, whole.root()):
            self._problem("the signed checkpoint is not that of the leaves")
        stored = Tree.load(self._header.leaf_count, leaf_source(self._view), Nodes(self._view))
        if stored.root() != whole.root():
            self._problem("an inner node of the audit tree is wrong")

    def _check_rows(self) -> None:
        expected = 0
        unmatched = set(self._admitted)
        for key, row in self._view.records(ROWS):
            ordinal = int.from_bytes(key, "big")
            if ordinal != expected:
                self._problem(f"row {expected} is missing")
            expected = ordinal + 1
            self._rows += 1
            unmatched.discard(row.leaf_index)
            self._check_row(ordinal, row)
        if expected != self._header.next_ordinal:
            self._problem(f"rows end at {expected}, the header at {self._header.next_ordinal}")
        for index in sorted(unmatched):
            self._problem(f"admission leaf {index} has no row")

    def _check_row(self, ordinal: int, row: Row) -> None:
        leaf = self._admitted.get(row.leaf_index)
        if leaf is None:
            self._problem(f"row {ordinal} has no admission leaf")
            return
        if row.prev_ordinal != NO_ORDINAL and row.prev_ordinal >= ordinal:
            self._problem(f"row {ordinal} is linked to a later one")
        if not row.erased:
            self._newest[self._names.memory(row.tenant, row.memory_id)] = ordinal
        seen = self._intercepted.get(leaf.intercepted_index)
        earlier = earlier_rows(self._view, ordinal, row)
        try:
            what = contradiction(row, leaf, seen, self._labels, earlier)
        except StoreCorrupt as error:
            what = str(error)
        if what is not None:
            self._problem(f"row {ordinal}: {what}")

    def _check_ids(self) -> None:
        live = 0
        named = dict(self._newest)
        for key, record in self._view.records(IDS):
            row = self._view.read(ROWS, ordinal_key(record.ordinal))
            if row is None:
                self._problem(f"an id points at row {record.ordinal}, which is missing")
                continue
            live += record.status is MemoryStatus.LIVE
            if named.pop(key, record.ordinal) != record.ordinal:
                self._problem(f"an id does not point at its newest row {record.ordinal}")
            gone = row.erased or row.change in {ChangeKind.DELETE, ChangeKind.PURGE}
            if gone and record.status not in {MemoryStatus.DELETED, MemoryStatus.FORWARDING}:
                self._problem(f"row {record.ordinal} is a tombstone, and shown")
        if named:
            self._problem(f"{len(named)} memories have rows, but no id")
        if live != self._header.live_count:
            self._problem(f"{live} live memories, but the header says {self._header.live_count}")

    def _check_vectors(self) -> None:
        for key, vector in self._view.scan(VECTORS):
            self._vectors += 1
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
            if record.leaf_index in self._results.ended:
                self._problem(f"intent {key.hex()} is open, and the log says how it ended")
            if record.unknown != (record.leaf_index in self._results.lost):
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
            if row.leaf_index not in self._results.ended and not open_still:
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
        for candidate_id in sorted(held - self._held_keys):
            self._problem(f"held candidate {candidate_id} is not in staging")


class _Kept:
    """The inner nodes of a tree that is rebuilt from its leaves, in memory (`NodeStore`)."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], bytes] = {}

    def get(self, level: int, index: int) -> bytes | None:
        return self._nodes.get((level, index))

    def put(self, level: int, index: int, node: bytes) -> None:
        self._nodes[level, index] = node
