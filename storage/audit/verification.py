"""Recomputes everything that the audit log promises, from the store's files alone.

What an attacker with the store's files could do, and (in parentheses) what detects it: change a
leaf (the root no longer fits the signed head), change a row (its commitment no longer opens),
change a value that an update inherited (the row before it differs), add a row (no verdict leaf
admits it), drop a row (an admitting verdict has none), point an id at an older row (a later row
follows it), put back an earlier value of any table (where `store.key` is known, the total of all
values), cut or replace the log (the copy outside the store is ahead of it, or is no prefix), sign a
new head with another key (the copy's signature, or a pinned verifier key).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final, Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import ChangeKind, MemoryStatus
from storage.audit.checkpoint import BadCheckpoint, Checkpoint, VerifierKey, open_checkpoint
from storage.audit.leaves import (
    NO_STEP_BEFORE,
    InterceptedLeaf,
    Labels,
    Leaf,
    OperatorLeaf,
    ResultLeaf,
    Results,
    VerdictLeaf,
    decode_leaf,
    wrongly_lowered,
)
from storage.audit.merkle import NodeStore, Tree
from storage.audit.row_states import candidate_of, contradiction
from storage.ground.errors import StoreCorrupt, UnknownFormat
from storage.values import MODE_ENFORCE, MODE_OBSERVE, Decision, Row

PROBLEMS_MAX: Final = 100
_SEED_LEN: Final = 32


class AuditedView(Protocol):
    """A store's contents for an auditor who recomputes what the log promises.

    Values are decoded without further checks; an unreadable value raises StoreCorrupt.
    """

    leaf_count: int
    row_count: int
    nodes: NodeStore
    compares_digests: bool  # whether `store.key` is known, so that each value's digest is compared

    def head(self) -> tuple[int, int] | None:
        """The number of leaves and the version in the header; None before the first commit.

        Raises:
            UnknownFormat: Another version of this program wrote the store.
        """
        ...

    def checkpoint(self) -> bytes | None:
        """The last signed checkpoint."""
        ...

    def leaf(self, index: int) -> bytes | None:
        """The bytes of one leaf."""
        ...

    def vector(self, ordinal: int) -> bytes:
        """The bytes of a row's vector; b"" if it has none."""
        ...

    def problems(self) -> Iterator[str]:
        """What is wrong with stored values, by their digests; nothing if these are not compared."""
        ...

    def named(self) -> dict[int, MemoryStatus]:
        """The ordinals of the rows that ids name, with the status of each memory.

        Raises:
            StoreCorrupt: An id cannot be read.
        """
        ...

    def earlier(self, ordinal: int, row: Row) -> Iterator[Row]:
        """The rows of a memory before the one at `ordinal`, newest first.

        Raises:
            StoreCorrupt: A row is missing or cannot be read.
        """
        ...

    def rows(self) -> Iterator[tuple[int, Row | StoreCorrupt]]:
        """Every admitted change with its ordinal, in order; the error for an unreadable one."""
        ...


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One contradiction in the store.

    `position` is the number of the leaf or row, from 0; None if the contradiction is not about one.
    """

    where: str  # "leaf" | "node" | "row" | "id" | "checkpoint" | "copy" | "header" | "value"
    position: int | None
    what: str

    def __str__(self) -> str:
        """The contradiction in one line."""
        at = "" if self.position is None else f" {self.position}"
        return f"{self.where}{at}: {self.what}"


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of recomputing a store; `sound` is true only if there is no contradiction."""

    sound: bool
    leaves: int
    rows: int
    version: int
    root: str  # the root in hex, recomputed from the leaves
    vkey: str
    vkey_pinned: bool
    copy_size: int | None
    mode: str  # "enforce" or "observe", as the last leaf about the mode names it
    observed: int  # the number of candidates admitted over an objection, in observe mode
    # Whether the digests of values were compared; without `store.key` only the log was recomputed.
    digests_compared: bool
    first_bad: Mismatch | None
    problems: tuple[Mismatch, ...]


class Verifier:
    """Recomputes one view of the store in one pass; use each instance once.

    `copy` is the checkpoint outside the store; read it before the view is taken, so that it is not
    newer than the view. Its absence is a problem unless `copied` is False. `vkey` pins the verifier
    key. Without `vkey` the key is derived from the store's own `log_key`, which anyone who can
    write the store's files could have replaced.
    """

    def __init__(
        self,
        view: AuditedView,
        progress: Callable[[int, int], None],
        *,
        copy: bytes | None,
        vkey: VerifierKey | None,
        log_key: bytes | None,
        copied: bool = True,
    ) -> None:
        self._view = view
        self._progress = progress
        self._copy = copy
        self._vkey = vkey
        self._log_key = log_key
        self._copied = copied
        self._problems: list[Mismatch] = []
        self._unknown: UnknownFormat | None = None
        self._total = 0
        self._done = 0
        self._version = 0
        self._intercepted: dict[int, InterceptedLeaf] = {}
        # The admitting verdict leaves for which no row was found yet.
        self._unmet: dict[int, VerdictLeaf] = {}
        self._purged: set[str | None] = set()
        # The index of the leaf that admitted each row, by ordinal; NO_STEP_BEFORE for an erased or
        # unreadable row.
        self._admitted_by: dict[int, int] = {}
        # The digest of the client's own vector of each row that has one, by ordinal.
        self._vectors: dict[int, str] = {}
        # The ordinals of rows that no later row of the memory follows.
        self._newest = set[int]()
        self._rows = 0
        self._mode = Mode()
        self.results = Results(lambda text: self._problem("leaf", None, text))
        self._labels = Labels()

    def run(self) -> Verification:
        """Check leaves, nodes, rows, checkpoint and copy; return the result.

        Raises:
            UnknownFormat: Another version wrote the store, and nothing else is wrong with it. No
                leaf contains the number of the format, so a changed number must not hide other
                contradictions.
        """
        said = self._header()
        leaf_count = self._view.leaf_count
        self._total = leaf_count + self._view.row_count
        vkey, copy, stored = self._heads()
        if said is not None and said[0] != leaf_count:
            self._problem("header", None, f"says {said[0]} leaves, there are {leaf_count}")
        root = self._leaves(leaf_count, stored, copy)
        self._all_rows()
        self._ids()
        # Every admission makes one version of the store, so the number of rows must be the store's
        # present version.
        if said is not None and said[1] != self._rows:
            self._problem("header", None, f"says version {said[1]}, there are {self._rows} changes")
        for what in self._view.problems():
            self._problem("value", None, what)
        self._progress(self._total, self._total)
        if self._unknown is not None:
            if not self._problems:
                raise self._unknown
            self._problems.insert(
                0, Mismatch(where="header", position=None, what=str(self._unknown))
            )
        problems = tuple(self._problems)
        return Verification(
            sound=not problems,
            leaves=leaf_count,
            rows=self._rows,
            version=0 if said is None else said[1],
            root=root.hex(),
            vkey="" if vkey is None else vkey.text(),
            vkey_pinned=self._vkey is not None,
            copy_size=None if copy is None else copy.size,
            mode="observe" if self._mode.observing else "enforce",
            observed=self._mode.admitted,
            digests_compared=self._view.compares_digests,
            first_bad=problems[0] if problems else None,
            problems=problems,
        )

    def _header(self) -> tuple[int, int] | None:
        try:
            said = self._view.head()
        except UnknownFormat as error:
            self._unknown = error
            return None
        except StoreCorrupt as error:
            self._problem("header", None, str(error))
            return None
        if said is None:
            self._problem("header", None, "the store has none: nothing was ever committed")
        return said

    def _heads(self) -> tuple[VerifierKey | None, Checkpoint | None, Checkpoint | None]:
        """The verifier key, the checkpoint outside the store, and the checkpoint in the store."""
        note: bytes | None = None
        try:
            note = self._view.checkpoint()
        except StoreCorrupt as error:
            self._problem("checkpoint", None, str(error))
        if note is None:
            self._problem("checkpoint", None, "the store has no signed checkpoint")
        vkey = self._key(note)
        stored = self._opened("checkpoint", note, vkey)
        if self._copy is None and self._copied:
            self._problem("copy", None, "there is no copy of the checkpoint outside the store")
        return vkey, self._opened("copy", self._copy, vkey), stored

    def _key(self, note: bytes | None) -> VerifierKey | None:
        if self._vkey is not None:
            return self._vkey
        seed = self._log_key
        if note is None or seed is None or len(seed) != _SEED_LEN:
            self._problem("checkpoint", None, "no key to verify its signature with; give --vkey")
            return None
        origin = note.split(b"\n", 1)[0].decode("utf-8", "replace")
        try:
            return VerifierKey.of(origin, Ed25519PrivateKey.from_private_bytes(seed))
        except ValueError as error:
            self._problem("checkpoint", None, str(error))
            return None

    def _opened(
        self, where: str, note: bytes | None, vkey: VerifierKey | None
    ) -> Checkpoint | None:
        if note is None or vkey is None:
            return None
        try:
            return open_checkpoint(note, vkey)
        except BadCheckpoint as error:
            self._problem(where, None, str(error))
            return None

    def _leaves(self, count: int, stored: Checkpoint | None, copy: Checkpoint | None) -> bytes:
        """Rebuild the Merkle tree from the leaves; compare each signed head; return the root."""
        tree = Tree()
        nodes = _Compared(self._view.nodes, self._problem)
        heads = [(name, head) for name, head in (("copy", copy), ("checkpoint", stored)) if head]
        whole = True
        for index in range(count):
            self._at_head(tree, heads, whole=whole)
            data, leaf = self._leaf(index)
            whole = whole and data is not None
            if data is not None and whole:
                tree.append(data, nodes)
            self._labels.take(leaf)
            if leaf is not None and not self._mode.allows(leaf):
                self._problem("leaf", index, "admits over an objection, outside observe mode")
            if isinstance(leaf, InterceptedLeaf):
                self._intercepted[index] = leaf
            elif isinstance(leaf, VerdictLeaf):
                self._verdict(index, leaf)
            elif isinstance(leaf, ResultLeaf):
                self.results.take(index, leaf, self._unmet.get(leaf.verdict_index))
            self._step()
        self._at_head(tree, heads, whole=whole)
        for name, head in heads:
            if head.size > count:
                self._problem(
                    name, count, f"signs {head.size} leaves, the store has {count}: rolled back"
                )
        if stored is not None and stored.size < count:
            self._problem("leaf", stored.size, "not under the store's own signed checkpoint")
        return tree.root()

    def _at_head(self, tree: Tree, heads: list[tuple[str, Checkpoint]], *, whole: bool) -> None:
        for name, head in heads:
            if whole and head.size == tree.size and head.root != tree.root():
                self._problem(name, head.size, "its root is not that of the leaves before it")

    def _leaf(self, index: int) -> tuple[bytes | None, Leaf | None]:
        data: bytes | None = None
        try:
            data = self._view.leaf(index)
            if data is None:
                self._problem("leaf", index, "missing")
                return None, None
            return data, decode_leaf(data)
        except StoreCorrupt as error:
            self._problem("leaf", index, str(error))
            return data, None

    def _verdict(self, index: int, leaf: VerdictLeaf) -> None:
        seen = self._interception(leaf)
        if seen is None:
            self._problem("leaf", index, "a verdict on no intercepted candidate")
        elif wrongly_lowered(seen, leaf):
            self._problem("leaf", index, "admits below the class that was named")
        if leaf.decision is Decision.ADMIT:
            self._unmet[index] = leaf
            self._version += 1
            if seen is not None and seen.change is ChangeKind.PURGE:
                self._purged.add(leaf.memory_id)
        if leaf.version != self._version:
            self._problem("leaf", index, f"says version {leaf.version}, not {self._version}")
            self._version = leaf.version

    def _interception(self, leaf: VerdictLeaf) -> InterceptedLeaf | None:
        seen = self._intercepted.get(leaf.intercepted_index)
        return None if seen is None or seen.candidate_id != leaf.candidate_id else seen

    def _all_rows(self) -> None:
        expected = 0
        for ordinal, row in self._view.rows():
            self._step()
            self._rows += 1
            if ordinal != expected:
                self._problem("row", expected, "missing")
            expected = ordinal + 1
            step = NO_STEP_BEFORE
            if isinstance(row, StoreCorrupt):
                self._problem("row", ordinal, str(row))
            else:
                self._row(ordinal, row)
                self._newest.discard(row.prev_ordinal)
                if not row.erased:
                    step = row.leaf_index
                    self._newest.add(ordinal)
            self._admitted_by[ordinal] = step
        for index in self._unmet:
            self._problem("leaf", index, "admits a candidate whose row is not there")

    def _ids(self) -> None:
        """Check that each id names the newest row of a memory, and that each such row has an id."""
        try:
            named = self._view.named()
        except StoreCorrupt as error:
            self._problem("id", None, str(error))
            return
        steps = self._admitted_by
        known = {at for at in named if at not in steps or steps[at] != NO_STEP_BEFORE}
        for ordinal in sorted(known - self._newest):
            what = "is not the newest of a memory" if ordinal in steps else "is not there"
            self._problem("id", ordinal, f"this row {what}")
        for ordinal in sorted(self._newest - known):
            self._problem("row", ordinal, "the newest of its memory, and no id names it")

    def _follows(self, ordinal: int, row: Row, leaf: VerdictLeaf) -> bool:
        """Whether a row follows an earlier one, which the leaf that its verdict names admitted."""
        if row.prev_ordinal >= ordinal:
            return False
        before = self._admitted_by.get(row.prev_ordinal, NO_STEP_BEFORE)
        return row.erased or leaf.previous_index == before

    def _row(self, ordinal: int, row: Row) -> None:
        leaf = self._unmet.pop(row.leaf_index, None)
        if leaf is None:
            self._problem("row", ordinal, "no verdict leaf admitted it")
            return
        if not self._follows(ordinal, row, leaf):
            self._problem("row", ordinal, "it follows another step than its verdict leaf says")
            return
        if row.erased and leaf.memory_id not in self._purged:
            self._problem("row", ordinal, "erased, and no verdict leaf says purge")
        earlier = self._view.earlier(ordinal, row)
        seen = self._interception(leaf)
        try:
            what = contradiction(row, leaf, seen, self._labels, earlier)
            if what is None and not row.erased and seen is not None and seen.nonce_key:
                what = self._vector(ordinal, row)
        except StoreCorrupt as error:
            what = str(error)
        if what is not None:
            self._problem("row", ordinal, what)

    def _vector(self, ordinal: int, row: Row) -> str | None:
        """What of a client's own vector contradicts the log: the candidate contains its digest."""
        candidate = candidate_of(row)
        expected = candidate.vector_sha256
        if candidate.text is None and candidate.change is ChangeKind.UPDATE:
            expected = self._vectors.get(row.prev_ordinal)
        if expected is None:
            return None
        self._vectors[ordinal] = expected
        if sha256(self._view.vector(ordinal)).hexdigest() == expected:
            return None
        return "its vector is not the one that its candidate names"

    def _step(self) -> None:
        self._done += 1
        self._progress(min(self._done, self._total - 1), self._total)

    def _problem(self, where: str, position: int | None, what: str) -> None:
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(Mismatch(where=where, position=position, what=what))


class Mode:
    """Tracks whether observe mode was on at each leaf, by the log's own leaves about the mode."""

    def __init__(self) -> None:
        self.observing = False
        self.admitted = 0

    def allows(self, leaf: Leaf) -> bool:
        """Process the next leaf; return False if it admits over an objection without observe mode.

        Also False for an admission with a reason but without a recorded objection.
        """
        if isinstance(leaf, OperatorLeaf):
            if leaf.action in {MODE_OBSERVE, MODE_ENFORCE}:
                self.observing = leaf.action == MODE_OBSERVE
            return True
        if not isinstance(leaf, VerdictLeaf) or leaf.decision is not Decision.ADMIT:
            return True
        if leaf.objection is None:
            # Only rejections have a reason; an admission that has one was made over an objection.
            return leaf.reason is None
        self.admitted += 1
        return self.observing


class _Compared:
    """Compares stored inner nodes with recomputed ones, because proofs use the stored ones."""

    def __init__(self, stored: NodeStore, problem: Callable[[str, int | None, str], None]) -> None:
        self._problem = problem
        self.get = stored.get

    def put(self, level: int, index: int, node: bytes) -> None:
        try:
            stored = self.get(level, index)
        except StoreCorrupt as error:
            self._problem("node", index << level, str(error))
            return
        if stored != node:
            last = ((index + 1) << level) - 1
            self._problem(
                "node", index << level, f"not the hash of leaves {index << level} to {last}"
            )
