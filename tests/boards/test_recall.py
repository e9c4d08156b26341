"""Recall and laundering: what a board counts, and what it says where it has no texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.boards.board import Board
from tests.boards.laundering import SCRIPTS, ends_with_the_turn, laundering, no_gate
from tests.boards.recall import BEAM, Chats, beam, bm25, notes_of, recall
from tests.evaluate.search import Conversation


def test_recall_is_the_share_of_the_texts_that_answer() -> None:
    gold = [frozenset({0, 1}), frozenset({2})]
    one = Conversation(name="one", texts=["a", "b", "c"], questions=["x", "y"], gold=gold)
    chats = Chats(each=[one], kinds=[["fact", "order"]])
    answers = [[[0, 2], [1]]]
    assert recall(chats, answers, [[True, True]]) == 25.0
    assert recall(chats, answers, [[True, False]]) == 50.0


def test_notes_of_beam_answer_what_the_turns_that_came_from_them_answer(tmp_path: Path) -> None:
    chat = tmp_path / "1"
    (chat / "probing_questions").mkdir(parents=True)
    plan = (
        "BATCH 1 PLAN\n• **Anchor:** March 15\n• **Pet:** A cat.\nBATCH 2 PLAN\n• **Home:** Graz.\n"
    )
    (chat / "plan_new.txt").write_text(plan)
    said = ("What day? ->-> 1,1", "My cat purrs. ->-> 1,2", "And it eats.", "Graz! ->-> 2,1")
    turns = [
        {"role": role, "id": 2 * at + (role != "user"), "content": text}
        for at, text in enumerate(said)
        for role in ("user", "assistant")
    ]
    (chat / "chat.json").write_text(json.dumps([{"turns": [turns]}]))
    asked = {
        "facts": [
            {"question": "Which pet?", "source_chat_ids": [4]},
            {"question": "Where and when?", "source_chat_ids": {"first": [0], "then": 6}},
        ],
        "abstention": [{"question": "Why?"}],
    }
    (chat / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))
    found = notes_of(tmp_path)
    assert found.each[0].texts == ["March 15", "A cat.", "Graz."]
    assert found.each[0].gold == [frozenset({1}), frozenset({0, 2})]
    assert found.kinds == [["facts", "facts"]]


def test_bm25_finds_the_rare_word_first() -> None:
    texts = ["the port of Lisbon", "the port", "the port and the quay"]
    assert bm25(texts, ["where is the quay?", "Lisbon"]) == [[2, 0, 1], [0, 1, 2]]


async def test_without_a_checkout_of_beam_the_reason_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(BEAM, raising=False)
    with pytest.raises(pytest.skip.Exception, match="MNEMOGATE_BEAM names no checkout of BEAM"):
        await beam(Board())
    monkeypatch.setenv(BEAM, "/nowhere")
    with pytest.raises(pytest.skip.Exception, match="it has no chats/100K"):
        await beam(Board())


def test_the_other_rule_trusts_every_script_but_that_of_one_turn() -> None:
    trusted = [name for name, script in SCRIPTS.items() if ends_with_the_turn(script)]
    assert trusted == list(SCRIPTS)[1:]
    assert all(no_gate(script) for script in SCRIPTS.values())


@pytest.mark.whole
@pytest.mark.timeout(900)
async def test_no_script_brings_a_note_above_the_floor() -> None:
    board = Board()
    await laundering(board)
    assert board.sound
