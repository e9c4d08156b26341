"""Which replies end a person's turn, and where our text stands in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES
from proxy.dialects.model.confirm.block import APART
from proxy.dialects.model.confirm.replies import (
    answers_a_person,
    ends_turn,
    event_ends_turn,
    own_words,
    with_last,
    words_before_end,
)
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.sse import Event

Json = dict[str, Any]
SAID, OURS = "It opens at nine.", "ours"
TEXT: Json = {"type": "text", "text": SAID}
ITEM: Json = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": SAID}],
}
CALL: Json = {"type": "tool_use", "id": "t", "name": "fetch", "input": {}}


def chat(*finished: str, content: str | None = SAID) -> Json:
    return {
        "choices": [
            {
                "index": at,
                "message": {"role": "assistant", "content": content},
                "finish_reason": one,
            }
            for at, one in enumerate(finished)
        ]
    }


WHOLE: list[tuple[str, Json]] = [
    ("anthropic", {"content": [TEXT], "stop_reason": "end_turn"}),
    ("chat", chat("stop")),
    ("responses", {"output": [ITEM], "status": "completed"}),
]


@pytest.mark.parametrize(("api", "body"), WHOLE)
def test_our_text_is_the_last_of_a_whole_reply(api: str, body: Json) -> None:
    assert ends_turn(api, body)
    read = {"anthropic": ANTHROPIC, "chat": CHAT, "responses": RESPONSES}[api].read_reply
    assert own_words(read(body)) == SAID
    longer = with_last(api, body, OURS)
    assert "".join(read(longer).said) == SAID + APART + OURS
    assert ends_turn(api, longer)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("anthropic", {"content": [TEXT], "stop_reason": "max_tokens"}),
        ("anthropic", {"content": [TEXT], "stop_reason": "stop_sequence"}),
        ("anthropic", {"content": [TEXT, CALL], "stop_reason": "end_turn"}),
        ("anthropic", {"content": [], "stop_reason": "end_turn"}),
        ("chat", chat("length")),
        ("chat", chat("tool_calls")),
        ("chat", chat("content_filter")),
        ("chat", chat("stop", "stop")),
        ("chat", chat("stop", content=None)),
        ("responses", {"output": [ITEM], "status": "incomplete"}),
        ("responses", {"output": [ITEM, {"type": "function_call"}], "status": "completed"}),
        ("completions", chat("stop")),
    ],
)
def test_a_reply_that_was_cut_or_goes_on_gets_nothing(api: str, body: Json) -> None:
    assert not ends_turn(api, body)


def test_a_reply_that_calls_or_says_nothing_has_no_words_to_ask_behind() -> None:
    call = ModelCall(call_id="c", name="fetch", arguments={})
    assert own_words(ModelReply(reply_id=None, said=(SAID,), calls=(call,))) is None
    assert own_words(ModelReply(reply_id=None, said=(" ",), calls=())) is None


def event(body: Json, name: str = "") -> Event:
    return Event(raw=b"", name=name, data=json.dumps(body))


def chunk(content: str | None, finished: str | None) -> Event:
    delta = {} if content is None else {"content": content}
    return event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finished}]})


def test_the_event_that_ends_a_turn_is_known() -> None:
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert event_ends_turn("anthropic", event(ended))
    ended = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    assert not event_ends_turn("anthropic", event(ended))
    assert event_ends_turn("chat", chunk(None, "stop"))
    assert not event_ends_turn("chat", chunk("stop", None))
    assert not event_ends_turn("chat", chunk(None, "length"))
    assert not event_ends_turn("chat", chunk("nine.", "stop")), "words would stand behind ours"
    done = {"type": "response.completed", "response": {"status": "completed"}}
    assert event_ends_turn("responses", event(done))
    done = {"type": "response.incomplete", "response": {"status": "incomplete"}}
    assert not event_ends_turn("responses", event(done))


def test_last_words_that_come_with_the_end_go_before_it() -> None:
    said, ended = words_before_end("chat", chunk("nine.", "stop"))
    assert not event_ends_turn("chat", said)
    assert event_ends_turn("chat", ended)
    assert "nine." in (said.data or "")
    assert "nine." not in (ended.data or "")
    for one in (chunk("nine.", None), chunk(None, "stop"), chunk("x", "length")):
        assert words_before_end("chat", one) == (one,)


def user(text: str = "When?") -> Json:
    return {"role": "user", "content": text}


FETCH: Json = {"id": "t", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
CALLED: Json = {"role": "assistant", "content": "I look.", "tool_calls": [FETCH]}
RESULT: Json = {"role": "tool", "tool_call_id": "t", "content": "At nine."}


@pytest.mark.parametrize(
    ("turns", "answers"),
    [
        ([user()], True),
        ([user(), CALLED, RESULT], True),
        ([user(), CALLED, RESULT, CALLED, RESULT], True),
        ([{**user(), "name": "bob"}], False),
        ([user(), {"role": "assistant", "content": "It opens"}], False),
        ([user(), {"role": "system", "content": "Be brief."}], False),
        ([user(), CALLED, RESULT, {"role": "system", "content": "Be brief."}], False),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], True),
        ([{"role": "user", "content": [{"type": "odd", "text": "x"}]}], False),
        ([], False),
    ],
)
def test_between_her_turn_and_the_reply_stand_results_alone(
    turns: list[Any], *, answers: bool
) -> None:
    assert answers_a_person(CHAT.read_request({"messages": turns})) is answers
