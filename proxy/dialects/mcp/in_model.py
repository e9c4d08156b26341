"""What a tool map says about a model's own requests and replies (`proxy.dialects.model`)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Word = Annotated[str, Meta(min_length=1, max_length=128)]


class InModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a map's tools are recognised among a model's tools, and in its replies."""

    # Maps a tool type of an API to a tool of the map: a tool of this type is that tool of the map,
    # whatever its own name.
    types: Annotated[dict[Word, Word], Meta(max_length=16)] = {}
    # True: the map is used only if an operator names it, because its writes are normally judged
    # elsewhere, such as at a relay.
    named_only: bool = False
    # Tools whose arguments have the form of a memory backend's JSON answers, in the order in which
    # they are tried.
    outputs: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    # The tool, with one argument `text`, as which a plain text answer is read.
    text: Word | None = None
    # A JSON object that a memory backend takes for "nothing found"; it is sent if no fact is left.
    empty: Annotated[str, Meta(max_length=4_096)] = "{}"

    def named_tools(self) -> tuple[str, ...]:
        """The names of the map's tools that `types`, `outputs` and `text` mention."""
        return (*self.types.values(), *self.outputs, *((self.text,) if self.text else ()))

    def has_empty(self) -> bool:
        """Whether the map's `empty` (the answer for "nothing found") is a JSON object."""
        try:
            return isinstance(msgspec.json.decode(self.empty), dict)
        except msgspec.DecodeError:
            return False
