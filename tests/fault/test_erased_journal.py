"""A purge reaches the journal of a shared store: no row that a remaining key opens has the text.

Old copies of its rows, in the files of a database, its log or its backups, do not open any more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from storage.embedded import EmbeddedStore
from storage.ground.errors import LeaseLost, StoreCorrupt, StoreRolledBack, StoreUnavailable
from storage.journal.protocol import JournalRow, Stream
from storage.journal.sealing import NO_KEY, Sealing
from storage.shipped import ShippedStore, Shipping
from storage.tables.codec import Digests
from storage.tables.lmdb_store import LmdbStore
from storage.values import Decision, Outcome
from tests.conformance.canary import new_canary, traces
from tests.erased_shards import (
    NAME,
    OTHERS,
    SECRET,
    ErasedShard,
    filled,
    plain,
    purge,
    rejected_and_denied,
    server_keyed,
    short_segments,
    texts,
    vouched,
)
from tests.fault.kills.purge_process import STEPS, killed_while_purging
from tests.files_journal import FilesJournal
from tests.unit.storage.opening import say

KINDS = (plain, vouched, server_keyed)


@pytest.fixture
def shard(tmp_path: Path) -> ErasedShard:
    return ErasedShard(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_purged_text_is_in_no_row_that_a_remaining_key_opens(
    shard: ErasedShard, tmp_path: Path, kind: Callable[[EmbeddedStore, str], Outcome]
) -> None:
    canary = new_canary()
    with short_segments():
        store = shard.open("a")
        outcome = filled(store, canary, kind)
        before = shard.rows()
        shutil.copytree(shard.keys, tmp_path / "stolen")
        assert canary.encode() in shard.opened()
        assert purge(store, outcome).decision is Decision.ADMIT
        assert store.reader.status().reason is None
        assert canary.encode() not in shard.opened()
        say(store, "after the purge")
        assert canary.encode() not in shard.opened()
        store.close()
    # Control: under the old keys the old rows open, and have it; each of those keys is gone.
    assert canary.encode() in shard.opened(before, tmp_path / "stolen")
    purged = [row for row in before if canary.encode() in shard.opened([row], tmp_path / "stolen")]
    assert purged
    for row in purged:
        with pytest.raises(StoreCorrupt, match="lacks"):
            shard.opened([row])
    assert shard.left() == shard.used()
    # What is left is the whole store.
    again = shard.open("b")
    assert texts(again) == OTHERS | {"after the purge"}
    assert again.reader.check().problems == ()
    again.close()
    assert traces(tmp_path / "b", canary) == []


@pytest.mark.parametrize("kind", KINDS)
def test_control_without_keys_the_secret_opens_what_was_purged(
    shard: ErasedShard, kind: Callable[[EmbeddedStore, str], Outcome]
) -> None:
    canary = new_canary()
    sealing = Sealing(SECRET, NAME, Stream.STORE)
    store = shard.open("a", Shipping(journal=shard.shipping().journal, sealing=sealing))
    purge(store, filled(store, canary, kind))
    store.close()
    assert canary.encode() in b"".join(
        one.value or b"" for row in shard.rows() for one in sealing.read(row).writes
    )


def test_what_was_sealed_before_there_were_keys_is_sealed_again_by_a_purge(
    shard: ErasedShard,
) -> None:
    canary = new_canary()
    sealing = Sealing(SECRET, NAME, Stream.STORE)
    store = shard.open("a", Shipping(journal=shard.shipping().journal, sealing=sealing))
    outcome = filled(store, canary)
    store.close()
    store = shard.open("a")
    say(store, "with keys")
    assert NO_KEY in shard.used()
    purge(store, outcome)
    assert NO_KEY not in shard.used()
    assert canary.encode() not in shard.opened()
    store.close()
    # Without the keys it does not open any more.
    with pytest.raises(StoreCorrupt, match="does not open without the keys of its segments"):
        shard.open("c", Shipping(journal=shard.shipping().journal, sealing=sealing))


def test_a_second_purge_seals_only_what_changed_since(shard: ErasedShard) -> None:
    exchanged: list[int] = []
    real = FilesJournal.exchange

    def exchange(self: FilesJournal, stream: Stream, rows: list[JournalRow]) -> None:
        exchanged.extend(row.seq for row in rows)
        real(self, stream, rows)

    with short_segments(), patch.object(FilesJournal, "exchange", exchange):
        store = shard.open("a")
        first = filled(store, new_canary())
        purge(store, first)
        everything = len(exchanged)
        second = say(store, "written since")
        exchanged.clear()
        purge(store, second)
        assert 0 < len(exchanged) < everything
        store.close()


# ---- a holder that dies --------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_a_purge_that_a_kill_cut_short_is_finished_by_the_next_holder(
    shard: ErasedShard, tmp_path: Path, step: str
) -> None:
    canary = new_canary()
    killed_while_purging(shard, step, canary)
    # Each row opens, in its old or in its new state.
    assert b"before 0" in shard.opened()
    with short_segments():
        store = shard.open("b")
        assert canary.encode() not in shard.opened()
        assert texts(store) == OTHERS
        assert store.reader.status().reason is None
        assert say(store, "of the next holder").decision is Decision.ADMIT
        assert store.reader.check().problems == ()
        store.close()
    assert shard.left() == shard.used()
    assert traces(tmp_path / "b", canary) == []
    # And the holder that died has none of it after it followed.
    again = shard.open("a")
    assert texts(again) == OTHERS | {"of the next holder"}
    again.close()
    assert traces(tmp_path / "a", canary) == []


# ---- a holder that was overtaken -----------------------------------------------------------------


def test_a_past_holder_that_purges_changes_nothing(shard: ErasedShard) -> None:
    with short_segments():
        first = shard.open("a")
        filled(first, new_canary())
        second = shard.open("b")
        say(second, "of the holder")
        rows, keys = shard.rows(), shard.left()
        with pytest.raises(LeaseLost):
            first.lmdb.compact()
        assert shard.rows() == rows
        assert shard.left() == keys
        # Control: without the fence it does.
        with patch.object(FilesJournal, "_fenced", return_value=True):
            first.lmdb.compact()
        assert shard.rows() != rows
        first.close()
        second.close()


@pytest.mark.parametrize("at", ["settled", "segment read", "exchanged"])
def test_a_holder_that_is_overtaken_while_it_purges_destroys_no_key_of_the_next_one(
    shard: ErasedShard, at: str
) -> None:
    """Between any two of its steps another process takes over, writes, and purges too."""
    followers: list[EmbeddedStore] = []

    def overtake() -> None:
        if not followers:
            followers.append(shard.open("b"))
            say(followers[0], "of the next holder")
            purge(followers[0], say(followers[0], "purged by the next holder"))

    of, name = {
        "settled": (FilesJournal, "settle"),
        "segment read": (ShippedStore, "_resealed"),
        "exchanged": (FilesJournal, "exchange"),
    }[at]
    real = getattr(of, name)

    def act(self: object, *given: object) -> object:
        if at == "segment read":
            overtake()
        result = real(self, *given)
        overtake()
        return result

    with short_segments(1 if at == "exchanged" else 64):
        first = shard.open("a")
        filled(first, new_canary())
        try:
            with patch.object(of, name, act):
                first.lmdb.compact()
        except StoreUnavailable:
            pass
        (second,) = followers
        say(second, "after it all")
        first.close()
        second.close()
        assert b"of the next holder" in shard.opened()
        third = shard.open("c")
    assert texts(third) == OTHERS | {"of the next holder", "after it all"} | {
        one for one in texts(third) if one.endswith(" is written")
    }
    assert third.reader.check().problems == ()
    third.close()


# ---- standbys ------------------------------------------------------------------------------------


def test_a_copy_that_follows_the_journal_has_no_byte_of_what_was_purged(
    shard: ErasedShard, tmp_path: Path
) -> None:
    canary = new_canary()

    def followed() -> None:
        """Catch up without the lease, as a standby does."""
        key = (tmp_path / "secrets" / "store.key").read_bytes()
        place = tmp_path / "a" / "state" / "store"
        copy = ShippedStore(place, 1 << 28, Digests(key), shard.shipping())
        copy.open(bootstrapped=True)
        copy.close()

    first = shard.open("a")
    outcome = filled(first, canary)
    first.close()
    second = shard.open("b")
    purge(second, outcome)
    say(second, "after the purge")
    second.close()
    assert traces(tmp_path / "a" / "state" / "store", canary)
    shutil.copytree(tmp_path / "a", tmp_path / "kept", symlinks=True)
    followed()
    assert traces(tmp_path / "a" / "state" / "store", canary) == []
    # Control: without the rewriting it would be there.
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "kept").rename(tmp_path / "a")
    with patch.object(LmdbStore, "compact", return_value=0):
        followed()
    assert traces(tmp_path / "a" / "state" / "store", canary)
    # As after a crash between the two: what was applied is rewritten by the next opening.
    followed()
    assert traces(tmp_path / "a" / "state" / "store", canary) == []


# ---- keys that are lost --------------------------------------------------------------------------


def test_a_start_without_the_keys_is_refused_also_for_a_copy_that_lacks_no_row(
    shard: ErasedShard, tmp_path: Path
) -> None:
    with short_segments():
        store = shard.open("a")
        filled(store, new_canary())
        shutil.copytree(shard.keys, tmp_path / "older")
        for number in range(5):
            say(store, f"later {number}")
        store.close()
        shutil.copytree(shard.keys, tmp_path / "newest")
        for put_back in (None, tmp_path / "older"):
            shutil.rmtree(shard.keys)
            if put_back is None:
                shard.keys.mkdir(mode=0o700)
            else:
                shutil.copytree(put_back, shard.keys)
            for name in ("a", f"new-{put_back is None}"):
                with pytest.raises(StoreCorrupt, match=r"keys were\s+lost, or put back"):
                    shard.open(name)
        # Control.
        shutil.rmtree(shard.keys)
        shutil.copytree(tmp_path / "newest", shard.keys)
        shard.open("a").close()
        # A journal from before a purge has rows whose keys are destroyed.
        shutil.copytree(tmp_path / "journal", tmp_path / "backup")
        store = shard.open("a")
        purge(store, say(store, "purged"))
        store.close()
        shutil.rmtree(tmp_path / "journal")
        shutil.copytree(tmp_path / "backup", tmp_path / "journal")
        with pytest.raises(StoreCorrupt, match="from before a purge"):
            shard.open("d")


def test_a_write_whose_key_cannot_be_kept_is_refused_and_the_next_one_is_not(
    shard: ErasedShard,
) -> None:
    with short_segments(1):
        store = shard.open("a")
        say(store, "before")
        shard.keys.rename(shard.root / "away")
        with pytest.raises(BaseExceptionGroup) as refused:
            say(store, "in between")
        assert refused.group_contains(StoreUnavailable, match="the shard's keys")
        (shard.root / "away").rename(shard.keys)
        say(store, "after")
        assert texts(store) == {"before", "after"}
        assert store.reader.check().problems == ()
        store.close()


def test_a_restored_journal_is_refused_by_the_checkpoint_that_is_kept_with_the_keys(
    shard: ErasedShard, tmp_path: Path
) -> None:
    store = shard.open("a")
    say(store, "before")
    store.close()
    shutil.copytree(tmp_path / "journal", tmp_path / "backup")
    store = shard.open("a")
    say(store, "acknowledged")
    store.close()
    shutil.rmtree(tmp_path / "journal")
    (tmp_path / "backup").rename(tmp_path / "journal")
    # The member that takes over has no copy of its own that would know.
    with pytest.raises(StoreRolledBack):
        shard.open("b")


# ---- what never becomes a memory -----------------------------------------------------------------


def test_rejected_and_denied_texts_are_in_no_batch_before_it_is_sealed(
    shard: ErasedShard, tmp_path: Path
) -> None:
    canary = {kind: new_canary() for kind in ("rejected", "denied", "admitted")}
    store = shard.open("a")
    rejected_and_denied(
        store,
        [f"{canary['rejected']} {number}" for number in range(150)],
        [f"{canary['denied']} {number}" for number in range(20)],
        [f"{canary['admitted']} {number}" for number in range(20)],
    )
    store.close()
    batches = shard.opened()
    assert canary["rejected"].encode() not in batches
    assert canary["denied"].encode() not in batches
    # Control: what was admitted is in batches; and in the journal as it is stored, none is.
    assert all(f"{canary['admitted']} {number}".encode() in batches for number in range(20))
    assert traces(tmp_path / "journal", canary["admitted"]) == []
    assert traces(tmp_path, canary["rejected"]) == []
    assert traces(tmp_path, canary["denied"]) == []
