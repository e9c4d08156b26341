"""The ledger's file: what was promised is there after a restart, or it says that it is not."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from storage.ground.errors import StoreUnavailable
from storage.sealed_log.sealed_file import SECTOR_LEN, FileKeys, read_contents
from storage.sealed_log.session_log import Opened, open_session_log, records_of, session_keys

KEY = b"s" * 32
MINE = session_keys(KEY, "life-1")
SCAR = b"scar"
WAIT_S = 30


def file_of(state: Path) -> Path:
    return state / "sessions" / "log"


def opened(state: Path, keys: FileKeys = MINE, *, is_new: bool = False) -> Opened:
    return open_session_log(state, keys, SCAR, is_new=is_new)


async def written(state: Path, *batches: tuple[bytes, ...]) -> None:
    log = opened(state, is_new=True).log
    for batch in batches:
        await log.append(batch)
    await log.close()


async def read_again(
    state: Path, keys: FileKeys = MINE, *, is_new: bool = False
) -> tuple[tuple[bytes, ...], bool]:
    log, records, whole = opened(state, keys, is_new=is_new)
    await log.close()
    return records, whole


async def test_what_was_appended_is_there_again_in_order(tmp_path: Path) -> None:
    await written(tmp_path, (b"one", b"two"), (b"",), (b"three" * 1_000,))
    assert await read_again(tmp_path) == ((b"one", b"two", b"", b"three" * 1_000), True)


async def test_a_new_store_has_no_history_and_one_in_use_without_a_file_lost_it(
    tmp_path: Path,
) -> None:
    assert await read_again(tmp_path, is_new=True) == ((), True)
    file_of(tmp_path).unlink()
    assert await read_again(tmp_path) == ((SCAR,), False)
    # And the next start must not take the new file for the one that is gone.
    assert await read_again(tmp_path) == ((SCAR,), True)


async def test_sessions_of_another_life_of_the_store_are_not_read(tmp_path: Path) -> None:
    await written(tmp_path, (b"one",))
    assert await read_again(tmp_path, session_keys(KEY, "life-2")) == ((SCAR,), False)


async def test_another_key_opens_nothing(tmp_path: Path) -> None:
    await written(tmp_path, (b"one",))
    assert await read_again(tmp_path, session_keys(b"t" * 32, "life-1")) == ((SCAR,), False)


async def test_no_byte_of_a_record_is_readable_and_nobody_else_may_open_the_file(
    tmp_path: Path,
) -> None:
    await written(tmp_path, (b"a very private fingerprint",))
    assert b"private" not in file_of(tmp_path).read_bytes()
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(file_of(tmp_path).parent.stat().st_mode) == 0o700


async def test_every_cut_and_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    await written(tmp_path, (b"one",), (b"two",), (b"three",))
    path, data = file_of(tmp_path), file_of(tmp_path).read_bytes()
    keys, there = session_keys(KEY, "life-1"), (b"one", b"two", b"three")
    flipped = [at for at in range(len(data)) if not 80 <= at < SECTOR_LEN]  # not the padding
    damaged = [data[:length] for length in range(len(data))]
    damaged += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in flipped]
    for changed in damaged:
        path.write_bytes(changed)
        contents = read_contents(path, keys)
        assert contents is not None
        assert not contents.whole
        assert records_of(contents) == there[: len(contents.plains)]


async def test_a_damaged_file_is_left_with_what_could_be_read_and_the_scar(tmp_path: Path) -> None:
    await written(tmp_path, (b"one",), (b"two",))
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert await read_again(tmp_path) == ((b"one", SCAR), False)
    assert await read_again(tmp_path) == ((b"one", SCAR), True)


async def test_frames_of_another_file_or_another_place_are_not_taken(tmp_path: Path) -> None:
    await written(tmp_path, (b"one",))
    path = file_of(tmp_path)
    data = path.read_bytes()
    frame = data[SECTOR_LEN:]
    path.write_bytes(data + frame)
    assert await read_again(tmp_path) == ((b"one", SCAR), False)
    other = tmp_path / "other"
    other.mkdir()
    await written(other, (b"two",))
    mixed = file_of(other).read_bytes()[:SECTOR_LEN] + frame
    file_of(other).write_bytes(mixed)
    assert await read_again(other) == ((SCAR,), False)


async def test_many_appends_at_once_share_the_disk_and_all_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path, is_new=True).log
    syncs = 0
    real = os.fdatasync

    def counted(handle: int) -> None:
        nonlocal syncs
        syncs += 1
        real(handle)

    monkeypatch.setattr(os, "fdatasync", counted)
    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(log.append([str(number).encode()]))
    assert syncs <= 3
    await log.close()
    records, whole = await read_again(tmp_path)
    assert whole
    assert records == tuple(str(number).encode() for number in range(200))


async def test_what_could_not_be_written_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path, is_new=True).log
    await log.append([b"one"])
    real = os.pwrite
    left = 1

    def full(handle: int, data: bytes, at: int) -> int:
        nonlocal left
        if left:
            left -= 1
            real(handle, bytes(data)[:5], at)
            raise OSError(errno.ENOSPC, "no room")
        return real(handle, data, at)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreUnavailable):
        await log.append([b"two"])
    await log.append([b"three"])
    await log.close()
    assert await read_again(tmp_path) == ((b"one", b"two", b"three"), True)


async def test_whoever_waits_behind_records_that_could_not_be_written_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path, is_new=True).log
    begun, goes_on = threading.Event(), threading.Event()
    real, failures = log._write, [StoreUnavailable("no room"), StoreUnavailable("no room")]

    def write(batch: list[bytes]) -> None:
        begun.set()
        goes_on.wait(WAIT_S)
        if failures:
            raise failures.pop()
        real(batch)

    monkeypatch.setattr(log, "_write", write)
    first = log.add([b"one"])
    await asyncio.to_thread(begun.wait, WAIT_S)
    # It is queued while the first is written, and nothing comes after it.
    second = log.add([b"two"])
    goes_on.set()
    for waiting in (first, second):
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(waiting, WAIT_S)
    await log.append([b"three"])
    await log.close()
    assert await read_again(tmp_path) == ((b"one", b"two", b"three"), True)


async def test_a_file_that_cannot_be_put_back_is_not_written_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path, is_new=True).log
    await log.append([b"one"])

    def broken(*_args: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "pwrite", broken)
    with pytest.raises(StoreUnavailable):
        await log.append([b"two"])
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable):
        await log.append([b"three"])
    with pytest.raises(StoreUnavailable):
        await log.close()
    assert (await read_again(tmp_path))[0][:1] == (b"one",)


async def test_a_rewritten_file_has_the_snapshot_and_what_came_after_it(tmp_path: Path) -> None:
    log = opened(tmp_path, is_new=True).log
    await log.append([b"old" * 10_000])
    long = log.length
    async with asyncio.TaskGroup() as group:
        group.create_task(log.rewrite([b"snapshot"]))
        group.create_task(log.append([b"after"]))
    assert log.length < long
    await log.append([b"later"])
    await log.close()
    assert await read_again(tmp_path) == ((b"snapshot", b"after", b"later"), True)


async def test_whoever_stops_waiting_stops_nobody_else(tmp_path: Path) -> None:
    log = opened(tmp_path, is_new=True).log
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(log.append([b"one"]))
        group.create_task(log.append([b"two"]))
        await asyncio.sleep(0)
        gone.cancel()
    await log.close()
    assert await read_again(tmp_path) == ((b"one", b"two"), True)


async def test_what_was_added_and_not_waited_for_is_written_at_the_end(tmp_path: Path) -> None:
    log = opened(tmp_path, is_new=True).log
    log.add([b"one"])
    log.add([b"two"])
    await log.close()
    assert await read_again(tmp_path) == ((b"one", b"two"), True)


async def test_a_check_names_what_happened_to_the_file_while_it_was_open(tmp_path: Path) -> None:
    log = opened(tmp_path, is_new=True).log
    await log.append([b"one"])
    await log.append([b"two"])
    assert await log.check() is None
    path = file_of(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert "not what was written" in (await log.check() or "")
    path.write_bytes(data[:SECTOR_LEN])
    assert "not what was written" in (await log.check() or "")
    path.unlink()
    assert "missing" in (await log.check() or "")
    await log.close()
