"""What an order may become, by who is known to have given it.

An order steers whoever reads it later, so it is policy (L1), which no conversation may write. A
person's own order is a wish about her agent: it may stand among her preferences (L2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.labels.derive import FIRM_BASES, read_candidate
from policy.labels.forwarded_call import call_of
from policy.model import Basis, ChangeKind, MemoryClass
from policy.text.plain_rule import is_plain_rule

if TYPE_CHECKING:
    from policy.labels.derive import Reading
    from policy.model import Candidate, Provenance


def class_of_order(
    candidate: Candidate, reading: Reading, provenance: Provenance | None, *, confirmed: bool
) -> MemoryClass:
    """The least class that a flagged text lands in.

    A person who confirmed it has seen all of it. One who only typed it is believed where the
    operator vouches that people type there, and as far as a plain rule goes. An attack on the
    agent's instructions is nobody's wish, and a label that is vouched for or bound comes from a
    harness that names the class it wants.
    """
    if reading.injection or provenance is None:
        return MemoryClass.L1
    typed = provenance.basis is Basis.ENDORSEMENT and provenance.by_person
    if confirmed and provenance.basis not in FIRM_BASES:
        return MemoryClass.L2
    return MemoryClass.L2 if typed and is_plain_rule(_said_in(candidate)) else MemoryClass.L1


def class_once_confirmed(
    candidate: Candidate, held_as: MemoryClass, basis: Basis | None
) -> MemoryClass:
    """What a held new memory becomes if a person says that it is so: her order, a preference.

    For what she is shown before she decides. What is admitted is decided by the gate alone.
    """
    floored = candidate.change is ChangeKind.CREATE and candidate.memory_class is not held_as
    if held_as is not MemoryClass.L1 or not floored:
        return held_as
    reading = read_candidate(candidate)
    if not reading.directive or reading.injection or basis in FIRM_BASES:
        return held_as
    return MemoryClass.L2


def _said_in(candidate: Candidate) -> str | None:
    """The text, without the names that a server files it under."""
    call = call_of(candidate)
    if call is None:
        return candidate.text
    return "\n".join(piece for piece in call.pieces if piece != call.key and " " in piece)
