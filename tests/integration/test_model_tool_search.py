"""Claude Code searches for tools and uses them: what it puts beside results is explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.hosts.agents import TASK, TEA, HostAgent, Told, plain_servers
from tests.integration.hosts.fronted import fronted
from tests.integration.hosts.hosts import ClaudeCode
from tests.integration.hosts.scene import Scene, entity
from tests.integration.hosts.script import ANTHROPIC
from tests.integration.hosts.views import Json
from tests.integration.running import OPERATOR_KEY

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

NEEDED = "select:mcp__memory__create_entities,mcp__memory__read_graph"


async def test_a_search_for_tools_of_claude_code_brings_nothing_that_is_not_placed(
    tmp_path: Path,
) -> None:
    agent = HostAgent("claude-code", ClaudeCode(searches=True), ANTHROPIC)
    scene = Scene(tmp_path, "Nothing of note.")
    told: Told = {
        TASK: [
            ("/ToolSearch", {"query": NEEDED}),
            ("memory/read_graph", {}),
            ("memory/create_entities", entity("Alice", "person", TEA)),
        ]
    }
    async with fronted(tmp_path / "ours", agent.model(told)) as at:
        said = await agent.run(at, scene, {"memory": plain_servers(scene)["memory"]}, TASK)
        assert "FINAL: 3 calls made." in said
        assert "tool_reference" in json.dumps(at.model.requests), "it searched for them"
        live = at.sidecar
        url, headers = (
            f"{live.admin_url}/api/v1/sessions",
            {"Authorization": f"Bearer {OPERATOR_KEY}"},
        )
        async with live.client.get(url, headers=headers) as answer:
            listed: list[Json] = (await answer.json())["sessions"]
        views: list[Json] = []
        for one in listed:
            async with live.client.get(f"{url}/{one['session']}", headers=headers) as answer:
                views.append(await answer.json())
    channels = {row["channel"] for one in views for row in one["segments"]}
    assert "tool" in channels, "control"
    assert not channels & {"unplaced", "history", "sealed"}
