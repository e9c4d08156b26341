"""The environment before the verdict: nameless, of this process, replaced when nobody waits."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from policy.model import CandidateId
from storage.ground.errors import StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.staging import undecided
from storage.staging.undecided import KEY_LEN, UNLINKED, Undecided, name_of, packed, seal
from storage.values import STAGED_IN_MEMORY, Sealed, StagedContents

MAP_BYTES = 1 << 26


def _sealed(canonical: bytes) -> Sealed:
    candidate_id, key = CandidateId(secrets.token_hex(16)), random_bytes(KEY_LEN)
    data = packed(StagedContents(canonical=canonical, evidence=b"evidence"))
    return Sealed(candidate_id=candidate_id, key=key, data=seal(key, name_of(candidate_id), data))


def _read(environment: Undecided, *sealed: Sealed) -> list[bytes | None]:
    found = environment.read([one.candidate_id for one in sealed])
    return [None if one is None else one.canonical for one in found]


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
    except OSError:
        return ""  # the descriptor of the listing itself


def _files() -> set[str]:
    """Where the open descriptors of this process lead."""
    return {_target(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208


def _no_memory_file(_name: str, _flags: int = 0) -> int:
    raise OSError(errno.ENOSYS, "no memfd")


def _without_memfd(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "memfd_create", _no_memory_file)


def _without_proc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(undecided, "_DESCRIPTORS", Path("/proc/none/fd"))


def _with_another_proc(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fd").mkdir()
    patch.setattr(undecided, "_DESCRIPTORS", tmp_path / "fd")


def test_it_is_in_memory_and_in_no_directory(tmp_path: Path) -> None:
    before = {name for name in _files() if "memfd" in name}
    environment, one = Undecided(tmp_path, MAP_BYTES), _sealed(b"text")
    environment.put([one])
    assert (environment.place, _read(environment, one)) == (STAGED_IN_MEMORY, [b"text"])
    assert list(tmp_path.iterdir()) == []
    assert {name for name in _files() if "memfd" in name} - before == {"/memfd:mnemogate (deleted)"}
    environment.close()
    assert {name for name in _files() if "memfd" in name} == before


@pytest.mark.parametrize("refused", [_without_memfd, _without_proc])
def test_where_there_is_no_memfd_or_no_proc_it_is_an_unlinked_file(
    refused: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(monkeypatch)
    environment, one = Undecided(tmp_path, MAP_BYTES), _sealed(b"text")
    environment.put([one])
    assert (environment.place, _read(environment, one)) == (UNLINKED, [b"text"])
    assert list(tmp_path.iterdir()) == []
    (left,) = {name for name in _files() if name.startswith(str(tmp_path))}
    assert left.endswith("undecided.mdb (deleted)")
    environment.close()


def test_a_proc_that_is_another_directory_is_not_taken_for_the_memfd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_another_proc(monkeypatch, tmp_path)
    environment, one = Undecided(tmp_path, MAP_BYTES), _sealed(b"text")
    environment.put([one])
    assert (environment.place, _read(environment, one)) == (UNLINKED, [b"text"])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    environment.close()


def test_the_room_of_the_unlinked_file_is_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up between the put and the next must not take a verdict away."""
    _without_memfd(monkeypatch)
    asked: list[int] = []
    real = os.posix_fallocate

    def recorded(handle: int, offset: int, length: int) -> None:
        asked.append(length)
        real(handle, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", recorded)
    environment = Undecided(tmp_path, MAP_BYTES)
    assert asked == [undecided._PREALLOCATED_BYTES]
    environment.close()


def test_a_disk_without_room_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int, _offset: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _without_memfd(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        environment, one = Undecided(tmp_path, MAP_BYTES), _sealed(b"text")
        assert environment.place == ""
        with pytest.raises(StoreUnavailable, match="No space left"):
            environment.put([one])
        assert list(tmp_path.iterdir()) == []
        assert environment.ids() == frozenset()
    environment.put([one])
    assert _read(environment, one) == [b"text"]
    environment.close()


def test_a_put_that_does_not_fit_stages_nothing_and_the_next_one_does(tmp_path: Path) -> None:
    environment = Undecided(tmp_path, 1 << 20)
    small, large = _sealed(b"small"), _sealed(bytes(2 << 20))
    with pytest.raises(StoreUnavailable, match="full"):
        environment.put([small, large])
    assert environment.ids() == frozenset()
    environment.put([small])
    assert _read(environment, small) == [b"small"]
    environment.close()


def _inode() -> set[int]:
    return {
        Path(f"/proc/self/fd/{name}").stat().st_ino
        for name in os.listdir("/proc/self/fd")  # noqa: PTH208
        if "memfd:mnemogate" in _target(name)
    }


def test_it_is_replaced_by_a_new_file_when_nobody_waits_and_not_before(tmp_path: Path) -> None:
    environment, first, second = Undecided(tmp_path, MAP_BYTES), _sealed(b"1"), _sealed(b"2")
    environment.put([first, second])
    begun = _inode()
    environment.forget([first.candidate_id])
    environment.renew()
    assert (_inode(), _read(environment, second)) == (begun, [b"2"])
    environment.forget([second.candidate_id])
    environment.renew()
    assert not begun & _inode()
    assert environment.bytes_used == 0
    renewed = _inode()
    environment.renew()  # nothing was staged since
    assert _inode() == renewed
    environment.close()


def test_without_a_pause_it_is_replaced_after_four_mebibytes(tmp_path: Path) -> None:
    environment = Undecided(tmp_path, MAP_BYTES)
    begun = _inode()
    for _ in range(3):
        one = _sealed(bytes(1 << 20))
        environment.put([one])
        environment.forget([one.candidate_id])
    assert _inode() == begun
    one = _sealed(bytes(1 << 20))
    environment.put([one])
    environment.forget([one.candidate_id])
    assert not begun & _inode()
    environment.close()


def test_after_a_value_that_does_not_open_nothing_more_is_put_there(tmp_path: Path) -> None:
    environment, good, bad = Undecided(tmp_path, MAP_BYTES), _sealed(b"good"), _sealed(b"bad")
    environment.put([good, Sealed(candidate_id=bad.candidate_id, key=bad.key, data=good.data)])
    assert _read(environment, good, bad) == [b"good", None]
    assert environment.ids() == frozenset()
    environment.put([bad])
    assert _read(environment, good, bad) == [None, b"bad"]
    environment.close()
