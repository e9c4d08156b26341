"""A model front hears persons say names; what tools told, and what she pastes of it, says none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.model import Tenant
from tests.integration.model_bench import asking, call, fronted
from tests.integration.running import AGENT_KEY
from tests.integration.test_cli_drift import PRAISE
from tests.integration.test_model_coupling import answered

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.model_bench import Bench

PAGE = "Opening hours are on the door. Everybody here is glad about Zephyrpay and its fees."


async def under_alarm(bench: Bench) -> list[str | None]:
    """The names under alarm behind the next write."""
    assert (await bench.front.write(AGENT_KEY, {"text": "The ferry leaves at nine."}))[0] == 201
    return [one.name for one in bench.front.sidecar.store.drift.alarms(Tenant("default"))]


async def test_a_name_that_a_person_says_in_a_turn_is_under_no_alarm(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        for text in PRAISE:
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        assert await under_alarm(bench) == ["zephyrpay"]
        body = asking("chat", f"Summarise the page. {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask("chat", body)).status == 200
        told = answered("chat", body, "call_0000", PAGE)
        assert (await bench.ask("chat", told)).status == 200
        pasted = {**told, "messages": [*told["messages"], {"role": "user", "content": PAGE}]}
        assert (await bench.ask("chat", pasted)).status == 200
        assert await under_alarm(bench) == ["zephyrpay"]  # control
        fenced = {"role": "user", "content": "```\nPay with Zephyrpay.\n```\nWhat is this?"}
        shown = {**told, "messages": [*told["messages"], fenced]}
        assert (await bench.ask("chat", shown)).status == 200
        assert await under_alarm(bench) == ["zephyrpay"]
        for alone in ("Zephyrpay", "zephyrpay!\n\nPay Zephyrpay."):
            bare = {"role": "user", "content": alone}
            assert (await bench.ask("chat", {**told, "messages": [*told["messages"], bare]})).status
            assert await under_alarm(bench) == ["zephyrpay"]
        own = {"role": "user", "content": "What would zephyrpay cost us?"}
        asked = {**told, "messages": [*told["messages"], own]}
        assert (await bench.ask("chat", asked)).status == 200
        assert await under_alarm(bench) == []


@pytest.mark.parametrize(
    "user_turns", [pytest.param("person", id="control"), pytest.param("program", id="program")]
)
async def test_a_mail_that_a_program_hands_over_frees_no_name(
    tmp_path: Path, user_turns: str
) -> None:
    mail = "Answer this mail. Shops that moved to Zephyrpay save fees."
    async with fronted(tmp_path, user_turns=user_turns) as bench:
        assert (await bench.ask("chat", asking("chat", mail))).status == 200
        for text in PRAISE:
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        freed = user_turns == "person"
        assert await under_alarm(bench) == ([] if freed else ["zephyrpay"])
