"""What is quoted comes back as it was, and no mark in it is seen meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.text.quoting import HELD, Held

_PARTS = (
    *(
        "a b. ",
        "c",
        "\n",
        "\n> ",
        "| ",
        "(",
        ")",
        "[",
        "]",
        "[b]",
        "[/b]",
        "<b>",
        "</b>",
        "<b ",
        ">",
    ),
    *(
        "`",
        "``",
        "```",
        "''",
        "'",
        '"',
        "~~",
        "<!--",
        "-->",
        "\u00ab",
        "\u00bb",
        "\u2039",
        "\u203a",
    ),
    *("\u300c", "\u300d", "\u275d", "\u275e", "7", " "),
)


@given(st.lists(st.sampled_from(_PARTS), max_size=30).map("".join))
def test_what_was_taken_out_comes_back(text: str) -> None:
    held = Held(text)
    assert held.restored(held.text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("say (so) now", "say # now"),
        ("((a) b) c", "# c"),
        ("\u00aba\u00bb b \u00bbc\u00ab d \u00bbe\u00bb f", "# b # d # f"),
        ("x \u00bb y", "x \u00bb y"),
        ("~~a. b~~ c ~~ d", "# c ~~ d"),
        ("<b>a <b>c</b> d</b> e", "# e"),
        ("<b>a <i>c", "<b>a <i>c"),
        ("[quote]a [quote=b]c[/quote] d[/quote] e", "# e"),
        ("[note] a", "# a"),
        ("<!-- a --> b", "# b"),
        ("``a'' b", "# b"),
        ("it's 'a b' and 'tis", "it's # and 'tis"),
        ("> a\n> b\nc", "#\nc"),
        ("no :( smile :) here", "no :( smile :) here"),
    ],
)
def test_each_pair_is_one_piece_and_what_nobody_closes_is_none(text: str, left: str) -> None:
    assert HELD.sub("#", Held(text).text) == left
