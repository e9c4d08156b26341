"""Segment files: a cache that is either exactly the store's, or gone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from storage.derived.vectors.faiss_index import BadVector, Floats, Ordinals, VectorIndex
from storage.derived.vectors.segment_files import IndexIdentity, LoadedIndex, SegmentFiles
from storage.tables.codec import Digests
from tests.unit.storage.derived.vectors.found_pairs import found_pairs

DIGESTS = Digests(b"k" * 32)
DIMENSION = 8
SEGMENT = 16
COUNT = 40
IDENTITY = IndexIdentity(incarnation="0a", embedder_id="model-8", dimension=DIMENSION)


def _unit(count: int, seed: int = 0) -> Floats:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION))
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


ROWS = _unit(COUNT)
STORED: Ordinals = np.arange(COUNT, dtype=np.int64)


def _fetch(ordinal: int) -> bytes:
    data: bytes = ROWS[ordinal].tobytes()
    return data


def _files(directory: Path, identity: IndexIdentity = IDENTITY) -> SegmentFiles:
    return SegmentFiles(directory, identity, DIGESTS, segment_len=SEGMENT)


def _index(count: int = COUNT) -> VectorIndex:
    index = VectorIndex(DIMENSION, segment_len=SEGMENT)
    index.extend([(at, _fetch(at)) for at in range(count)])
    return index


def _answers(index: VectorIndex) -> list[list[tuple[int, float]]]:
    return [found_pairs(index, row.tobytes(), COUNT, None) for row in ROWS]


def _load(directory: Path, stored: Ordinals = STORED) -> LoadedIndex:
    return _files(directory).load(stored, _fetch, lambda _: ())


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_saved_index_loads_the_same_and_reads_only_the_tail_from_the_store(
    tmp_path: Path,
) -> None:
    assert _files(tmp_path).save(_index()) == 2
    loaded = _load(tmp_path)
    assert (loaded.rejected, loaded.rebuilt) == ((), COUNT - 2 * SEGMENT)
    assert _answers(loaded.index) == _answers(_index())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_names_tell_the_range_and_what_the_vectors_are_of(tmp_path: Path) -> None:
    _files(tmp_path).save(_index())
    made_of = {name[:16] for name in _names(tmp_path)}
    assert len(made_of) == 1
    assert [name[16:] for name in _names(tmp_path)] == [
        f"-{0:020d}-{15:020d}.seg",
        f"-{16:020d}-{31:020d}.seg",
    ]


def test_what_is_on_disk_is_not_written_again(tmp_path: Path) -> None:
    files, index = _files(tmp_path), _index()
    assert (files.save(index), files.save(index)) == (2, 0)
    index.extend([(COUNT + at, _fetch(at)) for at in range(SEGMENT)])
    assert files.save(index) == 1


def test_an_empty_directory_is_rebuilt_from_the_store(tmp_path: Path) -> None:
    loaded = _load(tmp_path)
    assert loaded.rebuilt == COUNT
    assert _answers(loaded.index) == _answers(_index())


def test_every_changed_byte_is_noticed_and_the_rebuilt_index_is_the_same(tmp_path: Path) -> None:
    _files(tmp_path).save(_index(SEGMENT))
    stored, answers = STORED[:SEGMENT], _answers(_index(SEGMENT))
    name = _names(tmp_path)[0]
    data = (tmp_path / name).read_bytes()
    for at in range(len(data)):
        for flip in (0x01, 0x80):
            changed = data[:at] + bytes((data[at] ^ flip,)) + data[at + 1 :]
            (tmp_path / name).write_bytes(changed)
            loaded = _load(tmp_path, stored)
            assert [finding.name for finding in loaded.rejected] == [name], at
            assert _names(tmp_path) == []
            assert loaded.rebuilt == SEGMENT
    assert _answers(_load(tmp_path, stored).index) == answers


@pytest.mark.parametrize("end", [0, 1, 4, 5, 60, -1, -100])
def test_a_truncated_file_is_noticed(tmp_path: Path, end: int) -> None:
    _files(tmp_path).save(_index())
    path = tmp_path / _names(tmp_path)[1]
    path.write_bytes(path.read_bytes()[:end])
    loaded = _load(tmp_path)
    assert [finding.name for finding in loaded.rejected] == [path.name]
    assert _answers(loaded.index) == _answers(_index())


def test_a_zeroed_block_is_noticed(tmp_path: Path) -> None:
    _files(tmp_path).save(_index())
    path = tmp_path / _names(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[:-64] + bytes(64))
    assert [finding.reason for finding in _load(tmp_path).rejected] == ["digest"]


@pytest.mark.parametrize(
    "change",
    [
        {"incarnation": "0b"},
        {"embedder_id": "other-8"},
        {"dimension": 16},
    ],
)
def test_files_of_another_store_or_model_are_refused_and_removed(
    tmp_path: Path, change: dict[str, str]
) -> None:
    _files(tmp_path).save(_index())
    identity = msgspec.structs.replace(IDENTITY, **change)
    loaded = _files(tmp_path, identity).load(np.empty(0, dtype=np.int64), _fetch, lambda _: ())
    assert [finding.reason for finding in loaded.rejected] == ["store, model or version"] * 2
    assert (_names(tmp_path), loaded.index.count) == ([], 0)


def test_a_file_ahead_of_the_store_is_refused(tmp_path: Path) -> None:
    _files(tmp_path).save(_index())
    loaded = _load(tmp_path, STORED[:20])
    assert [finding.reason for finding in loaded.rejected] == ["stale"]
    assert loaded.index.last_ordinal == 19


def test_a_file_from_before_a_purge_put_back_is_refused(tmp_path: Path) -> None:
    files, index = _files(tmp_path), _index()
    files.save(index)
    name = _names(tmp_path)[0]
    before = (tmp_path / name).read_bytes()
    files.drop(index, [5])
    (tmp_path / name).write_bytes(before)
    loaded = _load(tmp_path, np.delete(STORED, 5))
    assert [(finding.name, finding.reason) for finding in loaded.rejected] == [(name, "stale")]
    assert 5 not in [ordinal for ordinal, _ in found_pairs(loaded.index, _fetch(5), COUNT, None)]


def test_a_file_under_another_range_s_name_is_refused(tmp_path: Path) -> None:
    _files(tmp_path).save(_index())
    first, second = (tmp_path / name for name in _names(tmp_path))
    second.write_bytes(first.read_bytes())
    assert [finding.reason for finding in _load(tmp_path).rejected] == ["digest"]


def test_unfinished_files_links_and_folders_are_not_followed(tmp_path: Path) -> None:
    directory = tmp_path / "segments"
    directory.mkdir()
    _files(directory).save(_index())
    name = _names(directory)[0]
    outside = tmp_path / "outside"
    (directory / name).rename(outside)
    (directory / name).symlink_to(outside)
    (directory / ".left.seg.unfinished").write_bytes(b"half")
    loaded = _load(directory)
    assert {finding.reason for finding in loaded.rejected} == {"unreadable", "unfinished"}
    assert outside.exists()
    assert len(_names(directory)) == 1


def _canary_hits(directory: Path, rows: Floats) -> int:
    """How many of the rows' bytes any file holds, looking at every eighth of a row."""
    data = b"".join(path.read_bytes() for path in directory.iterdir())
    return sum(row.tobytes()[:16] in data or row.tobytes()[16:] in data for row in rows)


def test_dropping_leaves_no_byte_of_the_vectors_in_any_file(tmp_path: Path) -> None:
    files, index = _files(tmp_path), _index()
    files.save(index)
    gone = [0, 7, 15, *range(16, 32)]
    assert _canary_hits(tmp_path, ROWS[gone]) == len(gone)
    files.drop(index, gone)
    assert _canary_hits(tmp_path, ROWS[gone]) == 0
    assert _canary_hits(tmp_path, ROWS[[1, 14]]) == 2
    loaded = _load(tmp_path, np.delete(STORED, gone))
    assert loaded.rejected == ()
    assert loaded.index.count == COUNT - len(gone)


def test_a_drop_cut_short_before_the_old_file_went_is_finished_by_the_next_load(
    tmp_path: Path,
) -> None:
    files, index = _files(tmp_path), _index()
    files.save(index)
    old = {name: (tmp_path / name).read_bytes() for name in _names(tmp_path)}
    files.drop(index, [0])
    for name, data in old.items():
        if not (tmp_path / name).exists():
            (tmp_path / name).write_bytes(data)
    _load(tmp_path, STORED[1:])
    assert _canary_hits(tmp_path, ROWS[:1]) == 0


def test_a_crash_before_the_rename_leaves_the_old_files(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        assert name == "snapshot_written"
        raise Killed

    files = SegmentFiles(tmp_path, IDENTITY, DIGESTS, die, SEGMENT)
    with pytest.raises(Killed):
        files.save(_index())
    loaded = _load(tmp_path)
    assert loaded.rejected == ()
    assert loaded.rebuilt == COUNT - SEGMENT
    assert _answers(loaded.index) == _answers(_index())


def test_gaps_between_files_are_rebuilt_and_growth_goes_on(tmp_path: Path) -> None:
    files, index = _files(tmp_path), _index()
    files.save(index)
    (tmp_path / _names(tmp_path)[0]).unlink()
    files = _files(tmp_path)
    loaded = files.load(STORED, _fetch, lambda _: ())
    assert loaded.rebuilt == SEGMENT + COUNT % SEGMENT
    assert _answers(loaded.index) == _answers(_index())
    assert files.save(loaded.index) == 1
    loaded.index.extend([(COUNT, _fetch(0))])
    assert loaded.index.count == COUNT + 1


def test_a_bad_vector_in_the_store_itself_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(BadVector):
        _files(tmp_path).load(STORED, lambda _: bytes(4 * DIMENSION), lambda _: ())


def test_bad_vectors_under_a_digest_that_needs_no_key_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _files(tmp_path).save(_index(SEGMENT))
    name = _names(tmp_path)[0]
    data = (tmp_path / name).read_bytes()
    at = 32 + 24 + 8 * SEGMENT
    bad = np.full((SEGMENT, DIMENSION), np.nan, dtype="<f4").tobytes()
    body = data[32:at] + bad + data[at + len(bad) :]
    forged = Digests(None).of(b"", body) + body
    (tmp_path / name).write_bytes(forged)
    stored = STORED[:SEGMENT]
    assert [finding.reason for finding in _load(tmp_path, stored).rejected] == ["digest"]

    def believed(_self: Digests, _name: bytes, _data: bytes) -> bytes:
        return forged[:32]

    monkeypatch.setattr(Digests, "of", believed)
    (tmp_path / name).write_bytes(forged)
    loaded = _load(tmp_path, stored)
    assert loaded.rejected == (), "control"
    assert _answers(loaded.index) != _answers(_index(SEGMENT)), "control"
