"""What a backend's model answers, found and written anew in all three APIs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.model.outputs import (
    ReplacedOutput,
    bare,
    object_in,
    outputs_of,
    spelled,
    with_outputs,
)
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.faults import MalformedRequest

FACTS = '{"facts": ["tea"]}'


def anthropic(*blocks: Json) -> dict[str, Json]:
    return {"id": "msg_1", "role": "assistant", "content": [*blocks], "stop_reason": "tool_use"}


def chat(**message: Json) -> dict[str, Json]:
    told: Json = {"role": "assistant", **message}
    return {"id": "c", "choices": [{"index": 0, "message": told, "finish_reason": "tool_calls"}]}


def responses(*items: Json) -> dict[str, Json]:
    return {"id": "resp_1", "output": [*items]}


def function(name: str, arguments: str) -> Json:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def message(*texts: str) -> Json:
    parts: list[Json] = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "role": "assistant", "content": parts}


THINKS: Json = {"type": "thinking", "thinking": "Zebra", "signature": "s"}
USES: Json = {"type": "tool_use", "id": "c1", "name": "Memory", "input": {"content": "tea"}}
CALLS: Json = {"type": "function_call", "call_id": "c1", "name": "Memory", "arguments": FACTS}
REPLIES: list[tuple[str, dict[str, Json]]] = [
    (
        "anthropic",
        anthropic(
            THINKS, {"type": "text", "text": '{"facts": '}, {"type": "text", "text": '["tea"]}'}
        ),
    ),
    ("chat", chat(content=FACTS, reasoning_content="Zebra")),
    ("chat", chat(content=[{"type": "text", "text": FACTS}])),
    (
        "responses",
        responses({"type": "reasoning", "summary": ["Zebra"]}, message('{"facts": ', '["tea"]}')),
    ),
    ("responses", responses(message('{"facts": '), message('["tea"]}'))),
]


@pytest.mark.parametrize(("api", "reply"), REPLIES)
def test_the_texts_of_a_reply_are_one_as_its_client_joins_them(
    api: str, reply: dict[str, Json]
) -> None:
    (output,) = outputs_of(api, reply)
    assert output.text == FACTS
    changed = with_outputs(api, reply, {output.key: ReplacedOutput(text="{}")})
    assert [one.text for one in outputs_of(api, changed)] == ["{}"]
    # Nothing is left that was not looked at.
    assert "Zebra" not in json.dumps(changed)
    assert "tea" not in json.dumps(changed)


@pytest.mark.parametrize(
    ("api", "reply"),
    [
        ("anthropic", anthropic(USES)),
        ("chat", chat(content=None, tool_calls=[function("Memory", '{"content": "tea"}')])),
        (
            "responses",
            responses({**json.loads(json.dumps(CALLS)), "arguments": '{"content": "tea"}'}),
        ),
    ],
)
def test_a_call_is_kept_changed_or_taken_out(api: str, reply: dict[str, Json]) -> None:
    (output,) = outputs_of(api, reply)
    assert (output.name, output.arguments) == ("Memory", {"content": "tea"})
    changed = with_outputs(api, reply, {output.key: ReplacedOutput(arguments={"content": "milk"})})
    assert [one.arguments for one in outputs_of(api, changed)] == [{"content": "milk"}]
    gone = with_outputs(api, reply, {output.key: ReplacedOutput()})
    assert [one.name for one in outputs_of(api, gone) if one.text is None] == []
    assert "tea" not in json.dumps(gone)
    assert "tool_use" not in json.dumps(gone)
    assert "tool_calls" not in json.dumps(gone)


def test_what_nobody_decided_is_taken_out() -> None:
    reply = anthropic({"type": "text", "text": FACTS}, USES)
    assert "tea" not in json.dumps(with_outputs("anthropic", reply, {}))


def test_every_choice_is_an_output() -> None:
    reply: dict[str, Json] = {
        "choices": [{"message": {"content": "one"}}, {"message": {"content": "two"}}]
    }
    assert [one.text for one in outputs_of("chat", reply)] == ["one", "two"]


@pytest.mark.parametrize(
    "text",
    [
        FACTS,
        f"```json\n{FACTS}\n```",
        f"Here it is:\n```\n{FACTS}\n```\nbye",
        f"Sure! {FACTS} Anything else?",
        f"<think>{{}}</think>{FACTS}",
        f"<thi<think></think>nk>{{}}</think>{FACTS}",
    ],
)
def test_an_object_is_found_however_it_is_wrapped(text: str) -> None:
    assert object_in(bare(text)) == {"facts": ["tea"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "[1, 2]",
        '{"facts": ["tea"], "facts": ["Zebra"]}',
        '{"facts": [NaN]}',
        '{"facts": ["tea"]} {"facts": ["Zebra"]}',
        '{"facts": ["tea"',
        "{" * 5_000,
    ],
)
def test_what_two_parsers_could_read_differently_is_no_object(text: str) -> None:
    with pytest.raises(MalformedRequest):
        object_in(bare(text))


@given(st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), st.lists)))
def test_what_is_spelled_reads_back_and_holds_no_mark(value: dict[str, Json]) -> None:
    text = spelled(value)
    assert json.loads(text) == value
    assert object_in(bare(text)) == value
    assert not {"<", "`"} & set(text)
