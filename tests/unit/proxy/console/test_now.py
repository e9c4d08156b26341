"""What the page Now is told of a verdict, in words that its script may write as they are."""

from __future__ import annotations

import pytest

from policy.model import MemoryClass
from policy.text.skeleton import is_plain
from policy.verdict import Reason
from proxy.admin.wire.provenance import VerdictRow
from proxy.console.now import row_of
from storage.values import Decision
from tests.unit.proxy.console.hostile import HOSTILE


def verdict(name: str) -> VerdictRow:
    return VerdictRow(
        leaf=7,
        at_ms=45_871_000,
        candidate_id="ab" * 16,
        decision=Decision.HOLD,
        reason=Reason.CLASS_FLOOR,
        memory_class=MemoryClass.L1,
        principal=name,
        server=name,
        tool=name,
    )


@pytest.mark.parametrize("name", [one[:200] for one in HOSTILE])
def test_a_row_has_no_character_that_is_not_seen(name: str) -> None:
    row = row_of(verdict(name))
    assert all(map(is_plain, row.principal + row.where))
    assert (row.at, row.word, row.why) == ("12:44:31", "held", "reads as an order")


def test_a_plain_name_stays_as_it_is() -> None:
    row = row_of(verdict("scout 2.0 \u00e9t\u00e9"))
    assert (row.principal, row.kind) == ("scout 2.0 \u00e9t\u00e9", "L1, policy")
