"""What a tool map says of a model's own requests and replies (`proxy.dialects.model`)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Word = Annotated[str, Meta(min_length=1, max_length=128)]


class InModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a map's tools are found in what a model is offered, and in what it says."""

    # A tool of this type, which its API defines, is that tool of the map, whatever its name.
    types: Annotated[dict[Word, Word], Meta(max_length=16)] = {}
    # Looked for only where an operator names the map: what these tools write is judged elsewhere
    # as a rule.
    named_only: bool = False
    # For a memory backend's own model: tools whose arguments are the JSON that the model answers
    # with, in the order in which they are tried.
    outputs: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    # The tool whose one argument `text` is an answer that no JSON was asked for.
    text: Word | None = None
    # What the backend reads as nothing at all, whatever it asked for: a JSON object.
    empty: Annotated[str, Meta(max_length=4_096)] = "{}"

    def named_tools(self) -> tuple[str, ...]:
        """Every tool of the map that is named here."""
        return (*self.types.values(), *self.outputs, *((self.text,) if self.text else ()))

    def has_empty(self) -> bool:
        """Whether `empty` is a JSON object."""
        try:
            return isinstance(msgspec.json.decode(self.empty), dict)
        except msgspec.DecodeError:
            return False
