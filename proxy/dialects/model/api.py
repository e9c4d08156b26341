"""Defines each supported API of model providers as one value, with its parsers and editors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.anthropic.stream import AnthropicEditor
from proxy.dialects.model.gemini import contents as gemini
from proxy.dialects.model.gemini.replies import GeminiEditor, GeminiReply
from proxy.dialects.model.openai import chat, completions, responses
from proxy.dialects.model.openai.chat_stream import ChatEditor
from proxy.dialects.model.openai.responses_stream import ResponsesEditor
from proxy.dialects.model.reading import AFRESH, Readings, list_of
from proxy.dialects.model.transcript import ContextText, ModelReply, ModelRequest, Voice
from proxy.dialects.model.whole_replies import AnthropicReply, ChatReply, ResponsesReply
from proxy.dialects.strict_json.tolerant import Json

# Edits one streamed reply; after `again`, `feed` gets the stream of the second request. The caller
# decides all waiting calls before it feeds the next event.
Editor: TypeAlias = AnthropicEditor | ChatEditor | ResponsesEditor | GeminiEditor
# Edits one whole reply; after `again`, `feed` gets the reply to the second request.
WholeReply: TypeAlias = AnthropicReply | ChatReply | ResponsesReply | GeminiReply


class ReadsRequest(Protocol):
    """Parses a request; parts of earlier requests may come from a cache."""

    def __call__(self, body: dict[str, Json], readings: Readings = AFRESH, /) -> ModelRequest:
        """Parse a request's body into texts, calls and tools.

        Parts of an unknown form become texts of the voice `UNPLACED`, and are never refused.
        """
        ...


class ModelApi(msgspec.Struct, frozen=True, kw_only=True):
    """The functions that parse and edit one API.

    `turns` is the key of the conversation in a request.
    """

    name: str  # The API's name: "anthropic", "chat", "responses", "gemini" or "completions".
    turns: str
    read_request: ReadsRequest
    read_reply: Callable[[dict[str, Json]], ModelReply]
    editor: Callable[[], Editor]
    whole: Callable[[], WholeReply]


ANTHROPIC: Final = ModelApi(
    name="anthropic",
    turns="messages",
    read_request=anthropic.read_request,
    read_reply=anthropic.read_reply,
    editor=AnthropicEditor,
    whole=AnthropicReply,
)
CHAT: Final = ModelApi(
    name="chat",
    turns="messages",
    read_request=chat.read_request,
    read_reply=chat.read_reply,
    editor=ChatEditor,
    whole=ChatReply,
)
RESPONSES: Final = ModelApi(
    name="responses",
    turns="input",
    read_request=responses.read_request,
    read_reply=responses.read_reply,
    editor=ResponsesEditor,
    whole=ResponsesReply,
)
GEMINI: Final = ModelApi(
    name="gemini",
    turns=gemini.TURNS,
    read_request=gemini.read_request,
    read_reply=gemini.read_reply,
    editor=GeminiEditor,
    whole=GeminiReply,
)
APIS: Final = (ANTHROPIC, CHAT, RESPONSES, GEMINI)
# A completions API has no conversation. Its reply is parsed like that of a chat, and the model is
# not asked again.
COMPLETIONS: Final = ModelApi(
    name="completions",
    turns="messages",
    read_request=completions.read_request,
    read_reply=chat.read_reply,
    editor=ChatEditor,
    whole=ChatReply,
)


def of_program(api: ModelApi) -> ModelApi:
    """The API for agents whose user turns a program writes: such texts are `Voice.UNPLACED`."""

    def read_request(body: dict[str, Json], readings: Readings = AFRESH, /) -> ModelRequest:
        read = api.read_request(body, readings)
        turns = tuple(
            msgspec.structs.replace(turn, said=tuple(map(_unplaced, turn.said)))
            for turn in read.turns
        )
        return msgspec.structs.replace(read, turns=turns)

    return msgspec.structs.replace(api, read_request=read_request)


def _unplaced(said: ContextText) -> ContextText:
    if said.voice is not Voice.USER:
        return said
    return msgspec.structs.replace(said, voice=Voice.UNPLACED)


def continued(api: ModelApi, body: dict[str, Json], more: list[Json]) -> dict[str, Json]:
    """The request with more messages appended to its conversation."""
    given = body.get(api.turns)
    turns = list_of(given)
    if isinstance(given, str):
        message: dict[str, Json] = {"type": "message", "role": "user", "content": given}
        turns = [message]
    longer: list[Json] = [*turns, *more]
    return {**body, api.turns: longer}
