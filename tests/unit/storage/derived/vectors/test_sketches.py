"""Sketches: where they may be believed, and what happens where they may not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.derived.vectors import faiss_index, sketches
from storage.derived.vectors.faiss_index import VectorIndex
from storage.derived.vectors.segments import Floats, Mask, seal
from storage.derived.vectors.sketches import mergeable, sketch_of, turn
from tests.unit.storage.derived.vectors.found_pairs import found_pairs

DIMENSION = 64
SEGMENT = 1_024
ROWS = 12_000
CENTRES = 12
TOP = 10
NEAREST = 1_000


def _clustered(count: int, seed: int) -> Floats:
    """Rows around a few centres, as texts about a few subjects lie."""
    centres = np.random.default_rng(1).standard_normal((CENTRES, DIMENSION))
    rng = np.random.default_rng(seed)
    rows = centres[rng.integers(0, CENTRES, count)]
    rows = rows + rng.standard_normal((count, DIMENSION))
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


ALL = _clustered(ROWS, 2)
QUERIES = _clustered(20, 3)


def _improved(monkeypatch: pytest.MonkeyPatch, rows: Floats = ALL) -> VectorIndex:
    """An index of these rows with every sealed segment merged and sketched."""
    monkeypatch.setattr(faiss_index, "CROSSOVER_LEN", SEGMENT)
    monkeypatch.setattr(faiss_index, "NARROW_LEN", 50)
    monkeypatch.setattr(faiss_index, "LEAST_LEN", 0)
    index = VectorIndex(DIMENSION, segment_len=SEGMENT)
    index.extend([(at, row.tobytes()) for at, row in enumerate(rows)])
    while index.improve():
        pass
    return index


def _recall(index: VectorIndex, query: Floats, allowed: Mask | None) -> float:
    found = found_pairs(index, query.tobytes(), TOP, allowed)
    right = found_pairs(index, query.tobytes(), TOP, allowed, exact=True)
    return len({one for one, _ in found} & {one for one, _ in right}) / len(right)


def _without_the_nearest(query: Floats) -> Mask:
    allowed = np.ones(ROWS, dtype=np.bool_)
    allowed[np.argsort(-(ALL @ query))[:NEAREST]] = False
    return allowed


def _mean_recall(index: VectorIndex, masks: list[Mask | None]) -> float:
    pairs = zip(QUERIES, masks, strict=True)
    return float(np.mean([_recall(index, query, mask) for query, mask in pairs]))


def test_segments_are_merged_and_each_has_a_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    index = _improved(monkeypatch)
    lengths = [len(segment.ordinals) for segment in index.segments]
    assert lengths == [11 * SEGMENT]
    assert all(segment.sketch is not None for segment in index.segments)
    assert index.count == ROWS
    ordinals = np.concatenate([segment.ordinals for segment in index.segments])
    assert ordinals.tolist() == list(range(11 * SEGMENT))


def test_the_approximate_search_finds_what_the_exact_one_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _mean_recall(_improved(monkeypatch), [None] * len(QUERIES)) >= 0.99


def test_a_thousand_nearest_neighbours_left_out_do_not_blind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masks: list[Mask | None] = [_without_the_nearest(query) for query in QUERIES]
    index = _improved(monkeypatch)
    assert _mean_recall(index, masks) >= 0.99


def _always_sure(_shortlist: faiss_index.Shortlist, _floor: float) -> bool:
    return True


def test_without_the_fall_back_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same shortlists, never asked whether they are sure."""
    masks: list[Mask | None] = [_without_the_nearest(query) for query in QUERIES]
    index = _improved(monkeypatch)
    monkeypatch.setattr(faiss_index.Shortlist, "sure", _always_sure)
    assert _mean_recall(index, masks) < 0.5


def test_a_flood_of_equal_neighbours_does_not_hide_a_better_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = QUERIES[0]
    nearly = query + 0.45 * ALL[0]
    flood = np.tile((nearly / np.linalg.norm(nearly)).astype(np.float32), (6_000, 1))
    rows = np.concatenate([ALL[:3_000], flood, query[None], ALL[3_000:6_000]])
    index = _improved(monkeypatch, rows)
    (first, score), *others = found_pairs(index, query.tobytes(), TOP, None)
    assert first == 9_000
    assert score == pytest.approx(1.0, abs=1e-5)
    assert len(others) == TOP - 1


@pytest.mark.parametrize("share", [0.5, 0.2, 0.05, 0.01, 0.004])
def test_a_selective_filter_loses_nothing(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    index = _improved(monkeypatch)
    draw = np.random.default_rng(5).random((len(QUERIES), ROWS))
    masks: list[Mask | None] = list(draw < share)
    assert _mean_recall(index, masks) >= 0.99


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.02, 1.0), cluster=st.booleans())
def test_only_allowed_rows_are_found_and_nearly_all_of_the_best(
    seed: int, share: float, *, cluster: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        index = _improved_once(patch)
        rng = np.random.default_rng(seed)
        query = QUERIES[seed % len(QUERIES)]
        allowed = rng.random(ROWS) < share
        if cluster:  # what is excluded lies around the query, not anywhere
            nearest = np.argsort(-(ALL @ query))[: int(rng.integers(1, 4_000))]
            allowed[nearest] = False
        found = found_pairs(index, query.tobytes(), TOP, allowed)
        assert all(allowed[ordinal] for ordinal, _ in found)
        right = found_pairs(index, query.tobytes(), TOP, allowed, exact=True)
        assert len(found) == len(right)
        # A row that is missed once is missed for one nearly as good.
        assert all(have >= want - 0.02 for (_, have), (_, want) in zip(found, right, strict=True))
        RECALLS.append(len({one for one, _ in found} & {one for one, _ in right}) / len(right))
    assert np.mean(RECALLS) >= 0.98


RECALLS: list[float] = []
_CACHE: list[VectorIndex] = []


def _improved_once(patch: pytest.MonkeyPatch) -> VectorIndex:
    patch.setattr(faiss_index, "CROSSOVER_LEN", SEGMENT)
    patch.setattr(faiss_index, "NARROW_LEN", 50)
    patch.setattr(faiss_index, "LEAST_LEN", 0)
    if not _CACHE:
        _CACHE.append(_improved(patch))
    return _CACHE[0]


def test_scores_are_exact_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    index = _improved(monkeypatch)
    found = found_pairs(index, QUERIES[1].tobytes(), TOP, None)
    for ordinal, score in found:
        wide = ALL[ordinal].astype(np.float64) @ QUERIES[1].astype(np.float64)
        assert score == pytest.approx(float(wide), abs=1e-12)
    assert all(one[1] >= other[1] for one, other in pairwise(found))
    assert found_pairs(index, QUERIES[1].tobytes(), TOP, None) == found


def test_a_purge_takes_the_sketch_of_its_segment_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    index = _improved(monkeypatch)
    index.drop([7])
    assert all(one.sketch is None for one in index.segments), "nor has what was the tail one yet"
    assert 7 not in {one for one, _ in found_pairs(index, ALL[7].tobytes(), TOP, None)}
    while index.improve():
        pass
    assert None not in [one.sketch for one in index.segments]
    assert 7 not in {one for one, _ in found_pairs(index, ALL[7].tobytes(), TOP, None)}


def test_what_was_built_from_purged_rows_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_index, "CROSSOVER_LEN", SEGMENT)
    index = VectorIndex(DIMENSION, segment_len=SEGMENT)
    index.extend([(at, row.tobytes()) for at, row in enumerate(ALL)])
    build = sketches.with_sketch

    def purged_meanwhile(segment: faiss_index.Segment) -> faiss_index.Segment:
        built = build(segment)
        index.drop([3])
        return built

    monkeypatch.setattr(faiss_index, "with_sketch", purged_meanwhile)
    assert index.improve()
    assert all(3 not in segment.ordinals for segment in index.segments)
    assert index.count == ROWS - 1


def test_rows_after_the_last_segment_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index = _improved(monkeypatch)
    index.extend([(ROWS + 5, QUERIES[2].tobytes())])
    assert found_pairs(index, QUERIES[2].tobytes(), 1, None)[0][0] == ROWS + 5


def test_estimates_err_as_much_as_they_say() -> None:
    sketch = sketch_of(ALL)
    for query in QUERIES[:5]:
        estimates, rows = sketch.nearest(turn(query), ROWS)
        errors = estimates - ALL[rows] @ query
        assert len(rows) == ROWS
        assert abs(float(errors.mean())) < sketch.error(turn(query))
        assert float(errors.std()) == pytest.approx(sketch.error(turn(query)), rel=0.4)


def test_equal_neighbours_are_merged_four_by_four() -> None:
    def segments(*lengths: int) -> list[faiss_index.Segment]:
        made: list[faiss_index.Segment] = []
        at = 0
        for length in lengths:
            rows = np.tile(ALL[0], (length, 1))
            made.append(seal(np.arange(at, at + length, dtype=np.int64), rows))
            at += length
        return made

    assert mergeable(segments(4, 4, 4), 4) is None
    assert mergeable(segments(4, 4, 4, 4), 4) == (0, 4)
    assert mergeable(segments(16, 4, 4, 3, 4), 4) == (1, 5)
    assert mergeable(segments(16, 16, 16, 16, 4), 4) == (0, 4)
    assert mergeable(segments(*[4] * 40), 4) == (0, 16)
    assert mergeable(segments(64, 64, 64, 64, 64), 4) is None
