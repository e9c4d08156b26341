"""Streams of models: read without a fault, and the same to the agent however they are cut."""

from __future__ import annotations

from proxy.dialects.model.api import APIS, ModelApi
from proxy.dialects.model.stream import CallDecision, UnreadableEvent
from proxy.dialects.sse import BrokenStream, RawReader

WORDS = (
    b"data: ",
    b"event: content_block_start\n",
    b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}',
    b'{"type":"message_stop"}',
    b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x"}}]',
    b'"finish_reason":"tool_calls"}]}',
    b"[DONE]",
    b'{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call"}}',
    b'{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call"}}',
    b'{"type":"response.completed","response":{"output":[]},"sequence_number":9}',
    b'{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"x","args":{}}}]}}]}',
    b'{"candidates":[{"content":{"parts":[{"text":"needle"}]},"finishReason":"STOP"}]}',
    b"\n\n",
    b"\r\n\r\n",
    b"needle",
)
_REFUSED = "Not stored."


def check(data: bytes) -> None:
    api = APIS[data[0] % len(APIS)] if data else APIS[0]
    refuses = bool(data) and data[0] >= 128
    stream = data[1:]
    whole = _edited(api, [stream], refuses=refuses)
    halves = [stream[: len(stream) // 2], stream[len(stream) // 2 :]]
    assert _edited(api, halves, refuses=refuses) == whole
    if not refuses and api.name != "chat":
        return
    _edited(api, [stream[at : at + 1] for at in range(min(len(stream), 200))], refuses=refuses)


def _edited(api: ModelApi, chunks: list[bytes], *, refuses: bool) -> bytes:
    reader, editor = RawReader(bytes_max=1_000_000), api.editor()
    out = b""
    try:
        events = [event for chunk in chunks for event in reader.feed(chunk)]
    except BrokenStream:
        return out
    for event in [*events, *reader.last()]:
        try:
            passed, waiting = editor.feed(event)
        except UnreadableEvent:
            return b"torn"
        out += passed
        for one in waiting:
            out += editor.decide(CallDecision(key=one.key, refusal=_REFUSED if refuses else None))
        editor.said()
    if editor.refused_all():
        editor.again()
        out += editor.close()
    return out
