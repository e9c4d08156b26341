"""Feedback over real sockets: an agent's word moves nothing, whatever it says and however often."""

from __future__ import annotations

import asyncio
from pathlib import Path

from policy.model import Channel, PrincipalId, Tenant
from policy.trust.score import TrustLevel
from tests.integration.running import AGENT_KEY, BY, running

FACTS = ("Ada moved to Lisbon.", "The office opens at nine.", "Refunds take 30 days.")


async def test_a_thousand_bad_words_of_an_agent_move_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        reader = sidecar.sidecar.store.reader
        ids = [(await sidecar.write(AGENT_KEY, {"text": text}))[1]["id"] for text in FACTS]
        steered = await sidecar.key("steered")
        person = await sidecar.key("ada", channel=Channel.USER)
        before = reader.status()
        trust = reader.all_trust()
        statuses = [
            (await sidecar.call("POST", "/v1/feedback", steered, body))[0]
            for body in ({"verdict": "wrong", "memory_id": ids[n % len(ids)]} for n in range(1_000))
        ]
        assert (statuses.count(200), statuses.count(429)) == (20, 980)
        body = {"verdict": "wrong", "memory_id": ids[0]}
        _, refused = await sidecar.call("POST", "/v1/feedback", steered, body)
        assert "20 feedbacks in 24 hours" in refused["detail"]
        assert "writes" not in refused["detail"]
        after = reader.status()
        assert (after.version, after.leaf_count) == (before.version, before.leaf_count)
        assert after.live_count == before.live_count == len(FACTS)
        assert reader.all_trust() == trust, "no outcome"
        assert reader.trust(PrincipalId("steered")).level is TrustLevel.TRUSTED
        assert (await sidecar.operate("GET", "/quarantined"))["memories"] == []
        assert (await sidecar.operate("GET", "/incidents"))["incidents"] == []
        status, page = await sidecar.call("GET", "/v1/memories", AGENT_KEY)
        assert (status, page["total"]) == (200, len(FACTS))
        body = {"memory_id": ids[0], "forbid": "Lisbon"}
        status, noted = await sidecar.call("POST", "/v1/feedback", person, body)
        assert (status, noted["kind"], noted["verdict"]) == (200, "person", "wrong")
        shown = (await sidecar.operate("GET", "/failures"))["failures"]
        kinds = [one["kind"] for one in shown]
        assert kinds == ["person", *["agent"] * 20], "claims are shown to people, newest first"
        assert {one["incident"] for one in shown if one["kind"] == "agent"} == {""}
        assert "Lisbon" not in str(shown)


async def test_an_operator_files_a_failure_and_bad_input_says_why(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        _, stored = await sidecar.write(AGENT_KEY, {"text": FACTS[0]})
        asked = {"memory_id": stored["id"], "expect": ["Porto"]}
        filed = await sidecar.operate("POST", "/failures", asked)
        assert (filed["kind"], filed["verdict"], filed["by"]) == ("operator", "wrong", BY)
        assert await sidecar.operate("GET", f"/failures/{filed['failure_id']}") == filed
        failures = sidecar.sidecar.store.failures
        kept = failures.newest(Tenant("default"), 1)[0]
        assert kept.failure_id == filed["failure_id"]
        for name in ("0" * 20, "x", "0" * 19):
            await sidecar.operate("GET", f"/failures/{name}", status=404)
        await sidecar.operate("POST", "/failures", {}, status=422)
        unknown = await sidecar.operate("POST", "/failures", {"reply_id": "msg_none"}, status=404)
        assert "no such reply is kept; what is kept begins at 1" in unknown["detail"]
        _, found = await sidecar.call("POST", "/v1/search", AGENT_KEY, {"query": "Where is Ada?"})
        assert len(found["results"]) == 1
        (recall,) = await asyncio.to_thread(
            sidecar.sidecar.store.recalls.recalls, Tenant("default"), limit=1
        )
        assert found["recall_id"] == recall.recall_id, "what a client of feedback may name"
        of_recall = await sidecar.operate("POST", "/failures", {"recall_id": found["recall_id"]})
        assert (of_recall["recall_id"], of_recall["memory_id"]) == (recall.recall_id, "")
        await sidecar.operate("POST", "/failures", {**asked, "tenant": "other"}, status=404)
        await sidecar.operate("POST", "/failures", {**asked, "forbid": ["re:(a+)+"]}, status=422)
        await sidecar.operate("GET", "/failures", key=AGENT_KEY, status=403)
        for body in ({"memory_id": stored["id"]}, {"verdict": "wrong"}, {}):
            status, _ = await sidecar.call("POST", "/v1/feedback", AGENT_KEY, body)
            assert status == 422
        assert len(failures.newest(Tenant("default"), 10)) == 2


async def test_reads_of_a_memory_are_asked_for_by_its_id(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        stored, other = [
            (await sidecar.write(AGENT_KEY, {"text": text}))[1]["id"] for text in FACTS[:2]
        ]
        await sidecar.call("GET", f"/v1/memories/{stored}", AGENT_KEY)
        by = "/recalls?memory_id="
        whole = await sidecar.operate("GET", by + stored)
        assert [one["operation"] for one in whole["recalls"]] == ["get_memory"]
        for none in (other, "no-such-memory", f"{stored}&tenant=other"):
            assert (await sidecar.operate("GET", by + none))["recalls"] == [], (
                "control: none was read"
            )
        await sidecar.call("DELETE", f"/v1/memories/{stored}", AGENT_KEY)
        assert await sidecar.operate("GET", by + stored) == whole, "a deleted memory has its reads"
