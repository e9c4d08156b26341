"""A commit has three outcomes; after a disk error the store finds out which, and says it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from policy.query import EVERYTHING
from storage.embedded import EmbeddedStore
from storage.ground.errors import (
    OutcomeUnknown,
    StorageError,
    StoreFull,
    StoreUnavailable,
    TransactionFailed,
)
from storage.tables.lmdb_store import LmdbStore
from storage.values import Decision
from tests.unit.storage.opening import TENANT, Bench, candidate_of, say, submission_of, write


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class DiskFault:
    """Raises what LMDB raises on a failing disk, once armed, at one crash point."""

    def __init__(self, point: str, error: type[TransactionFailed] = TransactionFailed) -> None:
        self._point = point
        self._error = error
        self.armed = False

    def __call__(self, name: str) -> None:
        if self.armed and name == self._point:
            self.armed = False
            raise self._error("Input/output error")


def _opened(bench: Bench, fault: DiskFault) -> EmbeddedStore:
    store = bench.open(fault)
    say(store, "before the fault")
    fault.armed = True
    return store


def test_failed_commit_that_is_durable_is_reported_as_what_it_is(bench: Bench) -> None:
    store = _opened(bench, DiskFault("after_commit"))
    outcome = say(store, "durable all the same")
    assert (outcome.decision, outcome.version, outcome.replayed) == (Decision.ADMIT, 2, False)
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 2
    assert say(store, "afterwards").version == 3
    assert store.reader.check().problems == ()
    store.close()


@pytest.mark.parametrize("point", ["before_commit", "before_put", "after_put", "decided"])
def test_failed_commit_that_is_not_durable_wrote_nothing_and_may_be_retried(
    bench: Bench, point: str
) -> None:
    store = _opened(bench, DiskFault(point))
    candidate = candidate_of("lost once")
    before = store.reader.status()
    with pytest.raises(StoreUnavailable):
        _raise(store, candidate)
    told = store.reader.status()
    assert not told.writable
    assert "the disk refused" in (told.reason or "")
    well = msgspec.structs.replace(told, writable=True, reason=None, retrying=False)
    assert well == before
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 1
    retried = write(store, submission_of(candidate))[0]
    assert (retried.decision, retried.version, retried.replayed) == (Decision.ADMIT, 2, False)
    assert store.reader.status().writable
    assert store.reader.check().problems == ()
    store.close()


@pytest.mark.parametrize(("point", "held"), [("after_commit", 1), ("before_commit", 0)])
def test_a_hold_is_kept_exactly_when_its_commit_is_durable(
    bench: Bench, point: str, held: int
) -> None:
    store = _opened(bench, DiskFault(point))
    candidate = candidate_of("Ada prefers the window", instructions=True)
    if held:
        assert write(store, submission_of(candidate))[0].decision is Decision.HOLD
    else:
        with pytest.raises(StoreUnavailable):
            _raise(store, candidate)
    assert len(store.reader.held()) == held
    assert len(list((bench.state / "staging" / "keys").iterdir())) == held
    assert store.reader.check().problems == ()
    store.close()


def test_unknown_outcome_stops_the_writing_and_recovery_tells_the_truth(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _opened(bench, DiskFault("after_commit"))

    def refused(self: LmdbStore) -> None:
        self.close()
        raise StoreUnavailable("the disk is gone")

    candidate = candidate_of("nobody knows yet")
    with monkeypatch.context() as patched:
        patched.setattr(LmdbStore, "reopen", refused)
        with pytest.raises(OutcomeUnknown):
            _raise(store, candidate)
    with pytest.raises(StoreUnavailable):
        _raise(store, candidate_of("no more writes"))
    assert not store.reader.status().writable
    store.close()
    store = bench.open()
    again = write(store, submission_of(candidate))[0]
    assert (again.decision, again.version, again.replayed) == (Decision.ADMIT, 2, True)
    assert store.reader.check().problems == ()
    store.close()


def test_full_map_is_refused_and_the_store_goes_on(bench: Bench) -> None:
    store = _opened(bench, DiskFault("before_put", StoreFull))
    with pytest.raises(StoreUnavailable):
        _raise(store, candidate_of("no room"))
    assert say(store, "room again").version == 2
    store.close()


def _raise(store: EmbeddedStore, candidate: object) -> None:
    """Write one candidate, and let its own error out of the task group."""
    try:
        write(store, submission_of(candidate))  # type: ignore[arg-type]
    except BaseExceptionGroup as group:
        (error,) = group.exceptions
        assert isinstance(error, StorageError)
        raise error from None
