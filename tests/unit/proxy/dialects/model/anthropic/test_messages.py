"""Whose words a message is, by its role."""

from __future__ import annotations

import pytest

from proxy.dialects.model.api import ANTHROPIC
from proxy.dialects.model.transcript import Voice
from proxy.dialects.strict_json.tolerant import Json


@pytest.mark.parametrize(
    ("role", "voice"),
    [
        ("user", Voice.USER),
        ("assistant", Voice.MODEL),
        # Claude Code 2.1.197: reminders and lists of agents, between the turns.
        ("system", Voice.SYSTEM),
        ("developer", Voice.UNPLACED),
        ("User", Voice.UNPLACED),
        (None, Voice.UNPLACED),
    ],
)
def test_only_a_user_message_is_a_users(role: str | None, voice: Voice) -> None:
    text = "I prefer to pay by card."
    contents: list[Json] = [text, [{"type": "text", "text": text}]]
    for content in contents:
        request = ANTHROPIC.read_request({"messages": [{"role": role, "content": content}]})
        (turn,) = request.turns
        assert [said.voice for said in turn.said] == [voice]
