"""What a tool put around the words of a text, and what is left without it."""

from __future__ import annotations

import pytest

from policy.text.repeating import flowing, repeated
from policy.text.sentences import sentences_of

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
