"""The common form of all model APIs' requests: who said what, and which tools were called."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from proxy.dialects.strict_json.tolerant import Json

Where: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from a body, or a message, to one string in it."""


class Voice(enum.Enum):
    """The part of a request in which a text came; the role "user" does not prove a person."""

    SYSTEM = "system"  # the system prompt, and messages of the developer
    USER = "user"  # user turns, after texts that agents put into them were split off
    MODEL = "model"  # what the model said in earlier turns
    TOOL = "tool"  # results of tools
    CATALOGUE = "catalogue"  # names and descriptions of tools, in the tool list or in a result
    UNPLACED = "unplaced"  # a block of a kind that this version does not know


class ContextText(msgspec.Struct, frozen=True, kw_only=True):
    """One string of the context.

    `where` is relative to its message, so that a parsed message can be cached.
    """

    where: Where
    text: str
    voice: Voice
    # The id of the tool call that the text answers.
    call_id: str | None = None
    # True for a picture, a PDF or a file given by its id, which the model reads and this code
    # cannot; `text` has no words then.
    sealed: bool = False


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of a model. `arguments` is None if the arguments are no JSON object."""

    call_id: str
    name: str
    server: str | None = None  # the namespace under which a host groups MCP tools
    arguments: dict[str, Json] | None
    # The arguments as text, if they are no JSON object: such arguments cannot be judged, but an
    # agent may still read them.
    unread: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One message or input item: the texts it adds to the context, and its calls."""

    said: tuple[ContextText, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    # The name of the speaking user, if the API gives one: several persons may share a conversation.
    speaker: str = ""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed request.

    `turns` are in order; `prefix` is the place of their list in the body.
    """

    system: tuple[ContextText, ...]
    prefix: Where
    turns: tuple[Turn, ...]
    catalogue: tuple[tuple[str, tuple[ContextText, ...]], ...]
    # The id of the earlier reply that this request continues without repeating the conversation.
    continues: str | None = None
    streams: bool = False
    # The model that is asked, by the name that the client gives it.
    model: str = ""
    # Whether the provider may run a search of its own without showing the results.
    searches: bool = False
    # Whether the conversation has blocks that the provider signed together with the turns before
    # them, so that a change of such a turn makes the blocks invalid.
    thinks: bool = False


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """One whole reply: its id, the model's texts, and the model's calls."""

    reply_id: str | None
    said: tuple[str, ...]
    calls: tuple[ModelCall, ...]
    # Texts that the provider's own tools gave the model, and that the reply contains as well.
    heard: tuple[ContextText, ...] = ()
    # Whether the provider ran tools of its own for the reply; a replay would run them again.
    ran_tools: bool = False


def reply_of(reply_id: str | None, *turns: Turn, ran_tools: bool = False) -> ModelReply:
    """One reply, made of the turns of its messages or output items."""
    said = [one for turn in turns for one in turn.said]
    return ModelReply(
        reply_id=reply_id,
        said=tuple(one.text for one in said if one.voice is Voice.MODEL),
        calls=tuple(call for turn in turns for call in turn.calls),
        heard=tuple(one for one in said if one.voice is not Voice.MODEL),
        ran_tools=ran_tools,
    )
