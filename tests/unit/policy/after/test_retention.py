"""What the rules keep no longer, decided on descriptions alone."""

from __future__ import annotations

import msgspec
import pytest

from policy.after.retention import DueMemory, Pass, RetentionItem, Why
from policy.model import MemoryClass, MemoryId, PrincipalId, Scope, Tenant
from policy.ruleset import Retention, RetentionRule, RulesetError, parse_ruleset
from tests.unit.storage.opening import RULESET_TEXT

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
