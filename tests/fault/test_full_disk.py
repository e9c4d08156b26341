"""A full disk, a full quota or a missing permission refuses whole writes, and says which it is."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from policy.model import ChangeKind, MemoryId, Scope
from policy.query import EVERYTHING
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.ground.errors import StorageError, StoreUnavailable
from storage.values import Outcome
from tests.unit.storage.opening import (
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

ROOMY = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26)
TIGHT = EmbeddedOptions(quota_bytes=1 << 19, staging_quota_bytes=1 << 26)
LONG = "many words " * 500
WRITES_MAX = 5_000


def _mount(directory: Path, options: str) -> bool:
    """Mount a file system in memory, where this process may."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    return os.geteuid() == 0 and subprocess.run(command, check=False).returncode == 0


@contextmanager
def small_disk(directory: Path, size: str = "12m") -> Generator[Path]:
    directory.mkdir()
    if not _mount(directory, f"size={size}"):
        pytest.skip("mounting a small disk takes root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(4_096))


def _until_refused(store: EmbeddedStore, name: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for number in range(WRITES_MAX):
        try:
            outcomes.append(_alone(store, f"{name} {number} {LONG}"))
        except StoreUnavailable:
            break
    else:
        pytest.fail("it was never full")
    return outcomes


def _alone(store: EmbeddedStore, text: str) -> Outcome:
    """The outcome of one create; its failure as it is, in no group."""
    submission = submission_of(candidate_of(text, OPERATOR), OPERATOR)
    return asyncio.run(store.writer.submit(submission))


def _sound(store: EmbeddedStore, admitted: int) -> None:
    """Every admitted memory reads back, and nothing contradicts itself."""
    assert store.reader.page(TENANT, EVERYTHING, 0, 1).total == admitted
    assert store.reader.status().version == admitted
    assert store.reader.check().problems == ()


def _purge(store: EmbeddedStore, of: Outcome) -> None:
    assert of.memory is not None
    purge = candidate_of(
        None,
        OPERATOR,
        change=ChangeKind.PURGE,
        memory_id=MemoryId(of.memory.memory_id),
        scope=Scope(),
    )
    write(store, submission_of(purge, OPERATOR))


def test_a_full_disk_refuses_reads_on_and_writes_again_once_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(4 << 20))
        bench = Bench(disk)
        store = bench.open(options=ROOMY)
        admitted = len(_until_refused(store, "before"))
        assert admitted > 5
        _sound(store, admitted)
        ballast.unlink()
        # The same process, the same store: no restart.
        say(store, "there is room again", OPERATOR)
        _sound(store, admitted + 1)
        store.close()
        store = bench.open(options=ROOMY)
        _sound(store, admitted + 1)
        store.close()


def test_a_disk_that_is_full_while_a_store_closes_and_opens_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        bench = Bench(disk)
        store = bench.open(options=ROOMY)
        admitted = len(_until_refused(store, "fact"))
        fill(disk / "ballast")
        store.close()  # Neither the index's files nor the checkpoint copy can be written.
        try:
            store = bench.open(options=ROOMY)
        except StorageError:
            (disk / "ballast").unlink()
            store = bench.open(options=ROOMY)
        _sound(store, admitted)
        store.close()


def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    store = Bench(tmp_path).open(options=ROOMY)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        admitted = len(_until_refused(store, "before"))
        _sound(store, admitted)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    say(store, "there is room again", OPERATOR)
    _sound(store, admitted + 1)
    store.close()


def test_a_quota_that_is_reached_gives_room_back_without_a_restart(tmp_path: Path) -> None:
    store = Bench(tmp_path).open(options=TIGHT)
    outcomes = _until_refused(store, "before")
    assert store.reader.check().problems == ()
    for outcome in outcomes[: len(outcomes) // 2]:
        _purge(store, outcome)
    assert store.reader.check().problems == ()
    assert len(_until_refused(store, "after")) > len(outcomes) // 4
    assert store.reader.check().problems == ()
    store.close()


def test_a_disk_that_becomes_read_only_is_read_and_not_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        bench = Bench(disk)
        store = bench.open(options=ROOMY)
        say(store, "before", OPERATOR)
        remount = ["mount", "-o", "remount,ro", str(disk)]
        store.close()  # what is open for writing keeps a file system writable
        subprocess.run(remount, check=True)
        with pytest.raises(StorageError):
            bench.open(options=ROOMY)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        store = bench.open(options=ROOMY)
        _sound(store, 1)
        store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_without_leave_to_write_is_refused_in_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.open(options=ROOMY).close()
    (bench.state / "store").chmod(0o500)
    (bench.state / "store" / "data.mdb").chmod(0o400)
    store = bench.open(options=ROOMY)  # its own directory: the modes are put right
    _sound(store, 0)
    store.close()


def test_the_control_a_write_beyond_the_limit_does_fail(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, hard))
        with pytest.raises(OSError, match="large") as failed:
            (tmp_path / "f").write_bytes(bytes(1 << 12))
        assert failed.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
