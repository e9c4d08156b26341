"""Reads out of a server's answer which items of a write it carried out, by the map's `done`.

A server may accept a call and change nothing: it has the name already, or the text. Its answer
then names what was done, and only what it names is live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from policy.model import ForwardStatus
from proxy.dialects.mcp.kept_before import json_of
from proxy.dialects.mcp.maps import AnswerShape, path
from proxy.dialects.mcp.paths import MisfitError, Pattern, places
from proxy.dialects.mcp.pieces import arguments_of
from proxy.dialects.mcp.removal import Structure
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item


def effects_of(done: str, items: Sequence[Item], result: JsonValue) -> tuple[ForwardStatus, ...]:
    """The outcome of each item of a write, as far as the answer names what was done.

    Each element at the place `done` answers for one item. An item is `DONE` if an element has all
    of the item's strings, and `NO_EFFECT` if no element with its names has any other string of it.
    It is `UNKNOWN` if an element has a part of them, or if the answer lacks the place.
    """
    *above, _ = path(done)
    try:
        lists = [one for _, one in places(json_of(result), Pattern(tuple(above)))]
    except (MalformedRequest, MisfitError):
        lists = []
    named = [_texts(one) for found in lists if isinstance(found, list) for one in found]
    if not any(isinstance(found, list) for found in lists):
        return (ForwardStatus.UNKNOWN,) * len(items)
    return tuple(_effect(item, named) for item in items)


def _effect(item: Item, named: list[Counter[str]]) -> ForwardStatus:
    said = _texts(arguments_of(item.arguments, item.pieces))
    names = Counter({item.pieces[number] for number in item.labels} | {item.key}) & said
    for one in named:
        if said <= one:
            named.remove(one)
            return ForwardStatus.DONE
    in_part = any(names <= one and (said - names) & (one - names) for one in named)
    return ForwardStatus.UNKNOWN if in_part else ForwardStatus.NO_EFFECT


def _texts(value: JsonValue) -> Counter[str]:
    return Counter(Structure(value, AnswerShape()).texts())
