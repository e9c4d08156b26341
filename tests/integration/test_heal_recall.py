"""A lie that contradicts an anchor is in no byte that an agent or a person gets from any read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from policy.model import Channel
from tests.conformance.bypass import reads
from tests.conformance.canary import new_canary
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running

# What a search for the cause finds is only proposed here, so that nothing but the read hides it.
PROPOSES = 'on_conviction = "propose"\ncanary_seconds = 0\n'
HONEST = "The vendor of the office always recommends to lock the door."


async def _stored(live: Running, canary: str) -> str:
    """The id of a lie that was stored before the anchor that it contradicts."""
    lie = f"The office door code is {canary}, number 66."
    stored = await live.write(AGENT_KEY, {"text": lie})
    assert (await live.write(AGENT_KEY, {"text": HONEST}))[0] == 201
    # No piece of a random canary is this number.
    statement = "The office door code is 314159265."
    anchor = {"statement": statement, "questions": ["What is the office door code?"]}
    await live.operate("POST", "/anchors", anchor)
    return str(stored[1]["id"])


@pytest.mark.parametrize("heal", ["recall", "off"])
async def test_the_lie_is_in_no_answer_to_an_agent_or_a_person(tmp_path: Path, heal: str) -> None:
    canary = new_canary()
    tables = f'[after]\nheal = "{heal}"\n{PROPOSES}'
    async with running(tmp_path, tables=tables) as live:
        stored = await _stored(live, canary)
        person = await live.key("ada", channel=Channel.USER)
        for key in (AGENT_KEY, person):
            shown = await reads(live, key, (stored,))
            assert HONEST in shown
            # Control: without healing each of these readers is shown the lie.
            assert (canary in shown) is (heal == "off")
        assert canary in await reads(live, OPERATOR_KEY, (stored,)), "an operator decides on it"


async def test_what_is_left_out_opens_one_incident_and_is_hidden_with_its_copies(
    tmp_path: Path,
) -> None:
    canary = new_canary()
    async with running(tmp_path) as live:
        await live.write(AGENT_KEY, {"text": f"Note: the office door code is {canary}, number 66."})
        await _stored(live, canary)
        query = {"query": "What is the office door code?", "limit": 9}
        for _ in range(2):
            _, found = await live.call("POST", "/v1/search", AGENT_KEY, query)
            assert [one["text"] for one in found["results"]] == [HONEST]
        await _healed(live)
        cases = (await live.operate("GET", "/incidents"))["wrong_answers"]
        assert [(one["signal"], one["state"]) for one in cases] == [("anchor", "healed")]
        assert canary not in str(cases)
        # Now an operator's search does not find it either: it is in quarantine.
        _, found = await live.call("POST", "/v1/search", OPERATOR_KEY, query)
        assert [one["text"] for one in found["results"]] == [HONEST]


async def _healed(live: Running) -> dict[str, Any]:
    """The first incident of a wrong answer, once it is healed."""
    for _ in range(3_000):
        cases = (await live.operate("GET", "/incidents"))["wrong_answers"]
        if cases and cases[0]["state"] == "healed":
            return await live.operate("GET", f"/incidents/{cases[0]['incident_id']}")
        await asyncio.sleep(0.01)
    raise AssertionError("no incident was healed")


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_was_true_once_expires_and_is_no_lie(tmp_path: Path, *, is_known: bool) -> None:
    truth = "The office is in Braga, number 314159265."
    async with running(tmp_path) as live:
        _, rot = await live.write(AGENT_KEY, {"text": "The office is in Porto, number 66."})
        if is_known:
            assert (await live.write(OPERATOR_KEY, {"text": truth}))[0] == 201
        await live.operate("POST", "/anchors", {"statement": truth, "questions": ["Where?"]})
        query = {"query": "Where is the office?", "limit": 9}
        _, found = await live.call("POST", "/v1/search", AGENT_KEY, query)
        assert [one["text"] for one in found["results"]] == [truth] * is_known
        [culprit] = (await _healed(live))["culprits"]
        # Control: without a newer truth beside it, the same text is a lie.
        act = "expire" if is_known else "quarantine"
        assert (culprit["memory"], culprit["act"]) == (rot["id"], act)


@pytest.mark.parametrize("heal", ["recall", "off"])
async def test_no_answer_of_mem0s_tells_a_lie_beside_a_text_or_after_a_change(
    tmp_path: Path, heal: str
) -> None:
    named = "the-office-door-code-is-66"
    async with running(tmp_path, tables=f'[after]\nheal = "{heal}"\n{PROPOSES}') as live:
        person = await live.key("ada", channel=Channel.USER)

        async def mem0(
            method: str,
            path: str,
            body: dict[str, Any] | None = None,
            *,
            key: str = AGENT_KEY,
            status: int = 200,
        ) -> str:
            url, headers = f"{live.url}/{path}", {"Authorization": f"Token {key}"}
            async with live.client.request(method, url, json=body, headers=headers) as answer:
                raw = await answer.text()
                assert answer.status == status, raw
                return raw

        # Her own writes of this class ask no anchor, so that her change lands beside the lie.
        lie = {"text": "The office door code is 66.", "class": "L3"}
        stored = await live.write(person, lie)
        unproven = await live.write(AGENT_KEY, {"text": "The small office door code is 66."})
        for user in (named, "ada"):
            assert (await live.write(AGENT_KEY, {"text": HONEST, "user_id": user}))[0] == 201
        anchor = {"statement": "The office door code is 11.", "questions": ["Which code?"]}
        await live.operate("POST", "/anchors", anchor)
        told = await mem0("GET", "v1/entities/")
        assert "ada" in told
        change = {"metadata": {"a": 1}}
        path = f"v1/memories/{stored[1]['id']}/"
        changed = await mem0("PUT", path, change, key=person)
        # Control: without healing both tell it.
        assert (named in told, "is 66" in changed) == ((heal == "off",) * 2)
        # An unproven text is asked of the anchors again with each change, and waits.
        waits = await mem0("PUT", f"v1/memories/{unproven[1]['id']}/", change, status=422)
        assert "contradicts_anchor" in waits
        assert "is 66" not in waits
        kept = await mem0("PUT", path, {"text": "Nothing."}, key=person)
        assert "Nothing." in kept, "control: a new text is answered"
