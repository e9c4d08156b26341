"""Nothing between the words of a reply, and nothing beside its calls, brings what was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from policy.withheld.flow import Flow
from policy.withheld.refused_texts import PlaceSearch
from proxy.dialects.model.replies_withheld import ReplyFilter
from proxy.dialects.sse import Event, RawReader
from tests.unit.proxy.dialects.model.test_replies_withheld import (
    PRINTER,
    REFUSED,
    WORDS,
    Withholds,
    block,
    bodies,
    choice,
    chunk,
    holds,
    part,
    said,
    through,
    together,
)

PIECE = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}
TEXTS = {
    "gemini": [part({"text": f"{word} "}) for word in WORDS],
    "anthropic": [{**block("text_delta", text=f"{word} "), "index": 0} for word in WORDS],
    "chat": [choice(delta={"content": f"{word} "}) for word in WORDS],
    "responses": [
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "delta": f"{word} ",
        }
        for word in WORDS
    ],
}
BETWEEN: dict[str, tuple[str, str]] = {
    "a comment": ("", ": keep-alive"),
    "a line of no event": ("", "data: waiting"),
    "an unknown event": ("", 'data: {"type":"x.y"}'),
    "another block": (
        "anthropic",
        'data: {"type":"content_block_start","index":1,"content_block":{"type":"text"}}',
    ),
    "the end of another block": ("anthropic", 'data: {"type":"content_block_stop","index":1}'),
    "its own end": ("anthropic", 'data: {"type":"content_block_stop","index":0}'),
    "the end of the message": ("anthropic", 'data: {"type":"message_delta","delta":{}}'),
    "a call": ("chat", f"data: {json.dumps(choice(delta={'tool_calls': [PIECE]}))}"),
    "an end": ("chat", f"data: {json.dumps({**choice(delta={}), 'finish_reason': 'stop'})}"),
    "the end of its choice": (
        "chat",
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    ),
    "the end of all": ("chat", "data: [DONE]"),
    "a call of a candidate": (
        "gemini",
        f"data: {json.dumps(part({'functionCall': {'name': 'f', 'args': {}}}))}",
    ),
    "a thought of a candidate": (
        "gemini",
        f"data: {json.dumps(part({'text': 'Hm. ', 'thought': True}))}",
    ),
    "the end of its candidate": (
        "gemini",
        'data: {"candidates":[{"index":0,"content":{},"finishReason":"STOP"}]}',
    ),
    "another candidate": (
        "gemini",
        'data: {"candidates":[{"index":1,"content":{"parts":[{"text":"a"}]}}]}',
    ),
    "a chunk of numbers": ("gemini", 'data: {"usageMetadata":{"totalTokenCount":1}}'),
    "another item": (
        "responses",
        'data: {"type":"response.output_item.added","output_index":1,"item":{"type":"message"}}',
    ),
    "the end of an item": (
        "responses",
        'data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message"}}',
    ),
    "the end of the response": ("responses", 'data: {"type":"response.completed","response":{}}'),
}


def event(body: dict[str, Any]) -> Event:
    return RawReader().feed(f"data: {json.dumps(body)}\n\n".encode())[0]


def cases() -> Iterator[tuple[str, str]]:
    for name, (only, _) in BETWEEN.items():
        yield from [(name, api) for api in TEXTS if only in {"", api}]


@pytest.mark.parametrize(("name", "api"), [*cases()])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_what_comes_between_the_words_of_a_text_ends_nothing(
    name: str, api: str, count: int
) -> None:
    (between,) = RawReader().feed(f"{BETWEEN[name][1]}\n\n".encode())
    events: list[Event] = []
    for at, body in enumerate(TEXTS[api]):
        events += [event(body), *([between] if at % count == count - 1 else [])]
    assert holds(said(api, events)), "control"
    made = through(ReplyFilter(api, Withholds(REFUSED)), events)
    assert not holds(said(api, made))
    # The other words of the same text stay.
    other = [
        event(json.loads(one.data.replace(WORDS[3], "never")))
        if one.data and one.data[0] == "{"
        else one
        for one in events
    ]
    assert "never" in said(api, through(ReplyFilter(api, Withholds(REFUSED)), other))


@pytest.mark.parametrize(
    ("name", "api"), [one for one in cases() if "end" not in one[0].split() and "its" not in one[0]]
)
def test_what_comes_between_the_letters_of_a_word_ends_no_word(name: str, api: str) -> None:
    (between,) = RawReader().feed(f"{BETWEEN[name][1]}\n\n".encode())
    piece = json.dumps(TEXTS[api][0])
    events: list[Event] = []
    for at in range(0, len(REFUSED), 3):
        said_now = json.dumps(REFUSED[at : at + 3])
        events += [event(json.loads(piece.replace(json.dumps("From "), said_now))), between]
    assert said(api, events) == REFUSED, "control"
    made = said(api, through(ReplyFilter(api, Withholds(REFUSED)), events))
    assert made.strip() == "[withheld]"


NESTED = {"type": "tool_use", "input": REFUSED, "arguments": REFUSED}
BESIDE: dict[str, tuple[str, dict[str, Any]]] = {
    "of a chat's call": ("chat", choice(delta={"tool_calls": [{**PIECE, "note": REFUSED}]})),
    "of its function": (
        "chat",
        choice(delta={"tool_calls": [{"index": 0, "function": {"name": "f", "note": REFUSED}}]}),
    ),
    "of the older call": ("chat", choice(delta={"function_call": {"name": "f", "note": REFUSED}})),
    "in the place of calls": ("chat", choice(delta={"tool_calls": REFUSED})),
    "no call": ("anthropic", {"type": "ping", "more": NESTED}),
    "a block of no block": ("anthropic", {"type": "ping", "content_block": NESTED}),
    "no item": ("responses", {"type": "response.x", "more": {"item": NESTED}}),
    "no event": ("", {"type": "x", "item": NESTED}),
    "in a chunk": ("chat", chunk(choices=[], item=NESTED)),
    "what is no seal": ("anthropic", {"type": "x", "signature": REFUSED}),
    "under a picture": ("chat", choice(delta={"image_url": {"url": "u", "note": REFUSED}})),
    "an address": ("chat", choice(delta={"image_url": "https://a/" + "%20".join(WORDS)})),
}


@pytest.mark.parametrize("name", BESIDE)
def test_nothing_stands_beside_a_call_or_under_a_seal(name: str) -> None:
    api, body = BESIDE[name]
    assert holds(together([event(body)])), "control"
    assert not holds(together(through(ReplyFilter(api, Withholds(REFUSED)), [event(body)])))


def test_a_field_beside_the_pieces_of_a_call_is_cut_and_the_call_stays() -> None:
    begun = {"type": "response.output_item.added", "output_index": 0}
    events = [event({**begun, "item": {"type": "function_call", "name": "f", "arguments": ""}})]
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0}
    events.append(event({**delta, "delta": json.dumps({"a": REFUSED}), "note": REFUSED}))
    made = bodies(through(ReplyFilter("responses", Withholds(REFUSED)), events))
    assert json.loads(made[1]["delta"]) == {"a": REFUSED}, "others decide about it"
    assert not holds(made[1]["note"])
    signed = {"type": "signature_delta", "signature": "c2lnbmVk"}
    (kept,) = through(
        ReplyFilter("anthropic", Withholds(REFUSED)), [event({**block("x"), "delta": signed})]
    )
    assert b"c2lnbmVk" in kept.raw


def test_what_stands_in_the_place_of_a_letter_is_no_letter_of_its_word() -> None:
    """A notice that begins with the letter that was left out would spell the word after all."""

    class Spelling(Withholds):
        def flow(self) -> Flow:
            return Flow(PRINTER, PlaceSearch(self.withheld), lambda _: "r, and so on")

    assert " ".join(REFUSED.split()[:8]).endswith("for"), "the run ends with that letter"
    events = [Event(raw=b"", name="", data=json.dumps({"t": letter})) for letter in REFUSED]
    made = through(ReplyFilter("", Spelling(REFUSED)), events)
    shown = "".join(str(body["t"]) for body in bodies(made))
    assert "r, and so on" in shown
    assert not holds(shown)
