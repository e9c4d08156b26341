"""Damaged bytes: no wrong value is served, and whoever looks is told which one it is."""

from __future__ import annotations

import faulthandler
import os
import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from policy.model import MemoryId
from policy.query import EVERYTHING
from storage.ground.errors import StorageError, StoreCorrupt, StoreRolledBack
from storage.tables.codec import ordinal_key
from storage.tables.names import LEAVES
from tests.conftest import HEAVY
from tests.fault.crashing import OPTIONS
from tests.integration.cli_process import Place
from tests.shares import TODAY
from tests.unit.storage.opening import TENANT, Bench, say, vector_of

TRIALS = 60 if HEAVY else 30
# Other places are damaged each day by the full suite.
SEED = f" {TODAY}" if HEAVY else ""
MEMORIES = 40
PAGE = 4_096
SECRET_WORDS = {MemoryId(f"id-{number}"): f"fact {number} is true" for number in range(MEMORIES)}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a process that opened a damaged store."""

    refused: str = ""
    texts: dict[str, str | None] = {}
    unreadable: int = 0
    problems: tuple[str, ...] = ()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    store = bench.open(options=OPTIONS)
    for memory_id, text in SECRET_WORDS.items():
        say(store, text, memory_id=memory_id)
    store.close()
    return bench


def _looked_at(bench: Bench) -> tuple[Seen | None, int]:
    """The child's report and its end. LMDB may abort the child, and must not abort the test."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            faulthandler.disable()  # an abort is expected here, and no news
            os.write(writing, msgspec.msgpack.encode(_seen(bench)))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as inward:
        data = inward.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return (msgspec.msgpack.decode(data, type=Seen) if data else None), status


def _seen(bench: Bench) -> Seen:
    try:
        store = bench.open(options=OPTIONS)
    except StorageError as error:
        return Seen(refused=type(error).__name__)
    texts: dict[str, str | None] = {}
    unreadable = 0
    for memory_id in SECRET_WORDS:
        try:
            memory = store.reader.get(TENANT, memory_id)
        except StorageError:
            unreadable += 1
        else:
            texts[memory_id] = None if memory is None else memory.text
    try:
        problems = store.reader.check().problems
    except StorageError as error:
        problems = (str(error),)
    return Seen(texts=texts, unreadable=unreadable, problems=problems)


def _flip(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)


def _zero(data: bytearray, rng: random.Random) -> None:
    page = rng.randrange(len(data) // PAGE)
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)


def _swap(data: bytearray, rng: random.Random) -> None:
    one, other = (rng.randrange(2, len(data) // PAGE) * PAGE for _ in range(2))
    data[one : one + PAGE], data[other : other + PAGE] = (
        data[other : other + PAGE],
        data[one : one + PAGE],
    )


@pytest.mark.parametrize("damage", [_flip, _zero, _swap])
def test_no_wrong_value_is_ever_served_from_a_damaged_file(
    bench: Bench, damage: Callable[[bytearray, random.Random], None]
) -> None:
    rng = random.Random(damage.__name__ + SEED)  # noqa: S311
    path = bench.state / "store" / "data.mdb"
    whole = path.read_bytes()
    noticed = 0
    for trial in range(TRIALS):
        data = bytearray(whole)
        damage(data, rng)
        path.write_bytes(data)
        seen, status = _looked_at(bench)
        if seen is None:
            # Aborted, or stopped by a page that leads nowhere: in the child, and nowhere else.
            assert status in {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, 1}, (trial, status)
            noticed += 1
            continue
        wrong = {
            memory_id: text
            for memory_id, text in seen.texts.items()
            if text not in {None, SECRET_WORDS[MemoryId(memory_id)]}
        }
        assert wrong == {}, (SEED, trial)
        missing = [one for one, text in seen.texts.items() if text is None]
        told = bool(seen.refused or seen.problems)
        # Every memory that is not shown is named as damaged. A flip in a free page changes nothing.
        assert told or not (missing or seen.unreadable), (SEED, trial, missing)
        noticed += told
    assert noticed > 0
    path.write_bytes(whole)
    seen, _ = _looked_at(bench)
    assert seen is not None
    assert seen.problems == ()


def test_each_flipped_byte_of_a_value_is_found_by_check(bench: Bench) -> None:
    path = bench.state / "store" / "data.mdb"
    whole = path.read_bytes()
    value = b"fact 7 is true"
    # Pages that are free by now may have the value as well; which copy is last depends on them.
    copies = [found.start() for found in re.finditer(re.escape(value), whole)]
    for offset in range(0, len(value), 3):
        data = bytearray(whole)
        for at in copies:
            data[at + offset] ^= 0x20
        path.write_bytes(data)
        seen, _ = _looked_at(bench)
        assert seen is not None
        assert seen.refused == "StoreCorrupt" or any("digest" in one for one in seen.problems)


def _with_older_store(bench: Bench) -> None:
    """An older copy of the store, and of its journal if it has one, in place of the newest."""
    older = bench.state.with_name("older")
    places = [bench.state / name for name in ("store", "journal") if (bench.state / name).exists()]
    for place in places:
        shutil.copytree(place, older / place.name)
    store = bench.open(options=OPTIONS)
    say(store, "one more")
    store.close()
    for place in places:
        shutil.rmtree(place)
        (older / place.name).rename(place)


def test_an_older_copy_of_the_store_is_refused(bench: Bench) -> None:
    _with_older_store(bench)
    with pytest.raises(StoreRolledBack):
        bench.open(options=OPTIONS)


def test_without_the_copy_of_the_checkpoint_nobody_would_notice(bench: Bench) -> None:
    _with_older_store(bench)
    bench.checkpoint.unlink()
    store = bench.open(options=OPTIONS)
    assert store.reader.status().live_count == MEMORIES
    assert "checkpoint" in (store.reader.status().reason or "")
    store.close()


def _searched(bench: Bench) -> list[tuple[str, float]]:
    store = bench.open(options=OPTIONS)
    hits = store.reader.search(TENANT, vector_of("fact 3 is true"), EVERYTHING, 100, -1.0)
    assert store.reader.check().problems == ()
    store.close()
    return [(str(hit.memory.memory_id), round(hit.score, 6)) for hit in hits]


def _segments(bench: Bench) -> list[Path]:
    return sorted((bench.state / "segments").glob("*.seg"))


def _torn(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def _flipped(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    _flip(data, rng)
    path.write_bytes(data)


def _zeroed(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    at = rng.randrange(len(data) // 2)
    path.write_bytes(data[:at] + bytes(len(data) - at))


def _another(path: Path, rng: random.Random) -> None:
    others = [one for one in path.parent.glob("*.seg") if one != path]
    path.write_bytes(rng.choice(others).read_bytes())


def _gone(path: Path, rng: random.Random) -> None:
    del rng
    path.unlink()


@pytest.mark.parametrize("damage", [_torn, _flipped, _zeroed, _another, _gone])
def test_a_damaged_index_file_is_rebuilt_and_finds_the_same(
    bench: Bench, damage: Callable[[Path, random.Random], None]
) -> None:
    rng = random.Random(damage.__name__ + SEED)  # noqa: S311
    shutil.rmtree(bench.state / "segments")
    from_scratch = _searched(bench)
    assert len(from_scratch) == MEMORIES
    for _ in range(TRIALS // 10):
        damage(rng.choice(_segments(bench)), rng)
        assert _searched(bench) == from_scratch, SEED


def test_index_files_of_the_past_and_of_the_future_are_not_believed(bench: Bench) -> None:
    past = bench.state.with_name("past")
    shutil.copytree(bench.state / "segments", past)
    before = _searched(bench)
    store = bench.open(options=OPTIONS)
    say(store, "fact 3 is true, and said later")
    store.close()
    after = _searched(bench)
    future = bench.state.with_name("future")
    shutil.copytree(bench.state / "segments", future)

    shutil.rmtree(bench.state / "segments")
    shutil.copytree(past, bench.state / "segments")
    assert _searched(bench) == after
    assert after != before

    # A store from before, started as restored, beside index files that know more than it does.
    other = Bench(bench.state.parent / "other")
    store = other.open(options=OPTIONS)
    say(store, "fact 1 is true")
    store.close()
    shutil.rmtree(other.state / "segments")
    shutil.copytree(future, other.state / "segments")
    assert len(_searched(other)) == 1


def test_a_damaged_staging_of_held_candidates_stops_the_start(bench: Bench) -> None:
    path = bench.state / "staging" / "held" / "data.mdb"
    path.write_bytes(b"damage" * 2_000)
    with pytest.raises(StorageError, match="held") as refused:
        bench.open(options=OPTIONS)
    assert not isinstance(refused.value, StoreCorrupt)


def test_verify_refuses_a_file_that_was_cut_and_is_not_killed_by_it(place: Place) -> None:
    path = place.state / "store" / "data.mdb"
    whole = path.read_bytes()
    for pages in (4, len(whole) // PAGE // 2):
        path.write_bytes(whole[: pages * PAGE])
        for command in (("audit", "verify"), ("backup", str(place.root / "copy"))):
            refused = place.command(*command)
            assert refused.code in {1, 3, 4, 5}
            assert "was cut, and lacks pages" in refused.err
    path.write_bytes(whole)
    assert place.command("audit", "verify").code == 0, "control"


BITS = 12 if HEAVY else 4


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A store with a log, closed. Its directories are where the command looks for them."""
    store = Bench(tmp_path).open()
    for number in range(30):
        say(store, f"fact {number}", memory_id=f"id-{number}")
    store.close()
    return Place(root=tmp_path)


def test_a_flipped_leaf_is_named_by_its_place(place: Place) -> None:
    store = Bench(place.root).open()
    with store.lmdb.reading() as view:
        leaf = view.get(LEAVES, ordinal_key(7))
    store.close()
    assert leaf is not None
    path = place.state / "store" / "data.mdb"
    data = path.read_bytes()
    # Older copies of it may be in free pages: nobody reads those.
    path.write_bytes(data.replace(leaf, leaf[:-1] + bytes([leaf[-1] ^ 1])))
    verified = place.command("audit", "verify")
    assert verified.code != 0
    assert "Traceback" not in verified.err
    assert "leaves" in verified.out + verified.err


def test_no_damaged_page_makes_verify_lie_or_babble(place: Place) -> None:
    path = place.state / "store" / "data.mdb"
    whole = path.read_bytes()
    rng = random.Random(4)  # noqa: S311
    noticed = 0
    for _ in range(BITS):
        page = rng.randrange(len(whole) // PAGE) * PAGE
        path.write_bytes(whole[:page] + bytes(PAGE) + whole[page + PAGE :])
        verified = place.command("audit", "verify")
        assert "Traceback" not in verified.err
        # LMDB may abort; that is the end of this command, and of nothing else.
        noticed += verified.code != 0
        assert verified.code in {0, 1, 3, 4, 5, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}
    path.write_bytes(whole)
    assert noticed > 0
    assert place.command("audit", "verify").code == 0
