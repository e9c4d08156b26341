"""Parses requests and whole replies of OpenAI's Responses API: `POST /v1/responses`."""

from __future__ import annotations

from collections.abc import Iterator
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
}
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "mcp_call"})
# Items whose content the provider stores or encrypts: a mapping of the item's type to the member
# that names the content.
_ELSEWHERE: Final = {"item_reference": "id", "compaction": "encrypted_content"}
# Items by which a client and its model find tools: the member with their text, and its voice.
_OF_TOOLS: Final = {
    "additional_tools": ("tools", Voice.CATALOGUE),
    "tool_search_call": ("arguments", Voice.MODEL),
    "tool_search_output": ("tools", Voice.CATALOGUE),
}
_TEXTS: Final = frozenset({"input_text", "output_text", "text", "refusal"})
# Calls of tools that the provider runs itself, mostly without showing what the tools returned.
_PROVIDED: Final = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call"),
        "image_generation_call",
    }
)
# Types of output items for which the provider ran nothing: the client executes these calls. An item
# of any other type counts as a call or result of the provider's own tools.
_ASKED_ONLY: Final = frozenset(
    {
        *("message", "reasoning", "compaction", "function_call", "custom_tool_call"),
        *("local_shell_call", "apply_patch_call", "computer_call"),
        *("mcp_list_tools", "mcp_approval_request", "tool_search_call"),
    }
)


def read_request(body: dict[str, Json], readings: Readings = AFRESH) -> ModelRequest:
    """Parse a request into its texts, each with its voice, and its calls and tools.

    Parts of an unknown form become texts of the voice `UNPLACED`, and are never refused.
    """
    given = body.get("input")
    whole = isinstance(given, str)
    turns = (
        # A bare string is the whole value of `input`, so the place of its text has no index.
        (Turn(said=said_in(given, ("input",), Voice.USER)),)
        if whole
        else readings.each(list_of(given), read_turn)
    )
    conversation = body.get("conversation")
    continues = text_of(body.get("previous_response_id")) or text_of(
        conversation if isinstance(conversation, str) else object_of(conversation).get("id")
    )
    return ModelRequest(
        system=said_in(body.get("instructions"), ("instructions",), Voice.SYSTEM),
        prefix=() if whole else ("input",),
        turns=turns,
        catalogue=tuple(_catalogue(body, readings)),
        continues=continues,
        streams=body.get("stream") is True,
        model=text_of(body.get("model")) or "",
    )


def read_turn(item: dict[str, Json]) -> Turn:
    """Parse one input or output item; the places of its texts are relative to the item."""
    kind = kind_of(item) or ("message" if "role" in item else "")
    if kind in _CALLS:
        return Turn(said=_outcome(item, kind), calls=(_call(item, kind),))
    if kind == "reasoning":
        return Turn()
    if kind.endswith("_output") and kind not in _OF_TOOLS:
        call_id = text_of(item.get("call_id"))
        return Turn(said=result_in(item.get("output"), ("output",), call_id))
    if kind != "message":
        return Turn(said=_elsewhere(item, kind) or said_in(item, (), Voice.UNPLACED))
    voice = _VOICES.get(text_of(item.get("role")) or "", Voice.UNPLACED)
    content = item.get("content")
    if isinstance(content, str):
        return Turn(said=said_in(content, ("content",), voice))
    said: list[ContextText] = []
    for at, part in enumerate(list_of(content)):
        block = object_of(part)
        block_kind = text_of(block.get("type")) or ""
        if block_kind == "input_image":
            said += sealed_in(("content", at), voice)
            continue
        of = voice if block_kind in _TEXTS else Voice.UNPLACED
        if of is voice:
            key = "refusal" if block_kind == "refusal" else "text"
            said += said_in(block.get(key), ("content", at, key), of)
        else:
            said += unplaced_in(block, ("content", at))
    return Turn(said=tuple(said))


def read_reply(body: dict[str, Json]) -> ModelReply:
    """Parse a whole reply, or the response object at the end of a stream."""
    items = [item for item in map(object_of, list_of(body.get("output"))) if item]
    turns = [read_turn({**item, "role": "assistant"}) for item in items]
    ran_tools = any((kind_of(item) or "message") not in _ASKED_ONLY for item in items)
    return reply_of(text_of(body.get("id")), *turns, ran_tools=ran_tools)


def _without_result(item: dict[str, Json]) -> dict[str, Json]:
    """The item; without its result, if that is a generated picture, which is no text."""
    picture = item.get("type") == "image_generation_call"
    return {key: part for key, part in item.items() if not (picture and key == "result")}


def _elsewhere(item: dict[str, Json], kind: str) -> tuple[ContextText, ...]:
    """The texts of an item whose content the provider stores or encrypts, or of one about tools.

    () for other items.
    """
    if kind in _OF_TOOLS:
        member, voice = _OF_TOOLS[kind]
        rest = {name: part for name, part in item.items() if name not in {member, "execution"}}
        said = said_in(item.get(member), (member,), voice, text_of(item.get("call_id")))
        return (*said, *said_in(rest, (), Voice.UNPLACED))
    if kind in _PROVIDED:
        call_id = text_of(item.get("id"))
        return (
            *sealed_in((), Voice.TOOL, call_id),
            *said_in(_without_result(item), (), Voice.TOOL, call_id),
        )
    key = _ELSEWHERE.get(kind)
    if key is None:
        return ()
    text = text_of(item.get(key)) or ""
    return (ContextText(where=(key,), text=text, voice=Voice.UNPLACED, sealed=True),)


def _call(item: dict[str, Json], kind: str) -> ModelCall:
    arguments: Json = item.get("arguments")
    server = item.get("server_label") if kind == "mcp_call" else item.get("namespace")
    call_id = item.get("call_id") or item.get("id")
    if kind == "custom_tool_call":
        # The input of a custom tool is free text, not JSON.
        free: dict[str, Json] = {"input": item.get("input")}
        arguments = free if isinstance(free["input"], str) else None
    return call_of(call_id, item.get("name"), arguments, server)


def _outcome(item: dict[str, Json], kind: str) -> tuple[ContextText, ...]:
    """The result of a tool that the provider ran, which the item of the call contains."""
    if kind != "mcp_call":
        return ()
    call_id = text_of(item.get("id"))
    return said_in(item.get("output"), ("output",), Voice.TOOL, call_id)


def _catalogue(
    body: dict[str, Json], readings: Readings
) -> Iterator[tuple[str, tuple[ContextText, ...]]]:
    for at, part in enumerate(list_of(body.get("tools"))):
        tool = object_of(part)
        if tool.get("type") == "namespace":
            # Codex groups the tools of one MCP server under a namespace, whose name it puts before
            # the tool's name.
            for index, inner in enumerate(list_of(tool.get("tools"))):
                named = object_of(inner)
                place = ("tools", at, "tools", index)
                name = f"{text_of(tool.get('name')) or ''}.{text_of(named.get('name')) or ''}"
                yield name, tool_in(named, place)
        else:
            yield readings.of(tool, _tool, at)


def _tool(tool: dict[str, Json], at: int) -> tuple[str, tuple[ContextText, ...]]:
    # A tool that the provider runs has no name, so its server or type is used as its name.
    names = map(text_of, (tool.get("name"), tool.get("server_label"), tool.get("type")))
    return next((one for one in names if one), ""), tool_in(tool, ("tools", at))
