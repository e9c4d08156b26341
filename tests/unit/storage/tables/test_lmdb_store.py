"""The environment: its settings, readers, formats, and what it does with damaged files."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.ground.errors import StoreCorrupt, StoreLocked, StoreUnavailable, UnknownFormat
from storage.tables.codec import STORE_FORMAT, Digests, StoreHeader, encode, ordinal_key
from storage.tables.lmdb_store import LmdbStore
from storage.tables.names import ROWS
from storage.tables.read_only import read_only
from tests.unit.storage.opening import Bench, digests_of, put_header, say

QUOTA = 1 << 26
DIGESTS = Digests(b"k" * 32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    (tmp_path / "store").mkdir()
    opened = LmdbStore(tmp_path / "store", QUOTA, DIGESTS)
    opened.open(bootstrapped=False)
    yield opened
    opened.close()


def _put(store: LmdbStore, key: bytes, payload: bytes) -> None:
    draft = store.begin()
    draft.put(ROWS, key, payload)
    draft.commit()


def test_settings_that_keep_aborted_writes_out_of_the_file(store: LmdbStore) -> None:
    flags = store._environment().flags()
    assert (flags["writemap"], flags["sync"], flags["metasync"]) == (False, True, True)
    assert flags["meminit"]


def test_an_aborted_draft_leaves_no_byte_in_the_file(store: LmdbStore) -> None:
    _put(store, b"k" * 8, b"committed-and-findable")
    draft = store.begin()
    for number in range(100):
        draft.put(ROWS, number.to_bytes(8, "big"), b"aborted-and-gone" * 10)
    draft.abort()
    data = (store.directory / "data.mdb").read_bytes()
    assert b"committed-and-findable" in data
    assert b"aborted-and-gone" not in data


def test_a_flipped_bit_on_disk_is_never_read_as_a_value(store: LmdbStore) -> None:
    _put(store, b"k" * 8, b"payload" * 20)
    path = store.directory / "data.mdb"
    data = bytearray(path.read_bytes())
    store.close()
    data[data.index(b"payload" * 20) + 3] ^= 1
    path.write_bytes(data)
    store.open(bootstrapped=True)
    with store.reading() as view, pytest.raises(StoreCorrupt):
        view.get(ROWS, b"k" * 8)


def test_torn_first_pages_are_made_anew_only_before_the_first_commit(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    (directory / "data.mdb").write_bytes(b"\0" * 5_000)
    with pytest.raises(StoreCorrupt):
        LmdbStore(directory, QUOTA, DIGESTS).open(bootstrapped=True)
    store = LmdbStore(directory, QUOTA, DIGESTS)
    store.open(bootstrapped=False)
    _put(store, b"k" * 8, b"works")
    store.close()


def test_a_store_in_use_that_lost_its_file_is_not_made_anew(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(StoreCorrupt, match="gone"):
        LmdbStore(tmp_path / "store", QUOTA, DIGESTS).open(bootstrapped=True)
    assert list((tmp_path / "store").iterdir()) == []


_READS_UNTIL_TOLD = (
    "import lmdb, sys; env = lmdb.open(sys.argv[1], readonly=True, map_size=0, max_dbs=13);"
    "txn = env.begin(); print('reads', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("commits", [4, 5])
def test_a_compaction_beside_another_processs_reader_loses_nothing(
    store: LmdbStore, commits: int
) -> None:
    # The last transaction's number is odd or even: one of the two took the empty meta page.
    for number in range(commits):
        _put(store, number.to_bytes(8, "big"), b"payload")
    with subprocess.Popen(
        [sys.executable, "-c", _READS_UNTIL_TOLD, str(store.directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reads\n"
        store.compact()
        with store.reading() as view:
            assert view.count(ROWS) == commits
        _put(store, b"k" * 8, b"after it")
        store.reopen()
        with store.reading() as view:
            assert view.count(ROWS) == commits + 1
        reader.communicate(timeout=10)


def test_a_forked_child_cannot_use_the_store(store: LmdbStore) -> None:
    store._pid = os.getpid() + 1
    with pytest.raises(StoreLocked):
        store.begin()
    with pytest.raises(StoreLocked), store.reading():
        pass
    store._pid = os.getpid()


def test_a_closed_store_is_unavailable(store: LmdbStore) -> None:
    store.shut()
    with pytest.raises(StoreUnavailable), store.reading():
        pass


def test_reopening_waits_for_readers_and_readers_wait_for_reopening(store: LmdbStore) -> None:
    _put(store, b"k" * 8, b"payload")
    entered, leave, reopened = threading.Event(), threading.Event(), threading.Event()

    def read() -> None:
        with store.reading() as view:
            entered.set()
            leave.wait(10)
            assert view.get(ROWS, b"k" * 8) == b"payload"

    def reopen() -> None:
        store.reopen()
        reopened.set()

    reader, writer = threading.Thread(target=read), threading.Thread(target=reopen)
    reader.start()
    assert entered.wait(10)
    writer.start()
    assert not reopened.is_set()
    leave.set()
    reader.join(10)
    writer.join(10)
    assert reopened.is_set()
    with store.reading() as view:
        assert view.get(ROWS, b"k" * 8) == b"payload"


def test_compaction_gives_free_pages_back_and_keeps_every_value(store: LmdbStore) -> None:
    for number in range(50):
        _put(store, number.to_bytes(8, "big"), os.urandom(3_000))
    draft = store.begin()
    for number in range(1, 50):
        draft.delete(ROWS, number.to_bytes(8, "big"))
    draft.commit()
    with store.reading() as view:
        before = list(view.scan(ROWS))
    assert store.compact() > 100_000
    with store.reading() as view:
        assert list(view.scan(ROWS)) == before
    assert not (store.directory / "compacting").exists()


def test_bytes_used_counts_no_free_pages(store: LmdbStore) -> None:
    def used() -> int:
        with store.reading() as view:
            return view.sizes().bytes_used

    empty = used()
    _put(store, b"k" * 8, bytes(1_000_000))
    assert used() > empty + 1_000_000
    draft = store.begin()
    draft.delete(ROWS, b"k" * 8)
    draft.commit()
    assert used() <= empty + 8_192


def test_a_poisoned_environment_says_so_to_readers(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Poisoned:
        def begin(self) -> object:
            raise lmdb.PanicError("MDB_PANIC")

    monkeypatch.setattr(store, "_environment", Poisoned)
    with pytest.raises(StoreUnavailable), store.reading():
        pass


_FIELDS_BEFORE_THE_FORMAT = 12


def _filled(bench: Bench) -> StoreHeader:
    store = bench.open()
    for number in range(3):
        say(store, f"fact {number}")
    store.close()
    with read_only(bench.state / "store", digests_of(bench.state)) as view:
        header = view.header()
    assert header is not None
    return header


def _refused(bench: Bench, number: int) -> None:
    data = (bench.state / "store" / "data.mdb").read_bytes()
    with pytest.raises(UnknownFormat, match=f"format {number}, and this version reads"):
        bench.open()
    assert (bench.state / "store" / "data.mdb").read_bytes() == data


def test_a_new_store_has_the_format_of_this_version_and_opens_again(bench: Bench) -> None:
    assert _filled(bench).format == STORE_FORMAT
    assert bench.open().reader.status().live_count == 3


@pytest.mark.parametrize("number", [STORE_FORMAT - 1, STORE_FORMAT + 1])
def test_a_store_of_another_format_is_refused_before_anything_of_it_is_read(
    bench: Bench, number: int
) -> None:
    other = msgspec.structs.replace(_filled(bench), format=number)
    # A later version may have appended fields that this one has never heard of.
    put_header(bench, encode([*msgspec.structs.astuple(other), "a field of tomorrow"]))
    _refused(bench, number)


def test_a_header_that_ends_before_its_format_is_refused(bench: Bench) -> None:
    fields = list(msgspec.to_builtins(_filled(bench)))[:_FIELDS_BEFORE_THE_FORMAT]
    put_header(bench, msgspec.msgpack.encode(fields))
    _refused(bench, 0)


KEYS = st.binary(min_size=8, max_size=8)


@given(key=KEYS, payload=st.binary(max_size=200))
def test_a_framed_payload_reads_back(key: bytes, payload: bytes) -> None:
    assert DIGESTS.unframe(b"rows", key, DIGESTS.frame(b"rows", key, payload)) == payload


@given(key=KEYS, payload=st.binary(max_size=60), data=st.data())
def test_any_changed_bit_is_noticed(key: bytes, payload: bytes, data: st.DataObject) -> None:
    value = bytearray(DIGESTS.frame(b"rows", key, payload))
    at = data.draw(st.integers(0, 8 * len(value) - 1))
    value[at // 8] ^= 1 << at % 8
    with pytest.raises(StoreCorrupt):
        DIGESTS.unframe(b"rows", key, bytes(value))


@given(key=KEYS, other=KEYS, payload=st.binary(max_size=60))
def test_a_value_under_another_key_is_noticed(key: bytes, other: bytes, payload: bytes) -> None:
    if key != other:
        with pytest.raises(StoreCorrupt):
            DIGESTS.unframe(b"rows", other, DIGESTS.frame(b"rows", key, payload))


def test_a_value_in_another_table_is_noticed() -> None:
    value = DIGESTS.frame(b"rows", b"k" * 8, b"payload")
    with pytest.raises(StoreCorrupt):
        DIGESTS.unframe(b"vectors", b"k" * 8, value)


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02" + b"0" * 16, b"\x01" + b"0" * 15])
def test_what_is_no_value_is_noticed(value: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        DIGESTS.unframe(b"rows", b"k" * 8, value)


@given(first=st.integers(0, 2**64 - 1), second=st.integers(0, 2**64 - 1))
def test_ordinal_keys_sort_like_their_ordinals(first: int, second: int) -> None:
    assert (ordinal_key(first) < ordinal_key(second)) == (first < second)
