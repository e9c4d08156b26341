"""The Merkle tree against the published vectors of Certificate Transparency (RFC 6962)."""

from __future__ import annotations

import pytest

from policy.verdict import InvariantBroken
from storage.audit import (
    Tree,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    range_root,
    tile_name,
    tiles_since,
    verify_inclusion,
)
from storage.ground.errors import StoreCorrupt
from tests.tlog_reader import is_consistent

LEAVES = tuple(
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
)
ROOTS = tuple(
    bytes.fromhex(text)
    for text in (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
)
INCLUSION = {
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 3): ("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",),
}


class CountingNodes:
    """A node store in memory that counts its reads."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}
        self.reads = 0

    def put(self, level: int, index: int, node: bytes) -> None:
        self.nodes[level, index] = node

    def get(self, level: int, index: int) -> bytes | None:
        self.reads += 1
        return self.nodes.get((level, index))


def _log(count: int) -> tuple[list[bytes], Tree, CountingNodes]:
    leaves = [index.to_bytes(4, "big") for index in range(count)]
    tree, nodes = Tree(), CountingNodes()
    for leaf in leaves:
        tree.append(leaf, nodes)
    return leaves, tree, nodes


@pytest.mark.parametrize("size", range(9))
def test_roots_are_those_of_the_reference_log(size: int) -> None:
    tree, nodes = Tree(), CountingNodes()
    assert [tree.append(leaf, nodes) for leaf in LEAVES[:size]] == list(range(size))
    assert tree.root() == ROOTS[size]


@pytest.mark.parametrize("at", INCLUSION)
def test_inclusion_proofs_are_those_of_the_reference_log(at: tuple[int, int]) -> None:
    expected = tuple(bytes.fromhex(text) for text in INCLUSION[at])
    assert inclusion_proof(*at, LEAVES.__getitem__, CountingNodes()) == expected
    assert verify_inclusion(LEAVES[at[0]], *at, expected, ROOTS[at[1]])


def test_a_leaf_cannot_pass_as_an_inner_node() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)
    assert leaf_hash(b"\x01" + left + right) != node_hash(left, right)


def test_an_undone_append_leaves_the_copy_as_it_was() -> None:
    _, tree, nodes = _log(255)
    before = tree.copy()
    tree.append(b"lost", nodes)
    assert (before.size, before.root()) == (255, _log(255)[1].root())
    before.append(b"kept", nodes)
    assert before.root() != tree.root()
    assert nodes.get(8, 0) is not None


def test_loading_and_proving_a_large_log_reads_a_few_hundred_hashes() -> None:
    leaves, tree, nodes = _log(70_000)
    reads = 0

    def leaf_at(index: int) -> bytes:
        nonlocal reads
        reads += 1
        return leaves[index]

    nodes.reads = 0
    assert Tree.load(len(leaves), leaf_at, nodes).root() == tree.root()
    assert reads + nodes.reads <= 3 * 256
    reads = nodes.reads = 0
    proof = inclusion_proof(31_234, len(leaves), leaf_at, nodes)
    assert reads + nodes.reads <= 6 * 256
    assert verify_inclusion(leaves[31_234], 31_234, len(leaves), proof, tree.root())


def test_a_missing_stored_node_is_corruption_not_another_root() -> None:
    leaves, _, nodes = _log(300)
    nodes.nodes.clear()
    with pytest.raises(StoreCorrupt):
        Tree.load(300, leaves.__getitem__, nodes)


def test_a_tree_with_a_wrong_number_of_peaks_is_refused() -> None:
    with pytest.raises(InvariantBroken):
        Tree(3, [bytes(32)])


@pytest.mark.parametrize(("index", "size"), [(-1, 1), (1, 1), (0, 0), (8, 8)])
def test_no_proof_for_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="no leaf"):
        inclusion_proof(index, size, LEAVES.__getitem__, CountingNodes())
    assert not verify_inclusion(b"", index, size, (), ROOTS[1])


# Of RFC 6962 and the reference implementation of Certificate Transparency.
CONSISTENCY = {
    (1, 1): (),
    (1, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (6, 8): (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 5): (
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}


@pytest.mark.parametrize(("sizes", "proof"), CONSISTENCY.items())
def test_consistency_proofs_are_those_of_the_published_vectors(
    sizes: tuple[int, int], proof: tuple[str, ...]
) -> None:
    nodes = CountingNodes()
    assert consistency_proof(*sizes, LEAVES.__getitem__, nodes) == tuple(map(bytes.fromhex, proof))
    assert is_consistent(*sizes, [*map(bytes.fromhex, proof)], ROOTS[sizes[0]], ROOTS[sizes[1]])


def test_every_consistency_proof_verifies_and_none_does_for_another_tree() -> None:
    leaves, _, nodes = _log(600)
    sizes = [0, 1, 2, 3, 4, 7, 8, 255, 256, 257, 300, 511, 512, 513, 599, 600]
    roots = {size: range_root(0, size, leaves.__getitem__, nodes) for size in sizes}
    for at, old in enumerate(sizes):
        for size in sizes[at:]:
            proof = list(consistency_proof(old, size, leaves.__getitem__, nodes))
            assert len(proof) <= 63
            assert is_consistent(old, size, proof, roots[old], roots[size])
            if old > 0:
                assert not is_consistent(old, size, proof, bytes(32), roots[size])
                assert not is_consistent(old, size, [*proof, bytes(32)], roots[old], roots[size])


@pytest.mark.parametrize(("old", "size"), [(2, 1), (601, 600), (-1, 5), (1, 0)])
def test_no_tree_continues_a_larger_one(old: int, size: int) -> None:
    leaves, _, nodes = _log(600)
    with pytest.raises((ValueError, StoreCorrupt)):
        consistency_proof(old, size, leaves.__getitem__, nodes)


def _named(old: int, size: int) -> list[str]:
    return [f"{level}/{tile_name(places)}" for level, places in tiles_since(old, size)]


def test_the_tiles_of_a_tree_are_those_of_the_specifications_examples() -> None:
    names = _named(0, 70_000)
    assert len(names) == 273 + 1 + 2 + 1
    assert names[:2] == ["0/000", "0/001"]
    assert names[272:] == ["0/272", "0/273.p/112", "1/000", "1/001.p/17", "2/000.p/1"]
    assert _named(0, 256) == ["0/000", "1/000.p/1"]
    assert _named(0, 1) == ["0/000.p/1"]
    assert _named(0, 0) == []
    place = range(1_234_067 * 256, 1_234_068 * 256)
    assert tile_name(place) == "x001/x234/067"
    assert tile_name(place[:3]) == "x001/x234/067.p/3"
    assert tile_name(range(1_000 * 256, 1_001 * 256)) == "x001/000"


@pytest.mark.parametrize(("old", "size"), [(0, 1), (255, 256), (256, 257), (300, 70_000), (7, 7)])
def test_what_a_tree_has_and_an_earlier_one_lacks_is_each_new_tile(old: int, size: int) -> None:
    lacking = [name for name in _named(0, size) if name not in set(_named(0, old))]
    found = _named(old, size)
    assert set(lacking) <= set(found)
    # The last part of each level may be there already.
    assert all(".p/" in name for name in set(found) - set(lacking))
