"""Which parts of a user turn stand between tags."""

from __future__ import annotations

import time

import pytest

from proxy.withhold.tags import tagged


def parts(*texts: str) -> list[list[tuple[str, str]]]:
    """For each string what stands between tags, and the tags' name."""
    found = tagged(texts)
    return [
        [(text[one.start : one.end], one.name) for one in each]
        for text, each in zip(texts, found, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", []),
        ("Hi. <a>x</a> Bye.", [("<a>x</a>", "a")]),
        ("<A b='c'>x</a >", [("<A b='c'>x</a >", "a")]),
        ("<a>x</a> y <b>z</b>", [("<a>x</a>", "a"), ("<b>z</b>", "b")]),
        ("<a>1</a> 2 <a>3</a>", [("<a>1</a> 2 <a>3</a>", "a")]),
        ("<a><b>x</b></a>", [("<a><b>x</b></a>", "a")]),
        ("<a>1 <b>2</a> 3</b>", [("<a>1 <b>2</a> 3</b>", "")]),
        ("1 < 2 and List<String> x", []),
        ("<br/> a </br>", []),
        ("</a> x <a>", []),
    ],
)
def test_a_pair_reaches_from_the_first_to_the_last_tag_of_its_name(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert parts(text) == [expected]


def test_a_pair_may_include_whole_strings_of_a_turn() -> None:
    found = parts("Hi. <hook>a", "b", "c</hook> Bye.", "Mine.")
    assert found == [[("<hook>a", "hook")], [("b", "hook")], [("c</hook>", "hook")], []]
    # Control: what stands between two pairs is hers.
    assert parts("<r>a</r>", "Mine.", "<r>b</r>")[1] == []


@pytest.mark.parametrize("tag", ["<a>", "<a", "</a>", "<a b", "<"])
def test_many_open_tags_are_read_in_a_moment(tag: str) -> None:
    began = time.perf_counter()
    texts = ["".join(f"{tag[:-1]}{at}{tag[-1:]}" for at in range(20_000)), tag * 150_000]
    tagged(texts)
    assert time.perf_counter() - began < 5
