"""The ceiling of a text, its second label: how far a reader who recalls the text is still trusted.

A text is judged by its source. Its ceiling is the least trusted thing that stood in its writer's
context. A paraphrase that containment cannot find keeps that ceiling in every later conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from policy.model import Basis, SourceKind, meet

if TYPE_CHECKING:
    from policy.model import Provenance

FIRM_BASES: Final = frozenset({Basis.CHANNEL, Basis.VOUCHED})
"""Bases of labels that rest on the operator's word; others rest on taint, and may be wrong."""


class Labelled(Protocol):
    """The three parts of a label, as rows, leaves and held candidates have them."""

    @property
    def source(self) -> SourceKind:
        """The source of the text: who is accountable for it, as the gate judged."""
        ...

    @property
    def basis(self) -> Basis:
        """Why the text was given that source."""
        ...

    @property
    def ceiling(self) -> SourceKind | None:
        """The least trusted thing in the writer's context.

        None in records from before ceilings were kept.
        """
        ...


def ceiling_of(label: Labelled) -> SourceKind:
    """The ceiling of a label; for a label without one, the lowest that it may have had.

    Records from before ceilings were kept do not say what was in the writer's context, so they
    count as a tool's result. A bound channel and a harness that the operator vouches for answer for
    their words themselves: there the ceiling is the source.
    """
    if label.ceiling is not None:
        return label.ceiling
    if label.basis in FIRM_BASES:
        return label.source
    unseen = label.basis is Basis.UNJOINED
    return meet(label.source, SourceKind.UNKNOWN if unseen else SourceKind.TOOL_RESULT)


def confirmed_by_a_person(label: Provenance) -> Provenance:
    """The label of a text after a person saw the whole of it and confirmed it.

    Nothing else raises a label once it is given. A label that is at least as trusted stays as it
    is.
    """
    if label.ceiling.trust >= SourceKind.USER_INPUT.trust:
        return label
    return msgspec.structs.replace(
        label,
        source=SourceKind.USER_INPUT,
        ceiling=SourceKind.USER_INPUT,
        basis=Basis.CONFIRMATION,
    )


def lowered(
    label: Provenance, source: SourceKind, ceiling: SourceKind, basis: Basis = Basis.LINEAGE
) -> Provenance:
    """The label, with source and ceiling lowered to at most the given ones.

    Where the source falls, the basis changes with it.
    """
    below = source.trust < label.source.trust
    return msgspec.structs.replace(
        label,
        source=meet(label.source, source),
        ceiling=meet(label.ceiling, ceiling),
        basis=basis if below else label.basis,
    )
