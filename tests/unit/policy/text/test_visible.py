"""What a person sees of a text: what is plain as it is, and everything else by its number."""

from __future__ import annotations

import pytest

from policy.text.visible import escaped, is_plain


@pytest.mark.parametrize("char", [*"aZ0 .,;:!?\"'()[]{}<>/\\@#$%&*+=-_~^|`\n\t", *"äßéЖ中あ٣“”—…"])
def test_letters_digits_blanks_and_plain_punctuation_are_shown(char: str) -> None:
    assert is_plain(char)


@pytest.mark.parametrize(
    "char",
    [
        *"\u202e\u200b\u2066\u00ad\ufeff\u00a0\u2028\u3164\u115f\u2800\u034f\ufe0f\x00\x1b\x7f\r",
        *"\u0308\u20dd\ue000\U000e0041\U0001f600\u2713\u2460",
    ],
)
def test_everything_else_is_escaped(char: str) -> None:
    assert not is_plain(char)
    assert escaped(char) == f"\\u{{{ord(char):x}}}"
