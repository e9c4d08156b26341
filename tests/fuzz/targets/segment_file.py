"""Segment files: whatever stands in one, the index holds exactly the store's vectors."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np

from storage.derived.vectors.faiss_index import VectorIndex
from storage.derived.vectors.segment_files import IndexIdentity, SegmentFiles
from storage.tables.codec import Digests
from tests.fuzz.choices import Choices
from tests.unit.storage.derived.vectors.found_pairs import found_pairs

DIGESTS = Digests(b"k" * 32)
DIMENSION, COUNT = 4, 4
IDENTITY = IndexIdentity(incarnation="0a", embedder_id="fuzz", dimension=DIMENSION)
STORED = np.arange(COUNT, dtype=np.int64)
_UNIT = np.eye(DIMENSION, dtype="<f4")
WORDS = (bytes(8), (1).to_bytes(8, "little"))

# In memory where the system has such a place: a target runs many thousand times a minute.
_MEMORY = Path("/dev/shm")  # noqa: S108 - the directory made in it is our own
_DIRECTORY = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
atexit.register(shutil.rmtree, _DIRECTORY, ignore_errors=True)


def fetch(ordinal: int) -> bytes:
    row: bytes = _UNIT[ordinal % DIMENSION].tobytes()
    return row


def sealed_file() -> tuple[str, bytes]:
    """Name and bytes of the file that the store itself writes."""
    index = VectorIndex(DIMENSION, segment_len=COUNT)
    index.extend([(at, fetch(at)) for at in range(COUNT)])
    SegmentFiles(_DIRECTORY, IDENTITY, DIGESTS, segment_len=COUNT).save(index)
    (path,) = _DIRECTORY.iterdir()
    return path.name, path.read_bytes()


_NAME, _GOOD = sealed_file()


def check(data: bytes) -> None:
    choices = Choices(data)
    mode = choices.byte() % 3
    rest = choices.rest()
    body = rest if mode != 1 else _with_digest(rest)
    if mode == 2:  # the good file, with one stretch exchanged
        at = int.from_bytes(rest[:2], "big") % len(_GOOD)
        body = _GOOD[:at] + rest[2:] + _GOOD[at + len(rest[2:]) :]
    (_DIRECTORY / _NAME).write_bytes(body)
    loaded = SegmentFiles(_DIRECTORY, IDENTITY, DIGESTS, segment_len=COUNT).load(
        STORED, fetch, lambda _: ()
    )
    assert loaded.index.count == COUNT
    found = found_pairs(loaded.index, fetch(1), COUNT, None)
    assert sorted(ordinal for ordinal, _ in found) == list(range(COUNT))
    if loaded.rejected:
        assert [name.name for name in _DIRECTORY.iterdir()] == []
        assert found[0] == (1, 1.0)


def _with_digest(rest: bytes) -> bytes:
    """A file whose digest fits all but the store's key, which no one else has."""
    return Digests(b"other" * 6).of(b"", rest) + rest
