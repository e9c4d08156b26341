"""Search of 10,000 and 100,000 vectors, exact and approximate, and what leaving some out costs."""

from __future__ import annotations

import time
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.derived.vectors.faiss_index import VectorIndex, seal
from tests.benchmarks.bars import BarRow, Lines, at_least, at_most
from tests.benchmarks.corpus import DIMENSION, Corpus, Floats
from tests.benchmarks.pairs import ratio_of
from tests.unit.storage.derived.vectors.found_pairs import found_pairs

SIZES = (10_000, 100_000)
QUERIES = 300
TOP = 10
NEAREST = 1_000
_RECALLED = 20
_BARS_MS = {
    (10_000, True): at_most(1.5, " ms"),
    (100_000, True): at_most(7, " ms"),
    (10_000, False): at_most(1, " ms"),
    (100_000, False): at_most(2, " ms"),
}
_RECALL_BAR = 0.99
_FLAT_BAR = {10_000: "none", 100_000: at_most(1.3)}

Mask = NDArray[np.bool_]


class _Search:
    """One index, asked exactly or as it answers by itself."""

    def __init__(self, index: VectorIndex, *, exact: bool) -> None:
        self._index = index
        self.exact = exact
        self.name = "exact" if exact else "approximate"

    def search(self, query: bytes, limit: int, allowed: Mask | None) -> list[tuple[int, float]]:
        return found_pairs(self._index, query, limit, allowed, exact=self.exact)


def run() -> Lines:
    """Per size and share left out: p50, p99, the ratio to nothing left out, and recall@10."""
    lines: Lines = [
        "vectors | search      | left out             | p50 ms | p99 ms | against none | recall@10"
    ]
    for size in SIZES:
        corpus = Corpus()
        rows, queries = corpus.rows(size), corpus.rows(QUERIES)
        index = _index(rows)
        while index.improve():
            pass
        for exact in (True, False):
            lines += _table(_Search(index, exact=exact), rows, queries)
        lines.append(_against_flat(_Search(index, exact=True), rows, queries))
    return lines


def _table(index: _Search, rows: Floats, queries: Floats) -> Lines:
    size = len(rows)
    none = np.ones(size, dtype=np.bool_)
    (base,) = _timed(index, queries, none)
    name = f"{size:7d} | {index.name:11s}"
    lines: Lines = [_line(name, "none", base, base, _recall(index, rows, queries, none))]
    slow: list[float] = []
    rng = np.random.default_rng(1)
    for share in (0.01, 0.1):
        mask = rng.random(size) >= share
        # Query by query in turns: the machine's own pace must not look like a cost.
        base, timed = _timed(index, queries, none, mask)
        slow.append(timed[1])
        recall = _recall(index, rows, queries, mask)
        lines.append(_line(name, f"{share:.0%} at random", timed, base, recall))
    poisoned, recall = _poisoned(index, rows, queries)
    bar = _BARS_MS[size, index.exact]
    p99 = BarRow(f"search of {size:,}, {index.name}, 1 % left out, p99", f"{slow[0]:.2f} ms", bar)
    what = f"recall@{TOP}, {size:,}, {index.name}, the {NEAREST:,} nearest left out"
    return [*lines, poisoned, p99, BarRow(what, f"{recall:.3f}", at_least(_RECALL_BAR))]


def _against_flat(index: _Search, rows: Floats, queries: Floats) -> BarRow:
    """The median ratio of an exact search to FAISS's own scan of the same rows, in turns."""
    flat: Any = faiss.IndexFlatIP(DIMENSION)
    flat.add(rows)
    everything = np.ones(len(rows), dtype=np.bool_)
    taken: list[tuple[float, float]] = []
    for number, query in enumerate(queries):
        data, row = query.tobytes(), query[None, :]
        pair = [0.0, 0.0]
        for way in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            if way:
                index.search(data, TOP, everything)
            else:
                flat.search(row, TOP)
            pair[way] = time.perf_counter() - began
        taken.append((pair[0], pair[1]))
    ratio = f"{ratio_of(np.array(taken)):.2f}"
    return BarRow(
        f"search of {len(rows):,}, exact against a bare flat scan", ratio, _FLAT_BAR[len(rows)]
    )


def _index(rows: Floats) -> VectorIndex:
    length = 8_192
    ordinals = np.arange(len(rows), dtype=np.int64)
    segments = [
        seal(ordinals[start : start + length], rows[start : start + length])
        for start in range(0, len(rows), length)
    ]
    return VectorIndex(DIMENSION, segments)


def _timed(index: _Search, queries: Floats, *masks: Mask) -> list[tuple[float, float]]:
    samples: list[list[float]] = [[] for _ in masks]
    for query in queries:
        data = query.tobytes()
        for taken, mask in zip(samples, masks, strict=True):
            started = time.perf_counter()
            index.search(data, TOP, mask)
            taken.append((time.perf_counter() - started) * 1e3)
    for taken in samples:
        taken.sort()
    return [(taken[len(taken) // 2], taken[len(taken) * 99 // 100]) for taken in samples]


def _truth(rows: Floats, query: Floats, mask: Mask) -> set[int]:
    scores = rows.astype(np.float64) @ query.astype(np.float64)
    scores[~mask] = -np.inf
    return set(np.argsort(-scores)[:TOP].tolist())


def _recall(index: _Search, rows: Floats, queries: Floats, mask: Mask) -> float:
    right = 0
    for query in queries[:_RECALLED]:
        found = {ordinal for ordinal, _ in index.search(query.tobytes(), TOP, mask)}
        right += len(found & _truth(rows, query, mask))
    return right / (TOP * _RECALLED)


def _poisoned(index: _Search, rows: Floats, queries: Floats) -> tuple[str, float]:
    """The thousand nearest neighbours of each query left out: what a quarantined flood does."""
    samples: list[float] = []
    right = 0
    for query in queries[:_RECALLED]:
        scores = rows @ query
        mask = np.ones(len(rows), dtype=np.bool_)
        mask[np.argpartition(-scores, NEAREST)[:NEAREST]] = False
        started = time.perf_counter()
        found = index.search(query.tobytes(), TOP, mask)
        samples.append((time.perf_counter() - started) * 1e3)
        right += len({ordinal for ordinal, _ in found} & _truth(rows, query, mask))
    samples.sort()
    name = f"{len(rows):7d} | {index.name:11s} | {'the 1,000 nearest':20s}"
    recall = right / (TOP * _RECALLED)
    middle, slowest = samples[len(samples) // 2], samples[-1]
    return f"{name} | {middle:6.2f} | {slowest:6.2f} | {'':12s} | {recall:.3f}", recall


def _line(
    name: str, what: str, timed: tuple[float, float], base: tuple[float, float], recall: float
) -> str:
    ratio = timed[0] / base[0]
    return f"{name} | {what:20s} | {timed[0]:6.2f} | {timed[1]:6.2f} | {ratio:12.2f} | {recall:.3f}"
