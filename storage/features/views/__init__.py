"""Views of what a tenant's memories are and where they came from, for operators alone.

Each view is computed from the rows when it is asked for, and stored nowhere. No view has a part in
a verdict, or in a read of an agent.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import PRINCIPAL, MemoryId, PrincipalId

_Word = Annotated[str, Meta(min_length=1, max_length=64)]
_Choices = Annotated[dict[_Word, tuple[_Word, ...]], Meta(min_length=1)]
Categories = Annotated[dict[_Word, _Choices], Meta(min_length=1)]
"""Maps each category to its choices, and each choice to its spellings; () for its own name."""


class OriginView(msgspec.Struct, kw_only=True):
    """What one server, tool, session or principal (`by`) brought into the memories of a tenant.

    `labels` counts the live memories by label, `hidden` those in quarantine. `shares` are shares of
    all memories that the newest reads showed, by the label of the version shown. `trust` is the
    score of a tool or a principal of which an outcome is known.
    """

    by: str
    name: str
    labels: dict[str, int]
    shares: dict[str, float]
    hidden: int = 0
    trust: float | None = None


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster of the vectors of live memories.

    `name` are the words by which the texts nearest to its centre differ from those of the others,
    and `nearest` the ids of the first of them. `labels` counts all memories of the topic, `origins`
    the 200 nearest to the centre: by tool, else by server, else by principal.
    """

    name: str
    size: int
    labels: dict[str, int]
    origins: dict[str, int]
    nearest: tuple[MemoryId, ...]


class Preference(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """How often the live memories of one principal name one choice of a category.

    `confidence` is the mean of the Beta distribution that begins uniform and takes each session of
    a memory as one draw, of this choice or of another of the category; 0.95 at most. `labels`
    counts the memories, and `memory_ids` are the newest 100 of them.
    """

    principal_id: PrincipalId
    category: str
    choice: str
    confidence: float
    sessions: int
    labels: dict[str, int]
    memory_ids: tuple[MemoryId, ...]


class RankTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What the marks of people say of the rule; null where they are too few to say anything.

    `signals` are approvals of one memory for one question by one key; of each key, a fifth of all
    at most. `questions` are the newest with an approval: they are held back, and ranked by the
    approvals for earlier ones alone. Of `moved` of them, the first five memories would have another
    order, of `worse` a worse one. `gain` is the mean change of NDCG@5, and `low` to `high` its
    bounds of 95 %, by drawing questions anew. `wins`: `low` is above 0.
    """

    signals: int
    questions: int = 0
    moved: int = 0
    worse: int = 0
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    wins: bool = False
