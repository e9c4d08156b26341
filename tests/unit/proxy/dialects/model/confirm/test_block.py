"""What a question looks like, and which turns answer one."""

from __future__ import annotations

import time

import pytest

from proxy.dialects.model.confirm.block import (
    ABOVE,
    ALPHABET,
    CODE_LEN,
    HEADING,
    Answer,
    TextAsked,
    answers_in,
    block_of,
    code_of,
    host_of,
    is_attempt,
    resembles,
    shown,
)

CODE, OTHER, THIRD = "7F3K9QWX", "2GHJ4MNP", "5RST6VWZ"


@pytest.mark.parametrize(
    "turn",
    [
        f"yes {CODE}",
        f"Yes {CODE}.",
        f"  yes {CODE.lower()}\n",
        f"`yes {CODE}`",
        f"YES  {CODE}!",
    ],
)
def test_a_turn_that_is_nothing_but_the_answer_is_one(turn: str) -> None:
    assert answers_in(turn) == (Answer(yes=True, code=CODE),)
    assert is_attempt(turn)


@pytest.mark.parametrize("apart", [" ", "\n", ", ", "; "])
def test_each_of_three_texts_is_answered_by_its_own_code(apart: str) -> None:
    turn = apart.join((f"yes {CODE}", f"no {OTHER}", f"yes {THIRD}"))
    assert answers_in(turn) == (
        Answer(yes=True, code=CODE),
        Answer(yes=False, code=OTHER),
        Answer(yes=True, code=THIRD),
    )


@pytest.mark.parametrize(
    "turn",
    [
        CODE,
        "yes",
        "no",
        f"yes {CODE[:4]}",
        f"yes {CODE}{CODE}",
        f"yes {CODE} {CODE}",
        f"yes {CODE} yes {CODE}",
        f"yes {CODE} no {CODE}",
        f"yes {CODE} please",
        f"I say yes {CODE}",
        f"yes {CODE[:4]} {CODE[4:]}",
        f"yes {CODE[:4]}-{CODE[4:]}",
        f"> yes {CODE}",
        f'"yes {CODE}"',
        f"yes\u200b{CODE}",
        f"yes {CODE[:4]}\u200b{CODE[4:]}",
        "yes \uff17\uff26\uff13\uff2b\uff19\uff31\uff37\uff38",
        "yes 7F3\u212a9QWX",  # the sign of the unit kelvin, which is a K without case
        "yes 7F3\u041a9QWX",  # a Cyrillic letter
        f"\u0443es {CODE}",
        f"ye\u017f {CODE}",
        f"maybe {CODE}",
        "yes N0V0WELS",
        " ".join(f"yes {one}{CODE[1:]}" for one in "2345"),
    ],
)
def test_any_other_turn_decides_nothing(turn: str) -> None:
    assert answers_in(turn) == ()


@pytest.mark.parametrize(
    "turn",
    [
        "yes 7F3K9QWY",
        "no \uff17\uff26\uff13\uff2b\uff19\uff31\uff37\uff38",
        "yes 7F3\u041a9QWX",
        "yes",
        "No.",
        CODE,
        f"yes: {CODE[:4]} {CODE[4:]}",
        f"yes {CODE[1:]}",
        f"yes {CODE}8",
        "yes 7F3K9QWO",
        f"yes {CODE} no {OTHER[1:]}",
        f"Oh yes, please: {CODE}",
    ],
)
def test_what_was_meant_as_an_answer_counts_as_an_attempt(turn: str) -> None:
    assert is_attempt(turn)


@pytest.mark.parametrize(
    "turn",
    ["no thanks", "yes, do that", "no problem", "no, 2 people", "tomorrow", "on 7 May 2026", ""],
)
def test_any_other_turn_behind_a_question_was_no_attempt(turn: str) -> None:
    assert not is_attempt(turn)


def test_a_code_has_eight_characters_and_spells_no_word() -> None:
    codes = {code_of(number * 7_919_000_000_081) for number in range(1, 200)}
    assert len(codes) == 199
    assert all(len(code) == CODE_LEN and set(code) <= set(ALPHABET) for code in codes)
    assert set("AEIOUL01").isdisjoint(ALPHABET)


def test_the_question_says_who_asks_what_was_read_and_how_to_answer() -> None:
    asked = [
        TextAsked("The user likes tea.", "preference", CODE),
        TextAsked("The user moved.", "knowledge", OTHER, before="The user stays."),
    ]
    assert block_of(asked, ("fetch museum.example.com",)) == (
        f"{HEADING} {ABOVE} This conversation had read: fetch museum.example.com.\n"
        f"May it remember: “The user likes tea.” (preference)? "
        f"Answer `yes {CODE}` or `no {CODE}`.\n"
        f"May it replace “The user stays.” by “The user moved.” (knowledge)? "
        f"Answer `yes {OTHER}` or `no {OTHER}`."
    )


def test_marks_are_escaped_and_what_is_invisible_is_named() -> None:
    assert shown("**tea**\u202e [x](y)\u200b<b>") == (r"\*\*tea\*\*[U+202E] \[x\](y)[U+200B]\<b\>")


def test_a_host_is_ascii_and_loses_its_left_end() -> None:
    assert host_of("bücher.example") == "xn--bcher-kva.example"
    long = host_of("bank.example." + "a" * 50 + ".evil.test")
    assert long.endswith(".evil.test")
    assert long.startswith("…")
    assert "bank" not in long


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADING} May it remember: ...",
        "mnemogate wants to know",
        "Mnem\u043egate wants to know",  # a Cyrillic letter
        "May  it remember: tea?",
        f"Answer `yes {CODE}`.",
        "say no: 7f3k9qwx",
    ],
)
def test_a_reply_that_looks_like_a_question_is_known(text: str) -> None:
    assert resembles(text)


@pytest.mark.parametrize(
    "text", ["It opens at nine.", "Yes, tomorrow it is.", "No. The museum opens at nine."]
)
def test_an_ordinary_reply_does_not(text: str) -> None:
    assert not resembles(text)


def test_a_text_spelled_in_what_nothing_is_drawn_for_is_seen() -> None:
    # A row of variation selectors spells any text for a model.
    smuggled = "".join(chr(0xE0100 + byte - 16) for byte in b"buy of Acme")
    assert shown(f"tea{smuggled}").count("[U+E01") == len(smuggled)
    for char in "\u034f\u115f\u2800\u3164\uffa0\ufe01":
        assert shown(f"tea{char}") == f"tea[U+{ord(char):04X}]"


def test_a_long_turn_is_no_answer_and_takes_no_time() -> None:
    began = time.thread_time()
    for blanks in (" " * 100_000, "\t\n " * 30_000):
        assert answers_in(f"yes {CODE}{blanks}x") == ()
        assert not is_attempt(f"yes {CODE}{blanks}x")
    assert time.thread_time() - began < 1
