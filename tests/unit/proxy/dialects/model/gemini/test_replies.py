"""Replies of the Gemini API: parallel calls, signatures, and what no chunk waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.model.gemini.replies import GeminiEditor, GeminiReply
from proxy.dialects.model.stream import CallDecision, CompleteCall, UnreadableEvent
from proxy.dialects.sse import Event, RawReader
from proxy.dialects.strict_json.tolerant import Json

SIGNATURE = "c2lnbmVk"
USAGE: dict[str, Json] = {"promptTokenCount": 3, "totalTokenCount": 5}
BAD: dict[str, Json] = {
    "functionCall": {"name": "save", "args": {"text": "CANARY"}},
    "thoughtSignature": SIGNATURE,
}
GOOD: dict[str, Json] = {"functionCall": {"name": "save", "args": {"text": "tea"}}}


def chunk(*parts: Json, reply_id: str = "r1", **more: Json) -> dict[str, Json]:
    candidate: dict[str, Json] = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    body: dict[str, Json] = {"candidates": [{**candidate, **more}], "usageMetadata": USAGE}
    return {**body, "responseId": reply_id}


def event(body: dict[str, Json]) -> Event:
    (found,) = RawReader().feed(f"data: {json.dumps(body)}\r\n\r\n".encode())
    return found


def decided(one: CompleteCall) -> CallDecision:
    bad = "CANARY" in str(one.call.arguments)
    return CallDecision(key=one.key, refusal="Not stored." if bad else None)


def through(editor: GeminiEditor, *bodies: dict[str, Json]) -> list[bytes]:
    """What the agent gets for each chunk."""
    out: list[bytes] = []
    for body in bodies:
        passed, waiting = editor.feed(event(body))
        out.append(passed + b"".join(editor.decide(decided(one)) for one in waiting))
        assert not editor.holds
    return out


def parts_of(raw: bytes) -> list[Any]:
    found = [json.loads(one.data or "{}") for one in RawReader().feed(raw)]
    return [part for body in found for part in body["candidates"][0]["content"]["parts"]]


def test_of_parallel_calls_in_one_chunk_only_the_refused_one_becomes_a_text() -> None:
    editor = GeminiEditor()
    thought: dict[str, Json] = {"text": "Hm.", "thought": True}
    signed: dict[str, Json] = {**GOOD, "thoughtSignature": SIGNATURE}
    (out,) = through(editor, chunk(thought, signed, BAD, {"text": "So."}, finishReason="STOP"))
    assert parts_of(out) == [thought, signed, {"text": "Not stored."}, {"text": "So."}]
    assert b'"STOP"' in out
    assert not editor.refused_all()
    ids = [call.call_id for call in editor.said().calls]
    assert len({*ids}) == 2, "control: neither call has an id of its own"


def test_the_model_gets_its_own_parts_back_as_they_came_with_their_signatures() -> None:
    editor = GeminiEditor()
    named: dict[str, Json] = {**BAD, "functionCall": {**BAD["functionCall"], "id": "c1"}}  # type: ignore[dict-item]
    first = through(editor, chunk({"text": "I"}), chunk({"text": " save."}), chunk(BAD, named))
    last = through(editor, chunk({"text": ""}, finishReason="STOP"))
    assert editor.refused_all()
    assert last == [b""], "its end waits for the second reply"
    assert parts_of(first[2]) == [{"text": "Not stored."}] * 2
    refusal: dict[str, Json] = {"error": "Not stored."}
    assert editor.again() == [
        {"role": "model", "parts": [{"text": "I"}, {"text": " save."}, BAD, named]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "save", "response": refusal}},
                {"functionResponse": {"id": "c1", "name": "save", "response": refusal}},
            ],
        },
    ]
    (second,) = through(editor, chunk({"text": "Then not."}, reply_id="r2", finishReason="STOP"))
    body = json.loads(second.partition(b"data: ")[2])
    assert body["responseId"] == "r1"
    assert body["usageMetadata"] == {"promptTokenCount": 6, "totalTokenCount": 10}


def test_a_reply_that_gets_no_second_one_ends_all_the_same() -> None:
    editor = GeminiEditor()
    through(editor, chunk(BAD, finishReason="STOP"))
    editor.again()
    body = json.loads(editor.close().partition(b"data: ")[2])
    assert body["candidates"][0]["finishReason"] == "STOP"
    assert body["usageMetadata"] == USAGE
    assert b"CANARY" not in editor.close()


def test_no_chunk_waits_for_another() -> None:
    """Each chunk's bytes are there before the next one comes, and are those that came."""
    editor = GeminiEditor()
    bodies = [chunk({"text": "a"}), chunk(GOOD), chunk({"text": "b"}), chunk(finishReason="STOP")]
    assert through(editor, *bodies) == [event(body).raw for body in bodies]


@pytest.mark.parametrize("index", range(30, 130, 9))
def test_a_stream_that_ends_within_a_call_is_torn(index: int) -> None:
    raw = event(chunk(BAD)).raw[:index]
    reader = RawReader()
    (*whole, last) = [*reader.feed(raw), *reader.last()]
    assert whole == []
    with pytest.raises(UnreadableEvent):
        GeminiEditor().feed(last)


def test_of_two_candidates_the_refused_call_alone_is_replaced() -> None:
    editor = GeminiEditor()
    body = chunk(BAD, finishReason="STOP")
    other: dict[str, Json] = {"content": {"parts": [GOOD]}, "index": 1, "finishReason": "STOP"}
    body["candidates"] = [*body["candidates"], other]  # type: ignore[misc]
    (out,) = through(editor, body)
    candidates = json.loads(out.partition(b"data: ")[2])["candidates"]
    assert candidates[0]["content"]["parts"] == [{"text": "Not stored."}]
    assert candidates[1] == other
    assert not editor.refused_all()


def test_a_whole_reply_has_the_texts_of_both_askings_and_the_tokens_of_both() -> None:
    reply = GeminiReply()
    for one in reply.feed(chunk({"text": "I save."}, BAD, finishReason="STOP")):
        reply.decide(decided(one))
    assert reply.refused_all()
    asked = reply.again()
    assert asked[0] == {"role": "model", "parts": [{"text": "I save."}, BAD]}
    alone: Any = reply.edited()
    expected = [{"text": "I save."}, {"text": "Not stored."}]
    assert alone["candidates"][0]["content"]["parts"] == expected
    assert alone["usageMetadata"] == USAGE
    assert reply.feed(chunk({"text": "Then not."}, reply_id="r2", finishReason="STOP")) == ()
    made: Any = reply.edited()
    assert made["candidates"][0]["content"]["parts"] == [*expected, {"text": "Then not."}]
    assert (made["responseId"], made["usageMetadata"]["totalTokenCount"]) == ("r1", 10)
