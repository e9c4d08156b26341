"""Answers of memory servers: refused whole, or shown without a word of what is withheld."""

from __future__ import annotations

from proxy.dialects.mcp.catalogue import pinned_tools
from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.mcp.results import filtering, texts_of, uncached
from proxy.dialects.strict_json.strict import JsonValue, canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import shipped, shipped_map
from tests.fuzz.choices import withholds

WORDS = (
    b'"content":[{"type":"text","text":"',
    b'"structuredContent":{',
    b'"contents":[{"uri":"m://1","text":"',
    b'"messages":[{"role":"user","content":{"type":"text","text":"',
    b'"resource":{"blob":"',
    b'"results":[',
    b"withheld in here",
    b"\\n\\n",
    b"\\\\u0077",
)

_NEEDLE = "withheld in here"
_SHOWN = [found.shown for name in shipped() if (found := shipped_map(name)) is not None]


def check(data: bytes) -> None:
    shown = _SHOWN[data[0] % len(_SHOWN)] if data else _SHOWN[0]
    try:
        result = decode_object(data[1:])
    except MalformedRequest:
        return
    try:
        left = _left(result, shown)
        seen = texts_of(left, shown)
    except MalformedRequest as refused:
        withholds(refused.detail)
        return
    if _NEEDLE in canonical_json(result):
        assert left is not result or _NEEDLE not in "".join(seen)
    assert not any(_NEEDLE in text for text in seen)
    uncached("resources/read", left)
    try:
        pinned_tools([result])
    except MalformedRequest as refused:
        withholds(refused.detail)


def _left(result: JsonValue, shown: AnswerShape) -> JsonValue:
    plan = filtering(result, shown)
    try:
        asked = next(plan)
        while True:
            asked = plan.send(tuple(_NEEDLE in text for text in asked))
    except StopIteration as done:
        value: JsonValue = done.value
        return value
