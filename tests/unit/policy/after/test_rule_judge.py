"""The rule judge names what denies a registered text; what the rules keep no longer."""

from __future__ import annotations

import re

import msgspec
import pytest

from policy.after.matchers import Applies, Matcher, check_matcher
from policy.after.retention import DueMemory, Pass, RetentionItem, Why
from policy.after.rule_judge import FailingMemory, JudgedMemory, RegisteredRule, RuleJudge
from policy.model import MemoryClass, MemoryId, PrincipalId, Scope, SourceKind, Tenant
from policy.ruleset import Retention, RetentionRule, RulesetError, parse_ruleset
from tests.unit.storage.opening import RULESET_TEXT

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


DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS
EPISODE = RetentionItem(
    ordinal=0,
    tenant=Tenant("default"),
    memory_id=MemoryId("m"),
    principal_id=PrincipalId("agent"),
    scope=Scope(user_id="ada"),
    memory_class=MemoryClass.L4,
    at_ms=NOW_MS,
    expires_at_ms=None,
)


def due(rules: Retention, *items: RetentionItem) -> list[tuple[int, Why]]:
    seen = Pass(rules, NOW_MS)
    for ordinal, item in enumerate(items):
        seen.see(msgspec.structs.replace(item, ordinal=ordinal))
    return [(one.item.ordinal, one.why) for one in _checked(seen.due())]


def _checked(found: tuple[DueMemory, ...]) -> tuple[DueMemory, ...]:
    assert len({one.item.ordinal for one in found}) == len(found), "each memory once"
    return found


def changed(**fields: object) -> RetentionItem:
    return msgspec.structs.replace(EPISODE, **fields)


def test_rules_that_say_nothing_erase_nothing() -> None:
    assert due(Retention(), changed(at_ms=0, expires_at_ms=0)) == []
    assert Pass(parse_ruleset(RULESET_TEXT).retention, NOW_MS).idle


@pytest.mark.parametrize(("expired_days_ago", "erased"), [(6, False), (7, True), (8, True)])
def test_an_expired_memory_goes_after_its_grace(*, expired_days_ago: int, erased: bool) -> None:
    item = changed(expires_at_ms=NOW_MS - expired_days_ago * DAY_MS)
    assert due(Retention(expired_grace_days=7), item) == ([(0, Why.EXPIRED)] if erased else [])


def test_age_counts_from_the_last_change_and_only_in_its_class() -> None:
    rules = Retention(classes={MemoryClass.L4: RetentionRule(age_days_max=30)})
    old = NOW_MS - 30 * DAY_MS
    items = (
        changed(at_ms=old),
        changed(at_ms=old + 1),
        changed(at_ms=0, memory_class=MemoryClass.L3),
    )
    assert due(rules, *items) == [(0, Why.AGE)]


def test_the_newest_of_each_principal_and_each_scope_stay() -> None:
    rules = Retention(classes={MemoryClass.L4: RetentionRule(per_principal_max=2)})
    other = changed(principal_id=PrincipalId("other"))
    assert due(rules, EPISODE, other, EPISODE, EPISODE) == [(0, Why.PER_PRINCIPAL)]
    rules = Retention(classes={MemoryClass.L4: RetentionRule(per_scope_max=1)})
    bob = changed(scope=Scope(user_id="bob"))
    assert due(rules, EPISODE, bob, EPISODE) == [(0, Why.PER_SCOPE)]
    elsewhere = changed(tenant=Tenant("other"))
    assert due(rules, EPISODE, elsewhere) == [], "tenants are counted apart"


def test_what_two_rules_end_is_due_once() -> None:
    keeping = RetentionRule(per_principal_max=1, per_scope_max=1)
    rules = Retention(classes={MemoryClass.L4: keeping})
    assert due(rules, EPISODE, EPISODE) == [(0, Why.PER_PRINCIPAL)]


def test_a_ruleset_says_it_in_words_and_a_wrong_word_is_refused() -> None:
    text = RULESET_TEXT + "\n[retention]\nexpired_grace_days = 7\n"
    text += "[retention.classes.L4]\nage_days_max = 30\nper_principal_max = 1000\n"
    rules = parse_ruleset(text).retention
    assert rules.expired_grace_days == 7
    assert rules.classes[MemoryClass.L4].per_principal_max == 1000
    for bad in ("age_days_max = 0", "age_days = 3"):
        with pytest.raises(RulesetError):
            parse_ruleset(RULESET_TEXT + f"\n[retention.classes.L4]\n{bad}\n")
