"""A model is asked again, with memories left out, who made its reply wrong; it only proposes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.cli.exits import Exit
from tests.conformance.canary import new_canary
from tests.evaluate.canary import files_below, found_in
from tests.integration.cli_process import Place
from tests.integration.model_bench import APIS, MODEL_KEY, Bench, asking, call, fronted
from tests.integration.models.script import Context, Move, Proposed, next_move
from tests.integration.models.server import Fault
from tests.integration.running import AGENT_KEY
from tests.integration.test_model_coupling import answered
from tests.integration.test_recalls_of_replies import reply_id_in

Json = dict[str, Any]
# Neither says the wrong place, and each leads the model to it.
LEADS = (
    "Visitors of the office take the tram to Campanha station.",
    "The office is five minutes from Campanha on foot.",
)
HONEST = "The office has a kitchen with a big green table."
REPLAY = '[after.replay]\nmodels = ["anthropic", "openai", "gemini"]\n'
MODELS = {"anthropic": "anthropic", "chat": "openai", "responses": "openai", "gemini": "gemini"}


def misled(context: Context) -> Move:
    """A model that believes what it reads, and wants to call a tool each time."""
    if not context.results:
        return next_move(context)
    wrong = "Campanha" in str(context.results)
    wants = Proposed(call_id=f"call_{new_canary()}", name="fetch", arguments={"url": "y"})
    return Move(text=f"The office is in {'Porto' if wrong else 'Lisbon'}.", calls=(wants,))


async def wrong_reply(bench: Bench, api: str, prompt: str = "", *, stream: bool = False) -> str:
    """The id of a wrong reply, from two memories that lead to it and an honest one."""
    bench.model.move = misled
    for text in (*LEADS, HONEST):
        assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
    question = {"query": "Where is the office?"}
    _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, question)
    body = asking(api, f"{prompt} Where? {call('fetch', url='x')}", tools=("fetch",))
    assert (await bench.ask(api, body)).status == 200
    body = answered(api, body, "call_0000", json.dumps({"results": found["results"]}))
    config = {"temperature": 0.7}
    body |= {"stream": stream, **({"generationConfig": config} if api == "gemini" else config)}
    body |= {"store": True} if api == "chat" else {}
    reply = await bench.ask(api, body)
    assert b"Porto" in reply.raw, "control: the reply is wrong"
    return reply_id_in(reply.raw)


async def blamed(bench: Bench, reply_id: str, api: str = "chat", **more: object) -> Json:
    asked = {"reply_id": reply_id, "forbid": ["Porto"], "through": MODELS[api], **more}
    return await bench.front.operate("POST", "/blame", asked)


async def listed(bench: Bench) -> set[str]:
    _, found = await bench.front.call("GET", "/v1/memories", AGENT_KEY)
    return {one["text"] for one in found["memories"]}


@pytest.mark.parametrize("api", APIS)
async def test_who_misled_a_model_is_proposed_where_no_memory_says_what_is_wrong(
    tmp_path: Path, api: str
) -> None:
    async with fronted(tmp_path, beside=REPLAY) as bench:
        reply_id = await wrong_reply(bench, api, stream=api in ("chat", "gemini"))
        alone = await blamed(bench, reply_id, through=None)
        assert alone["ending"] == "not_reproduced", "control: the rules alone find nobody"
        before = len(bench.model.requests)
        done = await blamed(bench, reply_id, api)
        ending = (done["ending"], done["why"], done["incident"]["mode"])
        assert ending == ("needs_person", "proposed", "model")
        assert [one["act"] for one in done["named"]] == ["nothing", "nothing"]
        texts = {one["id"]: one["text"] for one in await memories(bench)}
        assert {texts[one["memory"]] for one in done["named"]} == set(LEADS)
        assert await listed(bench) == {*LEADS, HONEST}, "nothing is hidden"
        replays = bench.model.requests[before:]
        # Two controls and three sets, each until one answer leads by four.
        assert len(replays) == done["asks"] == 20
        for one in replays:
            assert one.headers["authorization"] == f"Bearer {MODEL_KEY}"
            assert AGENT_KEY not in str(one.headers)
            stored = one.body.get("store", api == "responses")
            assert (stored, one.body.get("n", 1)) == (False, 1)
            assert "stream" not in one.path, "the reply is asked for whole"
            config = one.body.get("generationConfig", one.body)
            assert (config["temperature"], one.body.get("stream", False)) == (0, False)
            assert [part in one.raw.decode() for part in ("Where?", "fetch")] == [True, True]
        assert sum(LEADS[0].encode() in one.raw for one in replays) == 8
        # A person hides one of them on this evidence: no trial can judge the reply again.
        ids = {one["text"]: one["id"] for one in await memories(bench)}
        for text, against in ((LEADS[0], "gone"), (HONEST, None)):
            path = f"/memories/{ids[text]}"
            await bench.front.operate("POST", f"{path}/quarantine", {})
            tried = await bench.front.operate("POST", f"{path}/unhide", {})
            assert tried["trial"]["against"] == against
        # The request is gone with its incident.
        again = {"reply_id": reply_id, "forbid": ["Porto"], "through": MODELS[api]}
        await bench.front.operate("POST", "/blame", again, status=404)


async def memories(bench: Bench) -> list[Json]:
    _, found = await bench.front.call("GET", "/v1/memories", AGENT_KEY)
    return list(found["memories"])


SLOW = "answer_seconds = 1\n"


@pytest.mark.parametrize(
    ("fault", "more", "why"),
    [
        (Fault(status=503), "", "unknown"),
        (Fault(body=b"no JSON"), "", "unknown"),
        (Fault(silent_s=600.0), SLOW, "unknown"),
        (Fault(cut=20), "", "unknown"),
        (None, "day_asks_max = 7\n", "budget"),
        (None, "asks_max = 7\n", "budget"),
    ],
)
async def test_a_model_that_cannot_be_asked_blames_nobody(
    tmp_path: Path, fault: Fault | None, more: str, why: str
) -> None:
    async with fronted(tmp_path, beside=REPLAY + more) as bench:
        reply_id = await wrong_reply(bench, "chat")
        before = len(bench.model.requests)
        if fault is not None:
            bench.model.faults = [fault]
        done = await blamed(bench, reply_id)
        assert (done["ending"], done["why"], done["named"]) == ("needs_person", why, [])
        assert len(bench.model.requests) - before == (7 if why == "budget" else 1)
        assert await listed(bench) == {*LEADS, HONEST}


@pytest.mark.parametrize(
    ("reported", "tokens_max", "asks"),
    [
        (10_000, 45_000, 4),
        # A provider that says nothing is believed to ask for a token for each four bytes.
        (0, 45_000, 20),
        (10_000, 1, 0),
    ],
)
async def test_what_a_model_is_asked_about_one_reply_costs_a_bounded_number_of_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: int, tokens_max: int, asks: int
) -> None:
    monkeypatch.setattr("tests.integration.models.chat._USAGE", {"total_tokens": reported})
    async with fronted(tmp_path, beside=f"{REPLAY}tokens_max = {tokens_max}\n") as bench:
        reply_id = await wrong_reply(bench, "chat")
        before = len(bench.model.requests)
        done = await blamed(bench, reply_id)
        told = "proposed" if asks == 20 else "tokens"
        assert (done["ending"], done["why"], done["asks"]) == ("needs_person", told, asks)
        assert len(bench.model.requests) - before == asks
        assert await listed(bench) == {*LEADS, HONEST}


async def test_what_a_model_was_asked_is_in_no_file_and_what_was_hidden_is_not_sent_again(
    tmp_path: Path,
) -> None:
    canary = new_canary()
    async with fronted(tmp_path, beside=REPLAY) as bench:
        reply_id = await wrong_reply(bench, "chat", canary)
        [hidden] = [one["id"] for one in await memories(bench) if one["text"] == LEADS[0]]
        await bench.front.operate("POST", f"/memories/{hidden}/quarantine", {})
        before = len(bench.model.requests)
        dry = await blamed(bench, reply_id, dry_run=True)
        assert (dry["ending"], len(dry["named"])) == ("convicted", 1)
        sent = b"".join(one.raw for one in bench.model.requests[before:])
        assert canary.encode() in sent, "control: the whole request was kept, and is asked again"
        assert LEADS[1].encode() in sent
        assert LEADS[0].encode() not in sent
        files = files_below(tmp_path)
        assert not found_in(files, (canary,))
        words = ("blame", "--reply", reply_id, "--forbid", "Porto", "--through", "openai", "--json")
        typed = await asyncio.to_thread(Place(root=tmp_path).command, *words)
        assert (typed.code, typed.data["why"]) == (Exit.FAILED, "proposed"), typed.err
