"""Whether a memory got a lower class than its client named."""

from __future__ import annotations

from typing import Final

from policy.model import ChangeKind, MemoryClass

LOWERED: Final = (MemoryClass.L2, MemoryClass.L3)
"""The one class that is lowered instead of held, and the class that it becomes."""


def is_lowered(change: ChangeKind, named: MemoryClass | None, landed: MemoryClass) -> bool:
    """Whether a memory got a lower class than its client named; False where none was named.

    A leaf has no field for this, and needs none: the leaf has both classes.
    """
    return change is ChangeKind.CREATE and named is not None and landed.power < named.power
