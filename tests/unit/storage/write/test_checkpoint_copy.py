"""The copy outside the store: written when there is news, and believed only with the signature."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from storage.audit import VerifierKey, sign_checkpoint
from storage.ground.errors import StoreRolledBack, StoreUnavailable
from storage.write.checkpoint_copy import CheckpointCopy
from tests.unit.storage.opening import Bench, say

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
VERIFIER = VerifierKey.of("mnemogate", KEY)


def note(size: int) -> bytes:
    return sign_checkpoint("mnemogate", size, bytes([size]) * 32, KEY)


def test_what_was_written_last_is_read_and_the_same_again_is_no_news(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "deep" / "checkpoint.txt", VERIFIER)
    assert copy.read() is None
    assert [copy.write(note(1)), copy.write(note(1)), copy.write(note(2))] == [True, False, True]
    read = copy.read()
    assert read is not None
    assert (read.size, read.root) == (2, b"\x02" * 32)
    assert copy.path.stat().st_mode & 0o777 == 0o600
    assert copy.path.parent.stat().st_mode & 0o777 == 0o700


def test_nothing_is_written_before_the_first_checkpoint(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    assert not copy.write(b"")
    assert not copy.path.exists()


def test_a_write_that_fails_leaves_the_one_before_and_is_tried_again(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    copy.write(note(1))
    unfinished = tmp_path / ".checkpoint.txt.unfinished"
    unfinished.mkdir()
    with pytest.raises(OSError, match="unfinished"):
        copy.write(note(2))
    assert copy.path.read_bytes() == note(1)
    unfinished.rmdir()
    assert copy.write(note(2))


@pytest.mark.parametrize("found", [b"", b"\xff", b"not a note", note(1)[:-8] + b"AAAAAAA\n"])
def test_a_file_that_this_key_did_not_sign_is_not_believed(tmp_path: Path, found: bytes) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    copy.path.write_bytes(found)
    with pytest.raises(StoreRolledBack, match="was changed"):
        copy.read()


def test_another_stores_checkpoint_is_not_called_a_changed_one(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    other = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    copy.path.write_bytes(sign_checkpoint("mnemogate", 1, bytes(32), other))
    with pytest.raises(StoreRolledBack, match="of another store") as said:
        copy.read()
    assert "`checkpoint` of its own" in str(said.value)


def test_a_new_store_beside_anothers_checkpoint_is_refused_before_it_is_made(bench: Bench) -> None:
    other = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    bench.checkpoint.parent.mkdir()
    bench.checkpoint.write_bytes(sign_checkpoint("mnemogate", 1, bytes(32), other))
    with pytest.raises(StoreRolledBack, match="no store yet"):
        bench.open()
    assert not bench.state.exists()
    # Control: with nothing there it begins, and is told of a changed copy once it is in use.
    bench.checkpoint.unlink()
    store = bench.open()
    say(store, "Tea is at four.")
    store.close()
    bench.checkpoint.write_bytes(b"not a note")
    with pytest.raises(StoreRolledBack, match="was changed"):
        bench.open()


def test_a_file_that_cannot_be_read_is_no_proof_of_a_rollback(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    copy.path.mkdir()
    with pytest.raises(StoreUnavailable):
        copy.read()


def test_a_store_in_use_without_a_copy_is_remarked_and_one_with_it_is_not(bench: Bench) -> None:
    store = bench.open()
    say(store, "Tea is at four.")
    store.close()
    store = bench.open()
    copy = CheckpointCopy(bench.checkpoint, VerifierKey.parse(store.audit.head().verifier_key))
    with store.lmdb.reading() as view:
        header = view.header()
        assert copy.compare(view, header) is None
        bench.checkpoint.unlink()
        assert "no checkpoint copy" in (copy.compare(view, header) or "")
        assert copy.compare(view, None) is None, "control: a new store has none yet"
    store.close()
