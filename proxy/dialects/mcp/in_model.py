"""The part of a tool map that concerns a model's requests and replies (`proxy.dialects.model`)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Word = Annotated[str, Meta(min_length=1, max_length=128)]


class InModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a map's tools are recognised among the tools of a model's request, and in its replies."""

    # A mapping of an API's tool types to tools of the map: a tool of such a type is treated as the
    # map's tool, whatever its own name.
    types: Annotated[dict[Word, Word], Meta(max_length=16)] = {}
    # True: the map is used only if an operator names it, because its writes are normally judged
    # elsewhere, such as at a relay.
    named_only: bool = False
    # Tools of the map. A model's JSON reply to a memory backend is read as the arguments of the
    # first of these tools that it fits.
    outputs: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    # Names of properties: if the JSON schema that a request sets for the answer has all of these,
    # the answer is judged by this map, at any `[[model]]` table.
    schema: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    # The tool of the map as a call of which a plain text reply is read, as the argument `text`.
    text: Word | None = None
    # A JSON object that a memory backend reads as "nothing to store". It replaces a reply of which
    # no fact is left.
    empty: Annotated[str, Meta(max_length=4_096)] = "{}"

    def named_tools(self) -> tuple[str, ...]:
        """The names of the map's tools that `types`, `outputs` and `text` mention."""
        return (*self.types.values(), *self.outputs, *((self.text,) if self.text else ()))

    def has_empty(self) -> bool:
        """Whether the map's `empty` (the reply for "nothing to store") is a JSON object."""
        try:
            return isinstance(msgspec.json.decode(self.empty), dict)
        except msgspec.DecodeError:
            return False
