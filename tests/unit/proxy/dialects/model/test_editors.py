"""A call waits for its verdict; what else a model streams passes as it came."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.model.anthropic.stream import AnthropicEditor
from proxy.dialects.model.api import Editor
from proxy.dialects.model.gemini.replies import GeminiEditor
from proxy.dialects.model.openai.chat_stream import ChatEditor
from proxy.dialects.model.openai.responses_stream import ResponsesEditor
from proxy.dialects.model.reading import list_of, object_of
from proxy.dialects.model.stream import (
    CallDecision,
    CompleteCall,
    UnreadableEvent,
    event_of,
    payload,
)
from proxy.dialects.sse import RawReader
from proxy.dialects.strict_json.tolerant import Json
from tests.unit.proxy.dialects.model import streams
from tests.unit.proxy.dialects.model.streams import Call

REFUSED = "Not stored (class_floor, L1)."


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One API's editor and its scripted streams."""

    name: str
    editor: Callable[[], Editor]
    stream: Callable[..., bytes]


APIS = (
    Api(name="anthropic", editor=AnthropicEditor, stream=streams.anthropic),
    Api(name="chat", editor=ChatEditor, stream=streams.chat),
    Api(name="responses", editor=ResponsesEditor, stream=streams.responses),
    Api(name="gemini", editor=GeminiEditor, stream=streams.gemini),
)
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def edited(editor: Editor, chunks: list[bytes], refused: frozenset[str]) -> bytes:
    """The stream as the agent gets it, with the calls of these ids refused."""
    reader = RawReader()
    out = b""
    for chunk in chunks:
        for event in reader.feed(chunk):
            passed, waiting = editor.feed(event)
            out += passed
            out += b"".join(editor.decide(_decided(one, refused)) for one in waiting)
    return out


def _decided(one: CompleteCall, refused: frozenset[str]) -> CallDecision:
    return CallDecision(key=one.key, refusal=REFUSED if one.call.call_id in refused else None)


def payloads(stream: bytes) -> list[dict[str, Json]]:
    found = [payload(event) for event in RawReader().feed(stream)]
    return [body for body in found if body is not None]


@each_api
def test_a_reply_without_calls_is_the_same_bytes(api: Api) -> None:
    stream = api.stream("first ", "second")
    assert edited(api.editor(), [stream], frozenset()) == stream


@each_api
def test_allowed_calls_reach_the_agent_whole_and_in_order(api: Api) -> None:
    stream = api.stream("text", Call(call_id="a"), Call(call_id="b", name="other"))
    out = edited(api.editor(), [stream], frozenset())
    assert out.index(b'"a"') < out.index(b'"b"')
    assert out.count(b"text") >= 1
    if api.name != "chat":  # there the pieces of a call are put together
        assert out == stream


@each_api
def test_a_refused_call_never_reaches_the_agent_and_the_other_does(api: Api) -> None:
    poison = Call(call_id="bad", arguments='{"text":"CANARY always wire it"}')
    stream = api.stream("hello", poison, Call(call_id="good", name="other"))
    control = edited(api.editor(), [stream], frozenset())
    assert b"CANARY" in control or b"CANARY" in b"".join(control.split(b'","'))
    editor = api.editor()
    out = edited(editor, [stream], frozenset({"bad"}))
    assert not editor.refused_all()
    for word in (b"CANARY", b"always wire", b'"bad"'):
        assert word not in out
    assert REFUSED.encode() in out
    assert b'"good"' in out
    assert b"hello" in out


@each_api
def test_when_every_call_is_refused_the_reply_goes_on_with_a_second_asking(api: Api) -> None:
    editor = api.editor()
    poison = Call(call_id="bad", arguments='{"text":"CANARY"}')
    first = edited(editor, [api.stream("hello", poison)], frozenset({"bad"}))
    assert editor.refused_all()
    # The agent was not told that the reply ended.
    for end in (b"message_stop", b"[DONE]", b"response.completed", b'"finish_reason":"', b"STOP"):
        assert end not in first
    asked = msgspec.json.encode(editor.again())
    assert b"CANARY" in asked, "the model is shown its own call"
    assert REFUSED.encode() in asked
    second = edited(editor, [api.stream("I will do without it.")], frozenset())
    whole = first + second
    assert b"CANARY" not in whole
    assert b"I will do without it." in whole
    ends = {"anthropic": b"message_stop", "chat": b"[DONE]", "responses": b"response.completed"}
    ends["gemini"] = b"STOP"
    assert second.count(ends[api.name]) >= 1


def test_a_message_of_two_askings_has_its_role_once() -> None:
    editor = ChatEditor()
    out = edited(editor, [streams.chat("a", Call(call_id="bad"))], frozenset({"bad"}))
    editor.again()
    second = b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"b"}}]}'
    out += edited(editor, [second + b"\n\n"], frozenset())
    assert b'"content":"b"' in out
    assert second.count(b'"role":"assistant"') == 1, "control: each asking brings one"
    assert out.count(b'"role":"assistant"') <= 1


def test_numbers_and_places_of_a_response_have_no_gap_after_an_edit() -> None:
    editor = ResponsesEditor()
    poison = Call(call_id="bad")
    out = edited(editor, [streams.responses("a", poison)], frozenset({"bad"}))
    editor.again()
    out += edited(editor, [streams.responses("b", Call(call_id="good"))], frozenset())
    bodies = payloads(out)
    numbers = [body["sequence_number"] for body in bodies]
    assert numbers == [*range(len(numbers))]
    done = [b["output_index"] for b in bodies if b["type"] == "response.output_item.done"]
    assert done == [0, 1, 2, 3]
    output = list_of(object_of(bodies[-1]["response"])["output"])
    assert [object_of(item)["type"] for item in output] == [
        *("message", "message", "message", "function_call")
    ]


def test_a_call_that_only_the_end_of_its_item_tells_is_judged() -> None:
    stream = streams.responses("a", Call(call_id="bad", arguments='{"text":"CANARY"}'))
    begins = stream.index(b'"item":{', stream.index(b'"output_index":1'))
    hidden = stream[:begins] + stream[begins:].replace(b'"type":"function_call"', b'"type":""', 1)
    assert hidden.count(b'"type":"function_call"') == stream.count(b'"type":"function_call"') - 1
    events = hidden.split(b"\n\n")
    untold = b"\n\n".join(one for one in events if b"function_call_arguments" not in one)
    assert len(untold) < len(hidden)
    for sent in (hidden, untold):
        asked = edited(ResponsesEditor(), [sent], frozenset({"bad"}))
        assert REFUSED.encode() in asked
        assert b"response.completed" not in asked, "the model is asked again"


def test_a_call_that_only_the_end_of_the_reply_names_is_left_out() -> None:
    stream = streams.responses("a", Call(call_id="bad", arguments='{"text":"CANARY"}'))
    end = stream[stream.index(b"event: response.completed") :]
    assert b"CANARY" in end, "control"
    assert b"CANARY" not in edited(ResponsesEditor(), [end], frozenset())


def test_blocks_of_a_message_have_no_gap_after_a_second_asking() -> None:
    editor = AnthropicEditor()
    out = edited(
        editor, [streams.anthropic("a", Call(call_id="bad"), thinking="hm")], frozenset({"bad"})
    )
    said = object_of(editor.again()[0])
    kinds = [object_of(block)["type"] for block in list_of(said["content"])]
    assert kinds == ["thinking", "text", "tool_use"]
    assert object_of(list_of(said["content"])[0])["signature"] == "c2ln"
    out += edited(editor, [streams.anthropic("b")], frozenset())
    starts = [b["index"] for b in payloads(out) if b["type"] == "content_block_start"]
    assert starts == [0, 1, 2, 3]
    deltas = [b for b in payloads(out) if b["type"] == "message_delta"]
    assert [object_of(body["usage"])["output_tokens"] for body in deltas] == [10]
    assert out.count(b"event: message_start") == 1


@each_api
@given(st.lists(st.integers(0, 4_000), max_size=10), st.sets(st.sampled_from(["a", "b"])))
def test_any_cut_of_the_stream_gives_the_same_result(
    api: Api, cuts: list[int], refused: set[str]
) -> None:
    stream = api.stream("x", Call(call_id="a"), "y", Call(call_id="b"))
    edges = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    chunks = [stream[begin:end] for begin, end in itertools.pairwise(edges)]
    whole = edited(api.editor(), [stream], frozenset(refused))
    assert edited(api.editor(), chunks, frozenset(refused)) == whole


def sse(*bodies: dict[str, Json]) -> bytes:
    """A stream of these events."""
    return b"".join(event_of(str(body.get("type", "")), body) for body in bodies)


GIVEN = '{"text":"CANARY"}'
BLOCK: dict[str, Json] = {
    "type": "tool_use",
    "id": "bad",
    "name": "memory",
    "input": {"a": "CANARY"},
}
ITEM: dict[str, Json] = {"type": "function_call", "call_id": "bad", "name": "m", "arguments": GIVEN}
PIECE: dict[str, Json] = {"index": 0, "id": "bad", "function": {"name": "m", "arguments": GIVEN}}
IN_A_PART: dict[str, Json] = {"name": "m", "args": {"text": "CANARY"}}
ODD: tuple[tuple[Callable[[], Editor], bytes], ...] = (
    (AnthropicEditor, sse({"type": "message_start", "message": {"id": "m", "content": [BLOCK]}})),
    (
        AnthropicEditor,
        sse(
            {"type": "content_block_start", "index": 0.0, "content_block": BLOCK},
            {"type": "content_block_stop", "index": 0.0},
        ),
    ),
    (ResponsesEditor, sse({"type": "response.created", "response": {"output": [ITEM]}})),
    (ResponsesEditor, sse({"type": "response.cancelled", "response": {"output": [ITEM]}})),
    (ResponsesEditor, sse({"type": "response.output_item.done", "item": ITEM})),
    (ResponsesEditor, sse({"type": "response.item", "output_index": 0, "item": ITEM})),
    (
        ChatEditor,
        sse(
            {
                "choices": [
                    {"index": 0, "message": {"tool_calls": [PIECE]}, "finish_reason": "tool_calls"}
                ]
            }
        ),
    ),
)


@pytest.mark.parametrize(("editor", "stream"), ODD)
def test_no_call_goes_on_unjudged_wherever_a_stream_brings_it(
    editor: Callable[[], Editor], stream: bytes
) -> None:
    assert b"CANARY" in stream, "control"
    assert b"CANARY" not in edited(editor(), [stream], frozenset({"bad"}))


@each_api
def test_an_event_that_others_may_be_able_to_read_is_not_passed_on_unread(api: Api) -> None:
    for data in (b'{"type":"content_block_start","n":NaN}', b' {"a":1', b'{"a":"\\x"}'):
        (event,) = RawReader().feed(b"data: " + data + b"\n\n")
        with pytest.raises(UnreadableEvent):
            api.editor().feed(event)
    (event,) = RawReader().feed(b"data: [DONE]\n\n")
    assert api.editor().feed(event) == (event.raw, ()), "control"
