"""The `[after]` table: bounded, and refused by name where it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.settings.after import MEANINGS, AfterTable, after_write
from proxy.settings.load import SettingsError, load_settings
from storage.recalls import RecallOptions

if TYPE_CHECKING:
    from pathlib import Path


def test_the_table_sets_what_is_kept_and_without_it_the_defaults_count(tmp_path: Path) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text("[after]\nkeep_days = 7\nrecalls_max = 0\nkeep_queries = true\n")
    environment = {"HOME": str(tmp_path)}
    found = load_settings({}, environment=environment, config=config, check_places=False)
    assert found.recalls == RecallOptions(keep_days=7, count_max=0, keep_queries=True)
    without = load_settings({}, environment=environment, check_places=False)
    assert without.recalls == after_write([]) == RecallOptions()


@pytest.mark.parametrize(
    "written",
    [
        "after = 1",
        "[[after]]",
        "[after]\nkeep_days = 0",
        "[after]\nkeep_days = 1e9",
        "[after]\nrecalls_max = -1",
        'after = { keep_queries = "yes" }',
        "[after]\nkeep_hours = 3",
    ],
)
def test_a_wrong_table_stops_the_start_and_is_named(tmp_path: Path, written: str) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text(written)
    with pytest.raises(SettingsError, match="after"):
        load_settings({}, environment={"HOME": str(tmp_path)}, config=config, check_places=False)


def test_every_key_has_its_meaning() -> None:
    assert tuple(MEANINGS) == AfterTable.__struct_fields__
