"""The common form of all model APIs' requests: who said what, and which tools were called."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from proxy.dialects.strict_json.tolerant import Json  # noqa: TC001 - msgspec reads the annotation

Where: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the body down to one string."""


class Voice(enum.Enum):
    """The part of the API in which a text came; a role alone does not prove a person."""

    SYSTEM = "system"  # system prompt, developer messages
    USER = "user"  # user turns, before agents' splices are split off
    MODEL = "model"  # what the model said before
    TOOL = "tool"  # results of tools
    CATALOGUE = "catalogue"  # names and descriptions of tools, also inside a result
    UNPLACED = "unplaced"  # a kind of block that this version does not know


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One string of the context.

    `where` is relative to its message, so that a parse can be cached.
    """

    where: Where
    text: str
    voice: Voice
    # `call_id`: the tool call it answers. `sealed`: a picture, a PDF, a file by id, which the model
    # reads and this code cannot.
    call_id: str | None = None
    # A picture, a PDF, a file by its id: the model reads it, and nobody here can. It has no text.
    sealed: bool = False


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of a model. `arguments` is None where they are no JSON object."""

    call_id: str
    name: str
    server: str | None = None  # the namespace under which a host groups MCP tools
    arguments: dict[str, Json] | None
    # Arguments that are no object: they cannot be judged, and an agent may still read them.
    unread: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One message or input item: the texts it adds to the context, and its calls."""

    said: tuple[Said, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    # The name of the speaking user, where the API has one: several may share a conversation.
    speaker: str = ""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, read. `turns` are in order; `prefix` leads to each from the body."""

    system: tuple[Said, ...]
    prefix: Where
    turns: tuple[Turn, ...]
    catalogue: tuple[tuple[str, tuple[Said, ...]], ...]
    # The earlier reply that this request continues without repeating it.
    continues: str | None = None
    streams: bool = False
    # The model that is asked, by the name that the client gives it.
    model: str = ""
    # Whether the provider may search by itself without showing what it found.
    searches: bool = False


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """One whole reply: its id, the text of the model, and the calls it makes."""

    reply_id: str | None
    said: tuple[str, ...]
    calls: tuple[ModelCall, ...]
    # What the provider's own tools told the model: it also stands in the reply.
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
