"""Sentences and stems: texts cut and folded to be found again, where nothing may change."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.text.readings import flowing, repeated
from policy.text.sentences import sentences_of
from policy.text.stems import RARE, is_nobodys, ranked, stem_of
from policy.withheld.words import fingerprint

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


LINE = "Bills of the firm are paid at the quay office."
AROUND = [
    f"     1\u2192{LINE}",
    f"1\t{LINE}",
    f"12: {LINE}",
    f"src/desk.md:12:{LINE}",
    f"src/desk.md-12-{LINE}\nsrc/desk.md:13:{LINE}",
    f">> > {LINE}",
    f"+ {LINE}",
    f"// {LINE}",
    f"note: {LINE}",
    f"- **Rule**: {LINE}",
    f"| a | {LINE} |",
    f'Result: {{"note": "{LINE}"}}',
    f'a,"{LINE}",b',
    "Bills of the firm are\npaid at the quay\noffice.",
    "  > Bills of the firm are\n  > paid at the quay office.",
    "<b>Bills</b> of <a href='u'>the firm</a> are paid at the quay office.",
]


@pytest.mark.parametrize("text", AROUND)
def test_a_sentence_is_found_again_without_what_stood_around_it(text: str) -> None:
    (wanted,) = sentences_of(LINE)
    assert wanted not in sentences_of(text) or text.startswith(("+", ">"))
    assert wanted in [one for other in repeated(text) for one in sentences_of(other)]


def test_plain_words_have_no_other_reading() -> None:
    assert [*repeated(LINE)] == []
    assert [*repeated("")] == []


def test_paragraphs_stay_apart() -> None:
    assert flowing("One line\nand more.\n\n \nThe next.\n").split("\n") == [
        "One line and more.",
        "The next.",
    ]


@pytest.mark.parametrize(
    "forms",
    [
        ("paint", "paints", "painted", "painting"),
        ("volunteer", "volunteers", "volunteering", "volunteered"),
        ("city", "cities"),
        ("go", "went", "gone", "gonna"),
        ("plan", "planned", "planning", "plans"),
        ("child", "children", "kids", "kid"),
        ("hope", "hoped", "hoping", "hopes"),
        ("adopt", "adopts", "adopted"),
    ],
)
def test_forms_of_one_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem_of(form) for form in forms}) == 1


def test_what_is_in_every_text_says_nothing_and_a_rare_word_most() -> None:
    ranks = [ranked(word)[1] for word in ("the", "und", "people", "culture", "hydrologist")]
    assert ranks == [0, 0, 1, 2, RARE]
    assert ranked("xy")[1] == 1


@pytest.mark.parametrize(
    ("sentence", "nobodys"),
    [
        ("Thanks!", True),
        ("You\u2019re welcome!", True),
        ("Sounds good.", True),
        ("Wow, yes!", True),
        ("That is great, thanks!", False),
        ("Call Acme", False),
        ("Yes, always.", True),
        ("Approved.", False),
        ("42", False),
        ("\u6211\u540c\u610f", False),
    ],
)
def test_three_words_of_every_text_are_nobody_s(sentence: str, nobodys: bool) -> None:  # noqa: FBT001
    assert is_nobodys(sentence) is nobodys


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_any_word_has_a_stem_and_a_rank(word: str) -> None:
    stem, rank = ranked(word)
    assert stem
    assert 0 <= rank <= RARE
