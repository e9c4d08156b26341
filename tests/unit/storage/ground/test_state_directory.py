"""The state directory: private, held by one gate, its secrets made once; a lease for readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.ground.errors import StoreCorrupt, StoreLocked, UnknownFormat
from storage.ground.state_directory import StateDirectory, write_durably
from storage.tables.lmdb_store import Lease


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    opened = StateDirectory(tmp_path / "state")
    yield opened
    opened.close()


def test_everything_below_is_for_the_owner_alone(directory: StateDirectory) -> None:
    directory.secrets()
    directory.mark_bootstrapped()
    for path in (directory.root, *directory.root.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_open_directory_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    directory = StateDirectory(tmp_path / "state")
    assert directory.root.stat().st_mode & 0o777 == 0o700
    directory.close()


def test_a_second_gate_is_turned_away_until_the_first_is_gone(directory: StateDirectory) -> None:
    with pytest.raises(StoreLocked):
        StateDirectory(directory.root)
    directory.close()
    StateDirectory(directory.root).close()


def test_secrets_are_made_once_and_never_shown(directory: StateDirectory) -> None:
    first = directory.secrets()
    assert directory.secrets() == first
    assert len({first.store_key, first.log_key, first.token_key}) == 3
    assert first.store_key.hex() not in repr(first)
    assert repr(first.store_key) not in repr(first)


@pytest.mark.parametrize("name", ["store.key", "log.key", "token.key"])
def test_a_secret_missing_from_a_store_in_use_is_not_replaced(
    directory: StateDirectory, name: str
) -> None:
    directory.secrets()
    directory.mark_bootstrapped()
    (directory.root / "secrets" / name).unlink()
    with pytest.raises(StoreCorrupt, match=name):
        directory.secrets()


def test_a_directory_of_another_format_is_refused(directory: StateDirectory) -> None:
    directory.mark_bootstrapped()
    assert directory.bootstrapped, "control"
    (directory.root / "marker").write_bytes(b"mnemogate state directory, format 0\n")
    with pytest.raises(UnknownFormat, match="another format"):
        _ = directory.bootstrapped
    with pytest.raises(UnknownFormat):
        directory.secrets()


def test_a_truncated_secret_is_refused(directory: StateDirectory) -> None:
    directory.secrets()
    (directory.root / "secrets" / "store.key").write_bytes(b"short")
    with pytest.raises(StoreCorrupt):
        directory.secrets()


def test_a_file_is_replaced_whole_and_leaves_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_durably(target, b"one")
    write_durably(target, b"two")
    assert target.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    write_durably(target, b"one")

    def refused(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("storage.ground.state_directory.os.fsync", refused)
    with pytest.raises(OSError, match="No space"):
        write_durably(target, b"two")
    assert target.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [target]


def test_readers_hold_it_together() -> None:
    lease = Lease()
    with lease.shared():
        other = threading.Thread(target=lambda: lease.shared().__enter__())
        other.start()
        other.join(10)
        assert not other.is_alive()


def test_who_wants_it_alone_waits_for_readers_and_keeps_new_ones_out() -> None:
    lease = Lease()
    order: list[str] = []
    wants, has = threading.Event(), threading.Event()

    def alone() -> None:
        wants.set()
        with lease.exclusive():
            order.append("alone")
            has.set()

    with lease.shared():
        thread = threading.Thread(target=alone)
        thread.start()
        assert wants.wait(10)
        order.append("reader")
    assert has.wait(10)
    thread.join(10)
    with lease.shared():
        order.append("reader again")
    assert order == ["reader", "alone", "reader again"]
