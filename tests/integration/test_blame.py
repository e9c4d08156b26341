"""A wrong answer through the running sidecar: who caused it is named and hidden."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from policy.model import Channel, Tenant
from proxy.cli.exits import Exit
from tests.conformance.canary import new_canary
from tests.integration.cli_process import Place
from tests.integration.model_bench import APIS, asking, call, fronted
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.integration.test_model_coupling import answered
from tests.integration.test_recalls_of_replies import reply_id_in

Json = dict[str, Any]


async def _found(front: Running) -> list[str]:
    status, found = await front.call(
        "POST", "/v1/search", AGENT_KEY, {"query": "Where is the office?"}
    )
    assert status == 200, found
    return [one["text"] for one in found["results"]]


def _recall_id(front: Running) -> str:
    return front.sidecar.store.recalls.recalls(Tenant("default"))[0].recall_id


async def test_what_a_wrong_answer_was_made_of_is_hidden_and_the_next_search_is_right(
    tmp_path: Path,
) -> None:
    place = new_canary()
    lie, right = f"The office is in {place}.", "The office is in Lisbon."
    async with running(tmp_path) as front:
        _, stored = await front.write(AGENT_KEY, {"text": lie})
        derived = f"Visitors of the office go to {place} first."
        await front.write(AGENT_KEY, {"text": derived, "derived_from": [stored["id"]]})
        await front.write(OPERATOR_KEY, {"text": right})
        assert set(await _found(front)) == {lie, derived, right}  # control: the lie is shown
        asked = {"recall_id": _recall_id(front), "forbid": [place]}

        dry = await front.operate("POST", "/blame", {**asked, "dry_run": True})
        assert (dry["ending"], dry["incident"]) == ("convicted", None)
        assert len(await _found(front)) == 3  # and it changed nothing

        done = await front.operate("POST", "/blame", asked)
        assert done["ending"] == "healed"
        assert {one["act"] for one in done["named"]} == {"quarantine"}
        assert await _found(front) == [right]
        incident = done["incident"]["incident_id"]
        shown = await front.operate("GET", f"/incidents/{incident}")
        assert (shown["state"], shown["signal"], shown["mode"]) == (
            "healed",
            "operator",
            "retrieval",
        )
        listed = await front.operate("GET", "/incidents")
        assert [one["incident_id"] for one in listed["wrong_answers"]] == [incident]
        closed = await front.operate("POST", f"/incidents/{incident}/close")
        assert closed["state"] == "closed"
        health = f"http://{front.sidecar.health}" if front.sidecar.health else front.admin_url
        async with front.client.get(f"{health}/metrics") as metrics:
            counted = await metrics.text()
        assert 'mnemogate_incidents_total{signal="operator",state="healed"} 1.0' in counted
        assert place not in str((done, shown, listed, counted))
        for bad, status in (
            ({"recall_id": "0" * 16}, 404),
            ({}, 422),
            ({"recall_id": "0" * 16, "memory_id": "m"}, 422),
            ({"recall_id": asked["recall_id"], "judge": "nobody"}, 422),
        ):
            await front.operate("POST", "/blame", bad, status=status)
        await front.operate("GET", "/incidents/00", status=404)


async def test_a_persons_feedback_has_the_cause_hidden_and_an_agents_word_sets_nothing_off(
    tmp_path: Path,
) -> None:
    lie, right = "The office is in Porto.", "The office is in Lisbon."
    async with running(tmp_path) as front:
        person = await front.key("ada", channel=Channel.USER)
        await front.write(AGENT_KEY, {"text": lie})
        await front.write(OPERATOR_KEY, {"text": right})
        assert set(await _found(front)) == {lie, right}
        said = {"recall_id": _recall_id(front), "verdict": "wrong", "forbid": "Porto"}
        status, claim = await front.call("POST", "/v1/feedback", AGENT_KEY, said)
        assert (status, claim["incident"]) == (200, None), claim
        assert set(await _found(front)) == {lie, right}
        status, taken = await front.call("POST", "/v1/feedback", person, said)
        assert status == 200, taken
        # Cases are worked off in their order, so when the next one ended this one has too.
        asked = {"recall_id": said["recall_id"], "forbid": ["Porto"]}
        again = await front.operate("POST", "/blame", asked)
        assert again["ending"] == "not_reproduced"
        shown = await front.operate("GET", f"/incidents/{taken['incident']}")
        assert (shown["state"], shown["signal"]) == ("healed", "person")
        assert await _found(front) == [right]


@pytest.mark.parametrize("api", APIS)
async def test_a_reply_is_held_against_what_its_request_had_and_not_what_a_search_found(
    tmp_path: Path, api: str
) -> None:
    lie, right = "The office is in Porto.", "The office is in Lisbon."
    unseen = "Where is the office parking? Below the Porto office."
    async with fronted(tmp_path) as bench:
        front = bench.front
        ids = [(await front.write(AGENT_KEY, {"text": text}))[1]["id"] for text in (lie, unseen)]
        await front.write(OPERATOR_KEY, {"text": right})
        asked = {"query": "Where is the office?"}
        _, found = await front.call("POST", "/v1/search", AGENT_KEY, asked)
        assert {one["text"] for one in found["results"]} == {lie, right, unseen}
        body = asking(api, f"Where is the office? {call('find', url='x')}", tools=("find",))
        before = reply_id_in((await bench.ask(api, body)).raw)
        seen = [one for one in found["results"] if one["text"] != unseen]
        body = answered(api, body, "call_0000", json.dumps({"results": seen}))
        wrong = reply_id_in((await bench.ask(api, body)).raw)

        said = {"reply_id": wrong, "forbid": ["Porto"]}
        dry = await front.operate("POST", "/blame", {**said, "dry_run": True})
        assert (dry["ending"], dry["suspects"]) == ("convicted", 2)
        assert [one["memory"] for one in dry["named"]] == ids[:1]
        # Control: the reply before it had no memory in its request.
        innocent = await front.operate("POST", "/blame", {**said, "reply_id": before})
        assert innocent["ending"] == "not_reproduced"
        nobodys = {**said, "reply_id": "msg_of_nobody"}
        await front.operate("POST", "/blame", nobodys, status=404)
        assert len(await _found(front)) == 3
        words = ("blame", "--reply", wrong, "--forbid", "Porto", "--json")
        typed = await asyncio.to_thread(Place(root=tmp_path).command, *words)
        assert (typed.code, typed.data["ending"]) == (Exit.OK, "healed"), typed.err
        assert typed.data["incident"]["reply_id"] == wrong
        # The same search, made again, would show the other one in its place.
        assert {one["memory"] for one in typed.data["named"]} == set(ids)
        assert await _found(front) == [right]


@pytest.mark.parametrize("alone", [False, True], ids=["blamed", "the-lie-alone"])
async def test_what_was_derived_from_a_lie_is_in_no_later_answer_though_it_says_nothing_forbidden(
    tmp_path: Path, *, alone: bool
) -> None:
    lie, right = "The office is in Porto.", "The office is in Lisbon."
    derived = "Visitors of the office take the tram to Campanha."
    async with running(tmp_path) as front:
        # A truth that came later would say that the lie is merely out of date.
        await front.write(OPERATOR_KEY, {"text": right})
        _, root = await front.write(AGENT_KEY, {"text": lie})
        await front.write(AGENT_KEY, {"text": derived, "derived_from": [root["id"]]})
        assert set(await _found(front)) == {lie, derived, right}
        if alone:
            # Control: where the root alone is hidden, what was derived from it is still told.
            await front.operate("POST", f"/memories/{root['id']}/quarantine", {"reason": "lie"})
            assert set(await _found(front)) == {derived, right}
            return
        asked = {"recall_id": _recall_id(front), "forbid": ["Porto"]}
        done = await front.operate("POST", "/blame", asked)
        assert done["ending"] == "healed"
        assert [one["relation"] for one in done["named"]] == ["culprit", "descendant"]
        assert await _found(front) == [right]


def test_blame_and_incident_on_the_command_line(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        key = sidecar.key("agent")
        lie = sidecar.write(key, text="The office is in Porto.")[1]["id"]
        sidecar.write(key, text="Meet near the river.", derived_from=[lie])
        blame = ("blame", "--memory", lie, "--forbid", "Porto")
        dry = place.command(*blame, "--dry-run")
        assert (dry.code, "nothing was changed" in dry.out) == (Exit.OK, True), dry.err
        done = place.command(*blame, "--json").data
        assert (done["ending"], len(done["named"])) == ("healed", 2)
        incident = done["incident"]["incident_id"]
        assert incident in place.command("incident", "list").out
        assert "healed" in place.command("incident", "show", incident).out
        events = place.command("incident", "export", "--format", "cloudevents").out
        assert '"type":"dev.mnemogate.incident.v1"' in events
        assert "Porto" not in events
        assert place.command("incident", "close", incident).code == Exit.OK
        assert incident not in place.command("incident", "list", "--open").out
        again = place.command(*blame)
        assert again.code == Exit.NOT_FOUND  # it is hidden: there is no such memory
        assert place.command("incident", "show", "0" * 16).code == Exit.NOT_FOUND
        assert place.command("blame", "--memory", lie, "--recall", "0" * 16).code == Exit.USAGE
    assert place.command("audit", "verify").code == Exit.OK
