"""A flood is stopped before it can fill the log."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from tests.integration.running import AGENT_KEY, running

LIMIT = 5


async def test_a_flood_is_refused_before_it_leaves_a_leaf(tmp_path: Path) -> None:
    default = resources.files("policy").joinpath("default.toml").read_text("utf-8")
    rules = tmp_path / "rules.toml"
    rules.write_text(
        default.replace("writes_per_window_max = 100000", f"writes_per_window_max = {LIMIT}")
    )
    async with running(tmp_path, flags={"ruleset": str(rules)}) as live:
        status = live.sidecar.store.reader.status
        for number in range(LIMIT):
            code, body = await live.write(AGENT_KEY, {"text": f"The bus leaves at {number}."})
            assert code == 201, body
        leaves = status().leaf_count
        for number in range(3):
            code, body = await live.write(AGENT_KEY, {"text": f"The train leaves at {number}."})
            assert code == 429
        assert status().leaf_count == leaves, "a refused flood must not grow the log"
        assert status().version == LIMIT
        code, _ = await live.call("POST", "/v1/search", AGENT_KEY, {"query": "bus"})
        assert code == 200, "reads go on"


async def test_a_tenant_that_fills_its_share_is_told_and_leaves_room_for_another(
    tmp_path: Path,
) -> None:
    flags = {"quota_bytes": "33554432", "tenant_share": "0.01"}
    async with running(tmp_path, flags=flags) as live:
        other = await live.key("scout", tenant="research")
        answers = [await live.write(AGENT_KEY, {"text": f"{n} " + "x" * 20_000}) for n in range(60)]
        statuses = [status for status, _ in answers]
        assert statuses.count(201) == 15
        refused = next(body for status, body in answers if status == 403)
        assert refused["reason"] == "quota_exceeded"
        status, told = answers[-1]
        assert status == 507
        assert told["detail"].startswith("quota_exceeded")
        assert (await live.write(other, {"text": "The bus leaves at nine."}))[0] == 201
        tenants = (await live.operate("GET", "/usage"))["tenants"]
        assert [one["tenant"] for one in tenants] == ["default", "research"]
        assert tenants[0]["bytes_used"] > tenants[0]["bytes_quota"] == 335_544
