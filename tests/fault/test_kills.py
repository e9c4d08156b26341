"""kill -9 under load: nothing answered is lost, nothing is there that nobody sent, or in part."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from storage.journal.protocol import Stream
from storage.journal.sealing import Write
from storage.shipped import _parts
from storage.tables.lmdb_store import View
from storage.tables.names import ROWS
from tests.conftest import HEAVY
from tests.fault.kills.holder_process import kill_holders, kill_standbys, wake_holders
from tests.fault.kills.ledger import Counts, Ledger, Told
from tests.fault.kills.sidecar_process import kill_sidecars
from tests.fault.kills.storage_process import kill_forked
from tests.files_journal import FilesJournal

ADMITTED = Told("admit", 1)


def _nothing(counts: Counts) -> None:
    del counts


@pytest.mark.timeout(600)
def test_a_killed_store_kept_every_answer_and_nothing_else(tmp_path: Path) -> None:
    counts = kill_forked(tmp_path, 40 if HEAVY else 20, 1, _nothing)
    assert counts.broken == []
    # The kills hit something: answers were given, and requests were under way.
    assert counts.answered > counts.kills
    assert counts.in_flight > counts.kills


@pytest.mark.timeout(600)
def test_a_killed_sidecar_kept_every_answer_and_nothing_else(tmp_path: Path) -> None:
    counts = kill_sidecars(tmp_path, 4 if HEAVY else 1, 1, _nothing)
    assert counts.broken == []
    assert counts.answered > 0
    assert counts.in_flight > 0


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_next_holder_of_a_killed_one_has_every_answer_in_an_empty_directory(
    tmp_path: Path,
) -> None:
    counts = kill_holders(tmp_path, 20, 1, _nothing)
    assert counts.broken == []
    assert counts.answered > counts.kills
    assert counts.in_flight > 0


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_a_standby_has_every_answer_of_a_holder_that_died_while_its_journal_began_anew(
    tmp_path: Path,
) -> None:
    counts = kill_standbys(tmp_path, 20, 1, _nothing)
    assert counts.broken == []
    assert counts.answered > counts.kills
    assert counts.in_flight > 0
    assert (
        FilesJournal(
            tmp_path / "store-0" / "journal", address="", store_format=1, lease_s=1.0
        ).begins(Stream.STORE)
        > 20
    )


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_control_a_beginning_without_rows_loses_answers(tmp_path: Path) -> None:
    def parts(view: View) -> Iterator[list[Write]]:
        for part in _parts(view):
            yield [one for one in part if one.table != ROWS]

    with patch("storage.shipped._parts", parts):
        counts = kill_standbys(tmp_path, 3, 1, _nothing)
    assert counts.broken != []


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_a_holder_that_slept_through_a_takeover_appends_nothing_and_answers_nothing(
    tmp_path: Path,
) -> None:
    woken = wake_holders(tmp_path, 3)
    assert woken.counts.broken == []
    assert (woken.read, woken.appended) == (0, 0)
    assert woken.refused >= 3 * woken.wakes


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_control_without_epoch_and_deadline_a_woken_holder_appends_and_answers(
    tmp_path: Path,
) -> None:
    with (
        patch.object(FilesJournal, "_fenced", return_value=True),
        patch.object(FilesJournal, "holds", return_value=True),
    ):
        # A write of the follower may have come before it was stopped.
        tries = [wake_holders(tmp_path / f"{n}", 1, follower_writes=False) for n in range(3)]
    assert sum(one.appended for one in tries) > 0
    assert sum(one.read for one in tries) > 0


def _ledger() -> Ledger:
    ledger = Ledger(Counts())
    for nonce in ("one", "two"):
        ledger.sent(nonce, nonce)
    ledger.answered("one", ADMITTED)
    return ledger


@pytest.mark.parametrize(
    ("texts", "version", "broken"),
    [
        ({"one"}, 1, (0, 0, 0)),
        ({"one", "two"}, 2, (0, 0, 0)),
        (set[str](), 0, (1, 0, 0)),
        ({"one", "three"}, 2, (0, 1, 0)),
        ({"one", "two"}, 1, (0, 0, 1)),
    ],
)
def test_the_ledger_tells_lost_ghosts_and_partial_commits_apart(
    texts: set[str], version: int, broken: tuple[int, int, int]
) -> None:
    ledger = _ledger()
    ledger.found(texts, version, ())
    counts = ledger.counts
    assert (len(counts.lost), len(counts.ghosts), len(counts.partial)) == broken


def test_the_ledger_notices_another_answer_to_the_same_nonce() -> None:
    ledger = _ledger()
    ledger.asked_again("one", ADMITTED, replayed=True)
    assert ledger.counts.broken == []
    ledger.asked_again("one", ADMITTED, replayed=False)
    ledger.asked_again("one", Told("reject", 1), replayed=True)
    assert len(ledger.counts.lost) == 2
