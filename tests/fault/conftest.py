"""A PostgreSQL server for the fault tests of a shard, started once."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.postgres_server import PostgresServer, serving


@pytest.fixture(scope="session")
def server() -> Generator[PostgresServer]:
    with serving() as running:
        yield running
