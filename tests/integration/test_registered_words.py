"""Anchors and canaries with matchers, put and listed by a real sidecar's operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

from policy.after.matchers import Applies, Matcher
from policy.model import MemoryClass, Tenant
from proxy.compose.app import Composition
from tests.integration.running import AGENT_KEY, running
from tests.integration.test_review_webhook import soon

STATEMENT = "Refunds are allowed within 30 days."
QUESTIONS = ["How long can I return it?"]


async def test_an_anchor_keeps_its_matcher_and_says_what_it_adds(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        plain = await sidecar.operate(
            "POST", "/anchors", {"statement": STATEMENT, "questions": QUESTIONS}
        )
        assert not {"must", "must_not", "notes", "caught"} & plain.keys()
        asked = {
            "statement": STATEMENT,
            "questions": QUESTIONS,
            "anchor_id": "refunds",
            "must": ["30 days"],
            "must_not": ["14 days", "re:(two|three) weeks"],
            "applies": "retrieval",
            "memory_class": "L3",
        }
        put = await sidecar.operate("POST", "/anchors", asked)
        assert (put["must"], put["must_not"]) == (asked["must"], asked["must_not"])
        assert put["caught"] == 1, "the comparison knows 14 for a denial of 30, and no pattern"
        assert any("1 of 2" in note for note in put["notes"])
        assert put in (await sidecar.operate("GET", "/anchors"))["anchors"]
        stored = {
            one.anchor_id: one for one in sidecar.sidecar.store.reader.anchors(Tenant("default"))
        }
        assert stored[plain["anchor_id"]].matcher is None
        assert stored["refunds"].matcher == Matcher(
            must=("30 days",),
            must_not=("14 days", "re:(two|three) weeks"),
            applies=Applies.RETRIEVAL,
            memory_class=MemoryClass.L3,
        )
        short = {"statement": "The office is in Lisbon.", "questions": ["Where?"]}
        notes = (await sidecar.operate("POST", "/anchors", short))["notes"]
        assert "fewer than three words" in notes[0]


async def test_what_cannot_be_matched_in_linear_time_is_refused_where_it_is_put(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as sidecar:
        before = sidecar.sidecar.store.reader.status().leaf_count
        words = {"questions": QUESTIONS, "must_not": ["fine", "re:(a+)+b"]}
        why = "must_not, entry 2: a repeat inside a repeat, at character 8"
        for path, body in (("/anchors", words | {"statement": STATEMENT}), ("/canaries", words)):
            assert (await sidecar.operate("POST", path, body, status=422))["detail"] == why
        empty = await sidecar.operate("POST", "/canaries", {"questions": QUESTIONS}, status=422)
        assert empty["detail"] == "a matcher needs `must` or `must_not`"
        assert sidecar.sidecar.store.reader.status().leaf_count == before
        assert (await sidecar.operate("GET", "/canaries"))["canaries"] == []


async def test_a_canary_is_no_anchor_and_takes_no_anchors_id(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        canary = {"questions": ["Where is the office?"], "must_not": ["Madrid"]}
        put = await sidecar.operate("POST", "/canaries", canary | {"canary_id": "office"})
        assert (await sidecar.operate("GET", "/canaries"))["canaries"] == [put]
        assert (await sidecar.operate("GET", "/canaries?tenant=other"))["canaries"] == []
        assert (await sidecar.operate("GET", "/anchors"))["anchors"] == []
        taken = {"statement": STATEMENT, "questions": QUESTIONS, "anchor_id": "office"}
        refused = await sidecar.operate("POST", "/anchors", taken, status=422)
        assert "a canary of this tenant has that id" in refused["detail"]
        assert (await sidecar.operate("GET", "/canaries"))["canaries"] == [put]


async def test_an_operator_tries_a_judge_twice(tmp_path: Path) -> None:
    tables = """
        [[judge]]
        name = "sure"
        command = ["/bin/echo", '{"fails": true, "why": "the vault code is 7319"}']
        deterministic = true
        [[judge]]
        name = "page"
        command = ["/bin/echo", "<html>"]
    """
    async with running(tmp_path, tables=tables) as sidecar:
        sure = await sidecar.operate("POST", "/judges/sure/test", {})
        answer = {"fails": True, "problem": None}
        assert (sure["answers"], sure["same"], sure["deterministic"]) == ([answer] * 2, True, True)
        page = await sidecar.operate("POST", "/judges/page/test", {})
        unread = {"fails": None, "problem": "judge_unreadable"}
        assert (page["answers"], page["same"]) == ([unread] * 2, False)
        await sidecar.operate("POST", "/judges/other/test", {}, status=404)


async def test_a_canary_names_the_memories_that_say_what_it_forbids(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        canary = {"questions": ["Where is the office?"], "must": ["Lisbon"], "must_not": ["Madrid"]}
        await sidecar.operate("POST", "/canaries", canary | {"canary_id": "office"})
        _, true = await sidecar.write(AGENT_KEY, {"text": "The office is in Lisbon."})
        before = sidecar.sidecar.store.reader.status().leaf_count
        (outcome,) = (await sidecar.operate("POST", "/canaries/run", {}))["outcomes"]
        assert (outcome["failing"], outcome["lacking"]) == ([], False)
        assert outcome["failure_id"] == outcome["incident"] == ""
        _, lie = await sidecar.write(AGENT_KEY, {"text": "The office moved to MADRID."})
        (outcome,) = (await sidecar.operate("POST", "/canaries/run", {}))["outcomes"]
        assert (outcome["failing"], outcome["lacking"]) == ([lie["id"]], False)
        kept = await sidecar.operate("GET", f"/failures/{outcome['failure_id']}")
        assert (kept["kind"], kept["rule_id"], kept["memory_id"]) == ("canary", "office", "")
        await sidecar.operate("POST", f"/memories/{lie['id']}/quarantine", {})
        await sidecar.operate("POST", f"/memories/{true['id']}/quarantine", {})
        (outcome,) = (await sidecar.operate("POST", "/canaries/run", {}))["outcomes"]
        assert (outcome["failing"], outcome["lacking"]) == ([], True), "what it asks for is gone"
        assert sidecar.sidecar.store.reader.status().leaf_count > before
        other = await sidecar.operate("POST", "/canaries/run", {"tenant": "other"})
        assert other["outcomes"] == []


async def test_what_an_anchor_denies_and_a_canary_finds_is_hidden_without_being_asked(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, Composition(wait=soon)) as sidecar:

        async def hidden_by(count: int) -> str:
            """The signal of the newest incident, once there are so many and each is healed."""
            cases: list[dict[str, str]] = []
            for _ in range(3_000):
                cases = (await sidecar.operate("GET", "/incidents"))["wrong_answers"]
                if len(cases) == count and {one["state"] for one in cases} == {"healed"}:
                    return str(cases[-1]["signal"])
                await asyncio.sleep(0.01)
            raise AssertionError(cases)

        async def shown() -> set[str]:
            query = {"query": "What is the office door code?"}
            _, found = await sidecar.call("POST", "/v1/search", AGENT_KEY, query)
            return {one["text"] for one in found["results"]}

        lie, honest = "The office door code is 66.", "The office opens at nine."
        for text in (lie, honest):
            assert (await sidecar.write(AGENT_KEY, {"text": text}))[0] == 201
        anchor = {"statement": "The office door code is 11.", "questions": ["Which code?"]}
        assert await shown() == {lie, honest}, "control: there is no anchor yet"
        await sidecar.operate("POST", "/anchors", anchor)
        assert await shown() == {honest}, "it is left out before it is hidden"
        assert await hidden_by(1) == "anchor"
        assert await shown() == {honest}
        canary = {"questions": ["Where is the office?"], "must_not": ["Madrid"]}
        await sidecar.operate("POST", "/canaries", canary)
        moved = "The office moved to Madrid."
        assert (await sidecar.write(AGENT_KEY, {"text": moved}))[0] == 201
        assert await hidden_by(2) == "canary"
        assert await shown() == {honest}
