"""A reply that contradicts an anchor has the memory behind it hidden before the next request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.model_bench import APIS, asking, call, fronted
from tests.integration.models.script import Context, Move, next_move
from tests.integration.running import AGENT_KEY
from tests.integration.test_http_admin import Admin
from tests.integration.test_model_coupling import answered

LIE = "The code of the small office door by the old harbour is 66."
STATEMENT = "The code of the small office door by the old harbour is 11."
HONEST = "The last train to the city leaves at half past nine."


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine an incident may take longer than a request waits."""
    monkeypatch.setattr("proxy.aftermath.reply_checks.SETTLED_S", 600.0)


def wrong_where_it_reads_the_lie(context: Context) -> Move:
    """A model that is as wrong as what it reads."""
    if not context.results:
        return next_move(context)
    return Move(text=LIE if LIE in str(context.results) else "I do not know the code.")


async def _three(tmp_path: Path, api: str, heal: str, *, stream: bool = False) -> list[bytes]:
    """The requests that the model got: before there was an anchor, the next, and the one after."""
    async with fronted(tmp_path, beside=f'[after]\nheal = "{heal}"\n') as bench:
        bench.model.move = wrong_where_it_reads_the_lie
        for text in (LIE, HONEST):
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        query = {"query": "What is the code of the office door?"}
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, query)
        body = asking(api, f"Which code? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask(api, body)).status == 200
        history = answered(api, body, "call_0000", json.dumps({"results": found["results"]}))
        history["stream"] = stream
        sent: list[bytes] = []
        for number in range(3):
            assert (await bench.ask(api, history)).status == 200
            sent.append(bench.model.requests[-1].raw)
            if number == 0:
                anchor = {"statement": STATEMENT, "questions": ["What is the code?"]}
                await Admin(bench.front).ask("POST", "/anchors", anchor)
        cases = (await Admin(bench.front).ask("GET", "/incidents"))["wrong_answers"]
        told = [(one["signal"], one["state"]) for one in cases]
        assert told == ([("anchor", "healed")] if heal == "next" else [])
        return sent


@pytest.mark.parametrize("api", APIS)
async def test_the_request_after_a_wrong_reply_is_without_the_lie(tmp_path: Path, api: str) -> None:
    before, shown, healed = await _three(tmp_path, api, "next", stream=api == "chat")
    for sent in (before, shown):
        assert LIE.encode() in sent, "control: until a reply was wrong, nobody looked"
    assert LIE.encode() not in healed
    assert b"was withdrawn" in healed
    assert HONEST.encode() in healed


async def test_without_a_look_at_replies_the_lie_stays_in_the_conversation(tmp_path: Path) -> None:
    assert all(LIE.encode() in sent for sent in await _three(tmp_path, "chat", "recall"))
