"""The stored, incremental tree against the recursive definition of RFC 6962, on random sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from storage.audit import (
    Tree,
    inclusion_proof,
    verify_inclusion,
)

SIZE_MAX = 600


class Nodes:
    def __init__(self) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}

    def put(self, level: int, index: int, node: bytes) -> None:
        self.nodes[level, index] = node

    def get(self, level: int, index: int) -> bytes | None:
        return self.nodes.get((level, index))


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _split(count: int) -> int:
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def _mth(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962 2.1, word for word."""
    if not leaves:
        return _sha(b"")
    if len(leaves) == 1:
        return _sha(b"\x00" + leaves[0])
    k = _split(len(leaves))
    return _sha(b"\x01" + _mth(leaves[:k]) + _mth(leaves[k:]))


def _path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """RFC 6962 2.1.1, word for word."""
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return [*_path(index, leaves[:k]), _mth(leaves[k:])]
    return [*_path(index - k, leaves[k:]), _mth(leaves[:k])]


LEAVES = [index.to_bytes(2, "big") * (index % 5) for index in range(SIZE_MAX)]
NODES = Nodes()
TREES = [Tree()]
for _leaf in LEAVES:
    _tree = TREES[-1].copy()
    _tree.append(_leaf, NODES)
    TREES.append(_tree)

sizes = st.integers(min_value=1, max_value=SIZE_MAX)


@given(sizes)
def test_root_and_reloaded_root_are_the_recursive_one(size: int) -> None:
    expected = _mth(LEAVES[:size])
    assert TREES[size].root() == expected
    assert Tree.load(size, LEAVES.__getitem__, NODES).root() == expected


@given(sizes, st.data())
def test_inclusion_proofs_are_the_recursive_ones_and_verify(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(index, size, LEAVES.__getitem__, NODES)
    assert list(proof) == _path(index, LEAVES[:size])
    assert verify_inclusion(LEAVES[index], index, size, proof, TREES[size].root())


def _damaged(proof: Sequence[bytes], data: st.DataObject) -> list[bytes]:
    """The proof with one bit flipped, one node gone, one more, or two swapped."""
    nodes = list(proof)
    how = data.draw(st.sampled_from(["flip", "drop", "add", "short"]))
    at = data.draw(st.integers(0, max(len(nodes) - 1, 0)))
    if how == "add" or not nodes:
        nodes.insert(at, data.draw(st.binary(min_size=32, max_size=32)))
    elif how == "flip":
        bit = data.draw(st.integers(0, 255))
        nodes[at] = (int.from_bytes(nodes[at], "big") ^ 1 << bit).to_bytes(32, "big")
    elif how == "drop":
        del nodes[at]
    else:
        nodes[at] = nodes[at][:-1]
    return nodes


@given(sizes, st.data())
def test_a_damaged_inclusion_proof_never_verifies(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    root = TREES[size].root()
    proof = inclusion_proof(index, size, LEAVES.__getitem__, NODES)
    assert not verify_inclusion(LEAVES[index], index, size, _damaged(proof, data), root)
    assert not verify_inclusion(LEAVES[index] + b"!", index, size, proof, root)
    assert not verify_inclusion(LEAVES[index], index, size + 1, proof, TREES[0].root())


@given(sizes, st.data())
def test_a_rewritten_leaf_changes_each_root_after_it(size: int, data: st.DataObject) -> None:
    forged = list(LEAVES[:size])
    rewritten = data.draw(st.integers(0, size - 1))
    forged[rewritten] = b"rewritten"
    nodes, tree = Nodes(), Tree()
    for index, leaf in enumerate(forged):
        tree.append(leaf, nodes)
        # Before the rewritten leaf both logs are the same, so the difference comes from it.
        assert (tree.root() == TREES[index + 1].root()) is (index < rewritten)
