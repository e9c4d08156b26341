"""Edits streams of Anthropic's Messages API: tool calls wait, everything else is forwarded.

A refused call does not reach the agent, which gets a text in its place. If no other call is
forwarded, the model is asked again with the refusal as the call's result, and its new words
continue the same message. So the agent gets one reply, and can continue its work.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.anthropic.messages import read_reply
from proxy.dialects.model.reading import (
    arguments_of,
    call_of,
    list_of,
    object_of,
    spelled,
    text_of,
)
from proxy.dialects.model.stream import (
    CallDecision,
    CompleteCall,
    UnreadableEvent,
    added,
    event_of,
    payload,
    summed,
)
from proxy.dialects.model.transcript import ModelReply
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json

_CALL: Final = "tool_use"
_BEGIN: Final = "content_block_start"
_JSON_PIECE: Final = "partial_json"
# For each type of delta (an added piece), the field of the block that the piece is appended to.
_ADDS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class _Block:
    """One content block of a reply, while its deltas arrive."""

    def __init__(self, start: dict[str, Json], *, waits: bool) -> None:
        self.start = start
        self.waits = waits
        self.done = False
        self.events: list[tuple[Event, dict[str, Json]]] = []
        self.added: dict[str, list[str]] = {}
        # Whether other parsers might build a different call from the block's deltas.
        self.odd = False
        self.citations: list[Json] = []

    def add(self, delta: dict[str, Json]) -> None:
        kind = text_of(delta.get("type")) or ""
        if kind == "citations_delta":
            self.citations.append(delta.get("citation"))
            return
        field = _ADDS.get(kind)
        given = delta.get("partial_json")
        self.odd = self.odd or field != "partial_json" or not isinstance(given, str)
        if field is None:
            return
        value = delta.get("partial_json" if field == "partial_json" else field)
        if isinstance(value, str):
            self.added.setdefault(field, []).append(value)

    def arguments(self) -> dict[str, Json] | None:
        """The input of a call; None if the deltas that arrived are no JSON object."""
        given = self.given()
        return arguments_of({} if given is None else given)

    def given(self) -> Json:
        """The input of a call as it arrived: its deltas joined, or else its initial input."""
        return "".join(self.added.get("partial_json", ())) or self.start.get("input")

    def waiting(self, whole: dict[str, Json], key: int) -> CompleteCall:
        """The block in the form of a call that waits for its verdict."""
        given = self.given()
        call = call_of(whole.get("id"), whole.get("name"), {} if given is None else given)
        return CompleteCall(key=key, call=call)

    def whole(self) -> dict[str, Json]:
        """The block in the form that it has in a whole reply."""
        block = dict(self.start)
        for field, parts in self.added.items():
            if field == "partial_json":
                text = "".join(parts)
                block["input"] = (self.arguments() or {}) if text else block.get("input")
            else:
                block[field] = (text_of(block.get(field)) or "") + "".join(parts)
        if self.citations:
            block["citations"] = [*list_of(block.get("citations")), *self.citations]
        return block


class AnthropicEditor:
    """Edits one streamed reply of the Messages API (`Editor`)."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        # The blocks of the model's reply to the latest request, refused calls included.
        self._content: list[Json] = []
        self._refusals: list[tuple[str, str]] = []
        self._going_on = 0
        # The number of blocks that the agent got from earlier requests to the model.
        self._shift = 0
        self._sent = 0
        self._reply_id: str | None = None
        # Whether the editor has been fed the end of the reply.
        self.over = False
        self._spent: dict[str, int] = {}  # tokens that earlier requests to the model have spent
        # The latest `message_delta` event that was not sent to the agent.
        self._last: dict[str, Json] = {}

    @property
    def holds(self) -> bool:
        """Whether any event waits for a decision."""
        return any(block.waits for block in self._blocks.values())

    def said(self) -> ModelReply:
        """The model's words and calls in reply to the latest request, refused calls included.

        Incomplete blocks count as far as they arrived.
        """
        content: list[Json] = [*self._content]
        content += [block.whole() for block in self._blocks.values() if not block.done]
        return read_reply({"id": self._reply_id, "content": content})

    def feed(self, event: Event) -> tuple[bytes, tuple[CompleteCall, ...]]:
        """Take an event; return the bytes to forward now, and the complete calls that wait."""
        body = payload(event)
        kind = text_of(body.get("type")) if body is not None else None
        if body is None or kind is None:
            called = body is not None and ("content_block" in body or _JSON_PIECE in str(body))
            return (b"" if called else event.raw), ()
        if event.name not in {"", kind} or ("content_block" in body and kind != _BEGIN):
            # Some parsers go by the event's name, others by the type in its data, so both are made
            # equal.
            lean: dict[str, Json] = {key: body[key] for key in body if key != "content_block"}
            body = body if kind == _BEGIN else lean
            raw = event_of(kind, body)
            event = Event(raw=raw, name=kind, data=event.data)
        if kind == "message_start":
            first = self._reply_id is None
            if first:
                self._reply_id = text_of(object_of(body.get("message")).get("id")) or ""
            return (_begun(event, body) if first else b""), ()
        if kind.startswith("content_block_"):
            return self._block(event, body, kind)
        if kind == "message_delta":
            return self._delta(event, body), ()
        if kind == "message_stop":
            self.over = True
            return (b"" if self.refused_all() else event.raw), ()
        return event.raw, ()

    def decide(self, decided: CallDecision) -> bytes:
        """Take the decision on a waiting call; return the bytes to forward in its place."""
        block = self._blocks.pop(decided.key)
        self._sent += 1
        if decided.refusal is None:
            self._going_on += 1
            # `place` is the index of the call's block as the agent counts blocks. If the call's
            # deltas have another index, or could be read as another call, it is written anew.
            place = self._sent - 1
            given = "".join(block.added.get(_JSON_PIECE, ()))
            if (
                block.odd
                or decided.key + self._shift != place
                or (given and block.start.get("input"))
            ):
                return _as_judged(place, block)
            return b"".join(self._moved(*one, decided.key) for one in block.events)
        self._refusals.append((text_of(block.start.get("id")) or "", decided.refusal))
        return _text_block(decided.key + self._shift, decided.refusal)

    def refused_all(self) -> bool:
        """Whether the reply has calls and all were refused, so that the model is asked again."""
        return bool(self._refusals) and not self._going_on and not self.holds

    def again(self) -> list[Json]:
        """Prepare for a second request; return the messages to append to its conversation.

        They are the model's reply, and the refusals as results of the reply's calls.
        """
        said, refusals = self._content, self._refusals
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": True}
            for call_id, text in refusals
        ]
        self._content, self._refusals, self._going_on = [], [], 0
        self._shift = self._sent
        self.over = False
        return [{"role": "assistant", "content": said}, {"role": "user", "content": results}]

    def close(self) -> bytes:
        """The bytes that end a reply whose calls were all refused, without a second request."""
        delta: dict[str, Json] = {"stop_reason": "end_turn", "stop_sequence": None}
        usage: dict[str, Json] = {"output_tokens": 0, **self._spent}
        ended: dict[str, Json] = {**self._last, "type": "message_delta"}
        ended |= {"delta": delta, "usage": usage}
        self.over = True
        return event_of("message_delta", ended) + event_of("message_stop", {"type": "message_stop"})

    def _delta(self, event: Event, body: dict[str, Json]) -> bytes:
        usage = object_of(body.get("usage"))
        if self.refused_all():
            # The message is not over for the agent, so its end is not forwarded before the second
            # reply of the model.
            self._spent = added(self._spent, usage)
            self._last = body
            return b""
        if not self._spent:
            return event.raw
        return event_of(event.name, {**body, "usage": summed(usage, self._spent)})

    def _block(
        self, event: Event, body: dict[str, Json], kind: str
    ) -> tuple[bytes, tuple[CompleteCall, ...]]:
        index = body.get("index")
        if not isinstance(index, int):
            # An event without an index belongs to no block.
            return b"", ()
        if kind == "content_block_start":
            start = object_of(body.get("content_block"))
            calls = start.get("type") == _CALL
            if any(block.waits or calls for block in self._blocks.values()):
                # While two blocks are open at once, other parsers might mix up the blocks' deltas.
                raise UnreadableEvent
            self._blocks[index] = _Block(start, waits=calls)
        block = self._blocks.get(index)
        if block is None:
            # A delta of JSON arguments that belongs to no open block is dropped: its call has
            # ended, or never began.
            return (b"" if _JSON_PIECE in object_of(body.get("delta")) else event.raw), ()
        if kind == "content_block_delta":
            block.add(object_of(body.get("delta")))
        if block.waits:
            block.events.append((event, body))
        if kind != "content_block_stop":
            return (b"" if block.waits else self._moved(event, body, index)), ()
        whole = block.whole()
        self._content.append(whole)
        if block.waits:
            block.done = True
            return b"", (block.waiting(whole, index),)
        del self._blocks[index]
        self._sent += 1
        return self._moved(event, body, index), ()

    def _moved(self, event: Event, body: dict[str, Json], index: int) -> bytes:
        if not self._shift:
            return event.raw
        return event_of(event.name, {**body, "index": index + self._shift})


def _begun(event: Event, body: dict[str, Json]) -> bytes:
    """The event that begins a message, without content if it contains a call.

    Calls come as blocks of their own.
    """
    message = object_of(body.get("message"))
    if not any(object_of(block).get("type") == _CALL for block in list_of(message.get("content"))):
        return event.raw
    return event_of(event.name, {**body, "message": {**message, "content": []}})


def _as_judged(index: int, block: _Block) -> bytes:
    """The events of a judged call, written anew with one delta, so that all parsers agree on it."""
    given = block.given()
    piece = "{}" if given is None else spelled(given)
    begun: dict[str, Json] = {**block.start, "input": {}}
    return _events(index, begun, {"type": "input_json_delta", _JSON_PIECE: piece})


def _text_block(index: int, text: str) -> bytes:
    block: dict[str, Json] = {"type": "text", "text": ""}
    return _events(index, block, {"type": "text_delta", "text": text})


def _events(index: int, block: dict[str, Json], delta: dict[str, Json]) -> bytes:
    return b"".join(
        event_of(kind, {"type": kind, "index": index, **more})
        for kind, more in (
            ("content_block_start", {"content_block": block}),
            ("content_block_delta", {"delta": delta}),
            ("content_block_stop", {}),
        )
    )
