"""A chat with an unmodified `openai` or `anthropic` SDK in which a person answers a question.

    python confirm_drive.py chat|responses|anthropic whole|stream ELSE

It finds the API where the SDK's own variable says. She says what she wants, then answers what she
is asked: yes to each text, or says ELSE where nobody asks. Prints what she read.
"""

import json
import re
import sys
from contextlib import suppress
from typing import Any

with suppress(ImportError):  # each environment has one of them
    import anthropic
with suppress(ImportError):
    import openai

NAMES = ("fetch", "core_memory_append", "archival_memory_search")
RESULTS = {
    "fetch": "The museum of clocks opens at nine and closes at five on weekdays.",
    "archival_memory_search": "The user keeps four hives of bees behind the old mill.",
}
TURNS_MAX = 8


def result_of(name: str) -> str:
    """What a tool answers."""
    return RESULTS.get(name, "None")


class Chat:
    """Chat Completions."""

    def __init__(self, *, stream: bool) -> None:
        self.client = openai.OpenAI(max_retries=0)
        self.stream = stream
        self.messages: list[Any] = []

    def ask(self, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        tools = [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
            for name in NAMES
        ]
        for _ in range(TURNS_MAX):
            asked: dict[str, Any] = {
                "model": "scripted",
                "messages": self.messages,
                "tools": tools,
            }
            if self.stream:
                with self.client.chat.completions.stream(**asked) as events:
                    for _event in events:
                        pass
                    made = events.get_final_completion()
            else:
                made = self.client.chat.completions.create(**asked)
            message = made.choices[0].message
            self.messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            if not message.tool_calls:
                return str(message.content or "")
            for call in message.tool_calls:
                text = result_of(call.function.name)
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        raise SystemExit("the model goes on and on")


class Responses:
    """Responses, each going on from the one before it."""

    def __init__(self, *, stream: bool) -> None:
        self.client = openai.OpenAI(max_retries=0)
        self.stream = stream
        self.previous: Any = openai.omit

    def ask(self, text: str) -> str:
        given: Any = text
        tools = [{"type": "function", "name": name, "parameters": {}} for name in NAMES]
        for _ in range(TURNS_MAX):
            asked: dict[str, Any] = {
                "model": "scripted",
                "input": given,
                "tools": tools,
                "previous_response_id": self.previous,
            }
            if self.stream:
                with self.client.responses.stream(**asked) as events:
                    for _event in events:
                        pass
                    made = events.get_final_response()
            else:
                made = self.client.responses.create(**asked)
            self.previous = made.id
            calls = [item for item in made.output if item.type == "function_call"]
            if not calls:
                return str(made.output_text)
            given = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": result_of(call.name),
                }
                for call in calls
            ]
        raise SystemExit("the model goes on and on")


class Messages:
    """Anthropic's Messages."""

    def __init__(self, *, stream: bool) -> None:
        self.client = anthropic.Anthropic(max_retries=0)
        self.stream = stream
        self.messages: list[Any] = []

    def ask(self, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in NAMES]
        for _ in range(TURNS_MAX):
            asked: dict[str, Any] = {
                "model": "scripted",
                "max_tokens": 256,
                "messages": self.messages,
                "tools": tools,
            }
            if self.stream:
                with self.client.messages.stream(**asked) as events:
                    made = events.get_final_message()
            else:
                made = self.client.messages.create(**asked)
            self.messages.append({"role": "assistant", "content": made.content})
            calls = [block for block in made.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in made.content if block.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result_of(call.name)}
                for call in calls
            ]
            self.messages.append({"role": "user", "content": results})
        raise SystemExit("the model goes on and on")


def main() -> None:
    api, how, otherwise = sys.argv[1:]
    stream = how == "stream"
    client: Chat | Responses | Messages
    if api == "anthropic":
        client = Messages(stream=stream)
    else:
        client = Chat(stream=stream) if api == "chat" else Responses(stream=stream)
    said = client.ask("Look at the museum, and for bees.")
    codes = re.findall(r"`yes (\w{8})`", said)
    lines = [f"yes {code}" for code in codes]
    told = client.ask("\n".join(lines) or otherwise)
    last = client.ask("Thanks!")
    seen = {"asked": said, "codes": codes, "told": told, "last": last}
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
