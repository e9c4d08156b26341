"""A state directory and a backup that another version wrote open here, with all that is in them.

Each archive in `before` is one life, written through the real command line by the version of that
format: memories of several principals, one quarantined and one purged, held candidates, one memory
of a server behind, a session, and a backup of all of it. `said.json` in it is what that version
answered at the end. What is in a store must not hang on where code lives.

Before a format of anything on disk changes, `life_of_now.py` writes the archive of the last one.
"""

from __future__ import annotations

import json
import tarfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from storage.tables.codec import STORE_FORMAT
from storage.tables.read_only import read_only
from tests.integration.cli_process import Place
from tests.integration.life_of_now import answers

if TYPE_CHECKING:
    from tests.integration.cli_process import Running

AS_BEFORE: dict[str, str | None] = {"channel": None, "vouched": None, "unjoined": "unknown"}
"""The ceiling of a label of format 3, by its basis; None: what it was judged to be."""
LIVES = sorted((Path(__file__).parent / "before").glob("*.tar.gz"))


@pytest.fixture(params=LIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    root = tmp_path / "life"
    with tarfile.open(request.param) as packed:
        packed.extractall(root, filter="data")
    (root / "state").chmod(0o700)
    return Place(root=root)


def said(place: Place) -> Any:  # noqa: ANN401 - what the version before answered
    """What it answered, and in format 3 the ceilings that its labels count as from here on."""
    before = json.loads((place.root / "said.json").read_text("utf-8"))
    for labelled in (*before["list"][1]["memories"], *before["review"]["held"]):
        labelled.pop("version", None)  # the store's own number; no tenant is told it from here on
        if "ceiling" not in labelled:
            labelled["ceiling"] = AS_BEFORE[labelled["basis"]] or labelled["source"]
    for held in before["review"]["held"]:
        held.setdefault("had_read", None)  # told where one is asked for by its id
    before["review"] = without_later(before["review"])
    return before


def without_later(answer: Any) -> Any:  # noqa: ANN401 - the answer as it came
    """What waits, without what a row of the list did not tell at first."""
    for row in answer["held"]:
        for later in ("origin", "begins", "same", "becomes", "fired"):
            row.pop(later, None)
        row["change"] = None
    return {"held": answer["held"]}


def waiting(place: Place) -> Any:  # noqa: ANN401 - the answer as it came
    return without_later(place.command("review", "list", "--json").data)


def listed(sidecar: Running, key: str) -> Any:  # noqa: ANN401 - the answer as it came
    asked = urllib.request.Request(  # noqa: S310 - a server of this test
        f"{sidecar.ready['data']}/v1/memories", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310 - the same
        return json.loads(answer.read())


def test_there_is_a_life_of_every_format_that_still_opens() -> None:
    names = {path.name for path in LIVES}
    assert names >= {f"format-{number}.tar.gz" for number in range(3, STORE_FORMAT + 1)}


def test_the_life_of_this_format_has_trust_names_under_alarm_and_incidents() -> None:
    path = LIVES[-1].with_name(f"format-{STORE_FORMAT}.tar.gz")
    with tarfile.open(path) as packed:
        file = packed.extractfile("said.json")
        assert file is not None
        told = json.load(file)["answers"]
    (trust,) = told["trust"]["principals"]
    assert [one["kind"] for one in trust["history"]] == [
        "denied_by_person",
        "quarantined_by_hand",
    ]
    alarms = {one["name"]: one["accepted"] for one in told["drift"]["alarms"]}
    assert alarms == {"zephyrpay": False, "quillbank": True}
    assert [one["stage"] for one in told["incidents"]["incidents"]] == ["undone", "done"]
    assert len(told["quarantined"]["memories"]) == 3


def of_before(now: Any, told: Any) -> Any:  # noqa: ANN401 - answers as they came
    """What is said now, without the members that an earlier version did not have."""
    if isinstance(told, dict):
        return {key: of_before(now[key], one) for key, one in told.items()}
    if isinstance(told, list) and len(now) == len(told):
        return [of_before(*pair) for pair in zip(now, told, strict=True)]
    return now


def test_a_state_directory_of_before_opens_and_says_what_it_said(place: Place) -> None:
    before = said(place)
    keys = before["keys"]
    assert place.command("audit", "verify", "--json").data == before["verify"]
    with place.running("--config", str(place.root / "mnemogate.toml")) as sidecar:
        assert listed(sidecar, keys["agent"]) == before["list"][1]
        assert waiting(place) == before["review"]
        if "answers" in before:
            now = answers(place)
            for name, told in before["answers"].items():
                assert of_before(now[name], told) == told
        begun = place.command("session", "list", "--json").data["sessions"]
        assert {one["session"] for one in begun} >= {*before.get("sessions", ())}
        spent, _ = sidecar.write(keys["agent"], text="Another text.", nonce="n-1")
        assert spent == 422, "a nonce of before is spent"
        admitted, _ = sidecar.write(keys["agent"], text="Something new.")
        assert admitted == 201
        held = before["review"]["held"][0]["candidate_id"]
        assert place.command("review", "release", held).code == 0
        shown = listed(sidecar, keys["agent"])["memories"]
        assert len(shown) == len(before["list"][1]["memories"]) + 2
        assert place.command("check", "--json").data["problems"] == []
    after = place.command("audit", "verify", "--json").data
    assert after["sound"]
    with read_only(place.state / "store") as view:
        header = view.header()
    assert header is not None
    assert header.format == STORE_FORMAT
    assert after["leaves"] > before["verify"]["leaves"]
    assert after["version"] == before["verify"]["version"] + 2


def test_a_backup_of_before_is_restored_with_what_was_held(place: Place, tmp_path: Path) -> None:
    before = said(place)
    (tmp_path / "new").mkdir()
    new = Place(root=tmp_path / "new")
    restored = new.command("restore", str(place.root / "backup"))
    assert restored.code == 0, restored.err
    with new.running() as sidecar:
        assert listed(sidecar, before["keys"]["agent"]) == before["list"][1]
        assert waiting(new) == before["review"]
        assert new.command("check", "--json").data["problems"] == []


def test_a_backup_of_before_with_one_byte_changed_is_refused(place: Place, tmp_path: Path) -> None:
    backup = place.root / "backup"
    stored = max(backup.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    raw = bytearray(stored.read_bytes())
    raw[len(raw) // 2] ^= 1
    stored.write_bytes(raw)
    (tmp_path / "new").mkdir()
    assert Place(root=tmp_path / "new").command("restore", str(backup)).code != 0
