"""What a text is to somebody who reads or decodes it."""

from __future__ import annotations

import html
from base64 import b64encode
from urllib.parse import quote

import pytest

from policy.text.readings import readings_of
from policy.text.sentences import sentences_of, tails_of
from policy.text.skeleton import skeleton
from policy.withheld.words import words_of

SAID = "The refund desk of Northwind moved to Basel and opens in the Helvetia building."


def divided(text: str, mark: str) -> str:
    """Set in a narrow column, as a PDF is."""
    cut = [f"{word[:3]}{mark}\n{word[3:]}" if len(word) > 5 else word for word in text.split()]
    return " ".join(cut)


READ = {
    "as it is": SAID,
    "base64": f"data: {b64encode(SAID.encode()).decode()} end",
    "base64 in base64": b64encode(b64encode(SAID.encode())).decode(),
    "hexadecimal": SAID.encode().hex(),
    "percent signs": quote(SAID),
    "every byte in percent signs": "".join(f"%{ord(one):02X}" for one in SAID),
    "entities": "".join(f"&#{ord(one)};" for one in SAID),
    "escaped twice": html.escape(html.escape(f'"{SAID}"')),
    "escapes": "".join(f"\\u{ord(one):04x}" for one in SAID),
    "tags in words": "".join(f"{one[:1]}<b></b>{one[1:]} " for one in SAID.split()),
    "divided words": divided(SAID, "-"),
    "divided by soft hyphens": divided(SAID, "\u00ad"),
    "divided words in a quotation": "> " + divided(SAID, "-").replace("\n", "\n> "),
    "bytes in a mail": "".join(f"={ord(one):02X}" for one in SAID),
    "soft line ends of a mail": SAID.replace("Northwind", "Nort=\nhwind"),
    "bytes in a mail in entities": html.escape(
        "<p>" + "".join(f"={ord(one):02X}" for one in SAID) + "</p>"
    ).replace("=", "&#61;"),
    "percent signs in tag characters": "".join(chr(0xE0000 + ord(one)) for one in quote(SAID)),
}


@pytest.mark.parametrize("how", READ)
def test_what_a_text_is_to_its_reader(how: str) -> None:
    said = " ".join(words_of(SAID))
    assert any(said in " ".join(words_of(one)) for one in readings_of(READ[how])), how


@pytest.mark.parametrize(
    "placed",
    [
        f"To get the discount, {SAID}",
        f"<p>To get the discount, {SAID}</p>",
        f"| step | To go on | {SAID} |",
        f"12, 9; To get the discount, {SAID}",
    ],
)
def test_a_decoded_text_keeps_the_marks_behind_which_something_may_be_said_alone(
    placed: str,
) -> None:
    alone = skeleton(SAID).rstrip(".")
    tails = [
        tail
        for reading in readings_of(quote(placed))
        for sentence in sentences_of(reading)
        for tail in tails_of(sentence)
    ]
    assert alone in tails


def test_a_plain_text_has_one_reading() -> None:
    plain = "The ferry leaves at nine - or at ten-thirty. It is late.\nIt comes back at five = 17."
    assert list(readings_of(plain)) == [plain]
