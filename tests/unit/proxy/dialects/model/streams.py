"""Replies of the four model APIs as they stream, written here."""

from __future__ import annotations

import json
from itertools import count

import msgspec

from proxy.dialects.model.stream import event_of
from proxy.dialects.strict_json.tolerant import Json


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a scripted model makes."""

    call_id: str
    name: str = "save"
    arguments: str = '{"text":"tea"}'


def anthropic(*parts: str | Call, thinking: str = "") -> bytes:
    """A streamed message: texts and calls in order."""
    out = [
        _typed("message_start", message={"id": "msg_1", "usage": {"input_tokens": 9}}),
        _typed("ping"),
    ]
    blocks: list[str | Call] = [*parts]
    index = count()
    if thinking:
        out += _thinking(next(index), thinking)
    for part in blocks:
        out += _text(next(index), part) if isinstance(part, str) else _use(next(index), part)
    reason = "tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn"
    out.append(_typed("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 5}))
    return b"".join([*out, _typed("message_stop")])


def chat(*parts: str | Call) -> bytes:
    """A streamed completion of one choice."""
    out = [_chunk({"role": "assistant", "content": ""})]
    at = count()
    for part in parts:
        if isinstance(part, str):
            out.append(_chunk({"content": part}))
            continue
        index = next(at)
        half = len(part.arguments) // 2
        head: dict[str, Json] = {
            "index": index,
            "id": part.call_id,
            "type": "function",
            "function": {"name": part.name, "arguments": ""},
        }
        out.append(_chunk({"tool_calls": [head]}))
        out.extend(
            _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in (part.arguments[:half], part.arguments[half:])
        )
    reason = "tool_calls" if any(isinstance(part, Call) for part in parts) else "stop"
    return b"".join([*out, _chunk({}, reason), b"data: [DONE]\n\n"])


def responses(*parts: str | Call) -> bytes:
    """A streamed response."""
    number = count()
    out: list[bytes] = []
    output: list[Json] = []

    def say(kind: str, **more: Json) -> None:
        out.append(event_of(kind, {"type": kind, "sequence_number": next(number), **more}))

    say("response.created", response={"id": "resp_1", "output": []})
    for index, part in enumerate(parts):
        item = _message(index, part) if isinstance(part, str) else _function(index, part)
        say("response.output_item.added", output_index=index, item={**item, "status": "began"})
        if isinstance(part, str):
            say("response.output_text.delta", output_index=index, content_index=0, delta=part)
        else:
            for piece in part.arguments:
                say("response.function_call_arguments.delta", output_index=index, delta=piece)
        say("response.output_item.done", output_index=index, item=item)
        output.append(item)
    say("response.completed", response={"id": "resp_1", "output": output})
    return b"".join(out)


def gemini(*parts: str | Call, thinking: str = "") -> bytes:
    """A streamed response of one candidate."""
    given: list[dict[str, Json]] = [{"text": thinking, "thought": True}] if thinking else []
    for part in parts:
        if isinstance(part, str):
            given.append({"text": part})
            continue
        call: dict[str, Json] = {"id": part.call_id, "name": part.name}
        call["args"] = json.loads(part.arguments)
        given.append({"functionCall": call, "thoughtSignature": "c2ln"})
    last: dict[str, Json] = {"text": ""}
    chunks = [_candidate(part) for part in given]
    return b"".join([*chunks, _candidate(last, finishReason="STOP")])


def _candidate(part: dict[str, Json], **more: Json) -> bytes:
    one: dict[str, Json] = {"content": {"role": "model", "parts": [part]}, "index": 0, **more}
    usage: dict[str, Json] = {"promptTokenCount": 9, "totalTokenCount": 14}
    return event_of("", {"candidates": [one], "usageMetadata": usage, "responseId": "g_1"})


def _typed(kind: str, **more: Json) -> bytes:
    return event_of(kind, {"type": kind, **more})


def _text(index: int, text: str) -> list[bytes]:
    return [
        _typed("content_block_start", index=index, content_block={"type": "text", "text": ""}),
        _typed("content_block_delta", index=index, delta={"type": "text_delta", "text": text}),
        _typed("content_block_stop", index=index),
    ]


def _thinking(index: int, text: str) -> list[bytes]:
    block: dict[str, Json] = {"type": "thinking", "thinking": "", "signature": ""}
    return [
        _typed("content_block_start", index=index, content_block=block),
        _typed(
            "content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": text}
        ),
        _typed(
            "content_block_delta",
            index=index,
            delta={"type": "signature_delta", "signature": "c2ln"},
        ),
        _typed("content_block_stop", index=index),
    ]


def _use(index: int, call: Call) -> list[bytes]:
    block: dict[str, Json] = {
        "type": "tool_use",
        "id": call.call_id,
        "name": call.name,
        "input": {},
    }
    half = len(call.arguments) // 2
    pieces = (call.arguments[:half], call.arguments[half:])
    return [
        _typed("content_block_start", index=index, content_block=block),
        *(
            _typed(
                "content_block_delta",
                index=index,
                delta={"type": "input_json_delta", "partial_json": piece},
            )
            for piece in pieces
        ),
        _typed("content_block_stop", index=index),
    ]


def _chunk(delta: dict[str, Json], reason: str | None = None) -> bytes:
    choice: dict[str, Json] = {"index": 0, "delta": delta, "finish_reason": reason}
    body: dict[str, Json] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [choice],
    }
    return event_of("", body)


def _message(index: int, text: str) -> dict[str, Json]:
    part: dict[str, Json] = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": f"msg_{index}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _function(index: int, call: Call) -> dict[str, Json]:
    return {
        "id": f"fc_{index}",
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }
