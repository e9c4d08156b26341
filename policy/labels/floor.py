"""The class floor: the least class of a text that gives orders, by who is known to have said it.

An order steers every later reader, so it is policy (L1), which no conversation may write. A
person's own order is a wish about her agent: it may be one of her preferences (L2).
"""

from __future__ import annotations

from policy.labels.derive import read_candidate
from policy.labels.forwarded_call import call_of
from policy.model import Basis, Candidate, ChangeKind, MemoryClass, Provenance, Reading, SourceKind
from policy.text.plain_rule import is_plain_rule


def class_of_order(
    candidate: Candidate, reading: Reading, provenance: Provenance | None, *, confirmed: bool
) -> MemoryClass:
    """The least class of a text that reads as an order.

    A text that a person confirmed is her wish: L2. So is a plain rule that comes with her own key.
    An injection is no one's wish: L1. So is an order of an operator, or of a harness that the
    operator vouches for: they name the class that they want.
    """
    if reading.injection or provenance is None or provenance.basis is Basis.VOUCHED:
        return MemoryClass.L1
    if provenance.source is SourceKind.OPERATOR:
        return MemoryClass.L1
    hers = provenance.source is SourceKind.USER_INPUT
    plain = confirmed or (hers and is_plain_rule(_said_in(candidate)))
    return MemoryClass.L2 if plain else MemoryClass.L1


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
    if not reading.directive or reading.injection or basis is Basis.VOUCHED:
        return held_as
    return MemoryClass.L2


def _said_in(candidate: Candidate) -> str | None:
    """The text of a candidate, without the names under which a server files it."""
    call = call_of(candidate)
    if call is None:
        return candidate.text
    return "\n".join(piece for piece in call.pieces if piece != call.key and " " in piece)
