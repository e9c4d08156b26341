"""Observations are closed texts; ids of the environment never share a byte."""

from __future__ import annotations

import pytest

from policy.model import ChangeKind, MemoryClass, SourceKind
from policy.verdict import InvariantBroken, Reason
from proxy.seams.environment import POOL_LEN, Environment, RandomPool
from proxy.seams.observations import NEXT, WHY, observation_for, way_of, whose_words
from proxy.withhold.texts import own_texts


def test_every_reason_has_one_text_and_no_two_share_it() -> None:
    assert set(NEXT) == set(Reason)
    assert len(set(NEXT.values())) == len(NEXT)


def test_every_reason_has_few_words_for_a_person_and_none_of_its_code() -> None:
    assert set(WHY) == set(Reason)
    assert max(map(len, WHY.values())) <= 60
    # Control: a code is not among the words that a person reads.
    codes = {reason.value for reason in Reason}
    assert not codes.intersection(" ".join(WHY.values()).split())


@pytest.mark.parametrize("decision", ["hold", "reject", "missing", "error"])
def test_refusal_names_reason_and_class(decision: str) -> None:
    for reason in Reason:
        text = observation_for(decision, reason, MemoryClass.L2)
        assert f"({reason.value}, L2)" in text
        assert text.startswith("Not stored")
        assert text.isascii()
        assert text.isprintable()


def test_a_hold_that_only_the_agent_can_write_tells_it_when_to_ask_again() -> None:
    texts = {
        target: observation_for("hold", Reason.CLASS_FLOOR, MemoryClass.L1, way=way_of(target))
        for target in ("memories", "mcp/notes", "mcp/model/letta-agent")
    }
    assert {*texts.values()} < {*own_texts()}, "each is one of the closed list"
    asked_again = "send it again only after the person has allowed it"
    assert [target for target, text in texts.items() if asked_again in text] == [
        "mcp/model/letta-agent"
    ]
    # Control: what the store or a relay writes would be proposed twice.
    assert [target for target, text in texts.items() if "Do not send it again" in text] == [
        "memories",
        "mcp/notes",
    ]


@pytest.mark.parametrize("change", [ChangeKind.DELETE, ChangeKind.PURGE])
def test_a_deletion_that_waits_says_so(change: ChangeKind) -> None:
    text = observation_for("hold", Reason.PERSON_REQUIRED, MemoryClass.L3, change)
    assert text.startswith("Not deleted yet (person_required, L3): the deletion waits")
    assert observation_for("hold", Reason.PERSON_REQUIRED, MemoryClass.L3).startswith("Not stored")


@pytest.mark.parametrize("change", [ChangeKind.CREATE, ChangeKind.DELETE])
def test_what_waits_already_is_said_to_and_is_still_one_of_the_closed_list(
    change: ChangeKind,
) -> None:
    told = observation_for("hold", Reason.CLASS_FLOOR, MemoryClass.L1, change, again=True)
    noun = "deletion" if change is ChangeKind.DELETE else "text"
    assert f"(class_floor, L1): the same {noun} already waits for a person." in told
    # Control: what is proposed for the first time is not said to wait already.
    first = observation_for("hold", Reason.CLASS_FLOOR, MemoryClass.L1, change)
    assert "already" not in first
    assert {told, first} < {*own_texts()}, "no refusal withholds what the gate itself says"


def test_refusal_without_a_reason_is_a_broken_promise() -> None:
    assert observation_for("admit", None, MemoryClass.L3) == "Stored as L3."
    with pytest.raises(InvariantBroken):
        observation_for("reject", None, MemoryClass.L3)


def test_a_person_is_told_whose_words_these_are() -> None:
    for hers in (SourceKind.USER_INPUT, SourceKind.OPERATOR):
        assert whose_words(hers, ("fetch",)) is None
    read = whose_words(SourceKind.MODEL_INFERENCE, ("web fetch", "search"))
    assert read == "Not your words; this conversation had read: web fetch, search."
    for nothing in (None, ()):
        assert (whose_words(SourceKind.TOOL_RESULT, nothing) or "").startswith("Not your words")


def test_no_two_ids_share_bytes_across_blocks() -> None:
    pool = RandomPool()
    ids = [pool(16) for _ in range(3 * POOL_LEN // 16)]
    assert {len(one) for one in ids} == {32}
    assert len(set(ids)) == len(ids)
    assert all(bytes.fromhex(one) for one in ids)


def test_a_block_that_does_not_divide_gives_whole_ids() -> None:
    pool = RandomPool()
    ids = [pool(count) for _ in range(POOL_LEN // 8) for count in (8, 7, 16)]
    assert {len(one) for one in ids} == {14, 16, 32}


def test_an_id_longer_than_a_block_is_whole() -> None:
    assert len(RandomPool()(2 * POOL_LEN)) == 4 * POOL_LEN


def test_milliseconds_are_whole_ones_that_have_passed() -> None:
    outside = Environment(
        clock_ns=lambda: 1_999_999, random_hex=RandomPool(), record=lambda event: None
    )
    assert outside.now_ms() == 1
