"""The fence of a journal in PostgreSQL: takeovers amid appends, and a server that stops at once.

The control leaves the epoch out of the fence: then appends of holders whose lease was taken land.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from typing import Final

import pytest

from storage.ground.errors import LeaseLost, StoreUnavailable, TransactionFailed
from storage.journal import postgres
from storage.journal.postgres import PostgresJournal
from storage.journal.protocol import Stream
from tests.postgres_server import PostgresServer, member, row, serving

pytestmark = pytest.mark.heavy
TAKEOVERS: Final = 100
WRITERS: Final = 4
STOPS: Final = 3


class Race:
    """Writers that take each other's lease over; what each append was answered."""

    def __init__(self, server: PostgresServer, store: str) -> None:
        self._server = server
        self._store = store
        self.taken = 0  # the latest epoch that a writer is known to have taken
        self.acknowledged: dict[int, bytes] = {}
        self.refused = 0
        self.late = 0  # appends that were sent after another's takeover was known, and stored
        self.failures: list[BaseException] = []

    def run(self) -> None:
        threads = [threading.Thread(target=self._writer, args=(n,)) for n in range(WRITERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert self.failures == []

    def _writer(self, number: int) -> None:
        # A lease of no length may be taken at once; holding it is not the fence.
        journal = member(self._server, self._store, f"writer-{number}", 0.0)
        try:
            while self.taken < TAKEOVERS and not self.failures:
                self._holder(journal)
                time.sleep(secrets.randbelow(20) / 1000)
        except BaseException as error:  # noqa: BLE001 - shown by `run`
            self.failures.append(error)
        finally:
            journal.close()

    def _holder(self, journal: PostgresJournal) -> None:
        if not journal.acquire():
            return
        mine = journal._epochs[Stream.STORE]
        self.taken = max(self.taken, mine)
        last = [one.seq for one in journal.since(Stream.STORE, 0)]
        seq = last[-1] if last else 0
        while self.taken < TAKEOVERS and not self.failures:
            seq, body, known = seq + 1, os.urandom(64), self.taken
            try:
                journal.append(Stream.STORE, row(seq, body))
            except LeaseLost:
                self.refused += 1
                return
            self.acknowledged[seq] = body
            self.late += known > mine


def stored(server: PostgresServer, store: str) -> dict[int, bytes]:
    reader = member(server, store, "reader", 1.0)
    try:
        return {one.seq: one.body for one in reader.since(Stream.STORE, 0)}
    finally:
        reader.close()


def test_takeovers_amid_appends_lose_nothing_and_let_no_late_append_in(
    server: PostgresServer,
) -> None:
    race = Race(server, "race")
    race.run()
    assert stored(server, "race") == race.acknowledged
    assert [*sorted(race.acknowledged)] == [*range(1, len(race.acknowledged) + 1)]
    assert race.late == 0
    assert race.refused > 0
    epochs = server.sql("select epoch from mnemogate.journal where store = 'race' order by seq")
    numbers = [int(one) for one in epochs.splitlines()]
    assert numbers == sorted(numbers)


def test_control_without_the_epoch_in_the_fence_late_appends_land(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_fence = postgres._APPEND.replace("epoch = $3 and", "$3::bigint >= 0 and")
    assert open_fence != postgres._APPEND
    monkeypatch.setattr(postgres, "_APPEND", open_fence)
    race = Race(server, "control")
    race.run()
    assert race.late > 0


def test_an_append_that_arrives_after_settling_is_not_stored(server: PostgresServer) -> None:
    journal = member(server, "settled", "one", 60.0)
    try:
        assert journal.acquire()
        journal.append(Stream.STORE, row(1, b"first"))
        early = dict(journal._epochs)
        assert journal.settle(Stream.STORE) == 1
        now, journal._epochs = journal._epochs, early
        with pytest.raises(LeaseLost):
            journal.append(Stream.STORE, row(2, b"sent before"))
        journal._epochs = now
        journal.append(Stream.STORE, row(2, b"second"))
        # The answer of a settlement may be lost: asking again needs no epoch.
        journal._epochs = early
        assert journal.settle(Stream.STORE) == 2
        journal.append(Stream.STORE, row(3, b"third"))
    finally:
        journal.close()
    assert [*stored(server, "settled").values()] == [b"first", b"second", b"third"]


def test_a_settlement_of_a_past_holder_is_refused_and_changes_nothing(
    server: PostgresServer,
) -> None:
    past, present = member(server, "past", "one", 60.0), member(server, "past", "two", 60.0)
    try:
        assert past.acquire()
        assert not present.acquire()
        past.release()
        assert not past.holds()
        assert present.acquire()
        with pytest.raises(LeaseLost):
            past.settle(Stream.STORE)
        with pytest.raises(LeaseLost):
            past.renew()
        past.release()
        assert present.holds()
        present.append(Stream.STORE, row(1, b"mine"))
        present.append(Stream.SESSIONS, row(1, b"mine too"))
        assert not past.acquire()
    finally:
        past.close()
        present.close()


class Steady:
    """A holder that appends until it is told to end, and settles what it does not know."""

    def __init__(self, journal: PostgresJournal) -> None:
        self._journal = journal
        self.acknowledged: dict[int, bytes] = {}
        self.unknown = 0
        self.failures: list[BaseException] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for(self, appends: int) -> None:
        wanted = len(self.acknowledged) + appends
        while len(self.acknowledged) < wanted and not self.failures:
            time.sleep(0.01)

    def end(self) -> None:
        self._done.set()
        self._thread.join()
        self._journal.close()
        assert self.failures == []

    def _run(self) -> None:
        try:
            while not self._done.is_set():
                self._append(os.urandom(200))
        except BaseException as error:  # noqa: BLE001 - shown by `end`
            self.failures.append(error)

    def _append(self, body: bytes) -> None:
        seq = len(self.acknowledged) + 1
        try:
            self._journal.append(Stream.STORE, row(seq, body))
        except TransactionFailed:
            self.unknown += 1
            # A row whose answer was lost is as good as acknowledged once it is found.
            if self._journal.settle(Stream.STORE) < seq:
                return
        except StoreUnavailable:
            time.sleep(0.05)
            return
        self.acknowledged[seq] = body


def test_a_server_that_stops_at_once_loses_nothing_that_was_acknowledged() -> None:
    with serving() as server:
        journal = member(server, "stopped", "one", 120.0)
        assert journal.acquire()
        holder = Steady(journal)
        for _ in range(STOPS):
            holder.wait_for(50)
            server.stop(signal.SIGQUIT)
            server.start()
        holder.wait_for(50)
        holder.end()
        assert stored(server, "stopped") == holder.acknowledged
        assert holder.unknown > 0
        # No takeover: only the stream of the unknown appends was settled.
        assert server.sql("select epoch from mnemogate.head where stream = 'sessions'") == "1"
