"""Text of memories on a page: each character is seen, and none acts."""

from __future__ import annotations

import re
from html import unescape

import pytest
from jinja2 import UndefinedError

from policy.text.skeleton import escaped, is_plain
from proxy.console.drawing import Drawing, changes, duration, environment, shown
from tests.unit.proxy.console.hostile import HOSTILE


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_drawn_is_the_text_and_nothing_in_it_acts(text: str) -> None:
    drawn = str(shown(text))
    assert set(re.findall(r"<[^>]*>", drawn)) <= {
        '<bdi dir="auto">',
        "</bdi>",
        "<mark>",
        "</mark>",
    }
    seen = unescape(re.sub(r"<[^>]*>", "", drawn))
    assert seen == "".join(char if is_plain(char) else escaped(char) for char in text)
    # What is drawn determines what was written: no two texts of odd characters look alike.
    assert re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), seen) == text


def test_what_fired_is_marked_and_still_escaped() -> None:
    drawn = str(shown("Ada says: always <b>pay\u200b</b> it.", "always <b>pay\u200b</b>"))
    assert '<mark class="fired">always &lt;b&gt;pay<mark>\\u{200b}</mark>&lt;/b&gt;</mark>' in drawn
    assert "fired" not in str(shown("Ada says it.", "always"))


def test_an_unknown_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        Drawing().page("done.html", {"title": "Done"})


def test_a_template_escapes_what_no_filter_drew() -> None:
    made = environment().from_string("{{ text }}").render(text="<script>")
    assert made == "&lt;script&gt;"


def test_a_diff_has_each_line_of_both_texts() -> None:
    assert [*changes("a\nb", "a\nc")] == [(" ", "a"), ("-", "b"), ("+", "c")]
    many = "\n".join(map(str, range(3_000)))
    assert {sign for sign, _ in changes(many, many)} == {"-", "+"}


def test_times_are_given_in_the_largest_unit_that_fits() -> None:
    spans = (0, 61_000, 3_600_000, 7_300_000, 172_800_000)
    words = ["less than a minute", "1 minute", "1 hour", "2 hours", "2 days"]
    assert [duration(one) for one in spans] == words
