"""Questions and texts as a search scores them, selections, and the room of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from policy.model import PRINCIPAL, Memory, MemoryId, PrincipalId, SourceKind, Tenant

LIKE_MIN: Final = 0.6
"""The least cosine at which a memory counts as like another, unless a selection names one."""


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """A filter for memories: it matches a memory of which one version fits all fields that are set.

    `server` and `tool` are the origin that the verdict's leaf names. `under`: a target, a
    file of it or a namespace, and all that continue it after a slash. `like`: the id of a memory to
    whose newest version the cosine is at least `above`. `since_ms`: versions from that time on,
    Unix milliseconds.
    `with_descendants`, for isolations: also memories that name a matching one as a parent
    (`derived_from`), and memories derived from these, without limit.
    """

    tenant: Tenant
    principal_id: PrincipalId | None = None
    server: str | None = None
    tool: str | None = None
    session: str | None = None
    under: str | None = None
    label: SourceKind | None = None
    like: MemoryId | None = None
    above: float = LIKE_MIN
    since_ms: int | None = None
    with_descendants: bool = False

    @property
    def whole_tenant(self) -> bool:
        """Whether the filter matches every memory of the tenant, because no other field is set."""
        asked = (self.principal_id, self.server, self.session, self.under, self.since_ms)
        return all(one is None for one in (*asked, self.label, self.like))


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question as searches take it: unit vector and hashed words (b"" if it has none)."""

    vector: bytes
    words: bytes = b""


class WeighedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text to be scored as if a memory with this label had it; `vector` is its embedding."""

    text: str
    vector: bytes
    source: SourceKind


class AnsweredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A registered question and its answer, each with its embedding."""

    question: str
    question_vector: bytes
    answer: str
    answer_vector: bytes


ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes of text, metadata and names in one answer; the rest is for the next page."""
_MEMORY_BYTES: Final = 512  # the bytes of a memory in an answer besides its text


class AnswerRoom:
    """The room that is left in an answer. The first memory always fits, however large it is."""

    __slots__ = ("_bytes_max", "_left", "full")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = self._left = bytes_max
        self.full = False

    def taken(self, memories: Iterable[Memory]) -> list[Memory]:
        """The given memories, from the first on, as many as fit into the answer."""
        taken: list[Memory] = []
        for memory in memories:
            size = _MEMORY_BYTES + len(memory.text) + len(memory.metadata_json or "")
            self.full = self._left < size and self._left != self._bytes_max
            if self.full:
                break
            self._left -= size
            taken.append(memory)
        return taken
