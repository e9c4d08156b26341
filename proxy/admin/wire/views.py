"""Requests and answers of the operator API about selections of memories, and views of them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX, Memory, OperatorScope, SourceKind
from proxy.admin.wire.route import PAGE_MAX, TenantQuery, Wide, get, post
from storage.features.views import OriginView, Preference, RankTrial, Topic
from storage.questions import LIKE_MIN

Moment = Annotated[int, Meta(ge=0, le=10**15 - 1)]
"""Unix milliseconds."""


class SelectionRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memories of which one version fits all given fields; all of the tenant if none is given."""

    principal: Wide | None = None
    # SERVER or SERVER/TOOL: the origin of the text, as the leaf of its verdict names it.
    origin: Wide | None = None
    session: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | None = None
    # A target such as `notes`; targets below it, such as `notes/today`, match too.
    under: Wide | None = None
    label: SourceKind | None = None
    # The id of a memory, to whose text the cosine is at least `above`.
    like: Annotated[str, Meta(max_length=64)] | None = None
    above: Annotated[float, Meta(ge=-1, le=1)] = LIKE_MIN
    since_ms: Moment | None = None


class SearchRequest(SelectionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What memory has about a text, best first; without a text, the selection newest first.

    With `like` and no text, the most like come first. `hidden`: memories in quarantine as well.
    """

    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)] | None = None
    hidden: bool = False
    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 10


class FoundMemory(Memory, frozen=True, kw_only=True):
    """One memory of a search, with its score and the parts of it; null where they do not apply.

    `capped`: the memory was over the cap of its origin, so it comes after the others.
    """

    score: float | None = None
    cosine: float | None = None
    words: float | None = None
    trust: float | None = None
    capped: bool = False


class FoundPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a search; `total` is null for a search by text, which ranks all memories.

    A page ends early at 16 MiB of text; the next one has the offset after its last memory.
    """

    memories: tuple[FoundMemory, ...]
    total: int | None = None


class OriginList(msgspec.Struct, frozen=True, kw_only=True):
    """The origins of memories, those of most memories first; `reads` counts the reads examined."""

    origins: tuple[OriginView, ...]
    reads: int


class TopicsRequest(SelectionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memories to be divided into topics, and into how many at most."""

    count: Annotated[int, Meta(ge=1, le=100)] = 12


class TopicList(msgspec.Struct, frozen=True, kw_only=True):
    """The topics of live memories, the largest first."""

    topics: tuple[Topic, ...]


class PreferencesRequest(SelectionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memories to be searched for choices, and a TOML of categories; null: the shipped ones.

    Each table of it is a category, and maps each choice to its spellings; [] for its own name.
    """

    categories: Annotated[str, Meta(max_length=TEXT_LEN_MAX)] | None = None


class PreferenceList(msgspec.Struct, frozen=True, kw_only=True):
    """The choices that memories name, by principal and category, the surest first."""

    preferences: tuple[Preference, ...]


SEARCH: Final = post(
    "/memories/search",
    SearchRequest,
    FoundPage,
    "What memory has about a text, or is like a memory, or came from one place.",
    slow=True,
    least=OperatorScope.REVIEW,
)
ORIGINS: Final = post(
    "/insight/origins",
    SelectionRequest,
    OriginList,
    "What each server, tool, session and principal brought in, and how often reads showed it.",
    slow=True,
    least=OperatorScope.REVIEW,
)
TOPICS: Final = post(
    "/insight/topics",
    TopicsRequest,
    TopicList,
    "What live memories are about: groups of like texts.",
    slow=True,
    least=OperatorScope.REVIEW,
)
PREFERENCES: Final = post(
    "/insight/preferences",
    PreferencesRequest,
    PreferenceList,
    "Which technologies the memories of each principal name, and how surely.",
    slow=True,
    least=OperatorScope.REVIEW,
)
RANK: Final = get(
    "/rank",
    TenantQuery,
    RankTrial,
    "What ranking by feedback would change, and whether it would win; no search uses it.",
    slow=True,
    least=OperatorScope.VIEW,
)
