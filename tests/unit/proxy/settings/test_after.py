"""The `[after]` table: bounded, and refused by name where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.seams.cases import OnConviction
from proxy.settings.after import NO_REPLAY, AfterTable, ReplaySettings
from proxy.settings.load import load_settings
from proxy.settings.table import SettingsError
from storage.features.recalls import RecallOptions

UNKEYED = '[[model]]\nname = "m"\napi = "openai"\nurl = "https://a.example"\n'


def test_the_table_sets_what_is_kept_and_without_it_the_defaults_count(tmp_path: Path) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text("[after]\nkeep_days = 7\nrecalls_max = 0\nkeep_queries = true\n")
    environment = {"HOME": str(tmp_path)}
    found = load_settings({}, environment=environment, config=config, check_places=False)
    assert found.after.recalls == RecallOptions(keep_days=7, count_max=0, keep_queries=True)
    without = load_settings({}, environment=environment, check_places=False)
    assert without.after.recalls == AfterTable().recalls == RecallOptions()


def test_what_becomes_of_who_is_to_blame_is_set_in_one_word(tmp_path: Path) -> None:
    config = tmp_path / "mnemogate.toml"
    said_so = (("", False, True), ("quarantine", False, False), ("propose", True, True))
    for written, rules, judges in said_so:
        said = f'on_conviction = "{written}"\n' if written else ""
        config.write_text(f"[after]\nblast_max = 7\n{said}")
        found = load_settings(
            {}, environment={"HOME": str(tmp_path)}, config=config, check_places=False
        )
        assert found.after.acts == OnConviction(
            rules_propose=rules, judges_propose=judges, blast_max=7
        )
    assert AfterTable().acts == OnConviction(blast_max=100)


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
        '[after]\non_conviction = "delete"',
        "[after]\nblast_max = 0",
        "[after]\nblast_max = 201",
        "[after]\ncanary_seconds = -1",
        "[after]\nwebhook = 1",
        "[after.replay]",
        "[after.replay]\nmodels = []",
        '[after.replay]\nmodels = ["nobody"]',
        UNKEYED + '[after.replay]\nmodels = ["m"]',
        '[after.webhook]\nurl = "https://a.example/"\nsecret_file = "/nonexistent"',
        '[after.webhook]\nurl = "https://a.example/"\nsecret_file = "/x"\npage_url = "https://b/"',
    ],
)
def test_a_wrong_table_stops_the_start_and_is_named(tmp_path: Path, written: str) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text(written)
    with pytest.raises(SettingsError, match="after"):
        load_settings({}, environment={"HOME": str(tmp_path)}, config=config, check_places=False)


def test_a_model_is_asked_again_only_where_a_table_says_so(tmp_path: Path) -> None:
    config, secret = tmp_path / "mnemogate.toml", tmp_path / "provider"
    secret.write_text("Authorization: Bearer of-the-provider\n")
    secret.chmod(0o600)
    table = f'{UNKEYED}headers_file = "{secret}"\n'
    environment = {"HOME": str(tmp_path)}
    for beside, expected in (
        ("", NO_REPLAY),
        (
            '[after.replay]\nmodels = ["m"]\nasks_max = 7\ntokens_max = 9\n',
            ReplaySettings(models=frozenset({"m"}), asks_max=7, day_asks_max=500, tokens_max=9),
        ),
    ):
        config.write_text(table + beside)
        found = load_settings({}, environment=environment, config=config, check_places=False)
        assert found.after.replay == expected
