"""The board of agmi: its cells are the harness's own, and no row is kept out by showing nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.boards.agmi.memory import ROWS, Cell, MemoryRow, measured
from tests.boards.agmi.table import FLOORED, HIDDEN, at_rest
from tests.boards.board import Board


def test_a_cell_names_the_worst_channel_and_a_row_its_controls() -> None:
    lost = Cell(
        attack="a",
        status="VULNERABLE",
        channels={"external": [True, False, None], "laundered": [True, True, False]},
    )
    hidden = Cell(attack="b", status="n/a", channels={"external": [None] * 3})
    kept = Cell(attack="c", status="safe", channels={"external": [False] * 3})
    assert [str(one) for one in (lost, hidden, kept)] == ["2/5", "no verdict", "kept out"]
    row = MemoryRow(cells=(lost, hidden, kept))
    assert (row.kept_out, row.controls) == (1, (8, 12))


def test_a_board_with_one_broken_promise_is_not_sound(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board()
    sound: list[bool] = []
    for what, value in (("right", 6), ("wrong", 5), ("right", 6)):
        board.holds(what, value, 6)
        sound.append(board.sound)
    assert sound == [True, False, False]
    assert "FAIL  wrong: 5 (wanted 6)" in capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_two_keys_and_the_floor_keep_all_six_attacks_out(tmp_path: Path) -> None:
    row = await measured(ROWS[FLOORED], tmp_path)
    assert (row.kept_out, row.controls) == (6, (80, 80))
    assert row.not_stored["person"] == 0


@pytest.mark.whole
@pytest.mark.timeout(1_800)
async def test_control_without_the_floor_it_is_lost_and_one_key_with_it_is_no_verdict(
    tmp_path: Path,
) -> None:
    for name, kept_out in (("two keys", 2), (HIDDEN, 0)):
        place = tmp_path / name.replace(", ", "-")
        place.mkdir()
        assert (await measured(ROWS[name], place)).kept_out == kept_out


@pytest.mark.whole
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("way", "status"), [("read", "safe"), ("off", "VULNERABLE")])
def test_nine_edits_at_rest_are_noticed_and_served_where_nothing_is_compared(
    way: str, status: str
) -> None:
    assert [one.status for one in at_rest(way)] == [status] * 9
