"""Forms of one word have one stem, and what is in every text has no rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.text.stems import RARE, is_nobodys, ranked, stem_of


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
