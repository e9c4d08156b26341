"""What a tool map says about a model's own requests and replies (`proxy.dialects.model`)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Word = Annotated[str, Meta(min_length=1, max_length=128)]


class InModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a map's tools are recognised among a model's tools, and in its replies."""

    # API tool type -> tool of the map: a tool of this type is that tool, whatever its name.
    types: Annotated[dict[Word, Word], Meta(max_length=16)] = {}
    # True: looked for only where an operator names this map, because these writes are normally
    # judged elsewhere.
    named_only: bool = False
    # For a memory backend's own model: the tools whose arguments equal the JSON answers of the
    # model, in the order in which they are tried.
    outputs: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    # The tool for a plain text answer, with one argument `text`.
    text: Word | None = None
    # An answer that the backend reads as "nothing found": a JSON object.
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
