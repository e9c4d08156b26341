"""Sketches of segments, one bit per dimension: they estimate where the best rows are.

With sketches a search takes a tenth of the time. RaBitQ (Gao and Long, SIGMOD 2024) stores the
signs of a rotated vector and two numbers. Its estimate of an inner product has no bias, and the
error depends only on the dimension and the two lengths. So a search can compute when it is not
sure. A graph index has no such measure, and building one costs a hundred times as much (decision
013). A sketch exists in memory only. Every score that is returned comes from the exact vectors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import faiss  # pyright: ignore[reportMissingTypeStubs] - its stubs cover a part of what is used
import msgspec
import numpy as np

from storage.derived.vectors.segments import Floats, Segment, Sketch

_SEED: Final = 20_240_521
_QUERY_BITS: Final = 8
_BLOCK_ROWS: Final = 8_192
_BLOCK_CODES: Final = 32

_faiss: Final[Any] = faiss


def turn(query: Floats) -> Floats:
    """The query's vector, rotated in the same way as the vectors of the sketches."""
    turned: Floats = query @ _rotation(len(query))
    return turned


def sketch_of(vectors: Floats) -> Sketch:
    """A sketch of the given vectors; equal vectors give equal sketches. Mostly without the GIL."""
    count, dimension = vectors.shape
    rotation = _rotation(dimension)
    centre: Floats = vectors.mean(axis=0, dtype=np.float64).astype(np.float32) @ rotation
    coded = _faiss.IndexRaBitQFastScan(dimension, _faiss.METRIC_INNER_PRODUCT, _BLOCK_CODES, 1)
    coded.qb = _QUERY_BITS
    coded.train(centre.reshape(1, -1))
    squares = 0.0
    for start in range(0, count, _BLOCK_ROWS):
        turned = np.ascontiguousarray(vectors[start : start + _BLOCK_ROWS] @ rotation)
        coded.add(turned)
        squares += float(np.square(turned - centre).sum(dtype=np.float64))
    return Sketch(coded=coded, centre=centre, spread=math.sqrt(squares / count), count=count)


def with_sketch(segment: Segment) -> Segment:
    """A copy of the segment that has a sketch of its vectors."""
    return msgspec.structs.replace(segment, sketch=sketch_of(segment.vectors))


def mergeable(segments: Sequence[Segment], segment_len: int) -> tuple[int, int] | None:
    """The range of neighbouring segments of one size class that should be merged, or None.

    Four segments of a class make one of the next class; the last class may have any number of
    segments. So there are few segments for any number of rows, and each row is copied once per
    class.
    """
    start = 0
    while start < len(segments):
        level = _level(segments[start], segment_len)
        end = start
        rows = 0
        while (
            end < len(segments)
            and _level(segments[end], segment_len) == level
            and rows + len(segments[end].ordinals) <= segment_len * MERGED_SEGMENTS
        ):
            rows += len(segments[end].ordinals)
            end += 1
        if level < _LEVELS and end - start >= _FAN_IN:
            return start, end
        start = max(end, start + 1)
    return None


_FAN_IN: Final = 4
_LEVELS: Final = 2
MERGED_SEGMENTS: Final = _FAN_IN**_LEVELS
"""The number of sealed tails in the longest segment that merging makes."""


def _level(segment: Segment, segment_len: int) -> int:
    level = 0
    while len(segment.ordinals) > segment_len * _FAN_IN**level:
        level += 1
    return level


@functools.cache
def _rotation(dimension: int) -> Floats:
    """A fixed random rotation, after which no dimension matters more than another.

    It may differ on another machine, because no result of it is stored.
    """
    drawn = np.random.default_rng(_SEED).standard_normal((dimension, dimension))
    rotation: Floats = np.ascontiguousarray(np.linalg.qr(drawn)[0].astype(np.float32))
    rotation.flags.writeable = False
    return rotation
