"""A share of the states that a power cut may leave; the whole search is a command of its own."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.conftest import HEAVY
from tests.fault.crashstates.disk import (
    EVERYTHING,
    NOTHING,
    Choice,
    Create,
    Disk,
    Link,
    Operation,
    Sync,
    Truncate,
    Unlink,
    Write,
)
from tests.fault.crashstates.planting import BUGS
from tests.fault.crashstates.recording import missing
from tests.fault.crashstates.searching import recorded, search

STATES = 1_200 if HEAVY else 300
# Distinct ones: a boundary with little unsynced has no more to give, so of many asked some lack.
DISTINCT = 800 if HEAVY else 300
CONTROL_STATES = 60
WHY_NOT = missing() or (
    "a database has a disk of its own" if os.environ["STORE"] == "postgres" else ""
)
recordable = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "strace traces here")
EACH = Choice(contents=0.5, names=0.5)


@recordable
@pytest.mark.timeout(900)
def test_no_power_cut_loses_what_was_answered_or_shows_what_was_refused(tmp_path: Path) -> None:
    seed = random.randrange(1 << 20) if HEAVY else 1  # noqa: S311
    found = search(recorded(tmp_path), STATES, seed=seed)
    assert found.violations == [], f"seed {seed}"
    assert found.states >= DISTINCT


@recordable
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.replace(" ", "-")) for bug in BUGS])
def test_a_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    found = search(recorded(tmp_path, bug), CONTROL_STATES, seed=1)
    assert found.broken_states > 0, f"a store in which {bug} passed for sound"


# ---- the disk itself -----------------------------------------------------------------------------


def _after(*operations: Operation) -> Disk:
    disk = Disk("/r")
    for operation in operations:
        disk.apply(operation)
    return disk


def _files(disk: Disk, choice: Choice, torn: Operation | None = None) -> dict[str, bytes]:
    return disk.state(choice, random.Random(1), torn).files  # noqa: S311


def test_what_was_never_synced_may_be_gone_or_there() -> None:
    disk = _after(Create("/r/a"), Write("/r/a", 0, b"text"))
    assert _files(disk, NOTHING) == {}
    assert _files(disk, EVERYTHING) == {"/r/a": b"text"}


def test_a_synced_file_whose_directory_was_not_synced_may_be_gone() -> None:
    written = (Create("/r/a"), Write("/r/a", 0, b"text"), Sync("/r/a"))
    assert _files(_after(*written), NOTHING) == {}
    assert _files(_after(*written, Sync("/r")), NOTHING) == {"/r/a": b"text"}


def test_a_name_in_a_lost_directory_leads_nowhere() -> None:
    made = (Create("/r/d", directory=True), Create("/r/d/a"), Sync("/r/d"))
    assert _files(_after(*made), NOTHING) == {}
    assert _files(_after(*made, Sync("/r")), NOTHING) == {"/r/d/a": b""}


def test_a_rename_may_put_an_unsynced_file_in_place_of_a_synced_one() -> None:
    disk = _after(
        *(Create("/r/a"), Write("/r/a", 0, b"old"), Sync("/r/a"), Create("/r/b"), Sync("/r")),
        *(Write("/r/b", 0, b"new"), Link("/r/b", "/r/a")),
    )
    assert _files(disk, NOTHING) == {"/r/a": b"old", "/r/b": b""}
    assert _files(disk, Choice(contents=0.0, names=1.0)) == {"/r/a": b""}
    assert _files(disk, EVERYTHING) == {"/r/a": b"new"}


def test_sectors_survive_one_by_one_and_a_durable_write_is_there_at_once() -> None:
    made = (Create("/r/a"), Sync("/r"))
    seen = set[bytes]()
    disk = _after(*made, Write("/r/a", 0, b"x" * 1_024))
    rng = random.Random(1)  # noqa: S311
    for _ in range(64):
        seen.add(disk.state(EACH, rng).files["/r/a"])
    assert seen == {b"", b"x" * 512, bytes(512) + b"x" * 512, b"x" * 1_024}
    durable = _after(*made, Write("/r/a", 0, b"meta", durable=True))
    assert _files(durable, NOTHING) == {"/r/a": b"meta"}


def test_a_write_under_way_may_be_torn_and_an_unlink_undone() -> None:
    disk = _after(Create("/r/a"), Sync("/r"))
    rng = random.Random(1)  # noqa: S311
    under_way = Write("/r/a", 0, b"x" * 512)
    torn = {disk.state(NOTHING, rng, under_way).files["/r/a"] for _ in range(32)}
    assert torn == {b"", b"x" * 512}
    disk.apply(Unlink("/r/a"))
    assert set(_files(disk, NOTHING)) == {"/r/a"}
    assert _files(disk, EVERYTHING) == {}


def test_a_truncation_is_a_change_like_another() -> None:
    disk = _after(
        *(Create("/r/a"), Write("/r/a", 0, b"text"), Sync("/r/a"), Sync("/r")),
        Truncate("/r/a", 2),
    )
    assert _files(disk, NOTHING) == {"/r/a": b"text"}
    assert _files(disk, EVERYTHING) == {"/r/a": b"te"}
