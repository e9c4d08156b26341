"""Anthropic's Messages API: `POST /v1/messages`, requests and whole replies.

Source: the published API reference, and the requests of the real clients named in the tests.
"""

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
    Where,
    reply_of,
)
from proxy.dialects.strict_json.tolerant import Json

_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
# Blocks of these types are signed by the provider: they may not be changed, and have no text to
# read.
_SIGNED: Final = frozenset({"thinking", "redacted_thinking"})
# Types of blocks in a reply for which the provider ran nothing. A block of any other type counts as
# a call or result of the provider's own tools.
_ASKED_ONLY: Final = _SIGNED | {"text", "tool_use", "compaction"}

_REFERENCE: Final = frozenset({"type", "tool_name", "cache_control"})
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
# `system` is the role of messages in which Claude Code puts its own texts between the turns.
_VOICES: Final = {"assistant": Voice.MODEL, "user": Voice.USER, "system": Voice.SYSTEM}


def read_request(body: dict[str, Json], readings: Readings = AFRESH) -> ModelRequest:
    """Parse a request into its texts, each with its voice, and its calls and tools.

    Parts of an unknown form become texts of the voice `UNPLACED`, and are never refused.
    """
    thread, messages = object_of(body.get("thread")), list_of(body.get("messages"))
    return ModelRequest(
        system=said_in(body.get("system"), ("system",), Voice.SYSTEM),
        prefix=("messages",),
        turns=readings.each(messages, read_turn),
        catalogue=tuple([readings.of(object_of(tool), _tool, at) for at, tool in _tools(body)]),
        continues=text_of(thread.get("previous_message_id")),
        streams=body.get("stream") is True,
        model=text_of(body.get("model")) or "",
        thinks=any(readings.each(messages, _thinks)),
    )


def _thinks(message: dict[str, Json]) -> bool:
    """Whether a message has signed blocks."""
    return any(kind_of(block) in _SIGNED for block in list_of(message.get("content")))


def read_turn(message: dict[str, Json]) -> Turn:
    """Parse one message; the places of its texts are relative to the message."""
    voice = _VOICES.get(text_of(message.get("role")) or "", Voice.UNPLACED)
    content = message.get("content")
    if isinstance(content, str):
        return Turn(said=said_in(content, ("content",), voice))
    said: list[ContextText] = []
    calls: list[ModelCall] = []
    for at, part in enumerate(list_of(content)):
        block = object_of(part)
        kind = text_of(block.get("type")) or ""
        if kind in _CALLS:
            calls.append(_call(block))
        else:
            said += _block(block, kind, ("content", at), voice)
    return Turn(said=tuple(said), calls=tuple(calls))


def read_reply(body: dict[str, Json]) -> ModelReply:
    """Parse a whole reply (not a stream)."""
    turn = read_turn({"role": "assistant", "content": body.get("content")})
    kinds = [object_of(one).get("type") for one in list_of(body.get("content"))]
    ran_tools = any(kind not in _ASKED_ONLY for kind in kinds)
    return reply_of(text_of(body.get("id")), turn, ran_tools=ran_tools)


def _block(
    block: dict[str, Json], kind: str, where: Where, voice: Voice
) -> tuple[ContextText, ...]:
    if kind == "text":
        # Citations quote documents, so they do not count as words of the message's speaker.
        by = Voice.TOOL if voice is Voice.MODEL else Voice.UNPLACED
        quoted = said_in(block.get("citations"), (*where, "citations"), by)
        return said_in(block.get("text"), (*where, "text"), voice) + quoted
    if kind in _SIGNED:
        return ()
    if kind == "image":
        return sealed_in(where, voice)
    if kind.endswith("tool_result"):
        return _result(block.get("content"), (*where, "content"), block.get("tool_use_id"))
    if kind == "compaction":
        # This block is the provider's summary of turns that are not sent again. It counts as words
        # of the model.
        return said_in(block.get("content"), (*where, "content"), Voice.MODEL)
    # The block is a document or search result that was handed to the model. Its author is not
    # named, so it counts as unknown.
    return unplaced_in(block, where)


def _result(content: Json, where: Where, call_id: Json) -> tuple[ContextText, ...]:
    if _refers_to_tools(content):
        return said_in(content, where, Voice.CATALOGUE, text_of(call_id))
    return result_in(content, where, text_of(call_id))


def _refers_to_tools(content: Json) -> bool:
    """Whether a result contains only names of tools, whose descriptions the provider inserts."""
    blocks = [object_of(one) for one in list_of(content)]
    return bool(blocks) and all(
        one.keys() <= _REFERENCE
        and one.get("type") == "tool_reference"
        and _TOOL_NAME.fullmatch(text_of(one.get("tool_name")) or "")
        for one in blocks
    )


def _call(block: dict[str, Json]) -> ModelCall:
    return call_of(block.get("id"), block.get("name"), block.get("input"), block.get("server_name"))


def _tools(body: dict[str, Json]) -> enumerate[Json]:
    return enumerate(list_of(body.get("tools")))


def _tool(tool: dict[str, Json], at: int) -> tuple[str, tuple[ContextText, ...]]:
    return text_of(tool.get("name")) or "", tool_in(tool, ("tools", at))
