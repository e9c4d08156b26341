"""Staging: readable with its key, and never without."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from policy.model import CandidateId
from storage.errors import StoreUnavailable
from storage.staging.staging import Staging
from tests.conformance.canary import new_canary, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUOTA = 1 << 24


def _id() -> CandidateId:
    return CandidateId(secrets.token_hex(16))


def _opened(root: Path) -> Staging:
    directory = root / "staging"
    (directory / "keys").mkdir(parents=True, exist_ok=True)
    return Staging(directory, directory / "keys", QUOTA)


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Staging]:
    opened = _opened(tmp_path)
    yield opened
    opened.close()


def test_staged_bytes_read_back_and_are_unreadable_in_memory_and_on_disk(
    staging: Staging, tmp_path: Path
) -> None:
    candidate_id, canary = _id(), new_canary()
    staging.put([(candidate_id, canary.encode())])
    assert staging.read([candidate_id]) == [canary.encode()]
    assert canary.encode() not in staging._undecided[candidate_id]
    staging.hold({candidate_id: canary.encode()})
    assert staging.read([candidate_id]) == [canary.encode()]
    assert traces(tmp_path, canary) == []


def test_a_destroyed_candidate_is_gone_at_once(staging: Staging) -> None:
    candidate_id = _id()
    staging.put([(candidate_id, b"text")])
    staging.destroy([candidate_id])
    assert staging.read([candidate_id]) == [None]
    assert staging.staged_ids() == frozenset()


def test_a_destroyed_held_candidate_cannot_be_read_even_where_its_ciphertext_stays(
    staging: Staging,
) -> None:
    candidate_id = _id()
    staging.put([(candidate_id, b"text")])
    staging.hold({candidate_id: b"evidence"})
    with staging._kept.reading() as txn:
        sealed = txn.get(bytes.fromhex(candidate_id) + b"c")
    assert sealed is not None
    staging.destroy([candidate_id])
    with staging._kept.writing() as txn:
        txn.put(bytes.fromhex(candidate_id) + b"c", bytes(sealed))
    assert staging.read([candidate_id]) == [None]
    staging.sweep()
    assert staging.staged_ids() == frozenset()


def test_an_undecided_candidate_is_in_no_file_and_a_held_one_in_one(
    staging: Staging, tmp_path: Path
) -> None:
    candidate_id = _id()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    staging.put([(candidate_id, b"text")])
    sealed = staging._undecided[candidate_id]
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert files == before
    assert not any(sealed in path.read_bytes() for path in files)
    staging.hold({candidate_id: b"evidence"})  # control: the search finds what is in a file
    assert any(sealed in path.read_bytes() for path in tmp_path.rglob("*.mdb"))


def test_the_file_of_a_version_that_staged_on_disk_is_removed(tmp_path: Path) -> None:
    _opened(tmp_path).close()
    left = tmp_path / "staging" / "data.mdb"
    left.write_bytes(b"ciphertexts")
    _opened(tmp_path).close()
    assert not left.exists()


def test_a_ciphertext_put_under_another_candidate_does_not_open(staging: Staging) -> None:
    first, second = _id(), _id()
    staging.put([(first, b"first"), (second, b"second")])
    staging._undecided[second] = staging._undecided[first]
    assert staging.read([first, second]) == [b"first", None]


def test_what_was_sealed_for_one_purpose_does_not_open_for_another(staging: Staging) -> None:
    """One key seals a candidate's parts: only their names keep them apart."""
    candidate_id = _id()
    staging.put([(candidate_id, b"text")])
    sealed = staging.seal(candidate_id, b"salt and digest")
    staging._undecided[candidate_id] = sealed
    assert staging.read([candidate_id]) == [None]
    assert staging.unseal(candidate_id, sealed) == b"salt and digest"  # control


def test_candidates_without_a_key_file_do_not_survive_a_restart(tmp_path: Path) -> None:
    staging = _opened(tmp_path)
    held, undecided = _id(), _id()
    staging.put([(held, b"held"), (undecided, b"undecided")])
    staging.hold({held: b"evidence"})
    staging.close()
    staging = _opened(tmp_path)
    assert staging.read([held, undecided]) == [b"held", None]
    assert staging.read_evidence(held) == b"evidence"
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
    staging.put([(candidate_id, b"text")])
    sealed = staging.seal(candidate_id, b"salt")
    assert staging.unseal(candidate_id, sealed) == b"salt"
    assert staging.unseal(candidate_id, sealed[:-1] + bytes([sealed[-1] ^ 1])) is None
    assert staging.unseal(candidate_id, b"") is None
    staging.destroy([candidate_id])
    assert staging.unseal(candidate_id, sealed) is None


def test_a_destroyed_key_file_is_overwritten_before_it_is_removed(
    staging: Staging, tmp_path: Path
) -> None:
    candidate_id = _id()
    staging.put([(candidate_id, b"text")])
    staging.hold({candidate_id: b""})
    path = tmp_path / "staging" / "keys" / f"{candidate_id}.key"
    (tmp_path / "link").hardlink_to(path)
    assert any((tmp_path / "link").read_bytes())
    staging.destroy([candidate_id])
    assert not path.exists()
    assert not any((tmp_path / "link").read_bytes())


def test_full_staging_refuses_the_whole_batch(staging: Staging) -> None:
    kept, too_much = _id(), [(_id(), bytes(4 << 20)) for _ in range(12)]
    staging.put([(kept, b"kept")])
    with pytest.raises(StoreUnavailable):
        staging.put(too_much)
    assert staging.read([kept]) == [b"kept"]
    assert staging.staged_ids() == {kept}


def test_room_returns_when_candidates_are_done_with(staging: Staging) -> None:
    before = staging.bytes_free()
    for _ in range(50):
        candidate_id = _id()
        staging.put([(candidate_id, bytes(100_000))])
        staging.destroy([candidate_id])
    staging.sweep()
    assert staging.bytes_free() >= before - 100_000
