"""Rewrites replies in which another parser could find a different tool call than the judged one.

Some parsers take the first of two equal keys, some ignore case, some read digits in a string as a
number. A reply that such a parser could read differently is rewritten.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.reading import repeats
from proxy.dialects.model.stream import event_of, payload
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json

_HOLD: Final = frozenset(
    {
        *("choices", "delta", "message", "content", "content_block", "tool_calls", "function"),
        *("custom", "function_call", "response", "output", "item", "part"),
        *("candidates", "parts", "functionCall"),
    }
)
_LISTS: Final = frozenset({"choices", "tool_calls", "candidates", "parts"})
_INDEXES: Final = frozenset({"index", "output_index", "content_index", "summary_index"})
_KEYS: Final = (
    _HOLD
    | _INDEXES
    | frozenset(
        {
            *("type", "id", "name", "input", "partial_json", "arguments", "call_id", "text"),
            *("finish_reason", "stop_reason", "role", "namespace", "refusal"),
            *("args", "finishReason", "responseId", "thought"),
        }
    )
)
_FOLDED: Final = frozenset(map(str.casefold, _KEYS))


def straight(value: Json) -> Json:
    """A reply's JSON without members that differ from the API's own only in case.

    Indexes become numbers, and a member that has to be a list and is none is removed. The same
    object if nothing had to be changed.
    """
    if isinstance(value, list):
        parts = [straight(part) for part in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    if not isinstance(value, dict):
        return value
    made: dict[str, Json] = {}
    for key, part in value.items():
        if key in _LISTS and not isinstance(part, list | None):
            continue
        if key in _HOLD:
            made[key] = straight(part)
        elif key in _INDEXES:
            made[key] = _index(part)
        elif key in _KEYS or key.casefold() not in _FOLDED:
            made[key] = part
    same = len(made) == len(value) and all(made[key] is part for key, part in value.items())
    return value if same else made


def straight_object(value: dict[str, Json]) -> dict[str, Json]:
    """One object of a reply, without members that differ from the API's own only in case."""
    made = straight(value)
    return made if isinstance(made, dict) else value


def straight_event(event: Event) -> Event:
    """The event, rewritten if needed, so that every parser finds the call that was judged.

    Raises:
        UnreadableEvent: Other parsers may understand the event, but this code does not.
    """
    body = payload(event)
    if body is None or event.data is None:
        return event
    made = straight_object(body)
    if made is body and not repeats(event.data, body):
        return event
    raw = event_of(event.name, made)
    data = raw.partition(b"data: ")[2].strip().decode("utf-8", "surrogatepass")
    return Event(raw=raw, name=event.name, data=data)


def _index(value: Json) -> Json:
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < len(str(2**31)):
        return int(value)
    whole = isinstance(value, (bool, float)) and int(value) == value
    return int(value) if whole and isinstance(value, (bool, float)) else value
