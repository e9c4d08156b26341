"""Where a class that a client named is lowered, and how a leaf says so."""

from __future__ import annotations

from typing import Final

from policy.model import ChangeKind, MemoryClass

LOWERED: Final = (MemoryClass.L2, MemoryClass.L3)
"""The one class that is lowered instead of held, and the class that it becomes."""


def is_lowered(change: ChangeKind, named: MemoryClass | None, landed: MemoryClass) -> bool:
    """Whether a memory landed below the class that its client named; None: it named none.

    A leaf has no field for it, and needs none: it has both classes.
    """
    return change is ChangeKind.CREATE and named is not None and landed.power < named.power
