"""Calls of memory tools: refused, or each item gives back its call and hides no string of it."""

from __future__ import annotations

from policy.labels.effect import text_after
from proxy.dialects.mcp.calls import ToolCall, arguments_of, read_call, without
from proxy.dialects.mcp.maps import ToolKind
from proxy.dialects.strict_json.strict import JsonValue, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import shipped, shipped_map
from tests.fuzz.choices import withholds

WORDS = (
    b'"arguments":',
    b'"name":"create_entities"',
    b'"name":"write_note"',
    b'"name":"chroma_add_documents"',
    b'"name":"memory"',
    b'"entities":[',
    b'"observations":["',
    b'"#0"',
    b'"="',
    b'"{\\"a\\":\\"\\\\u0061\\"}"',
    b"null",
)

_MAPS = [found for name in shipped() if (found := shipped_map(name)) is not None]


def check(data: bytes) -> None:
    tool_map = _MAPS[data[0] % len(_MAPS)] if data else _MAPS[0]
    try:
        params = decode_object(data[1:])
        call = read_call(tool_map, params)
    except MalformedRequest as refused:
        withholds(refused.detail)
        return
    if call.kind not in {ToolKind.WRITE, ToolKind.DELETE}:
        assert call.items == ()
        return
    _check_items(call)


def _check_items(call: ToolCall) -> None:
    assert call.items
    everything = set(range(len(call.items)))
    for index, item in enumerate(call.items):
        alone = arguments_of(item.arguments, item.pieces)
        kept = without(call, frozenset(everything - {index}))
        assert alone == (kept if len(call.items) > 1 else call.arguments)
        for text in _strings(alone):
            assert text in item.pieces or len(text.split()) <= 1
        effect = item.effect
        if effect is not None:
            assert -1 <= max(effect.text, effect.old) < len(item.pieces)
            whole = text_after("", item.pieces, effect)
            assert whole is None or not whole or whole in item.pieces
    assert without(call, frozenset(everything)) is None


def _strings(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    return []
