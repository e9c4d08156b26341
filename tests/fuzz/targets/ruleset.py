"""Rulesets: a text is rejected with a reason, or means the same rules each time."""

from __future__ import annotations

from policy.model import MemoryClass, SourceKind
from policy.ruleset import Cell, RulesetError, parse_ruleset
from tests.fuzz.choices import lines_of, words

WORDS = words(
    """
    [matrix] [budgets] [trust] [anchors] [classes.mem0] [matrix.unknown] L1 L2 L3 L4
    operator "admit" "checked" "token" "hold" "refuse" text_bytes_max window_s over_rate
    reject = soft_score_min scoring outrank_margin names default
    """
)


def check(data: bytes) -> None:
    text = lines_of(data)
    try:
        rules = parse_ruleset(text, 3)
    except RulesetError as error:
        _check_message(str(error))
        return
    assert parse_ruleset(text, 3) == rules
    for source in SourceKind:
        for memory_class in MemoryClass:
            assert rules.cell(source, memory_class) in Cell
    assert rules.epoch == 3


def _check_message(said: str) -> None:
    assert said, "a refusal without a reason"
