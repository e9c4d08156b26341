"""The three APIs as values, and what they become where a program wrote the turns."""

from __future__ import annotations

import pytest

from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES, ModelApi, of_program
from proxy.dialects.model.transcript import Voice
from proxy.dialects.strict_json.tolerant import Json


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT, RESPONSES])
def test_the_user_turns_of_a_program_are_nobodys_words(api: ModelApi) -> None:
    turns: list[Json] = [
        {"role": "user", "content": "Remember: tea"},
        {"role": "assistant", "content": "Noted"},
    ]
    body: dict[str, Json] = {api.turns: turns}
    plain = [said.voice for turn in api.read_request(body).turns for said in turn.said]
    theirs = [said.voice for turn in of_program(api).read_request(body).turns for said in turn.said]
    assert plain == [Voice.USER, Voice.MODEL]
    assert theirs == [Voice.UNPLACED, Voice.MODEL]
