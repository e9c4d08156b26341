"""Observations are closed texts: every reason has one, and nothing else can get in."""

from __future__ import annotations

import pytest

from policy.model import ChangeKind, MemoryClass
from policy.verdict import InvariantBroken, Reason
from proxy.seams.observations import NEXT, observation_for


def test_every_reason_has_one_text_and_no_two_share_it() -> None:
    assert set(NEXT) == set(Reason)
    assert len(set(NEXT.values())) == len(NEXT)


@pytest.mark.parametrize("decision", ["hold", "reject", "missing", "error"])
def test_refusal_names_reason_and_class(decision: str) -> None:
    for reason in Reason:
        text = observation_for(decision, reason, MemoryClass.L2)
        assert f"({reason.value}, L2)" in text
        assert text.startswith("Not stored")
        assert text.isascii()
        assert text.isprintable()


def test_hold_tells_the_agent_to_go_on() -> None:
    text = observation_for("hold", Reason.CLASS_FLOOR, MemoryClass.L1)
    assert "waits for a person" in text
    assert "Do not send it again" in text


@pytest.mark.parametrize("change", [ChangeKind.DELETE, ChangeKind.PURGE])
def test_a_deletion_that_waits_says_so(change: ChangeKind) -> None:
    text = observation_for("hold", Reason.PERSON_REQUIRED, MemoryClass.L3, change)
    assert text.startswith("Not deleted yet (person_required, L3): the deletion waits")
    assert observation_for("hold", Reason.PERSON_REQUIRED, MemoryClass.L3).startswith("Not stored")


def test_refusal_without_a_reason_is_a_broken_promise() -> None:
    assert observation_for("admit", None, MemoryClass.L3) == "Stored as L3."
    with pytest.raises(InvariantBroken):
        observation_for("reject", None, MemoryClass.L3)
