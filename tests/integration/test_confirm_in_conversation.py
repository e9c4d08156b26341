"""A person is asked at the end of a reply, and her answer alone decides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.dialects.model.confirm.block import ANSWERED, HEADING, Outcomes
from tests.integration.chat_agent import CONFIRM, ChatAgent, asked, codes_in, note, read
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
        assert said.endswith(Outcomes.REMEMBERED), said
        assert agent.held() == []
        again = await agent.say("Thanks!")
        sent = json.dumps(agent.sent)
    assert held
    assert code not in sent
    assert HEADING not in sent
    assert "Mnemogate:" not in sent
    assert ANSWERED in sent
    assert not asked(again)
