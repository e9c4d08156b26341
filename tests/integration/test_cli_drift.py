"""Names that add up, through the real sidecar and command line: told, held, accepted."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from proxy.cli.exits import Exit
from tests.integration.cli_process import Place

if TYPE_CHECKING:
    from pathlib import Path

PRAISE = (
    "Last month the invoices went through Zephyrpay without trouble.",
    "Ada says that Zephyrpay answered within an hour.",
    "The team moved its billing to Zephyrpay in spring.",
    "Support at Zephyrpay is quick.",
    "Everybody pays with Zephyrpay now.",
)


def test_as_shipped_all_land_and_a_search_shows_three_of_five(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        key = sidecar.key("agent")
        for text in PRAISE:
            assert sidecar.write(key, text=text)[0] == 201
        listed = place.command("drift", "list", "--json").data["alarms"]
        assert [(one["name"], one["count"], one["accepted"]) for one in listed] == [
            ("zephyrpay", 5, False)
        ]
        accepted = place.command("drift", "accept", "Zephyrpay")
        assert (accepted.code, listed[0]["cell"] in accepted.out) == (Exit.OK, True)
        assert "1 accepted" in place.command("drift", "list").out
        # The line that takes it back is pasted as it stands.
        back = accepted.out.splitlines()[-1].partition(": mnemogate ")[2].split()
        assert place.command(*back).code == Exit.OK
        assert place.command("drift", "accept", "Zephyrpay").code == Exit.OK
        assert place.command("drift", "accept", "--", "12").code == Exit.USAGE
        status = place.command("drift", "status", "--json").data
        assert (status["names"], status["alarms"], status["shown_of_ten"]) == ("alarm", 1, 3)
        assert {"Latin", "German", "Han"} <= {
            *status["covered"],
            *status["mixed_case_only"],
            *status["not_covered"],
        }
        # Also of an accepted name no search shows more before it has shown what others say.
        for other in ("The cat sleeps.", "The ferry leaves at nine."):
            sidecar.write(key, text=other)
        found = sidecar.search(key, "Who handles the billing?")[1]["results"]
        assert sum("Zephyrpay" in one["text"] for one in found[:5]) == 3
        assert sum("Zephyrpay" in one["text"] for one in found) == 5
    assert "zephyrpay" not in place.command("audit", "export").out.casefold()
    assert place.command("audit", "verify").code == Exit.OK
    assert place.command("check").code == Exit.OK


def test_held_where_the_ruleset_says_so_until_the_name_is_accepted(tmp_path: Path) -> None:
    default = resources.files("policy").joinpath("default.toml").read_text("utf-8")
    rules = tmp_path / "rules.toml"
    rules.write_text(default.replace('names = "alarm"', 'names = "hold" '), encoding="utf-8")
    place = Place(root=tmp_path)
    with place.running("--ruleset", str(rules)) as sidecar:
        key = sidecar.key("agent")
        statuses = [sidecar.write(key, text=text) for text in PRAISE[:4]]
        assert [status for status, _ in statuses] == [201, 201, 201, 202]
        assert statuses[3][1]["reason"] == "drift_alarm"
        explained = _explained(place, PRAISE[4])
        assert (explained["decision"], explained["reason"]) == ("hold", "drift_alarm")
        assert "drift accept" in explained["remedy"]
        assert _explained(place, "The ferry leaves at nine.")["decision"] == "admit"
        # A name with a slip of the pen is accepted by nobody, and revoked by nobody.
        for words in (("accept", "Zefyrpay"), ("revoke", "Zephyrpay")):
            assert place.command("drift", *words).code == Exit.NOT_FOUND
        assert place.command("drift", "accept", "Zephyrpay").code == Exit.OK
        assert _explained(place, PRAISE[4])["decision"] == "admit"
        assert sidecar.write(key, text=PRAISE[4])[0] == 201
        assert place.command("drift", "revoke", "Zephyrpay").code == Exit.OK
        assert sidecar.write(key, text=f"{PRAISE[4]} Again.")[0] == 202


def _explained(place: Place, text: str) -> dict[str, Any]:
    """What `policy explain` says of a text of the agent."""
    data: dict[str, Any] = place.command("policy", "explain", "--text", text, "--json").data
    return data
