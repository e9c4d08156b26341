"""Whether a server carried out a write: the map's `reconcile` read, and what its answer proves."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import ChangeKind
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import Reconcile, Shown, ToolMap, path
from proxy.dialects.mcp.message import Object
from proxy.dialects.mcp.paths import MisfitError, places
from proxy.dialects.mcp.pieces import arguments_of
from proxy.dialects.mcp.results import texts_of
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Forwarded, Unsettled

_ARGUMENT: Final = "$arg:"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A read of a server, and the texts to look for in its answer."""

    tool: str
    arguments: Object
    # Texts that only this item has; if it has none of its own, all names that it consists of.
    texts: tuple[str, ...]
    removes: bool
    proves_absence: bool
    # How the answer's structure is read, so that names which mean something only together are
    # compared together.
    shown: Shown


def question_of(tool_map: ToolMap, one: Unsettled) -> Question | None:
    """The read that shows an item's outcome; None if the map has none that fits the item."""
    try:
        arguments = arguments_of(one.arguments, one.pieces)
        call = read_call(tool_map, {"name": one.tool, "arguments": arguments})
        if call.rule is None or call.rule.reconcile is None or len(call.items) != 1:
            return None
        item = call.items[0]
        own = tuple(
            text
            for index, text in enumerate(item.pieces)
            if index not in item.labels and text != item.key
        )
        asked = _filled(call.rule.reconcile, arguments, item.key, own)
    except (MalformedRequest, MisfitError):
        return None
    return Question(
        tool=call.rule.reconcile.tool,
        arguments=asked,
        texts=own or item.pieces,
        removes=one.change is ChangeKind.DELETE,
        proves_absence=call.rule.reconcile.proves_absence,
        shown=call.rule.shown or tool_map.shown,
    )


def told(question: Question, result: JsonValue) -> Forwarded | None:
    """The outcome of the item that the answer proves; None if the answer proves neither.

    Raises:
        MalformedRequest: The answer is too large to be searched.
    """
    shown = texts_of(result, question.shown)
    found = [any(text in seen for seen in shown) for text in question.texts]
    if question.removes:
        # If one of the texts is still there, it may belong to another memory. If all are still
        # there, the item was not removed.
        if all(found):
            return Forwarded.FAILED
        return Forwarded.DONE if question.proves_absence and not any(found) else None
    if all(found):
        return Forwarded.DONE
    return Forwarded.FAILED if question.proves_absence and not any(found) else None


def _filled(reconcile: Reconcile, arguments: Object, key: str, texts: tuple[str, ...]) -> Object:
    def filled(value: JsonValue) -> JsonValue:
        if value == "$key":
            return key
        if value == "$text":
            if not texts:
                raise MalformedRequest("item: has no text to look for")
            return texts[0]
        if isinstance(value, str) and value.startswith(_ARGUMENT):
            found = [one for _, one in places(arguments, path(value.removeprefix(_ARGUMENT)))]
            if not found:
                raise MalformedRequest("item: lacks what it is looked up by")
            return found[0]
        return value

    return {
        name: [filled(one) for one in value] if isinstance(value, list) else filled(value)
        for name, value in reconcile.arguments.items()
    }
