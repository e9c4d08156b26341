"""The Merkle tree of the audit log: RFC 6962 section 2.1, proofs checked as in RFC 9162.

Only the tree's right edge is held in memory. The hashes of complete subtrees of 2^8, 2^16, 2^24,
... leaves are stored in a `NodeStore`, so that loading a tree or proving a leaf reads a few hundred
hashes, whatever the size of the log.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from policy.verdict import InvariantBroken
from storage.ground.errors import StoreCorrupt

LeafSource = Callable[[int], bytes]


HASH_LEN: Final = 32
BAND: Final = 8
"""Every `BAND`-th level of the tree is stored; the levels between are recomputed from it."""
TILE_WIDTH: Final = 1 << BAND

_EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


class NodeStore(Protocol):
    """The stored hashes of subtrees, in the caller's transaction."""

    def put(self, level: int, index: int, node: bytes) -> None:
        """Store the hash over leaves `index << level` up to `(index + 1) << level`, exclusive."""
        ...

    def get(self, level: int, index: int) -> bytes | None:
        """The hash that was stored for this subtree, or None."""
        ...


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf; its prefix keeps a leaf from passing as an inner node (RFC 6962 2.1)."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """The right edge of the log: one hash for each set bit of `size`, largest subtree first.

    Not safe for concurrent use: it belongs to the writer thread.
    """

    __slots__ = ("_peaks", "_size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        if len(peaks) != size.bit_count():
            raise InvariantBroken("a tree of this size has another number of peaks")
        self._size = size
        self._peaks = list(peaks)

    @classmethod
    def load(cls, size: int, leaf_at: LeafSource, nodes: NodeStore) -> Tree:
        """Rebuild the tree of `size` leaves from at most 255 leaves and 255 nodes per stored level.

        Raises:
            StoreCorrupt: A node that the tree needs is missing.
        """
        peaks: list[bytes] = []
        start = 0
        for level in reversed(range(size.bit_length())):
            if size >> level & 1:
                peaks.append(_complete(level, start >> level, leaf_at, nodes))
                start += 1 << level
        return cls(size, peaks)

    @property
    def size(self) -> int:
        """The number of leaves in the tree."""
        return self._size

    def append(self, leaf: bytes, nodes: NodeStore) -> int:
        """Add one encoded leaf; return its index.

        `nodes` belongs to the transaction that stores the leaf. Take a `copy` of the tree before
        the transaction, and use the copy instead if the transaction fails.
        """
        index = self._size
        node, level, left = leaf_hash(leaf), 0, index
        while left & 1:
            node = node_hash(self._peaks.pop(), node)
            level += 1
            left >>= 1
            if level % BAND == 0:
                nodes.put(level, left, node)
        self._peaks.append(node)
        self._size = index + 1
        return index

    def root(self) -> bytes:
        """The Merkle tree hash over all leaves; SHA-256 of nothing for an empty tree."""
        if not self._peaks:
            return _EMPTY_ROOT
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = node_hash(peak, node)
        return node

    def copy(self) -> Tree:
        """An independent tree of the same leaves; costs one small list."""
        return Tree(self._size, self._peaks)


def range_root(start: int, stop: int, leaf_at: LeafSource, nodes: NodeStore) -> bytes:
    """The Merkle tree hash over leaves `start` up to `stop`, exclusive.

    `start` must be a multiple of the smallest power of two that is not below `stop - start`, as
    it is for every subtree of the log.
    """
    count = stop - start
    if count == 0:
        return _EMPTY_ROOT
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return _complete(level, start >> level, leaf_at, nodes)
    middle = start + _split(count)
    return node_hash(
        range_root(start, middle, leaf_at, nodes), range_root(middle, stop, leaf_at, nodes)
    )


def inclusion_proof(
    index: int, size: int, leaf_at: LeafSource, nodes: NodeStore
) -> tuple[bytes, ...]:
    """The audit path of leaf `index` in the tree of its first `size` leaves (RFC 6962 2.1.1).

    Raises:
        ValueError: There is no such leaf.
        StoreCorrupt: A stored node is missing.
    """
    if not 0 <= index < size:
        raise ValueError("no leaf of that index in a tree of that size")
    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(range_root(middle, stop, leaf_at, nodes))
            stop = middle
        else:
            path.append(range_root(start, middle, leaf_at, nodes))
            start = middle
    return tuple(reversed(path))


def consistency_proof(
    old: int, size: int, leaf_at: LeafSource, nodes: NodeStore
) -> tuple[bytes, ...]:
    """The proof that the tree of `size` leaves continues the one of its first `old` leaves.

    It is that of RFC 6962 2.1.2, and empty where `old` is 0 or `size`.

    Raises:
        ValueError, StoreCorrupt: `old` is more than `size`, or a stored node is missing.
    """
    path: list[bytes] = []
    start, stop = 0, size
    while old and old != stop:
        middle = start + _split(stop - start)
        left, right = (start, middle), (middle, stop)
        # The old tree ends in one half; the other half is a step of the proof.
        (start, stop), other = (left, right) if old <= middle else (right, left)
        path.append(range_root(*other, leaf_at, nodes))
    # A verifier has the root of the old tree, and not that of a part of it.
    if start:
        path.append(range_root(start, stop, leaf_at, nodes))
    return tuple(reversed(path))


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Whether `leaf` (encoded, not hashed) is leaf `index` of the tree (RFC 9162 2.1.3.2)."""
    if not 0 <= index < size or any(len(node) != HASH_LEN for node in proof):
        return False
    place, last, node = index, size - 1, leaf_hash(leaf)
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            node = node_hash(node, sibling)
        place >>= 1
        last >>= 1
    return last == 0 and node == root


def tiles_since(old: int, size: int) -> Iterator[tuple[int, range]]:
    """The tiles (C2SP) of a tree of `size` leaves that one of `old` leaves lacks or has in part.

    Each is its level, and the indexes there of the at most 256 subtrees whose hashes it has.
    """
    level = 0
    while size:
        for start in range(old - old % TILE_WIDTH, size, TILE_WIDTH):
            yield level, range(start, min(start + TILE_WIDTH, size))
        old, size, level = old >> BAND, size >> BAND, level + 1


def tile_name(places: range) -> str:
    """The end of a tile's path: its index in groups of three digits, and its width if not whole."""
    digits = str(places.start // TILE_WIDTH)
    padded = digits.zfill(-(-len(digits) // 3) * 3)
    grouped = re.sub("([0-9]{3})(?=[0-9])", r"x\1/", padded)
    return grouped if len(places) == TILE_WIDTH else f"{grouped}.p/{len(places)}"


def _split(count: int) -> int:
    """The largest power of two below `count` (RFC 6962 2.1)."""
    return 1 << (count - 1).bit_length() - 1


def _complete(level: int, index: int, leaf_at: LeafSource, nodes: NodeStore) -> bytes:
    """The hash of a complete subtree, computed from the nearest stored level below it."""
    if level == 0:
        return leaf_hash(leaf_at(index))
    if level % BAND == 0:
        node = nodes.get(level, index)
        if node is None or len(node) != HASH_LEN:
            raise StoreCorrupt("a node of the audit tree is missing")
        return node
    return node_hash(
        _complete(level - 1, 2 * index, leaf_at, nodes),
        _complete(level - 1, 2 * index + 1, leaf_at, nodes),
    )
