"""What every model API's request comes down to: who said what, and what was asked of the agent."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from proxy.dialects.strict_json.tolerant import Json  # noqa: TC001 - msgspec reads the annotation

Where: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the body down to one string."""


class Voice(enum.Enum):
    """Through which part of the API a text came; a role is not yet a person."""

    SYSTEM = "system"  # system prompt, developer messages
    USER = "user"  # user turns, before what agents splice into them is split off
    MODEL = "model"  # what the model said before
    TOOL = "tool"  # results of tools
    CATALOGUE = "catalogue"  # names and descriptions of tools; as a result too, with its call
    UNPLACED = "unplaced"  # a kind of block that this version does not know


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One string of the context. `where` is relative to its message for a cached reading."""

    where: Where
    text: str
    voice: Voice
    call_id: str | None = None  # of the tool call it answers
    # A picture, a PDF, a file by its id: the model reads it, and nobody here can. It has no text.
    sealed: bool = False


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model's call of a tool. `arguments` is None where they are no JSON object."""

    call_id: str
    name: str
    server: str | None = None  # the namespace a host groups MCP tools under
    arguments: dict[str, Json] | None
    # What was sent as arguments and is no object: nobody judges it, and its agent may read it.
    unread: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One message or input item: everything it puts into the context, and the calls it holds."""

    said: tuple[Said, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    # The name under which a user speaks, where the API has one: several may share a conversation.
    speaker: str = ""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, read. `turns` are in order; `prefix` leads to each from the body."""

    system: tuple[Said, ...]
    prefix: Where
    turns: tuple[Turn, ...]
    catalogue: tuple[tuple[str, tuple[Said, ...]], ...]
    # The earlier reply that this request goes on from without repeating it.
    continues: str | None = None
    streams: bool = False
    # The model that is asked, by the name that the client gives it.
    model: str = ""
    # The provider may search by itself and say nothing of what it found.
    searches: bool = False


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """One whole reply: its id, the text of the model, and the calls it makes."""

    reply_id: str | None
    said: tuple[str, ...]
    calls: tuple[ModelCall, ...]
    # What tools that the provider runs told the model on the way: it stands in the reply as well.
    heard: tuple[Said, ...] = ()


def reply_of(reply_id: str | None, *turns: Turn) -> ModelReply:
    """The reply that consists of these turns."""
    said = [one for turn in turns for one in turn.said]
    return ModelReply(
        reply_id=reply_id,
        said=tuple(one.text for one in said if one.voice is Voice.MODEL),
        calls=tuple(call for turn in turns for call in turn.calls),
        heard=tuple(one for one in said if one.voice is not Voice.MODEL),
    )
