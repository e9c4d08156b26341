"""The ceiling of labels that were written before there were ceilings, and how one is lowered."""

from __future__ import annotations

import msgspec
import pytest

from policy.labels.ceiling import ceiling_of, lowered
from policy.model import Basis, Provenance, SourceKind, meet


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A label in a row or a leaf."""

    source: SourceKind
    basis: Basis
    ceiling: SourceKind | None = None


@pytest.mark.parametrize("source", SourceKind)
@pytest.mark.parametrize("basis", Basis)
def test_a_label_that_says_no_ceiling_counts_as_the_least_that_its_writer_may_have_seen(
    source: SourceKind, basis: Basis
) -> None:
    match basis:
        case Basis.CHANNEL | Basis.VOUCHED:
            expected = source
        case Basis.UNJOINED:
            expected = SourceKind.UNKNOWN
        case _:
            expected = meet(source, SourceKind.TOOL_RESULT)
    assert ceiling_of(Written(source=source, basis=basis)) is expected


@pytest.mark.parametrize("basis", Basis)
def test_a_ceiling_that_was_written_down_is_the_ceiling(basis: Basis) -> None:
    label = Written(source=SourceKind.USER_INPUT, basis=basis, ceiling=SourceKind.MODEL_INFERENCE)
    assert ceiling_of(label) is SourceKind.MODEL_INFERENCE


def test_a_basis_changes_only_with_the_source() -> None:
    label = Provenance(
        source=SourceKind.MODEL_INFERENCE,
        ceiling=SourceKind.MODEL_INFERENCE,
        basis=Basis.CONTAINMENT,
    )
    below = lowered(label, SourceKind.MODEL_INFERENCE, SourceKind.TOOL_RESULT)
    assert (below.source, below.ceiling, below.basis) == (
        SourceKind.MODEL_INFERENCE,
        SourceKind.TOOL_RESULT,
        Basis.CONTAINMENT,
    )
    least = lowered(label, SourceKind.UNKNOWN, SourceKind.UNKNOWN)
    assert (least.source, least.basis) == (SourceKind.UNKNOWN, Basis.LINEAGE)
