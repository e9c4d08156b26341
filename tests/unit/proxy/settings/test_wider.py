"""Rules and settings that let more in than the shipped ones are named, each by its key."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from policy.ruleset import parse_ruleset
from proxy.settings.load import load_settings
from proxy.settings.values import Raw
from proxy.settings.wider import wider_rules, wider_settings
from tests.integration.running import running

DEFAULT = resources.files("policy").joinpath("default.toml").read_text("utf-8")


def named(old: str, new: str) -> tuple[str, ...]:
    assert old in DEFAULT
    return wider_rules(parse_ruleset(DEFAULT.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('unknown         = { L1 = "refuse"', 'unknown = { L1 = "admit"', "matrix.unknown.L1"),
        ('unknown         = { L1 = "refuse"', 'unknown = { L1 = "hold"', "matrix.unknown.L1"),
        ('{ L1 = "token",  L2', '{ L1 = "admit",  L2', "matrix.user_input.L1"),
        ("L1 = 0.5", "L1 = 0.4", "trust.soft_score_min.L1"),
        ("text_bytes_max = 65536", "text_bytes_max = 65537", "budgets.text_bytes_max"),
        ("window_s = 60", "window_s = 59", "budgets.writes_per_window_max"),
        ("bad_weight = 5.0", "bad_weight = 4.0", "trust.scoring.bad_weight"),
        ("outrank_margin = 0.0", "outrank_margin = 0.1", "anchors.outrank_margin"),
        ('policy = "L1"', 'policy = "L4"', "classes.mem0.names.policy"),
        ('default = "L3"', 'default = "L4"', "classes.mem0.default"),
        ('"memory_class", ', "", "classes.mem0.metadata_keys"),
    ],
)
def test_each_rule_that_lets_more_in_is_named(old: str, new: str, key: str) -> None:
    assert named(old, new) == (f"ruleset: {key}",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# The default", "# The same"),
        ('user_input      = { L1 = "token"', 'user_input = { L1 = "refuse"'),
        ("L1 = 0.5", "L1 = 0.9"),
        ("window_s = 60", "window_s = 61"),
        ('episode = "L4"', 'episode = "L3"'),
        ("outrank_margin = 0.0", "outrank_margin = -0.1"),
    ],
)
def test_what_is_as_shipped_or_narrower_is_not(old: str, new: str) -> None:
    assert named(old, new) == ()


def told(tmp_path: Path, **given: Raw) -> list[str]:
    more: dict[str, Raw] = {"state": str(tmp_path / "state"), **given}
    found = load_settings(more, environment={"HOME": str(tmp_path)}, config=None)
    return [one.partition(":")[0] for one in wider_settings(found)]


def test_each_setting_that_lets_others_near_is_named(tmp_path: Path) -> None:
    assert told(tmp_path) == []
    assert told(tmp_path, allowed_origins="null, https://a.example") == ["allowed_origins"]
    assert told(tmp_path, allowed_origins="https://a.example") == []
    assert told(tmp_path, listen="0.0.0.0:0") == ["listen"]
    assert told(tmp_path, admin="[::]:0") == ["admin"]
    (tmp_path / "cert.pem").write_text("")
    (tmp_path / "key.pem").touch(0o600)
    files: dict[str, Raw] = {f"tls_{one}": str(tmp_path / f"{one}.pem") for one in ("cert", "key")}
    assert told(tmp_path, listen="0.0.0.0:0", **files) == [], "control"


async def test_a_start_says_in_its_log_and_readiness_what_is_wider(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        DEFAULT.replace('unknown         = { L1 = "refuse"', 'unknown = { L1 = "hold"')
    )
    wide: dict[str, Raw] = {"ruleset": str(rules), "allowed_origins": "null"}
    for flags, count in ((wide, 2), ({}, 0)):
        caplog.clear()
        base = tmp_path / str(count)
        base.mkdir()
        async with (
            running(base, flags=flags) as front,
            front.client.get(f"{front.admin_url}/readyz") as got,
        ):
            found = (await got.json()).get("wider", [])
        assert len(found) == count
        logged = [one for one in caplog.messages if one.startswith("wider than as shipped")]
        assert len(logged) == count
