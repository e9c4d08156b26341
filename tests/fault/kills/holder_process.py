"""Holders of one shared store: each that dies, or sleeps too long, is followed by another one.

Each has a directory of its own, empty but for the secrets; or two standbys take turns, each with
the copy that it had when it was killed. The journal is a directory of files.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final
from unittest.mock import patch

import msgspec

from policy.query import EVERYTHING
from storage.embedded import EmbeddedStore
from storage.ground.errors import StorageError, StoreCorrupt
from storage.journal.lease import Renewal
from storage.journal.protocol import Stream
from storage.journal.sealing import Sealing
from storage.shard import ShardMember
from storage.shipped import Shipping
from storage.tables.codec import STORE_FORMAT
from storage.values import Outcome, Sealed
from storage.write.candidate_case import ArrivedCandidate
from storage.write.engine import Engine
from tests.fault.kills.ledger import Counts, Ledger
from tests.fault.kills.storage_process import EVENT, OPTIONS, Event, Process, kill_forked, take
from tests.files_journal import FilesJournal
from tests.unit.storage.opening import TENANT, Bench

LEASE_S: Final = 1.0
_SECRET: Final = b"j" * 32
_REFUSALS: Final = 3
_PATIENCE_S: Final = 60.0


def taken_over(root: Path, name: str) -> EmbeddedStore:
    """The shared store, in a new directory, once the lease of the process before is over."""
    journal = FilesJournal(
        root / "journal", address=name, store_format=STORE_FORMAT, lease_s=LEASE_S
    )
    while not journal.acquire():
        time.sleep(0.01)
    Renewal(journal, LEASE_S)
    bench = Bench(root / name)
    bench.checkpoint = root / "checkpoint.txt"
    secrets = root / "secrets"
    if secrets.exists():
        bench.state.mkdir(mode=0o700, parents=True)
        shutil.copytree(secrets, bench.state / "secrets")
    sealing = Sealing(_SECRET, "shard", Stream.STORE)
    store = bench.open(options=OPTIONS, shipping=Shipping(journal=journal, sealing=sealing))
    if not secrets.exists():
        shutil.copytree(bench.state / "secrets", secrets)
    return store


def kill_holders(base: Path, kills: int, seed: int, told: Callable[[Counts], None]) -> Counts:
    """Kill the holder of a shared store so many times; the next one begins with an empty disk."""
    return kill_forked(base, kills, seed, told, taken_over)


def followed(root: Path, name: str) -> EmbeddedStore:
    """The shared store in one of two directories, whose copy follows until the lease is over."""
    secrets = root / "shared"
    if not secrets.exists():
        secrets.mkdir(mode=0o700)
        for key in ("store.key", "log.key", "token.key", "journal.key"):
            (secrets / key).write_bytes(_SECRET)
            (secrets / key).chmod(0o600)
    journal = FilesJournal(
        root / "journal", address=name, store_format=STORE_FORMAT, lease_s=LEASE_S
    )
    bench = Bench(root / f"standby-{int(name.removeprefix('life')) % 2}")
    bench.checkpoint = root / "checkpoint.txt"
    with patch("storage.shard.LEASE_S", LEASE_S):
        member = ShardMember(journal, "shard", secrets, ())
        while not member.acquire():
            with suppress(StoreCorrupt):
                member.follow(bench.state, OPTIONS.quota_bytes)
            time.sleep(0.01)
    store = bench.open(options=OPTIONS, shipping=member.shipping(bench.state))
    # Each batch is followed by a new beginning, so that most kills are amid one.
    patch("storage.shipped._JOURNAL_PER_STORE", 0).start()
    run = Engine.run

    def run_and_begin_anew(
        engine: Engine, batch: Sequence[ArrivedCandidate], sealed: Sequence[Sealed]
    ) -> list[Outcome | StorageError]:
        outcomes = run(engine, batch, sealed)
        engine.parts.store.shorten_journal()
        return outcomes

    patch.object(Engine, "run", run_and_begin_anew).start()
    return store


def kill_standbys(base: Path, kills: int, seed: int, told: Callable[[Counts], None]) -> Counts:
    """Kill the holder of a shared store so many times, amid new beginnings of its journal."""
    return kill_forked(base, kills, seed, told, followed)


class Woken(msgspec.Struct, kw_only=True):
    """What holders did that slept through a takeover."""

    counts: Counts
    wakes: int = 0
    refused: int = 0
    read: int = 0  # reads that were answered after the takeover
    appended: int = 0  # writes that were answered and are not of before the takeover


class _Sleeper(Process):
    """A process that writes and reads until it is killed, and prints each refusal."""

    async def run(self) -> None:
        self.report()
        self.say(Event(ready=True))
        number = 0
        while True:
            number += 1
            nonce = f"{self._name}-{number}-admit"
            self.say(Event(sent=nonce))
            try:
                await self.ask(nonce)
            except StorageError as error:
                self.say(Event(refused=str(error)))
            await self._read()

    async def _read(self) -> None:
        try:
            self._store.reader.page(TENANT, EVERYTHING, 0, 1)
        except StorageError:
            await asyncio.sleep(0.01)
        else:
            self.say(Event(read=True))


def wake_holders(base: Path, wakes: int, *, follower_writes: bool = True) -> Woken:
    """Stop a holder past its lease, let another one take over, and wake the first one.

    Without `follower_writes` the other one is stopped once it is ready, so that the number of the
    next row is free, and the epoch alone refuses the woken one's append.
    """
    woken = Woken(counts=Counts())
    ledger = Ledger(woken.counts)
    for number in range(wakes):
        with _forked(base, f"sleeper{number}") as (first, lines):
            _until_ready(lines, ledger)
            _stop_between_calls(first, base)
            for event in _said(lines):
                take(event, ledger)
            with _forked(base, f"follower{number}") as (second, follower):
                shown = _until_ready(follower, ledger)
                if not follower_writes:
                    _stop_between_calls(second, base)
                _watch(first, lines, shown, woken)
                os.kill(second, signal.SIGKILL)
                for line in follower:
                    take(EVENT.decode(line), ledger)
        woken.wakes += 1
    return woken


def _watch(sleeper: int, lines: BinaryIO, shown: set[str], woken: Woken) -> None:
    """Wake a process, and count what it does until it was refused a few times."""
    os.kill(sleeper, signal.SIGCONT)
    enough = woken.refused + _REFUSALS
    until = time.monotonic() + _PATIENCE_S
    while woken.refused < enough and time.monotonic() < until:
        if woken.appended and woken.read:
            break
        for event in _said(lines):
            woken.refused += bool(event.refused)
            woken.read += event.read
            woken.appended += bool(event.answered) and event.answered not in shown
        time.sleep(0.01)


@contextmanager
def _forked(base: Path, name: str) -> Generator[tuple[int, BinaryIO]]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            asyncio.run(_Sleeper(taken_over(base, name), writing, name).run())
        finally:
            os._exit(1)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as lines:
            yield child, lines
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _until_ready(lines: BinaryIO, ledger: Ledger) -> set[str]:
    """The texts that a new holder shows, compared with what was answered."""
    shown = set[str]()
    for line in lines:
        event = EVENT.decode(line)
        take(event, ledger)
        shown |= set(event.texts)
        if event.ready:
            break
    return shown


def _said(lines: BinaryIO) -> list[Event]:
    """What a process has printed so far; an unfinished line waits."""
    os.set_blocking(lines.fileno(), False)
    try:
        return [EVENT.decode(line) for line in lines if line.endswith(b"\n")]
    finally:
        os.set_blocking(lines.fileno(), True)


def _stop_between_calls(process: int, base: Path) -> None:
    """Stop a process while it does not hold the journal's directory."""
    lock = os.open(base / "journal", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.kill(process, signal.SIGSTOP)
    # A thread that waits for the lock is given it if it is let go before the process stands still.
    _, status = os.waitpid(process, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.close(lock)
