"""The evidence of the session ledger: what was not seen is worth nothing."""

from __future__ import annotations

from itertools import permutations

import pytest

from policy.labels.taint import NOTHING_SEEN, Joined, LabelRule, taint_of
from policy.model import SourceKind


def test_a_ledger_that_saw_nothing_says_unknown_and_endorses_nothing() -> None:
    assert NOTHING_SEEN.taint is SourceKind.UNKNOWN
    assert NOTHING_SEEN.joined is Joined.NONE
    assert NOTHING_SEEN.session is None
    assert not NOTHING_SEEN.endorsed
    assert not NOTHING_SEEN.whole
    assert NOTHING_SEEN.contained == ()


def test_an_empty_context_is_unknown() -> None:
    assert taint_of(()) is SourceKind.UNKNOWN


@pytest.mark.parametrize("order", list(permutations(SourceKind, 3)))
def test_a_context_is_as_trusted_as_the_least_trusted_thing_in_it(
    order: tuple[SourceKind, ...],
) -> None:
    taint = taint_of(order)
    assert taint in order
    assert taint.trust == min(kind.trust for kind in order)


def test_the_words_of_a_rule_are_those_of_the_ruleset() -> None:
    assert {rule.value for rule in LabelRule} == {"taint", "containment"}
