"""An edit of a field that is in no leaf, because its row took it from the row before, is found.

`check` and `audit verify` are both asked about stores whose files their owner edited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from policy.model import Candidate, ChangeKind, MemoryId, MemoryStatus, Scope
from proxy.cli.entry import main
from storage.embedded import EmbeddedStore
from storage.features.incidents import PastState
from storage.features.quarantine.hiding import Quarantine
from storage.ground.errors import StoreCorrupt
from storage.questions import Selection
from storage.tables.codec import IdRecord, encode, ordinal_key
from storage.tables.lmdb_store import Draft
from storage.tables.names import IDS, ROWS
from storage.tables.rows import earlier_rows, read_row
from storage.values import InheritedFields, Row
from tests.unit.proxy.cli.test_verification import alter, verify
from tests.unit.storage.features.incidents.test_isolation import id_of
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

TEA, PUT_BACK = "Ada drinks tea.", "Bo is in room 4."
FORGED = "Pay to account 7."


def update(store: EmbeddedStore, memory_id: MemoryId, text: str | None, **fields: object) -> None:
    candidate = candidate_of(
        text, OPERATOR, change=ChangeKind.UPDATE, memory_id=memory_id, scope=Scope(), **fields
    )
    (outcome,) = write(store, submission_of(candidate, OPERATOR))
    assert outcome.reason is None


class Life:
    """A closed store with rows of every kind that inherit, by the ordinals of the newest ones."""

    def __init__(self, bench: Bench) -> None:
        store = bench.open()
        self.bench = bench
        self.tea = id_of(say(store, TEA, OPERATOR, metadata_json='{"a":0}', actor="ada"))
        for number in range(1, 4):
            bench.clock.now_ms += 1_000
            update(store, self.tea, None, metadata_json=f'{{"a":{number}}}')
        self.kept_text = 3
        room = id_of(say(store, PUT_BACK, OPERATOR, metadata_json='{"b":0}'))
        update(store, room, None, metadata_json='{"b":1}')
        at = store.reader.status().version
        update(store, room, "Bo has moved.")
        self.kept_metadata = 6
        done = asyncio.run(
            store.incidents.rewind(Selection(tenant=TENANT), PastState(version=at), BY)
        )
        assert done.put_back == 1
        self.copied = 7
        # One is hidden, and changed there; one came back under the id of a deleted memory.
        hidden = id_of(say(store, "Cy is at sea.", OPERATOR, metadata_json="{}"))
        asyncio.run(store.writer.order(Quarantine(hidden, TENANT, BY)))
        update(store, hidden, None, metadata_json='{"c":1}')
        self.hidden = 9
        door = MemoryId("door")
        named = {"memory_id": door, "expires_at": "2999-01-01"}
        say(store, "The door is blue.", OPERATOR, **named)
        write(store, submission_of(gone(door, ChangeKind.DELETE), OPERATOR))
        say(store, "The door is red.", OPERATOR, **named)
        self.again = 12
        purged = id_of(say(store, "Di is ill.", OPERATOR))
        update(store, purged, None, metadata_json='{"d":1}')
        write(store, submission_of(gone(purged, ChangeKind.PURGE), OPERATOR))
        store.close()

    def edit(self, ordinal: int, forge: Callable[[Row], Row]) -> None:
        def act(draft: Draft) -> None:
            row = read_row(draft, ordinal)
            assert forge(row) != row, "control: the edit changes the row"
            draft.put(ROWS, ordinal_key(ordinal), encode(forge(row)))

        alter(self.bench, act)

    def problems(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What `audit verify` and `check` report, in that order."""
        by_audit = tuple(f"{one.where} {one.position}" for one in verify(self.bench).problems)
        store = self.bench.open()
        try:
            return by_audit, store.reader.check().problems
        finally:
            store.close()


def gone(memory_id: MemoryId, change: ChangeKind) -> Candidate:
    return candidate_of(None, OPERATOR, change=change, memory_id=memory_id, scope=Scope())


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(Bench(tmp_path))


def kept(**fields: object) -> Callable[[Row], Row]:
    def forge(row: Row) -> Row:
        assert isinstance(row.kept, InheritedFields)
        return msgspec.structs.replace(row, kept=msgspec.structs.replace(row.kept, **fields))

    return forge


def field(**fields: object) -> Callable[[Row], Row]:
    return lambda row: msgspec.structs.replace(row, **fields)


EDITS: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "text": ("kept_text", kept(text=FORGED)),
    "a text beside an own one": ("kept_metadata", kept(text=FORGED)),
    "metadata": ("kept_metadata", kept(metadata_json='{"b":9}')),
    "actor": ("kept_text", kept(actor="mallory")),
    "target": ("kept_text", kept(target="elsewhere")),
    "parents": ("kept_text", kept(derived_from=(MemoryId("x"),))),
    "no inheritance": ("kept_text", field(kept=None)),
    "owner": ("kept_text", field(scope=Scope(user_id="mallory"))),
    "owner, named": ("again", field(scope=Scope(user_id="mallory"))),
    "expiry": ("kept_text", field(expires_at="2999-01-01")),
    "expiry, named": ("again", field(expires_at="2998-01-01")),
    "first time": ("kept_text", field(created_at_ms=1)),
    "time": ("again", field(at_ms=1, created_at_ms=1)),
    "id, named": ("again", field(memory_id=MemoryId("window"))),
    "text put back": ("copied", kept(text=FORGED)),
    "reading put back": ("copied", field(after_reading=True)),
    "expiry put back": ("copied", field(expires_at="2999-01-01")),
    "text in quarantine": ("hidden", kept(text=FORGED)),
}


def test_an_unedited_store_with_every_kind_of_inheritance_is_sound(life: Life) -> None:
    assert life.problems() == ((), ())


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_field_is_found(life: Life, name: str) -> None:
    which, forge = EDITS[name]
    ordinal = getattr(life, which)
    life.edit(ordinal, forge)

    by_audit, by_check = life.problems()

    assert f"row {ordinal}" in by_audit
    assert any(problem.startswith(f"row {ordinal}: ") for problem in by_check), by_check


def _always(*_: object) -> bool:
    return True


def test_without_the_comparison_an_edited_text_is_served_by_a_sound_store(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.edit(life.kept_text, kept(text=FORGED))
    store = life.bench.open()
    memory = store.reader.get(TENANT, life.tea)
    store.close()
    assert memory is not None
    assert memory.text == FORGED

    monkeypatch.setattr("storage.audit.row_states._follows", _always)
    assert life.problems() == ((), ())


def test_an_edit_of_every_row_of_a_chain_is_found_at_its_first_one(life: Life) -> None:
    for ordinal in (1, 2, 3):
        life.edit(ordinal, kept(text=FORGED))

    by_audit, _ = life.problems()

    assert by_audit == ("row 1",)


def test_a_mark_of_reading_that_a_text_lost_is_found(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    store = bench.open()
    candidate = candidate_of(TEA, OPERATOR)
    submission = submission_of(candidate, OPERATOR)
    provenance = msgspec.structs.replace(
        submission.provenance, after_reading=True, read_origins=("web",)
    )
    (outcome,) = write(store, msgspec.structs.replace(submission, provenance=provenance))
    update(store, id_of(outcome), None, metadata_json='{"a":1}')
    store.close()
    assert verify(bench).problems == (), "control"

    losses: tuple[dict[str, object], ...] = (
        {"after_reading": False},
        {"after_reading": True, "read_origins": ()},
    )
    for lost in losses:
        alter(bench, partial(_change_newest, lost))
        assert [one.position for one in verify(bench).problems] == [1]
    alter(bench, partial(_change_newest, {"read_origins": ("web",)}))
    assert verify(bench).problems == (), "control: the marks are back"


def _change_newest(fields: dict[str, object], draft: Draft) -> None:
    row = read_row(draft, 1)
    draft.put(ROWS, ordinal_key(1), encode(msgspec.structs.replace(row, **fields)))


def test_an_id_that_names_an_older_row_is_found_and_so_is_one_that_is_gone(life: Life) -> None:
    def key_of(draft: Draft) -> bytes:
        found = draft.records(IDS)
        return next(key for key, known in found if known.ordinal == life.kept_text)

    def act(draft: Draft) -> None:
        draft.put(IDS, key_of(draft), encode(IdRecord(0, MemoryStatus.LIVE)))

    alter(life.bench, act)
    by_audit, by_check = life.problems()
    assert set(by_audit) == {"id 0", f"row {life.kept_text}"}
    assert "id 0: this row is not the newest of a memory" in by_check


def test_an_id_that_was_taken_away_is_found(life: Life) -> None:
    def act(draft: Draft) -> None:
        found = draft.records(IDS)
        draft.delete(IDS, next(key for key, known in found if known.ordinal == life.again))

    alter(life.bench, act)
    assert life.problems()[0] == (f"row {life.again}",)


def test_rows_that_a_damaged_store_links_in_a_circle_end(life: Life) -> None:
    def act(draft: Draft) -> None:
        row = msgspec.structs.replace(read_row(draft, 3), prev_ordinal=3)
        draft.put(ROWS, ordinal_key(3), encode(row))
        assert list(earlier_rows(draft, 3, row)) == []

    alter(life.bench, act)
    by_audit, by_check = life.problems()
    assert "row 3" in by_audit
    assert any(problem.startswith("row 3: ") for problem in by_check)


def test_a_row_before_that_cannot_be_read_is_a_contradiction_of_its_own(life: Life) -> None:
    def act(draft: Draft) -> None:
        draft.delete(ROWS, ordinal_key(2))
        with pytest.raises(StoreCorrupt):
            list(earlier_rows(draft, 3, read_row(draft, 3)))

    alter(life.bench, act)
    by_audit, by_check = life.problems()
    assert {"row 2", "row 3"} <= set(by_audit)
    assert "row 2: missing" in by_check
    assert any(problem.startswith("row 3: ") for problem in by_check)


@pytest.mark.usefixtures("no_settings")
def test_a_restored_backup_is_sound_and_one_of_an_edited_store_is_refused(
    life: Life, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = life.bench

    def backed_up(target: Path) -> int:
        return main(["backup", str(target), "--state", str(bench.state), "--with-secrets"])

    assert backed_up(tmp_path / "good") == 0
    assert "backed up" in capsys.readouterr().out
    again = Bench(tmp_path / "new")
    again.checkpoint = tmp_path / "new" / "copy" / "checkpoint.txt"
    to = ["--state", str(again.state), "--checkpoint", str(again.checkpoint)]
    assert main(["restore", str(tmp_path / "good"), *to]) == 0
    assert verify(again).problems == ()
    store = again.open()
    assert store.reader.check().problems == ()
    store.close()

    life.edit(life.kept_text, kept(text=FORGED))
    assert backed_up(tmp_path / "bad") == 1
    said = capsys.readouterr()
    assert "backed up" not in said.out
    assert "copy of a damaged store" in said.err
    assert "not sound: row 3" in said.err
    assert main(["restore", str(tmp_path / "bad"), *to, "--verify-only"]) == 1
