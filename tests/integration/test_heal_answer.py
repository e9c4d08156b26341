"""A reply that a lie made wrong reaches no agent: the model is asked again without the lie."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.model_bench import APIS, Answer, Bench, asking, call, fronted, shown
from tests.integration.models.script import Context, Move, next_move
from tests.integration.models.server import Fault
from tests.integration.running import AGENT_KEY
from tests.integration.test_model_coupling import answered

LIE = "The code of the small office door by the old harbour is 66."
STATEMENT = "The code of the small office door by the old harbour is 11."
HONEST = "The last train to the city leaves at half past nine."
# The same lie in words of the model's own, which are no copy of a memory.
OWN = "That small door of the office by the old harbour has the code 66."
RIGHT = "I do not know that code."


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine an incident may take longer than a reply or a request waits."""
    monkeypatch.setattr("proxy.aftermath.reply_checks.HEALED_S", 600.0)
    monkeypatch.setattr("proxy.aftermath.reply_checks.SETTLED_S", 600.0)


def wrong_where_it_reads_the_lie(context: Context) -> Move:
    if not context.results:
        return next_move(context)
    return Move(text=LIE if LIE in str(context.results) else RIGHT)


def always_wrong(context: Context) -> Move:
    return Move(text=OWN) if context.results else next_move(context)


@asynccontextmanager
async def read_the_lie(
    tmp_path: Path,
    api: str,
    heal: str = "answer",
    *,
    move: Callable[[Context], Move] = wrong_where_it_reads_the_lie,
    more: str = "",
) -> AsyncGenerator[tuple[Bench, dict[str, Any]]]:
    """A conversation in which the lie was read before there was an anchor; and its next request."""
    async with fronted(tmp_path, beside=f'[after]\nheal = "{heal}"\n{more}') as bench:
        bench.model.move = move
        for text in (LIE, HONEST):
            assert (await bench.front.write(AGENT_KEY, {"text": text}))[0] == 201
        query = {"query": "What is the code of the office door?"}
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, query)
        body = asking(api, f"Which code? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask(api, body)).status == 200
        anchor = {"statement": STATEMENT, "questions": ["What is the code?"]}
        await bench.front.operate("POST", "/anchors", anchor)
        results = json.dumps({"results": found["results"]})
        yield bench, answered(api, body, "call_0000", results)


async def cases(bench: Bench) -> list[dict[str, Any]]:
    found = await bench.front.operate("GET", "/incidents")
    return list(found["wrong_answers"])


def told(answer: Answer) -> tuple[str | None, str | None]:
    """What an answer says of its healing: the incident, and why it was not healed."""
    return answer.headers.get("mnemogate-healed"), answer.headers.get("mnemogate-not-healed")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_the_agent_gets_the_reply_without_the_lie(
    tmp_path: Path, api: str, *, stream: bool
) -> None:
    async with read_the_lie(tmp_path, api) as (bench, body):
        asked = len(bench.model.requests)
        answer = await bench.ask(api, {**body, "stream": stream})
        assert answer.status == 200
        assert RIGHT in shown(answer)
        assert LIE not in shown(answer)
        first, second = (one.raw for one in bench.model.requests[asked:])
        assert LIE.encode() in first
        assert LIE.encode() not in second
        assert HONEST.encode() in second
        [case] = await cases(bench)
        assert (case["signal"], case["state"]) == ("anchor", "healed")
        assert told(answer) == (case["incident_id"], None)
        # A reply that is right goes on at once, and says nothing.
        asked = len(bench.model.requests)
        answer = await bench.ask(api, {**body, "stream": stream})
        assert told(answer) == (None, None)
        assert len(bench.model.requests) == asked + 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_at_the_level_below_the_agent_gets_the_lie(tmp_path: Path, *, stream: bool) -> None:
    async with read_the_lie(tmp_path, "chat", "next") as (bench, body):
        answer = await bench.ask("chat", {**body, "stream": stream})
        assert LIE in shown(answer)
        assert told(answer) == (None, None)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_model_that_lies_by_itself_is_asked_once_more_and_then_believed_by_nobody(
    tmp_path: Path, *, stream: bool
) -> None:
    async with read_the_lie(tmp_path, "chat", move=always_wrong) as (bench, body):
        asked = len(bench.model.requests)
        answer = await bench.ask("chat", {**body, "stream": stream})
        assert OWN in shown(answer), "the reply goes on as it came"
        assert len(bench.model.requests) == asked + 2
        [case] = await cases(bench)
        assert (case["state"], case["why"]) == ("needs_person", "still_wrong")
        assert told(answer) == (None, f"still_wrong {case['incident_id']}")
        # The memory is hidden by now, so nobody is to blame, and the model is asked once.
        asked = len(bench.model.requests)
        answer = await bench.ask("chat", {**body, "stream": stream})
        assert len(bench.model.requests) == asked + 1
        assert len(await cases(bench)) == 1
        assert told(answer) == (None, None if stream else "no_memory")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_where_the_model_gives_no_second_reply_the_first_goes_on_and_says_so(
    tmp_path: Path, *, stream: bool
) -> None:
    async with read_the_lie(tmp_path, "anthropic") as (bench, body):

        def busy_afterwards(context: Context) -> Move:
            bench.model.faults = [Fault(status=529)]
            return wrong_where_it_reads_the_lie(context)

        bench.model.move = busy_afterwards
        answer = await bench.ask("anthropic", {**body, "stream": stream})
        assert answer.status == 200
        # The memory is hidden all the same, so its words are taken out of what goes on.
        assert RIGHT not in shown(answer)
        assert "was withdrawn" in shown(answer)
        assert LIE not in shown(answer)
        [case] = await cases(bench)
        assert told(answer) == (None, f"no_answer {case['incident_id']}")
        assert (case["state"], case["why"]) == ("needs_person", "still_wrong")


async def test_only_a_stream_behind_a_suspect_waits_until_it_is_whole(tmp_path: Path) -> None:
    broken = Fault(cut=200)
    async with read_the_lie(tmp_path, "chat") as (bench, body):
        bench.model.faults = [broken]
        answer = await bench.ask("chat", {**body, "stream": True})
        assert answer.status == 502, "nothing went on before the end was there"
        bench.model.faults = [broken]
        with pytest.raises(aiohttp.ClientPayloadError):
            await bench.ask("chat", asking("chat", "How are you?", stream=True))


async def test_where_only_a_person_may_hide_the_lie_the_model_is_not_asked_again(
    tmp_path: Path,
) -> None:
    more = 'on_conviction = "propose"\n'
    async with read_the_lie(tmp_path, "responses", more=more) as (bench, body):
        asked = len(bench.model.requests)
        answer = await bench.ask("responses", body)
        assert LIE in shown(answer)
        assert len(bench.model.requests) == asked + 1
        [case] = await cases(bench)
        assert told(answer) == (None, f"needs_person {case['incident_id']}")


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
                await bench.front.operate("POST", "/anchors", anchor)
        cases = (await bench.front.operate("GET", "/incidents"))["wrong_answers"]
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
