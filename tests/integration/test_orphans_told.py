"""An observation that lost its entity is named by the check of the whole store, which is sound."""

from __future__ import annotations

from pathlib import Path

from tests.integration.running import AGENT_KEY, OPERATOR_KEY, running


async def test_an_observation_without_its_entity_is_named_by_the_check(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        status, made = await live.write(
            AGENT_KEY,
            {
                "text": "lives in Bern",
                "target": "graph/observations",
                "metadata": {"entityId": "gone", "entityName": "Ada"},
            },
        )
        assert status == 201
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        url = f"{live.admin_url}/api/v1/check"
        async with live.client.post(url, json={}, headers=headers) as response:
            report = await response.json()
        assert report["problems"] == []
        [orphan] = report["orphans"]
        assert (orphan["memory_id"], orphan["entity_name"]) == (made["id"], "Ada")
