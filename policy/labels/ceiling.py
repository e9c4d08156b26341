"""The second label of a text: how far whoever recalls it may still be trusted.

A text is judged by its source. What stood in the context of its writer beside it is its ceiling: a
paraphrase that nobody can find again keeps that, wherever and however it is read later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from policy.model import Basis, SourceKind, meet

if TYPE_CHECKING:
    from policy.model import Provenance

_KNOWN_WRITER: Final = frozenset({Basis.CHANNEL, Basis.VOUCHED})


class Labelled(Protocol):
    """A label as it was written down, in a row, a leaf or a candidate that is held."""

    @property
    def source(self) -> SourceKind:
        """What it was judged to be."""
        ...

    @property
    def basis(self) -> Basis:
        """Why."""
        ...

    @property
    def ceiling(self) -> SourceKind | None:
        """None where it was written before there were ceilings."""
        ...


def ceiling_of(label: Labelled) -> SourceKind:
    """The ceiling of a label; of one that says none, the least that its writer may have seen.

    Before there were ceilings, what was in the context of a writer was forgotten. Nobody knows more
    of it than that it was no better than a tool's result, unless nobody needs to know: a channel
    that is bound, and a harness that is vouched for, answer for their words themselves.
    """
    if label.ceiling is not None:
        return label.ceiling
    if label.basis in _KNOWN_WRITER:
        return label.source
    unseen = label.basis is Basis.UNJOINED
    return meet(label.source, SourceKind.UNKNOWN if unseen else SourceKind.TOOL_RESULT)


def confirmed_by_a_person(label: Provenance) -> Provenance:
    """The label of a text once a person saw the whole of it, and said that it is so.

    Nothing else raises a label that was given. One that is as good already stays as it is.
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
    """The label with both halves at most these; the basis is given where the source was lowered."""
    below = source.trust < label.source.trust
    return msgspec.structs.replace(
        label,
        source=meet(label.source, source),
        ceiling=meet(label.ceiling, ceiling),
        basis=basis if below else label.basis,
    )
