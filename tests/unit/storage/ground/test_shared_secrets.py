"""A state directory gets a shard's secrets, and keeps those of another store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage.ground.errors import StoreUnavailable
from storage.ground.state_directory import (
    SECRETS,
    Secrets,
    StateDirectory,
    adopt_secrets,
    shared_secret,
)


def shared(root: Path) -> Path:
    root.chmod(0o700)
    directory = root / "shared"
    directory.mkdir(mode=0o700)
    for name in (*SECRETS, "journal.key"):
        (directory / name).write_bytes(os.urandom(32))
        (directory / name).chmod(0o600)
    return directory


def test_each_member_has_the_same_secrets(tmp_path: Path) -> None:
    directory = shared(tmp_path)
    found = list[Secrets]()
    for name in ("first", "second"):
        for _ in range(2):
            adopt_secrets(tmp_path / name, directory)
        opened = StateDirectory(tmp_path / name)
        found.append(opened.secrets())
        opened.close()
    assert found[0] == found[1]
    assert found[0].store_key == (directory / "store.key").read_bytes()
    assert (tmp_path / "first" / "secrets").stat().st_mode & 0o077 == 0


def test_secrets_of_another_store_are_kept_and_refused(tmp_path: Path) -> None:
    own = StateDirectory(tmp_path / "state")
    before = own.secrets()
    with pytest.raises(StoreUnavailable, match="of another store than the shard's"):
        adopt_secrets(tmp_path / "state", shared(tmp_path))
    assert own.secrets() == before
    own.close()


def test_a_secret_that_is_open_short_or_missing_is_refused(tmp_path: Path) -> None:
    directory = shared(tmp_path)
    key = directory / "journal.key"
    assert len(shared_secret(directory, "journal.key")) == 32
    key.chmod(0o644)
    with pytest.raises(StoreUnavailable, match=r"journal\.key must be a file that others cannot"):
        shared_secret(directory, "journal.key")
    key.chmod(0o600)
    key.write_bytes(b"short")
    with pytest.raises(StoreUnavailable, match=r"journal\.key is not 32 bytes long"):
        shared_secret(directory, "journal.key")
    key.unlink()
    with pytest.raises(FileNotFoundError):
        shared_secret(directory, "journal.key")
