"""An agent without judgement: it sends its history, runs the calls it gets, and sends the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

Json = dict[str, Any]
PATHS = {
    "anthropic": "/anthropic/v1/messages",
    "chat": "/openai/v1/chat/completions",
    "responses": "/openai/v1/responses",
}
TOOLS = ("fetch", "save", "mail")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that came out of a reply."""

    call_id: str
    name: str
    arguments: Json


class Conversation:
    """The history of one task under one API."""

    def __init__(self, api: str, prompt: str, *, stream: bool) -> None:
        self.api = api
        self.stream = stream
        self._turns: list[Json] = []
        self.say(prompt)

    def say(self, text: str) -> None:
        message: Json = {"role": "user", "content": text}
        self._turns.append({"type": "message", **message} if self.api == "responses" else message)

    @property
    def body(self) -> Json:
        body: Json = {"model": "scripted", "stream": self.stream}
        if self.api == "anthropic":
            tools: list[Json] = [
                {"name": name, "input_schema": {"type": "object"}} for name in TOOLS
            ]
            return {**body, "max_tokens": 64, "messages": self._turns, "tools": tools}
        if self.api == "chat":
            tools = [{"type": "function", "function": {"name": name}} for name in TOOLS]
            return {**body, "messages": self._turns, "tools": tools}
        tools = [{"type": "function", "name": name} for name in TOOLS]
        return {**body, "input": self._turns, "tools": tools, "store": False}

    def hear(self, raw: bytes) -> list[Call]:
        """Take a reply into the history; the calls to run."""
        reply = _streamed(self.api, raw) if self.stream else json.loads(raw)
        if self.api == "anthropic":
            self._turns.append({"role": "assistant", "content": reply["content"]})
            found = [block for block in reply["content"] if block["type"] == "tool_use"]
            return [
                Call(call_id=one["id"], name=one["name"], arguments=one["input"]) for one in found
            ]
        if self.api == "chat":
            message = reply["choices"][0]["message"]
            self._turns.append(message)
            functions = [(one["id"], one["function"]) for one in message.get("tool_calls") or ()]
            return [
                Call(call_id=at, name=one["name"], arguments=json.loads(one["arguments"]))
                for at, one in functions
            ]
        self._turns += reply["output"]
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        return [
            Call(call_id=one["call_id"], name=one["name"], arguments=json.loads(one["arguments"]))
            for one in calls
        ]

    def run(self, call: Call, result: str, *, failed: bool = False) -> None:
        if self.api == "anthropic":
            block: Json = {"type": "tool_result", "tool_use_id": call.call_id, "content": result}
            block |= {"is_error": True} if failed else {}
            self._turns.append({"role": "user", "content": [block]})
        elif self.api == "chat":
            self._turns.append({"role": "tool", "tool_call_id": call.call_id, "content": result})
        else:
            item = {"type": "function_call_output", "call_id": call.call_id, "output": result}
            self._turns.append(item)


def _events(raw: bytes) -> Iterator[Json]:
    for line in raw.decode().splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _streamed(api: str, raw: bytes) -> Json:
    """A reply put together as the vendors' own clients do it."""
    if api == "responses":
        ended = [event for event in _events(raw) if event["type"].endswith("completed")]
        reply: Json = ended[-1]["response"]
        return reply
    if api == "chat":
        return _chat(raw)
    blocks: dict[int, Json] = {}
    given: dict[int, str] = {}
    for event in _events(raw):
        if event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta, at = event["delta"], event["index"]
            if delta["type"] == "text_delta":
                blocks[at]["text"] += delta["text"]
            elif delta["type"] == "input_json_delta":
                given[at] = given.get(at, "") + delta["partial_json"]
    for at, text in given.items():
        blocks[at]["input"] = json.loads(text)
    return {"content": [blocks[at] for at in sorted(blocks)]}


def _chat(raw: bytes) -> Json:
    message: Json = {"role": "assistant", "content": ""}
    calls: dict[int, Json] = {}
    for event in _events(raw):
        for choice in event["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                empty: Json = {"type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(part["index"], empty)
                call["id"] = part.get("id") or call.get("id")
                for key in ("name", "arguments"):
                    call["function"][key] += part.get("function", {}).get(key) or ""
    if calls:
        message["tool_calls"] = [calls[at] for at in sorted(calls)]
    return {"choices": [{"message": message}]}
