"""The evidence of the session ledger: what was not seen is worth nothing."""

from __future__ import annotations

from policy.labels.taint import NOTHING_SEEN, Joined, LabelRule
from policy.model import SourceKind


def test_a_ledger_that_saw_nothing_says_unknown_and_endorses_nothing() -> None:
    assert NOTHING_SEEN.taint is SourceKind.UNKNOWN
    assert NOTHING_SEEN.joined is Joined.NONE
    assert NOTHING_SEEN.session is None
    assert not NOTHING_SEEN.endorsed
    assert not NOTHING_SEEN.whole
    assert NOTHING_SEEN.contained == ()


def test_the_words_of_a_rule_are_those_of_the_ruleset() -> None:
    assert {rule.value for rule in LabelRule} == {"taint", "containment"}
