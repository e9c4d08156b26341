"""Stores of another version: an older one is upgraded or left alone, a newer one is refused."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

import lmdb
import msgspec
import pytest

from storage.audit import OperatorLeaf, decode_leaf
from storage.codec import STORE_FORMAT, encode, frame, ordinal_key
from storage.errors import StoreTooNew, StoreUnavailable
from storage.formats import Upgrade
from storage.lmdb_store import KEPT_BEFORE, LEAVES, META, TABLES, LmdbStore
from storage.read_only import read_only
from storage.statedir import StateDirectory
from tests.unit.storage.opening import Bench, say

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from storage.codec import StoreHeader

_FIELDS_OF_FORMAT_0 = 12


def _filled(bench: Bench) -> StoreHeader:
    store = bench.open()
    for number in range(3):
        say(store, f"fact {number}")
    store.close()
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    return header


def _with_header(bench: Bench, payload: bytes) -> None:
    """Rewrite the header's value as another version would have."""
    env = lmdb.open(str(bench.state / "store"), max_dbs=len(TABLES), map_size=1 << 28)
    with env.begin(write=True) as txn:
        txn.put(b"header", frame(META, b"header", payload), db=env.open_db(META, txn=txn))
    env.close()


def _as_format_0(bench: Bench) -> StoreHeader:
    """The header as it was written before it named its format: two fields shorter."""
    header = _filled(bench)
    fields = list(msgspec.to_builtins(header))[:_FIELDS_OF_FORMAT_0]
    _with_header(bench, msgspec.msgpack.encode(fields))
    return header


def _last_leaf(bench: Bench, index: int) -> OperatorLeaf:
    with read_only(bench.state / "store") as view:
        leaf = decode_leaf(view.get(LEAVES, ordinal_key(index)) or b"")
    assert isinstance(leaf, OperatorLeaf)
    return leaf


def test_a_new_store_says_the_format_of_this_version(bench: Bench) -> None:
    assert _filled(bench).format == STORE_FORMAT
    assert list(bench.state.glob(f"{KEPT_BEFORE}*")) == []


def test_an_older_store_is_upgraded_with_a_leaf_and_a_copy_of_what_it_was(bench: Bench) -> None:
    before = _as_format_0(bench)
    store = bench.open()
    status = store.reader.status()
    assert (status.version, status.live_count) == (3, 3)
    assert status.leaf_count == before.leaf_count + 1
    assert store.reader.check().problems == ()
    store.close()
    leaf = _last_leaf(bench, before.leaf_count)
    assert (leaf.action, leaf.detail) == ("store.upgrade", f"format 0 to {STORE_FORMAT}")
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    assert header.format == STORE_FORMAT
    with read_only(bench.state / f"{KEPT_BEFORE}{STORE_FORMAT}") as view:
        kept = view.header()
    assert kept is not None
    assert (kept.format, kept.leaf_count) == (0, before.leaf_count)


def test_an_upgrade_happens_once(bench: Bench) -> None:
    before = _as_format_0(bench)
    for _ in range(3):
        bench.open().close()
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    assert header.leaf_count == before.leaf_count + 1


def test_a_step_that_fails_leaves_the_store_as_it_was(bench: Bench) -> None:
    before = _as_format_0(bench)

    def fails(draft: object) -> None:
        del draft
        raise lmdb.MapFullError("full")

    directory = bench.state / "store"
    store = LmdbStore(directory, 1 << 28)
    store.open(bootstrapped=True)
    upgrade = Upgrade(store, _signer(bench), "mnemogate", bench.clock, {0: fails})
    with pytest.raises(StoreUnavailable, match="upgraded"):
        upgrade.run()
    store.close()
    with read_only(directory) as view:
        header = view.header()
    assert header is not None
    assert (header.format, header.leaf_count) == (0, before.leaf_count)
    bench.open().close()  # control: with the real step it works


def test_a_newer_store_is_refused_before_anything_of_it_is_read(bench: Bench) -> None:
    header = _filled(bench)
    newer = msgspec.structs.replace(header, format=STORE_FORMAT + 1)
    # A later version may have appended fields that this one has never heard of.
    _with_header(bench, encode([*msgspec.to_builtins(newer), "a field of tomorrow"]))
    data = (bench.state / "store" / "data.mdb").read_bytes()
    with pytest.raises(StoreTooNew, match=f"format {STORE_FORMAT + 1}"):
        bench.open()
    assert (bench.state / "store" / "data.mdb").read_bytes() == data


def test_what_was_kept_before_an_upgrade_does_not_survive_an_erasure(bench: Bench) -> None:
    _as_format_0(bench)
    store = bench.open()
    kept = bench.state / f"{KEPT_BEFORE}{STORE_FORMAT}" / "data.mdb"
    assert b"fact 1" in kept.read_bytes(), "control: the copy has the text"
    store._engine.erase()
    assert not kept.exists()
    store.close()


def _signer(bench: Bench) -> Ed25519PrivateKey:
    directory = StateDirectory(bench.state)
    secrets = directory.secrets()
    directory.close()
    return secrets.log_signer()
