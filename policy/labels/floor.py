"""The class floor: the least class of a text that gives orders, by who is known to have said it.

An order steers every later reader, so it is policy (L1), which no conversation may write. A
person's own order is a wish about her agent: it may stand among her preferences (L2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.labels.ceiling import FIRM_BASES
from policy.labels.derive import read_candidate
from policy.labels.forwarded_call import call_of
from policy.model import Basis, ChangeKind, MemoryClass
from policy.text.plain_rule import is_plain_rule

if TYPE_CHECKING:
    from policy.labels.derive import Reading
    from policy.model import Candidate, Provenance


def class_of_order(
    candidate: Candidate, reading: Reading, provenance: Provenance | None, *, confirmed: bool
) -> MemoryClass:
    """The least class of a text that reads as an order.

    A text that a person confirmed is her wish: L2. A text that a person only typed is L2 where the
    operator vouches that people type there, and only if it is a plain rule. An injection is
    nobody's wish: L1. So is an order with a vouched or bound label: it comes from a harness, which
    names the class that it wants.
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
    """The class of a held new memory if a person confirms it: L2 for a person's own order.

    The page that a person decides on shows this class in advance; only the gate decides on
    admission.
    """
    floored = candidate.change is ChangeKind.CREATE and candidate.memory_class is not held_as
    if held_as is not MemoryClass.L1 or not floored:
        return held_as
    reading = read_candidate(candidate)
    if not reading.directive or reading.injection or basis in FIRM_BASES:
        return held_as
    return MemoryClass.L2


def _said_in(candidate: Candidate) -> str | None:
    """The text of a candidate, without the names under which a server files it."""
    call = call_of(candidate)
    if call is None:
        return candidate.text
    return "\n".join(piece for piece in call.pieces if piece != call.key and " " in piece)
