"""The changes of one write transaction; they take effect only after its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import PrincipalId, Tenant
from policy.ruleset import Ruleset
from policy.verdict import InvariantBroken
from storage.audit import (
    Leaf,
    OperatorLeaf,
    Tree,
    decode_leaf,
    encode_leaf,
    sign_checkpoint,
)
from storage.ground.errors import StoreCorrupt
from storage.tables.codec import StoreHeader, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LEAVES, NODES, Draft, View
from storage.values import Row

LABELS: Final = b"labels"
"""The mark of a change after which the origins of rows have to be read anew."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The last committed state: header, audit tree, and the checkpoint signed over it."""

    header: StoreHeader
    tree: Tree
    note: bytes = b""


class Nodes:
    """Complete subtrees of the audit log, as the caller's transaction sees them."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, level: int, index: int) -> bytes | None:
        """The stored hash of one subtree."""
        return self._view.get(NODES, _node_key(level, index))

    def put(self, level: int, index: int, node: bytes) -> None:
        """Refuse to store anything: these are the nodes of a read transaction.

        Raises:
            InvariantBroken: Always: a view cannot write.
        """
        raise InvariantBroken(f"a view cannot write node {index} of level {level}: {node.hex()}")


class _DraftNodes(Nodes):
    __slots__ = ("_draft",)

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._draft = draft

    def put(self, level: int, index: int, node: bytes) -> None:
        """Store the hash of one subtree that became complete."""
        self._draft.put(NODES, _node_key(level, index), node)


class AddedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that becomes the state of its memory. `vector` is b"" if the row has none.

    `shown` False: the vector is indexed, but reads find the row only after a readmission. `before`:
    the row of the same memory that it follows, if there is one.
    """

    ordinal: int
    row: Row
    vector: bytes
    shown: bool = True
    before: Row | None = None


class IndexChanges(msgspec.Struct, frozen=True):
    """What one transaction changes in the catalogue and the index, which follow after its commit.

    Each row comes with its ordinal.
    """

    added: list[AddedRow] = []
    superseded: list[tuple[int, Row]] = []
    readmitted: list[tuple[int, Row]] = []
    # The live rows whose labels a person raised, as they are now.
    raised: list[tuple[int, Row]] = []
    # The ordinals of purged rows.
    erased: list[int] = []


class ChangeContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a change knows of its store: the rules in force, and how many bytes may be added."""

    names: KeyedNames
    ruleset: Ruleset
    room_bytes: int
    failpoint: Callable[[str], None]


Part = TypeVar("Part")


class Change:
    """One write transaction under way. Writer thread only; a new one for every attempt."""

    def __init__(
        self, draft: Draft, generation: Generation, now_ms: int, around: ChangeContext
    ) -> None:
        self.draft = draft
        self.now_ms = now_ms
        self.around = around
        self.names = around.names
        # The header that this transaction will leave, but for the counts that follow.
        self.header = generation.header
        self.version = generation.header.version
        self.next_ordinal = generation.header.next_ordinal
        self.live_count = generation.header.live_count
        self.held_count = generation.header.held_count
        self.index = IndexChanges()
        # Tables, and other marks, whose changes caches follow (`Access.moves`).
        self.moved: set[bytes] = set()
        # By how many bytes each tenant's share grows or shrinks.
        self.charges: Counter[Tenant] = Counter()
        self._parts: dict[type, Any] = {}
        self._tree = generation.tree.copy()
        self._nodes = _DraftNodes(draft)

    def of(self, kind: type[Part]) -> Part:
        """The part of the change that has this type; made when it is first asked for."""
        if kind not in self._parts:
            self._parts[kind] = kind()
        part: Part = self._parts[kind]
        return part

    @property
    def leaf_count(self) -> int:
        """The number of leaves in the log, with those of this transaction."""
        return self._tree.size

    def log(self, leaf: Leaf) -> int:
        """Append one leaf to the audit log; returns its index."""
        data = encode_leaf(leaf)
        index = self._tree.append(data, self._nodes)
        self.draft.append(LEAVES, ordinal_key(index), data)
        return index

    def note(self, action: str, subject: str, by: PrincipalId, detail: str) -> int:
        """Append the leaf of what a person, or the store by itself, did; returns its index."""
        leaf = OperatorLeaf(at_ms=self.now_ms, action=action, subject=subject, by=by, detail=detail)
        return self.log(leaf)

    def finish(self, origin: str, signer: Ed25519PrivateKey) -> Generation:
        """Write header and signed checkpoint; returns the store's generation once this commits."""
        header = msgspec.structs.replace(
            self.header,
            version=self.version,
            next_ordinal=self.next_ordinal,
            leaf_count=self._tree.size,
            live_count=self.live_count,
            held_count=self.held_count,
            time_ms=max(self.header.time_ms, self.now_ms),
        )
        self.draft.put_header(header)
        if self.index.erased:
            # A purge hides content; its bytes are erased when the file is rewritten.
            self.draft.mark_unerased()
        root = self._tree.root()
        note = sign_checkpoint(origin, self._tree.size, root, signer)
        self.draft.put_checkpoint(note)
        return Generation(header=header, tree=self._tree, note=note)


def leaf_source(view: View) -> Callable[[int], bytes]:
    """Reads leaves of the log by index, for proofs and for loading the tree."""

    def leaf_at(index: int) -> bytes:
        data = view.get(LEAVES, ordinal_key(index))
        if data is None:
            raise StoreCorrupt(f"leaf {index} of the audit log is missing")
        return data

    return leaf_at


def read_leaf(view: View, index: int) -> Leaf:
    """Read one leaf of the log.

    Raises:
        StoreCorrupt: The leaf is missing or damaged.
    """
    return decode_leaf(leaf_source(view)(index))


def load_generation(view: View, header: StoreHeader) -> Generation:
    """The committed generation, its tree rebuilt from stored leaves and nodes.

    Raises:
        StoreCorrupt: A leaf or node is missing or damaged.
    """
    tree = Tree.load(header.leaf_count, leaf_source(view), Nodes(view))
    return Generation(header=header, tree=tree, note=view.checkpoint() or b"")


def _node_key(level: int, index: int) -> bytes:
    return bytes((level,)) + index.to_bytes(8, "big")
