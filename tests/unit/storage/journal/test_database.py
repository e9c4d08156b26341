"""A journal is not sent to a database that anyone between could be, and no error has a password."""

from __future__ import annotations

import pytest

from storage.ground.errors import StoreUnavailable
from storage.journal.database import Database, UnfitDatabase, refuse_unverified

PASSWORD = "correct-horse-battery"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://pg@127.0.0.1:5432/memory",
        "postgres://pg@localhost/memory",
        "postgresql://pg@[::1]:5432/memory",
        "postgresql://pg@/memory?host=/run/postgresql",
        "postgresql://pg@127.0.0.1,localhost:5433/memory",
        "postgresql://pg@db.example:5432/memory?sslmode=verify-full",
        "postgresql://pg@db.example,10.0.0.2/memory?sslmode=verify-full&sslrootcert=/etc/ca.pem",
    ],
)
def test_a_database_here_or_one_whose_name_is_verified_is_accepted(url: str) -> None:
    refuse_unverified(url)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://pg:{PASSWORD}@db.example/memory",
        f"postgresql://pg:{PASSWORD}@db.example/memory?sslmode=require",
        f"postgresql://pg:{PASSWORD}@db.example/memory?sslmode=verify-ca",
        f"postgresql://pg:{PASSWORD}@db.example/memory?sslmode=verify-full&sslmode=disable",
        f"postgresql://pg:{PASSWORD}@127.0.0.1,db.example/memory",
        f"postgresql://pg:{PASSWORD}@127.0.0.1.example/memory",
        f"postgresql://pg:{PASSWORD}@localhost.example:5432/memory",
        f"postgresql://pg:{PASSWORD}@/memory?host=db.example",
        f"postgresql://pg:{PASSWORD}@[2001:db8::1]:5432/memory",
    ],
)
def test_a_database_elsewhere_that_is_not_verified_is_refused_without_its_url(url: str) -> None:
    with pytest.raises(UnfitDatabase, match="verify-full") as told:
        Database(url)
    assert PASSWORD not in str(told.value)


@pytest.mark.parametrize(
    "url",
    [
        f"pg:{PASSWORD}",
        f"mysql://pg:{PASSWORD}@127.0.0.1/memory",
        f"postgresql://pg:{PASSWORD}@/memory",
        f"postgresql:///memory?password={PASSWORD}",
        f"postgresql://pg:{PASSWORD}@127.0.0.1/memory?{PASSWORD}",
        f"postgresql://pg:{PASSWORD}@[::1/memory",
    ],
)
def test_what_names_no_database_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(UnfitDatabase) as told:
        Database(url)
    assert PASSWORD not in str(told.value)


@pytest.mark.parametrize("port", ["1", "99999", PASSWORD])
def test_a_database_that_does_not_answer_is_unavailable_without_its_url(port: str) -> None:
    database = Database(f"postgresql://pg:{PASSWORD}@127.0.0.1:{port}/memory")
    try:
        with pytest.raises(StoreUnavailable) as told:
            database.rows("lease", "select 1")
    finally:
        database.close()
    assert PASSWORD not in str(told.value)
    assert str(told.value).startswith("no connection to the database: ")
