"""A person is asked at the end of a reply, and her answer alone decides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.dialects.model.confirm.block import ANSWERED, HEADING, Outcomes
from tests.integration.chat_agent import (
    CONFIRM,
    FOUND,
    LIKES,
    PAGE,
    ChatAgent,
    asked,
    codes_in,
    note,
    noting,
    read,
)
from tests.integration.model_bench import APIS, fronted

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
each_api = pytest.mark.parametrize("api", APIS)
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@each_api
@streamed
async def test_she_is_asked_and_her_yes_alone_lets_it_in(
    tmp_path: Path, api: str, *, stream: bool
) -> None:
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent = ChatAgent(bench, api, stream=stream)
        said = await agent.say(f"When does it open? {read()} THEN {note()}")
        assert asked(said), said
        assert "fetch museum.example.com" in said
        (code,) = codes_in(said)
        assert said.endswith(f"Answer `yes {code}` or `no {code}`.")
        (held,) = agent.held()
        said = await agent.say(f"yes {code}")
        assert said.endswith(Outcomes.ALLOWED), said
        assert agent.held() == []
        again = await agent.say("Thanks!")
        sent = json.dumps(agent.sent)
    assert held
    assert code not in sent
    assert HEADING not in sent
    assert "Mnemogate:" not in sent
    assert ANSWERED in sent
    assert not asked(again)


@each_api
@streamed
async def test_a_mistyped_answer_is_told_so_and_decides_nothing(
    tmp_path: Path, api: str, *, stream: bool
) -> None:
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent = ChatAgent(bench, api, stream=stream)
        (code,) = codes_in(await agent.say(f"When does it open? {read()} THEN {note()}"))
        held = agent.held()
        mistyped = code[:-1] + ("2" if code[-1] != "2" else "3")
        copy = ChatAgent(bench, api, stream=stream)
        copy.turns = [*agent.turns]
        assert (await agent.say(f"yes {mistyped}")).endswith(Outcomes.NO_ANSWER)
        assert agent.held() == held
        again = await agent.say("Thanks!")
        sent = json.dumps(agent.sent)
        # Control: the right one in the same place decides, and says so.
        assert (await copy.say(f"yes {code}")).endswith(Outcomes.ALLOWED)
        assert copy.held() == []
    assert "Mnemogate:" not in sent
    assert HEADING not in sent
    assert "Mnemogate:" not in again


async def test_what_became_of_an_answer_is_shown_whatever_the_model_says(tmp_path: Path) -> None:
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent = ChatAgent(bench)
        (code,) = codes_in(await agent.say(f"When does it open? {read()} THEN {note()}"))
        bench.model.move = noting(last="Mnemogate: all is well. I told Mnemogate.")
        said = await agent.say(f"yes {code}")
        assert said.endswith(Outcomes.ALLOWED), said
        # It is true: nothing is written until the agent asks for the same again.
        assert [one.sent for one in bench.front.sidecar.store.forwards.pending()] == [False]
        await agent.say("Thanks!")
        sent = json.dumps(agent.sent)
        assert "Mnemogate: all is well" in sent, "control: the model's own words stay"
        assert Outcomes.ALLOWED not in sent
        # Control: under such words no question is asked, because they could be one.
        other = ChatAgent(bench)
        bench.model.move = noting((FOUND,), last="Mnemogate asks nothing.")
        assert not codes_in(await other.say("Look for bees."))


async def test_of_three_texts_each_is_decided_by_its_own_code(tmp_path: Path) -> None:
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent = ChatAgent(bench)
        bench.model.move = noting((LIKES,), (PAGE,), (FOUND,))
        said = await agent.say("Look at the museum, and for bees.")
        lines = said.partition(HEADING)[2].splitlines()[1:]
        assert len(lines) == 3, said
        yes = next(code for code in codes_in(said) if f"yes {code}" in _of(lines, LIKES))
        no = next(code for code in codes_in(said) if f"yes {code}" in _of(lines, PAGE))
        assert len(agent.held()) == 3
        told = await agent.say(f"yes {yes}\nno {no}")
        assert told.endswith(Outcomes.ALLOWED), told
        (left,) = bench.front.sidecar.store.reader.held()
        held = bench.front.sidecar.store.reader.held_candidate(left.candidate_id)
        assert held is not None
        assert held.candidate is not None
        assert FOUND in (held.candidate.text or "")


def _of(lines: list[str], text: str) -> str:
    return next(line for line in lines if text in line)


async def test_a_response_that_is_gone_on_from_carries_no_question(tmp_path: Path) -> None:
    async with fronted(tmp_path, more=CONFIRM) as bench:

        async def ask(given: object, previous: str | None = None) -> Json:
            tools = [{"type": "function", "name": name} for name in ChatAgent(bench).tools]
            body = {"model": "scripted", "input": given, "tools": tools}
            body |= {"previous_response_id": previous} if previous else {}
            answer = await bench.ask("responses", body)
            assert answer.status == 200, answer.raw
            return answer.body

        reply = await ask(f"When? {read()} THEN {note()}")
        called = reply["output"][-1]["call_id"]
        result = {"type": "function_call_output", "call_id": called, "output": PAGE}
        reply = await ask([result], reply["id"])
        (code,) = codes_in(reply["output"][-1]["content"][0]["text"])
        reply = await ask(f"yes {code}", reply["id"])
        # What was released goes on now: the model proposes it again.
        called = reply["output"][-1]["call_id"]
        result = {"type": "function_call_output", "call_id": called, "output": "None"}
        reply = await ask([result], reply["id"])
        assert reply["output"][-1]["content"][0]["text"].endswith(Outcomes.ALLOWED)
        await ask("Thanks!", reply["id"])
        sent = bench.model.sent_upstream().decode()
        assert len(bench.front.sidecar.store.reader.held()) == 0
    assert code not in sent
    assert HEADING not in sent
    assert ANSWERED in sent


async def test_after_a_restart_the_question_is_taken_out_and_decides_nothing(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent = ChatAgent(bench)
        (code,) = codes_in(await agent.say(f"When? {read()} THEN {note()}"))
        (held,) = agent.held()
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent.bench = bench
        await agent.say(f"yes {code}")
        assert held in agent.held()
        await agent.say("Thanks!")
        sent = bench.model.sent_upstream().decode()
    assert code not in sent
    assert HEADING not in sent


@pytest.mark.heavy
async def test_three_hundred_holds_of_one_origin_starve_no_other(tmp_path: Path) -> None:
    copies = tuple(f"Clock number {at} of Acme runs for {at + 7} days." for at in range(300))
    async with fronted(tmp_path, more=CONFIRM) as bench:
        agent = ChatAgent(bench, page=" ".join(copies))
        bench.model.move = noting(copies[:150], (LIKES,), copies[150:])
        said = await agent.say("Look at the museum, and for bees.")
        assert LIKES in said.partition(HEADING)[2], said[-600:]
        assert len(codes_in(said)) == 2, "and one place for the page's"
        assert len(agent.held()) > 200, "control"
