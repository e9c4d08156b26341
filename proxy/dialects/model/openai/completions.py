"""Parses the older API that completes a text (`POST /v1/completions`) and its imitations.

The authors of a prompt's parts are unknown, so the whole prompt has the voice `UNPLACED`. A request
with a conversation instead of a prompt is parsed as one of the Chat Completions API.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.openai import chat
from proxy.dialects.model.reading import AFRESH, Readings, list_of, said_in
from proxy.dialects.model.transcript import ContextText, ModelRequest, Turn, Voice
from proxy.dialects.strict_json.tolerant import Json

_PROMPTS: Final = ("prompt", "suffix")


def read_request(body: dict[str, Json], readings: Readings = AFRESH) -> ModelRequest:
    """Parse a request into the texts of its prompt, or of its conversation."""
    if "messages" in body:
        return chat.read_request(body, readings)
    said = [one for key in _PROMPTS for one in said_in(body.get(key), (key,), Voice.UNPLACED)]
    if spells_tokens(body):
        said.append(ContextText(where=("prompt",), text="", voice=Voice.UNPLACED))
    return ModelRequest(
        system=(),
        # The places of these texts are paths from the body, not from a message.
        prefix=(),
        turns=(Turn(said=tuple(said)),),
        catalogue=(),
        streams=body.get("stream") is True,
        searches=chat.searches(body),
    )


def spells_tokens(body: dict[str, Json]) -> bool:
    """Whether a prompt consists of token numbers, which cannot be read here."""
    pending = list_of(body.get("prompt"))
    return any(isinstance(part, (int, float, list)) for part in pending)
