"""Ten harmless payloads for one vendor with an unmodified `mem0ai` client and an agent's key."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from proxy.evaluate.adding_up import QUESTION, VENDOR
from tests.integration.clients.process import drive_client
from tests.integration.mem0_environment import mem0_python
from tests.integration.running import AGENT_KEY, running
from tests.integration.test_trust_sleeper import operated

if TYPE_CHECKING:
    from tests.integration.running import Running

DRIVE: Final = Path(__file__).parent / "clients" / "mem0_vendor_drive.py"
GOOD: Final = 10
CAP: Final = 3
NAME: Final = "zephyrpay"


def rules(base: Path, names: str, shown_of_ten: int = CAP) -> dict[str, str]:
    """The shipped rules but for what an alarm of a name does."""
    text = resources.files("policy").joinpath("default.toml").read_text("utf-8")
    text = text.replace('names = "alarm"', f'names = "{names}"')
    text = text.replace("shown_of_ten = 3", f"shown_of_ten = {shown_of_ten}")
    (base / "rules.toml").write_text(text, "utf-8")
    return {"ruleset": str(base / "rules.toml")}


async def driven(live: Running, home: Path, good: int, *texts: str) -> dict[str, Any]:
    said = (live.url, AGENT_KEY, str(good), QUESTION, *texts)
    return await drive_client(mem0_python(), "-W", "ignore", DRIVE, *said, home=home)


def of_vendor(seen: dict[str, Any]) -> int:
    return sum(one in VENDOR for one in seen["shown"])


@pytest.mark.heavy
@pytest.mark.timeout(300)
async def test_where_a_name_holds_three_of_ten_are_admitted(tmp_path: Path) -> None:
    async with running(tmp_path, flags=rules(tmp_path, "hold")) as live:
        seen = await driven(live, tmp_path / "home", GOOD, *VENDOR)
        assert seen["texts"] == ["SUCCEEDED"] * CAP + ["PENDING"] * (len(VENDOR) - CAP)
        held = (await operated(live, "GET", "/review"))["held"]
        assert {one["reason"] for one in held} == {"drift_alarm"}
        assert len(held) == len(VENDOR) - CAP
        assert of_vendor(seen) == CAP


@pytest.mark.heavy
@pytest.mark.timeout(300)
async def test_as_shipped_all_ten_land_under_an_alarm_and_a_search_shows_three(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as live:
        home = tmp_path / "home"
        first = await driven(live, home, GOOD, *VENDOR[: CAP - 1])
        assert (await operated(live, "GET", "/drift"))["alarms"] == []
        third = await driven(live, home, 0, VENDOR[CAP - 1])
        (alarm,) = (await operated(live, "GET", "/drift"))["alarms"]
        assert (alarm["name"], alarm["count"], alarm["accepted"]) == (NAME, CAP, False)
        rest = await driven(live, home, 0, *VENDOR[CAP:])
        landed = [*first["texts"], *third["texts"], *rest["texts"]]
        assert landed == ["SUCCEEDED"] * len(VENDOR)
        assert of_vendor(rest) == CAP
        assert len(rest["shown"]) == 10


@pytest.mark.heavy
@pytest.mark.timeout(300)
async def test_control_with_the_walls_down_ten_land_and_fill_a_search(tmp_path: Path) -> None:
    async with running(tmp_path, flags=rules(tmp_path, "off", 10)) as live:
        seen = await driven(live, tmp_path / "home", GOOD, *VENDOR)
        assert seen["texts"] == ["SUCCEEDED"] * len(VENDOR)
        assert of_vendor(seen) > CAP
