"""Sentences, cut freely to find a text again; and texts folded where nothing may change."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.text.sentences import fingerprint, sentences_of

TEA = "i prefer tea"
KEY = b"k" * 32


@pytest.mark.parametrize(
    "text",
    ["I prefer tea.", "I  PREFER\ttea", "- I prefer tea", "I prefer tea!", "1. I prefer tea"],
)
def test_case_space_and_the_full_stop_make_no_other_sentence(text: str) -> None:
    assert sentences_of(text) == (TEA,)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Smith lives in the U.S. now. He is 4.5 years in.", 2),
        ("\u6211\u559c\u6b22\u8336\u3002\u6211\u53eb\u9c8d\u52c3\u3002", 2),
        (
            "\u042f \u043f\u044c\u044e \u0447\u0430\u0439. \u041e\u043d \u043d\u0435\u0442.",
            2,
        ),
        (
            "\u0627\u0644\u0634\u0627\u064a. \u0627\u0633\u0645\u064a\u061f",
            2,
        ),
        (
            "\u091a\u093e\u092f \u0917\u0930\u092e\u0964 \u0928\u093e\u092e \u0930\u093e\u092e",
            2,
        ),
        ("Yes! Really?! I do.", 3),
        ("one\n\ntwo\n\nthree", 3),
        ("- a cat\n- a dog\n\nand a bird", 3),
        ("See example.com. Or 10.5.3.1 then", 2),
        ("...", 0),
        ("", 0),
    ],
)
def test_sentences_end_where_those_of_a_script_do(text: str, count: int) -> None:
    assert len(sentences_of(text)) == count


def test_to_find_a_text_again_it_is_cut_freely_and_seen_as_a_skeleton() -> None:
    page = 'He said: "I pre\u200bfer te\u0430. Buy now!"\n* I hate milk'
    assert TEA in [one.removeprefix('he said: "') for one in sentences_of(page)]
    assert {"buy now", "i hate milk"} <= set(sentences_of(page))
    assert sentences_of("...\n\n") == ()


@pytest.mark.parametrize(
    "part",
    [
        "<a",
        "<a>",
        "[a]",
        "[a] [/",
        "\u00bb ",
        "~~",
        "``",
        "oh ",
        "not ",
        "3. x\n",
        "**a**\n",
        "(",
        ")",
        "'a ",
        "mr. ",
        "a.",
        '"',
        "`",
        "> ",
        "|\n",
        "- a:\n",
        "note: ",
        "#\n",
    ],
)
def test_no_text_takes_longer_than_it_is_long(part: str) -> None:
    def seconds(length: int) -> float:
        text = (part * length)[:length]
        started = time.perf_counter()
        sentences_of(text)
        return time.perf_counter() - started

    least = min(seconds(8_000) for _ in range(3))
    assert min(seconds(64_000) for _ in range(3)) < 40 * least + 0.5


@given(st.text(max_size=400))
def test_every_sentence_of_a_text_is_one_of_it_by_itself(text: str) -> None:
    for sentence in sentences_of(text):
        assert sentences_of(sentence)


def test_a_fingerprint_is_of_the_sentence_and_of_the_key() -> None:
    assert fingerprint(TEA, KEY) == fingerprint(TEA, KEY) < 2**64
    assert fingerprint(TEA, KEY) != fingerprint(TEA, b"l" * 32)
    assert fingerprint(TEA, KEY) != fingerprint(TEA + "s", KEY)
    assert fingerprint("\ud800", KEY) != fingerprint("\ud801", KEY)
