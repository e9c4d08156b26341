"""What is dealt to other days: each part has its day, and `make shares` runs all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from tests import shares
from tests.shares import deal, todays

ROOT = Path(__file__).resolve().parents[2]


class Item:
    """A collected test with a share, as far as dealing looks at it."""

    def __init__(self, nodeid: str, **share: int) -> None:
        self.nodeid = nodeid
        self._share = pytest.mark.share(**share).mark if share else None
        self.skipped = False

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._share if name == "share" else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        assert marker.name == "skip"
        self.skipped = True


def _run_on(day: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(shares, "TODAY", day)
    items = [
        *(Item(f"tests/a.py::test_dealt[{case}]", of=3) for case in range(7)),
        Item("tests/b.py::test_of_one_day", of=3, turn=2),
        Item("tests/b.py::test_of_every_day"),
    ]
    deal(cast("list[pytest.Item]", items))
    return [item.nodeid.partition("_")[2] for item in items if not item.skipped]


def test_each_part_runs_on_one_day_of_its_period_and_the_rest_every_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _run_on(30, monkeypatch) == ["dealt[0]", "dealt[3]", "dealt[6]", "of_every_day"]
    assert todays(range(7), 3) == (0, 3, 6), "what a test asks for itself is the same"
    assert _run_on(31, monkeypatch) == ["dealt[1]", "dealt[4]", "of_every_day"]
    assert _run_on(32, monkeypatch) == ["dealt[2]", "dealt[5]", "of_one_day", "of_every_day"]
    assert _run_on(33, monkeypatch) == _run_on(30, monkeypatch)


def test_no_share_is_without_a_day_and_soak_and_a_release_run_them_all() -> None:
    make = (ROOT / "Makefile").read_text("utf-8")
    assert "\tMNEMOGATE_HEAVY=1 MNEMOGATE_WHOLE=1 $(PYTEST) -m share\n" in make
    assert make.count("$(MAKE) shares\n") == make.count("lint test-full shares\n") == 1
    dealt = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        for of, turn in re.findall(r"mark\.share\(of=(\w+)(?:, turn=(\d+))?\)", path.read_text()):
            assert not turn or int(turn) < int(of) <= 7, path
            dealt += 1
    assert dealt > 10, "control: they are found"


@pytest.mark.parametrize("folder", ["fault", "property", "unit/storage"])
def test_what_shows_a_promise_runs_every_day(folder: str) -> None:
    for path in (ROOT / "tests" / folder).rglob("test_*.py"):
        assert "mark.share(" not in path.read_text("utf-8"), path
