"""Parses OpenAI's Chat Completions API (`POST /v1/chat/completions`) and its imitations."""

from __future__ import annotations

import re
from typing import Final

from proxy.dialects.model.reading import (
    AFRESH,
    Readings,
    call_of,
    kind_of,
    list_of,
    object_of,
    result_in,
    said_in,
    sealed_in,
    text_of,
    tool_in,
    unplaced_in,
)
from proxy.dialects.model.transcript import (
    ContextText,
    ModelCall,
    ModelReply,
    ModelRequest,
    Turn,
    Voice,
    reply_of,
)
from proxy.dialects.strict_json.tolerant import Json

_VOICES: Final = {
    "system": Voice.SYSTEM,
    "developer": Voice.SYSTEM,
    "user": Voice.USER,
    "assistant": Voice.MODEL,
    "tool": Voice.TOOL,
    "function": Voice.TOOL,
}
_TEXTS: Final = frozenset({"text", "refusal"})
_SEALED: Final = frozenset({"image_url", "input_audio"})
# With these members a request asks the provider to search. The results appear only in the model's
# words.
_SEARCHES: Final = frozenset(
    {
        *("web_search_options", "search_parameters", "enable_search", "search_options"),
        *("plugins", "data_sources", "connectors", "documents"),
    }
)
_SEARCHING: Final = re.compile(r"-search\b|sonar|:online\b|deep-?research|compound")
_OWN_TOOLS: Final = frozenset({"function", "custom", ""})


def read_request(body: dict[str, Json], readings: Readings = AFRESH) -> ModelRequest:
    """Parse a request into its texts, each with its voice, and its calls and tools.

    Parts of an unknown form become texts of the voice `UNPLACED`, and are never refused.
    """
    tools = enumerate(list_of(body.get("tools")))
    functions = enumerate(list_of(body.get("functions")))
    catalogue = [readings.of(object_of(tool), _tool, "tools", at) for at, tool in tools]
    catalogue += [readings.of(object_of(tool), _tool, "functions", at) for at, tool in functions]
    return ModelRequest(
        system=(),
        prefix=("messages",),
        turns=readings.each(list_of(body.get("messages")), read_turn),
        catalogue=tuple(catalogue),
        streams=body.get("stream") is True,
        model=text_of(body.get("model")) or "",
        searches=searches(body),
    )


def searches(body: dict[str, Json]) -> bool:
    """Whether the provider may run a search of its own for this request."""
    return (
        any(body.get(key) for key in _SEARCHES if key in body)
        or isinstance(body.get("web_search_options"), dict)
        or _SEARCHING.search(text_of(body.get("model")) or "") is not None
        or any(kind_of(tool) not in _OWN_TOOLS for tool in list_of(body.get("tools")))
    )


def read_turn(message: dict[str, Json]) -> Turn:
    """Parse one message; the places of its texts are relative to the message."""
    voice = _VOICES.get(text_of(message.get("role")) or "", Voice.UNPLACED)
    call_id = text_of(message.get("tool_call_id")) if voice is Voice.TOOL else None
    content = message.get("content")
    said: list[ContextText] = []
    if isinstance(content, str):
        said += said_in(content, ("content",), voice, call_id)
    for at, part in enumerate(list_of(content)):
        block = object_of(part)
        kind = text_of(block.get("type")) or ""
        if kind in _SEALED:
            said += sealed_in(("content", at), voice, call_id)
            continue
        if kind in _TEXTS or voice is Voice.TOOL:
            said += said_in(block, ("content", at), voice, call_id)
        else:
            said += unplaced_in(block, ("content", at))
    if voice is Voice.TOOL and not said:
        said += result_in(None, ("content",), call_id)
    speaker = text_of(message.get("name")) if voice is Voice.USER else None
    return Turn(said=tuple(said), calls=_calls(message), speaker=speaker or "")


def read_reply(body: dict[str, Json]) -> ModelReply:
    """Parse a whole reply (not a stream), with all of its choices."""
    turns: list[Turn] = []
    for choice in map(object_of, list_of(body.get("choices"))):
        message = object_of(choice.get("message"))
        # The older API completes a text, so a choice of its replies has `text` and no message.
        completed = said_in(choice.get("text"), ("text",), Voice.MODEL)
        turns += [
            read_turn({**message, "role": "assistant"}),
            Turn(said=(*completed, *quoted_in(message))),
        ]
    return reply_of(text_of(body.get("id")), *turns)


def quoted_in(message: dict[str, Json]) -> tuple[ContextText, ...]:
    """Texts that the provider's own search found and that the model's message quotes."""
    return said_in(message.get("annotations"), ("annotations",), Voice.TOOL)


def _calls(message: dict[str, Json]) -> tuple[ModelCall, ...]:
    calls: list[ModelCall] = []
    for part in list_of(message.get("tool_calls")):
        call = object_of(part)
        function = object_of(call.get("function"))
        custom = object_of(call.get("custom"))
        name = function.get("name") or custom.get("name")
        calls.append(call_of(call.get("id"), name, function.get("arguments")))
    legacy = object_of(message.get("function_call"))
    if legacy:
        calls.append(call_of("", legacy.get("name"), legacy.get("arguments")))
    return tuple(calls)


def _tool(tool: dict[str, Json], key: str, at: int) -> tuple[str, tuple[ContextText, ...]]:
    named = object_of(tool.get("function")) or object_of(tool.get("custom")) or tool
    return text_of(named.get("name")) or "", tool_in(tool, (key, at))
