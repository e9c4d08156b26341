"""The keys of segments: durable before they are used, overwritten when they are destroyed."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from storage.ground.errors import StoreCorrupt, StoreUnavailable
from storage.journal.protocol import JournalRow, Stream
from storage.journal.sealing import (
    NO_KEY,
    SEGMENT_LEN,
    TERM_LEN,
    Position,
    Sealing,
    Write,
    key_id_of,
)
from storage.journal.segment_keys import SegmentKeys

SECRET = b"s" * 32
TERM, NEXT_TERM = b"1" * TERM_LEN, b"2" * TERM_LEN
WRITES = [Write(b"rows", b"key", b"the text")]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    made = tmp_path / "keys"
    made.mkdir(mode=0o700)
    return made


def keys_of(directory: Path, name: str = "shard", secret: bytes = SECRET) -> SegmentKeys:
    return SegmentKeys(directory, secret, name)


def sealing_of(directory: Path) -> Sealing:
    return Sealing(SECRET, "shard", Stream.STORE, keys_of(directory))


def rows_of(sealing: Sealing, count: int, term: bytes = TERM) -> list[JournalRow]:
    last, rows = Position(), list[JournalRow]()
    for _ in range(count):
        rows.append(sealing.seal(WRITES, last, term, range(0)))
        last = Position(rows[-1].seq, term)
    return rows


def test_each_segment_of_each_term_has_a_key_of_its_own(directory: Path) -> None:
    sealing = sealing_of(directory)
    rows = rows_of(sealing, 2 * SEGMENT_LEN + 1)
    of_each = [key_id_of(row) for row in rows]
    assert len({*of_each[:SEGMENT_LEN]}) == 1
    assert len({*of_each}) == 3
    # A holder that takes over seals under no key that an earlier one drew.
    assert key_id_of(rows_of(sealing, 1, NEXT_TERM)[0]) not in of_each
    assert len(keys_of(directory).ids()) == 4
    assert NO_KEY not in keys_of(directory).ids()
    for row in (rows[0], rows[-1]):
        assert sealing_of(directory).read(row).writes == WRITES


def test_a_row_opens_with_the_key_of_its_segment_and_the_secret_together(directory: Path) -> None:
    (row,) = rows_of(sealing_of(directory), 1)
    with pytest.raises(StoreCorrupt, match="does not open without the keys of its segments"):
        Sealing(SECRET, "shard", Stream.STORE).read(row)
    # With the key's file in the place that another secret names.
    other = keys_of(directory, secret=b"t" * 32)
    key = keys_of(directory).key(key_id_of(row))
    stolen = directory / f"{other._prefix}{key_id_of(row).hex()}"  # pyright: ignore[reportPrivateUsage]
    stolen.write_bytes(key)
    stolen.chmod(0o600)
    with pytest.raises(StoreCorrupt, match=r"another journal\.key"):
        Sealing(b"t" * 32, "shard", Stream.STORE, other).read(row)
    assert sealing_of(directory).read(row).writes == WRITES


def test_a_destroyed_key_is_overwritten_and_opens_nothing_here_or_elsewhere(
    directory: Path, tmp_path: Path
) -> None:
    sealing = sealing_of(directory)
    (row,) = rows_of(sealing, 1)
    (path,) = directory.iterdir()
    (tmp_path / "link").hardlink_to(path)
    assert any((tmp_path / "link").read_bytes())
    assert sealing.keys is not None
    sealing.keys.destroy([key_id_of(row)])
    assert not any((tmp_path / "link").read_bytes())
    assert [*directory.iterdir()] == []
    for one in (sealing, sealing_of(directory)):
        with pytest.raises(StoreCorrupt, match="lacks"):
            one.read(row)
    # A crash between the two leaves a file of zeros, which is no key.
    path.write_bytes(bytes(32))
    path.chmod(0o600)
    with pytest.raises(StoreCorrupt, match="lacks"):
        sealing_of(directory).read(row)


def test_the_keys_of_two_stores_in_one_directory_are_told_apart(directory: Path) -> None:
    first, second = keys_of(directory), keys_of(directory, "another")
    key_id = first.draw()
    second.draw()
    assert first.ids() == {key_id}
    second.destroy(second.ids())
    assert first.ids() == {key_id}
    assert keys_of(directory, secret=b"t" * 32).ids() == set()


def test_the_next_draw_removes_what_a_kill_left_of_an_earlier_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = keys_of(directory), keys_of(directory, "another")
    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", Mock(side_effect=KeyboardInterrupt))
        for one in (first, second):
            with pytest.raises(KeyboardInterrupt):
                one.draw()
    assert len([*directory.glob(".*")]) == 2  # control: a whole key that nothing names
    key_id = first.draw()
    # That of another store may be under way.
    (left,) = directory.glob(".*")
    second.draw()
    assert not left.exists()
    assert first.ids() == {key_id}


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o770, 0o777])
def test_a_directory_that_others_can_read_is_refused(
    directory: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs this test may be alone in the group.
    monkeypatch.setattr("storage.ground.trusted_files._nobody_else_in", Mock(return_value=False))
    directory.chmod(mode)
    with pytest.raises(StoreUnavailable, match="the shard's keys must be") as refused:
        keys_of(directory)
    assert str(directory) in str(refused.value)
    directory.chmod(0o700)
    assert keys_of(directory).ids() == set()


def test_a_directory_that_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No such file"):
        keys_of(tmp_path / "keys")
    assert not (tmp_path / "keys").exists()
    (tmp_path / "keys").write_bytes(b"")
    (tmp_path / "keys").chmod(0o600)
    with pytest.raises(StoreUnavailable, match="must be a directory"):
        keys_of(tmp_path / "keys")


def test_a_key_that_others_can_read_is_refused(directory: Path) -> None:
    (row,) = rows_of(sealing_of(directory), 1)
    (path,) = directory.iterdir()
    path.chmod(0o644)
    with pytest.raises(StoreUnavailable, match="must be a file that others cannot read"):
        sealing_of(directory).read(row)
