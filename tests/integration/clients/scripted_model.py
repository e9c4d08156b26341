"""A model behind OpenAI's Chat Completions that follows a script.

For each prompt of a person the script says which tools are called, batch after batch, and what is
said at the end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.integration.hosts.chat_model import ChatModel
from tests.integration.hosts.script import serving

Message = dict[str, Any]


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class Turn(msgspec.Struct, frozen=True):
    """The moves of the model after one prompt."""

    batches: tuple[tuple[Call, ...], ...] = ()
    final: str = "Done."


class ScriptedModel(ChatModel):
    """The script, and the body of every request that came."""

    def __init__(self, script: Mapping[str, Turn]) -> None:
        super().__init__()
        self.script = script

    def tool_results(self) -> list[str]:
        """What the tools told the model, in order, of the longest conversation seen."""
        return [one.text for one in self.results()]

    def user_texts(self) -> list[str]:
        """Every user message of every request, as the model got it."""
        messages = [message for body in self.requests for message in body["messages"]]
        return [str(one["content"]) for one in messages if one["role"] == "user"]

    def reply(self, body: dict[str, Any]) -> tuple[Message, str]:
        """The next batch of calls for the last prompt, or the final words."""
        messages: list[Message] = body["messages"]
        last = max(at for at, message in enumerate(messages) if message["role"] == "user")
        prompt = str(messages[last]["content"]).partition("\n\n<memory-context>")[0]
        turn = self.script.get(prompt, Turn())
        done = sum("tool_calls" in message for message in messages[last:])
        if done >= len(turn.batches):
            return {"role": "assistant", "content": turn.final}, "stop"
        calls = [
            {
                "id": f"call_{len(messages)}_{at}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for at, call in enumerate(turn.batches[done])
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


@asynccontextmanager
async def scripted_model(script: Mapping[str, Turn]) -> AsyncGenerator[ScriptedModel]:
    """A model on a free port; its `url` ends in `/v1`."""
    model = ScriptedModel(script)
    async with serving(model):
        model.url += "/v1"
        yield model
