"""A flood is stopped before it can fill the log."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from tests.integration.running import AGENT_KEY, running

if TYPE_CHECKING:
    from pathlib import Path

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
