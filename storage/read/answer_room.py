"""How much room an answer has for memories: the rest is for the next page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from policy.model import Memory

_MEMORY_BYTES: Final = 512  # the bytes of a memory in an answer besides its text


class AnswerRoom:
    """How much room is left in an answer. The first memory always fits, however large it is."""

    __slots__ = ("_bytes_max", "_left", "full")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = self._left = bytes_max
        self.full = False

    def taken(self, memories: Iterable[Memory]) -> Iterator[Memory]:
        """As many of the given memories as fit into the answer, from the first on."""
        for memory in memories:
            size = _MEMORY_BYTES + len(memory.text) + len(memory.metadata_json or "")
            self.full = self._left < size and self._left != self._bytes_max
            if self.full:
                return
            self._left -= size
            yield memory
