"""The rule judge names each memory that denies what is registered, and no other."""

from __future__ import annotations

import re

import pytest

from policy.after.matchers import Applies, Matcher, check_matcher
from policy.after.rule_judge import FailingMemory, JudgedMemory, RegisteredRule, RuleJudge
from policy.model import MemoryClass, MemoryId, SourceKind

ANCHOR = RegisteredRule(rule_id="a", statement="Refunds are allowed within 30 days.")
WORDS = RegisteredRule(
    rule_id="w",
    statement="The sky over the harbour is grey.",
    matcher=Matcher(must=("grey",), must_not=("re:(sea|bottle) green",)),
)
CANARY = RegisteredRule(
    rule_id="c", matcher=Matcher(must=("Lisbon",), must_not=("Madrid", "re:Porto.{0,9}office"))
)


def memory(
    name: str,
    text: str,
    label: SourceKind = SourceKind.TOOL_RESULT,
    memory_class: MemoryClass = MemoryClass.L3,
) -> JudgedMemory:
    return JudgedMemory(memory_id=MemoryId(name), text=text, label=label, memory_class=memory_class)


def failed(name: str, *rules: str) -> FailingMemory:
    return FailingMemory(memory_id=MemoryId(name), rule_ids=rules)


def test_every_culprit_is_named_and_no_innocent() -> None:
    judge = RuleJudge((ANCHOR, WORDS, CANARY))
    assert judge.failing(
        (
            memory("lie", "Refunds are allowed within 90 days."),
            memory("honest", "Refunds are allowed within 30 days."),
            memory("word", "They painted it Bottle\nGreen."),
            memory(
                "city", "Our office moved to Madrid, and refunds are not allowed within 30 days."
            ),
            memory("pattern", "the PORTO office"),
            memory("other", "The marathon is in 90 days."),
            memory("missing", "Nothing of the harbour."),
        )
    ) == (failed("lie", "a"), failed("word", "w"), failed("city", "a", "c"), failed("pattern", "c"))


@pytest.mark.parametrize("label", SourceKind)
def test_only_memories_of_a_lower_label_fail_a_rule(label: SourceKind) -> None:
    for rule in (
        RegisteredRule(rule_id="r", statement=ANCHOR.statement, label=SourceKind.USER_INPUT),
        RegisteredRule(
            rule_id="r", matcher=Matcher(must_not=("90 days",)), label=SourceKind.USER_INPUT
        ),
    ):
        judge = RuleJudge((rule,))
        found = judge.failing((memory("m", "Refunds are allowed within 90 days.", label),))
        assert bool(found) == (label.trust < SourceKind.USER_INPUT.trust)


def test_a_rule_of_one_class_speaks_of_that_class() -> None:
    judge = RuleJudge(
        (
            RegisteredRule(
                rule_id="r", matcher=Matcher(must_not=("Madrid",), memory_class=MemoryClass.L2)
            ),
        )
    )
    assert not judge.failing((memory("m", "in Madrid"),))
    assert judge.failing((memory("m", "in Madrid", memory_class=MemoryClass.L2),))


@pytest.mark.parametrize("applies", Applies)
def test_a_matcher_is_held_against_what_it_applies_to(applies: Applies) -> None:
    matcher = Matcher(must_not=("Madrid",), applies=applies)
    judge = RuleJudge((RegisteredRule(rule_id="r", matcher=matcher),))
    assert bool(judge.failing((memory("m", "in Madrid"),))) == (applies is not Applies.ANSWER)
    assert judge.failed_by("in Madrid") == (() if applies is Applies.RETRIEVAL else ("r",))


def test_a_reply_fails_by_what_it_says_and_not_by_what_it_leaves_out() -> None:
    judge = RuleJudge((ANCHOR, CANARY))
    assert judge.failed_by("Our office is in Madrid. Refunds aren't allowed within 30 days.") == (
        "a",
        "c",
    )
    assert judge.failed_by("I do not know where the office is.") == ()


def test_what_is_missing_names_its_rule() -> None:
    judge = RuleJudge((CANARY, WORDS))
    assert judge.lacking(("The office is in LISBON.", "It is grey.")) == ()
    assert judge.lacking(("It is grey.",)) == ("c",)
    assert judge.lacking(()) == ("c", "w")


def test_a_long_honest_text_fails_no_rule_and_a_lie_at_its_end_does() -> None:
    judge = RuleJudge((ANCHOR,))
    long = "\n".join(f"Entry {number} of the diary." for number in range(400))
    assert not judge.failing((memory("m", long),))
    assert judge.failing((memory("m", f"{long}\nRefunds are allowed within 90 days."),))


def test_without_rules_nothing_fails() -> None:
    judge = RuleJudge(())
    assert not judge.failing((memory("m", "anything"),))
    assert judge.failed_by("anything") == judge.lacking(("anything",)) == ()


@pytest.mark.parametrize(
    ("matcher", "why"),
    [
        (Matcher(), "a matcher needs `must` or `must_not`"),
        (
            Matcher(must=("a",), must_not=("b", "re:(a+)+")),
            "must_not, entry 2: a repeat inside a repeat, at character 8",
        ),
        (Matcher(must=("re:(?=a)",)), "must, entry 1: lookaround, names and flags are not taken"),
    ],
)
def test_a_matcher_that_cannot_be_tried_says_which_entry_and_where(
    matcher: Matcher, why: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        check_matcher(matcher)
    check_matcher(Matcher(must=("a",), must_not=("re:b+ c",)))
