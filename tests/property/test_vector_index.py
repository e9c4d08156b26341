"""The vector index against a sorted list, over random growth, drops and masks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage.derived.vectors.faiss_index import Floats, VectorIndex

DIMENSION = 3
SEGMENT = 5


def _palette() -> Floats:
    """Few vectors, so that ties abound, some of them a rounding error apart."""
    rows = np.random.default_rng(0).standard_normal((6, DIMENSION))
    rows = np.concatenate([rows, rows[:2] + 1e-7])
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


PALETTE = _palette()
picks = st.integers(0, len(PALETTE) - 1)


class IndexMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.index = VectorIndex(DIMENSION, segment_len=SEGMENT)
        self.rows: dict[int, int] = {}
        self.next = 0

    @rule(colours=st.lists(picks, max_size=12), gap=st.integers(0, 3))
    def extend(self, colours: list[int], gap: int) -> None:
        items: list[tuple[int, bytes]] = []
        for colour in colours:
            self.next += gap
            self.rows[self.next] = colour
            items.append((self.next, PALETTE[colour].tobytes()))
            self.next += 1
        self.index.extend(items)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.rows)), max_size=6))
        self.index.drop(sorted(gone))
        for ordinal in gone:
            del self.rows[ordinal]

    @rule(colour=picks, limit=st.integers(1, 12), data=st.data())
    def search(self, colour: int, limit: int, data: st.DataObject) -> None:
        reach = data.draw(st.integers(0, self.next + 2))
        bits = data.draw(st.one_of(st.none(), st.binary(min_size=reach, max_size=reach)))
        allowed = None if bits is None else np.array([byte % 2 for byte in bits], dtype=np.bool_)
        query = PALETTE[colour].astype(np.float64)
        expected = sorted(
            (-float((PALETTE[row].astype(np.float64) * query).sum()), ordinal)
            for ordinal, row in self.rows.items()
            if allowed is None or (ordinal < len(allowed) and allowed[ordinal])
        )[:limit]
        found = self.index.search(PALETTE[colour].tobytes(), limit, allowed)
        assert [ordinal for ordinal, _ in found] == [ordinal for _, ordinal in expected]

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "index"):
            assert self.index.count == len(self.rows)
            assert self.index.last_ordinal == max(self.rows, default=-1)


TestIndexMachine = IndexMachine.TestCase
