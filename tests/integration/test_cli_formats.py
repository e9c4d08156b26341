"""Commands that open a store's files say of another format what to do, and change nothing."""

from __future__ import annotations

from pathlib import Path

import lmdb
import msgspec
import pytest

from storage.features.pinned_tools import PINS
from storage.tables.codec import STORE_FORMAT, encode
from storage.tables.lmdb_store import TABLES
from storage.tables.read_only import read_only
from storage.upkeep.backup import take
from tests.integration.cli_process import Place
from tests.unit.storage.opening import Bench, put_header, say

COMMANDS = {
    "run": ("run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
    "verify": ("audit", "verify"),
    "export": ("audit", "export"),
    "backup": ("backup", "{root}/taken"),
    "restore": ("restore", "{root}/backup", "--state", "{root}/new"),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A store with one memory, and a backup of it as it will be."""
    bench = Bench(tmp_path)
    store = bench.open()
    say(store, "the meeting is on Tuesday")
    store.close()
    return Place(root=tmp_path)


def _becomes(place: Place, number: int) -> None:
    """Store and backup get another format, the backup by a version that can take one of it."""
    bench = Bench(place.root)
    with read_only(place.state / "store") as view:
        header = view.header()
    assert header is not None
    put_header(bench, encode(msgspec.structs.replace(header, format=number)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("storage.upkeep.backup.refuse_unknown", id)
        take(place.state, place.root / "backup", bench.clock(), with_secrets=True)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [STORE_FORMAT - 1, STORE_FORMAT + 1])
def test_a_store_of_another_format_is_refused_with_what_to_do(
    place: Place, command: str, number: int
) -> None:
    words = [word.format(root=place.root) for word in COMMANDS[command]]
    _becomes(place, number)
    before = (place.state / "store" / "data.mdb").read_bytes()
    done = place.command(*words)
    assert done.code != 0
    assert f"the store has format {number}, and this version reads " in done.err
    assert "install the version that wrote it" in done.err
    assert "owner" not in done.err, "another user would be refused as well"
    assert "Traceback" not in done.err
    assert (place.state / "store" / "data.mdb").read_bytes() == before
    assert not (place.root / "new" / "store").exists()
    assert not (place.root / "taken").exists(), "nothing of a store is left by a refused backup"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "run"])
def test_a_store_of_this_format_is_refused_by_none(place: Place, command: str) -> None:
    words = [word.format(root=place.root) for word in COMMANDS[command]]
    _becomes(place, STORE_FORMAT)
    done = place.command(*words)
    assert (done.code, done.err) == (0, "")


def test_a_number_that_somebody_changed_hides_nothing_from_the_auditor(place: Place) -> None:
    _becomes(place, STORE_FORMAT + 1)
    place.checkpoint.unlink()
    done = place.command("audit", "verify", "--json")
    assert done.code == 1
    assert [problem["where"] for problem in done.data["problems"]] == ["header", "copy"]
    assert f"the store has format {STORE_FORMAT + 1}" in done.data["first_bad"]["what"]


def test_a_store_that_lacks_a_table_is_told_from_one_that_cannot_be_read(place: Place) -> None:
    env = lmdb.open(str(place.state / "store"), max_dbs=len(TABLES), map_size=1 << 28)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(PINS, txn=txn))
    env.close()
    done = place.command("audit", "verify")
    assert done.code != 0
    assert "another version wrote it, or its first start did not end" in done.err
