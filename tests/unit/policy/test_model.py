"""The lattice of labels and the order of classes."""

from __future__ import annotations

import itertools

from policy.model import MemoryClass, SourceKind, meet


def test_the_meet_is_the_less_trusted_in_any_order_and_never_more_than_either() -> None:
    for one, other in itertools.product(SourceKind, repeat=2):
        least = meet(one, other)
        assert least in {one, other}
        assert least.trust == meet(other, one).trust == min(one.trust, other.trust)


def test_the_lattice_is_that_of_the_design() -> None:
    ranks = [kind.trust for kind in SourceKind]
    assert ranks == [3, 2, 1, 1, 0, 0]
    assert [memory_class.power for memory_class in MemoryClass] == [4, 3, 2, 1]
