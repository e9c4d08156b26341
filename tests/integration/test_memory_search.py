"""An operator's search of memories: as an agent's ranks, and beyond it what no agent is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy.model import Channel
from tests.integration.operator_line import line
from tests.integration.running import AGENT_KEY, Running, running

QUESTION = "Where is the office?"


async def searched(sidecar: Running, **asked: object) -> list[dict[str, Any]]:
    page = await sidecar.operate("POST", "/memories/search", asked)
    found: list[dict[str, Any]] = page["memories"]
    return found


async def test_it_ranks_as_an_agents_search_and_shows_the_parts(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        person = await sidecar.key("ada", channel=Channel.USER)
        texts = ("The office is in Lisbon.", "Office hours begin at nine.", "Tea is at four.")
        for key in (person, AGENT_KEY):
            for text in texts:
                assert (await sidecar.write(key, {"text": f"{text} ({key[:3]})"}))[0] == 201
        asked = {"query": QUESTION, "limit": 10, "explain": True}
        _, answer = await sidecar.call("POST", "/v1/search", AGENT_KEY, asked)
        found = await searched(sidecar, text=QUESTION)
        assert [one["memory_id"] for one in found] == [one["id"] for one in answer["results"]]
        parts = ("cosine", "words", "trust", "capped")
        for one, other in zip(found, answer["results"], strict=True):
            told = [other["explained"][part] for part in parts]
            assert [one[part] for part in parts] == pytest.approx(told, abs=1e-6)
            assert one["score"] == pytest.approx(other["score"], abs=1e-6)
        labels = {one["source"] for one in found}
        assert labels == {"user_input", "unknown"}
        theirs = await searched(sidecar, text=QUESTION, label="user_input")
        assert {one["source"] for one in theirs} == {"user_input"}
        assert len(theirs) == len(texts)
        assert await searched(sidecar, text=QUESTION, label="operator") == []
        paged = [await searched(sidecar, text=QUESTION, offset=at, limit=2) for at in (0, 2, 4)]
        assert [one["memory_id"] for page in paged for one in page] == [
            one["memory_id"] for one in found
        ]


async def test_what_is_hidden_is_shown_with_the_flag_alone_and_never_to_an_agent(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as sidecar:
        _, lie = await sidecar.write(AGENT_KEY, {"text": "The office is in Porto."})
        _, copy = await sidecar.write(AGENT_KEY, {"text": "The office is in Porto now."})
        await sidecar.operate("POST", f"/memories/{lie['id']}/quarantine", {})
        for asked in ({"text": QUESTION}, {"like": lie["id"]}, {"principal": "agent"}):
            names = [one["memory_id"] for one in await searched(sidecar, **asked)]
            assert names == [copy["id"]], asked
            found = await searched(sidecar, **asked, hidden=True)
            assert {(one["memory_id"], one["status"]) for one in found} == {
                (lie["id"], "quarantined"),
                (copy["id"], "live"),
            }
        body = {"query": QUESTION, "limit": 10}
        _, answer = await sidecar.call("POST", "/v1/search", AGENT_KEY, body)
        assert [one["id"] for one in answer["results"]] == [copy["id"]]
        assert await searched(sidecar, text=QUESTION, tenant="other") == []
        await sidecar.operate("POST", "/memories/search", {"like": "0" * 36}, status=404)


async def test_like_hides_after_a_dry_run_and_undo_gives_all_back(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        _, lie = await sidecar.write(AGENT_KEY, {"text": "Refunds take ninety days."})
        _, copy = await sidecar.write(AGENT_KEY, {"text": "Refunds take about ninety days."})
        _, other = await sidecar.write(AGENT_KEY, {"text": "The cafeteria has soup."})
        asked = {"like": lie["id"]}
        dry = await sidecar.operate("POST", "/isolate", {**asked, "dry_run": True})
        assert {one["memory_id"] for one in dry["caught"]} == {lie["id"], copy["id"]}
        assert len(await searched(sidecar)) == 3
        done = await sidecar.operate("POST", "/isolate", asked)
        assert [one["memory_id"] for one in await searched(sidecar)] == [other["id"]]
        incident_id = done["incident"]["incident_id"]
        back = await sidecar.operate("POST", f"/incidents/{incident_id}/undo", {})
        assert (back["changed"], len(await searched(sidecar))) == (2, 3)
        origins = await sidecar.operate("POST", "/insight/origins", {})
        (principal,) = (one for one in origins["origins"] if one["by"] == "principal")
        assert (principal["name"], principal["labels"]) == ("agent", {"unknown": 3})
        assert principal["trust"] is None, "no outcome of it is known"


async def test_topics_and_preferences_are_of_what_is_live_in_one_tenant(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        person = await sidecar.key("ada", channel=Channel.USER)
        texts = ("The canary service is in Python.", "Canary tests use pytest.", "Tea is at four.")
        ids = [(await sidecar.write(person, {"text": text}))[1]["id"] for text in texts]
        topics = await sidecar.operate("POST", "/insight/topics", {"count": 2})
        assert sum(one["size"] for one in topics["topics"]) == len(ids)
        assert any("canary" in one["name"] for one in topics["topics"])
        found = await sidecar.operate("POST", "/insight/preferences", {})
        told = {one["choice"]: one for one in found["preferences"]}
        assert set(told) == {"Python", "pytest"}
        assert told["Python"]["memory_ids"] == [ids[0]]
        assert (told["Python"]["principal"], told["Python"]["labels"]) == ("ada", {"user_input": 1})
        toml = "[drinks]\nTea = []\n"
        asked = {"categories": toml, "label": "user_input"}
        found = await sidecar.operate("POST", "/insight/preferences", asked)
        assert [one["choice"] for one in found["preferences"]] == ["Tea"]
        for bad in ("[drinks", "drinks = 3", "[drinks]"):
            asked = {"categories": bad}
            await sidecar.operate("POST", "/insight/preferences", asked, status=422)
        said = await line(sidecar, "insight", "topics", "--n", "2", "--label", "user_input")
        assert "canary" in said.out
        file = tmp_path / "drinks.toml"
        file.write_text(toml, encoding="utf-8")
        chosen = ("insight", "preferences", "--categories", str(file))
        said = await line(sidecar, *chosen, "--json")
        assert [one["memory_ids"] for one in said.data["preferences"]] == [[ids[2]]]
        file.write_bytes(b"[drinks\xff")
        said = await line(sidecar, *chosen)
        assert (said.code, "categories: " in said.out) == (2, True), said.out
        for one in ids:
            await sidecar.operate("POST", f"/memories/{one}/quarantine", {})
        for name in ("topics", "preferences"):
            for asked in ({}, {"tenant": "other"}, {"principal": "nobody"}):
                assert await sidecar.operate("POST", f"/insight/{name}", asked) == {name: []}


async def test_a_page_of_long_texts_ends_early_and_the_next_begins_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.admin.insight.ANSWER_BYTES_MAX", 10_000)
    async with running(tmp_path) as sidecar:
        for number in range(4):
            assert (await sidecar.write(AGENT_KEY, {"text": f"{number} bees " * 400}))[0] == 201
        seen: list[str] = []
        while len(seen) < 4:
            page = await sidecar.operate("POST", "/memories/search", {"offset": len(seen)})
            assert 1 <= len(page["memories"]) < 4
            assert page["total"] == 4
            seen += [one["text"][0] for one in page["memories"]]
        assert seen == ["3", "2", "1", "0"]
