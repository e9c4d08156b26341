"""Requests and whole replies of the Gemini API: voices, ids and names."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.model.gemini.contents import (
    identified,
    model_in,
    plain,
    read_reply,
    read_request,
    whole_path,
)
from proxy.dialects.model.tools import outcomes_of, tools_of
from proxy.dialects.model.transcript import Voice
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.faults import MalformedRequest


def called(name: str, **more: Any) -> dict[str, Json]:  # noqa: ANN401 - any JSON
    return {"functionCall": {"name": name, "args": {"path": name}, **more}}


def came(name: str, output: str, **more: Any) -> dict[str, Json]:  # noqa: ANN401 - any JSON
    return {"functionResponse": {"name": name, "response": {"output": output}, **more}}


def talk(*turns: list[dict[str, Json]]) -> dict[str, Json]:
    """A conversation in which user and model take turns."""
    contents: list[Json] = [
        {"role": "model" if at % 2 else "user", "parts": [*parts]} for at, parts in enumerate(turns)
    ]
    return {"contents": contents}


def pairs(body: dict[str, Json]) -> dict[str, str]:
    """The text of each call's result, by the name and number of the call."""
    read = read_request(body)
    ids = [(one.call_id, one.name) for turn in read.turns for one in turn.calls]
    said = {one.call_id: one.text for turn in read.turns for one in turn.said if one.call_id}
    assert len(dict(ids)) == len(ids), "each call has an id of its own"
    return {f"{name}{at}": said.get(call_id, "") for at, (call_id, name) in enumerate(ids)}


@pytest.mark.parametrize(
    ("calls", "results", "expected"),
    [
        # By id, whatever the order.
        (
            [called("a", id="1"), called("b", id="2")],
            [came("b", "two", id="2"), came("a", "one", id="1")],
            {"a0": "one", "b1": "two"},
        ),
        # Without ids by name, and by order where a name recurs.
        (
            [called("a"), called("b")],
            [came("b", "two"), came("a", "one")],
            {"a0": "one", "b1": "two"},
        ),
        (
            [called("a"), called("a")],
            [came("a", "one"), came("a", "two")],
            {"a0": "one", "a1": "two"},
        ),
        # A client that makes ids of its own for its results alone.
        ([called("a"), called("a")], [came("a", "one", id="own-1")], {"a0": "one", "a1": ""}),
        # One call has an id, and the other none.
        (
            [called("a", id="1"), called("a")],
            [came("a", "two"), came("a", "one", id="1")],
            {"a0": "one", "a1": "two"},
        ),
        ([called("a")], [came("b", "alien")], {"a0": ""}),
    ],
)  # fmt: skip
def test_a_result_is_that_of_its_call(
    calls: list[dict[str, Json]], results: list[dict[str, Json]], expected: dict[str, str]
) -> None:
    body = talk([{"text": "Hello"}], calls, results)
    assert pairs(body) == expected
    # A name's second call, in a later turn, is answered by the later result.
    longer = talk(
        [{"text": "Hello"}], [called("a")], [came("a", "x")], [called("a")], [came("a", "y")]
    )
    read = read_request(longer)
    assert [one.text for turn in read.turns for one in turn.said if one.call_id] == ["x", "y"]


def test_where_ids_are_missing_nothing_of_the_request_changes() -> None:
    body = talk([{"text": "Hello"}], [called("a")], [came("a", "x")])
    before = str(body)
    contents: Any = body["contents"]
    assert identified(contents) is not contents
    assert str(body) == before
    named: Any = talk([{"text": "Hello"}], [called("a", id="1")], [came("a", "x", id="1")])
    assert identified(named["contents"]) is named["contents"]


def test_a_call_without_an_id_has_the_same_name_in_its_reply_and_in_the_next_request() -> None:
    reply: dict[str, Json] = {"candidates": [{"content": {"parts": [called("a"), called("a")]}}]}
    said = [one.call_id for one in read_reply(reply).calls]
    body = talk([{"text": "Hello"}], [{"text": "."}, called("a"), called("a")], [came("a", "x")])
    assert [one.call_id for turn in read_request(body).turns for one in turn.calls] == said
    failed = talk([{"text": "Hello"}], [called("a")], [
        {"functionResponse": {"name": "a", "response": {"error": "no such file"}}}
    ])  # fmt: skip
    assert outcomes_of(body, said) == {said[0]: False}
    assert outcomes_of(failed, said) == {said[0]: True}


def test_each_part_has_its_voice() -> None:
    body = talk(
        [{"text": "Hers"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
        [
            {"text": "Thought", "thought": True, "thoughtSignature": "c2ln"},
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        ],
        [
            came("a", "Page"),
            {"functionResponse": {"name": "b", "response": {}, "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
            ]}},
            {"somethingNew": {"note": "New"}},
        ],
    )  # fmt: skip
    said = [one for turn in read_request(body).turns for one in turn.said]
    assert [(one.voice, one.text, one.sealed) for one in said] == [
        (Voice.USER, "Hers", False),
        (Voice.USER, "", True),
        (Voice.MODEL, "Thought", False),
        (Voice.MODEL, "PYTHON", False),
        (Voice.MODEL, "print(1)", False),
        (Voice.TOOL, "OUTCOME_OK", False),
        (Voice.TOOL, "1", False),
        (Voice.TOOL, "Page", False),
        (Voice.TOOL, "", False),
        (Voice.TOOL, "", True),
        (Voice.UNPLACED, "New", False),
    ]


def test_a_reply_with_what_a_search_found_is_heard_and_may_not_be_repeated() -> None:
    candidate: dict[str, Json] = {
        "content": {"parts": [{"text": "It is "}, {"text": "noon."}]},
        "groundingMetadata": {"groundingChunks": [{"web": {"title": "Tides"}}]},
    }
    read = read_reply({"responseId": "r", "candidates": [candidate]})
    assert (read.reply_id, read.said, read.ran_tools) == ("r", ("It is noon.",), True)
    assert [(one.voice, one.text) for one in read.heard] == [(Voice.TOOL, "Tides")]
    del candidate["groundingMetadata"]
    assert not read_reply({"candidates": [candidate]}).ran_tools, "control"


def test_tools_of_the_provider_count_as_a_search_and_declared_ones_are_offered() -> None:
    declared: dict[str, Json] = {
        "name": "fetch",
        "description": "Reads.",
        "parametersJsonSchema": {"type": "object", "properties": {"url": {}}},
    }
    body: dict[str, Json] = {"tools": [{"functionDeclarations": [declared]}]}
    offered = tools_of(body)
    assert offered is not None
    (tool,) = offered
    assert (tool.name, tool.arguments) == ("fetch", frozenset({"url"}))
    assert not read_request(body).searches
    assert read_request({"tools": [{"googleSearch": {}}]}).searches
    assert [name for name, _ in read_request(body).catalogue] == ["fetch"]


def test_members_are_read_in_both_spellings_and_those_of_others_are_left() -> None:
    told: dict[str, Json] = {
        "system_instruction": {"parts": [{"text": "Rules"}]},
        "contents": [{"parts": [{"function_call": {"name": "a_b", "args": {"my_key": 1}}}]}],
        "tools": [{"function_declarations": [{"name": "a_b", "parameters": {"x_y": {}}}]}],
    }
    made: Any = plain(told)
    assert made["systemInstruction"] == told["system_instruction"]
    assert made["contents"][0]["parts"][0]["functionCall"]["args"] == {"my_key": 1}
    assert made["tools"][0]["functionDeclarations"][0]["parameters"] == {"x_y": {}}
    assert plain(made) is made
    with pytest.raises(MalformedRequest, match="two spellings"):
        plain({"cachedContents": [], "cached_contents": []})
    for key in ("cachedContent", "cached_content"):
        with pytest.raises(MalformedRequest, match="whole history"):
            plain({key: "cachedContents/c"})


def test_the_model_and_the_form_of_an_answer_are_in_the_path() -> None:
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse&x=1"
    assert model_in(path) == "gemini-2.5-flash"
    assert whole_path(path) == "/v1beta/models/gemini-2.5-flash:generateContent"
    for other in ("/v1beta/models/g:countTokens", "/v1/messages", "/v1beta/models/g"):
        assert (model_in(other), whole_path(other)) == ("", other)
