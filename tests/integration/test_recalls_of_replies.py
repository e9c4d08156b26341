"""Which memories a model saw before a reply, and the searches that brought them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from policy.model import Tenant
from tests.integration.model_bench import APIS, asking, call, fronted
from tests.integration.running import AGENT_KEY
from tests.integration.test_model_coupling import answered

TENANT = Tenant("default")
TEA = "The office kitchen serves green tea at four every day."
TRAIN = "The last train to the harbour leaves at half past nine."


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_names_the_memories_of_its_request_and_the_reads_that_brought_them(
    tmp_path: Path, api: str, *, stream: bool
) -> None:
    async with fronted(tmp_path) as bench:
        for text in (TEA, TRAIN):
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        asked = {"query": "When is tea?", "limit": 1}
        status, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, asked)
        assert status == 200
        (hit,) = found["results"]
        assert hit["text"] == TEA

        body = asking(api, f"When is tea? {call('fetch', url='x')}", tools=("fetch",))
        body["stream"] = stream
        first = await bench.ask(api, body)
        result = json.dumps({"results": found["results"]})
        second = await bench.ask(api, answered(api, body, "call_0000", result))
        assert second.status == 200

        ledger = bench.front.sidecar.store.recalls
        before, after = (reply_id_in(one.raw) for one in (first, second))
        without = await asyncio.to_thread(ledger.reply, TENANT, before)
        reply = await asyncio.to_thread(ledger.reply, TENANT, after)
        (recall,) = await asyncio.to_thread(ledger.recalls, TENANT)

    assert without is not None
    assert without.memories == (), "control: nothing was recalled yet"
    assert without.calls == ("fetch",)
    assert reply is not None
    (inside,) = reply.memories
    assert inside.memory_id == hit["id"]
    assert inside.recall_id == recall.recall_id
    assert not reply.incomplete
    assert reply.session == without.session != ""
    (span,) = inside.spans
    place: Any = answered(api, body, "call_0000", result)
    for step in span.where:
        place = place[step]
    assert TEA in str(place)[span.start : span.end]
    assert [one.memory_id for one in recall.hits] == [hit["id"]]
    assert len(recall.nearest) == 2


async def test_an_operator_is_told_what_a_reply_had_seen_without_a_word_of_it(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path) as bench:
        assert (await bench.front.write(AGENT_KEY, {"text": TEA}))[0] == 201
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, {"query": "tea"})
        (hit,) = found["results"]
        body = asking("chat", f"When is tea? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask("chat", body)).status == 200
        result = json.dumps({"results": found["results"]})
        second = await bench.ask("chat", answered("chat", body, "call_0000", result))
        told = await bench.front.operated("GET", f"/replies/{reply_id_in(second.raw)}")
        listed = await bench.front.operated("GET", f"/recalls?memory_id={hit['id']}")
        one = listed[1]["recalls"][0]["recall_id"]
        alone = await bench.front.operated("GET", f"/recalls/{one}")
        lost = await bench.front.operated("GET", "/replies/msg_never")
    assert told[1]["memories"][0]["memory_id"] == hit["id"]
    assert told[1]["memories"][0]["recall_id"] == listed[1]["recalls"][0]["recall_id"]
    assert alone == (200, listed[1]["recalls"][0])
    assert lost[0] == 404
    assert f"begins at {listed[1]['kept_since_ms']}" in lost[1]["detail"]
    assert TEA not in json.dumps([told, listed, lost]), "ids and numbers, no text"


async def test_a_convicted_memory_leaves_the_next_request_of_the_same_conversation(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path) as bench:
        for text in (TEA, TRAIN):
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, {"query": "tea, train"})
        body = asking("chat", f"When is tea? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask("chat", body)).status == 200
        history = answered("chat", body, "call_0000", json.dumps({"results": found["results"]}))

        reply = await bench.ask("chat", history)
        shown = bench.model.requests[-1].raw
        named = reply_id_in(reply.raw)
        blame: dict[str, object] = {"reply_id": named, "forbid": ["green tea"]}
        done = await bench.front.operated("POST", "/blame", blame)
        assert (done[0], done[1]["ending"]) == (200, "healed")
        assert (await bench.ask("chat", history)).status == 200
        after = bench.model.requests[-1].raw
        (culprit,) = done[1]["named"]
        paroled = {"reason": "true", "without_trial": True}
        await bench.front.operate("POST", f"/memories/{culprit['memory']}/unhide", paroled)
        assert (await bench.ask("chat", history)).status == 200
        again = bench.model.requests[-1].raw
    assert b"green tea" in shown, "control: the model saw it"
    assert b"green tea" not in after
    assert b"was withdrawn" in after
    assert TRAIN.encode() in after, "what the same read brought beside it stays"
    assert b"green tea" in again


def reply_id_in(raw: bytes) -> str:
    found = re.search(rb'"(?:id|responseId)": ?"((?:msg|chatcmpl|resp|g0)[^"]*)"', raw)
    assert found is not None, raw[:300]
    return found[1].decode()
