"""A client's vector counts by its direction alone, and only where it has one."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from proxy.embed.embedding import resolve_embedder
from proxy.intercept.client_vectors import takes_client_vectors, unit_vector
from proxy.seams.faults import MalformedRequest


def packed(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_the_norm_is_one_and_the_direction_stays(scale: float) -> None:
    unit = np.frombuffer(unit_vector(packed(3 * scale, -4 * scale), 2), dtype="<f4")
    np.testing.assert_allclose(unit, [0.6, -0.8], rtol=1e-6)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        packed(1.0),
        packed(1.0, 0.0, 0.0),
        packed(1.0, 0.0)[:-1],
        packed(0.0, 0.0),
        packed(float("nan"), 1.0),
        packed(float("inf"), 1.0),
        packed(1e-7, 0.0),
        packed(3e38, 3e38),
    ],
)
def test_a_vector_that_every_or_no_search_would_find_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedRequest) as caught:
        unit_vector(raw, 2)
    assert caught.value.detail.startswith("vector")


def test_only_a_store_without_a_model_takes_them() -> None:
    assert takes_client_vectors(resolve_embedder("client:2"))
    assert not takes_client_vectors(resolve_embedder("static"))
