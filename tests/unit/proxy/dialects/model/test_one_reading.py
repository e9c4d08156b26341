"""However a reader takes a stream apart, it finds no call that was not judged, and no other one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.model.anthropic.stream import AnthropicEditor
from proxy.dialects.model.api import Editor
from proxy.dialects.model.gemini.replies import GeminiEditor
from proxy.dialects.model.one_reading import straight_event, straight_object
from proxy.dialects.model.openai.chat_stream import ChatEditor
from proxy.dialects.model.openai.responses_stream import ResponsesEditor
from proxy.dialects.model.stream import CallDecision, UnreadableEvent, payload
from proxy.dialects.sse import RawReader
from tests.unit.proxy.dialects.model import streams
from tests.unit.proxy.dialects.model.streams import Call

EDITORS: dict[str, Callable[[], Editor]] = {
    "anthropic": AnthropicEditor,
    "chat": ChatEditor,
    "responses": ResponsesEditor,
    "gemini": GeminiEditor,
}
GIVEN = '{"text":"CANARY"}'


def through(api: str, raw: bytes) -> tuple[bytes, list[tuple[str, str]]]:
    """What the agent gets before the stream is torn, and what was judged; CANARY is refused."""
    editor = EDITORS[api]()
    reader = RawReader()
    out, judged = b"", list[tuple[str, str]]()
    try:
        for found in (*reader.feed(raw), *reader.last()):
            passed, waiting = editor.feed(straight_event(found))
            out += passed
            for one in waiting:
                call = one.call
                said = call.unread if call.arguments is None else json.dumps(call.arguments)
                judged.append((call.name, said))
                refusal = "No." if "CANARY" in call.name + said + call.call_id else None
                out += editor.decide(CallDecision(key=one.key, refusal=refusal))
    except UnreadableEvent:
        pass
    return out, judged


def line(body: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()


def start(index: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    block: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "f", "input": {}, **more}
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: Any, text: str, kind: str = "input_json_delta") -> dict[str, Any]:  # noqa: ANN401
    delta = {"type": kind, "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"type": "content_block_stop", "index": index}


def chat(*calls: Any, end: Any = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    delta = {"tool_calls": [*calls], **more}
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}


def item(kind: str, index: int = 0, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    inside = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **more}
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": inside}


def part(*parts: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A chunk of the Gemini API."""
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [*parts]}, **more}]}


NAMED = {"name": "m", "args": {"a": "CANARY"}}
TWICE = '], "parts": []}}'
CHUNK = json.dumps(part({"functionCall": NAMED}))
CHAT = json.dumps(chat({"index": 0, "id": "c", "function": {"name": "m", "arguments": GIVEN}}))
FUNCTION = {"name": "m", "arguments": GIVEN}
LONG_S = "tool_call\u017f"
FRAMES: dict[str, tuple[str, bytes]] = {
    "a line in front of which is a space": ("chat", f" data: {CHAT}\n\n".encode()),
    "capitals": ("chat", f"DATA: {CHAT}\n\n".encode()),
    "a line behind another": ("chat", f"data: waiting\ndata: {CHAT}\n\n".encode()),
    "a line inside another event": (
        "chat",
        f'data: {{"x": [\ndata: {CHAT}\ndata: ]}}\n\n'.encode(),
    ),
    "a mark before the object": ("chat", f"data: \ufeff{CHAT}\n\n".encode()),
    "a list of events": ("chat", f"data: [{CHAT}]\n\n".encode()),
    "a word before the object": ("chat", f"data: x {CHAT}\n\n".encode()),
    "a line in a comment": ("chat", f": x\x0bdata: {CHAT}\n\n".encode()),
    "a line in a name": ("chat", f"event: x\x1edata: {CHAT}\ndata: 1\n\n".encode()),
    "a key twice": ("chat", f'data: {CHAT[:-1]}, "choices": []}}\n\n'.encode()),
    "a key in capitals": ("chat", f"data: {CHAT.replace('choices', 'Choices')}\n\n".encode()),
    "calls in capitals": ("chat", f"data: {CHAT.replace('tool_calls', 'Tool_Calls')}\n\n".encode()),
    "a letter that is the same without case": (
        "chat",
        f"data: {CHAT.replace('tool_calls', LONG_S)}\n\n".encode(),
    ),
    "arguments as an object": (
        "chat",
        line(chat({"index": 0, "function": {"name": "m", "arguments": {"a": "CANARY"}}}, end="x")),
    ),
    "calls that are no list": ("chat", line(chat(tool_calls={"0": {"function": FUNCTION}}))),
    "a start without a kind": (
        "anthropic",
        line({**start(0, input={"a": "CANARY"}), "type": None}, "content_block_start"),
    ),
    "a start of another kind": (
        "anthropic",
        line({**start(0, input={"a": "CANARY"}), "type": "ping"}, "content_block_start"),
    ),
    "pieces of nothing": ("anthropic", line(piece(7, "CANARY"))),
    "an input as a text": (
        "anthropic",
        line(start(0, input='{"a": "CANARY"}')) + line(stop(0)),
    ),
    "pieces behind the end": (
        "anthropic",
        line(start(0)) + line(stop(0)) + line(piece(0, "CANARY")),
    ),
    "a part's member with an underscore": ("gemini", line(part({"function_call": NAMED}))),
    "a part's member in capitals": ("gemini", line(part({"FunctionCall": NAMED}))),
    "a call in pieces": (
        "gemini",
        line(part({"functionCall": {**NAMED, "willContinue": True}})),
    ),
    "parts twice": (
        "gemini",
        f"data: {CHUNK.replace(']}}', TWICE)}\n\n".encode(),
    ),
    "parts that are no list": (
        "gemini",
        line({"candidates": [{"content": {"parts": {"0": {"functionCall": NAMED}}}}]}),
    ),
    "candidates that are no list": (
        "gemini",
        line({"candidates": {"0": part({"functionCall": NAMED})["candidates"][0]}}),
    ),
    "pieces of no item": (
        "responses",
        line({"type": "response.function_call_arguments.delta", "delta": "CANARY"}),
    ),
    "pieces of an item that is over": (
        "responses",
        line(item("added"))
        + line(item("done"))
        + line(
            {
                "type": "response.function_call_arguments.done",
                "output_index": 0,
                "name": "m",
                "arguments": GIVEN,
            }
        ),
    ),
    "another call at the end": (
        "responses",
        line(item("added"))
        + line(item("done"))
        + line(
            {
                "type": "response.completed",
                "response": {"output": [item("done", name="m", arguments=GIVEN)["item"]]},
            }
        ),
    ),
    "another call at its beginning": (
        "responses",
        line(item("added", name="m", arguments=GIVEN)) + line(item("done")),
    ),
    "other pieces": (
        "responses",
        line(item("added"))
        + line(
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": GIVEN}
        )
        + line(item("done")),
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_no_frame_hides_a_call(name: str) -> None:
    api, raw = FRAMES[name]
    assert b"CANARY" in raw, "control"
    assert not seen(through(api, raw)[0])


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def seen(out: bytes) -> bool:
    """Whether a reader that takes every line for an event, wherever a line may end, sees it."""
    for one in out.decode().splitlines():
        head, mark, rest = one.strip().partition(":")
        if mark and head.lower() == "data":
            try:
                body: Any = json.loads(rest.strip("\ufeff "), object_pairs_hook=_first)
            except ValueError:
                continue
            told: Any = body
            if isinstance(body, dict) and "x" not in told and "CANARY" in json.dumps(told):
                return True
    return False


ASSEMBLED: dict[str, tuple[str, bytes]] = {
    "no index": (
        "chat",
        line(chat({"id": "a", "function": {"name": "f", "arguments": "{}"}}))
        + line(chat({"id": "b", "function": {"name": "g", "arguments": "{}"}}, end="tool_calls")),
    ),
    "an index that is a text": (
        "chat",
        line(chat({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}))
        + line(chat({"index": "1", "id": "b", "function": {"name": "g", "arguments": "{}"}}))
        + line(chat({"index": "0", "function": {"arguments": "}"}}, end="tool_calls")),
    ),
    "a name in two pieces": (
        "chat",
        line(chat({"index": 0, "id": "a", "function": {"name": "memory", "arguments": ""}}))
        + line(chat({"index": 0, "function": {"name": "_search", "arguments": "{}"}}, end="x")),
    ),
    "of two kinds": (
        "chat",
        line(
            chat(
                {
                    "index": 0,
                    "id": "a",
                    "type": "function",
                    "custom": {"name": "f", "input": "x"},
                    "function": {"name": "m", "arguments": "{}"},
                },
                end="tool_calls",
            )
        ),
    ),
    "an input and pieces": (
        "anthropic",
        line(start(0, input={"a": "OTHER"})) + line(piece(0, '{"a": 1}')) + line(stop(0)),
    ),
    "pieces of no kind": (
        "anthropic",
        line(start(0, input={"a": 1})) + line(piece(0, "OTHER", "")) + line(stop(0)),
    ),
    "at another place": (
        "anthropic",
        line(start(5)) + line(piece(5, '{"a": 1}')) + line(stop(5)),
    ),
    "begun as another": ("responses", line(item("added", name="OTHER")) + line(item("done"))),
}


@pytest.mark.parametrize("name", ASSEMBLED)
def test_what_goes_on_is_the_call_that_was_judged(name: str) -> None:
    api, raw = ASSEMBLED[name]
    out, judged = through(api, raw)
    assert judged
    assert b"OTHER" not in out
    found: list[list[str]] = []
    for body in [payload(one) for one in RawReader().feed(out)]:
        told: Any = body
        for choice in told.get("choices", []):
            for call in choice["delta"].get("tool_calls", []):
                assert call["index"] <= len(found)
                found += [["", ""]] if call["index"] == len(found) else []
                inside: Any = call.get("custom") or call["function"]
                free = json.dumps({"input": inside["input"]}) if "input" in inside else ""
                found[call["index"]][0] += inside.get("name", "")
                found[call["index"]][1] += free or inside.get("arguments", "")
        if told.get("type") == "content_block_start":
            assert told["index"] == len(found)
            assert told["content_block"]["input"] == {}
            found.append([told["content_block"]["name"], ""])
        if told.get("type") == "content_block_delta":
            found[-1][1] = told["delta"]["partial_json"]
        if told.get("type") == "response.output_item.done":
            found.append([told["item"]["name"], told["item"]["arguments"]])
    assert [(name, json.loads(said)) for name, said in found] == [
        (name, json.loads(said)) for name, said in judged
    ]


def test_two_calls_whose_pieces_may_be_mixed_up_are_torn() -> None:
    raw = line(start(0)) + line(start(1, input={"a": "CANARY"}))
    assert through("anthropic", raw) == (b"", [])
    ended = line(chat({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}, end="x"))
    more = line(chat({"index": 0, "function": {"arguments": GIVEN}}))
    assert b"CANARY" not in through("chat", ended + more)[0]


@pytest.mark.parametrize("api", EDITORS)
def test_what_an_api_sends_is_the_same_bytes(api: str) -> None:
    raw = getattr(streams, api)(
        "first ", Call(call_id="a"), Call(call_id="b", arguments='{"n": 1.50}')
    )
    reader = RawReader()
    assert [*map(straight_event, reader.feed(raw))] == RawReader().feed(raw)
    out, judged = through(api, raw)
    assert [name for name, _ in judged] == ["save", "save"]
    assert api == "chat" or out == raw


def test_what_a_tool_is_given_keeps_its_names() -> None:
    body = {"content": [{"type": "tool_use", "input": {"Type": 1, "ID": 2}, "Note": 3}]}
    told: Any = body
    assert straight_object(told) is told


PARTS = st.sampled_from([raw for _, raw in FRAMES.values()])
FINE = st.sampled_from(
    [
        line(start(0)),
        line(piece(0, "{}")),
        line(stop(0)),
        line(item("added")),
        line(item("done")),
        line(chat({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}})),
        line(chat(end="stop")),
        b"data: [DONE]\n\n",
        b": x\n\n",
        line({"type": "message_stop"}),
    ]
)


@pytest.mark.parametrize("api", EDITORS)
@given(st.lists(st.one_of(PARTS, FINE), max_size=8))
def test_no_order_of_events_brings_a_call_unjudged(api: str, events: list[bytes]) -> None:
    kept = [one for one in events if b"CANARY" not in one or _of(api, one)]
    assert not seen(through(api, b"".join(kept))[0])


def _of(api: str, raw: bytes) -> bool:
    return any(mine == api and one == raw for mine, one in FRAMES.values())
