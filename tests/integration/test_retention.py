"""Retention against a real sidecar: erased for good, with a leaf each, and nothing else."""

from __future__ import annotations

from pathlib import Path

from policy.model import Tenant
from proxy.compose.app import Composition
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, Running, running
from tests.unit.storage.opening import RULESET_TEXT

START_NS = 1_790_000_000 * 10**9
DAY_NS = 86_400 * 10**9
RULES = (
    RULESET_TEXT
    + """
[retention]
expired_grace_days = 7

[retention.classes.L4]
age_days_max = 30
"""
)


class Clock:
    def __init__(self) -> None:
        self.now_ns = START_NS

    def __call__(self) -> int:
        return self.now_ns


async def sweep(sidecar: Running, *, dry_run: bool) -> Json:
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    async with sidecar.client.post(
        sidecar.admin_url + "/api/v1/retention", json={"dry_run": dry_run}, headers=headers
    ) as answer:
        assert answer.status == 200
        found: Json = await answer.json()
        return found


async def test_what_is_kept_no_longer_is_erased_and_the_log_grows(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    flags = {"ruleset": str(file), "retention_seconds": "0"}
    async with running(tmp_path, Composition(clock_ns=clock), flags) as sidecar:
        await sidecar.write(AGENT_KEY, {"text": "An episode that ages.", "class": "L4"})
        await sidecar.write(AGENT_KEY, {"text": "Knowledge that stays.", "class": "L3"})
        await sidecar.write(
            AGENT_KEY, {"text": "A secret that expires.", "expires_at": "2026-09-22T00:00:00Z"}
        )
        assert (await sweep(sidecar, dry_run=False))["due_count"] == 0
        clock.now_ns += 31 * DAY_NS
        assert len(await sidecar.texts(AGENT_KEY)) == 2, "the expired one is hidden already"

        before = sidecar.sidecar.store.reader.status()
        told = await sweep(sidecar, dry_run=True)
        assert [(one["item"]["memory_class"], one["why"]) for one in told["due"]] == [
            ("L4", "age"),
            ("L3", "expired"),
        ]
        assert sidecar.sidecar.store.reader.status() == before, "a dry run changes nothing"

        done = await sweep(sidecar, dry_run=False)
        assert (done["due_count"], done["purged_count"]) == (2, 2)
        after = sidecar.sidecar.store.reader.status()
        assert after.leaf_count == before.leaf_count + 4, "an interception and a verdict each"
        assert await sidecar.texts(AGENT_KEY) == ["Knowledge that stays."]
        assert (await sweep(sidecar, dry_run=False))["due_count"] == 0
        assert sidecar.sidecar.store.reader.check().problems == ()
    data = (tmp_path / "state" / "store" / "data.mdb").read_bytes()
    assert b"Knowledge that stays" in data, "control: the search finds what is there"
    assert b"episode that ages" not in data
    assert b"secret that expires" not in data


async def test_a_memory_that_was_changed_since_it_was_seen_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    flags = {"ruleset": str(file), "retention_seconds": "0"}
    async with running(tmp_path, Composition(clock_ns=clock), flags) as sidecar:
        _, stored = await sidecar.write(AGENT_KEY, {"text": "An episode.", "class": "L4"})
        retained = sidecar.sidecar.store.retained
        ((item,), rest) = retained.slice(0, 10)
        assert rest is None
        assert retained.stands(item)
        status, _ = await sidecar.call(
            "PATCH", f"/v1/memories/{stored['id']}", AGENT_KEY, {"text": "An episode, told again."}
        )
        assert status == 200
        assert not retained.stands(item)
        items, rest = retained.slice(0, 1)
        assert (items, rest) == ((), 1), "the row before the change is no memory any more"
        (newest,), _ = retained.slice(1, 10)
        assert newest.tenant == Tenant("default")
