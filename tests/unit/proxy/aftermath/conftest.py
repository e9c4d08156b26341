"""A store of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.embedded import EmbeddedStore
from tests.unit.storage.opening import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(bench: Bench) -> EmbeddedStore:
    return bench.open()
