"""The changes of one write transaction, which take effect only after its commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import PrincipalId, Tenant
from policy.ruleset import Ruleset
from policy.verdict import InvariantBroken
from storage.audit import (
    InterceptedLeaf,
    Leaf,
    OperatorLeaf,
    Tree,
    VerdictLeaf,
    decode_leaf,
    encode_leaf,
    sign_checkpoint,
)
from storage.ground.errors import StoreCorrupt
from storage.tables.codec import StoreHeader, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import Draft, View
from storage.tables.names import COUNTED, LEAVES, NO_SIZES, NODES, TableSizes
from storage.values import Row

LABELS: Final = b"labels"
"""The mark of a change after which reads must read the origins of rows anew."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The last committed state: header, audit tree, and the signed checkpoint of the tree."""

    header: StoreHeader
    tree: Tree
    note: bytes = b""
    # The sizes before header and checkpoint were written, and the bytes of all pages in them.
    sizes: TableSizes = NO_SIZES
    bytes_used: int = 0


class Nodes:
    """The hashes of complete subtrees of the audit log, in the caller's transaction."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, level: int, index: int) -> bytes | None:
        """The stored hash of one subtree, or None."""
        return self._view.get(NODES, _node_key(level, index))

    def put(self, level: int, index: int, node: bytes) -> None:
        """Refuse to store a hash, because this is a read transaction.

        Raises:
            InvariantBroken: Always, because a view cannot write.
        """
        raise InvariantBroken(f"a view cannot write node {index} of level {level}: {node.hex()}")


class _DraftNodes(Nodes):
    __slots__ = ("_draft",)

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._draft = draft

    def put(self, level: int, index: int, node: bytes) -> None:
        """Store the hash of one subtree that has become complete."""
        self._draft.put(NODES, _node_key(level, index), node)


class AddedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that becomes the newest of its memory. `vector` is b"" if the row has none.

    `shown` False: the vector is indexed, but reads do not show the row until a readmission.
    `before`: the previous row of the same memory, if there is one. `text`: the memory's text.
    """

    ordinal: int
    row: Row
    vector: bytes
    text: str
    shown: bool = True
    before: Row | None = None


class IndexChanges(msgspec.Struct, frozen=True):
    """The changes of one transaction for the catalogue and the index, applied after its commit.

    Each row is paired with its ordinal.
    """

    added: list[AddedRow] = []
    superseded: list[tuple[int, Row]] = []
    readmitted: list[tuple[int, Row]] = []
    # The live rows whose label a person raised, with the new label.
    raised: list[tuple[int, Row]] = []
    # The ordinals of purged rows.
    erased: list[int] = []


class ChangeContext(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the store for a change: key names, ruleset, and bytes that may be added."""

    names: KeyedNames
    ruleset: Ruleset
    room_bytes: int
    failpoint: Callable[[str], None]


Part = TypeVar("Part")


class Change:
    """One write transaction before its commit. Writer thread only; each attempt has a new one."""

    def __init__(
        self, draft: Draft, generation: Generation, now_ms: int, around: ChangeContext
    ) -> None:
        self.draft = draft
        self.now_ms = now_ms
        self.around = around
        self.names = around.names
        # The header as this transaction will store it, except for the counts below.
        self.header = generation.header
        self.version = generation.header.version
        self.next_ordinal = generation.header.next_ordinal
        self.live_count = generation.header.live_count
        self.held_count = generation.header.held_count
        self.index = IndexChanges()
        # Tables, and other marks, whose changes caches watch (`StoreAccess.moves`).
        self.moved: set[bytes] = set()
        # Maps each tenant to the bytes by which its usage grows or shrinks.
        self.charges: defaultdict[Tenant, int] = defaultdict(int)
        self._parts: dict[type, Any] = {}
        self._sizes = generation.sizes
        self._tree = generation.tree.copy()
        self._nodes = _DraftNodes(draft)

    def of(self, kind: type[Part]) -> Part:
        """The part of the change that has this type; it is created on the first call."""
        if kind not in self._parts:
            self._parts[kind] = kind()
        part: Part = self._parts[kind]
        return part

    @property
    def leaf_count(self) -> int:
        """The number of leaves in the log, including those of this transaction."""
        return self._tree.size

    def log(self, leaf: Leaf) -> int:
        """Append one leaf to the audit log; return its index."""
        data = encode_leaf(leaf)
        index = self._tree.append(data, self._nodes)
        self.draft.append(LEAVES, ordinal_key(index), data)
        return index

    def note(self, action: str, subject: str, by: PrincipalId, detail: str) -> int:
        """Append the leaf of an act of a person, or of the store itself; return its index."""
        leaf = OperatorLeaf(at_ms=self.now_ms, action=action, subject=subject, by=by, detail=detail)
        return self.log(leaf)

    def finish(self, origin: str, signer: Ed25519PrivateKey) -> Generation:
        """Write header and signed checkpoint; return the generation that the commit will leave."""
        sizes = self.draft.sizes_after(self._sizes)
        header = msgspec.structs.replace(
            self.header,
            version=self.version,
            next_ordinal=self.next_ordinal,
            leaf_count=self._tree.size,
            live_count=self.live_count,
            held_count=self.held_count,
            time_ms=max(self.header.time_ms, self.now_ms),
            counts=sizes.counts,
            total=self.draft.total_after(self.header.total),
        )
        self.draft.put_header(header)
        if self.index.erased:
            # A purge hides content; its bytes are erased when the file is rewritten.
            self.draft.mark_unerased()
        root = self._tree.root()
        note = sign_checkpoint(origin, self._tree.size, root, signer)
        self.draft.put_checkpoint(note)
        return Generation(
            header=header,
            tree=self._tree,
            note=note,
            sizes=sizes,
            bytes_used=sizes.bytes_used,
        )


def leaf_source(view: View) -> Callable[[int], bytes]:
    """A function that returns leaves of the log by index, for proofs and for loading the tree."""

    def leaf_at(index: int) -> bytes:
        data = view.get(LEAVES, ordinal_key(index))
        if data is None:
            raise StoreCorrupt(f"leaf {index} of the audit log is missing")
        return data

    return leaf_at


def read_leaf(view: View, index: int) -> Leaf:
    """One leaf of the log.

    Raises:
        StoreCorrupt: The leaf is missing or damaged.
    """
    return decode_leaf(leaf_source(view)(index), authentic=True)


def read_verdict(view: View, index: int) -> VerdictLeaf:
    """The verdict at one index of the log.

    Raises:
        StoreCorrupt: The leaf is missing or damaged, or is no verdict.
    """
    leaf = read_leaf(view, index)
    if not isinstance(leaf, VerdictLeaf):
        raise StoreCorrupt(f"leaf {index} is no verdict")
    return leaf


def read_interception(view: View, verdict: VerdictLeaf) -> InterceptedLeaf:
    """The interception that a verdict decides.

    Raises:
        StoreCorrupt: The leaf is missing or damaged, or is no interception.
    """
    leaf = read_leaf(view, verdict.intercepted_index)
    if not isinstance(leaf, InterceptedLeaf):
        raise StoreCorrupt(f"leaf {verdict.intercepted_index} is no interception")
    return leaf


def load_generation(view: View, header: StoreHeader) -> Generation:
    """The committed generation, with its tree rebuilt from stored leaves and nodes.

    Raises:
        StoreCorrupt: A leaf or node is missing or damaged, or a table has another number of values
            than the header counts.
    """
    sizes = recount(view, header)
    tree = Tree.load(header.leaf_count, leaf_source(view), Nodes(view))
    note = view.checkpoint() or b""
    return Generation(header=header, tree=tree, note=note, sizes=sizes, bytes_used=sizes.bytes_used)


def recount(view: View, header: StoreHeader) -> TableSizes:
    """The sizes of the tables, after their numbers of values were compared with the header's.

    Raises:
        StoreCorrupt: The numbers differ: a value was taken out of the store, or put in.
    """
    sizes = view.sizes()
    differing = [
        f"{table.decode()} {there} ({counted} counted)"
        for table, there, counted in zip(COUNTED, sizes.counts, header.counts, strict=True)
        if there != counted
    ]
    if differing:
        raise StoreCorrupt(
            "values were taken out of the store or put in without the gate; restore a backup: "
            + ", ".join(differing)
        )
    return sizes


def _node_key(level: int, index: int) -> bytes:
    return bytes((level,)) + index.to_bytes(8, "big")
