"""Staging: readable with its key, and never without; a failed disk does not end it."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from policy.model import CandidateId
from policy.verdict import InvariantBroken
from storage.ground.errors import StoreUnavailable
from storage.staging.held_file import StagingFile
from storage.staging.staging import Staging
from storage.staging.undecided import seal
from storage.values import StagedContents
from tests.conformance.canary import new_canary, traces

QUOTA = 1 << 24
EVIDENCE = b"evidence"


def _id() -> CandidateId:
    return CandidateId(secrets.token_hex(16))


def _contents(canonical: bytes) -> StagedContents:
    return StagedContents(canonical=canonical, evidence=EVIDENCE)


def _put(staging: Staging, candidate_id: CandidateId, canonical: bytes) -> bytes:
    """Stage one; the key that it was staged under."""
    sealed = staging.sealed(candidate_id, _contents(canonical))
    staging.put([sealed])
    return sealed.key


def _hold(staging: Staging, candidate_id: CandidateId) -> None:
    """Hold what is staged, as the judge and the engine do."""
    (contents,) = staging.read([candidate_id])
    assert contents is not None
    staging.seal(candidate_id, b"row")
    staging.hold({candidate_id: contents})
    staging.forget([candidate_id])


def _opened(root: Path) -> Staging:
    directory = root / "staging"
    (directory / "keys").mkdir(parents=True, exist_ok=True)
    return Staging(directory, directory / "keys", QUOTA)


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Staging]:
    opened = _opened(tmp_path)
    yield opened
    opened.close()


def _opened_by(key: bytes, root: Path, begins: bytes) -> list[str]:
    """Files below `root` in which something is that this key opens, wherever in them it is.

    A ciphertext is its nonce and what the counter makes of the text, so its first bytes give it
    away: no length has to be known, and no name.
    """
    found: list[str] = []
    for path in root.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if any(_at(key, data, offset, begins) for offset in range(len(data) - 12 - len(begins))):
            found.append(path.name)
    return found


def _at(key: bytes, data: bytes, offset: int, begins: bytes) -> bool:
    nonce, start = data[offset : offset + 12], offset + 12
    if not any(nonce):
        return False
    # GCM counts from 2: 1 is for the tag (NIST SP 800-38D, 7.1).
    opener = Cipher(AES256(key), CTR(nonce + b"\0\0\0\2")).decryptor()
    return opener.update(data[start : start + len(begins)]) == begins


def test_staged_bytes_read_back_and_are_unreadable_in_memory_and_on_disk(
    staging: Staging, tmp_path: Path
) -> None:
    candidate_id, canary = _id(), new_canary()
    sealed = staging.sealed(candidate_id, _contents(canary.encode()))
    assert canary.encode() not in sealed.data
    staging.put([sealed])
    assert staging.read([candidate_id]) == [_contents(canary.encode())]
    _hold(staging, candidate_id)
    assert staging.read_held(candidate_id) == _contents(canary.encode())
    assert traces(tmp_path, canary) == []


def test_a_decided_candidate_is_gone_at_once(staging: Staging) -> None:
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    assert staging.staged_ids() == {candidate_id}
    staging.forget([candidate_id])
    assert staging.staged_ids() == frozenset()
    assert staging.read([candidate_id]) == [None]


def test_what_is_seen_of_an_undecided_candidate_has_one_of_few_lengths(staging: Staging) -> None:
    lengths = {
        len(staging.sealed(_id(), _contents(bytes(length))).data) for length in range(1, 200, 7)
    }
    assert len(lengths) == 1
    assert len(staging.sealed(_id(), _contents(bytes(300))).data) - max(lengths) == 256


def test_a_held_candidate_is_under_another_key_than_it_was_staged_under(
    staging: Staging, tmp_path: Path
) -> None:
    """The key of the environment in memory is in no file: what it opened there is nowhere else."""
    candidate_id, text = _id(), b'{"change":"create","text":"x"}'
    staged_under = _put(staging, candidate_id, text)
    _hold(staging, candidate_id)
    key_file = tmp_path / "staging" / "keys" / f"{candidate_id}.key"
    held_under = key_file.read_bytes()
    assert staged_under != held_under
    assert not any(staged_under in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())


def test_no_destroyed_key_opens_anything_in_any_file(staging: Staging, tmp_path: Path) -> None:
    text = b'{"change":"create"'
    held, denied, refused = _id(), _id(), _id()
    destroyed = {name: _put(staging, name, text + b"...}") for name in (held, denied, refused)}
    for name in (held, denied):
        _hold(staging, name)
    keys = tmp_path / "staging" / "keys"
    of_held, of_denied = ((keys / f"{name}.key").read_bytes() for name in (held, denied))
    # Control: with its key what is held is found, as it would be with the one it was staged under.
    assert _opened_by(of_held, tmp_path, text) == ["data.mdb"]
    assert _opened_by(of_denied, tmp_path, text) == ["data.mdb"]
    staging.forget([refused])
    staging.destroy([denied])
    for key in destroyed.values():
        assert _opened_by(key, tmp_path, text) == []
    # Free pages keep a ciphertext for a while; its key is in no file any more.
    assert not any(of_denied in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())


def test_a_destroyed_held_candidate_cannot_be_read_even_where_its_ciphertext_stays(
    staging: Staging,
) -> None:
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    _hold(staging, candidate_id)
    with staging._kept.reading() as txn:
        sealed = txn.get(bytes.fromhex(candidate_id) + b"c")
    assert sealed is not None
    staging.destroy([candidate_id])
    with staging._kept.writing() as txn:
        txn.put(bytes.fromhex(candidate_id) + b"c", bytes(sealed))
    assert staging.read_held(candidate_id) is None
    staging.sweep()
    assert staging.staged_ids() == frozenset()


def test_an_undecided_candidate_is_in_no_file_and_a_held_one_in_one(
    staging: Staging, tmp_path: Path
) -> None:
    candidate_id = _id()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    _put(staging, candidate_id, b"text")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    _hold(staging, candidate_id)  # control: what is in a file is seen
    assert any(path.read_bytes() != before.get(path) for path in tmp_path.rglob("*.mdb"))


def test_what_was_sealed_for_one_purpose_does_not_open_for_another(staging: Staging) -> None:
    """One key seals a held candidate's parts: only their names keep them apart."""
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    sealed = staging.seal(candidate_id, b"salt and digest")
    staging.hold({candidate_id: _contents(b"text")})
    with staging._kept.writing() as txn:
        txn.put(bytes.fromhex(candidate_id) + b"c", sealed)
    assert staging.read_held(candidate_id) is None
    assert staging.unseal(candidate_id, sealed) == b"salt and digest"  # control


def test_a_hold_whose_row_is_not_sealed_is_a_broken_invariant(staging: Staging) -> None:
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    with pytest.raises(InvariantBroken):
        staging.hold({candidate_id: _contents(b"text")})


def test_candidates_without_a_key_file_do_not_survive_a_restart(tmp_path: Path) -> None:
    staging = _opened(tmp_path)
    held, undecided = _id(), _id()
    _put(staging, held, b"held")
    _put(staging, undecided, b"undecided")
    _hold(staging, held)
    staging.close()
    staging = _opened(tmp_path)
    assert staging.read([undecided]) == [None]
    assert staging.read_held(held) == _contents(b"held")
    assert staging.held_ids() == {held}
    staging.close()


def test_a_key_whose_writing_was_cut_short_is_shredded_at_the_next_start(tmp_path: Path) -> None:
    _opened(tmp_path).close()
    unfinished = tmp_path / "staging" / "keys" / f".{_id()}.key.unfinished"
    unfinished.write_bytes(b"k" * 32)
    staging = _opened(tmp_path)
    assert not unfinished.exists()
    assert staging.held_ids() == frozenset()
    staging.close()


def test_what_is_sealed_perishes_with_the_key(staging: Staging) -> None:
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    sealed = staging.seal(candidate_id, b"salt")
    assert staging.unseal(candidate_id, sealed) is None  # nothing is held under it yet
    staging.hold({candidate_id: _contents(b"text")})
    assert staging.unseal(candidate_id, sealed) == b"salt"
    assert staging.unseal(candidate_id, sealed[:-1] + bytes([sealed[-1] ^ 1])) is None
    assert staging.unseal(candidate_id, b"") is None
    staging.destroy([candidate_id])
    assert staging.unseal(candidate_id, sealed) is None


def test_a_destroyed_key_file_is_overwritten_before_it_is_removed(
    staging: Staging, tmp_path: Path
) -> None:
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    _hold(staging, candidate_id)
    path = tmp_path / "staging" / "keys" / f"{candidate_id}.key"
    (tmp_path / "link").hardlink_to(path)
    assert any((tmp_path / "link").read_bytes())
    staging.destroy([candidate_id])
    assert not path.exists()
    assert not any((tmp_path / "link").read_bytes())


def test_the_key_of_a_hold_that_is_done_again_is_overwritten_as_well(
    staging: Staging, tmp_path: Path
) -> None:
    """A transaction that met a full map is done again, with another key."""
    candidate_id = _id()
    _put(staging, candidate_id, b"text")
    _hold(staging, candidate_id)
    (tmp_path / "link").hardlink_to(tmp_path / "staging" / "keys" / f"{candidate_id}.key")
    staging.seal(candidate_id, b"row")
    staging.hold({candidate_id: _contents(b"text")})
    assert not any((tmp_path / "link").read_bytes())
    assert staging.read_held(candidate_id) == _contents(b"text")


def test_full_staging_refuses_the_whole_batch(staging: Staging) -> None:
    kept = _id()
    _put(staging, kept, b"kept")
    with pytest.raises(StoreUnavailable):
        staging.put([staging.sealed(_id(), _contents(bytes(4 << 20))) for _ in range(12)])
    assert staging.read([kept]) == [_contents(b"kept")]
    assert staging.staged_ids() == {kept}


def test_room_returns_when_candidates_are_done_with(staging: Staging) -> None:
    before = staging.bytes_free()
    for number in range(100):
        candidate_id = _id()
        _put(staging, candidate_id, bytes(1_000_000))
        if number % 10 == 0:
            _hold(staging, candidate_id)
            staging.destroy([candidate_id])
        staging.forget([candidate_id])
    staging.renew()
    staging.sweep()
    assert staging.bytes_free() >= before - 100_000


def test_a_ciphertext_belongs_to_one_candidate(staging: Staging) -> None:
    first, second = _id(), _id()
    sealed = staging.sealed(first, _contents(b"first"))
    # Even under the same key: what is judged under a name was intercepted under it.
    moved = type(sealed)(candidate_id=second, key=sealed.key, data=sealed.data)
    staging.put([sealed, moved])
    assert staging.read([first, second]) == [_contents(b"first"), None]


def test_a_value_of_another_key_does_not_open(staging: Staging) -> None:
    candidate_id = _id()
    sealed = staging.sealed(candidate_id, _contents(b"text"))
    forged = seal(secrets.token_bytes(32), bytes.fromhex(candidate_id), b"\0" * 256)
    staging.put([type(sealed)(candidate_id=candidate_id, key=sealed.key, data=forged)])
    assert staging.read([candidate_id]) == [None]


MAP_BYTES = 1 << 20


def _file_in(directory: Path) -> StagingFile:
    return StagingFile(directory / "file", MAP_BYTES)


def _value(file: StagingFile) -> bytes | None:
    with file.reading() as txn:
        value = txn.get(b"k")
        return None if value is None else bytes(value)


def _put_value(file: StagingFile, value: bytes) -> None:
    with file.writing() as txn:
        txn.put(b"k", value)


def test_what_was_put_outlives_the_closing(tmp_path: Path) -> None:
    file = _file_in(tmp_path)
    _put_value(file, b"v")
    assert _value(file) == b"v"
    file.close()
    file = _file_in(tmp_path)
    assert _value(file) == b"v"
    file.close()


def test_after_an_error_of_the_disk_it_is_opened_again(tmp_path: Path) -> None:
    file = _file_in(tmp_path)
    with pytest.raises(StoreUnavailable), file.writing():
        raise lmdb.PanicError("the environment had a fatal error")
    _put_value(file, b"v")
    assert _value(file) == b"v"
    file.close()


def test_a_full_file_keeps_what_it_has(tmp_path: Path) -> None:
    file = _file_in(tmp_path)
    _put_value(file, b"v")
    with pytest.raises(StoreUnavailable, match="full"):
        _put_value(file, bytes(MAP_BYTES))
    assert _value(file) == b"v"
    file.close()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    _file_in(tmp_path).close()
    (tmp_path / "file" / "data.mdb").write_bytes(b"damage" * 2_000)
    with pytest.raises(StoreUnavailable, match=r"file/data\.mdb"):
        _file_in(tmp_path)


def test_bytes_used_grow_with_what_is_put(tmp_path: Path) -> None:
    file = _file_in(tmp_path)
    before = file.bytes_used()
    _put_value(file, bytes(100_000))
    assert file.bytes_used() >= before + 100_000
    file.close()
