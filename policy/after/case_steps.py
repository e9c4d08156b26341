"""The words of a case of a wrong answer that its leaves contain; all values are stable."""

from __future__ import annotations

import enum


class CaseStep(enum.Enum):
    """How far a case is; values are stable."""

    OPENED = "opened"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    NOT_MEMORY_CAUSED = "not_memory_caused"
    CONVICTED = "convicted"
    NEEDS_PERSON = "needs_person"
    HEALED = "healed"
    CLOSED = "closed"


class CaseSignal(enum.Enum):
    """Which kind of source said that an answer was wrong; values are stable."""

    OPERATOR = "operator"
    PERSON = "person"
    ANCHOR = "anchor"
    CANARY = "canary"
    JUDGE = "judge"


class CaseMode(enum.Enum):
    """How answers were replayed in the search for a culprit; values are stable.

    Either what a search shows, or what a caller's judge says, or what the model says again.
    """

    RETRIEVAL = "retrieval"
    JUDGE = "judge"
    MODEL = "model"
