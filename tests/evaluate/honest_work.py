"""A scripted agent in front of a sidecar, with a model that says what the script tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from proxy.dialects.strict_json.strict import JsonValue
from tests.evaluate.model import ScriptedModel, asked
from tests.evaluate.systems import Bench

TOOLS: Final = ("read_file", "write_file", "send_mail", "keep_note")
NO_TOOLS: Final[Mapping[str, Sequence[str]]] = {}
Arguments = dict[str, JsonValue]
"""Of a call: what JSON has, however deep."""
_STREAMED: Final = b"data: "


class Move(NamedTuple):
    """What the scripted model says next, with at most one call."""

    text: str
    call_id: str = ""
    name: str = ""
    arguments: Arguments = {}  # noqa: RUF012 - nobody changes it


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Arguments = {}
    partial_json: str = ""


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    index: int = 0
    content_block: _Block = _Block()
    delta: _Block = _Block()


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class _ToolCall(msgspec.Struct, frozen=True):
    id: str
    function: _Function


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    tool_calls: tuple[_ToolCall, ...] = ()


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Reply(msgspec.Struct, frozen=True):
    content: tuple[_Block, ...] = ()
    choices: tuple[_Choice, ...] = ()


class _Sent(msgspec.Struct, frozen=True):
    messages: tuple[msgspec.Raw, ...]


_EVENT: Final = msgspec.json.Decoder(_Event)
_REPLY: Final = msgspec.json.Decoder(_Reply)
_SENT: Final = msgspec.json.Decoder(_Sent)
_ARGUMENTS: Final = msgspec.json.Decoder(Arguments)


class Worker(ScriptedModel):
    """A scripted model that answers every request with its next move."""

    def __init__(self) -> None:
        super().__init__()
        self.move = Move("")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one model request; only the last request is kept."""
        raw = await request.read()
        self.received[:] = [raw]
        if request.path.endswith("completions"):
            return web.json_response(_chat(self.move))
        if b'"stream": true' not in raw and b'"stream":true' not in raw:
            return web.json_response(_message(self.move))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in _events(self.move):
            data = msgspec.json.encode(event)
            await response.write(f"event: {event['type']}\ndata: ".encode() + data + b"\n\n")
        await response.write_eof()
        return response


class Agent:
    """One conversation of an agent with its scripted model."""

    def __init__(
        self,
        bench: Bench,
        worker: Worker,
        key: str,
        api: str,
        *,
        stream: bool,
        tools: Mapping[str, Sequence[str]] = NO_TOOLS,
    ) -> None:
        """`tools`: tools besides `TOOLS`, each with its argument names."""
        self._bench, self._worker, self._key = bench, worker, key
        self._api, self._stream = api, stream
        self._tools = {**dict.fromkeys(TOOLS, ()), **tools}
        self.messages: list[JsonValue] = []
        # The kinds of all messages so far. `altered` has the positions of the messages that arrived
        # altered.
        self.kinds: list[str] = []
        self.altered: set[int] = set()

    def say(self, text: str) -> None:
        """Add a turn in which the person says something."""
        self._add("person", {"role": "user", "content": text})

    def result(self, call_id: str, text: str) -> None:
        """Add a tool's result."""
        if self._api == "openai":
            self._add("result", {"role": "tool", "tool_call_id": call_id, "content": text})
            return
        block: JsonValue = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        self._add("result", {"role": "user", "content": [block]})

    def _add(self, kind: str, message: JsonValue) -> None:
        self.messages.append(message)
        self.kinds.append(kind)

    async def turn(self, move: Move, system: str = "") -> Move:
        """Ask the model; returns the model's move as the agent got it."""
        self._worker.move = move
        said = await asked(self._bench, self._key, self._api, self._body(system))
        sent = _SENT.decode(self._worker.received[-1]).messages
        offset = len(sent) - len(self.messages)
        for at, (message, kind) in enumerate(zip(self.messages, self.kinds, strict=True)):
            if kind and msgspec.json.decode(sent[at + offset]) != message:
                self.altered.add(at)
        heard = self._heard(said)
        self._add("", self._spoken(heard))
        return heard

    def count(self, kind: str) -> tuple[int, int]:
        """The number of altered messages of one kind, and of all messages of that kind."""
        mine = [at for at, one in enumerate(self.kinds) if one == kind]
        return sum(at in self.altered for at in mine), len(mine)

    def _body(self, system: str) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {"model": "scripted", "stream": self._stream}
        if self._api == "openai":
            tools: list[JsonValue] = [
                {"type": "function", "function": {"name": name, "parameters": _schema(given)}}
                for name, given in self._tools.items()
            ]
            above: list[JsonValue] = [{"role": "system", "content": system}] if system else []
            return {**body, "tools": tools, "messages": [*above, *self.messages]}
        tools = [
            {"name": name, "input_schema": _schema(given)} for name, given in self._tools.items()
        ]
        body |= {"system": system} if system else {}
        return {**body, "max_tokens": 64, "tools": tools, "messages": self.messages}

    def _heard(self, raw: bytes) -> Move:
        if self._api == "openai":
            message = _REPLY.decode(raw).choices[0].message
            for call in message.tool_calls:
                arguments = _ARGUMENTS.decode(call.function.arguments)
                return Move(message.content or "", call.id, call.function.name, arguments)
            return Move(message.content or "")
        blocks = _pieced(raw) if self._stream else _REPLY.decode(raw).content
        text = "".join(block.text for block in blocks if block.type == "text")
        for block in blocks:
            if block.type == "tool_use":
                return Move(text, block.id, block.name, block.input)
        return Move(text)

    def _spoken(self, move: Move) -> JsonValue:
        if self._api == "openai":
            return _chat_message(move)
        return {"role": "assistant", "content": _message(move)["content"]}


def _schema(arguments: Iterable[str]) -> JsonValue:
    return {"type": "object", "properties": {name: {} for name in arguments}}


def _pieced(raw: bytes) -> tuple[_Block, ...]:
    """The blocks of a stream, put together as a client does it."""
    blocks: dict[int, _Block] = {}
    given: dict[int, str] = {}
    for line in raw.split(b"\n"):
        if not line.startswith(_STREAMED):
            continue
        event = _EVENT.decode(line.removeprefix(_STREAMED))
        if event.type == "content_block_start":
            blocks[event.index] = event.content_block
        elif event.type == "content_block_delta":
            block = blocks[event.index]
            text = block.text + event.delta.text
            blocks[event.index] = msgspec.structs.replace(block, text=text)
            given[event.index] = given.get(event.index, "") + event.delta.partial_json
    for at, text in given.items():
        if text:
            blocks[at] = msgspec.structs.replace(blocks[at], input=_ARGUMENTS.decode(text))
    return tuple(blocks[at] for at in sorted(blocks))


def _message(move: Move) -> dict[str, JsonValue]:
    content: list[JsonValue] = [{"type": "text", "text": move.text}] if move.text else []
    if move.name:
        use: JsonValue = {
            "type": "tool_use",
            "id": move.call_id,
            "name": move.name,
            "input": {**move.arguments},
        }
        content.append(use)
    return {
        "id": f"msg_{move.call_id}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "tool_use" if move.name else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(move: Move) -> list[dict[str, JsonValue]]:
    whole = _message(move)
    events: list[dict[str, JsonValue]] = [
        {"type": "message_start", "message": {**whole, "content": []}}
    ]

    def block(index: int, start: JsonValue, deltas: list[JsonValue]) -> None:
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.extend(
            {"type": "content_block_delta", "index": index, "delta": one} for one in deltas
        )
        events.append({"type": "content_block_stop", "index": index})

    words = move.text.split(" ")
    pieces = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
    block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces])
    if move.name:
        raw = msgspec.json.encode(move.arguments).decode()
        start: JsonValue = {"type": "tool_use", "id": move.call_id, "name": move.name, "input": {}}
        half = len(raw) // 2
        block(
            1,
            start,
            [{"type": "input_json_delta", "partial_json": p} for p in (raw[:half], raw[half:])],
        )
    delta: JsonValue = {"stop_reason": whole["stop_reason"]}
    events.append({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
    return [*events, {"type": "message_stop"}]


def _chat_message(move: Move) -> dict[str, JsonValue]:
    message: dict[str, JsonValue] = {"role": "assistant", "content": move.text}
    if move.name:
        given = msgspec.json.encode(move.arguments).decode()
        function: JsonValue = {"name": move.name, "arguments": given}
        message["tool_calls"] = [{"id": move.call_id, "type": "function", "function": function}]
    return message


def _chat(move: Move) -> dict[str, JsonValue]:
    choice: JsonValue = {
        "index": 0,
        "message": _chat_message(move),
        "finish_reason": "tool_calls" if move.name else "stop",
    }
    return {
        "id": f"chatcmpl-{move.call_id}",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
