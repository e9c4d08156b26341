"""Removes withheld texts from requests of OpenAI's two APIs.

A readable reasoning item that contains withheld words is left out. The API ties later items of the
same reply to the reasoning by the items' ids, so these ids are removed, and the API accepts the
items as new ones.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.reading import kind_of, list_of, object_of, text_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import (
    SIGNED,
    TEXTS,
    Asks,
    HeldCallIds,
    LeftUnchanged,
    arguments,
    beside,
    cut_lines,
    joined,
    result,
    sieved,
    withhold_turns,
    without_withheld,
    written,
)
from proxy.dialects.strict_json.tolerant import Json

# Members of a message, beside its content, in which models return their reasoning.
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_SPOKEN: Final = frozenset({"content", "tool_calls", "function_call"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "mcp_call"})
_THOUGHT: Final = "reasoning"


def withhold_chat(body: dict[str, Json], leave: LeftUnchanged, asks: Asks) -> dict[str, Json]:
    """A Chat Completions body without withheld texts; the same object if it contains none."""
    return withhold_turns(body, "messages", leave, asks, _chat_message)


def withhold_responses(body: dict[str, Json], leave: LeftUnchanged, asks: Asks) -> dict[str, Json]:
    """A Responses body without withheld texts; the same object if it contains none."""
    made = withhold_turns(body, "input", leave, asks, _item)
    given = made.get("input")
    items = list_of(given)
    gone = {
        at
        for at, item in enumerate(items)
        if at not in leave.clean and _thinks_aloud(object_of(item), asks)
    }
    if not gone:
        return made
    kept: list[Json] = []
    tied = False
    for at, item in enumerate(items):
        if at in gone:
            tied = True
            continue
        kind = kind_of(item)
        # Ids are removed from all later items of the same reply of the model.
        tied = tied and (kind in _CALLS or (kind == "message" and _by_model(item)))
        unnamed = {key: part for key, part in object_of(item).items() if key != "id"}
        kept.append(unnamed if tied else item)
    return {**made, "input": kept}


def _by_model(item: Json) -> bool:
    return object_of(item).get("role") == "assistant"


def _thinks_aloud(item: dict[str, Json], asks: Asks) -> bool:
    if item.get("type") != _THOUGHT:
        return False
    name = written(item)
    if asks.unbinds(name):
        return True
    asks = asks.of_the("text", by_model=True)
    if asks.of(joined([item.get(key) for key in sorted(SIGNED)])) is None:
        return False
    asks.unbind(name)
    return True


def _chat_message(
    message: dict[str, Json], where: Where, leave: LeftUnchanged, asks: Asks, waiting: HeldCallIds
) -> dict[str, Json]:
    """A message without withheld texts; `waiting` are the ids of calls that proposed held texts."""
    role = text_of(message.get("role"))
    if role in {"tool", "function"}:
        content = message.get("content")
        left, _ = result(text_of(message.get("tool_call_id")) or "", content, asks)
        return message if left is content else {**message, "content": left}
    by_model = role == "assistant"
    of_text = asks.of_the("text", by_model=by_model)
    made: dict[str, Json] = {
        key: value if key in _SPOKEN else beside(value, (*where, key), leave, of_text)
        for key, value in message.items()
        if key not in _REASONING or of_text.of(joined(value)) is None
    }
    if "content" in made:
        place = (*where, "content")
        made["content"] = without_withheld(
            TEXTS, made["content"], place, leave, asks, waiting, by_model=by_model
        )
    calls = list_of(message.get("tool_calls"))
    legacy = message.get("function_call")
    if (calls or legacy) and of_text.of(written([*calls, legacy])) is not None:
        if calls:
            made["tool_calls"] = [_chat_call(object_of(call), asks, waiting) for call in calls]
        if legacy:
            made["function_call"] = _function(object_of(legacy), asks.of_the("call"))
    return made if any(made.get(key) is not message[key] for key in message) else message


def _chat_call(call: dict[str, Json], asks: Asks, waiting: HeldCallIds) -> dict[str, Json]:
    made = dict(call)
    asks = asks.of_the("call", by_model=text_of(call.get("id")) in waiting)
    if "function" in call:
        made["function"] = _function(object_of(call.get("function")), asks)
    custom = object_of(call.get("custom"))
    if custom:
        given = text_of(custom.get("input")) or ""
        made["custom"] = {**custom, "input": cut_lines(given, asks)}
    return made


def _function(function: dict[str, Json], asks: Asks) -> dict[str, Json]:
    return {**function, "arguments": arguments(function.get("arguments"), asks)}


def _item(
    item: dict[str, Json], where: Where, leave: LeftUnchanged, asks: Asks, waiting: HeldCallIds
) -> dict[str, Json]:
    kind = text_of(item.get("type")) or ("message" if "role" in item else "")
    if kind == _THOUGHT:
        return item
    made = item
    if kind in _OUTPUTS and ("output" in item or kind != "mcp_call"):
        call_id = text_of(item.get("call_id")) or text_of(item.get("id")) or ""
        output = item.get("output")
        left, _ = result(call_id, output, asks)
        made = item if left is output else {**item, "output": left}
    if kind in _CALLS:
        key = "input" if kind == "custom_tool_call" else "arguments"
        given = item.get(key)
        of_call = asks.of_the("call", by_model=text_of(item.get("call_id")) in waiting)
        if key == "input" and isinstance(given, str):
            new: Json = cut_lines(given, of_call)
        else:
            new = arguments(given, of_call)
        return made if new is given else {**made, key: new}
    if kind in _OUTPUTS:
        return made
    if kind != "message":
        return object_of(sieved(item, asks))
    content, by_model = item.get("content"), item.get("role") == "assistant"
    place = (*where, "content")
    new = without_withheld(TEXTS, content, place, leave, asks, waiting, by_model=by_model)
    return item if new is content else {**item, "content": new}
