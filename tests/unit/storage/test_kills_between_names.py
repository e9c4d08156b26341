"""A process killed before any change of a name in its directory: the next one goes on from there.

Each test kills at every change, until its work ends without a kill. What purged texts are in is
searched in every file that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from storage.ground.state_directory import StateDirectory
from storage.journal.protocol import Stream
from storage.journal.sealing import NO_KEY, Sealing, key_id_of
from storage.journal.segment_keys import SegmentKeys
from storage.shard import ShardMember
from storage.shipped import ShippedStore, Shipping
from storage.tables.codec import STORE_FORMAT, Digests
from storage.tables.lmdb_store import LmdbStore
from storage.tables.names import ROWS
from tests.conformance.canary import new_canary, traces
from tests.files_journal import FilesJournal
from tests.unit.storage.killing import killed_at

pytestmark = pytest.mark.heavy
SECRET: Final = b"s" * 32
QUOTA: Final = 1 << 24
KEPT: Final = b"what is kept"
GONE: Final = b"what a purge leaves"


class _Held(FilesJournal):
    """A journal whose lease is over at once, but for its holder."""

    def holds(self) -> bool:
        return True


class Shared:
    """A shared store, with the directories of its members."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.secrets, self._keys = root / "secrets", root / "keys"
        if root.exists():
            return
        for one in (root, self.secrets, self._keys):
            one.mkdir(mode=0o700)
        for name in ("store.key", "log.key", "token.key", "journal.key"):
            (self.secrets / name).write_bytes(SECRET)
            (self.secrets / name).chmod(0o600)

    def journal(self) -> FilesJournal:
        return _Held(self.root / "journal", address="", store_format=STORE_FORMAT, lease_s=0.0)

    def sealing(self) -> Sealing:
        keys = SegmentKeys(self._keys, SECRET, "shard")
        return Sealing(SECRET, "shard", Stream.STORE, keys)

    @contextmanager
    def held(self) -> Generator[ShippedStore]:
        """The store, taken over by a process whose directory stays the same."""
        journal = self.journal()
        assert journal.acquire()
        shipping = Shipping(journal=journal, sealing=self.sealing())
        with closing(StateDirectory(self.root / "holder")) as directory:
            store = ShippedStore(directory.store, QUOTA, Digests(SECRET), shipping)
            store.open(bootstrapped=False)
            try:
                yield store
            finally:
                store.shut()

    def follow(self) -> None:
        """Let a standby follow the journal, and end."""
        member = ShardMember(self.journal(), "shard", self.secrets, (), self._keys)
        with closing(member):
            member.follow(self.root / "standby", QUOTA)

    def followed(self) -> dict[bytes, bytes]:
        """What the copy of the standby contains."""
        with closing(StateDirectory(self.root / "standby")) as directory:
            return contents(directory.store)

    def opened(self) -> tuple[bytes, set[bytes]]:
        """All that rows of the journal contain for who has the keys, and the ids of these."""
        journal, sealing = self.journal(), self.sealing()
        rows = list(journal.since(Stream.STORE, journal.begins(Stream.STORE) - 1))
        assert sealing.keys is not None
        for row in rows:
            assert key_id_of(row) in sealing.keys.ids() - {NO_KEY}
        said = (one.value or b"" for row in rows for one in sealing.read(row).writes)
        return b"".join(said), {key_id_of(row) for row in rows} ^ sealing.keys.ids()


def contents(directory: Path) -> dict[bytes, bytes]:
    store = LmdbStore(directory, QUOTA, Digests(SECRET))
    store.open(bootstrapped=True)
    with store.reading() as view:
        found = dict(view.scan(ROWS))
    store.shut()
    return found


def put(store: LmdbStore, rows: dict[bytes, bytes]) -> None:
    with store.begin() as draft:
        for key, value in rows.items():
            draft.put(ROWS, key, value)
        draft.commit()


def begin_purge(store: LmdbStore, key: bytes) -> None:
    with store.begin() as draft:
        draft.put(ROWS, key, GONE)
        draft.mark_unerased()
        draft.commit()


def end_purge(store: LmdbStore) -> None:
    store.compact()
    with store.begin() as draft:
        draft.mark_unerased(unerased=False)
        draft.commit()


def kills(
    tmp_path: Path,
    prepared: Callable[[Path], None],
    work: Callable[[Path], object],
    check: Callable[[Path], None],
    *,
    least: int,
) -> None:
    """Kill the work before each change of a name, each time in a new directory."""
    for step in count(1):
        root = tmp_path / str(step)
        prepared(root)
        killed = killed_at(step, partial(work, root))
        check(root)
        if not killed:
            assert step > least
            return


# ---- a standby -----------------------------------------------------------------------------------


def after_another_boot() -> AbstractContextManager[object]:
    """A machine that was started anew, which knows no copy of before."""
    return patch("storage.shipped.boot_id", lambda: "another boot")


@pytest.mark.parametrize("restarted", [False, True], ids=["", "the machine restarts"])
def test_a_standby_killed_while_it_repeats_a_purge_keeps_no_text_of_it_nor_of_the_next(
    tmp_path: Path, *, restarted: bool
) -> None:
    first, second = new_canary(), new_canary()

    def prepared(root: Path) -> None:
        shared = Shared(root)
        with shared.held() as store:
            put(store, {b"1": first.encode(), b"2": second.encode(), b"3": KEPT})
            shared.follow()
            begin_purge(store, b"1")
            end_purge(store)
        assert traces(root / "standby", first), "control: the search finds what is there"

    def check(root: Path) -> None:
        shared = Shared(root)
        with shared.held() as store:
            begin_purge(store, b"2")
            end_purge(store)
            with patch("storage.shipped._JOURNAL_PER_STORE", 0):
                store.shorten_journal()
        with after_another_boot() if restarted else nullcontext():
            shared.follow()
        assert shared.followed() == {b"1": GONE, b"2": GONE, b"3": KEPT}
        assert traces(root / "standby", first) == []
        assert traces(root / "standby", second) == []

    kills(tmp_path, prepared, lambda root: Shared(root).follow(), check, least=5)


def test_a_standby_killed_while_it_begins_its_copy_anew_begins_it_again(tmp_path: Path) -> None:
    def prepared(root: Path) -> None:
        shared = Shared(root)
        with shared.held() as store:
            put(store, {b"1": KEPT})
        with after_another_boot():
            shared.follow()

    def check(root: Path) -> None:
        shared = Shared(root)
        shared.follow()
        assert shared.followed() == {b"1": KEPT}

    kills(tmp_path, prepared, lambda root: Shared(root).follow(), check, least=5)


# ---- a holder ------------------------------------------------------------------------------------


def test_a_holder_killed_while_it_purges_the_journal_leaves_no_row_that_a_key_opens(
    tmp_path: Path,
) -> None:
    canary = new_canary()

    def prepared(root: Path) -> None:
        with Shared(root).held() as store:
            put(store, {b"1": canary.encode(), b"2": KEPT})
            begin_purge(store, b"1")
        said, _ = Shared(root).opened()
        assert canary.encode() in said, "control: the journal has it before"

    def purge(root: Path) -> None:
        with Shared(root).held() as store:
            end_purge(store)

    def check(root: Path) -> None:
        purge(root)
        said, unused = Shared(root).opened()
        assert canary.encode() not in said
        assert KEPT in said
        assert unused == set()
        with Shared(root).held() as store, store.reading() as view:
            assert dict(view.scan(ROWS)) == {b"1": GONE, b"2": KEPT}
        assert traces(root / "holder", canary) == []

    kills(tmp_path, prepared, purge, check, least=5)


def test_a_holder_killed_while_it_takes_over_and_appends_leaves_a_journal_that_goes_on(
    tmp_path: Path,
) -> None:
    def prepared(root: Path) -> None:
        with Shared(root).held() as store:
            put(store, {b"1": KEPT})

    def write(root: Path) -> None:
        with Shared(root).held() as store:
            put(store, {b"2": KEPT})

    def check(root: Path) -> None:
        with Shared(root).held() as store:
            put(store, {b"3": KEPT})
            with store.reading() as view:
                found = dict(view.scan(ROWS))
        assert {key: found[key] for key in found if key != b"2"} == {b"1": KEPT, b"3": KEPT}

    kills(tmp_path, prepared, write, check, least=5)


# ---- a store of its own --------------------------------------------------------------------------


@contextmanager
def own(root: Path, *, bootstrapped: bool = True) -> Generator[LmdbStore]:
    with closing(StateDirectory(root)) as directory:
        store = LmdbStore(directory.store, QUOTA, Digests(SECRET))
        store.open(bootstrapped=bootstrapped)
        try:
            yield store
        finally:
            store.shut()


def test_a_store_killed_while_it_is_compacted_has_all_and_no_purged_text(tmp_path: Path) -> None:
    canary = new_canary()

    def prepared(root: Path) -> None:
        with own(root, bootstrapped=False) as store:
            put(store, {b"1": canary.encode(), b"2": KEPT})
            begin_purge(store, b"1")
        assert traces(root, canary), "control: it is in a free page"

    def compact(root: Path) -> None:
        with own(root) as store:
            store.compact()

    def check(root: Path) -> None:
        compact(root)
        with own(root) as store, store.reading() as view:
            assert dict(view.scan(ROWS)) == {b"1": GONE, b"2": KEPT}
        assert traces(root, canary) == []
        assert not (root / "store" / "compacting").exists()

    kills(tmp_path, prepared, compact, check, least=3)


def test_a_store_killed_while_its_damaged_beginning_is_replaced_opens(tmp_path: Path) -> None:
    def prepared(root: Path) -> None:
        StateDirectory(root).close()
        (root / "store" / "data.mdb").write_bytes(b"not a page of LMDB" * 500)

    def begin(root: Path) -> None:
        with own(root, bootstrapped=False):
            pass

    def check(root: Path) -> None:
        with own(root, bootstrapped=False) as store:
            put(store, {b"1": KEPT})
            with store.reading() as view:
                assert dict(view.scan(ROWS)) == {b"1": KEPT}

    kills(tmp_path, prepared, begin, check, least=2)
