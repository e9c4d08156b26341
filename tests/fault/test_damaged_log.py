"""Damage of the log: `audit verify` calls no damaged leaf sound, and says so in a sentence."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import LEAVES
from tests.conftest import HEAVY
from tests.integration.cli_process import Place
from tests.unit.storage.opening import Bench, say

PAGE = 4_096
TRIALS = 40 if HEAVY else 4


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
    for _ in range(TRIALS):
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
