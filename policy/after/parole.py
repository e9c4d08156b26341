"""Parole by trial: what a hidden memory has to pass before reads show it again. Pure.

A memory that comes back has a lower class than before, and is on probation for a while. Nothing
here raises the trust in a memory or in the principal that wrote it.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from policy.model import MemoryClass

PAROLES_MAX: Final = 2
"""How often one memory may come back by a trial."""
PROBATION_DAYS: Final = 30
PROBATION_RECALLS: Final = 50
"""A probation ends after `PROBATION_DAYS`, or this many recalls by others than the writers."""

_LOWER: Final = {
    MemoryClass.L1: MemoryClass.L2,
    MemoryClass.L2: MemoryClass.L3,
    MemoryClass.L3: MemoryClass.L4,
    MemoryClass.L4: MemoryClass.L4,
}


class TrialStep(enum.Enum):
    """The steps of a trial, in their order; values are stable."""

    PROVENANCE = "provenance"
    FAILURES = "failures"
    QUESTIONS = "questions"
    PAROLES = "unhidden"


class Against(enum.Enum):
    """Why a memory does not pass a step of its trial; values are stable."""

    VIOLATOR = "violator"
    """The program that wrote it did what no text can make a model do."""
    FORGED_LABEL = "forged_label"
    """Its client claimed a more trusted source than the gate found."""
    EXPIRED = "expired"
    """It is past the expiry that it was written with."""
    FAILS = "fails"
    """An answer that it helped to make wrong would be wrong again."""
    OUTDATED = "outdated"
    """A newer memory of the same answer, which is trusted more, still contradicts it."""
    GONE = "gone"
    """One of its wrong answers cannot be judged again: evidence, a rule or a judge is missing."""
    QUESTION = "question"
    """A registered question would be answered differently with the memory shown."""
    ENOUGH = "enough"
    """It came back `PAROLES_MAX` times before."""


class StepDone(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a trial: how many things were looked at, and what speaks against the memory."""

    step: TrialStep
    count: int
    against: Against | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one trial, in their order; the first that a memory does not pass ends it."""

    steps: tuple[StepDone, ...]

    @property
    def against(self) -> Against | None:
        """What speaks against the memory; None if it passed every step."""
        if tuple(one.step for one in self.steps) == tuple(TrialStep):
            return self.steps[-1].against
        return self.steps[-1].against or Against.GONE

    @property
    def passed(self) -> bool:
        """Whether the memory passed every step."""
        return self.against is None

    @property
    def said(self) -> str:
        """The trial in one line without content, for the audit log."""
        steps = ", ".join(f"{one.step.value} {one.count}" for one in self.steps)
        ended = "trial passed" if self.against is None else f"trial: {self.against.value}"
        return f"{ended} ({steps})"


def lowered(memory_class: MemoryClass) -> MemoryClass:
    """The class that a memory of this class has after a parole: one class lower; L4 stays L4."""
    return _LOWER[memory_class]
