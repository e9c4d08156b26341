"""Stores of another version: upgraded where steps lead to this one, otherwise refused."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

import lmdb
import msgspec
import pytest

from storage.audit import OperatorLeaf, decode_leaf
from storage.errors import StoreUnavailable
from storage.tables.codec import STORE_FORMAT, encode, ordinal_key
from storage.tables.lmdb_store import KEPT_BEFORE, LEAVES, META
from storage.tables.read_only import read_only
from tests.unit.storage.opening import Bench, say

if TYPE_CHECKING:
    from storage.tables.codec import StoreHeader
from storage.errors import UnknownFormat
from storage.tables.formats import STEPS
from tests.unit.storage.opening import put_header

if TYPE_CHECKING:
    from storage.tables.codec import StoreHeader
    from storage.tables.formats import Step
    from storage.tables.lmdb_store import Draft

OLDER = STORE_FORMAT - 2
OLDEST = min(STEPS, default=STORE_FORMAT)
_FIELDS_BEFORE_THE_FORMAT = 12


def _filled(bench: Bench) -> StoreHeader:
    store = bench.open()
    for number in range(3):
        say(store, f"fact {number}")
    store.close()
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    return header


def _as_format(bench: Bench, number: int) -> StoreHeader:
    """A store of another format, whose header is all that another version would have changed."""
    header = msgspec.structs.replace(_filled(bench), format=number)
    put_header(bench, encode(header))
    return header


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A made-up step from each of the two formats before this one; the steps that were taken."""
    taken: list[int] = []

    def step_from(number: int) -> Step:
        def step(draft: Draft) -> None:
            header = draft.header()
            assert header is not None
            assert header.format == OLDER, "the header changes when every step was taken"
            draft.put(META, b"step %d" % number, b"taken")
            taken.append(number)

        return step

    for number in (OLDER, OLDER + 1):
        monkeypatch.setitem(STEPS, number, step_from(number))
    return taken


def _last_leaf(bench: Bench, index: int) -> OperatorLeaf:
    with read_only(bench.state / "store") as view:
        leaf = decode_leaf(view.get(LEAVES, ordinal_key(index)) or b"")
    assert isinstance(leaf, OperatorLeaf)
    return leaf


def test_a_new_store_says_the_format_of_this_version(bench: Bench) -> None:
    assert _filled(bench).format == STORE_FORMAT
    assert list(bench.state.glob(f"{KEPT_BEFORE}*")) == []


def test_an_older_store_is_upgraded_with_a_leaf_and_a_copy_of_what_it_was(
    bench: Bench, taken: list[int]
) -> None:
    before = _as_format(bench, OLDER)
    store = bench.open()
    status = store.reader.status()
    assert (status.version, status.live_count) == (3, 3)
    assert status.leaf_count == before.leaf_count + 1
    assert store.reader.check().problems == ()
    store.close()
    assert taken == [OLDER, OLDER + 1]
    leaf = _last_leaf(bench, before.leaf_count)
    assert (leaf.action, leaf.detail) == ("store.upgrade", f"format {OLDER} to {STORE_FORMAT}")
    with read_only(bench.state / "store") as view:
        header = view.header()
        made = [view.get(META, b"step %d" % number) for number in taken]
    assert header is not None
    assert header.format == STORE_FORMAT
    assert made == [b"taken", b"taken"]
    with read_only(bench.state / f"{KEPT_BEFORE}{STORE_FORMAT}") as view:
        kept = view.header()
        assert not view.has(META, b"step %d" % OLDER)
    assert kept is not None
    assert (kept.format, kept.leaf_count) == (OLDER, before.leaf_count)


def test_an_upgrade_happens_once(bench: Bench, taken: list[int]) -> None:
    before = _as_format(bench, OLDER)
    for _ in range(3):
        bench.open().close()
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    assert header.leaf_count == before.leaf_count + 1
    assert taken == [OLDER, OLDER + 1]


def test_a_step_that_fails_leaves_the_store_as_it_was(
    bench: Bench, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _as_format(bench, OLDER)

    def fails(draft: object) -> None:
        del draft
        raise lmdb.MapFullError("full")

    with monkeypatch.context() as patched:
        patched.setitem(STEPS, OLDER + 1, fails)
        with pytest.raises(StoreUnavailable, match="upgraded"):
            bench.open()
    assert taken == [OLDER], "control: the step before it was taken"
    with read_only(bench.state / "store") as view:
        header = view.header()
        assert not view.has(META, b"step %d" % OLDER)
    assert header is not None
    assert (header.format, header.leaf_count) == (OLDER, before.leaf_count)
    bench.open().close()  # control: with the real step it works


def test_a_newer_store_is_refused_before_anything_of_it_is_read(bench: Bench) -> None:
    header = _filled(bench)
    newer = msgspec.structs.replace(header, format=STORE_FORMAT + 1)
    # A later version may have appended fields that this one has never heard of.
    put_header(bench, encode([*msgspec.to_builtins(newer), "a field of tomorrow"]))
    _refused(bench, f"format {STORE_FORMAT + 1}, and this version knows up to {STORE_FORMAT}")


def test_an_older_store_that_no_step_leads_on_from_is_refused_as_it_is(bench: Bench) -> None:
    _as_format(bench, OLDEST - 1)
    _refused(bench, f"format {OLDEST - 1}, and this version knows none before {OLDEST}")


@pytest.mark.parametrize(("missing", "oldest"), [(OLDER, OLDER + 1), (OLDER + 1, STORE_FORMAT)])
def test_a_store_is_refused_before_the_first_step_where_one_of_them_is_missing(
    bench: Bench, taken: list[int], monkeypatch: pytest.MonkeyPatch, missing: int, oldest: int
) -> None:
    _as_format(bench, OLDER)
    with monkeypatch.context() as patched:
        patched.delitem(STEPS, missing)
        _refused(bench, f"format {OLDER}, and this version knows none before {oldest}")
    assert taken == []
    bench.open().close()  # control: with every step it works


def test_a_header_that_ends_before_its_format_is_refused_as_the_oldest(bench: Bench) -> None:
    fields = list(msgspec.to_builtins(_filled(bench)))[:_FIELDS_BEFORE_THE_FORMAT]
    put_header(bench, msgspec.msgpack.encode(fields))
    _refused(bench, f"format 0, and this version knows none before {OLDEST}")


def _refused(bench: Bench, words: str) -> None:
    data = (bench.state / "store" / "data.mdb").read_bytes()
    with pytest.raises(UnknownFormat, match=words):
        bench.open()
    assert (bench.state / "store" / "data.mdb").read_bytes() == data
    assert list(bench.state.glob(f"{KEPT_BEFORE}*")) == []


def test_what_was_kept_before_an_upgrade_does_not_survive_an_erasure(
    bench: Bench, taken: list[int]
) -> None:
    _as_format(bench, OLDER)
    store = bench.open()
    kept = bench.state / f"{KEPT_BEFORE}{STORE_FORMAT}" / "data.mdb"
    assert b"fact 1" in kept.read_bytes(), "control: the copy has the text"
    store._engine.erase()
    assert not kept.exists()
    store.close()
