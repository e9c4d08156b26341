"""JSON inside a text is read where every reader reads it alike, and else not at all."""

from __future__ import annotations

import pytest

from proxy.dialects.strict_json.in_text import read_container


@pytest.mark.parametrize(
    ("text", "value"), [('{"a": [1, "b"]}', {"a": [1, "b"]}), ("\n [true]", [True]), ("{}", {})]
)
def test_an_object_or_an_array_is_read(text: str, value: object) -> None:
    assert read_container(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "plain words", '"a string"', "7", "{broken", '{"a": 1, "a": 2}', "[NaN]", "[" * 100_000],
)
def test_what_is_neither_or_what_two_readers_may_read_differently_is_no_container(
    text: str,
) -> None:
    assert read_container(text) is None
