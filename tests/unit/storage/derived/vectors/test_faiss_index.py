"""The vector index: exact whatever is masked, safe whatever is fed to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from policy.verdict import InvariantBroken
from storage.derived.vectors import faiss_index
from storage.derived.vectors.faiss_index import BadVector, Floats, Mask, VectorIndex, seal
from tests.unit.storage.derived.vectors.found_pairs import found_pairs

DIMENSION = 16
SEGMENT = 64


def _unit(count: int, seed: int = 0, dimension: int = DIMENSION) -> Floats:
    rows = np.random.default_rng(seed).standard_normal((count, dimension))
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def _items(rows: Floats, ordinals: Sequence[int] | None = None) -> list[tuple[int, bytes]]:
    names = range(len(rows)) if ordinals is None else ordinals
    return [(name, row.tobytes()) for name, row in zip(names, rows, strict=True)]


def _index(rows: Floats, ordinals: Sequence[int] | None = None) -> VectorIndex:
    index = VectorIndex(rows.shape[1], segment_len=SEGMENT)
    index.extend(_items(rows, ordinals))
    return index


def _naive(
    rows: Floats, ordinals: Sequence[int], query: bytes, limit: int, allowed: Mask | None
) -> list[int]:
    wide = np.frombuffer(query, "<f4").astype(np.float64)
    scored = [
        (-float((row.astype(np.float64) * wide).sum()), ordinal)
        for row, ordinal in zip(rows, ordinals, strict=True)
        if allowed is None or (ordinal < len(allowed) and allowed[ordinal])
    ]
    return [ordinal for _, ordinal in sorted(scored)[:limit]]


def _found(index: VectorIndex, query: bytes, limit: int, allowed: Mask | None) -> list[int]:
    return [ordinal for ordinal, _ in found_pairs(index, query, limit, allowed)]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("share", [None, 0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("narrow", [0, 2_000])
def test_search_is_exact_at_every_size_and_mask(
    count: int, share: float | None, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_index, "NARROW_LEN", narrow)
    rows = _unit(count)
    ordinals = [3 * at + at % 2 for at in range(count)]
    index = _index(rows, ordinals)
    draw = np.random.default_rng(1).random(3 * count + 3)
    allowed = None if share is None else draw < share
    for query in _unit(5, seed=2):
        for limit in (1, 7, count + 5):
            found = _found(index, query.tobytes(), limit, allowed)
            assert found == _naive(rows, ordinals, query.tobytes(), limit, allowed)


def test_scores_are_cosines_best_first_and_never_above_one() -> None:
    rows = _unit(100)
    found = found_pairs(_index(rows), rows[3].tobytes(), 5, None)
    assert found[0][0] == 3
    assert found[0][1] == pytest.approx(1.0, abs=1e-6)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] <= 1.0


@pytest.mark.parametrize("narrow", [0, 2_000])
def test_equal_vectors_come_oldest_first_across_segments_and_tail(
    narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_index, "NARROW_LEN", narrow)
    one, others = _unit(1, dimension=7), _unit(300, seed=3, dimension=7)
    others[::2] = one
    index = _index(others)
    allowed = np.ones(300, dtype=np.bool_)
    assert _found(index, one.tobytes(), 5, None) == [0, 2, 4, 6, 8]
    assert _found(index, one.tobytes(), 150, None) == list(range(0, 300, 2))
    allowed[:100] = False
    assert _found(index, one.tobytes(), 3, allowed) == [100, 102, 104]


def test_quarantined_neighbours_of_the_query_do_not_push_honest_rows_out() -> None:
    honest, poison = _unit(500, seed=4), _unit(1)
    near = poison + np.float32(1e-3) * _unit(400, seed=5)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    rows = np.concatenate([honest, near.astype(np.float32)])
    allowed = np.arange(900) < 500
    index = _index(rows)
    assert min(_found(index, poison.tobytes(), 10, None)) >= 500
    expected = _naive(rows, range(900), poison.tobytes(), 10, allowed)
    assert _found(index, poison.tobytes(), 10, allowed) == expected


def test_rows_beyond_the_mask_are_not_allowed() -> None:
    rows = _unit(100)
    index = _index(rows)
    assert max(_found(index, rows[99].tobytes(), 100, np.ones(70, dtype=np.bool_))) == 69
    assert found_pairs(index, rows[99].tobytes(), 10, np.zeros(0, dtype=np.bool_)) == []


def test_an_empty_index_and_a_limit_of_zero_find_nothing() -> None:
    rows = _unit(3)
    assert found_pairs(VectorIndex(DIMENSION), rows[0].tobytes(), 5, None) == []
    assert found_pairs(_index(rows), rows[0].tobytes(), 0, None) == []
    assert VectorIndex(DIMENSION).last_ordinal == -1


def _bad_vectors() -> dict[str, bytes]:
    good = _unit(1)[0]
    spoiled: dict[str, bytes] = {}
    for name, value in (("nan", np.nan), ("inf", np.inf), ("-inf", -np.inf), ("3e38", 3e38)):
        row = good.copy()
        row[5] = value
        spoiled[name] = row.tobytes()
    spoiled["zero"] = bytes(4 * DIMENSION)
    spoiled["long"] = (good * np.float32(1.01)).tobytes()
    spoiled["short"] = (good * np.float32(0.99)).tobytes()
    spoiled["too few"] = good.tobytes()[:-4]
    spoiled["too many"] = good.tobytes() + bytes(4)
    spoiled["empty"] = b""
    return spoiled


@pytest.mark.parametrize("name", _bad_vectors())
def test_a_bad_vector_is_refused_as_row_and_as_query_and_nothing_of_its_batch_lands(
    name: str,
) -> None:
    rows, bad = _unit(10), _bad_vectors()[name]
    index = _index(rows)
    with pytest.raises(BadVector):
        index.extend([(10, rows[0].tobytes()), (11, bad)])
    with pytest.raises(BadVector):
        found_pairs(index, bad, 5, None)
    assert (index.count, index.last_ordinal) == (10, 9)


@pytest.mark.parametrize("beside", [7, 8, 300])
@pytest.mark.parametrize("name", _bad_vectors())
def test_a_bad_vector_is_refused_among_few_and_among_many(name: str, beside: int) -> None:
    """A few are looked at one by one, many in one pass: neither lets one through."""
    index = VectorIndex(DIMENSION)
    good = [row.tobytes() for row in _unit(beside)]
    with pytest.raises(BadVector):
        index.extend([*enumerate(good), (beside, _bad_vectors()[name])])
    index.extend(list(enumerate(good)))
    assert index.count == beside


def test_two_wrong_lengths_that_add_up_are_refused() -> None:
    row = _unit(1).tobytes()
    with pytest.raises(BadVector):
        VectorIndex(DIMENSION).extend([(0, row + row[:4]), (1, row[4:])])


@pytest.mark.parametrize("ordinals", [(9, 10), (10, 10), (11, 10), (5, 6), (-1, 3)])
def test_an_ordinal_is_used_once_and_they_ascend(ordinals: tuple[int, int]) -> None:
    rows = _unit(10)
    index = _index(rows)
    with pytest.raises(BadVector):
        index.extend(_items(rows[:2], ordinals))
    assert index.count == 10


def test_searches_during_growth_and_drops_see_only_whole_rows() -> None:
    rows = _unit(3_000)
    index = VectorIndex(DIMENSION, segment_len=SEGMENT)
    index.extend(_items(rows[:1]))
    stop, searched, faults = threading.Event(), threading.Semaphore(0), list[str]()

    def read() -> None:
        allowed = np.arange(3_000) % 3 != 0
        while not stop.is_set():
            searched.release()
            for mask in (None, allowed):
                for ordinal, score in found_pairs(index, rows[0].tobytes(), 20, mask):
                    exact = float(rows[ordinal].astype(np.float64) @ rows[0].astype(np.float64))
                    if abs(exact - score) > 1e-6 or (mask is not None and not mask[ordinal]):
                        faults.append(f"{ordinal}: {score} for {exact}")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for at in range(1, 3_000, 7):
        # One step for each search that began, so that the two meet all the way.
        assert searched.acquire(timeout=30)
        index.extend(_items(rows[at : at + 7], range(at, min(at + 7, 3_000))))
        if at % 50 == 1:
            index.drop([at + 1])
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []


def test_segments_that_share_ordinals_or_are_of_another_dimension_are_refused() -> None:
    rows = _unit(4)
    one = seal(np.array([0, 5], dtype=np.int64), rows[:2])
    other = seal(np.array([3, 9], dtype=np.int64), rows[2:])
    with pytest.raises(InvariantBroken):
        VectorIndex(DIMENSION, [one, other])
    with pytest.raises(InvariantBroken):
        VectorIndex(DIMENSION + 1, [one])
    with pytest.raises(InvariantBroken):
        seal(np.array([5, 5], dtype=np.int64), rows[:2])
    with pytest.raises(InvariantBroken):
        VectorIndex(0)


def test_a_sealed_segment_cannot_be_written_to() -> None:
    segment = seal(np.arange(4, dtype=np.int64), _unit(4))
    with pytest.raises(ValueError, match="read-only"):
        segment.vectors[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        segment.ordinals[0] = 1
